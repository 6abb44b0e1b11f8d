"""Programs at the terminal of the session: commands of the person, and the editor."""

import asyncio
import os
import shlex
import termios
import tty
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Literal

from alhena.frontends.terminal.drawing.screen import Screen
from alhena.system.pseudo_terminal import PseudoTerminal
from alhena.system.workspace import TerminalProvider
from alhena.tools.edit.external_editor import EditorCommand

Use = Literal["keys", "output", "none"]
"""A command gets the keys and writes to the terminal itself, or has one for its output only."""
UseOf = Callable[[str], Use]
"""Use of the terminal by the command of a call."""
ConsoleFactory = Callable[[UseOf], TerminalProvider]

_CHUNK = 1 << 16
_RETRY = 0.01
"""Seconds after which keys that a program did not take are offered again."""
MARGIN = 4
"""Columns beside the live output of a call."""
LEAST_COLUMNS = 80
"""Columns that a command has at least: many programs count on them."""
FALLBACKS = ("nano", "vi", "vim")
_DIFFING = {"vim": "-d", "nvim": "-d"}
_WAITING = {
    **dict.fromkeys(
        ("code", "code-insiders", "codium", "cursor", "windsurf"), ("--wait", "--diff")
    ),
    **dict.fromkeys(("subl", "zed", "mate", "atom"), ("--wait",)),
}
OnResize = Callable[[Callable[[], None]], AbstractContextManager[None]]


class SharedConsole:
    """A `system.workspace.TerminalProvider`, by what `use` says of each call: one gets the keys of
    the terminal `source`, and its output goes to `target` as it is. `on_resize` has a function
    called for each change of their size."""

    def __init__(
        self, screen: Screen, use: UseOf, source: int, target: int, on_resize: OnResize
    ) -> None:
        self._screen = screen
        self._use = use
        self._source = source
        self._target = target
        self._on_resize = on_resize

    @asynccontextmanager
    async def attach(self, call_id: str) -> AsyncGenerator[PseudoTerminal | None]:
        """As `Console.attach`."""
        use = self._use(call_id)
        if use != "keys":
            rows, columns = _size(self._target)
            columns = max(columns - MARGIN, LEAST_COLUMNS)
            yield PseudoTerminal(rows, columns) if use == "output" else None
            return
        async with self._screen.suspend():
            with (
                forwarding(self._source, self._target) as terminal,
                self._on_resize(lambda: terminal.resize(*_size(self._target))),
            ):
                yield terminal


@contextmanager
def forwarding(source: int, target: int) -> Generator[PseudoTerminal]:
    """A pseudo-terminal that gets the keys of the terminal `source`, and whose output goes to
    `target`. Both are as before afterwards, whatever a program has left changed."""
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(source)
    waiting = bytearray()

    def write(data: bytes) -> None:
        view = memoryview(data)
        with suppress(OSError):  # the terminal has gone away: a signal ends the session
            while view:
                view = view[os.write(target, view) :]

    def forward_keys() -> None:
        try:
            data = os.read(source, _CHUNK)
        except OSError:
            data = b""
        waiting.extend(data)
        if not data or not passed_on():
            loop.remove_reader(source)

    def passed_on() -> bool:
        del waiting[: terminal.write(bytes(waiting))]
        if waiting:
            loop.call_later(_RETRY, again)
        return not waiting

    def again() -> None:
        if passing and passed_on():
            loop.add_reader(source, forward_keys)

    terminal = PseudoTerminal(
        *_size(target),
        keys=lambda: loop.add_reader(source, forward_keys),
        seen=write,
        attributes=before,
    )
    passing = True
    tty.setraw(source, termios.TCSANOW)
    try:
        yield terminal
    finally:
        passing = False
        loop.remove_reader(source)
        undone = terminal.screen.restore().encode("ascii")
        write(undone if terminal.screen.at_margin else undone + b"\r\n")
        with suppress(termios.error):
            termios.tcsetattr(source, termios.TCSADRAIN, before)


def _size(descriptor: int) -> tuple[int, int]:
    columns, rows = os.get_terminal_size(descriptor)
    return rows or 24, columns or 80


_PREFERRED = {
    "vscode": "code",
    "vscodium": "codium",
    "neovim": "nvim",
    "helix": "hx",
    "antigravity": "agy",
    "emacsclient": "emacsclient",
}
"""Names of `general.preferredEditor` that are not those of their commands."""


def editor_command(
    environ: Mapping[str, str], preferred: str | None = None
) -> EditorCommand | None:
    """The editor that the settings prefer, if it is there, that of VISUAL or EDITOR, else one that
    is there; None when none is."""
    words = editor_words(environ, preferred)
    if not words:
        return None
    name = Path(words[0]).name.removesuffix(".exe")

    def command(old: Path, new: Path) -> list[str]:
        if name in _DIFFING and len(words) == 1:
            return [*words, _DIFFING[name], str(new), str(old)]  # the cursor is in the first
        if name in _WAITING:
            options = [each for each in _WAITING[name] if each not in words]
            both = "--diff" in (*words, *options)
            return [*words, *options, *([str(old)] if both else []), str(new)]
        return [*words, str(new)]

    return command


NO_EDITOR = "No editor found: set VISUAL or EDITOR."


def waiting_words(environ: Mapping[str, str], preferred: str | None = None) -> list[str]:
    """As `editor_words`, with the options by which an editor that has windows of its own waits."""
    words = editor_words(environ, preferred)
    name = Path(words[0]).name.removesuffix(".exe") if words else ""
    options = (each for each in _WAITING.get(name, ()) if each not in (*words, "--diff"))
    return [*words, *options]


def editor_words(environ: Mapping[str, str], preferred: str | None = None) -> list[str]:
    """The editor's command: that of the settings, VISUAL or EDITOR, else the first one that is
    there; empty when none is."""
    return _preferred_words(preferred or "", environ) or _wanted_editor(environ)


def _preferred_words(preferred: str, environ: Mapping[str, str]) -> list[str]:
    from alhena.system.own_programs import find_program

    name = _PREFERRED.get(preferred.strip().casefold(), preferred.strip())
    return [name] if name and find_program(name, environ) else []


def _wanted_editor(environ: Mapping[str, str]) -> list[str]:
    from alhena.system.own_programs import find_program

    for variable in ("VISUAL", "EDITOR"):
        given = environ.get(variable, "").strip()
        if given:
            try:
                return shlex.split(given)
            except ValueError:  # unbalanced quotes: one word, whatever it is
                return [given]
    return [name for name in FALLBACKS if find_program(name, environ)][:1]
