"""/theme: a list of the themes with a sample of each."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from alhena.frontends.terminal.drawing.lines import Line, line
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption
from alhena.frontends.terminal.looks.theme import THEMES, Theme, custom_theme, theme_named

if TYPE_CHECKING:
    from alhena.config.settings import UiSettings
    from alhena.frontends.terminal.drawing.screen import Screen

_SAMPLE: tuple[tuple[tuple[str, str], ...], ...] = (
    (("bar", "┃ "), ("accent", "> "), ("user", "Why does the test fail?")),
    (("ok", "✓"), ("bold", " Read"), ("", " src/app.py"), ("dim", " (15 lines)")),
    (("error", "✗"), ("bold", " Shell"), ("", " npm test"), ("error", " · exit 1")),
    (("dim", "     3 "), ("removed", "- total = 0")),
    (("dim", "     3 "), ("added", "+ "), ("keyword", "return "), ("string", '"sum"')),
    (("warning", "! Rate limit reached"), ("dim", "  Trying again in 4 s")),
)


def all_themes(ui: "UiSettings") -> dict[str, Theme]:
    """The themes by name: the built-in ones, those of the settings and of extensions. Wrong ones
    are left out: they are named where the settings are adopted."""
    found = dict(THEMES)
    for name, written in ui.custom_themes.items():
        try:
            found[name] = custom_theme(written)
        except (ValueError, AttributeError):
            continue
    return found


def sample_lines(theme: Theme) -> tuple[Line, ...]:
    """A few lines in the colours of a theme."""
    looks = theme.looks
    return tuple(tuple((looks[style], text) for style, text in row) for row in _SAMPLE)


async def pick_theme(screen: "Screen", ui: "UiSettings") -> str | None:
    """The name of the theme that was picked; None when the list was left."""
    themes = all_themes(ui)
    names = tuple(themes)
    options = tuple(
        MenuOption(
            label=name, detail="current" if name == ui.theme else "", sample=sample_lines(each)
        )
        for name, each in themes.items()
    )
    now = names.index(ui.theme) if ui.theme in themes else 0
    picked = await screen.choose(Menu(title="Theme", options=options, selected=now, search=""))
    return names[min(picked)] if picked else None


def near_theme(name: str, themes: Mapping[str, Theme]) -> str | None:
    """The theme of a similar name, if there is none of this one."""
    if theme_named(name, themes) is not None:
        return None
    known = {each.casefold(): each for each in themes}
    near = get_close_matches(name.casefold(), known, n=1, cutoff=0.6)
    return known[near[0]] if near else None


async def confirm_near(screen: "Screen", kind: str, name: str, near: str) -> str | None:
    """Asks what was meant by a name that is not known: the near one, or the name as it is; None for
    neither."""
    options = (
        MenuOption(label=f"Yes, use {near}"[:60], key="y"),
        MenuOption(label=f"Use {name} as written"[:60], key="u"),
        MenuOption(label="No, change nothing", key="n"),
    )
    title = f"Unknown {kind} {name}. Did you mean {near}?"
    picked = await screen.choose(Menu(title=title, options=options, escape="change nothing"))
    return (near, name, None)[min(picked)] if picked else None


def theme_words(name: str) -> list[Line]:
    """The words for a theme that is not known."""
    return [line(f"No theme {name}. /theme lists them.", "error")]
