"""The events of a run, as an iteration that can be left at any time; its last text."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self

from alhena.errors import InterruptedRunError
from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    ContentEvent,
    Event,
    ModelFallbackEvent,
    RetryEvent,
)
from alhena.threads import wait_until_done

if TYPE_CHECKING:
    import asyncio  # a program that makes an agent needs no event loop yet

    from alhena.scheduler.states import CompletedToolCall

HIGH_WATER = 1000
"""Unread events above which `pace` waits for the reader."""


class EventChannel:
    """`emit` is for synchronous code on hot paths; whoever produces many events awaits `pace`
    between them. `subscribe` adds listeners that see each event first."""

    def __init__(self) -> None:
        import asyncio

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


Work = Callable[..., Coroutine[Any, Any, None]]
"""The work of a run, called with the session and the channel that its events go out over."""

Start = Callable[
    ["EventStream", Work], Awaitable[tuple["asyncio.Task[None]", AsyncIterator[Event]]]
]
"""Starts the work of a run; gives its task and its events."""


class EventStream(AsyncIterator[Event]):
    """Starts its `work` when the first event is asked for. When the run fails, the error is raised
    behind the last event. `aclose` ends the run and waits for its end; giving up the iteration
    ends it too, and whoever uses the agent next waits."""

    def __init__(self, start: Start, work: Work) -> None:
        self._start = start
        self._work = work
        self._driver: asyncio.Task[None] | None = None
        self._events: AsyncIterator[Event] | None = None
        self.over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self.over:
            raise StopAsyncIteration
        if self._events is None:
            self._driver, self._events = await self._start(self, self._work)
        try:
            return await anext(self._events)
        except StopAsyncIteration:
            self.over = True
            if self._driver is not None:
                await wait_for_driver(self._driver)
            raise
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Ends the run: tools are stopped and every call has its response when this returns."""
        self.over = True
        if self._driver is not None:
            await cancel_driver(self._driver)

    def __del__(self) -> None:
        """An iteration without references has been abandoned."""
        driver = self._driver
        if driver is None or driver.done():
            return
        loop = driver.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(_abandon, driver)


def _abandon(driver: "asyncio.Task[None]") -> None:
    """Cancels a driver whose error nothing reads."""
    driver.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    driver.cancel()


class ToolRun(EventStream):
    """The events of one tool call. `completed` is what it came to, None before its end and when it
    was interrupted."""

    def __init__(
        self, call_id: str, done: "list[CompletedToolCall]", start: Start, work: Work
    ) -> None:
        super().__init__(start, work)
        self.call_id = call_id
        self._done = done

    @property
    def completed(self) -> "CompletedToolCall | None":
        """The call at its end."""
        return self._done[0] if self._done else None


async def wait_for_driver(driver: "asyncio.Task[None]") -> None:
    """Waits for a driver and raises its error; one that was cancelled before it began too."""
    from asyncio import CancelledError

    try:
        await driver
    except CancelledError:
        if driver.cancelled():
            raise InterruptedRunError("the run was interrupted.") from None
        raise


async def cancel_driver(driver: "asyncio.Task[None]") -> None:
    """Cancels a driver and waits for its end. Its error is not raised: the reader of the
    events got it, and an abandoned run has no reader."""
    driver.cancel()
    try:
        await wait_until_done(driver)
    finally:
        if driver.done() and not driver.cancelled():
            driver.exception()


class LastTurn:
    """Collects from the events the text of a run's last model turn and its finish reason. Retracted
    text is left out."""

    def __init__(self) -> None:
        self.text = self.finish_reason = ""

    def feed(self, event: Event) -> None:
        """Processes an event; a request of the session's own model begins a new turn."""
        match event:
            case ContentEvent():
                self.text += event.text
            case ApiRequestEvent() if event.role == "main" and not event.continues:
                self.text = self.finish_reason = ""
            case ApiResponseEvent() if event.role == "main":
                self.finish_reason = event.finish_reason
            case RetryEvent() | ModelFallbackEvent() if event.retract:
                self.text = ""
            case _:
                pass
