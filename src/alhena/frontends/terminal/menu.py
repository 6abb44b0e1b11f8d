"""A list to choose from, as a value: keys go in, another list or a choice comes out."""

import msgspec

from alhena.display_text import one_line
from alhena.frontends.terminal.lines import Line, clipped, folded, line

HANG = 6
MIN_COLUMNS = 20
"""Columns from which on there is room to say how many options there are."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to choose. `key` is a letter that picks it at once, beside its number."""

    label: str
    key: str = ""
    detail: str = ""


class Menu(msgspec.Struct, frozen=True, kw_only=True):
    """`checked` is None where one option is picked, else those that are ticked so far."""

    title: str
    options: tuple[Option, ...]
    selected: int = 0
    checked: frozenset[int] | None = None


class Picked(msgspec.Struct, frozen=True):
    """The choice: indices of options; None when the list was dismissed."""

    indices: frozenset[int] | None


def moves(key: str) -> bool:
    """Whether a key is none that somebody writes words with."""
    return key in ("up", "down", "escape", "space", "enter")


def press(menu: Menu, key: str) -> Menu | Picked:
    """What a key makes of a menu. Keys are up, down, enter, space, escape, or a character; one
    that means nothing here changes nothing."""
    count = len(menu.options)
    match key:
        case "up" | "down":
            step = 1 if key == "down" else -1
            return msgspec.structs.replace(menu, selected=(menu.selected + step) % count)
        case "escape":
            return Picked(None)
        case "enter":
            return Picked(frozenset({menu.selected}) if menu.checked is None else menu.checked)
        case "space" if menu.checked is not None:
            return _ticked(menu, menu.selected)
        case _:
            index = _named(menu, key)
    if index is None:
        return menu
    if menu.checked is not None:
        return _ticked(menu, index)
    return Picked(frozenset({index}))


def menu_lines(
    menu: Menu, columns: int, note: str = "", rows: int | None = None
) -> tuple[list[Line], int]:
    """The menu as it is drawn, and how many of its rows end with the selected option. A `note`
    takes the place of what the keys do. Where it does not fit in `rows`, each option says how many
    there are: only those around the selected one are seen."""
    shown, last = _menu_lines(menu, columns, note, counted=False)
    if rows is None or len(shown) <= rows or columns < MIN_COLUMNS:
        return shown, last
    return _menu_lines(menu, columns, note, counted=True)


def _menu_lines(menu: Menu, columns: int, note: str, *, counted: bool) -> tuple[list[Line], int]:
    lines = folded(line(one_line(menu.title), "bold"), columns, HANG)
    last = 0
    for index, option in enumerate(menu.options):
        here = index == menu.selected
        tick = "" if menu.checked is None else "[x] " if index in menu.checked else "[ ] "
        pointer = ">" if here else " "
        letter = f"/{option.key}" if option.key else ""
        text = f"{pointer} {index + 1}{letter} {tick}{one_line(option.label)}"
        place = f"{index + 1} of {len(menu.options)}" if counted else ""
        more = ", ".join(filter(None, (one_line(option.detail), place)))
        detail = line(f"  {more}", "dim") if more else ()
        lines += folded((*line(text, "chosen" if here else ""), *detail), columns, HANG)
        last = len(lines) if here else last
    keys = "Space ticks, Enter takes them" if menu.checked is not None else "Enter takes it"
    hint = line(f"  Up/Down, a number or a letter; {keys}; Esc: no", "dim")
    return [*lines, clipped(line(f"  {note}", "warning") if note else hint, columns)], last


def _ticked(menu: Menu, index: int) -> Menu:
    checked = (menu.checked or frozenset()) ^ {index}
    return msgspec.structs.replace(menu, checked=checked, selected=index)


def _named(menu: Menu, key: str) -> int | None:
    for index, option in enumerate(menu.options):
        if key and key in (str(index + 1), option.key):
            return index
    return None
