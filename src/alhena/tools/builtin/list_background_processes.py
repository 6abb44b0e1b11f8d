"""list_background_processes: the commands that were started to go on in the background."""

from typing import TYPE_CHECKING, Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import ExecutionContext, ToolResult

if TYPE_CHECKING:
    from alhena.system.background import BackgroundCommand, LeftProcess
    from alhena.system.processes import ProcessGroups

NONE = "No background processes found."


class ListBackgroundProcesses(DeclarativeTool):
    """Lists what `groups` knows of."""

    name = "list_background_processes"

    def __init__(self, groups: "ProcessGroups | None") -> None:
        self.groups = groups

    def invocation(self, params: dict[str, Any]) -> "BackgroundListing":
        """The call."""
        return BackgroundListing(params, self.groups)


class BackgroundListing(BaseInvocation):
    """One look at the list."""

    def __init__(self, params: dict[str, Any], groups: "ProcessGroups | None") -> None:
        super().__init__(params)
        self._groups = groups

    def describe(self) -> str:
        """One line for people: what this call will do."""
        return "List background processes"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """A line for each background command of this session, in the order they were started, then
        for each process that is on its own."""
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
    """What a process on its own runs, and the command it came from."""
    program = f"`{process.program}`" if process.program else "a process"
    if process.owner is not None:
        return f"{program} (left the group of PID {process.owner})"
    return f"{program} (left running by `{process.command}`)"


def state_of(command: "BackgroundCommand") -> str:
    """True when it runs, and how it ended where that was not with exit code 0."""
    if command.running:
        return "Running"
    if command.over_limit:
        return "Exited (stopped for writing too much)"
    if command.signal is not None:
        return f"Exited (signal {command.signal})"
    return f"Exited (exit code {command.exit_code})" if command.exit_code else "Exited"
