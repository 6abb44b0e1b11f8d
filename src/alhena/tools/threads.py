"""Work of a tool that blocks: in a thread, and never left running behind a cancelled call."""

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def run_blocking(
    cancellation: threading.Event, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """The result of `work(*args)`, done in a thread.

    On cancellation the event is set, which `work` is expected to look at, and the thread is
    awaited before CancelledError goes on: when a call has ended, nothing of it still happens.
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
