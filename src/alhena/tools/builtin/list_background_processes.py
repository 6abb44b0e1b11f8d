"""list_background_processes: lists commands that run in the background."""

from typing import TYPE_CHECKING, Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import ExecutionContext, ToolResult

if TYPE_CHECKING:
    from alhena.system.background import BackgroundCommand, LeftProcess
    from alhena.system.processes import ProcessGroups

NONE = "No background processes found."


class ListBackgroundProcesses(DeclarativeTool):
    """Lists the processes of `groups`."""

    name = "list_background_processes"

    def __init__(self, groups: "ProcessGroups | None") -> None:
        self.groups = groups

    def invocation(self, params: dict[str, Any]) -> "BackgroundListing":
        """Builds the call."""
        return BackgroundListing(params, self.groups)


class BackgroundListing(BaseInvocation):
    """A listing of background processes."""

    def __init__(self, params: dict[str, Any], groups: "ProcessGroups | None") -> None:
        super().__init__(params)
        self._groups = groups

    def describe(self) -> str:
        """Describes the call to people in one line."""
        return "List background processes"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Lists this session's background commands in start order, then processes that left their
        group."""
        del context
        commands = () if self._groups is None else self._groups.background
        others = () if self._groups is None else self._groups.left
        lines = [f"- [PID {each.pid}] {state_of(each)}: `{each.command}`" for each in commands]
        lines += [f"- [PID {each.pid}] Running: {origin_of(each)}" for each in others]
        text = "\n".join(lines) or NONE
        processes = [
            {
                "pid": each.pid,
                "command": each.command,
                "running": each.running,
                "exit_code": each.exit_code,
                "signal": each.signal,
            }
            for each in commands
        ]
        processes += [
            {
                "pid": each.pid,
                "command": each.program,
                "running": True,
                "started_by": each.owner,
                "started_by_command": each.command,
            }
            for each in others
        ]
        return ToolResult(llm_content=text, display=text, data={"processes": processes})


def origin_of(process: "LeftProcess") -> str:
    """Names the program of a process that left its group, and the command that started it."""
    program = f"`{process.program}`" if process.program else "a process"
    if process.owner is not None:
        return f"{program} (left the group of PID {process.owner})"
    return f"{program} (left running by `{process.command}`)"


def state_of(command: "BackgroundCommand") -> str:
    """Describes the state: running, or how the command ended."""
    if command.running:
        return "Running"
    if command.over_limit:
        return "Exited (stopped for writing too much)"
    if command.signal is not None:
        return f"Exited (signal {command.signal})"
    return f"Exited (exit code {command.exit_code})" if command.exit_code else "Exited"
