"""The manner in which a failed request is sent again, and how long it may still be waited for."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import assert_never

from alhena.errors import AlhenaError, ModelError, NetworkError, ServerFaultError, StreamCutError
from alhena.models.errors import CapacityError, QuotaError, RequestRejectedError, SpentQuotaError
from alhena.models.retry.generator import RetryPolicy
from alhena.wire.errors import DecodeError, SseError

MAX_CAUSES = 5
REQUEST_TIMEOUT = 408
TOO_MANY = 429


class Manner(StrEnum):
    """NEVER: another attempt fails as this one did, or may do harm. BACKOFF: the service or the way
    to it has to recover. BROKEN: an answer came, and was none. CAPACITY: the model has no room."""

    NEVER = "never"
    BACKOFF = "backoff"
    BROKEN = "broken"
    CAPACITY = "capacity"


def manner_of(error: AlhenaError, *, fetch_errors: bool = True) -> Manner:
    """The manner for an error of a generator. `fetch_errors`: network errors of no known cause are
    taken for passing."""
    found = Manner.NEVER
    match error:
        case SpentQuotaError():
            pass
        case CapacityError():
            found = Manner.CAPACITY
        case QuotaError():
            found = Manner.BACKOFF
        case ServerFaultError():  # without a status it came in an answer of status 200
            found = Manner.BROKEN if error.status is None else Manner.BACKOFF
        case StreamCutError() | SseError() | DecodeError():
            found = Manner.BROKEN
        case NetworkError():
            found = _network(error, fetch_errors=fetch_errors)
        case RequestRejectedError():
            found = Manner.BACKOFF if error.status == REQUEST_TIMEOUT else Manner.NEVER
        case _:
            pass
    return found


def hint_of(error: AlhenaError) -> float | None:
    """The wait in seconds that the service asked for."""
    return error.retry_after_s if isinstance(error, ModelError) else None


def _network(error: NetworkError, *, fetch_errors: bool) -> Manner:
    import ssl

    import h11

    if _is_final(error.status):
        return Manner.NEVER
    causes = tuple(_causes(error))
    passing = fetch_errors or not causes  # without a cause the other side hung up
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Manner.NEVER
        if isinstance(cause, h11.RemoteProtocolError):
            return Manner.BROKEN
        if isinstance(cause, ssl.SSLError):
            passing = passing or _passes((cause.reason or "").upper())
        elif isinstance(cause, TimeoutError) and cause.errno is None:
            return Manner.BROKEN  # silence has taken its time already: few attempts
        elif isinstance(cause, OSError):
            passing = passing or _is_passing(cause)
    return Manner.BACKOFF if passing else Manner.NEVER


def _is_final(status: int | None) -> bool:
    """True when a proxy that opens no tunnel says with this status that it never will."""
    return status is not None and 400 <= status < 500 and status not in {REQUEST_TIMEOUT, TOO_MANY}


def _passes(tls_reason: str) -> bool:
    return tls_reason == "WRONG_VERSION_NUMBER" or tls_reason.endswith("BAD_RECORD_MAC")


def _is_passing(cause: OSError) -> bool:
    import errno
    import socket

    if isinstance(cause, ConnectionError | TimeoutError | socket.gaierror):
        return True
    known = {errno.EPROTO, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN}
    return cause.errno in known


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What led to an error, nearest first."""
    cause = error.__cause__ or error.__context__
    for _ in range(MAX_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


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
        """True when a model without room has been asked again as often as pays at once."""
        return self._crowded >= len(self.policy.capacity_s)

    @property
    def broken_spent(self) -> bool:
        """True when an answer that breaks off now is not asked for again."""
        return (
            self._broken >= self.policy.broken_attempts - 1
            or self.attempts >= self.policy.max_attempts
        )

    def is_long(self, error: AlhenaError) -> bool:
        """True when the service asks for a wait that is longer than any of our own."""
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
