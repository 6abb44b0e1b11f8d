"""Discovered tools: each call runs the configured command."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.display_text import escaped, one_line
from alhena.system.errors import ProcessStartError
from alhena.tools.base import BaseInvocation
from alhena.tools.builtin.run_shell_command import OUTPUT_CHARACTERS, ShellEnvironment
from alhena.tools.confirmation import ConfirmationDetails, ExecConfirmation
from alhena.tools.contract import ExecutionContext, Kind, ToolErrorType, ToolFailure, ToolResult
from alhena.tools.declared import declaration_of
from alhena.tools.discovered.listing import ListedTool
from alhena.tools.params import validate
from alhena.tools.schema import respelled
from alhena.tools.shell_output import CapturedOutput
from alhena.values import Value
from alhena.wire.request import FunctionDeclaration

if TYPE_CHECKING:
    from alhena.system.processes import Command, Ending, Limits, ProcessGroups
    from alhena.system.terminal_text import CapturedText
    from alhena.tools.output_store import OutputStore

CALL_SECONDS = 600.0
"""Timeout of a call."""
MAX_OUTPUT = 1 << 30
"""Maximum bytes of output before a call is stopped."""
DIAGNOSTICS = 4_000
"""Characters of stderr kept from each end."""


class CallCommand(Value, frozen=True, kw_only=True):
    """The command that runs discovered tools. `text` is the command from the settings, `words` its
    arguments; `groups` kills processes left running. Long output goes to `outputs`. Before each run
    `why_held` returns the reason why the command may no longer run, "" if it may; None: no check.
    """

    text: str
    words: tuple[str, ...]
    cwd: str
    environment: ShellEnvironment
    groups: "ProcessGroups | None" = None
    outputs: "OutputStore | None" = None
    inactivity: float = 300.0
    why_held: Callable[[], str] | None = None


class DiscoveredTool:
    """A tool of `tools.discoveryCommand`; `tools.callCommand` runs it."""

    kind = Kind.OTHER
    is_output_markdown = False
    can_update_output = True

    def __init__(self, listed: ListedTool, discovery: str, call: CallCommand) -> None:
        self.name = listed.registered_name
        self.display_name = listed.name
        self.own_name = listed.name
        self.call = call
        self.parameter_schema = listed.parameters
        self.description = (
            f"{listed.description}\n\n"
            f"The project brings this tool: `{one_line(discovery, 200)}` lists it. A call runs "
            f"`{one_line(call.text, 200)} {listed.name}` with the parameters as JSON on its "
            "standard input, and gives its standard output. What it writes to stderr comes behind "
            "that as diagnostics. A failed call says Stdout, Stderr, Error, Exit Code and Signal."
        ).strip()

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return declaration_of(self)

    def build(self, params: dict[str, Any]) -> "DiscoveredInvocation | ToolFailure":
        """Checks the parameters against the tool's schema; a failure is a value."""
        normal = respelled(self.parameter_schema, params)
        return validate(self.parameter_schema, normal) or DiscoveredInvocation(normal, self)


class DiscoveredInvocation(BaseInvocation):
    """One call of a discovered tool."""

    def __init__(self, params: dict[str, Any], tool: DiscoveredTool) -> None:
        super().__init__(params)
        self._tool = tool
        self._input = msgspec.json.encode(params)

    def describe(self) -> str:
        """Formats the call as an expression."""
        return escaped(f"{self._tool.own_name}({self._input.decode('utf-8')})")

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails:
        """Shows the command and its input."""
        del context
        call = self._tool.call
        command = f"{call.text} {self._tool.own_name} <<< {self._input.decode('utf-8')}"
        return ExecConfirmation(
            title=f"Run the project's tool {self._tool.own_name}?",
            command=command,
            command_shown=escaped(command),
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Runs the command. The call fails when the command cannot start, is stopped or ends with a
        non-zero exit code; output on stderr alone is not a failure."""
        from alhena.system.processes import Limits, run_process
        from alhena.system.terminal_text import OutputCapture
        from alhena.tools.shell_output import live_output

        call = self._tool.call
        if held := await self._why_held():
            return ToolResult.failed(held, ToolErrorType.DISCOVERED_TOOL_EXECUTION_ERROR)
        live = live_output(context.update_output)
        output = DiscoveredOutput(
            call.outputs,
            context.call_id,
            prefix="",
            size=OUTPUT_CHARACTERS if call.outputs is None else call.outputs.memory_characters,
            on_text=live.add,
        )
        errors = OutputCapture(head=DIAGNOSTICS, tail=DIAGNOSTICS)
        limits = Limits(inactivity=call.inactivity, total=CALL_SECONDS, output=MAX_OUTPUT)
        finished = False
        try:
            ending = await run_process(
                self._command(),
                output.capture.feed,
                limits=limits,
                groups=call.groups,
                started=context.report_pid,
                errors=errors.feed,
            )
            finished = True
        except ProcessStartError as error:
            return ToolResult.failed(
                f"{self._tool.own_name} could not be started: {error}",
                ToolErrorType.DISCOVERED_TOOL_EXECUTION_ERROR,
            )
        finally:
            live.stop()
            if not finished:
                output.discard()
        return self._result(ending, output, errors.captured(), limits)

    async def _why_held(self) -> str:
        why_held = self._tool.call.why_held
        if why_held is None:
            return ""
        from alhena.tools.threads import in_daemon_thread

        why = await in_daemon_thread(why_held)
        return f"{self._tool.own_name} is not run: tools.callCommand is {why}" if why else ""

    def _command(self) -> "Command":
        from alhena.system.environment import child_environment
        from alhena.system.processes import Command

        call, environment = self._tool.call, self._tool.call.environment
        made = child_environment(dict(environment.parent), environment.redaction)
        command = Command(
            argv=(*map(os.fsencode, call.words), os.fsencode(self._tool.own_name)),
            cwd=call.cwd,
            env=made.variables,
            merge_stderr=False,
            stdin=self._input,
            label=f"{call.text} {self._tool.own_name}",
        )
        return command if environment.sandbox is None else environment.sandbox.confine(command)

    def _result(
        self,
        ending: "Ending",
        output: "CapturedOutput",
        errors: "CapturedText",
        limits: "Limits",
    ) -> ToolResult:
        from alhena.tools.shell_output import or_none, stop_reason

        captured = output.capture.captured()
        stderr = errors.text.strip("\n")
        stopped = stop_reason(ending, limits)
        data: dict[str, Any] = {"exit_code": ending.exit_code, "signal": ending.signal}
        if ending.exit_code == 0 and not stopped:
            suffix = f"\n\nDiagnostics (stderr):\n{stderr}" if stderr else ""
            return ToolResult(
                llm_content=captured.text + suffix,
                display=captured.text.removesuffix("\n") + suffix,
                data=data,
                spilled=output.spilled(captured, suffix),
            )
        output.discard()
        lines = (
            f"Stdout: {captured.text.removesuffix(chr(10)) or '(empty)'}",
            f"Stderr: {stderr or '(empty)'}",
            f"Error: {stopped or '(none)'}",
            f"Exit Code: {or_none(ending.exit_code)}",
            f"Signal: {or_none(ending.signal)}",
        )
        return ToolResult.failed("\n".join(lines), ToolErrorType.DISCOVERED_TOOL_EXECUTION_ERROR)


class DiscoveredOutput(CapturedOutput):
    """Output of one call, stored in its own file when long."""

    tool = "discovered_tool"
