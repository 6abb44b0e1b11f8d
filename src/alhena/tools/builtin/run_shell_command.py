"""run_shell_command: a bash command line in a process group of its own."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from alhena.system.errors import ProcessStartError, printable
from alhena.system.workspace import Workspace
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed, path_problem
from alhena.tools.confirmation import ConfirmationDetails, ExecConfirmation
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.tools.display import TerminalOutput

if TYPE_CHECKING:
    from alhena.system.processes import Ending, Limits, ProcessGroups
    from alhena.system.terminal_text import CapturedText, LiveOutput, OutputCapture

INACTIVITY_SECONDS = 300.0
OUTPUT_BYTES = 4 << 30
HEAD_CHARACTERS = 8_000
TAIL_CHARACTERS = 32_000

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "The exact bash command line to run."},
        "description": {
            "type": "string",
            "description": "One short sentence for the user: what the command is for.",
        },
        "directory": {
            "type": "string",
            "description": "Where to run it, inside the workspace. Default: the working directory.",
        },
    },
    "required": ["command"],
}
_NO_CHARACTER = "Command holds a character that no command line can have (NUL, lone surrogate)."

_OPERATORS = frozenset("();<>|&\n")
_INTRODUCING = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"})
_RESERVED = frozenset({"for", "case", "select", "function", "fi", "done", "esac", "}", "in"})


class RunShellCommand(DeclarativeTool):
    """Runs commands; what they leave running goes to `groups`, or is ended when there are none.

    `environment` is what commands inherit from, less the model's credentials; `inactivity` the
    seconds without output after which a command is stopped, 0 for never.
    """

    name = "run_shell_command"
    display_name = "Shell"
    kind = Kind.EXECUTE
    can_update_output = True
    parameter_schema = _SCHEMA

    def __init__(
        self,
        workspace: Workspace,
        *,
        groups: "ProcessGroups | None" = None,
        environment: Mapping[str, str] = os.environ,
        inactivity: float = INACTIVITY_SECONDS,
        output_bytes: int = OUTPUT_BYTES,
    ) -> None:
        self.workspace = workspace
        self.groups = groups
        self.environment = environment
        self.inactivity = inactivity
        self.output_bytes = output_bytes

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """There is a command the system can take, and a directory inside the workspace."""
        command = params["command"]
        if not command.strip():
            return _invalid("Command cannot be empty.")
        try:
            encoded = os.fsencode(command)
        except UnicodeEncodeError:
            return _invalid(_NO_CHARACTER)
        if b"\0" in encoded:
            return _invalid(_NO_CHARACTER)
        if params.get("is_background") not in {None, False, "false"}:
            return _invalid(
                "is_background is not supported. Run the command without it, or end the command "
                "with & to leave it running until the session ends."
            )
        directory = params.get("directory")
        return path_problem(self.workspace, directory, "directory") if directory else None

    def invocation(self, params: dict[str, Any]) -> "ShellInvocation":
        """The call."""
        return ShellInvocation(params, self)


class ShellInvocation(BaseInvocation):
    """One command."""

    def __init__(self, params: dict[str, Any], tool: RunShellCommand) -> None:
        super().__init__(params)
        self._tool = tool
        self._command: str = params["command"]
        self._directory: str | None = params.get("directory") or None

    def describe(self) -> str:
        """One line for people: what this call will do."""
        where = f" [in {printable(self._directory)}]" if self._directory else ""
        purpose = " ".join(str(self.params.get("description") or "").split())
        return f"{' '.join(self._command.split())}{where}" + (f" ({purpose})" if purpose else "")

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails:
        """The command, whole, and the programs it names."""
        del context
        roots = root_commands(self._command)
        return ExecConfirmation(
            title="Confirm Shell Command",
            command=self._command,
            root_command=", ".join(roots),
            root_commands=roots,
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs it. On cancellation the whole group is dead before CancelledError goes on."""
        directory = self._place()
        if isinstance(directory, ToolFailure):
            return failed(directory)
        live = _live(context)
        capture = _capture(live)
        ended = False
        try:
            ending = await self._run(directory, capture, context)
            ended = True
        except ProcessStartError as error:
            text = self._text("", str(error), None)
            failure = ToolFailure(str(error), ToolErrorType.SHELL_EXECUTE_ERROR)
            return ToolResult(llm_content=text, display=str(error), error=failure)
        finally:
            captured = capture.captured()
            if not ended:
                live.flush()  # cancelled: what was written by then is all there will be of it
            live.stop()
        return self._result(captured, ending)

    def _place(self) -> Path | ToolFailure:
        """The directory, looked at again now."""
        if self._directory is None:
            return self._tool.workspace.cwd
        outside = path_problem(self._tool.workspace, self._directory, "directory")
        if outside is not None:
            return outside
        path = self._tool.workspace.resolve(self._directory)
        if not path.is_dir():
            return ToolFailure(
                f"Directory is not a directory, or not there: {printable(path)}.",
                ToolErrorType.PATH_IS_NOT_A_DIRECTORY,
            )
        return path

    async def _run(
        self, directory: Path, capture: "OutputCapture", context: ExecutionContext
    ) -> "Ending":
        from alhena.system.environment import child_environment
        from alhena.system.processes import Command, run_process, shell_path

        environment = child_environment(self._tool.environment)
        bash = shell_path(environment)
        if bash is None:
            raise ProcessStartError(
                "bash was not found on the PATH.", remedy="Install bash, or correct PATH."
            )
        command = Command(argv=(bash, "-c", self._command), cwd=str(directory), env=environment)
        return await run_process(
            command,
            capture.feed,
            limits=self._limits(),
            groups=self._tool.groups,
            started=context.report_pid,
        )

    def _limits(self) -> "Limits":
        from alhena.system.processes import Limits

        return Limits(inactivity=self._tool.inactivity, output=self._tool.output_bytes)

    def _result(self, captured: "CapturedText", ending: "Ending") -> ToolResult:
        error = self._stop_reason(ending)
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
        return ToolResult(
            llm_content=self._text(shown, error, ending),
            display=TerminalOutput(
                text="\n".join(part for part in (shown, error) if part), exit_code=ending.exit_code
            ),
            data=data,
        )

    def _stop_reason(self, ending: "Ending") -> str:
        """Why the command was stopped, in a sentence; "" when it ended by itself."""
        from alhena.system.processes import Stop

        match ending.stopped:
            case None:
                return ""
            case Stop.INACTIVITY:
                return (
                    f"Stopped after {self._tool.inactivity:g} s without output; it may have waited "
                    "for something that does not come, such as input."
                )
            case Stop.OUTPUT:
                return f"Stopped after writing more than {self._tool.output_bytes:,} bytes."
            case Stop.TOTAL:
                return "Stopped because its time was over."
            case _:
                assert_never(ending.stopped)

    def _text(self, output: str, error: str, ending: "Ending | None") -> str:
        """What the model gets: always these eight lines, in this order."""
        background = ", ".join(map(str, ending.background)) if ending else ""
        return "\n".join(
            (
                f"Command: {self._command}",
                f"Directory: {printable(self._directory) if self._directory else '(root)'}",
                f"Output: {output or '(empty)'}",
                f"Error: {error or '(none)'}",
                f"Exit Code: {_or_none(ending.exit_code if ending else None)}",
                f"Signal: {_or_none(ending.signal if ending else None)}",
                f"Background PIDs: {background or '(none)'}",
                f"Process Group PGID: {_or_none(ending.pgid if ending else None)}",
            )
        )


def root_commands(command: str) -> tuple[str, ...]:
    """The first word of every simple command, once each, in order of appearance.

    For a person to read: quoting and operators are followed, the insides of substitutions are not.
    """
    import shlex

    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace = " \t\r"
    lexer.wordchars += "$@%+:,{}[]!^#"
    found: dict[str, None] = {}
    expected, target = True, False
    try:
        for token in lexer:
            if set(token) <= _OPERATORS:
                target = bool(set(token) & set("<>"))
                expected = expected or not target
            elif target:
                target = False
            elif expected and token not in _INTRODUCING and not _is_assignment(token):
                expected = False
                if token not in _RESERVED:
                    found.setdefault(token)
    except ValueError:  # a quotation that does not end
        found.setdefault(command.split(None, 1)[0])
    return tuple(found)


def _is_assignment(token: str) -> bool:
    name, sign, _ = token.partition("=")
    return bool(sign) and name.removesuffix("+").isidentifier()


def _live(context: ExecutionContext) -> "LiveOutput":
    import asyncio

    from alhena.system.terminal_text import LiveOutput

    loop = asyncio.get_running_loop()
    return LiveOutput(context.update_output, clock=loop.time, call_later=loop.call_later)


def _capture(live: "LiveOutput") -> "OutputCapture":
    from alhena.system.terminal_text import OutputCapture

    return OutputCapture(head=HEAD_CHARACTERS, tail=TAIL_CHARACTERS, on_text=live.add)


def _or_none(value: int | None) -> str:
    return "(none)" if value is None else str(value)


def _invalid(message: str) -> ToolFailure:
    return ToolFailure(message, ToolErrorType.INVALID_TOOL_PARAMS)
