"""Snapshots of a terminal's screen in small text files; `--write-snapshots` writes them."""

import difflib
import re
import time
from pathlib import Path

import pexpect

from alhena.frontends.terminal.drawing.live_region import SPINNER
from alhena.version import __version__
from tests.support.terminal import Terminal

STILL_S = 20.0
"""Seconds without a change after which a screen is not going to be the expected one."""
WRITTEN_S = 1.5
"""Seconds without a change after which a screen is written."""
RULE = "── "
VARIABLE = (
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<=KiB · )[0-9a-f]{8}"), "ID"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "N s"),
    (re.compile(f"[{SPINNER}]"), "⠿"),
    (re.compile(r"[\d,]+ tokens in, [\d,]+ out"), "N tokens in, N out"),
    (re.compile(r"/tmp/alhena-\w{8}"), "/tmp/alhena-00000000"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://SERVER"),
    (re.compile(re.escape(__version__)), "VERSION"),
)


class Snapshots:
    """The screens of a session, in order, in one file."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self._path = path
        self._write = write
        self._left = {} if write else _parsed(path.read_text(encoding="utf-8"))
        self._taken: list[str] = []

    def take(
        self, terminal: Terminal, name: str, *, last: int | None = None, styled: bool = False
    ) -> None:
        """Waits until the screen, or its `last` rows, is as in the file; fails once it stays
        otherwise. `styled` also shows the colours."""
        expected = None if self._write else self._left.pop(name, "(no snapshot of this name)")
        shown, since = "", time.monotonic()
        limit = WRITTEN_S if self._write else STILL_S
        while True:
            before, shown = shown, steady(terminal, last, styled=styled)
            if shown == expected:
                return
            if shown != before:
                since = time.monotonic()
            left = since + limit - time.monotonic()
            if left <= 0 or not _read(terminal, left):
                break
        if expected is None:
            self._taken.append(f"{RULE}{name}\n{shown}\n")
            return
        lines = difflib.unified_diff(expected.split("\n"), shown.split("\n"), name, "screen")
        raise AssertionError(
            f"{self._path.name}: " + "\n".join(lines) + "\nAs intended? Use --write-snapshots."
        )

    def close(self) -> None:
        """Writes the file, or checks that all its screens were seen."""
        if self._write:
            self._path.write_text("".join(self._taken), encoding="utf-8")
        assert not self._left, f"{self._path.name}: never shown: {', '.join(self._left)}"


def steady(terminal: Terminal, last: int | None, *, styled: bool) -> str:
    """The screen in view without what differs from run to run."""
    rows = terminal.screen.styled if styled else terminal.screen.shown
    text = "\n".join("\n".join(rows).strip("\n").split("\n")[-last if last else None :])
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text


def _read(terminal: Terminal, seconds: float) -> bool:
    """Takes what the program writes next; False when it writes nothing, or has ended."""
    try:
        terminal.take(seconds)
    except (pexpect.TIMEOUT, pexpect.EOF):
        return False
    return True


def _parsed(text: str) -> dict[str, str]:
    parts = text.split(f"\n{RULE}")
    parts[0] = parts[0].removeprefix(RULE)
    named = (part.partition("\n") for part in parts)
    return {name: screen.removesuffix("\n") for name, _, screen in named}
