"""Protocols between a conversation and the screen that shows it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from alhena.frontends.terminal.drawing.lines import Block, Line
from alhena.frontends.terminal.drawing.menu import Menu
from alhena.frontends.terminal.drawing.view import View

if TYPE_CHECKING:
    from alhena.config.settings import Settings


class FootStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The line at the foot. `queued`: prompts that wait for their turn, or (`kept`) for the
    person; `soon`: the last one goes in after the current calls; `more`: what follows the
    directory; `context`: the used share of the model's window."""

    cwd: str = ""
    mode: str = ""
    model: str = ""
    more: tuple[str, ...] = ()
    queued: tuple[str, ...] = ()
    kept: bool = False
    soon: bool = False
    context: float = 0.0


class Screen(Protocol):
    """Shows a conversation and asks its person. Used in the event loop's thread only."""

    @property
    def keys(self) -> bool:
        """True when single keys are read, or lines."""
        ...

    def adopt(self, settings: "Settings") -> None:
        """Takes the settings of its looks and keys."""
        ...

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        """Prints blocks, then shows the view below them. Keeps order, does not wait."""
        ...

    def show_status(self, status: FootStatus) -> None:
        """Changes the line at the foot."""
        ...

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        """Waits for the choice; None when the menu is dismissed. Cancelling removes the menu."""
        ...

    async def ask_text(
        self, label: str, placeholder: str = "", *, secret: bool = False
    ) -> str | None:
        """Waits for a line of text, not echoed if `secret`; None when dismissed."""
        ...

    def themes(self, custom: Mapping[str, Any]) -> Mapping[str, tuple[Line, ...]]:
        """The names of all themes, `custom` ones too, with a sample of each; none where there are
        no colours."""
        ...

    def draft(self, text: str, /) -> None:
        """Puts a text into the input line, where there is one."""
        ...

    def suspend(self) -> AbstractAsyncContextManager[None]:
        """The terminal is another program's meanwhile."""
        ...

    @property
    def control(self) -> Callable[[str], None]:
        """Sends the terminal a control sequence that moves nothing."""
        ...

    def close(self) -> None:
        """Ends the reading of input; the screen's own run then returns."""
        ...
