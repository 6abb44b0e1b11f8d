"""Erases what was drawn where the terminal has reflowed it to another width."""

import os
from collections.abc import Mapping
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.layout.screen import Screen


class ReflowingApplication(Application[None]):
    """An application that finds the beginning of its output after a resize: most terminals break
    rows that are too long for their new width, so that they take more rows than were drawn."""

    def erase_reflowed(self) -> None:
        """Erases what was drawn for more columns than there are now."""
        screen = self.renderer.last_rendered_screen
        if screen is None or not reflows(os.environ):
            return
        added = self._added_rows(screen, self.output.get_size().columns)
        if added:
            self.output.cursor_up(added)
            self.renderer.erase(leave_alternate_screen=False)

    def _on_resize(self) -> None:
        self.erase_reflowed()
        super()._on_resize()

    def _added_rows(self, screen: Screen, columns: int) -> int:
        """The number of rows that the terminal has added above the cursor."""
        cursor = screen.get_cursor_position(self.layout.current_window)
        drawn = [_drawn_columns(screen.data_buffer[row]) for row in range(cursor.y)]
        return sum(max(each - 1, 0) // columns for each in drawn) + cursor.x // columns


def _drawn_columns(row: Mapping[int, Any]) -> int:
    return max((column + 1 for column, cell in row.items() if cell.char != " "), default=0)


def reflows(environ: Mapping[str, str]) -> bool:
    """True for terminals that break long rows anew when they become narrower: nearly all but xterm,
    screen and the Linux console."""
    named = ("XTERM_VERSION", "STY")
    return "TMUX" in environ or not (
        any(environ.get(name) for name in named) or environ.get("TERM", "") == "linux"
    )
