"""In which manner a failed request is sent again, if at all."""

from collections.abc import Iterator
from enum import StrEnum

from alhena.errors import AlhenaError, ModelError, NetworkError, ServerFaultError, StreamCutError
from alhena.models.errors import CapacityError, QuotaError, RequestRejectedError, SpentQuotaError
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
    """Whether a proxy that opens no tunnel says with this status that it never will."""
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
