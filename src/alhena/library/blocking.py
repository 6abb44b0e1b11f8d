"""Calls of asynchronous functions from code that is not."""

import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from alhena.agent.limits import BusyError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
LOOK_S = 1.0
"""Seconds between two looks at whether a loop that is waited for has been closed."""


class LoopCaller(Protocol):
    """Runs work in an event loop and waits for its end."""

    def __call__(self, work: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Returns or raises what the work does."""
        ...


class Steps(Protocol[T_co]):
    """An asynchronous iteration that can be closed."""

    async def __anext__(self) -> T_co:
        """The next item. Raises StopAsyncIteration."""
        ...

    async def aclose(self) -> None:
        """Ends it."""
        ...


_ITERATED: set[ExitStack] = set()
"""Closes the iterations at work: garbage collection takes none of it apart."""


def iterate(
    open_loop: Callable[[], AbstractContextManager[LoopCaller]], steps: Steps[T]
) -> Generator[T]:
    """The items of an asynchronous iteration, one by one; leaving early closes it."""
    home: AbstractEventLoop | None = None

    async def step() -> T | None:
        nonlocal home
        home = running_loop()
        try:
            return await steps.__anext__()
        except StopAsyncIteration:
            return None

    with ExitStack() as ending:
        call = ending.enter_context(open_loop())
        ending.callback(call, steps.aclose)
        _ITERATED.add(ending)
        ending.callback(_ITERATED.discard, ending)
        try:
            while (item := call(step)) is not None:
                yield item
        finally:
            if home is not None and home is running_loop():
                # Collected as garbage in its own loop, which cannot wait for itself.
                threading.Thread(target=ending.pop_all().close, daemon=True).start()


class LoopThread:
    """An event loop in a thread of its own, so that a loop that already runs (a notebook's, a web
    server's) is no obstacle."""

    def __init__(self) -> None:
        import asyncio

        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="alhena", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        import asyncio

        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` to its end and returns or raises what it does. Interrupting the wait (Ctrl+C)
        cancels the work and waits for its end."""
        return wait_for(self.loop, work)

    def close(self) -> None:
        """Ends the loop and its thread."""
        self.call(self.loop.shutdown_asyncgens)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class OpensInThread:
    """`with` for what has `async with`, in the loop of a thread."""

    _thread: LoopThread | None = None

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(self, *_exc: object) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        try:
            self._thread.call(self.__aenter__)
        except BaseException:
            self._thread.close()
            self._thread = None
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._thread is not None:
            try:
                self._thread.call(self.__aexit__)
            finally:
                self._thread.close()
                self._thread = None


def wait_for(loop: "AbstractEventLoop", work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs `work` in a loop that runs in another thread, and waits for its end."""
    tasks: list[Task[T]] = []
    ended = threading.Event()

    def start() -> None:
        task = loop.create_task(work())
        task.add_done_callback(lambda _task: ended.set())
        tasks.append(task)

    def cancel() -> None:
        tasks[0].cancel()

    loop.call_soon_threadsafe(start)
    try:
        while not ended.wait(LOOK_S):
            if loop.is_closed():
                raise BusyError(
                    "the event loop that this agent was opened in has been closed.",
                    remedy="Keep it running until the call has ended.",
                )
    except BaseException:
        if not loop.is_closed():
            loop.call_soon_threadsafe(cancel)
            ended.wait()
        raise
    return tasks[0].result()


def running_loop() -> "AbstractEventLoop | None":
    """The event loop that runs here, if any."""
    from asyncio import get_running_loop

    try:
        return get_running_loop()
    except RuntimeError:
        return None
