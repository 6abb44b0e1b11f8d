"""Classifies failed requests for retries, and tracks the retry budget of a request."""

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
    """NEVER: a retry fails too, or may do harm. BACKOFF: the service or the network has to recover.
    BROKEN: malformed or truncated answer. CAPACITY: model overloaded."""

    NEVER = "never"
    BACKOFF = "backoff"
    BROKEN = "broken"
    CAPACITY = "capacity"


def manner_of(error: AlhenaError, *, fetch_errors: bool = True) -> Manner:
    """Classifies a generator's error. `fetch_errors`: unknown network errors count as transient."""
    found = Manner.NEVER
    match error:
        case SpentQuotaError():
            pass
        case CapacityError():
            found = Manner.CAPACITY
        case QuotaError():
            found = Manner.BACKOFF
        case ServerFaultError():  # without a status it came in a response with status 200
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
    """The wait in seconds requested by the service."""
    return error.retry_after_s if isinstance(error, ModelError) else None


def _network(error: NetworkError, *, fetch_errors: bool) -> Manner:
    import ssl

    import h11

    if _is_final(error.status):
        return Manner.NEVER
    causes = tuple(_causes(error))
    passing = fetch_errors or not causes  # without a cause the peer closed the connection
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Manner.NEVER
        if isinstance(cause, h11.RemoteProtocolError):
            return Manner.BROKEN
        if isinstance(cause, ssl.SSLError):
            passing = passing or _passes((cause.reason or "").upper())
        elif isinstance(cause, TimeoutError) and cause.errno is None:
            return Manner.BROKEN  # a timeout has taken long already: few attempts
        elif isinstance(cause, OSError):
            passing = passing or _is_passing(cause)
    return Manner.BACKOFF if passing else Manner.NEVER


def _is_final(status: int | None) -> bool:
    """True when a proxy permanently refuses a tunnel with this status."""
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
    """The causes of an error, nearest first."""
    cause = error.__cause__ or error.__context__
    for _ in range(MAX_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


class Patience:
    """The retry budget of one request. `chance` gives random numbers from 0 to 1."""

    def __init__(self, policy: RetryPolicy, chance: Callable[[], float]) -> None:
        self.policy = policy
        self.attempts = 1
        self.waited_s = 0.0
        self.limit = policy.max_attempts  # attempts in all, for the class of the last failure
        self._chance = chance
        self._backoffs = 0
        self._broken = 0
        self._crowded = 0

    @property
    def capacity_spent(self) -> bool:
        """True when an overloaded model should not be retried again at once."""
        return self._crowded >= len(self.policy.capacity_s)

    @property
    def broken_spent(self) -> bool:
        """True when another truncated answer is not retried."""
        return (
            self._broken >= self.policy.broken_attempts - 1
            or self.attempts >= self.policy.max_attempts
        )

    def is_long(self, error: AlhenaError) -> bool:
        """True when the service asks for a longer wait than any of ours."""
        return (hint_of(error) or 0.0) > self.policy.max_s

    def manner(self, error: AlhenaError) -> Manner:
        """The retry class of `error` for this request."""
        return manner_of(error, fetch_errors=self.policy.retry_fetch_errors)

    def after(self, error: AlhenaError, manner: Manner | None = None) -> float | None:
        """Seconds until the next attempt, which is counted now; None to give up. `manner` defaults
        to the class of the error."""
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
        # Jitter lengthens a wait within the limit.
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
