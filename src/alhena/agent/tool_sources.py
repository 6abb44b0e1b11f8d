"""Where the tools come from that are not there from the start."""

from collections.abc import Awaitable, Callable

Source = Callable[[], Awaitable[None]]
"""Registers its tools; what goes wrong is told, not raised."""


class ToolSources:
    """Sources are asked once, all at the same time, before the first prompt; one that was cancelled
    is asked again. Those who watch are told when tools have come or gone."""

    def __init__(self) -> None:
        self._waiting: list[Source] = []
        self._watchers: list[Callable[[], None]] = []
        self._closing: list[Source] = []

    def add(self, source: Source) -> None:
        """A source that is to be asked."""
        self._waiting.append(source)

    @property
    def waiting(self) -> bool:
        """Whether one has still to be asked."""
        return bool(self._waiting)

    async def gather(self) -> None:
        """Asks all that have not answered yet."""
        if not self._waiting:
            return
        import asyncio  # not at the top: listing the tools needs no event loop

        async with asyncio.TaskGroup() as tasks:
            for source in self._waiting:
                tasks.create_task(self._ask(source))
        self.changed()

    def watch(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever tools have come or gone."""
        self._watchers.append(listener)

    def when_closed(self, close: Source) -> None:
        """Has `close` called when the session ends."""
        self._closing.append(close)

    async def close(self) -> None:
        """Ends what sources have left running. Can be called again."""
        while self._closing:
            await self._closing.pop()()

    def changed(self) -> None:
        """Tells those who watch."""
        for listener in tuple(self._watchers):
            listener()

    async def _ask(self, source: Source) -> None:
        await source()
        self._waiting.remove(source)
