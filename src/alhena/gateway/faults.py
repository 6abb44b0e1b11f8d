"""What can go wrong with a request, in words that every dialect has a form for."""

import re
from enum import StrEnum
from typing import Any

import msgspec

from alhena.errors import AlhenaError, ModelError, NetworkError, ServerFaultError
from alhena.models.errors import (
    CapacityError,
    CredentialsError,
    ModelNotFoundError,
    QuotaError,
    RecordingError,
    RequestRejectedError,
    SpentQuotaError,
)
from alhena.wire.dialects.fields import DialectError, UnusableAnswerError
from alhena.wire.errors import ConformanceError, DecodeError, EncodeError
from alhena.wire.schema.openapi import SchemaError


class FaultKind(StrEnum):
    """INVALID to STOPPING are about the request or the gateway itself, the others about the service
    behind it; UPSTREAM is every failure of that one which has no kind of its own."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD = "method"
    SLOW_REQUEST = "slow_request"
    BUSY = "busy"
    STOPPING = "stopping"
    NO_MODEL = "no_model"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    OVERLOADED = "overloaded"
    UPSTREAM = "upstream"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a request is not answered. `place` is where in its body the reason stands,
    `retry_after_s` when to ask again; `details` are the service's own (google.rpc). `detail` is for
    the log: what clients need not know of the gateway's service, files and credentials."""

    kind: FaultKind
    message: str
    place: str = ""
    detail: str = ""
    retry_after_s: float | None = None
    details: tuple[dict[str, Any], ...] = ()


class RefusedError(AlhenaError):
    """The gateway does not answer a request."""

    kind = "refused"

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


_INNER = (CredentialsError, NetworkError, RecordingError)
_TOLD: tuple[tuple[type[AlhenaError], str], ...] = (
    (CredentialsError, "the model service refuses the gateway's own credentials."),
    (NetworkError, "the model service cannot be reached."),
    (RecordingError, "there is no recorded answer to this request."),
    (DecodeError, "the model service gave an answer that cannot be read."),
)
_ADDRESS = re.compile(r"https?://[^\s,;:()]+(?::\d+)?[^\s,;:()]*")
_FAILED = "the model service could not be asked; the log of the gateway says why."


def refused(kind: FaultKind, message: str, *, retry_after_s: float | None = None) -> RefusedError:
    """The error of a request that the gateway itself refuses."""
    return RefusedError(Fault(kind=kind, message=message, retry_after_s=retry_after_s))


def fault_of(error: AlhenaError) -> Fault:
    """The fault that an error comes to for the client. What the error advises is left out: it is
    advice for whoever runs the gateway."""
    if isinstance(error, RefusedError):
        return error.fault
    if isinstance(error, ModelError) and not isinstance(error, _INNER):
        told = _ADDRESS.sub("the model service", error.message, count=1)
        return Fault(
            kind=_kind_of(error),
            message=told,
            detail=error.message if told != error.message else "",
            retry_after_s=error.retry_after_s,
            details=error.details,
        )
    if isinstance(error, UnusableAnswerError):
        return Fault(kind=FaultKind.UPSTREAM, message=error.message)
    if isinstance(error, DialectError):
        return Fault(kind=FaultKind.INVALID, message=str(error), place=error.path)
    if isinstance(error, ConformanceError):
        places = [violation.path for violation in error.violations]
        return Fault(kind=FaultKind.INVALID, message=error.message, place=places[0])
    if isinstance(error, EncodeError | SchemaError):
        return Fault(kind=FaultKind.INVALID, message=error.message)
    told = next((text for kind, text in _TOLD if isinstance(error, kind)), _FAILED)
    return Fault(kind=FaultKind.UPSTREAM, message=told, detail=error.message)


def _kind_of(error: ModelError) -> FaultKind:
    if isinstance(error, QuotaError):
        if isinstance(error, SpentQuotaError):
            return FaultKind.QUOTA
        full = isinstance(error, CapacityError)
        return FaultKind.OVERLOADED if full else FaultKind.RATE_LIMIT
    if isinstance(error, ModelNotFoundError):
        return FaultKind.NO_MODEL
    if isinstance(error, RequestRejectedError):
        return FaultKind.TOO_LARGE if error.status == 413 else FaultKind.INVALID
    if isinstance(error, ServerFaultError) and error.status in {503, 529}:
        return FaultKind.OVERLOADED
    if isinstance(error, ServerFaultError) and error.status == 504:
        return FaultKind.TIMEOUT
    return FaultKind.UPSTREAM
