"""Draws the unfinished end of an answer as Markdown while it grows."""

import asyncio
import re
import time
from collections.abc import Callable

import msgspec
from prompt_toolkit.formatted_text import ANSI

from alhena.frontends.terminal.drawing.lines import Line

PAUSE_S = 0.1
SHARE = 5
"""Pauses between two drawings take at least so many times as long as a drawing."""
MAX_CHARACTERS = 16_000
_STRUCTURE = re.compile(r"(?m)^ {0,3}(?:(?:[-*+]|\d{1,9}[.)]|#{1,6})\s|[|>]|`{3}|~{3})")
"""Lists, headings, tables, quotations and code; other text is shown as it comes."""


class _Drawn(msgspec.Struct, frozen=True):
    text: str
    columns: int
    rows: list[Line]


class LiveMarkdown:
    """Renders in a thread, one text at a time; `changed` is called when there is something new to
    show."""

    def __init__(self, changed: Callable[[], None], render: Callable[[str, int], str]) -> None:
        self._changed = changed
        self._render = render
        self._wanted = ("", 0)
        self._drawn = _Drawn("", 0, [])
        self._drawing: asyncio.Task[None] | None = None

    def rows(self, text: str, columns: int) -> list[Line] | None:
        """The rows of a text, or of its beginning, as they were drawn last; None for text without
        structure, and before the first drawing."""
        if len(text) > MAX_CHARACTERS or not _STRUCTURE.search(text):
            return None
        self._wanted = (text, columns)
        drawn = self._drawn
        if (drawn.text, drawn.columns) != self._wanted and self._drawing is None:
            self._drawing = asyncio.ensure_future(self._draw())
            self._drawing.add_done_callback(self._ended)
        known = drawn.rows and drawn.columns == columns and text.startswith(drawn.text)
        return drawn.rows if known else None

    def close(self) -> None:
        """Ends the drawing."""
        if self._drawing is not None:
            self._drawing.cancel()

    async def _draw(self) -> None:
        while (self._drawn.text, self._drawn.columns) != self._wanted:
            text, columns = self._wanted
            start = time.perf_counter()
            shown = await asyncio.to_thread(self._render, text, columns)
            rows = [_row(each) for each in shown.rstrip("\n").split("\n")]
            self._drawn = _Drawn(text, columns, rows)
            self._changed()
            await asyncio.sleep(max(PAUSE_S, SHARE * (time.perf_counter() - start)))

    def _ended(self, drawing: "asyncio.Task[None]") -> None:
        self._drawing = None
        if not drawing.cancelled():
            drawing.result()


def _row(text: str) -> Line:
    return tuple((style, char) for style, char, *_ in ANSI(text).__pt_formatted_text__())
