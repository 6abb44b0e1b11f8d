"""A run that ends when its time is up, whatever it is at."""

import asyncio
from typing import TYPE_CHECKING, Any

from alhena.agent.errors import LimitError

if TYPE_CHECKING:
    from alhena.agent.budget import Ledger


class TimeWatch:
    """Cancels `driver`, the task of a run, once its time is up; `error` then says so."""

    def __init__(self, ledger: "Ledger", driver: "asyncio.Task[Any]") -> None:
        self.error: LimitError | None = None
        ledger.begin()
        self._watching = asyncio.ensure_future(self._end(ledger, driver))

    def stop(self) -> None:
        """The run is at its end; a question that is open is taken back."""
        self._watching.cancel()

    async def _end(self, ledger: "Ledger", driver: "asyncio.Task[Any]") -> None:
        error = await ledger.overrun()
        if not driver.done() and not driver.cancelling():  # else somebody has ended it already
            self.error = error
            driver.cancel("time limit")
