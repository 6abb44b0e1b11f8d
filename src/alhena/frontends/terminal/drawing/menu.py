"""A list to choose from, and the question shown instead of the input line."""

import asyncio
from collections.abc import Callable

import msgspec

from alhena.display_text import one_line
from alhena.frontends.terminal.drawing.lines import Line, clip_line, fold_line, line

HANG = 6
MIN_COLUMNS = 20
"""Columns that an option of a menu with search has beside its detail."""


class MenuOption(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to choose. `key` is a letter that picks it at once, beside its number: its place in
    the list unless `number` says otherwise. A menu with search shows the `preview` while it is
    selected."""

    label: str
    key: str = ""
    detail: str = ""
    preview: str = ""
    number: int = 0


class Menu(msgspec.Struct, frozen=True, kw_only=True):
    """`checked` is None where one option is picked, else those that are ticked so far. `search` is
    what was typed to find an option, None for a menu without search: there letters are answers.
    `more` is an answer by its key that is not in the list; its index is behind the last one."""

    title: str
    options: tuple[MenuOption, ...]
    more: MenuOption | None = None
    selected: int = 0
    checked: frozenset[int] | None = None
    search: str | None = None

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


SEARCH_ROWS = 10
"""Options of a menu with search that are in view."""


def _search_lines(menu: Menu, columns: int, rows: int) -> tuple[list[Line], range]:
    found = menu.found
    room = max(min(SEARCH_ROWS, rows - 3), 1)
    first = max(0, min(menu.selected - room // 2, len(found) - room))
    lines = [clip_line(line(one_line(menu.title), "bold"), columns)]
    lines.append(clip_line((("accent", "  / "), *line(menu.search or "")), columns))
    chosen = range(len(lines), len(lines) + 1)
    for at, index in enumerate(found[first : first + room], first):
        option, here = menu.options[index], at == menu.selected
        text = line(f"{'>' if here else ' '} {one_line(option.label)}", "chosen" if here else "")
        detail = line(f"  {one_line(option.detail)}", "dim") if option.detail else ()
        text = clip_line(text, max(columns - sum(len(part) for _, part in detail), MIN_COLUMNS))
        chosen = range(len(lines), len(lines) + 1) if here else chosen
        lines.append(clip_line((*text, *detail), columns))
        if here and option.preview:
            lines.append(clip_line(line(f"    {one_line(option.preview, 400)}", "dim"), columns))
    told = f"{len(found)} of {len(menu.options)}" if found else "nothing found"
    hint = f"  {told} · Up/Down select · Enter confirms · type to search · Esc leaves"
    return [*lines, clip_line(line(hint, "dim"), columns)], chosen


def menu_lines(
    menu: Menu, columns: int, note: str = "", rows: int | None = None, *, counts: bool = True
) -> tuple[list[Line], range]:
    """The menu as it is drawn, and which of its rows are the selected option's. A `note` takes the
    place of what the keys do, which is not said before they do it (`counts`), nor is there a
    pointer. A menu with search fits in `rows`."""
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
    hint = _hint(menu, note) if counts or note else line("  …", "dim")
    return [*lines, clip_line(hint, columns)], chosen


def _hint(menu: Menu, note: str) -> Line:
    if note:
        return line(f"  {note}", "warning")
    keys = "Space selects, Enter confirms" if menu.checked is not None else "Enter confirms"
    more = f"{menu.more.key} {menu.more.label} · " if menu.more else ""
    return line(f"  {more}Use arrow keys, a number or a letter; {keys}; Esc rejects", "dim")


def _toggle(menu: Menu, index: int) -> Menu:
    checked = (menu.checked or frozenset()) ^ {index}
    return msgspec.structs.replace(menu, checked=checked, selected=index)


def find_option(menu: Menu, key: str) -> int | None:
    """Index of the option of a number or letter."""
    for index, (number, option) in enumerate(zip(menu.numbers, menu.options, strict=True)):
        if key and key in (str(number), option.key):
            return index
    return len(menu.options) if menu.more is not None and key == menu.more.key else None


LOOK = 0.5
"""Seconds that a question is there to be seen before a key can be its answer."""
PAUSE = 0.7
"""Seconds without a key after which keys are answers again."""
ALONE = 0.25
"""Seconds that a letter or a number has to stand alone to be an answer."""
TYPING = "You were typing, so that was no answer. Pause, then press a letter or arrow."
EARLY = "Key ignored: the question had just appeared. Wait a moment, then press again."
UNSURE = "Was that meant for what you were typing? Press a letter, or an arrow first."


class Panel:
    """One question at a time. `changed` is called whenever another question is shown, or none, or
    keys begin to count; `later` calls a function after some seconds. `typed` gets what was no
    answer.

    A person may be typing when a question appears, and words are no answers. No key counts before
    the question was there to be seen (`drawn`) for a moment; a letter or number picks only when it
    is alone, or with Enter right after it; and after what was no answer no key counts until
    there is a pause. Words end with Enter: after words it picks only
    what an arrow went to. All moments end with a timer, not by the clock: keys that were there
    before it was due come before it.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        later: Callable[[float, Callable[[], None]], asyncio.TimerHandle],
        typed: Callable[[str], None],
    ) -> None:
        self.menu: Menu | None = None
        self.label: str | None = None
        self.placeholder = ""
        self.secret = False
        self.note = ""
        self.counts = False
        self._changed = changed
        self._later = later
        self._typed = typed
        self._begun = ""
        self._alone: asyncio.TimerHandle | None = None
        self._seen = False
        self._away = False
        self._worded = False
        self._wait = LOOK
        self._waiting: asyncio.TimerHandle | None = None
        self._picked: asyncio.Future[frozenset[int] | None] | None = None
        self._written: asyncio.Future[str | None] | None = None

    @property
    def open(self) -> bool:
        """True when there is a question."""
        return self.menu is not None or self.label is not None

    async def choose(self, menu: Menu, *, typing: bool = False) -> frozenset[int] | None:
        """Waits for the choice; None when the menu is dismissed. `typing`: the person has begun to
        type, so Enter could be meant for the input line."""
        self._picked = asyncio.get_running_loop().create_future()
        self.menu, self.note = menu, ""
        self._worded = typing
        self._seen = False
        self._rest(PAUSE if typing else LOOK)
        self._changed()
        try:
            return await self._picked
        finally:
            self.menu = self._picked = None
            self._forget()
            self._rest(LOOK)
            self._changed()

    def note_drawn(self) -> None:
        """Notes that the menu is on the screen."""
        if self.menu is not None and not self._seen and not self._away:
            self._seen = True
            self._rest(self._wait)

    def hide(self) -> None:
        """Nothing is to be seen until `show`; what is pressed meanwhile is meant for others."""
        self._away = True
        self._seen = False
        self._forget()
        self._rest(LOOK)

    def show(self) -> None:
        """Makes the menu visible again."""
        self._away = False
        self._changed()

    async def write(self, label: str, placeholder: str, *, secret: bool = False) -> str | None:
        """Waits for a line of text, not echoed if `secret`; None when dismissed."""
        self._written = asyncio.get_running_loop().create_future()
        self.label, self.placeholder, self.secret = label, placeholder, secret
        self._changed()
        try:
            return await self._written
        finally:
            self.label = self._written = None
            self._changed()

    def key(self, name: str) -> None:
        """A key for the menu: one that `press` knows, or "tab" and "s-tab", which move."""
        menu, picked = self.menu, self._picked
        if menu is None or picked is None or picked.done():
            return
        if name == "escape":  # a no cannot do harm, and keys behind it are for the input line
            picked.set_result(None)
            self.menu = None
            self._changed()
            return
        moved = {"tab": "down", "s-tab": "up"}.get(name, name)
        if menu.search is not None:
            self._take(press(menu, moved))
            return
        if not self._worded and self._take_key(menu, name):
            return
        made = press(menu, moved)
        unsure = self._worded and name in ("enter", "tab", "s-tab")
        if not self.counts or unsure or made is menu or self._alone is not None:
            self.words(" " if name == "space" else "" if moves(moved) else name)
            return
        self.note = ""
        if isinstance(made, Menu):
            self.menu = made
            if self._worded and moves(name):
                self._worded = False
                self._rest(LOOK)
        elif moves(name):
            picked.set_result(made.indices)
        else:
            self._begin(name)

    def words(self, text: str) -> None:
        """Takes text typed while there is a menu: it is meant for the input line. "" is a key that
        writes nothing."""
        if self.menu is not None and self.menu.search is not None:
            for char in text:
                self._take(press(self.menu, char))
            return
        text = self._begun + text
        self._forget()
        if text:
            self._worded = True
            self._typed(text)
            self.note = TYPING
        else:
            self.note = UNSURE if self._worded else EARLY
        self._rest(PAUSE)

    def erase(self) -> None:
        """Takes back a letter that is not an answer yet."""
        if self.menu is not None and self.menu.search is not None:
            self._take(press(self.menu, "backspace"))
            return
        self._forget()
        self._rest(PAUSE)

    def accept(self, text: str) -> None:
        """The line is written."""
        if self._written is not None and not self._written.done():
            self._written.set_result(text.strip())

    def dismiss(self) -> bool:
        """Ends the question without an answer; False when none waits."""
        waiting = [each for each in (self._picked, self._written) if each and not each.done()]
        for each in waiting:
            each.set_result(None)
        return bool(waiting)

    def _take(self, made: Menu | MenuChoice) -> None:
        """Takes what a key has made of the menu."""
        if isinstance(made, Menu):
            self.menu = made
            self._changed()
        elif self._picked is not None and not self._picked.done():
            self._picked.set_result(made.indices)

    def _take_key(self, menu: Menu, name: str) -> bool:
        """Takes a letter or number that may be an answer, and Enter right after it."""
        if name == "enter":
            if not self._begun or not self._seen:
                return False
            self._finish_key()
            return True
        whole = self._begun + name
        option = find_option(menu, whole)
        ticks = menu.checked is not None and option is not None
        if ticks or (option is None and not whole.isdigit()):
            return False
        self._begin(whole)
        return True

    def _begin(self, name: str) -> None:
        """Waits until a letter or a number is known to be alone."""
        self._forget()
        self._begun = name
        self._alone = self._later(PAUSE if self._worded else ALONE, self._is_complete_key)

    def _is_complete_key(self) -> None:
        if self.counts:
            self._finish_key()
        else:
            self.words("")

    def _finish_key(self) -> None:
        """Takes the letter or number as the answer, if it is one."""
        menu, begun = self.menu, self._begun
        self._forget()
        if menu is None:
            return
        made = press(menu, begun)
        if made is menu:
            self.note = f"There is no answer {begun}: choose 1 to {len(menu.options)}."
        self._take(made)

    def _forget(self) -> None:
        self._begun = ""
        if self._alone is not None:
            self._alone.cancel()
            self._alone = None

    def _rest(self, seconds: float) -> None:
        """No key counts for some time in which the question is seen."""
        self.counts = False
        self._wait = seconds
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if self._seen and self.menu is not None:
            self._waiting = self._later(seconds, self._end_rest)

    def _end_rest(self) -> None:
        self._waiting = None
        self.counts = True
        if self.note == EARLY:
            self.note = ""
        self._changed()
