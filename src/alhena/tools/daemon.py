"""Functions of somebody else's program beside the event loop, in threads that cannot hold it up.

Such a function may hang and knows nothing of cancellation. The loop's own executor would wait for
it when the program ends; these threads are daemons, one for each call, and may be left behind.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from alhena.tools.boundary import Boundary

T = TypeVar("T")


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """What `function` returns or raises. Cancelling stops the waiting, not the thread.

    A function that ends its thread by other means than an exception (`sys.exit`) is a
    RuntimeError.
    """
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
            # A closed loop refuses: whoever waited is gone.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="alhena-function", daemon=True).start()
    return await answer
