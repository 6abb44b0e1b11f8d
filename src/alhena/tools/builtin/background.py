"""list_background_processes and read_background_output: commands that run in the background."""

from typing import TYPE_CHECKING, Any

from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import ExecutionContext, TerminalOutput, ToolResult

if TYPE_CHECKING:
    from alhena.system.output import TextSpool
    from alhena.system.processes import BackgroundCommand, LeftProcess, ProcessGroups

NONE = "No background processes found."
LINES = 100
MAX_DELAY_MS = 60_000


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
        lines = [f"- [PID {each.pid}] {_state(each)}: `{each.command}`" for each in commands]
        lines += [f"- [PID {each.pid}] Running: {_origin(each)}" for each in others]
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


def _origin(process: "LeftProcess") -> str:
    """Names the program of a process that left its group, and the command that started it."""
    program = f"`{process.program}`" if process.program else "a process"
    if process.owner is not None:
        return f"{program} (left the group of PID {process.owner})"
    return f"{program} (left running by `{process.command}`)"


def _state(command: "BackgroundCommand") -> str:
    """Describes the state: running, or how the command ended."""
    if command.running:
        return "Running"
    if command.over_limit:
        return "Exited (stopped for writing too much)"
    if command.signal is not None:
        return f"Exited (signal {command.signal})"
    return f"Exited (exit code {command.exit_code})" if command.exit_code else "Exited"


class ReadBackgroundOutput(DeclarativeTool):
    """Reads the output of the commands in `groups` and can kill them; no other processes."""

    name = "read_background_output"

    def __init__(self, groups: "ProcessGroups | None") -> None:
        self.groups = groups

    def invocation(self, params: dict[str, Any]) -> "BackgroundReading":
        """Builds the call."""
        return BackgroundReading(params, self.groups)


class BackgroundReading(BaseInvocation):
    """A read of a command's output."""

    def __init__(self, params: dict[str, Any], groups: "ProcessGroups | None") -> None:
        super().__init__(params)
        self._groups = groups
        self._pid: int = params["pid"]
        self._lines: int = params.get("lines", LINES)
        self._kill: bool = params.get("kill", False)
        self._delay = min(params.get("delay_ms", 0), MAX_DELAY_MS) / 1000

    def describe(self) -> str:
        """Describes the call to people in one line."""
        first = f"End background process {self._pid} and read" if self._kill else "Read"
        whose = "" if self._kill else f" of background process {self._pid}"
        return f"{first} the last {self._lines} lines{whose}"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Returns the last lines of output below the state of the command."""
        import asyncio

        del context
        command = self._command()
        if command is None:
            return await self._other()
        if self._delay:
            await asyncio.wait({command.child.exited}, timeout=self._delay)
        if self._kill and self._groups is not None:
            await self._groups.end(self._pid)
        command.child.read_available()
        state = _state(command)
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

    async def _other(self) -> ToolResult:
        """Handles a process that left its group: it can only be killed."""
        left = () if self._groups is None else self._groups.left
        process = next((each for each in left if each.pid == self._pid), None)
        if process is None or self._groups is None:
            return ToolResult.from_failure(
                f"Access denied. Background process ID {self._pid} not found in this session's "
                "history."
            )
        if self._kill:
            await self._groups.end(self._pid)
        running = self._pid in self._groups.members
        what = f"[PID {self._pid}] {'Running' if running else 'Exited'}: {_origin(process)}"
        if process.owner is None:
            note = "Output: not kept; what is to be read is started with is_background."
        else:
            note = f"Output: what it writes to that of PID {process.owner} is read there."
        return ToolResult(
            llm_content=f"{what}\n{note}",
            display=what,
            data={"pid": self._pid, "running": running, "command": process.program},
        )

    def _command(self) -> "BackgroundCommand | None":
        commands = () if self._groups is None else self._groups.background
        known = (each for each in commands if each.pid == self._pid)
        return next(known, None)

    def _text(self, command: "BackgroundCommand") -> tuple[str, str]:
        """The last lines, and a line that says which lines they are."""
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
            heading = f"{_describe_storage(spool, running=command.running)}\n{heading}"
        return "\n".join(shown), heading


def _describe_storage(spool: "TextSpool", *, running: bool) -> str:
    """Tells where the whole output is stored, or how much of it."""
    if spool.full:
        end = "its end will be once the command has ended" if running else "so is its end"
        return (
            f"The file {spool.path} has reached its limit: the beginning of the output is in it, "
            f"{end}, and what lies between is not kept."
        )
    all_of_it = "All of it but at most the last 100 lines" if running else "All of it"
    where = f"{all_of_it} is in {spool.path}" if spool.path else "The rest is not kept"
    return f"{where}: {spool.problem}" if spool.problem else f"{where}."
