"""What a model is told of a command: eight lines, or that it goes on."""

import re
from typing import assert_never

import msgspec

from alhena.system.background import BackgroundCommand
from alhena.system.errors import printable
from alhena.system.processes import Ending, Limits, Stop

OUTPUT = "Output: "
NO_OUTPUT = "(empty)"
INTERRUPTED = "It was stopped when the call was cancelled; the output ends there."


class ShellReport(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed part of a report: what was run, and where (None: the working directory)."""

    command: str
    directory: str | None

    def before_output(self) -> str:
        """The lines above the output, and its label."""
        return f"{self._what()}\n{OUTPUT}"

    def after_output(self, error: str, ending: Ending | None) -> str:
        """The lines below the output, from a line break on. `ending` None: it never started."""
        background = ", ".join(map(str, ending.background)) if ending else ""
        lines = (
            f"Error: {error or '(none)'}",
            f"Exit Code: {or_none(ending.exit_code if ending else None)}",
            f"Signal: {or_none(ending.signal if ending else None)}",
            f"Background PIDs: {background or '(none)'}",
            f"Process Group PGID: {or_none(ending.pgid if ending else None)}",
        )
        return "\n" + "\n".join(lines)

    def text(self, output: str, error: str, ending: Ending | None) -> str:
        """Always these eight lines, in this order."""
        return f"{self.before_output()}{output or NO_OUTPUT}{self.after_output(error, ending)}"

    def in_background(self, background: BackgroundCommand, output: str) -> str:
        """What there is to say of a command that goes on."""
        return (
            f"Command is running in background. PID: {background.pid}. Initial output:\n"
            f"{output or NO_OUTPUT}\n"
            f"{self._what()}\n"
            f"Background PIDs: {background.pid}\n"
            f"Process Group PGID: {background.pid}"
        )

    def _what(self) -> str:
        where = printable(self.directory) if self.directory else "(root)"
        return f"Command: {self.command}\nDirectory: {where}"


def without_ids(text: str) -> str:
    """A report without the ids of processes that the program itself tells in it; what a command
    wrote stays as it is."""
    text = re.sub(r"\A(Command is running in background\. PID: )\d+", r"\1", text)
    lines = re.compile(r"\nBackground PIDs: ([^\n]*)\nProcess Group PGID: [^\n]*")
    last = None
    for found in lines.finditer(text):
        last = found
    if last is None:
        return text
    left = "" if last[1] == "(none)" else "\nBackground PIDs:"
    return f"{text[: last.start()]}{left}{text[last.end() :]}"


def interrupted(pid: int) -> Ending:
    """The end of a command that was stopped with its call: nobody has seen how it ended."""
    return Ending(pgid=pid, exit_code=None, signal=None, stopped=None, background=())


def stop_reason(ending: Ending, limits: Limits) -> str:
    """Why a command was stopped, in a sentence; "" when it ended by itself."""
    match ending.stopped:
        case None:
            return ""
        case Stop.INACTIVITY:
            return (
                f"Stopped after {limits.inactivity:g} s without output; it may have waited "
                "for something that does not come, such as input."
            )
        case Stop.OUTPUT:
            return f"Stopped after writing more than {limits.output:,} bytes."
        case Stop.TOTAL:
            return "Stopped because its time was over."
        case _:
            assert_never(ending.stopped)


def or_none(value: int | None) -> str:
    """A number for a line of a report."""
    return "(none)" if value is None else str(value)
