"""The terminal's background: asked by OSC 11, and the answer taken out of the keys."""

import re
from collections.abc import Callable, Mapping
from typing import TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input

ASK = "\x1b]11;?\x07"
_ANSWER = re.compile(r"\x1b?\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_BEGUN = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?\Z")
_COLOUR = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_LIGHT = (*range(9, 16), 7)


def said_light(environ: Mapping[str, str]) -> bool:
    """True when COLORFGBG says that the background is light."""
    last = environ.get("COLORFGBG", "").rpartition(";")[2]
    return last.isdecimal() and int(last) in _LIGHT


def is_light(colour: str) -> bool | None:
    """True for a light colour as terminals write it (`rgb:ffff/ffff/ffff`); None for no colour."""
    found = _COLOUR.match(colour)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return 0.299 * red + 0.587 * green + 0.114 * blue > 0.5


class AnswerReader(PosixStdinReader):
    """Reads what is typed, without the terminal's answer to ASK, which `heard` gets."""

    def __init__(self, stdin_fd: int, encoding: str, heard: Callable[[str], None]) -> None:
        super().__init__(stdin_fd, encoding=encoding)
        self._heard = heard
        self._held = ""

    def read(self, count: int = 1024) -> str:
        """As `PosixStdinReader`. The beginning of an answer waits for its end."""
        return self.without_answer(super().read(count))

    def without_answer(self, text: str) -> str:
        """Returns the typed part of a text that was read."""
        text, self._held = self._held + text, ""
        if "]" not in text:
            return text
        if (found := _ANSWER.search(text)) is not None:
            self._heard(found[1])
            text = text[: found.start()] + text[found.end() :]
        if (begun := _BEGUN.search(text)) is not None and not self.closed:
            text, self._held = text[: begun.start()], begun[0]
        return text


class BackgroundInput(Vt100Input):
    """The keys of a terminal; `heard` gets its answer to ASK."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.heard: Callable[[str], None] = lambda _: None
        self.stdin_reader = AnswerReader(self.fileno(), stdin.encoding or "utf-8", self._hear)

    def _hear(self, colour: str) -> None:
        self.heard(colour)
