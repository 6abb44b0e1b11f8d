"""A list to choose from, as a value: keys go in, another list or a choice comes out."""

import msgspec

from alhena.display_text import one_line
from alhena.frontends.terminal.lines import Line, clipped, folded, line

HANG = 6
MIN_COLUMNS = 20
"""Columns from which on there is room to say how many options there are."""
FEW_ROWS = 6
"""Rows below which an option that is not selected is cut to one."""


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
            index = named(menu, key)
    if index is None:
        return menu
    if menu.checked is not None:
        return _ticked(menu, index)
    return Picked(frozenset({index}))


def menu_lines(
    menu: Menu, columns: int, note: str = "", rows: int | None = None, *, counts: bool = True
) -> tuple[list[Line], range]:
    """The menu as it is drawn, and which of its rows are the selected option's. A `note` takes the
    place of what the keys do, which is not said before they do it (`counts`), nor is there a
    pointer. Where it does not fit in `rows`, each option says how many there are: only those around
    the selected one are seen; in very few rows the others are cut to one."""
    hint = _hint(menu, note) if counts or note else line("  …", "dim")
    pointer = ">" if counts else "·"
    shown, chosen = _menu_lines(menu, columns, hint, pointer)
    if rows is None or len(shown) <= rows:
        return shown, chosen
    counted, cut = columns >= MIN_COLUMNS, rows < FEW_ROWS
    return _menu_lines(menu, columns, hint, pointer, counted=counted, cut=cut)


def _hint(menu: Menu, note: str) -> Line:
    if note:
        return line(f"  {note}", "warning")
    keys = "Space ticks, Enter takes them" if menu.checked is not None else "Enter takes it"
    return line(f"  Up/Down, a number or a letter; {keys}; Esc: no", "dim")


def _menu_lines(
    menu: Menu,
    columns: int,
    hint: Line,
    pointer: str,
    *,
    counted: bool = False,
    cut: bool = False,
) -> tuple[list[Line], range]:
    lines = folded(line(one_line(menu.title), "bold"), columns, HANG)
    chosen = range(0)
    for index, option in enumerate(menu.options):
        here = index == menu.selected
        tick = "" if menu.checked is None else "[x] " if index in menu.checked else "[ ] "
        mark = pointer if here else " "
        letter = f"/{option.key}" if option.key else ""
        text = f"{mark} {index + 1}{letter} {tick}{one_line(option.label)}"
        place = f"{index + 1} of {len(menu.options)}" if counted else ""
        more = ", ".join(filter(None, (one_line(option.detail), place)))
        detail = line(f"  {more}", "dim") if more else ()
        whole = (*line(text, "chosen" if here else ""), *detail)
        first = len(lines)
        lines += [clipped(whole, columns)] if cut and not here else folded(whole, columns, HANG)
        chosen = range(first, len(lines)) if here else chosen
    return [*lines, clipped(hint, columns)], chosen


def _ticked(menu: Menu, index: int) -> Menu:
    checked = (menu.checked or frozenset()) ^ {index}
    return msgspec.structs.replace(menu, checked=checked, selected=index)


def named(menu: Menu, key: str) -> int | None:
    """Which option a number or a letter names."""
    for index, option in enumerate(menu.options):
        if key and key in (str(index + 1), option.key):
            return index
    return None
