"""Erases what was drawn where the terminal has reflowed it to another width."""

import os
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Screen

_ERASURE = "\x1b[2K\x1b[C\x1b[J\r"
"""Erases from this row on, by a second column: tmux saves all that is erased from the first one of
its screen, and shrinking may have moved the beginning of the output beyond that."""


class ReflowingApplication(Application[None]):
    """An application that finds the beginning of its output after a resize: most terminals break
    rows that are too long for their new width, so that they take more rows than were drawn."""

    _cursor = Point(0, 0)
    """Position of the cursor in the last drawing: the focus may have moved since."""
    _reached: tuple[int, ...] = ()
    """Columns of each row that were written since the last erasure. tmux breaks erased ones too."""

    def erase_reflowed(self) -> None:
        """Erases what was drawn for more columns than there are now."""
        screen = self.renderer.last_rendered_screen
        if screen is not None and self._added_rows(screen):
            self.erase()

    def erase(self) -> None:
        """Erases what was drawn."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return
        above = self._cursor.y + self._added_rows(screen)
        self.output.write_raw("\r")
        self.output.cursor_up(above)
        self.output.write_raw(_ERASURE)
        self.output.reset_attributes()
        self.output.enable_autowrap()
        self.renderer.reset(leave_alternate_screen=False)

    def before_drawing(self) -> None:
        """Called before each drawing, after the last erasure."""
        if self.renderer.last_rendered_screen is None:
            self._reached = ()

    def after_drawing(self) -> None:
        """Called after each drawing."""
        screen = self.renderer.last_rendered_screen
        if screen is None:
            return
        self._cursor = screen.get_cursor_position(self.layout.current_window)
        if "TMUX" in os.environ:
            rows = (_drawn_columns(screen.data_buffer[row]) for row in range(screen.height))
            self._reached = tuple(map(max, zip_longest(rows, self._reached, fillvalue=0)))

    def _on_resize(self) -> None:
        self.erase()
        super()._on_resize()

    def _added_rows(self, screen: Screen) -> int:
        """The number of rows that the terminal has added above the cursor."""
        if not reflows(os.environ):
            return 0
        columns = self.output.get_size().columns
        cursor = self._cursor
        drawn = (_drawn_columns(screen.data_buffer[row]) for row in range(cursor.y))
        reached = map(max, zip_longest(drawn, self._reached[: cursor.y], fillvalue=0))
        return sum(max(each - 1, 0) // columns for each in reached) + cursor.x // columns


def _drawn_columns(row: Mapping[int, Any]) -> int:
    return max((column + 1 for column, cell in row.items() if cell.char != " "), default=0)


def reflows(environ: Mapping[str, str]) -> bool:
    """True for terminals that rewrap long rows when they become narrower: nearly all but xterm,
    screen and the Linux console."""
    named = ("XTERM_VERSION", "STY")
    return "TMUX" in environ or not (
        any(environ.get(name) for name in named) or environ.get("TERM", "") == "linux"
    )
