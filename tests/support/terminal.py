"""The real command on a terminal of its own, and what a person sees there."""

import os
import re
import signal
from contextlib import suppress
from typing import Any, Self
from unicodedata import east_asian_width

import pexpect
import ptyprocess

from tests.support.command import ALHENA
from tests.support.nursery import nursery
from tests.support.patience import PATIENCE_S

TOKEN = re.compile(
    r"\x1b\[([?>=]?)([\d;]*)([A-Za-z~])|\x1b\][^\x07]*\x07|\x1b\(?[=>78B]|.", re.DOTALL
)


class Cell(str):
    """A character, and the style it is drawn in: parameters of `CSI m`."""

    __slots__ = ("style",)
    style: str

    def __new__(cls, char: str, style: str) -> Self:
        made = super().__new__(cls, char)
        made.style = style
        return made


class Screen:
    """As much of a terminal as prompts need: cursor movement, erasing, wrapping, scrolling, styles.

    `lines` holds everything from the beginning, what has scrolled away too; `modes` the private
    modes that are on; `broken` the rows that the terminal had to break. With `tmux`, erasing all rows saves them, as tmux does."""

    def __init__(self, columns: int, rows: int, *, tmux: bool = False) -> None:
        self._tmux = tmux
        self.columns = columns
        self.rows = rows
        self.lines: list[list[str]] = [[]]
        self.row = 0
        self.column = 0
        self.style = ""
        self.wraps = True
        self.modes: set[str] = set()
        self.broken: list[str] = []
        self._rest = ""
        self._kept: tuple[list[list[str]], int, int] | None = None

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.lines)

    @property
    def shown(self) -> list[str]:
        """The rows that are in view."""
        return self.text.split("\n")[-self.rows :]

    @property
    def styled(self) -> list[str]:
        """The rows that are in view, each change of style as its parameters in braces."""
        rows: list[str] = []
        for line in self.lines[-self.rows :]:
            row, style = "", ""
            for cell in line:
                new = cell.style if isinstance(cell, Cell) else ""
                if cell and new != style:
                    row, style = f"{row}{{{new}}}", new
                row += cell
            rows.append(row.rstrip())
        return rows

    @property
    def _top(self) -> int:
        return max(len(self.lines) - self.rows, 0)

    def feed(self, text: str) -> None:
        text = self._rest + text
        cut = re.search(r"\x1b(\[[?>=]?[\d;]*|\][^\x07]*)?\Z", text)
        self._rest = text[cut.start() :] if cut else ""
        for token in TOKEN.finditer(text, 0, cut.start() if cut else len(text)):
            if token[3]:
                self._control(token[1], token[2], token[3])
            elif not token[0].startswith("\x1b"):
                self._put(token[0])

    def reflow(self, columns: int) -> None:
        """Breaks rows that are too long for a new width, as most terminals do."""
        lines: list[list[str]] = []
        for number, line in enumerate(self.lines):
            if number == self.row:
                self.row, self.column = (
                    len(lines) + self.column // columns,
                    self.column % columns,
                )
                lines += [line[at : at + columns] for at in range(0, len(line) or 1, columns)]
                lines += [[] for _ in range(self.row + 1 - len(lines))]
                lines += self._broken(self.lines[number + 1 :], columns)
                break
            lines += self._broken([line], columns)
        self.lines = lines

    @staticmethod
    def _broken(lines: list[list[str]], columns: int) -> list[list[str]]:
        return [
            line[at : at + columns] for line in lines for at in range(0, len(line) or 1, columns)
        ]

    def _put(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._go(self.row + 1)
        elif char == "\b":
            self.column = max(self.column - 1, 0)
        elif char >= " ":
            width = 2 if east_asian_width(char) in "WF" else 1
            if self.column + width > self.columns:
                if self.wraps:
                    self.broken.append("".join(self.lines[self.row]))
                    self._go(self.row + 1)
                    self.column = 0
                else:
                    self.column = self.columns - width
            line = self.lines[self.row]
            line += [" "] * (self.column - len(line))
            cell = Cell(char, self.style) if self.style else char
            line[self.column : self.column + width] = [cell, *[""] * (width - 1)]
            self.column += width

    def _go(self, row: int) -> None:
        self.row = max(row, self._top)
        while self.row >= len(self.lines):
            self.lines.append([])

    def _switch(self, *, aside: bool) -> None:
        """To the alternate screen, or back."""
        if aside:
            self._kept = (self.lines, self.row, self.column)
            self.lines, self.row, self.column = [[]], 0, 0
        elif self._kept is not None:
            self.lines, self.row, self.column = self._kept
            self._kept = None

    def _restyle(self, parameters: str) -> None:
        first, _, more = parameters.partition(";")
        self.style = more if first in ("", "0") else f"{self.style};{parameters}".lstrip(";")

    def _mode(self, mode: str, *, on: bool) -> None:
        if mode in ("1047", "1049"):
            self._switch(aside=on)
            self.modes -= {"1047", "1049"}
        elif mode == "7":
            self.wraps = on
        (self.modes.add if on else self.modes.discard)(mode)

    def _control(self, private: str, parameters: str, final: str) -> None:
        first = int(parameters.partition(";")[0] or 0)
        count = max(first, 1)
        match final:
            case _ if private:
                self._mode(parameters, on=final == "h")
            case "t" | "r":  # the window's title; all rows, before a cursor movement
                pass
            case "A":
                self._go(self.row - count)
            case "B":
                self._go(min(self.row + count, max(len(self.lines), self.rows) - 1))
            case "C":
                self.column = min(self.column + count, self.columns - 1)
            case "D":
                self.column = max(min(self.column, self.columns - 1) - count, 0)
            case "J" if first == 0:
                self._erase_below()
            case "J" if first == 2:
                self.lines = [*self.lines[: self._top], *([] for _ in range(self.rows))]
            case "H":
                self._go(self._top + min(count, self.rows) - 1)
                self.column = int(parameters.partition(";")[2] or 1) - 1
            case "K":
                del self.lines[self.row][0 if first == 2 else self.column :]
            case "m":
                self._restyle(parameters)
            case _:
                raise AssertionError(f"no such control: {private}{parameters}{final}")

    def _erase_below(self) -> None:
        if self._tmux and (self.row, self.column) == (self._top, 0) and any(self.lines[self.row :]):
            self.lines += [[] for _ in range(self.rows)]
            self.row = self._top
        del self.lines[self.row][self.column :]
        del self.lines[self.row + 1 :]


class Forked(ptyprocess.PtyProcess):
    """A command of the nursery, whose child it is."""

    def isalive(self) -> bool:
        return not self.terminated and not self._look_for_end(0 if self.flag_eof else os.WNOHANG)

    def wait(self) -> int | None:
        if not self.terminated:
            self._look_for_end(0)
        return self.exitstatus

    def _look_for_end(self, options: int) -> bool:
        pid, status = nursery().wait(self.pid, options)
        if pid:
            self.terminated = True
            self.status = status
            ended = os.WIFEXITED(status)
            self.exitstatus = os.WEXITSTATUS(status) if ended else None
            self.signalstatus = None if ended else os.WTERMSIG(status)
        return bool(pid)


class Spawned(pexpect.spawn):
    """A command that is forked, if what counts is not how it starts."""

    def __init__(self, program: str, arguments: list[str], *, fork: bool, **options: Any) -> None:
        self._fork = fork
        super().__init__(program, arguments, **options)

    def _spawnpty(
        self, args: list[bytes], *, env: dict[str, str], dimensions: tuple[int, int], **options: Any
    ) -> ptyprocess.PtyProcess:
        if not self._fork:
            return super()._spawnpty(args, env=env, dimensions=dimensions, **options)
        return Forked(*nursery().start([each.decode() for each in args[1:]], env, dimensions))


class Terminal:
    """`alhena ARGUMENTS`, or another program, at a terminal. Everything it writes is in `raw`.

    With `fork` the command is forked from a process that has its modules loaded."""

    def __init__(
        self,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm",
        program: str = ALHENA,
        fork: bool = False,
        **environ: str,
    ) -> None:
        self.screen = Screen(columns, rows, tmux="TMUX" in environ)
        self.raw = ""
        # Neither a locale nor a measurement of coverage begins in a process that runs already.
        fresh = any(name.startswith(("LANG", "LC_", "PYTHON")) for name in environ)
        fresh = fresh or any(name.startswith("COVERAGE_") for name in os.environ)
        self.process = Spawned(
            program,
            list(arguments),
            fork=fork and program == ALHENA and not fresh,
            env=os.environ | {"TERM": term} | environ,
            dimensions=(rows, columns),
            encoding="utf-8",
            timeout=PATIENCE_S,
        )
        self.process.delaybeforesend = None
        self.gone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if not self.gone:
            self.process.close(force=True)

    def go_away(self) -> int:
        """The terminal is closed; how the process ended, as `os.waitpid` says it."""
        self.gone = True
        os.close(self.process.child_fd)
        return self._wait(0)

    def send(self, keys: str) -> None:
        self.process.send(keys)

    def until(self, text: str, *, gone: str = "", times: int = 1) -> str:
        """Reads until `text` is to be seen (and `gone` is not in view any more)."""
        while self.screen.text.count(text) < times or (
            gone and gone in "\n".join(self.screen.shown)
        ):
            try:
                self._take(self.process.read_nonblocking(65536, timeout=PATIENCE_S))
            except (pexpect.TIMEOUT, pexpect.EOF) as error:
                raise AssertionError(f"no {text!r} in:\n{self.screen.text}") from error
        return self.screen.text

    def until_mode(self, mode: str) -> None:
        """Reads until a mode is on: while a program draws, it may be off for a moment."""
        while mode not in self.screen.modes:
            try:
                self.take()
            except (pexpect.TIMEOUT, pexpect.EOF) as error:
                raise AssertionError(f"mode {mode} is off: {self.screen.modes}") from error

    def ended(self) -> int:
        """Reads to the end; the exit code."""
        while True:
            try:
                self._take(self.process.read_nonblocking(65536, timeout=PATIENCE_S))
            except pexpect.EOF:
                break
        self.process.wait()
        return self.process.exitstatus

    def resize(self, columns: int, rows: int, *, reflow: bool = False) -> None:
        """Another size, while the program is stopped and all it has written for the old one read."""
        pid = self.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        self._wait(os.WUNTRACED)
        with suppress(pexpect.TIMEOUT):
            while True:
                self.take(0.1)
        if reflow:
            self.screen.reflow(columns)
        self.screen.columns, self.screen.rows = columns, rows
        self.process.setwinsize(rows, columns)
        os.kill(pid, signal.SIGCONT)

    def _wait(self, options: int) -> int:
        forked = isinstance(self.process.ptyproc, Forked)
        return (nursery().wait if forked else os.waitpid)(self.process.pid, options)[1]

    def take(self, seconds: float = PATIENCE_S) -> None:
        """Reads what the program writes next."""
        self._take(self.process.read_nonblocking(65536, timeout=seconds))

    def _take(self, text: str) -> None:
        self.raw += text
        self.screen.feed(text)
