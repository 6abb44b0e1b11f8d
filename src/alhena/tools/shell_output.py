"""Captures a command's output and reports it to the model in eight lines (TOOLS-16)."""

import re
from collections.abc import Callable
from typing import assert_never

import msgspec

from alhena.coloured_text import merge_colours
from alhena.system.errors import printable
from alhena.system.output import CapturedText, LiveOutput, OutputCapture, TextSpool
from alhena.system.processes import (
    BackgroundCommand,
    CommandLimits,
    ProcessEnding,
    ReachedLimit,
)
from alhena.system.screen_text import ScreenText
from alhena.tools.contract import SpilledText
from alhena.tools.output_store import OutputStore, ends

UNSTORED_CHARACTERS = 40_000


def live_output(update: Callable[[str], None], redraw: Callable[[str], None]) -> LiveOutput:
    """Passes output on as it arrives, by the clock of the running loop; `redraw` gets text that
    replaces all of it."""
    import asyncio

    loop = asyncio.get_running_loop()
    return LiveOutput(update, redraw, clock=loop.time, call_later=loop.call_later)


class CapturedOutput:
    """Takes the bytes by `feed`, or by `capture.feed` without live text. `size` characters are kept
    in memory (0: as many as `store` says, 40,000 without one); a longer output goes to a file of
    `store` that begins with `prefix` and has at most `most` bytes (0: unlimited), apart from the
    end of the text. `live` gets the text as it arrives, and follows the last lines as soon as one
    is redrawn; that of `coloured` if there is one."""

    tool = "run_shell_command"
    """Prefix of the file name."""

    def __init__(
        self,
        store: OutputStore | None,
        call_id: str,
        *,
        prefix: str,
        size: int = 0,
        most: int = 0,
        live: LiveOutput | None = None,
    ) -> None:
        size = size or (UNSTORED_CHARACTERS if store is None else store.memory_characters)
        self.spool: TextSpool | None = None
        if store is not None:
            self.spool = store.spool(self.tool, call_id, prefix=prefix, keep=size, most=most)
        self.coloured: ScreenText | None = None
        self._characters = 0
        self._line_breaks = 0
        self._prefix = prefix
        self._most = most
        self._live = live
        self._passed_on = 0
        self._fresh: list[str] | None = None
        head, tail = ends(size)
        self.capture = OutputCapture(head=head, tail=tail, on_text=self._take)

    @property
    def line_breaks(self) -> int:
        """The number of line breaks in the output so far."""
        pending = "" if self.capture.binary else self.capture.converter.pending
        return self._line_breaks + pending.count("\n")

    def feed(self, data: bytes) -> None:
        """Adds bytes of the output."""
        self._fresh = fresh = list[str]()
        self.capture.feed(data)
        self._fresh = None
        screen, live = self.capture.converter, self._live
        if live is None or self.capture.binary or not isinstance(screen, ScreenText):
            return
        length = self.capture.characters
        if self.coloured is not None:
            screen, fresh = self.coloured, [self.coloured.feed(data)]
            self._characters = length = self._characters + len(fresh[0])
        if screen.redrawn:
            live.follow(lambda: merge_colours(screen.shown))
            live.add("")
            return
        pending = screen.pending
        passed_on, self._passed_on = self._passed_on, length + len(pending)
        if self._passed_on > passed_on:
            live.add(("".join(fresh) + pending)[passed_on - self._passed_on :])

    def store_whole(self, captured: CapturedText, suffix: str) -> SpilledText | None:
        """The whole text followed by `suffix` (from a line break on), when it is longer than the
        memory limit. Closes the file; None when nothing needs to be stored."""
        spool = self.spool
        if spool is None:
            return None
        if captured.binary or not captured.omitted:
            spool.discard()
            return None
        # Merge the output's last line break with the one before the suffix.
        broken = captured.tail.endswith("\n")
        saved = spool.saved
        spool.finish(suffix.removeprefix("\n") if broken else suffix, tail=captured.tail)
        length = len(captured.head) + captured.omitted + len(captured.tail) - broken
        return SpilledText(
            head=self._prefix + captured.head,
            tail=captured.tail.removesuffix("\n") + suffix,
            characters=len(self._prefix) + length + len(suffix),
            path=None if spool.path is None else str(spool.path),
            problem=spool.problem or self._limit(),
            saved=saved if spool.full else spool.saved,
        )

    def _limit(self) -> str:
        if self.spool is None or not self.spool.full:
            return ""
        return f"the file has at most {self._most:,} bytes and the end of the output"

    def discard(self) -> None:
        """Deletes the file: the output will not be reported."""
        if self.spool is not None:
            self.spool.discard()

    def _take(self, text: str) -> None:
        self._line_breaks += text.count("\n")
        if self._fresh is not None:
            self._fresh.append(text)
        if self.spool is not None:
            self.spool.add(text)


OUTPUT = "Output: "
NO_OUTPUT = "(empty)"
INTERRUPTED = "It was stopped when the call was cancelled; the output ends there."


class ShellReport(msgspec.Struct, frozen=True, kw_only=True):
    """The fixed part of a report: the command and its directory (None: the working directory)."""

    command: str
    directory: str | None

    def before_output(self) -> str:
        """The lines above the output, and its label."""
        return f"{self._what()}\n{OUTPUT}"

    def after_output(self, error: str, ending: ProcessEnding | None) -> str:
        """The lines below the output, from a line break on. `ending` None: the command never
        started."""
        background = ", ".join(map(str, ending.background)) if ending else ""
        lines = (
            f"Error: {error or '(none)'}",
            f"Exit Code: {or_none(ending.exit_code if ending else None)}",
            f"Signal: {or_none(ending.signal if ending else None)}",
            f"Background PIDs: {background or '(none)'}",
            f"Process Group PGID: {or_none(ending.pgid if ending else None)}",
        )
        return "\n" + "\n".join(lines)

    def text(self, output: str, error: str, ending: ProcessEnding | None) -> str:
        """Formats the eight lines, always in this order."""
        return f"{self.before_output()}{output or NO_OUTPUT}{self.after_output(error, ending)}"

    def in_background(self, background: BackgroundCommand, output: str) -> str:
        """Formats the report of a command that runs in the background."""
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
    """Removes the process ids that the program itself reports; the command's output is
    unchanged."""
    text = re.sub(r"\A(Command is running in background\. PID: )\d+", r"\1", text)
    lines = re.compile(r"\nBackground PIDs: ([^\n]*)\nProcess Group PGID: [^\n]*")
    last = None
    for found in lines.finditer(text):
        last = found
    if last is None:
        return text
    left = "" if last[1] == "(none)" else "\nBackground PIDs:"
    return f"{text[: last.start()]}{left}{text[last.end() :]}"


def interrupted_ending(pid: int) -> ProcessEnding:
    """The end of a command killed by cancellation: its exit status is unknown."""
    return ProcessEnding(pgid=pid, exit_code=None, signal=None, stopped=None, background=())


def stop_reason(ending: ProcessEnding, limits: CommandLimits) -> str:
    """Explains why a command was stopped; "" when it ended by itself."""
    match ending.stopped:
        case None:
            return ""
        case ReachedLimit.INACTIVITY:
            return (
                f"Stopped after {limits.inactivity:g} s without output; it may have waited "
                "for something that does not come, such as input."
            )
        case ReachedLimit.OUTPUT:
            return f"Stopped after writing more than {limits.output:,} bytes."
        case ReachedLimit.KEYS:
            return (
                "Stopped because it waited for keys, as pagers and editors do; commands get none. "
                "Run it so that it does not ask."
            )
        case ReachedLimit.TOTAL:
            return "Stopped because its time was over."
        case _:
            assert_never(ending.stopped)


def or_none(value: int | None) -> str:
    """Formats a number for a line of the report."""
    return "(none)" if value is None else str(value)
