"""A run without a person: prompt and stdin in, result out, progress on stderr, an exit code."""

import asyncio
import gc
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from alhena.agent.runner import SessionRunner
from alhena.config.effective_settings import Place
from alhena.display_text import message_line, one_line
from alhena.errors import AlhenaError, InputError, InterruptedRunError
from alhena.events import (
    CompressedEvent,
    Event,
    LoopDetectedEvent,
    RetryEvent,
    RunStartedEvent,
    ThoughtEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    WarningEvent,
)
from alhena.frontends.headless.output import (
    Cost,
    JsonOutput,
    OutputFormat,
    compressed_words,
    denial_reason,
    error_json,
    failed_call_words,
    notice_words,
    output_for,
    retry_words,
    unknown,
)
from alhena.frontends.shared.arguments import RunArguments
from alhena.frontends.shared.current_settings import session_options
from alhena.frontends.shared.streams import (
    StreamError,
    is_terminal,
    json_document,
    report,
    write_stderr,
    write_stdout,
)
from alhena.policy.engine import UNATTENDED
from alhena.session.records import new_session_id
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.frontends.shared.mentions import FilledPrompt
    from alhena.scheduler.states import CompletedToolCall
    from alhena.wire.content import Part

MAX_LINE = 300


class Progress:
    """Lines for stderr. With `verbose` false (no terminal) only what went wrong is written."""

    def __init__(self, write: Callable[[str], None], *, verbose: bool) -> None:
        self._write = write
        self._verbose = verbose
        self._described: dict[str, str] = {}
        self._hinted = False

    def feed(self, event: Event) -> None:
        """Writes the line of an event that has one."""
        match event:
            case RunStartedEvent():
                for notice in event.notices:
                    self._line(f"alhena: {notice}")
            case RetryEvent():
                self._line(f"alhena: {retry_words(event)}")
            case CompressedEvent() if self._verbose:
                self._line(f"alhena: {compressed_words(event)}")
            case ThoughtEvent() if self._verbose and event.subject:
                self._line(f"· {event.subject}")
            case ToolCallUpdateEvent() if event.status == "executing" and event.pid is None:
                described = f"{event.name} {event.description}".strip()
                self._described[event.call_id] = described
                if self._verbose:
                    self._line(f"→ {described}")
            case ToolCallResponseEvent():
                self._report_result(event)
            case _:
                if words := notice_words(event):
                    warns = isinstance(event, WarningEvent | LoopDetectedEvent)
                    self._line(f"alhena: {'warning: ' if warns else ''}{words}")

    def _report_result(self, event: ToolCallResponseEvent) -> None:
        described = self._described.pop(event.call_id, event.name)
        if event.status == "success":
            if self._verbose:
                mark = "✓" if event.outcome == "success" else "✗"
                why = f", {event.command_failure}" if event.command_failure else ""
                self._line(f"{mark} {described} ({_duration(event.duration_ms)}{why})")
            return
        self._line(failed_call_words(event))
        if event.denied and (reason := denial_reason(event)) != (event.error or event.status):
            self._line(f"alhena: {reason}")
        if event.denied and event.reason.endswith(UNATTENDED) and not self._hinted:
            self._hinted = True
            self._line("alhena: --approval-mode and --policy say what may run without asking.")

    def _line(self, text: str) -> None:
        self._write(f"{message_line(text, MAX_LINE)}\n")


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


MAX_BYTES = 8 * 1024 * 1024
PIECE = 1 << 16
ANNOUNCED_AFTER_S = 2.0


def piped_text(
    stream: BinaryIO | None, limit_s: float | None, announce: Callable[[str], object]
) -> tuple[str, str | None]:
    """The text on standard input and a warning, when part of it was left out.

    A terminal is never read, and None is a closed standard input. Input without a byte for
    `limit_s` is left out: unattended jobs often inherit a pipe without a writer; None waits.
    `announce` gets a line once a wait is long.
    """
    if stream is None:
        return "", None
    try:
        if stream.isatty():
            return "", None
        if limit_s is None or stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            data = stream.read(MAX_BYTES + 1)
        else:
            data = _read_pipe(stream.fileno(), limit_s, announce)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read standard input: {error}.", remedy="Pipe text in, or use </dev/null."
        ) from error
    if data is None:
        return "", (
            f"standard input is open but sent nothing in {limit_s:g} s; it was left out. Use "
            "</dev/null where there is none, or raise general.stdinTimeout to wait longer."
        )
    warning = None
    if len(data) > MAX_BYTES:
        data = data[:MAX_BYTES]
        warning = f"standard input is longer than {MAX_BYTES} bytes; the rest was left out."
    if data.isascii():
        return data.decode("ascii").replace("\r\n", "\n"), warning
    from alhena.system.encoding import decode_text

    return decode_text(data).shown, warning


def _read_pipe(descriptor: int, limit_s: float, announce: Callable[[str], object]) -> bytes | None:
    """All that is written to a pipe or socket, up to MAX_BYTES and some; None where it stays
    silent for that many seconds, 0 for no limit."""
    begun = time.monotonic()
    due: float | None = begun + ANNOUNCED_AFTER_S
    end = begun + limit_s if limit_s > 0 else None
    data = bytearray()
    while len(data) <= MAX_BYTES:
        times = [moment for moment in (due, None if data else end) if moment is not None]
        wait = max(0.0, min(times) - time.monotonic()) if times else None
        if not select.select([descriptor], [], [], wait)[0]:
            now = time.monotonic()
            if due is not None and now >= due:
                due = None
                announce("waiting for the end of standard input; use </dev/null to skip it.")
            if not data and end is not None and now >= end:
                return None
            continue
        piece = os.read(descriptor, PIECE)
        if not piece:
            break
        data += piece
    return bytes(data)


def join_prompt(piped: str, prompt: str) -> str:
    """Standard input comes before the prompt. Raises InputError when both are empty."""
    parts = [part for part in (piped.rstrip("\n") + "\n" if piped.strip() else "", prompt) if part]
    if not any(part.strip() for part in parts):
        raise InputError(
            "there is no prompt.",
            remedy="Give one: alhena -p 'PROMPT', or pipe text into alhena.",
        )
    return "\n\n".join(parts)


def run_headless(arguments: RunArguments, place: Place | AlhenaError) -> int:
    """Carries out a prompt in a place, or says why there is none. stdout gets one complete result
    in the chosen form, of a failure too; stderr gets the error. Returns the exit code."""
    form, given, debug = arguments.output_format, arguments.session_id, arguments.debug
    result = RunResult(form or OutputFormat.TEXT, given, debug=debug)
    try:
        if isinstance(place, AlhenaError):
            raise place
        settings = place.settings
        if form is None:
            result = RunResult(OutputFormat(settings.output.format), given, debug=debug)
        limit = None if arguments.prompt is None else settings.general.stdin_timeout
        piped, warning = piped_text(sys.stdin and sys.stdin.buffer, limit, result.announce)
        prompt = join_prompt(piped, arguments.prompt or "")
        if warning:
            result.feed(WarningEvent(message=warning))
        if arguments.worktree is not None:
            from alhena.frontends.shared.worktree import describe_empty_submodules

            if empty := describe_empty_submodules(os.environ):
                result.feed(WarningEvent(message=empty))
        agent = SessionRunner(session_options(arguments, place))
        for note in (*place.remarks, *place.notes) if arguments.debug else ():
            write_stderr(f"alhena: note: {one_line(note)}\n")
        work = _PromptRun(agent, place, result)
        if result.silent:
            _silence_warnings(result)
        asyncio.run(_run(work, prompt, arguments.prompt, debug=arguments.debug))
    except StreamError:
        raise
    except AlhenaError as error:
        return result.fail(error)
    except KeyboardInterrupt:
        return result.fail(InterruptedRunError("the run was interrupted."))
    return 0


def _silence_warnings(result: "RunResult") -> None:
    """Puts warnings of Python into the result while there is one."""
    import warnings

    def show(message: Warning | str, *_place: object, **_more: object) -> None:
        result.feed(WarningEvent(message=one_line(str(message))))

    warnings.showwarning = show


class RunResult:
    """The events of a run and its end, which is written once. Before a session has begun its id is
    the given one, or one that no session has. With JSON, standard error that is no terminal gets
    the error object only, unless debugging: a script may read it."""

    def __init__(self, form: OutputFormat, session_id: str | None, *, debug: bool) -> None:
        self._debug = debug
        self._session_id = session_id or new_session_id()
        watched = is_terminal(sys.stdout)
        self._output = output_for(form, write_stdout, self._session_id, watched=watched)
        watching = is_terminal(sys.stderr)
        self.silent = form is OutputFormat.JSON and not watching and not debug
        self._progress = Progress(write_stderr, verbose=watching)
        self.written = False
        self.cost: Cost = unknown

    def feed(self, event: Event) -> None:
        """An event happened."""
        if isinstance(event, RunStartedEvent):
            self._session_id = event.session_id
        self._output.feed(event)
        if not self.silent:
            self._progress.feed(event)

    def announce(self, text: str) -> None:
        """Writes a line on standard error before the run has begun, unless a script may read it."""
        if not self.silent:
            write_stderr(f"alhena: {text}\n")

    def fail(self, error: AlhenaError) -> int:
        """Writes the result, unless it is written, and reports the error; returns its exit code."""
        self.finish(error)
        document = None
        if isinstance(self._output, JsonOutput) and error.exit_code:
            failure: dict[str, Any] = {"session_id": self._session_id, "error": error_json(error)}
            if self._output.warnings:
                failure["warnings"] = self._output.warnings
            document = json_document(failure)
        return report(error, debug=self._debug, document=document)

    def finish(self, error: AlhenaError | None) -> None:
        """The run is over; what comes after it is no part of the result."""
        if not self.written:
            self.written = True
            self._output.finish(error, self.cost)


class _PromptRun(msgspec.Struct, frozen=True):
    """The agent that carries out a prompt, its place, and what takes the result."""

    agent: SessionRunner
    place: Place
    result: RunResult

    def warn(self, text: str) -> None:
        """Reports a warning."""
        self.result.feed(WarningEvent(message=text))

    async def call(self, name: str, args: Mapping[str, object]) -> "CompletedToolCall | None":
        """Calls a tool as a person would have it."""
        run = self.agent.call(name, dict(args))
        async for event in run:
            if isinstance(event, WarningEvent):
                self.result.feed(event)
        return run.completed


async def _run(work: _PromptRun, prompt: str, typed: str | None, *, debug: bool) -> None:
    """Carries out the prompt, of which `typed` was given on the command line. The result is written
    before the session is closed, which may take hooks their time. Raises InterruptedRunError for a
    signal that came by then, too."""
    agent, result = work.agent, work.result
    signals = Signals(agent)
    async with agent:
        gc.freeze()
        gc.enable()
        for note in agent.toolset.notes if debug else ():
            write_stderr(f"alhena: note: {one_line(note)}\n")
        result.cost = agent.toolset.spending.cost
        signals.listen()
        try:
            prepared = await signals.guard_start(_prepare_prompt(work, prompt, typed))
            run = agent.run(prepared.text, attached=prepared.attached, within=prepared.within)
            async for event in run:
                result.feed(event)
        except AlhenaError as error:
            result.finish(error)
            raise
        result.finish(None)
    if signals.seen:
        raise InterruptedRunError("interrupted while the session ended; the result is complete.")


class _PreparedPrompt(NamedTuple):
    """The text of a prompt, the parts behind it, and those within it."""

    text: str
    attached: "tuple[Part, ...]" = ()
    within: "tuple[tuple[int, Part], ...]" = ()


async def _prepare_prompt(work: _PromptRun, prompt: str, typed: str | None) -> _PreparedPrompt:
    """The text that is sent for a prompt, and what goes with it. A command may be typed, or be all
    of a prompt on standard input; of what was piped in beside a prompt nothing names anything."""
    given = prompt if typed is None else typed
    if given.startswith("/"):
        filled = await _fill_command(work, given, told=typed is not None)
        if filled is not None:
            piped = scrub(prompt.removesuffix(given))
            within = tuple((len(piped) + place, part) for place, part in filled.within)
            return _PreparedPrompt(piped + filled.text, within=within)
    if typed is None or "@" not in typed:
        return _PreparedPrompt(prompt)
    return _PreparedPrompt(prompt, await _attach_files(work, typed))


async def _fill_command(work: _PromptRun, given: str, *, told: bool) -> "FilledPrompt | None":
    """The prompt of a custom command or of an MCP server (`/greet Bob`), filled in. None for a word
    that is no command, with a warning if it is `told`: it is sent as it is."""
    from alhena.commands import sources_of
    from alhena.frontends.shared.mentions import PromptCommands, command_word

    called = command_word(given)
    if called is None:
        return None
    name, rest = called
    bench = work.agent.toolset
    commands = PromptCommands(lambda: bench)
    commands.load(sources_of(work.place))
    if commands.custom.find(name) is None:
        await bench.sources.gather()
    if name in commands:
        return await commands.fill(name, rest, work.call, work.warn)
    if told:
        known = ", ".join(
            f"/{each}" for each in (*commands.custom.files, *commands.server_commands())
        )
        work.warn(
            f"/{one_line(name)} is no command here and is sent to the model as text. Commands of "
            f"`-p` are custom commands and prompts of MCP servers: {known or 'there are none'}."
        )
    return None


async def _attach_files(work: _PromptRun, typed: str) -> "tuple[Part, ...]":
    """Contents of the @paths on the command line, as in the terminal."""
    from alhena.frontends.shared.mentions import attach_mentions

    async def call(name: str, args: Mapping[str, object]) -> "CompletedToolCall | None":
        done = await work.call(name, args)
        if done is not None and done.response.error:
            work.warn(f"what the prompt names with @ is not sent along: {done.response.error}")
        return done

    if ":" in typed:  # it may be a server's resource
        await work.agent.toolset.sources.gather()
    return await attach_mentions(typed, work.agent.toolset, call, work.warn)


class Signals:
    """The first signal ends the run, or the hooks at the end of its session, in good order; a
    second one ends everything at once."""

    def __init__(self, agent: SessionRunner) -> None:
        self._agent = agent
        self._preparing: asyncio.Task[_PreparedPrompt] | None = None
        self.seen = False

    async def guard_start(
        self, preparing: "Coroutine[Any, Any, _PreparedPrompt]"
    ) -> "_PreparedPrompt":
        """Prepares a prompt, unless a signal comes. Raises InterruptedRunError."""
        task = self._preparing = asyncio.create_task(preparing)
        await asyncio.wait({task})
        failure = None if task.cancelled() else task.exception()
        if self.seen:
            raise InterruptedRunError("the run was interrupted.") from failure
        return task.result()

    def listen(self) -> None:
        """Takes the signals that end a program, but for those that are to be ignored."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                loop.add_signal_handler(number, self._take)

    def _take(self) -> None:
        if self.seen:
            self._agent.kill()
            os._exit(130)
        self.seen = True
        self._agent.interrupt()
        if self._preparing is not None:
            self._preparing.cancel()
