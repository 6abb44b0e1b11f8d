"""`alhena hooks test`: runs the hooks of one event with a sample input."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.environment import own_environment
from alhena.display_text import one_line
from alhena.errors import InputError, UsageError
from alhena.frontends.cli.hooks import tell_problems
from alhena.frontends.cli.inputs import parse_json
from alhena.frontends.streams import write_json, write_stderr, write_stdout
from alhena.hooks import inputs
from alhena.hooks.firing import Firing, Hearing, HookSurroundings, outcome_of
from alhena.hooks.gather import HooksRequest, HookState, gather_hooks
from alhena.hooks.model import HookEvent, HookVerdict
from alhena.hooks.output import aggregate
from alhena.hooks.system import plan
from alhena.system.processes import ProcessGroups
from alhena.tools.names import ALIASES, BUILT_IN, all_names, declared_name

if TYPE_CHECKING:
    from argparse import Namespace

SAMPLE_TOOL = "write_file"
_REQUEST = {"model": "gemini-2.5-pro", "messages": [{"role": "user", "content": "Hello"}]}
_RESPONSE = {
    "text": "Hello!",
    "candidates": [{"content": {"role": "model", "parts": ["Hello!"]}, "finishReason": "STOP"}],
}
_TRIGGERS = {
    HookEvent.SESSION_START: "source",
    HookEvent.SESSION_END: "reason",
    HookEvent.PRE_COMPRESS: "trigger",
}


def test(options: "Namespace", request: HooksRequest) -> int:
    """Carries out `alhena hooks test`. Raises UsageError for wrong arguments."""
    event = _event(options.event)
    tool: str = options.tool or SAMPLE_TOOL
    fields = {**sample(event, tool), **_given(options.input)}
    if event in (HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL):
        tool = str(fields.get("tool_name", tool))
        names = tuple(dict.fromkeys((tool, *all_names(declared_name(tool)))))
    else:
        names = (str(fields.get(_TRIGGERS.get(event, ""), "")),)
    gathered = gather_hooks(request)
    tell_problems(gathered)
    waiting = [each for each in gathered.entries if each.state is HookState.UNTRUSTED]
    if waiting:
        write_stderr(f"alhena: note: {len(waiting)} hooks of this project are not trusted.\n")
    groups = gathered.groups()
    chosen = plan(event, names, groups, lambda name: name in BUILT_IN or name in ALIASES)
    cwd = str(request.cwd)
    around = HookSurroundings(
        session_id="hooks-test",
        cwd=cwd,
        environ=own_environment(request.environ),
        project_dir=cwd,
        redaction=request.settings.security.environment_variable_redaction,
    )

    async def once() -> list[Hearing]:
        around.groups = ProcessGroups()
        try:
            firing = Firing(event, groups, around, lambda _event: None)
            return await firing.run(chosen, fields)
        finally:
            await around.groups.close()

    heard = asyncio.run(once())
    verdict = aggregate([each.said for each in heard])
    if options.json:
        write_json({"hooks": [_as_json(each) for each in heard], "verdict": _plain(verdict)})
    else:
        _tell(event, fields, heard, verdict)
    return 1 if any(each.answer.failure for each in heard) else 0


def sample(event: HookEvent, tool: str) -> dict[str, Any]:
    """What an event might bring."""
    arguments = {"file_path": "example.txt", "content": "Hello"} if tool == SAMPLE_TOOL else {}
    before = inputs.before_tool(tool, arguments)
    samples: dict[HookEvent, dict[str, Any]] = {
        HookEvent.BEFORE_TOOL: before,
        HookEvent.AFTER_TOOL: inputs.after_tool(before, "Done.", "Done."),
        HookEvent.BEFORE_AGENT: inputs.before_agent("Hello"),
        HookEvent.AFTER_AGENT: inputs.after_agent("Hello", "Hello!", stop_hook_active=False),
        HookEvent.NOTIFICATION: inputs.notification(
            f"{tool} needs your approval", {"type": "info", "title": "A sample"}
        ),
        HookEvent.SESSION_START: inputs.session_start("startup"),
        HookEvent.SESSION_END: inputs.session_end("exit"),
        HookEvent.PRE_COMPRESS: inputs.pre_compress("auto"),
        HookEvent.BEFORE_MODEL: inputs.before_model(_REQUEST),
        HookEvent.AFTER_MODEL: inputs.after_model(_REQUEST, _RESPONSE),
        HookEvent.BEFORE_TOOL_SELECTION: inputs.before_model(_REQUEST),
    }
    return samples[event]


def _event(name: str) -> HookEvent:
    try:
        return HookEvent(name)
    except ValueError as error:
        raise UsageError(
            f"there is no event {name!r}.", remedy=f"The events are {', '.join(HookEvent)}."
        ) from error


def _given(text: str) -> dict[str, Any]:
    try:
        found = parse_json(text)
    except InputError as error:
        raise UsageError(
            f"--input is no JSON object: {error.message}.", remedy="Write --input '{…}'."
        ) from error
    if not isinstance(found, dict):
        raise UsageError("--input is no JSON object.", remedy="Write --input '{…}'.")
    return cast("dict[str, Any]", found)


def _tell(
    event: HookEvent, fields: dict[str, Any], heard: list[Hearing], verdict: HookVerdict
) -> None:
    if not heard:
        write_stdout(f"No hook hears of this {event}.\n")
        return
    write_stdout(f"{event}: {one_line(msgspec.json.encode(fields).decode())}\n")
    for each in heard:
        run, failure = each.run, each.answer.failure
        code = "none" if run.exit_code is None else str(run.exit_code)
        outcome = outcome_of(each.said, failure)
        write_stdout(
            f"\n{one_line(each.hook.label)} ({each.hook.source}): {outcome}\n"
            f"    exit code {code}, {run.duration_ms:.0f} ms\n"
        )
        for label, text in (
            ("failed", failure),
            ("stdout", run.stdout.decode("utf-8", "replace")),
            ("stderr", run.stderr.decode("utf-8", "replace")),
            ("says", msgspec.json.encode(_plain(each.said)).decode()),
        ):
            if text.strip():
                write_stdout(f"    {label}: {one_line(text, 2000)}\n")
    write_stdout(f"\nTogether: {one_line(msgspec.json.encode(_plain(verdict)).decode())}\n")


def _as_json(heard: Hearing) -> dict[str, Any]:
    run = heard.run
    return {
        "name": heard.hook.label,
        "source": heard.hook.source,
        "input": heard.input,
        "exitCode": run.exit_code,
        "durationMs": run.duration_ms,
        "stdout": run.stdout.decode("utf-8", "replace"),
        "stderr": run.stderr.decode("utf-8", "replace"),
        "failure": heard.answer.failure or None,
        "outcome": outcome_of(heard.said, heard.answer.failure),
        "verdict": _plain(heard.said),
    }


def _plain(verdict: HookVerdict) -> dict[str, Any]:
    """What a verdict says; what it does not say is absent."""
    found = cast("dict[str, Any]", msgspec.to_builtins(verdict))
    silent = cast("dict[str, Any]", msgspec.to_builtins(HookVerdict()))
    return {key: value for key, value in found.items() if value != silent[key]}
