"""The limits of one subagent: its turns, and its time without that of the people it asks."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from alhena.agent.limits import TurnLimits
from alhena.errors import AlhenaError


class OwnLimitError(AlhenaError):
    """A subagent has used up its own turns."""

    kind = "agent_turns"


class OwnTurns:
    """The limit of one subagent's turns."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    async def check(self) -> None:
        """Raises OwnLimitError when no further turn may start."""
        if self._left <= 0:
            raise OwnLimitError("the agent has used up its turns.")

    def take(self) -> None:
        """Counts a turn."""
        self._left -= 1


class AgentClock:
    """The time limit of a subagent, without the time that people take to answer."""

    def __init__(self) -> None:
        self._timer: asyncio.Timeout | None = None
        self._stops = 0
        self._left = 0.0

    def start(self, seconds: float) -> asyncio.Timeout:
        """The context in which work has to end within so many seconds."""
        self._timer = asyncio.timeout(seconds)
        return self._timer

    @contextmanager
    def stop_clock(self) -> Generator[None]:
        """The clock is stopped while a person is asked, about one call or several."""
        loop = asyncio.get_running_loop()
        timer = self._timer
        end = None if timer is None else timer.when()
        if timer is not None and end is not None:
            self._left = end - loop.time()
            timer.reschedule(None)
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if timer is not None and self._stops == 0:
                timer.reschedule(loop.time() + self._left)


class UntimedTurns:
    """The limits of the session for a subagent; the questions about them take none of its time."""

    def __init__(self, limits: TurnLimits, clock: AgentClock) -> None:
        self._limits = limits
        self._clock = clock

    async def check(self) -> None:
        """Returns when a further turn may start. Raises LimitError."""
        with self._clock.stop_clock():
            await self._limits.check()

    def take(self) -> None:
        """Counts a turn."""
        self._limits.take()
