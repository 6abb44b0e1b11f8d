"""A sample of each theme."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from alhena.frontends.terminal.drawing.lines import Line
from alhena.frontends.terminal.looks.theme import THEMES, Theme, custom_theme

_SAMPLE: tuple[tuple[tuple[str, str], ...], ...] = (
    (("bar", "┃ "), ("accent", "> "), ("user", "Why does the test fail?")),
    (("chosen", "Causes"), ("answer", "  The sum leaves out 3, see "), ("link", "the report")),
    (("ok", "✓"), ("bold", " Read"), ("", " src/app.py"), ("dim", " (15 lines)")),
    (("error", "✗"), ("bold", " Shell"), ("", " npm test"), ("error", " · exit 1")),
    (("dim", "     3 "), ("removed", "- total = 0")),
    (
        *(("dim", "     3 "), ("added", "+ "), ("keyword", "return "), ("string", '"sum"')),
        *(("symbol", " + "), ("number", "3"), ("comment", "  # all")),
    ),
    (("warning", "! Rate limit reached"), ("dim", "  Trying again in 4 s")),
)


def sample_themes(custom: Mapping[str, Any]) -> dict[str, tuple[Line, ...]]:
    """Samples by the names of themes: the built-in ones and `custom` ones, as they are written.
    Wrong ones are left out: they are named where the settings are adopted."""
    themes = dict(THEMES)
    for name, written in custom.items():
        with suppress(ValueError, AttributeError):
            themes[name] = custom_theme(written)
    return {name: _sample_lines(theme) for name, theme in themes.items()}


def _sample_lines(theme: Theme) -> tuple[Line, ...]:
    looks = theme.looks
    return tuple(tuple((looks[style], text) for style, text in row) for row in _SAMPLE)
