"""A screen that is a list, and events turned into what it shows."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from alhena.config.settings import Settings
from alhena.events import Event, ToolCallResponseEvent
from alhena.frontends.terminal.drawing.lines import Block, Line, Lines, plain, width
from alhena.frontends.terminal.drawing.live_region import live
from alhena.frontends.terminal.drawing.menu import Menu
from alhena.frontends.terminal.drawing.screen import FootStatus
from alhena.frontends.terminal.drawing.view import View, advance


def text_of(blocks: Iterable[Block]) -> str:
    """Blocks as bare text, Markdown between bars."""
    return "\n".join(
        plain(block.lines) if isinstance(block, Lines) else f"|{block.text}|" for block in blocks
    )


def played(*events: Event, view: View | None = None, now: float = 0.0) -> tuple[View, str]:
    """The view after some events, and what was printed."""
    view = view or View()
    blocks: list[Block] = []
    for event in events:
        view, made = advance(view, event, now)
        blocks += made
    return view, text_of(blocks)


def shown_live(view: View, columns: int = 60, rows: int = 12, now: float = 0.0) -> str:
    return plain(live(view, columns, rows, now))


def ended(name: str, display: Any = None, **more: Any) -> ToolCallResponseEvent:
    given = {"call_id": "1", "status": "success", "duration_ms": 1234.0} | more
    return ToolCallResponseEvent(name=name, display=display, **given)


def assert_short(menu: Menu) -> None:
    """A question has at most four answers of at most 60 columns; below its details, and in a list
    to search, there may be more."""
    if menu.search is not None:
        return
    details = menu.more is not None and menu.more.label == "back"
    assert 1 < len(menu.options) <= (6 if details else 4), menu
    for each in menu.options:
        text = f"{each.label}  {each.detail}" if each.detail else each.label
        assert width(text) <= 60, text


class ListScreen:
    """A `screen.Screen` in memory. `answers` are given to its questions in order: labels of
    options (None: dismissed), or texts. Without one it waits for ever."""

    def __init__(self, *answers: str | Sequence[str] | None) -> None:
        self.answers = deque(answers)
        self.blocks: list[Block] = []
        self.view = View()
        self.status = FootStatus()
        self.statuses: list[FootStatus] = []
        self.menus: list[Menu] = []
        self.asked: list[str] = []
        self.drafts: list[str] = []
        self.waiting = asyncio.Event()
        self.closed = False
        self.keys = True
        self.settings = Settings()
        self.sequences: list[str] = []
        self.control = self.sequences.append
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a change of what is shown that makes it so."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @property
    def text(self) -> str:
        return text_of(self.blocks)

    def adopt(self, settings: Settings) -> None:
        self.settings = settings

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        self.view = view
        self.blocks += blocks
        self._changed.set()

    def show_status(self, status: FootStatus) -> None:
        self.status = status
        self.statuses.append(status)

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        self.menus.append(menu)
        assert_short(menu)
        answer = await self._answer()
        if answer is None:
            return None
        wanted = (answer,) if isinstance(answer, str) else answer
        labels = [option.label for option in (*menu.options, *filter(None, (menu.more,)))]
        found = [index for want in wanted for index, text in enumerate(labels) if want in text]
        assert len(found) == len(wanted), (wanted, labels)
        return frozenset(found)

    async def ask_text(
        self, label: str, placeholder: str = "", *, secret: bool = False
    ) -> str | None:
        self.asked.append(label)
        answer = await self._answer()
        assert answer is None or isinstance(answer, str)
        return answer

    async def _answer(self) -> str | Sequence[str] | None:
        if not self.answers:
            self.waiting.set()
            await asyncio.Event().wait()
        return self.answers.popleft()

    def themes(self, custom: Mapping[str, Any]) -> Mapping[str, tuple[Line, ...]]:
        return dict.fromkeys(("Dracula", "GitHub", *custom), ())

    def draft(self, text: str) -> None:
        self.drafts.append(text)

    @asynccontextmanager
    async def suspend(self) -> AsyncGenerator[None]:
        yield

    def close(self) -> None:
        self.closed = True
