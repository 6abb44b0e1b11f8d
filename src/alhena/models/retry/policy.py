"""The limits within which requests are sent again."""

from alhena.config.settings import GeneralSettings
from alhena.values import Value

LONGEST_WAIT_S = 300.0
"""A service that asks for more than these seconds has no quota left for this run."""


class RetryPolicy(Value, frozen=True, kw_only=True):
    """Times are seconds.

    A request that the service or the network refuses is sent up to `max_attempts` times, behind
    waits that double from `initial_s` to `max_s`. An answer that breaks off, cannot be read or says
    nothing is asked for `broken_attempts` times in all, behind waits that double from `broken_s`. A
    model without room is first asked again behind `capacity_s`. All waits of a request together
    take no longer than `max_wait_s`.

    A wait is never shorter than what the service asks for; chance makes it longer by up to
    `jitter` (a share), so that clients do not come back all at once. `retry_fetch_errors`: also
    network errors that have no known cause count as passing.
    """

    max_attempts: int = 10
    initial_s: float = 5.0
    max_s: float = 30.0
    broken_attempts: int = 4
    broken_s: float = 1.0
    capacity_s: tuple[float, ...] = (1.0, 3.0)
    max_wait_s: float = LONGEST_WAIT_S
    jitter: float = 0.2
    retry_fetch_errors: bool = True


REPLAY = RetryPolicy(initial_s=0, max_s=0, broken_s=0, capacity_s=(0, 0), jitter=0)
"""For recorded answers: what was asked for again then is asked for again now, without a wait."""


def retry_policy(settings: GeneralSettings) -> RetryPolicy:
    """The policy of a session; fewer than one attempt there cannot be."""
    return RetryPolicy(
        max_attempts=max(1, settings.max_attempts), retry_fetch_errors=settings.retry_fetch_errors
    )
