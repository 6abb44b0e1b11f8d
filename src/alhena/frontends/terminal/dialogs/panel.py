"""The question above the input line, and the keys that answer it."""

import asyncio
from collections.abc import Callable

from alhena.frontends.terminal.drawing.menu import Menu, MenuChoice, find_option, press

LOOK = 0.5
"""Seconds that a question is there to be seen before a key can be its answer."""
PAUSE = 0.7
"""Seconds after typing before a key can be an answer."""
ALONE = 0.4
"""Seconds that a letter or a number has to stand alone to be an answer."""
EARLY = "Key ignored: the question had just appeared. Press it again."
MOVES = {"up": "up", "down": "down", "tab": "down", "s-tab": "up"}


class Panel:
    """One question at a time, above the input line, which stays in use. Another one that comes
    meanwhile is shown first; then the earlier one is there again. `changed` is called
    whenever another question is shown, or none, or keys begin to count; `later` calls a function
    after some seconds. `typed` gets what was no answer; `has_draft` says that the input line holds
    text; `begun` is a letter or number that may be an answer; `aimed`: an arrow was pressed.

    A person may be typing when a question appears, and typing answers nothing. No key counts before
    the question was there to be seen (`note_drawn`) for a moment. A letter or number is an answer
    when nothing follows it for a moment, or with Enter right after it; one that is no answer is
    dropped. Faster keys are text, and so are all letters while there is a draft, until an arrow
    is pressed; Enter always sends the draft. All moments end with a timer, not by the clock: keys
    that were there before it was due come before it.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        later: Callable[[float, Callable[[], None]], asyncio.TimerHandle],
        typed: Callable[[str], None],
        has_draft: Callable[[], bool],
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
        self.has_draft = has_draft
        self.begun = ""
        self._alone: asyncio.TimerHandle | None = None
        self._seen = False
        self._away = False
        self.aimed = False
        self._wait = LOOK
        self._waiting: asyncio.TimerHandle | None = None
        self._picked: asyncio.Future[frozenset[int] | None] | None = None
        self._earlier: list[tuple[Menu, asyncio.Future[frozenset[int] | None]]] = []
        self._written: asyncio.Future[str | None] | None = None

    @property
    def open(self) -> bool:
        """True when there is a question."""
        return self.menu is not None or self.label is not None

    @property
    def asking(self) -> bool:
        """True at a question beside which the input line is in use: keys may be either's."""
        return self.menu is not None and self.menu.search is None

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        """Waits for the choice; None when the menu is dismissed."""
        self._set_aside()
        picked: asyncio.Future[frozenset[int] | None] = asyncio.get_running_loop().create_future()
        self._show(menu, picked)
        try:
            return await picked
        finally:
            self._earlier = [each for each in self._earlier if each[1] is not picked]
            if self._picked is picked:
                self._show_earlier()

    def _set_aside(self) -> None:
        """Keeps the menu that is shown for later."""
        if self.menu is not None and self._picked is not None:
            self._earlier.append((self.menu, self._picked))
            self.menu = self._picked = None

    def _show_earlier(self) -> None:
        """Shows the menu that was set aside last, or none."""
        shows = self._earlier and self.label is None
        self._show(*(self._earlier.pop() if shows else (None, None)))

    def _show(
        self, menu: Menu | None, picked: "asyncio.Future[frozenset[int] | None] | None"
    ) -> None:
        """Shows a menu, of which no key counts yet, or none."""
        self.menu, self._picked, self.note = menu, picked, ""
        self.aimed = self._seen = False
        self._forget()
        self._rest(LOOK)
        self._changed()

    def note_drawn(self) -> None:
        """Notes that the menu is on the screen."""
        if self.menu is not None and not self._seen and not self._away:
            self._seen = True
            self._rest(self._wait)

    def set_away(self, *, away: bool) -> None:
        """While away nothing is to be seen; keys that are pressed meanwhile are for others."""
        self._away = away
        if not away:
            self._changed()
            return
        self._seen = False
        self._forget()
        self._rest(LOOK)

    async def write(self, label: str, placeholder: str, *, secret: bool = False) -> str | None:
        """Waits for a line of text, not echoed if `secret`; None when dismissed."""
        self._set_aside()
        self._written = asyncio.get_running_loop().create_future()
        self.label, self.placeholder, self.secret = label, placeholder, secret
        self._changed()
        try:
            return await self._written
        finally:
            self.label = self._written = None
            if self.menu is None:
                self._show_earlier()

    def key(self, name: str) -> None:
        """Takes a key: one that `press` knows, or "tab" and "s-tab", which move. Enter is only to
        be given while there is no draft."""
        menu, picked = self.menu, self._picked
        if menu is None or picked is None or picked.done():
            return
        if name == "escape":  # a no cannot do harm, and keys after it are for the input line
            picked.set_result(None)
            self.menu = None
            self._changed()
        elif menu.search is not None:
            self._take(press(menu, MOVES.get(name, name)))
        elif name == "enter":
            self._confirm(menu)
        elif name in MOVES:
            self._move(menu, MOVES[name])
        elif name == "space" and menu.checked is not None and not (self.begun or self._drafting()):
            self._take(press(menu, name) if self.counts else menu)
        else:
            self._press_letter(" " if name == "space" else name)

    def words(self, text: str) -> None:
        """Takes a text that arrives at once, as a paste does: it is no answer, nor is a letter
        right before it. "" is a key that writes nothing."""
        if self.menu is not None and self.menu.search is not None:
            for char in text:
                self._take(press(self.menu, char))
            return
        text = self.begun + text
        self._forget()
        if text:
            self._typed(text)
            self.pause()

    def pause(self) -> None:
        """No key is an answer right after typing."""
        self.note, self.aimed = "", False
        self._rest(PAUSE)

    def erase(self) -> None:
        """Takes back a letter that is not an answer yet."""
        if self.menu is not None and self.menu.search is not None:
            self._take(press(self.menu, "backspace"))
            return
        self._forget()

    def accept(self, text: str) -> None:
        """The line is written."""
        if self._written is not None and not self._written.done():
            self._written.set_result(text.strip())

    def dismiss(self) -> bool:
        """Ends all questions without an answer; False when none waits."""
        asked = (self._picked, self._written, *(picked for _, picked in self._earlier))
        waiting = [each for each in asked if each and not each.done()]
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

    def _confirm(self, menu: Menu) -> None:
        if self.begun and self._seen:
            self._finish_key()
        elif self.begun or not self.counts:
            self._forget()
            self._set_note(EARLY)
        else:
            self._take(press(menu, "enter"))

    def _move(self, menu: Menu, name: str) -> None:
        if self.begun:  # typing, and an arrow in it
            self.words("")
        elif not self.counts and not self.has_draft():
            self._set_note(EARLY)
        else:
            self.aimed, self.note = True, ""
            self._take(press(menu, name))

    def _press_letter(self, char: str) -> None:
        begun = self.begun
        if begun.isdecimal() and char.isdecimal():
            self._begin(begun + char)
        elif begun or self._drafting():
            self._forget()
            self._typed(begun + char)
            self.pause()
        else:
            self._begin(char)

    def _begin(self, name: str) -> None:
        """Waits until a letter or a number is known to be alone."""
        self._forget()
        self.begun = name
        self._alone = self._later(ALONE, self._end_alone)

    def _end_alone(self) -> None:
        if self.counts:
            self._finish_key()
        else:
            self._forget()
            self._set_note(EARLY)

    def _finish_key(self) -> None:
        """Takes the letter or number as the answer, if it is one."""
        menu, begun = self.menu, self.begun
        self._forget()
        if menu is None:
            return
        if find_option(menu, begun) is None:
            self._set_note(refuse_key(menu, begun))
        else:
            self._take(press(menu, begun))

    def _drafting(self) -> bool:
        """True when letters are the input line's, too."""
        return self.has_draft() and not self.aimed

    def _set_note(self, note: str) -> None:
        self.note = note
        self._changed()

    def _forget(self) -> None:
        self.begun = ""
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


def refuse_key(menu: Menu, key: str) -> str:
    """The words for a key that answers nothing: it and the keys that do."""
    letters = [each.key for each in menu.options if each.key]
    keys = letters or [f"1 to {len(menu.options)}"]
    return f"Not an answer: {key}. Press {', '.join(keys)} or Esc."
