"""The window's title, and notifications when a question waits or a long run has ended."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.display_text import one_line

if TYPE_CHECKING:
    from alhena.config.settings import Settings

WAITING_S = 10.0
"""Seconds after which an unanswered question is notified."""
LONG_S = 30.0
"""Seconds of a run from which its end is notified."""
MAX_TITLE = 80
_OSC9 = ("iterm.app", "wezterm", "ghostty", "kitty", "xterm-kitty", "xterm-ghostty")
BELL = "\x07"


class Attention:
    """Writes control sequences by `write` as the settings say; nothing before `adopt`."""

    def __init__(
        self,
        write: Callable[[str], None],
        clock: asyncio.AbstractEventLoop,
        environ: Mapping[str, str],
        cwd: Path,
    ) -> None:
        self._write = write
        self._clock = clock
        self._environ = environ
        self._name = environ.get("CLI_TITLE") or f"alhena - {cwd.name or cwd}"
        self._settings: Settings | None = None
        self._title = ""
        self._since: float | None = None
        self._thought = ""
        self._asking: asyncio.TimerHandle | None = None

    def adopt(self, settings: "Settings") -> None:
        """Follows these settings from now on."""
        self._settings = settings
        self._show_title()

    def working(self, thought: str | None) -> None:
        """The model is at work (None: it is not), with its latest thought."""
        before, now = self._since, self._clock.time()
        self._thought = thought or ""
        if thought is None and before is not None and now - before >= LONG_S:
            self._notify("The run has ended.")
        self._since = None if thought is None else before if before is not None else now
        self._show_title()

    def asking(self, waits: bool) -> None:
        """A question waits for its answer, or does not any more."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
        if waits:
            self._asking = self._clock.call_later(
                WAITING_S, lambda: self._notify("A question waits for your answer.")
            )
        self._show_title()

    def close(self) -> None:
        """Takes the title back."""
        self.asking(False)
        if self._title:
            self._write("\x1b]0;\x07")
        self._settings = None

    def _show_title(self) -> None:
        if self._settings is None or self._settings.ui.hide_window_title:
            return
        ui = self._settings.ui
        state = "? " if self._asking else "* " if self._since is not None else ""
        thought = f": {self._thought}" if ui.show_status_in_title and self._thought else ""
        title = one_line(f"{state if ui.dynamic_window_title else ''}{self._name}{thought}")
        if title != self._title:
            self._title = title
            self._write(f"\x1b]0;{title[:MAX_TITLE]}\x07")

    def _notify(self, text: str) -> None:
        if self._settings is None or not self._settings.general.enable_notifications:
            return
        method = self._settings.general.notification_method
        if method == "auto":
            names = {self._environ.get(name, "").casefold() for name in ("TERM_PROGRAM", "TERM")}
            rxvt = any(name.startswith("rxvt") for name in names)
            method = "osc9" if names & set(_OSC9) else "osc777" if rxvt else "bell"
        forms = {"osc9": f"\x1b]9;{text}\x07", "osc777": f"\x1b]777;notify;alhena;{text}\x07"}
        self._write(forms.get(method, BELL))
