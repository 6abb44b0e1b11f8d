"""Errors of requests in a form that every dialect can express."""

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
from alhena.wire.dialects.fields import DialectError, InexpressibleAnswerError
from alhena.wire.errors import ConformanceError, DecodeError, EncodeError
from alhena.wire.schema.openapi import SchemaError


class FaultKind(StrEnum):
    """INVALID to STOPPING concern the request or the gateway itself, the others the service behind
    it; UPSTREAM covers its failures without their own kind."""

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
    NO_ANSWER = "no_answer"
    RATE_LIMIT = "rate_limit"
    QUOTA = "quota"
    OVERLOADED = "overloaded"
    UPSTREAM = "upstream"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a request fails. `place` locates it in the body, `retry_after_s` is the time
    until a retry; `details` are the service's own (google.rpc). `detail` is for the log only:
    information on the gateway's service, files and credentials."""

    kind: FaultKind
    message: str
    place: str = ""
    detail: str = ""
    retry_after_s: float | None = None
    details: tuple[dict[str, Any], ...] = ()


class GatewayRefusalError(AlhenaError):
    """The gateway refuses a request."""

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


def refusal_error(
    kind: FaultKind, message: str, *, retry_after_s: float | None = None
) -> GatewayRefusalError:
    """The error of a request refused by the gateway itself."""
    return GatewayRefusalError(Fault(kind=kind, message=message, retry_after_s=retry_after_s))


def fault_of(error: AlhenaError) -> Fault:
    """Converts an error to a fault for the client. The remedy is dropped: it is for the operator of
    the gateway."""
    if isinstance(error, GatewayRefusalError):
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
    if isinstance(error, InexpressibleAnswerError):
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
