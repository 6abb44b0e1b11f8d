"""Waits for functions in threads and for tasks, whatever cancels the wait.

A function in a thread may hang and ignores cancellation. The loop's own executor would wait for it
at exit; these threads are daemons, one for each call, and may be left behind.
"""

import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


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


async def run_to_end(task: "asyncio.Future[T]") -> T:
    """Returns or raises what `task` does. Cancellation is raised when the task is done; an error of
    the task is dropped then."""
    import asyncio

    try:
        await wait_until_done(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()
        raise
    return task.result()


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
        failure: Exception = RuntimeError("the function ended its thread without a result")
        try:
            result.append(context.run(function))
        except Exception as error:  # noqa: BLE001  raised where the result is awaited
            failure = error
        except (SystemExit, asyncio.CancelledError) as stop:
            failure = RuntimeError(f"the function raised {type(stop).__name__}")
        finally:
            # A closed loop raises: nobody waits any more.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="alhena-function", daemon=True).start()
    return await answer
