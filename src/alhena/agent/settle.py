"""Waiting for a task's end, whatever happens to the one who waits."""

import asyncio
from typing import Any


async def settled(task: asyncio.Future[Any]) -> None:
    """Returns when `task` is done; its outcome is not looked at.

    Cancellations that come meanwhile are not passed on and do not shorten the wait: they are
    raised, as one, when the task is done. For tasks that are known to end soon.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
