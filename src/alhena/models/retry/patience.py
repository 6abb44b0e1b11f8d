"""How often one request has been sent, and how long it may still be waited for."""

from collections.abc import Callable
from typing import assert_never

from alhena.errors import AlhenaError, ModelError
from alhena.models.retry.manner import Manner, hint_of, manner_of
from alhena.models.retry.policy import RetryPolicy


class Patience:
    """The account of one request. `chance` gives numbers from 0 to 1."""

    def __init__(self, policy: RetryPolicy, chance: Callable[[], float]) -> None:
        self.policy = policy
        self.attempts = 1
        self.waited_s = 0.0
        self.limit = policy.max_attempts  # attempts in all, if it goes on failing as it last did
        self._chance = chance
        self._backoffs = 0
        self._broken = 0
        self._crowded = 0

    @property
    def capacity_spent(self) -> bool:
        """Whether a model without room has been asked again as often as pays at once."""
        return self._crowded >= len(self.policy.capacity_s)

    @property
    def broken_spent(self) -> bool:
        """Whether an answer that breaks off now is not asked for again."""
        return (
            self._broken >= self.policy.broken_attempts - 1
            or self.attempts >= self.policy.max_attempts
        )

    def is_long(self, error: AlhenaError) -> bool:
        """Whether the service asks for a wait that is longer than any of our own."""
        return (hint_of(error) or 0.0) > self.policy.max_s

    def manner(self, error: AlhenaError) -> Manner:
        """In which manner to go on after `error`."""
        return manner_of(error, fetch_errors=self.policy.retry_fetch_errors)

    def after(self, error: AlhenaError, manner: Manner | None = None) -> float | None:
        """The seconds to wait before the next attempt, which counts from now; None when there is
        to be none. `manner` is that of the error's class unless it is given."""
        manner = self.manner(error) if manner is None else manner
        wait = None
        if self.attempts < self.policy.max_attempts:
            wait = self._wait(manner, hint_of(error))
        left = self.policy.max_wait_s - self.waited_s
        if wait is None or wait > left:
            if isinstance(error, ModelError):
                error.attempts = self.attempts
                error.too_long = wait is not None and (hint_of(error) or 0.0) > left
            return None
        # Chance makes a wait longer, but never too long.
        wait = min(wait * (1 + self.policy.jitter * self._chance()), left)
        self.attempts += 1
        self.waited_s += wait
        self.limit = self.policy.max_attempts
        if manner is Manner.BROKEN:
            more = self.policy.broken_attempts - 1 - self._broken
            self.limit = min(self.limit, self.attempts + more)
        return wait

    def _wait(self, manner: Manner, hint: float | None) -> float | None:
        policy = self.policy
        match manner:
            case Manner.NEVER:
                return None
            case Manner.BROKEN:
                if self._broken >= policy.broken_attempts - 1:
                    return None
                base = policy.broken_s * 2**self._broken
                self._broken += 1
            case Manner.CAPACITY if not self.capacity_spent:
                base = policy.capacity_s[self._crowded]
                self._crowded += 1
            case Manner.CAPACITY | Manner.BACKOFF:
                base = min(policy.initial_s * 2**self._backoffs, policy.max_s)
                self._backoffs += 1
            case _:
                assert_never(manner)
        return max(base, hint or 0.0)
