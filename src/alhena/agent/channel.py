"""The event stream of one run: written without waiting, read by one reader, bounded by pacing."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from alhena.events import Event

HIGH_WATER = 1000
"""Unread events above which `pace` waits for the reader."""


class EventChannel:
    """`emit` is for synchronous code on hot paths; whoever produces many events awaits `pace`
    between them. `subscribe` adds listeners that see each event first."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._listeners: list[Callable[[Event], None]] = []
        self._closed = False

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Calls `listener` with every event from now on; it must not block or raise. Returns what
        ends the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, event: Event) -> None:
        """Appends an event."""
        for listener in self._listeners:
            listener(event)
        self._events.append(event)
        self._changed.set()
        if len(self._events) > HIGH_WATER:
            self._drained.clear()

    async def pace(self) -> None:
        """Returns at once, or when the reader has caught up."""
        await self._drained.wait()

    def open(self) -> None:
        """Starts a new run; events of an abandoned one are dropped."""
        self._events.clear()
        self._drained.set()
        self._closed = False

    def close(self) -> None:
        """Ends the stream behind what was emitted."""
        self._closed = True
        self._changed.set()

    async def events(self) -> AsyncIterator[Event]:
        """The events until `close`."""
        while True:
            while self._events:
                event = self._events.popleft()
                if len(self._events) <= HIGH_WATER // 2:
                    self._drained.set()
                yield event
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()
