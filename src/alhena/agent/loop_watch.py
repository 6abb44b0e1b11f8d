"""Watches a conversation for loops: a word to the model at the first, an error at the second."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from alhena.agent.errors import LoopError
from alhena.chat.loops import (
    CalledTool,
    CallLoops,
    Loop,
    LoopKind,
    loop_note,
    own_words,
    without_own,
)
from alhena.chat.turn import ChantingError
from alhena.events import Event, LoopDetectedEvent
from alhena.scheduler.states import CompletedToolCall, Status
from alhena.tools.contract import ToolErrorType
from alhena.wire.content import Part

GO_ON = "Please go on."
"""What is sent where there is nothing else to say."""

_QUOTED = 80
_SHELL = "run_shell_command"
_WORDS = {_SHELL: ("description",), "replace": ("instruction",), "smart_edit": ("instruction",)}
"""Parameters that tell people what a call is for, and change nothing of what it does."""


class LoopWatch:
    """One prompt of a session, or one subagent. `emit` hears of every loop."""

    def __init__(self, emit: Callable[[Event], None], role: str = "main") -> None:
        self._emit = emit
        self._role = role
        self._calls = CallLoops()
        self._corrected = False

    def calls(self, done: Sequence[CompletedToolCall]) -> Loop | None:
        """The loop that a turn's calls complete, if they do."""
        return self._calls.feed([_called(call) for call in done])

    def correct(self, loop: Loop, prompt_id: str) -> Part | None:
        """What to tell the model; None when it was told before. Then the count begins anew."""
        self._calls.reset()
        if self._corrected:
            return None
        self._corrected = True
        self._tell(loop, prompt_id, "corrected")
        return Part(text=loop_note(loop.detail))

    def ignore(self, loop: Loop, prompt_id: str) -> None:
        """A person wants to go on."""
        self._tell(loop, prompt_id, "ignored")

    def end(self, loop: Loop, prompt_id: str) -> LoopError:
        """The error that the run ends with."""
        self._tell(loop, prompt_id, "ended")
        return LoopError(
            f"Loop detected, stopping execution: {loop.detail}, also after the model was told.",
            remedy="Say what it should do instead; model.disableLoopDetection turns this off.",
        )

    def _tell(
        self, loop: Loop, prompt_id: str, action: Literal["corrected", "ignored", "ended"]
    ) -> None:
        self._emit(
            LoopDetectedEvent(
                kind=loop.kind,
                detail=loop.detail,
                action=action,
                prompt_id=prompt_id,
                role=self._role,
            )
        )


def chanting(error: ChantingError) -> Loop:
    """The loop that an answer was broken off for."""
    said = " ".join(error.repeated.split())[:_QUOTED]
    return Loop(LoopKind.CHANTING, f'the answer said the same over and over ("…{said}…")')


def _called(call: CompletedToolCall) -> CalledTool:
    """The call without what makes every one of its kind another: words that only describe it, and
    what our own report of it tells of processes and files."""
    request, response = call.request, call.response
    name = request.name if call.tool is None else call.tool.name
    args = {key: value for key, value in request.args.items() if key not in _WORDS.get(name, ())}
    own: list[str] = []
    if name == _SHELL and isinstance(args.get("command"), str):
        own.append(args["command"])
        args["command"] = _bare(args["command"])
    if response.output_file is not None:
        own.append(response.output_file)
    parts = response.response_parts
    if own:
        parts = tuple(_without(part, own, shell=name == _SHELL) for part in parts)
    failed = call.status is not Status.SUCCESS
    refused = call.status is Status.CANCELLED or (
        response.error_type is ToolErrorType.POLICY_VIOLATION
    )
    likeness = _likeness(args, parts) if name == _SHELL and not failed else None
    return CalledTool(name, args, parts, failed, refused, likeness)


def _bare(command: str) -> str:
    """A command without comments, and blanks around it."""
    from alhena.policy.bash.layout import without_comments

    return without_comments(command).strip()


def _likeness(args: Mapping[str, Any], parts: Sequence[Part]) -> str | None:
    """Of a command that has written something, its line without numbers and what it came to; of one
    that ended with an error only that, but for what it repeats of its line. None where it was
    silent: nobody can tell whether it has changed something, each time something else."""
    from alhena.tools.shell_output import NO_OUTPUT, OUTPUT

    responses = [part.function_response.response for part in parts if part.function_response]
    texts = [str(value) for response in responses for value in response.values()]
    silent = (NO_OUTPUT, f"{OUTPUT}{NO_OUTPUT}")
    if any(line in silent for text in texts for line in text.split("\n")):
        return None
    command = str(args.get("command"))
    codes = [code for text in texts for code in re.findall(r"\nExit Code: (\S+)\n", text)[-1:]]
    if all(code == "0" for code in codes):
        return repr(({**args, "command": re.sub(r"\d+", "0", command)}, texts))
    words = re.findall(r"[^\s'\"`;&|<>()]+", command)
    return repr(without_own(texts, own_words({"words": words})))


def _without(part: Part, own: Sequence[str], *, shell: bool) -> Part:
    """An answer without the first mention of each of these, and without ids of processes."""
    from alhena.tools.shell_output import without_ids

    made = part.function_response
    if made is None:
        return part
    fresh = dict(made.response)
    for key, value in fresh.items():
        if isinstance(value, str):
            for each in own:
                value = value.replace(each, "", 1)
            fresh[key] = without_ids(value) if shell else value
    return msgspec.structs.replace(
        part, function_response=msgspec.structs.replace(made, response=fresh)
    )
