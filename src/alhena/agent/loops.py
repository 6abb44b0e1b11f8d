"""Detects loops in a conversation, asks a model to judge, and warns the model first."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from alhena.agent.limits import LoopError
from alhena.agent.toolset.model_access import PLAIN, SessionModel
from alhena.agent.toolset.toolset import SessionLinks
from alhena.chat.chat import Chat
from alhena.chat.loops import (
    CalledTool,
    CallLoops,
    Loop,
    LoopKind,
    loop_note,
    loop_question,
)
from alhena.chat.turn import ChantingError
from alhena.errors import AlhenaError
from alhena.events import Event, LoopCheckEvent, LoopDetectedEvent
from alhena.models.catalogue import FLASH
from alhena.scheduler.states import CallStatus, CompletedToolCall
from alhena.tools.contract import ToolErrorType
from alhena.wire.conformance.history import slice_history
from alhena.wire.content import MODEL, USER, Content, Part, for_another_model, text_content

if TYPE_CHECKING:
    from alhena.wire.response import GenerateContentResponse

GO_ON = "Please continue."
"""Message to the model if there is nothing else to say."""

_QUOTED = 80
_SHELL = "run_shell_command"
_WORDS = {_SHELL: ("description",), "replace": ("instruction",), "smart_edit": ("instruction",)}
"""Parameters that describe a call to people and do not affect it."""


class LoopWatch:
    """Loop detection for one prompt of a session, or for one subagent. `emit` gets an event for
    every loop."""

    def __init__(self, emit: Callable[[Event], None], role: str = "main") -> None:
        self._emit = emit
        self._role = role
        self._calls = CallLoops()
        self._corrected = False

    def calls(self, done: Sequence[CompletedToolCall]) -> Loop | None:
        """The loop completed by a turn's calls, if any."""
        return self._calls.feed([_normalize_call(call) for call in done])

    def correct(self, loop: Loop, prompt_id: str) -> Part | None:
        """The note to the model about a loop; None after the first in a prompt. Resets the
        counts."""
        self._calls.reset()
        if self._corrected:
            return None
        self._corrected = True
        self._tell(loop, prompt_id, "corrected")
        return Part(text=loop_note(loop.detail))

    def ignore(self, loop: Loop, prompt_id: str) -> None:
        """Emits the event that a person chose to continue."""
        self._tell(loop, prompt_id, "ignored")

    def end(self, loop: Loop, prompt_id: str) -> LoopError:
        """The error that ends the run."""
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


def describe_chanting(error: ChantingError) -> Loop:
    """The loop for which an answer was broken off."""
    said = " ".join(error.repeated.split())[:_QUOTED]
    return Loop(LoopKind.CHANTING, f'"…{said}…"')


def _normalize_call(call: CompletedToolCall) -> CalledTool:
    """The call without what makes every one of its kind another: words that only describe it, and
    what our own report of it tells of processes and files."""
    request, response = call.request, call.response
    name = request.name if call.tool is None else call.tool.name
    args = {key: value for key, value in request.args.items() if key not in _WORDS.get(name, ())}
    own: list[str] = []
    if name == _SHELL and isinstance(args.get("command"), str):
        own.append(args["command"])
        args["command"] = _strip_comments(args["command"])
    if response.output_file is not None:
        own.append(response.output_file)
    parts = response.response_parts
    if own:
        parts = tuple(_remove_mentions(part, own, shell=name == _SHELL) for part in parts)
    failed = call.status is not CallStatus.SUCCESS
    refused = call.status is CallStatus.CANCELLED or (
        response.error_type is ToolErrorType.POLICY_VIOLATION
    )
    return CalledTool(name, args, parts, failed, refused)


def _strip_comments(command: str) -> str:
    """A command without comments and surrounding blanks."""
    from alhena.shell.parse.parser import without_comments

    return without_comments(command).strip()


def _remove_mentions(part: Part, own: Sequence[str], *, shell: bool) -> Part:
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


ROLE = "utility_loop_detector"
LOOKED_AT = 20
"""Number of last contents that are judged."""
SURE = 0.9
"""Lowest confidence that makes a loop."""
INTERVAL = (5, 15)
"""Minimum and maximum turns between two checks; a higher confidence means fewer."""

_LEAD = "[What was said before is left out.]"
_SCHEMA = {
    "type": "object",
    "properties": {
        "unproductive_state_analysis": {"type": "string"},
        "unproductive_state_confidence": {"type": "number"},
    },
    "required": ["unproductive_state_analysis", "unproductive_state_confidence"],
}


class _Verdict(msgspec.Struct):
    unproductive_state_confidence: float
    unproductive_state_analysis: str = ""


class LoopJudge:
    """Asks first after `first` turns of a prompt, then now and then. Where the session's model is a
    Gemini model a quick one is asked first, and the session's own only when that one is sure.

    An answer that fails, or is none, says nothing; its failure is an event of its own.
    """

    def __init__(self, chat: Chat, links: SessionLinks, first: int) -> None:
        self._chat = chat
        plain = PLAIN.with_tier(chat.config.service_tier)
        self._model = SessionModel(
            links.answering, links.emit, texts=links.texts, role=ROLE, config=plain
        )
        self._emit = links.emit
        self._first = first
        self._turns = 0
        self._next = first

    def new_prompt(self) -> None:
        """Resets for a prompt."""
        self._turns = 0
        self._next = self._first

    async def after_turn(self, prompt_id: str) -> Loop | None:
        """Asks the models if a check is due; returns the loop they are sure of."""
        self._turns += 1
        if self._turns < self._next:
            return None
        own = self._chat.model.name
        quick = FLASH if own.startswith("gemini-") else own
        first = await self._request_verdict(quick)
        second = None
        if first is not None and first.unproductive_state_confidence >= SURE and quick != own:
            second = await self._request_verdict(own)
        confidence = 0.0 if first is None else first.unproductive_state_confidence
        least, most = INTERVAL
        self._next = self._turns + round(least + (most - least) * (1 - confidence))
        if first is None:
            return None
        self._emit(
            LoopCheckEvent(
                prompt_id=prompt_id,
                model=quick,
                confidence=confidence,
                second_model="" if second is None else own,
                second_confidence=0.0 if second is None else second.unproductive_state_confidence,
            )
        )
        last = first if quick == own else second
        if last is None or last.unproductive_state_confidence < SURE or confidence < SURE:
            return None
        analysis = " ".join(last.unproductive_state_analysis.split())[:500].rstrip(".")
        return Loop(LoopKind.JUDGED, analysis or "no progress was made for many turns")

    async def _request_verdict(self, model: str) -> _Verdict | None:
        try:
            answer = await self._model.generate(self._contents(), model=model, schema=_SCHEMA)
        except AlhenaError:  # which is an event of its own
            return None
        return _verdict(answer)

    def _contents(self) -> tuple[Content, ...]:
        """The request: the end of the conversation and the question."""
        contents = [entry.content for entry in self._chat.history.contents]
        end = slice_history(contents, -LOOKED_AT, lead=text_content(USER, _LEAD))
        shown = [for_another_model(content, sign_calls=False) for content in end]
        if shown and shown[-1].role == USER:
            shown.append(text_content(MODEL, "[I am about to continue.]"))
        return (*shown, text_content(USER, loop_question()))


_SPEAKER = "utility_next_speaker"
_MOST_CONTINUATIONS = 10
"""Times in a row that an answer is continued."""
_SPEAKER_SCHEMA = {
    "type": "object",
    "properties": {"next_speaker": {"type": "string", "enum": ["user", "model"]}},
    "required": ["next_speaker"],
}
_SPEAKER_QUESTION = (
    "Look at your last answer only. Answer `model` if it says what you do next and does not do it, "
    "or breaks off. Answer `user` if it asks the user something, or is complete."
)


class CompletionJudge:
    """Asks the model after an answer without calls whether it is complete."""

    def __init__(self, chat: Chat, links: SessionLinks) -> None:
        self._chat = chat
        plain = PLAIN.with_tier(chat.config.service_tier)
        self._model = SessionModel(
            links.answering, links.emit, texts=links.texts, role=_SPEAKER, config=plain
        )
        self._count = 0

    async def continuation(self) -> Part | None:
        """The message that has the model continue; None if it is the person's turn, or an answer
        to the question fails."""
        contents = [entry.content for entry in self._chat.history.contents]
        end = slice_history(contents, -LOOKED_AT, lead=text_content(USER, _LEAD))
        shown = [for_another_model(content, sign_calls=False) for content in end]
        question = (*shown, text_content(USER, _SPEAKER_QUESTION))
        model = self._chat.model.name
        try:
            answer = await self._model.generate(question, model=model, schema=_SPEAKER_SCHEMA)
        except AlhenaError:  # which is an event of its own
            return None
        text = "".join(part.text or "" for part in answer.parts if not part.thought)
        self._count = self._count + 1 if '"model"' in text else 0
        return Part(text=GO_ON) if 0 < self._count <= _MOST_CONTINUATIONS else None


def _verdict(answer: "GenerateContentResponse") -> _Verdict | None:
    text = "".join(part.text or "" for part in answer.parts if not part.thought)
    try:
        verdict = msgspec.json.decode(text, type=_Verdict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    sure = min(max(verdict.unproductive_state_confidence, 0.0), 1.0)
    return msgspec.structs.replace(verdict, unproductive_state_confidence=sure)
