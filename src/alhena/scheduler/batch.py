"""The batch at work, shown as a whole to those who want to see it so."""

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from alhena.events import ToolCallsUpdateEvent
from alhena.scheduler.track import Emit, TrackedCall

if TYPE_CHECKING:
    from alhena.bus.bus import MessageBus


class BatchView:
    """Tells of a batch as often as its calls change, once for what changes together."""

    def __init__(self, emit: Emit, bus: "MessageBus | None") -> None:
        self._emit = emit
        self._bus = bus
        self._calls: tuple[TrackedCall, ...] = ()
        self._due: asyncio.Handle | None = None

    def show(self, calls: Iterable[TrackedCall]) -> None:
        """These are the calls from now on."""
        self._calls = tuple(calls)

    def changed(self) -> None:
        """A call is not what it was."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self.tell)

    def settle(self) -> None:
        """Tells of what has changed, now, if anything has."""
        if self._due is not None:
            self.tell()

    def tell(self) -> None:
        """Tells of the batch as it stands."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        states = tuple(call.shown for call in self._calls if call.shown is not None)
        if not states:
            return
        self._emit(ToolCallsUpdateEvent(calls=states))
        if self._bus is not None:
            from alhena.bus.messages import ToolCallsUpdate

            if self._bus.has(ToolCallsUpdate):
                self._bus.publish(ToolCallsUpdate(calls=states))
