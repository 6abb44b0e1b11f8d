"""run_shell_command: runs a bash command line in its own process group."""

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.config.settings import EnvironmentRedaction
from alhena.display_text import escaped, exact, one_line
from alhena.system.errors import ProcessStartError, printable
from alhena.system.workspace import Workspace
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed_result, path_problem
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecConfirmation,
    ExecutionContext,
    TerminalOutput,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)

if TYPE_CHECKING:
    from alhena.config.environment import SanitisedEnvironment
    from alhena.system.output import CapturedText, LiveOutput
    from alhena.system.processes import (
        BackgroundCommand,
        ProcessCommand,
        ProcessEnding,
        ProcessGroups,
    )
    from alhena.system.pseudo_terminal import PseudoTerminal
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.tools.output_store import OutputStore
    from alhena.tools.shell_output import CapturedOutput, ShellReport

BACKGROUND_CHARACTERS = 200_000
DELAY_MS = 200
MAX_DELAY_MS = 60_000

_NO_CHARACTER = "Command contains a character that no command line can have (NUL, lone surrogate)."


class ShellLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits after which a command is stopped: seconds without output (foreground only) and bytes
    of output; 0 means no limit. `background_file`: bytes of a background command's output that are
    written to its file while it runs."""

    inactivity: float = 300.0
    output: int = 4 << 30
    background_file: int = 64 << 20


class ShellEnvironment(msgspec.Struct, frozen=True):
    """Environment of commands: the inherited variables, the redaction of secrets, the sandbox, if
    any, and variables that settings change."""

    parent: Mapping[str, str]
    redaction: EnvironmentRedaction = EnvironmentRedaction()
    sandbox: "Sandbox | None" = None
    extra: Mapping[str, str] = {}


class RunShellCommand(DeclarativeTool):
    """Runs commands. Processes left running are registered in `groups`, or killed without `groups`.

    Output too long for memory is streamed to `outputs`; without `outputs` its middle is lost.
    `summarise` shortens results that are too long.
    """

    name = "run_shell_command"

    def __init__(
        self,
        workspace: Workspace,
        *,
        groups: "ProcessGroups | None" = None,
        environment: ShellEnvironment | None = None,
        limits: ShellLimits | None = None,
        outputs: "OutputStore | None" = None,
        summarise: "Callable[[ToolResult], Awaitable[ToolResult]] | None" = None,
    ) -> None:
        self.summarise = summarise
        self.workspace = workspace
        self.groups = groups
        self.environment = environment or ShellEnvironment(os.environ)
        self.limits = limits or ShellLimits()
        self.outputs = outputs
        self._made: tuple[dict[str, str], SanitisedEnvironment] | None = None

    def child_environment(self, terminal: "PseudoTerminal | None" = None) -> "SanitisedEnvironment":
        """The environment for the next command; without a terminal rebuilt only after a change."""
        from alhena.system.environment import ATTENDED, WATCHED, child_environment

        parent = dict(self.environment.parent)
        extra = self.environment.extra
        if terminal is not None:
            fixed = ATTENDED if terminal.interactive else WATCHED
            extra = None if terminal.interactive else extra
            return child_environment(parent, self.environment.redaction, fixed=fixed, extra=extra)
        if self._made is None or self._made[0] != parent:
            made = child_environment(parent, self.environment.redaction, extra=extra)
            self._made = (parent, made)
        return self._made[1]

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a command the system can run and a directory inside the workspace."""
        command = params["command"]
        if not command.strip():
            return ToolFailure.of_params("Command cannot be empty.")
        try:
            encoded = os.fsencode(command)
        except UnicodeEncodeError:
            return ToolFailure.of_params(_NO_CHARACTER)
        if b"\0" in encoded:
            return ToolFailure.of_params(_NO_CHARACTER)
        if params.get("is_background") and self.groups is None:
            return ToolFailure.of_params(
                "is_background needs a session; here nothing may run after the call."
            )
        directory = params.get("directory")
        return path_problem(self.workspace, directory, "directory") if directory else None

    def invocation(self, params: dict[str, Any]) -> "ShellInvocation":
        """Builds the call."""
        return ShellInvocation(params, self)


class ShellInvocation(BaseInvocation):
    """One command."""

    def __init__(self, params: dict[str, Any], tool: RunShellCommand) -> None:
        super().__init__(params)
        self._tool = tool
        self._command: str = params["command"]
        self._directory: str | None = params.get("directory") or None
        self._sandbox = tool.environment.sandbox

    def describe(self) -> str:
        """Describes the call to people in one line."""
        where = f" [in {printable(self._directory)}]" if self._directory else ""
        how = " [background]" if self.params.get("is_background") else ""
        purpose = one_line(str(self.params.get("description") or ""))
        command = escaped(re.sub(r"[ \t]+", " ", self._command.strip()))
        return f"{command}{where}{how}" + (f" ({purpose})" if purpose else "")

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails:
        """Shows the whole command. The scheduler adds the programs it names and the warnings, from
        the policy's analysis of the command line."""
        del context
        return ExecConfirmation(
            title="Confirm Shell Command",
            command=self._command,
            command_shown=exact(self._command),
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the command. On cancellation the process group is killed first; then this returns
        the output so far or, without output, raises CancelledError."""
        from alhena.tools.shell_output import ShellReport

        directory = self._place()
        if isinstance(directory, ToolFailure):
            return failed_result(directory)
        report = ShellReport(command=self._command, directory=self._directory)
        try:
            if self.params.get("is_background") and self._tool.groups is not None:
                result = await self._in_background(directory, report, self._tool.groups, context)
            else:
                result = await self._in_foreground(directory, report, context)
        except ProcessStartError as error:
            failure = ToolFailure(str(error), ToolErrorType.SHELL_EXECUTE_ERROR)
            text = report.text("", str(error), None)
            return ToolResult(llm_content=text, display=str(error), error=failure)
        if self._tool.summarise is not None:
            result = await self._tool.summarise(result)
        removed = self._tool.child_environment().removed
        if removed and result.data is not None:
            result.data["environment_removed"] = list(removed)
        return result

    def _place(self) -> Path | ToolFailure:
        """Resolves the directory again right before use."""
        if self._directory is None:
            cwd = self._tool.workspace.cwd
            return cwd if cwd.is_dir() else self._leave_missing(cwd)
        outside = path_problem(self._tool.workspace, self._directory, "directory")
        if outside is not None:
            return outside
        path = self._tool.workspace.resolve(self._directory)
        if not os.path.lexists(path):
            return ToolFailure(
                f"Directory does not exist: {printable(path)}.", ToolErrorType.FILE_NOT_FOUND
            )
        if not path.is_dir():
            return ToolFailure(
                f"Directory is not a directory: {printable(path)}.",
                ToolErrorType.PATH_IS_NOT_A_DIRECTORY,
            )
        return path

    def _leave_missing(self, cwd: Path) -> Path | ToolFailure:
        """The directory that the command changes to first, in place of one that is gone. Nothing
        of the command runs elsewhere."""
        from alhena.shell.parse.analysis import analyse

        found = analyse(self._command)
        first, *others = found.parts or (None,)
        words = () if first is None else first.words
        if found.complete and len(words) > 1 and words[0].text == "cd" and words[-1].literal:
            there = Path(words[-1].text)
            stays = all(part.directories[:1] == words[-1:] for part in others)
            if there.is_absolute() and there.is_dir() and stays:
                return there
        from shlex import quote

        return ToolFailure(
            f"The session's folder {printable(cwd)} is gone. Begin the command with `cd DIR &&`, "
            "where DIR is an absolute path that exists, or create the folder again with "
            f"`cd / && mkdir -p {quote(printable(cwd))}`.",
            ToolErrorType.FILE_NOT_FOUND,
        )

    def _prepare_command(
        self, directory: Path, traceparent: str, terminal: "PseudoTerminal | None" = None
    ) -> "ProcessCommand":
        """The command to start."""
        from alhena.system.processes import ProcessCommand, shell_path

        env = self._tool.child_environment(terminal).variables
        bash = shell_path(env)
        if bash is None:
            raise ProcessStartError(
                "bash was not found on the PATH.", remedy="Install bash, or correct PATH."
            )
        argv, cwd = (bash, "-c", self._command), str(directory)
        env = {**env, "TRACEPARENT": traceparent} if traceparent else env
        command = ProcessCommand(
            argv=argv, cwd=cwd, env=env, label=self._command, terminal=terminal
        )
        return command if self._sandbox is None else self._sandbox.confine(command)

    async def _in_foreground(
        self, directory: Path, report: "ShellReport", context: ExecutionContext
    ) -> ToolResult:
        import asyncio

        from alhena.system.processes import CommandLimits, run_process
        from alhena.tools.shell_output import (
            INTERRUPTED,
            interrupted_ending,
            live_output,
            stop_reason,
        )

        live = live_output(context.update_output, context.update_screen)
        output = self._output(report, context, live=live)
        most = self._tool.limits
        limits = CommandLimits(inactivity=most.inactivity, output=most.output)
        pids = [0]

        def report_start(pid: int) -> None:
            pids.append(pid)
            context.report_pid(pid)

        client = self._tool.workspace.terminal if self._sandbox is None else None
        try:
            if client is not None:
                command = self._prepare_command(directory, context.traceparent)
                ending = await client.run(command, output.feed, context.call_id)
            else:
                async with self._console(context) as terminal:
                    command = self._prepare_command(directory, context.traceparent, terminal)
                    sink = output.feed
                    if terminal is not None:
                        output.capture.converter = terminal.screen
                        output.coloured = terminal.coloured
                        if terminal.interactive:  # somebody sits there, and sees it
                            sink = terminal.seen_after(output.capture.feed)
                            limits = CommandLimits(inactivity=0, output=limits.output)
                    ending = await run_process(
                        command,
                        sink,
                        limits=limits,
                        groups=self._tool.groups,
                        started=report_start,
                    )
                    if terminal is not None:
                        live.flush()  # the last state of what was redrawn, with its colours
        except ProcessStartError:
            output.discard()
            raise
        except asyncio.CancelledError:
            live.flush()  # what was written by then is all there will be of it
            captured = output.capture.finish_capture()
            if context.cancellation.is_set() and captured.total_bytes:
                return _result(report, interrupted_ending(pids[-1]), INTERRUPTED, output, captured)
            output.discard()
            raise
        finally:
            live.stop()
        captured = output.capture.finish_capture()
        error = stop_reason(ending, limits) or self._refusal(ending, captured)
        return _result(report, ending, error, output, captured)

    def _console(
        self, context: ExecutionContext
    ) -> "AbstractAsyncContextManager[PseudoTerminal | None]":
        """The terminal of the command. One that leaves a process in the background has none: a
        terminal ends with its command, and what uses it."""
        console = self._tool.workspace.console
        leaves = re.search(r"(?<!&)&\s*\Z", self._command)
        return nullcontext() if console is None or leaves else console.attach(context.call_id)

    async def _in_background(
        self,
        directory: Path,
        report: "ShellReport",
        groups: "ProcessGroups",
        context: ExecutionContext,
    ) -> ToolResult:
        from alhena.system.processes import (
            CommandLimits,
            ProcessEnding,
            ReachedLimit,
            run_in_background,
        )
        from alhena.tools.shell_output import stop_reason

        command = self._prepare_command(directory, context.traceparent)
        limits = CommandLimits(inactivity=0, output=self._tool.limits.output)
        output = self._output(report, context, size=BACKGROUND_CHARACTERS)
        delay = min(self.params.get("delay_ms", DELAY_MS), MAX_DELAY_MS) / 1000
        kept = False
        try:
            running = await run_in_background(
                command, output, groups=groups, delay=delay, output_limit=limits.output
            )
            kept = True
        finally:
            if not kept:
                output.discard()
        context.report_pid(running.pid)
        if running.running:
            return _background_result(report, running)
        ending = ProcessEnding(
            pgid=running.pid,
            exit_code=running.exit_code,
            signal=running.signal,
            stopped=ReachedLimit.OUTPUT if running.over_limit else None,
            background=(),
        )
        captured = output.capture.finish_capture()
        error = stop_reason(ending, limits) or self._refusal(ending, captured)
        return _result(report, ending, error, output, captured)

    def _refusal(self, ending: "ProcessEnding", captured: "CapturedText") -> str:
        """Explains that the sandbox probably caused the failure; "" otherwise."""
        if self._sandbox is None or ending.exit_code == 0:
            return ""
        return self._sandbox.refusal(captured.text)

    def _output(
        self,
        report: "ShellReport",
        context: ExecutionContext,
        *,
        size: int = 0,
        live: "LiveOutput | None" = None,
    ) -> "CapturedOutput":
        from alhena.tools.shell_output import CapturedOutput

        return CapturedOutput(
            self._tool.outputs,
            context.call_id,
            prefix=report.before_output(),
            size=size,
            most=self._tool.limits.background_file if size else 0,
            live=live,
        )


def _result(
    report: "ShellReport",
    ending: "ProcessEnding",
    error: str,
    output: "CapturedOutput",
    captured: "CapturedText",
) -> ToolResult:
    """The result of a command that has ended."""
    from alhena.tools.output_store import DISPLAY_CHARACTERS
    from alhena.tools.shell_output import INTERRUPTED

    data: dict[str, Any] = {
        "exit_code": ending.exit_code,
        "signal": ending.signal,
        "pgid": ending.pgid,
        "background_pids": list(ending.background),
        "output_bytes": captured.total_bytes,
    }
    if ending.stopped is not None:
        data["stopped"] = ending.stopped.value
    shown = captured.text.removesuffix("\n")
    problem = "" if error == INTERRUPTED else error  # people know: they stopped it
    text = "\n".join(part for part in (shown, problem) if part)
    if not problem and (shown.endswith("\n") or captured.text == "\n"):
        text = captured.text  # the last line is blank: it is shown too
    lines = None
    if captured.omitted or len(text) > DISPLAY_CHARACTERS:
        lines = output.line_breaks + (not captured.text.endswith("\n")) + bool(problem)
    return ToolResult(
        llm_content=report.text(shown, error, ending),
        display=TerminalOutput(
            text=text, exit_code=ending.exit_code, signal=ending.signal, lines=lines
        ),
        data=data,
        spilled=output.store_whole(captured, report.after_output(error, ending)),
    )


def _background_result(report: "ShellReport", running: "BackgroundCommand") -> ToolResult:
    """The result of a command that runs on in the background."""
    captured = running.output.capture.so_far()
    shown = captured.text.removesuffix("\n")
    data: dict[str, Any] = {
        "pid": running.pid,
        "pgid": running.pid,
        "background_pids": [running.pid],
        "output_bytes": captured.total_bytes,
        "is_background": True,
    }
    return ToolResult(
        llm_content=report.in_background(running, shown),
        display=TerminalOutput(text=f"Running in the background (PID {running.pid}).\n{shown}"),
        data=data,
    )
