"""A list to choose from: what keys make of it, and its lines."""

from collections.abc import Sequence

import msgspec

from alhena.display_text import one_line
from alhena.frontends.terminal.drawing.lines import Line, clip_line, fold_line, line, width

HANG, HINT_HANG = 6, 2
NOTHING_CHANGED = "Nothing changed."
"""Said when a menu was left without a choice."""
MIN_COLUMNS = 20
"""Columns that an option of a menu with search has beside its detail."""


class MenuOption(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to choose. `key` is a letter that picks it at once, beside its number: its place in
    the list unless `number` says otherwise. A menu with search shows the `preview` and the `sample`
    while it is selected."""

    label: str
    key: str = ""
    detail: str = ""
    preview: str = ""
    sample: tuple[Line, ...] = ()
    number: int = 0


class Menu(msgspec.Struct, frozen=True, kw_only=True):
    """`checked` is None where one option is picked, else those that are ticked so far. `search` is
    what was typed to find an option, None for a menu without search: there letters are answers.
    `more` is an answer by its key that is not in the list; its index is behind the last one.
    `escape` says in a word what Esc does."""

    title: str
    options: tuple[MenuOption, ...]
    more: MenuOption | None = None
    selected: int = 0
    checked: frozenset[int] | None = None
    search: str | None = None
    escape: str = "stop"

    @property
    def numbers(self) -> list[int]:
        """The number of each option."""
        return [each.number or place for place, each in enumerate(self.options, 1)]

    @property
    def found(self) -> list[int]:
        """Indices of the options that hold every word of the search."""
        words = (self.search or "").casefold().split()
        texts = [f"{each.label} {each.detail} {each.preview}".casefold() for each in self.options]
        return [at for at, text in enumerate(texts) if all(word in text for word in words)]


class MenuChoice(msgspec.Struct, frozen=True):
    """The choice: indices of options; None when the list was dismissed."""

    indices: frozenset[int] | None


def moves(key: str) -> bool:
    """True when a key is not one for typing words."""
    return key in ("up", "down", "escape", "space", "enter")


def press(menu: Menu, key: str) -> Menu | MenuChoice:
    """The menu after a key press. Keys are up, down, enter, space, escape, or a character; others
    change nothing."""
    if menu.search is not None:
        return _search(menu, menu.search, key)
    count = len(menu.options)
    match key:
        case "up" | "down":
            step = 1 if key == "down" else -1
            return msgspec.structs.replace(menu, selected=(menu.selected + step) % count)
        case "escape":
            return MenuChoice(None)
        case "enter":
            return MenuChoice(frozenset({menu.selected}) if menu.checked is None else menu.checked)
        case "space" if menu.checked is not None:
            return _toggle(menu, menu.selected)
        case _:
            index = find_option(menu, key)
    if index is None:
        return menu
    if menu.checked is not None and index < len(menu.options):
        return _toggle(menu, index)
    return MenuChoice((menu.checked or frozenset()) | {index})


def _search(menu: Menu, search: str, key: str) -> Menu | MenuChoice:
    """The menu with a search after a key press; `selected` is an index among those found."""
    found = menu.found
    match key:
        case "up" | "down":
            step = 1 if key == "down" else -1
            selected = (menu.selected + step) % max(len(found), 1)
            return msgspec.structs.replace(menu, selected=selected)
        case "escape":
            return MenuChoice(None)
        case "enter":
            return MenuChoice(frozenset({found[menu.selected]})) if found else menu
        case "backspace":
            search = search[:-1]
        case "space":
            search += " "
        case "/" if not search:
            return menu
        case _:
            search += key
    return msgspec.structs.replace(menu, search=search, selected=0)


MORE_ROWS = 2
"""Rows that the highlighted option has more than others, where they show all of it."""
SEARCH_ROWS = 10
"""Options of a menu with search that are in view."""


def _search_lines(menu: Menu, columns: int, rows: int) -> tuple[list[Line], range]:
    found = menu.found
    told = f"{len(found)} of {len(menu.options)}" if found else "no match"
    hint = line(f"  {told} · {SELECT} · Enter confirm · type to search · Esc leave", "dim")
    hints = fold_line(hint, columns, HINT_HANG)
    room = max(min(SEARCH_ROWS, rows - 2 - len(hints)), 1)
    spare = min(rows - 2 - len(hints) - min(room, len(found)), MORE_ROWS)
    first = max(0, min(menu.selected - room // 2, len(found) - room))
    lines = [clip_line(line(one_line(menu.title), "bold"), columns)]
    lines.append(clip_line((("accent", "  / "), *line(menu.search or "")), columns))
    chosen = range(len(lines), len(lines) + 1)
    for at, index in enumerate(found[first : first + room], first):
        option, here = menu.options[index], at == menu.selected
        text = line(f"{'>' if here else ' '} {one_line(option.label)}", "chosen" if here else "")
        detail = line(f"  {one_line(option.detail)}", "dim") if option.detail else ()
        folded = fold_line((*text, *detail), columns, HANG) if here else []
        if not 0 < len(folded) <= 1 + spare:
            text = clip_line(text, max(columns - sum(len(part) for _, part in detail), MIN_COLUMNS))
            folded = [clip_line((*text, *detail), columns)]
        chosen = range(len(lines), len(lines) + len(folded)) if here else chosen
        lines += folded
        if here and option.preview:
            lines.append(clip_line(line(f"    {one_line(option.preview, 400)}", "dim"), columns))
        if here:
            lines += (clip_line((("", "    "), *each), columns) for each in option.sample)
    return [*lines, *hints], chosen


def menu_lines(
    menu: Menu,
    columns: int,
    note: str = "",
    rows: int | None = None,
    *,
    counts: bool = True,
    drafting: bool = False,
) -> tuple[list[Line], range]:
    """The menu as it is drawn, and which of its rows are the selected option's. A `note` takes the
    place of what the keys do, which is not said before they do it (`counts`), nor is there a
    pointer. With `drafting` letters and Enter are the input line's. A menu with search fits in
    `rows`."""
    if menu.search is not None:
        return _search_lines(menu, columns, rows or SEARCH_ROWS + 3)
    lines = fold_line(line(one_line(menu.title), "bold"), columns, HANG)
    chosen = range(0)
    for index, (number, option) in enumerate(zip(menu.numbers, menu.options, strict=True)):
        here = index == menu.selected
        tick = "" if menu.checked is None else "[x] " if index in menu.checked else "[ ] "
        mark = (">" if counts else "·") if here else " "
        letter = f"/{option.key}" if option.key else ""
        text = f"{mark} {number}{letter} {tick}{one_line(option.label)}"
        detail = line(f"  {one_line(option.detail)}", "dim") if option.detail else ()
        first = len(lines)
        lines += fold_line((*line(text, "chosen" if here else ""), *detail), columns, HANG)
        chosen = range(first, len(lines)) if here else chosen
    hint = line("  …", "dim")
    if note:
        hint = line(f"  {note}", "warning")
    elif drafting:
        hint = line(f"  {DRAFTING}", "dim")
    elif counts:
        hint = _hint(menu)
    return [*lines, *fold_line(hint, columns, HINT_HANG)], chosen


OFFER_COLUMNS = 36
"""Most columns of the words of a list of completions, beside what they mean."""


def offer_lines(
    offers: Sequence[tuple[str, str]], selected: int, columns: int, rows: int
) -> list[Line]:
    """A list of words and their meanings in two columns, at most `rows` of them, and where it
    is."""
    first = max(0, min(selected - rows // 2, len(offers) - rows))
    shown = offers[first : first + rows]
    named = max((width(word) for word, about in shown if about), default=0)
    room = min(named, OFFER_COLUMNS, max(columns - 4, 1))
    lines: list[Line] = []
    for at, (word, about) in enumerate(shown, first):
        mark, style = ("> ", "chosen") if at == selected else ("  ", "")
        kept = clip_line(line(word, style), room if about else max(columns - 2, 1))
        gap = " " * (room - sum(width(text) for _, text in kept) + 2)
        more = (("", gap), *line(about, "dim")) if about else ()
        lines.append(clip_line(((style, mark), *kept, *more), columns))
    hint = f"  {selected + 1} of {len(offers)} · {SELECT} · Tab or Enter take · Esc close"
    return [*lines, *fold_line(line(hint, "dim"), columns, HINT_HANG)]


DRAFTING = "Enter queues your text · ↑/↓ then a letter answers · Esc stop"


def _hint(menu: Menu) -> Line:
    tick = "Space tick · " if menu.checked is not None else ""
    more = f"{menu.more.key} {menu.more.label} · " if menu.more else ""
    return line(f"  {more}{SELECT} · {tick}Enter confirm · Esc {menu.escape}", "dim")


SELECT = "↑/↓ select"


def _toggle(menu: Menu, index: int) -> Menu:
    checked = (menu.checked or frozenset()) ^ {index}
    return msgspec.structs.replace(menu, checked=checked, selected=index)


def find_option(menu: Menu, key: str) -> int | None:
    """Index of the option of a number or letter."""
    for index, (number, option) in enumerate(zip(menu.numbers, menu.options, strict=True)):
        if key and key in (str(number), option.key):
            return index
    return len(menu.options) if menu.more is not None and key == menu.more.key else None
