"""Running a tool's coroutine so that it can be stopped, even if it does not want to."""

import asyncio
from typing import Any

from alhena.scheduler.track import TrackedCall

INTERRUPTED = "The run was interrupted"


class Leash:
    """Waits for tasks on behalf of calls. `grace_s`: how long a cancelled task may take to end."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self._abandoned: set[asyncio.Task[Any]] = set()

    async def hold(self, call: TrackedCall, task: asyncio.Task[Any]) -> bool:
        """Waits until `task` ends; True when the call was stopped first and `task` cancelled, or
        has ended meanwhile.

        A cancelled task that does not end in time is left behind. When this very wait is
        cancelled, the call is stopped the same way and CancelledError goes on.
        """
        try:
            await asyncio.wait({task, call.stopping}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.cancel(INTERRUPTED)
            await self._stop(task)
            raise
        if task.done():
            return call.ended
        await self._stop(task)
        return True

    async def _stop(self, task: asyncio.Task[Any]) -> None:
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=self.grace_s)
        finally:
            if not task.done():
                self._abandoned.add(task)
                task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()
