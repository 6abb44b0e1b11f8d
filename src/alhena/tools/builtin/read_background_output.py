"""read_background_output: what a command in the background has written so far."""

from typing import TYPE_CHECKING, Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.builtin.list_background_processes import state_of
from alhena.tools.contract import ExecutionContext, Kind, ToolResult
from alhena.tools.display import TerminalOutput

if TYPE_CHECKING:
    from alhena.system.background import BackgroundCommand
    from alhena.system.processes import ProcessGroups

LINES = 100
MAX_DELAY_MS = 60_000

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "pid": {"type": "integer", "description": "The process id of the background command."},
        "lines": {
            "type": "integer",
            "minimum": 1,
            "description": f"How many lines from the end. Default: {LINES}.",
        },
        "delay_ms": {
            "type": "integer",
            "minimum": 0,
            "description": (
                "Milliseconds to wait before reading, at most 60000; the wait ends early when the "
                "command does. Default: 0."
            ),
        },
    },
    "required": ["pid"],
}


class ReadBackgroundOutput(DeclarativeTool):
    """Reads from the commands that `groups` knows of, and from no others."""

    name = "read_background_output"
    display_name = "Read Background Output"
    kind = Kind.READ
    parameter_schema = _SCHEMA

    def __init__(self, groups: "ProcessGroups | None") -> None:
        self.groups = groups

    def invocation(self, params: dict[str, Any]) -> "BackgroundReading":
        """The call."""
        return BackgroundReading(params, self.groups)


class BackgroundReading(BaseInvocation):
    """One look at a command's output."""

    def __init__(self, params: dict[str, Any], groups: "ProcessGroups | None") -> None:
        super().__init__(params)
        self._groups = groups
        self._pid: int = params["pid"]
        self._lines: int = params.get("lines", LINES)
        self._delay = min(params.get("delay_ms", 0), MAX_DELAY_MS) / 1000

    def describe(self) -> str:
        """One line for people: what this call will do."""
        return f"Read the last {self._lines} lines of background process {self._pid}"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """The last lines, below what the command is doing now."""
        import asyncio

        del context
        command = self._command()
        if command is None:
            return ToolResult.failed(
                f"Access denied. Background process ID {self._pid} not found in this session's "
                "history."
            )
        if self._delay:
            await asyncio.wait({command.child.exited}, timeout=self._delay)
        command.child.read_available()
        state = state_of(command)
        shown, heading = self._text(command)
        text = f"[PID {command.pid}] {state}: `{command.command}`\n{heading}"
        return ToolResult(
            llm_content=f"{text}\n{shown}" if shown else text,
            display=TerminalOutput(text=shown or heading, exit_code=command.exit_code),
            data={
                "pid": command.pid,
                "running": command.running,
                "exit_code": command.exit_code,
                "signal": command.signal,
                "output_bytes": command.output.capture.total_bytes,
            },
        )

    def _command(self) -> "BackgroundCommand | None":
        commands = () if self._groups is None else self._groups.background
        known = (each for each in commands if each.pid == self._pid)
        return next(known, None)

    def _text(self, command: "BackgroundCommand") -> tuple[str, str]:
        """The last lines, and the line that says which they are."""
        captured = command.output.capture.so_far()
        if captured.binary:
            return "", captured.text
        held = captured.tail if captured.omitted else captured.head + captured.tail
        if not held:
            return "", "Output: (empty)"
        lines = held.removesuffix("\n").split("\n")
        shown = lines[-self._lines :]
        total = command.output.line_breaks + (not held.endswith("\n"))
        heading = f"Last {len(shown):,} of {total:,} lines:"
        if len(shown) == total:
            heading = "Output:"
        elif len(shown) == len(lines) < self._lines:
            heading = f"The latest {len(held):,} characters, of {total:,} lines:"
        spool = command.output.spool
        if captured.omitted and spool is not None:
            where = f"All of it is in {spool.path}" if spool.path else "The rest is not kept"
            note = f"{where}: {spool.problem}" if spool.problem else f"{where}."
            heading = f"{note}\n{heading}"
        return "\n".join(shown), heading
