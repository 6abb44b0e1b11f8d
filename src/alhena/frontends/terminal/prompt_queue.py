"""Prompts that wait for their turn."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from alhena.display_text import one_line
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption

SHOWN = 40
Choose = Callable[[Menu], Awaitable[frozenset[int] | None]]


class PromptQueue:
    """Prompts sent while something ran, in order. An interruption keeps them: then none is due
    until the person sends one (`kept`), and the person is `to_ask`. `changed` is called after each
    change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.kept = self.to_ask = False
        self._changed = changed
        self._texts: deque[str] = deque()
        self._marked: dict[str, str] = {}
        self._late: set[str] = set()
        self._due = asyncio.Event()
        self._idle = False
        self._closed = False

    @property
    def texts(self) -> tuple[str, ...]:
        """All that wait, as shown; not the first one when nothing runs and it is due."""
        shown = tuple(self._marked.get(each, each) for each in self._texts)
        return shown[self._idle and not self.kept :]

    def mark(self, text: str, shown: str) -> None:
        """Takes a text with marks for what was pasted, shown instead of a prompt."""
        self._marked[text] = shown

    def take_mark(self, text: str) -> str:
        """Removes and returns what is shown instead of a prompt."""
        return self._marked.pop(text, text)

    @property
    def soon(self) -> bool:
        """True when the last one may go in before the run has ended."""
        return bool(self._texts) and not self.kept and self._is_soon(self._texts[-1])

    def take_soon(self) -> list[str]:
        """Removes and returns the prompts that may go in while something runs."""
        taken: list[str] = []
        while self._texts and not self.kept and self._is_soon(self._texts[0]):
            taken.append(self._texts.popleft())
        if taken:
            self._keep(kept=False)
        return taken

    def _is_soon(self, text: str) -> bool:
        return text[:1] not in "/!" and "@" not in text and text not in self._late

    def add(self, text: str, *, command: bool = False, late: bool = False) -> None:
        """Appends a prompt; "" only sends what was kept. A command goes before kept prompts, which
        stay. `late`: it waits until the run has ended."""
        (self._late.add if late else self._late.discard)(text)
        if command and self.kept:
            self._texts.appendleft(text)
            self._due.set()
            return
        if text:
            self._texts.append(text)
        self._keep(kept=False)

    def take_back(self) -> str:
        """Removes and returns the last one; "" when there is none."""
        text = self._texts.pop() if self._texts else ""
        self._keep(kept=self.kept)
        return text

    def close(self) -> None:
        """Drops everything; `next` waits no more."""
        self._texts.clear()
        self._closed = True
        self._keep(kept=False)

    def hold(self) -> None:
        """Keeps what waits."""
        self._keep(kept=True)
        self.to_ask = self.kept

    async def next(self) -> str:
        """Waits for the prompt that is due; "" once closed."""
        self._idle = True
        await self._due.wait()
        self._idle = False
        text = self._texts.popleft() if self._texts else ""
        self._keep(kept=self.kept)
        return text

    async def ask(self, choose: Choose, hint: str) -> None:
        """Asks whether to send, keep or discard them; `hint`: what may be done with kept ones."""
        self.to_ask = False
        asked = list(self._texts)
        count = count_noun(len(asked), "prompt")
        options = (
            MenuOption(label=_send_words(self.texts), key="y"),
            MenuOption(label="Keep", detail=hint, key="k"),
            MenuOption(label="Discard", key="d"),
        )
        title = f"Interrupted with {count} queued."
        picked = await choose(Menu(title=title, options=options, escape="keep"))
        if picked and 2 in picked:
            for text in asked:  # not what was sent while the question was open
                self._texts.remove(text)
        self._keep(kept=not picked or 1 in picked)

    def _keep(self, *, kept: bool) -> None:
        self.kept = kept and bool(self._texts)
        if self._closed or (self._texts and not self.kept):
            self._due.set()
        else:
            self._due.clear()
        self._changed()


def _send_words(texts: Sequence[str]) -> str:
    match len(texts):
        case 1:
            return f"Send now: {one_line(texts[0], SHOWN)}"
        case 2:
            return "Send both now"
        case count:
            return f"Send all {count} now"
