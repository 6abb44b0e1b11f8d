"""Runs code that may block or fail: in a thread, in a boundary that turns failures into values.

Such a function may hang and ignores cancellation. The loop's own executor would wait for it at
exit; these threads are daemons, one for each call, and may be left behind.
"""

import contextlib
import contextvars
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from alhena.display_text import escaped

if TYPE_CHECKING:
    import asyncio

P = ParamSpec("P")
T = TypeVar("T")


async def run_blocking(
    cancellation: threading.Event, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Returns the result of `work(*args)`, run in a thread.

    Cancellation sets the event, which `work` has to check, and awaits the thread before it raises
    CancelledError: when a call has ended, none of its work continues.
    """
    import asyncio  # not at the top: listing the tools needs no event loop

    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancellation.set()
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()
        raise


MAX_MESSAGE = 500


class Boundary:
    """Runs a block of a tool's code; an exception of that code is stored in `failure`.

    Cancellation, interruption and exit pass through: they are meant for the caller.
    """

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: Exception | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self.failure = error
            return True
        return False


def one_line(error: BaseException) -> str:
    """Formats an exception in one line of at most 500 characters: its type and message."""
    nested = Boundary()
    text = ""
    with nested:
        text = escaped(" ".join(str(error).split()))
    name = type(error).__name__
    if nested.failure is not None:
        return f"{name} (its message cannot be read: {type(nested.failure).__name__})"
    shown = text if len(text) <= MAX_MESSAGE else text[:MAX_MESSAGE] + "…"
    return f"{name}: {shown}" if shown else name


async def wait_until_done(task: "asyncio.Future[Any]") -> None:
    """Returns when `task` is done; its outcome is not looked at.

    Cancellations that come meanwhile are not passed on and do not shorten the wait: they are
    raised, as one, when the task is done. For tasks that are known to end soon.
    """
    import asyncio

    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def is_cancelled() -> bool:
    """True when a CancelledError here is for the current task, not from one that it awaited."""
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """Returns or raises what `function` does, run in a daemon thread. Cancelling stops the waiting,
    not the thread.

    A `sys.exit` in the function becomes a RuntimeError.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: list[T], failure: Exception) -> None:
        if answer.done():
            return
        if result:
            answer.set_result(result[0])
        elif isinstance(failure, StopIteration):
            answer.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            answer.set_exception(failure)

    def work() -> None:
        result: list[T] = []
        boundary = Boundary()
        failure: Exception = RuntimeError("the function ended its thread without a result")
        try:
            with boundary:
                result.append(context.run(function))
            failure = boundary.failure or failure
        except (SystemExit, asyncio.CancelledError) as stop:
            failure = RuntimeError(f"the function raised {type(stop).__name__}")
        finally:
            # A closed loop raises: nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="alhena-function", daemon=True).start()
    return await answer
