"""Runs hooks: each command with JSON as input, all hooks of an event, and their combined
verdict."""

import asyncio
import os
import re
import shlex
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.settings import EnvironmentRedaction
from alhena.events import Event, HookCallEvent, WarningEvent, timestamp
from alhena.hooks.inputs import apply_request_changes, request_for_hooks
from alhena.hooks.model import (
    ANSWER_LIMIT,
    OUTPUT_LIMIT,
    HookDefinition,
    HookEvent,
    HookGroup,
    HookPlan,
    HookRun,
    HookSource,
    HookVerdict,
    InputForms,
    OnFailure,
)
from alhena.hooks.output import (
    MESSAGE_LIMIT,
    HookAnswer,
    clip_text,
    interpret,
    next_input,
    unknown_keys,
)
from alhena.hooks.trust import fingerprint
from alhena.system.environment import child_environment
from alhena.system.errors import ProcessStartError
from alhena.system.processes import (
    CommandLimits,
    ProcessCommand,
    ProcessGroups,
    ReachedLimit,
    run_process,
    shell_path,
)
from alhena.threads import in_daemon_thread, is_cancelled
from alhena.values import FailedCall
from alhena.wire.content import Content, EncodedContent, encode_value, mend
from alhena.wire.errors import EncodeError
from alhena.wire.request import GenerateContentRequest

if TYPE_CHECKING:
    from alhena.hooks.functions import HookInput


def iso_now() -> str:
    """The current time for `timestamp`: UTC, milliseconds."""
    return timestamp(time.time_ns())


class HookSurroundings(msgspec.Struct, kw_only=True):
    """The common environment of a session's hooks. `groups` guards their processes while they run,
    `running` has their ids, `now` returns the timestamp of an event. `failed`
    takes what a function raised and returns what the model reads of it; "" for the usual text;
    `refuse` ends the run because of what the program did wrong."""

    session_id: str
    cwd: str
    environ: Mapping[str, str]
    project_dir: str
    plans_dir: str = ""
    transcript_path: str = ""
    redaction: EnvironmentRedaction = EnvironmentRedaction()
    groups: ProcessGroups | None = None
    running: set[int] = msgspec.field(default_factory=set[int])
    now: Callable[[], str] = iso_now
    failed: Callable[[FailedCall], str] | None = None
    refuse: Callable[[str], object] = str

    def base_input(self, event: str) -> dict[str, Any]:
        """The input common to all hooks."""
        return {
            "session_id": self.session_id,
            "transcript_path": self.transcript_path,
            "cwd": self.cwd,
            "hook_event_name": event,
            "timestamp": self.now(),
        }

    @property
    def variables(self) -> dict[str, str]:
        """The variables set for hooks in addition to the user's environment."""
        return {
            "GEMINI_PROJECT_DIR": self.project_dir,
            "GEMINI_PLANS_DIR": self.plans_dir,
            "GEMINI_CWD": self.cwd,
            "GEMINI_SESSION_ID": self.session_id,
            "CLAUDE_PROJECT_DIR": self.project_dir,
        }

    def kill(self) -> None:
        """Kills running hooks at once; for an exit without waiting."""
        for pid in tuple(self.running):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


class _Capture:
    """The beginning of a stream, at most ANSWER_LIMIT bytes, and its length."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.length = 0

    def feed(self, data: bytes) -> None:
        """Adds bytes."""
        self.length += len(data)
        self.kept += data[: ANSWER_LIMIT - len(self.kept)]


async def run_hook(hook: HookDefinition, document: bytes, around: HookSurroundings) -> HookRun:
    """Runs a hook with `document` as its standard input.

    It has its own session. When it ends, times out, or this is cancelled, its whole process tree is
    killed: SIGTERM, a grace of 0.2 s, SIGKILL.
    """
    started = time.perf_counter()
    out, errors = _Capture(), _Capture()
    problem, exit_code = "", None
    pids: list[int] = []

    def running(pid: int) -> None:
        pids.append(pid)
        around.running.add(pid)

    try:
        ending = await run_process(
            _command(hook, document, around),
            out.feed,
            errors=errors.feed,
            limits=CommandLimits(inactivity=0, total=hook.timeout_ms / 1000),
            groups=around.groups,
            started=running,
        )
        exit_code = ending.exit_code
        if ending.stopped is ReachedLimit.TOTAL:
            problem, exit_code = f"Hook timed out after {hook.timeout_ms}ms", None
        elif exit_code is None:
            problem = f"it was ended by {_signal_name(ending.signal)}"
    except ProcessStartError as error:
        problem = str(error)
    finally:
        around.running.difference_update(pids)
    return HookRun(
        exit_code=exit_code,
        stdout=bytes(out.kept),
        stderr=bytes(errors.kept),
        stdout_bytes=out.length,
        stderr_bytes=errors.length,
        duration_ms=round((time.perf_counter() - started) * 1000, 3),
        problem=problem,
    )


async def call_hook(
    function: Callable[[Any], Any],
    told: dict[str, Any],
    timeout_ms: int,
    contents: tuple[Content, ...] = (),
) -> HookRun:
    """Calls a hook of a program, in a thread if it is not async; what it returns counts as the
    output of a command. `contents` are those of the request, for a hook that takes an object."""
    kind: type[HookInput] | None = getattr(function, "kind", None)
    function = getattr(function, "function", function) if kind is not None else function
    given: Any = told
    changed: tuple[Content, ...] | None = None
    started = time.perf_counter()
    output, problem, raised = b"", "", None
    try:
        if kind is not None:
            from alhena.hooks import functions

            given = functions.make_input(kind, told, contents)
        async with asyncio.timeout(timeout_ms / 1000):
            if iscoroutinefunction(function):
                said = await function(given)
            else:
                said = await in_daemon_thread(lambda: function(given))
                said = await said if isawaitable(said) else said
        if kind is not None:
            from alhena.hooks import functions

            said, changed = functions.output_of(said)
        if isinstance(said, dict):
            _require_known_keys(cast("dict[Any, Any]", said))
            output = repr(cast("object", said)).encode("utf-8", "replace")  # its answer can be read
            output = msgspec.json.encode(said)
        elif said is not None:
            problem = f"it returned {type(said).__name__} instead of a dict or None"
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raised = RuntimeError("something it awaited was cancelled")
        problem = f"it failed: {raised}"
    except Exception as error:  # noqa: BLE001  a function of the program may raise anything
        problem, raised = f"it raised {type(error).__name__}: {error}", error
    return HookRun(
        exit_code=None if problem else 0,
        stdout=output,
        stdout_bytes=len(output),
        duration_ms=round((time.perf_counter() - started) * 1000, 3),
        problem=problem,
        exception=raised,
        contents=changed,
    )


class UnknownKeyError(TypeError):
    """A hook of the program returned a key that means nothing."""


def _require_known_keys(said: dict[Any, Any]) -> None:
    unknown = unknown_keys(said)
    if unknown:
        raise UnknownKeyError(f"it returned the unknown key {unknown[0]!r:.60}")


def _command(hook: HookDefinition, document: bytes, around: HookSurroundings) -> ProcessCommand:
    variables = around.variables
    redaction = around.redaction
    if hook.source is HookSource.USER:  # as if the person had started it
        redaction = msgspec.structs.replace(redaction, enabled=False)
    clean = child_environment(around.environ, redaction, defaults={}).variables
    # A hook's own variables are as trusted as its command, which could set them itself.
    env = {**clean, **variables, **hook.env}
    bash = shell_path(env)
    if bash is None:
        raise ProcessStartError("bash, which runs hooks, is not on the PATH.")
    return ProcessCommand(
        argv=(bash, "-c", substitute_variables(hook.command, variables)),
        cwd=around.cwd,
        env=env,
        merge_stderr=False,
        stdin=document,
        leaves_nothing=True,
        label=hook.label or "hook",  # detached processes are killed too
    )


_WORD = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|\$\{(\w+)\}|\$(\w+)", re.DOTALL)
"""An escaped character, a quoted text, or a variable."""


def substitute_variables(command: str, variables: Mapping[str, str]) -> str:
    """`command` with each unquoted `$NAME` and `${NAME}` of `variables` replaced by one quoted
    word.

    Bash would split an unquoted value at its spaces. Inside double quotes bash inserts the same
    value itself, and added quotes would become part of it.
    """

    def quote_variable(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return shlex.quote(variables[name]) if name in variables else found[0]

    return _WORD.sub(quote_variable, command)


def _signal_name(number: int | None) -> str:
    if number is None:
        return "a signal"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


EVENT_OUTPUT = 10_000
"""Maximum characters of a stream in a HookCallEvent."""

MAX_AT_ONCE = 8


class HookResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one hook: `matcher` is that of its group, `said` its verdict after its failure
    was weighed."""

    hook: HookDefinition
    run: HookRun
    answer: HookAnswer
    said: HookVerdict
    input: dict[str, Any]


class HookFiring:
    """The run of all hooks of one event."""

    def __init__(
        self,
        event: HookEvent,
        groups: tuple[HookGroup, ...],
        around: HookSurroundings,
        emit: Callable[[Event], None],
        forms: InputForms | None = None,
        request: GenerateContentRequest | None = None,
    ) -> None:
        self._forms = forms
        self._request = request
        self._changed = False
        self._event = event
        self._groups = groups
        self._around = around
        self._emit = emit

    async def run(self, plan: HookPlan, fields: dict[str, Any]) -> list[HookResult]:
        """Runs the hooks of a plan and returns their results in the order of the plan."""
        told = {**self._around.base_input(self._event), **fields}
        if plan.sequential:
            heard: list[HookResult] = []
            for hook, names in plan.heard:
                hearing = await self._hear(hook, _rename_tool(told, names))
                told = self._next_input(told, hearing.said)
                if self._changed:
                    said = msgspec.structs.replace(hearing.said, request=self._request)
                    hearing = msgspec.structs.replace(hearing, said=said)
                heard.append(hearing)
            return heard
        room = asyncio.Semaphore(MAX_AT_ONCE)

        async def in_turn(hook: HookDefinition, names: tuple[str, ...]) -> HookResult:
            async with room:
                return await self._hear(hook, _rename_tool(told, names))

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(in_turn(*each)) for each in plan.heard]
        return [task.result() for task in running]

    def _next_input(self, told: dict[str, Any], said: HookVerdict) -> dict[str, Any]:
        """The input of the next hook; changed parameters appear under all their names."""
        following = next_input(self._event, told, said)
        if self._request is not None and (said.llm_request or said.contents is not None):
            self._request = _change_request(self._request, said)
            self._changed = True
            following["llm_request"] = request_for_hooks(self._request)
        if said.tool_input is not None and self._forms is not None:
            following["tool_input"] = self._forms.shown(following["tool_input"])
        return following

    def _verdict_of(
        self,
        hook: HookDefinition,
        answer: HookAnswer,
        told: dict[str, Any],
        contents: tuple[Content, ...] | None,
    ) -> HookVerdict:
        """The verdict of an answer, with returned parameters reduced to actual changes."""
        said = apply_failure_policy(hook, answer)
        if contents is not None and said.block is None and said.stop is None:
            said = msgspec.structs.replace(said, contents=contents)
        if said.tool_input is None or self._forms is None:
            return said
        given = self._forms.changes(told.get("tool_input", {}), said.tool_input)
        return msgspec.structs.replace(said, tool_input=given or None)

    async def _hear(self, hook: HookDefinition, told: dict[str, Any]) -> HookResult:
        started = time.perf_counter()
        try:
            run = await self._run(hook, told)
        except asyncio.CancelledError:
            self._tell_of_call(
                hook,
                told,
                duration_ms=round((time.perf_counter() - started) * 1000, 3),
                success=False,
                outcome="cancelled",
                message="it was ended with what it ran for",
            )
            raise
        answer = await self._interpret(run)
        said = self._verdict_of(hook, answer, told, run.contents)
        hearing = HookResult(hook=hook, run=run, answer=answer, said=said, input=told)
        self._tell(hearing)
        return hearing

    async def _run(self, hook: HookDefinition, told: dict[str, Any]) -> HookRun:
        problem = self._trust_mismatch(hook)
        try:
            document = _encode_input(told)
        except EncodeError as error:
            document, problem = b"", str(error)
        if problem:
            return HookRun(problem=problem)
        if hook.function is not None:
            sent = () if self._request is None else self._request.contents
            contents = tuple(entry.content for entry in sent)
            return self._report(
                told, await call_hook(hook.function, told, hook.timeout_ms, contents)
            )
        return await run_hook(hook, document, self._around)

    def _report(self, told: dict[str, Any], run: HookRun) -> HookRun:
        """Reports what a function raised; the program may say what the model reads of it."""
        if run.exception is None or self._around.failed is None:
            return run
        if isinstance(run.exception, UnknownKeyError):
            self._around.refuse(f"a hook of {self._event} is wrong: {run.exception}.")
        said = self._around.failed(
            FailedCall(
                call_id="" if self._forms is None else self._forms.call_id,
                name=told.get("tool_name", str(self._event)),
                args=told.get("tool_input", {}),
                exception=run.exception,
            )
        )
        return msgspec.structs.replace(run, problem=said or run.problem)

    async def _interpret(self, run: HookRun) -> HookAnswer:
        if len(run.stdout) + len(run.stderr) <= OUTPUT_LIMIT:
            return interpret(self._event, run)
        return await asyncio.to_thread(interpret, self._event, run)  # it may take seconds

    def _trust_mismatch(self, hook: HookDefinition) -> str:
        """The reason why a project's hook differs from the trusted one; "" if it does not."""
        if hook.source is not HookSource.PROJECT or not hook.fingerprint:
            return ""
        project = self._around.project_dir
        for group in self._groups:
            for each in group.hooks:
                # As written: a hook in several places was merged with the others.
                if each.place == hook.place and group.event is self._event:
                    now = fingerprint(self._event, group.matcher, each, project)
                    if now == hook.fingerprint:
                        return ""
        return "it is not what was trusted: a file that its command names has changed"

    def _tell(self, hearing: HookResult) -> None:
        hook, run, said = hearing.hook, hearing.run, hearing.said
        failure = hearing.answer.failure
        self._tell_of_call(
            hook,
            hearing.input,
            duration_ms=run.duration_ms,
            success=run.exit_code == 0 and not failure,
            outcome=outcome_of(said, failure),
            exit_code=run.exit_code,
            message=failure or said.stop or said.block or said.reason,
            stdout=_excerpt(run.stdout),
            stderr=_excerpt(run.stderr),
        )
        shown = f"the {self._event} hook {clip_text(hook.label, 200)}"
        if failure:
            by_failure = said.block is not None and hearing.answer.verdict.block is None
            why = "it is one of the program" if hook.function is not None else "of its onFailure"
            blocks = f" Because {why}, this blocks." if by_failure else ""
            self._emit(WarningEvent(message=f"{shown} failed: {failure.rstrip('.')}.{blocks}"))
        for message in said.system_messages:
            self._emit(WarningEvent(message=f"{shown} says: {message}"))

    def _tell_of_call(self, hook: HookDefinition, told: dict[str, Any], **fields: Any) -> None:
        self._emit(
            HookCallEvent(
                event=self._event,
                name=hook.label,
                kind=hook.kind,
                source=hook.source,
                input=told,
                **fields,
            )
        )


def _change_request(request: GenerateContentRequest, said: HookVerdict) -> GenerateContentRequest:
    if said.llm_request is not None:
        request = apply_request_changes(request, said.llm_request)
    if said.contents is None:
        return request
    contents = tuple(EncodedContent(each) for each in said.contents)
    return msgspec.structs.replace(request, contents=contents)


def apply_failure_policy(hook: HookDefinition, answer: HookAnswer) -> HookVerdict:
    """The verdict of an answer, with a failure treated as the hook's settings require."""
    said = answer.verdict
    if not answer.failure or said.stop is not None or said.block is not None:
        return said
    if hook.on_failure is OnFailure.WARN:
        return said
    reason = clip_text(f"the hook {hook.label} failed: {answer.failure}", MESSAGE_LIMIT)
    return msgspec.structs.replace(said, block=reason, ask=False, reason="")


def outcome_of(said: HookVerdict, failure: str) -> str:
    """The `outcome` of a HookCallEvent."""
    if said.stop is not None:
        return "stop"
    if said.block is not None:
        return "block"
    if said.ask:
        return "ask"
    return "warn" if failure else "allow"


def _rename_tool(told: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The same input under the tool name that the hook's matcher uses."""
    if not names or told.get("tool_name") in names:
        return told
    return {**told, "tool_name": names[0]}


def _encode_input(told: dict[str, Any]) -> bytes:
    try:
        return encode_value(told)
    except UnicodeEncodeError:
        return encode_value(mend(told))


def _excerpt(data: bytes) -> str:
    return clip_text(data[: 4 * EVENT_OUTPUT].decode("utf-8", "replace"), EVENT_OUTPUT)
