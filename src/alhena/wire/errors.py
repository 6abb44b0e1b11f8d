"""Errors in bytes and conversations: broken rules, and the error object of Google APIs
(google.rpc.Status)."""

from enum import StrEnum
from typing import Any

from alhena.errors import AlhenaError
from alhena.values import Value


class Severity(StrEnum):
    """`ERROR` prevents sending a request; `WARNING` is reported or repaired."""

    ERROR = "error"
    WARNING = "warning"


class Violation(Value, frozen=True):
    """Rule (such as "F1"), level, path (such as "contents[3].parts[0]") and message."""

    rule: str
    level: Severity
    path: str
    message: str


class WireError(AlhenaError):
    """A violation of the wire protocol."""

    kind = "wire"


class SseError(WireError):
    """The bytes are not server-sent events, or an event exceeds the size limit.

    `body` is the start of the data received instead of events, empty otherwise: it may contain an
    API error (`wire.encode.decode_error`).
    """

    kind = "bad_stream"

    def __init__(self, message: str, *, remedy: str | None = None, body: bytes = b"") -> None:
        super().__init__(message, remedy=remedy)
        self.body = body


class DecodeError(WireError):
    """A JSON value violates the documented shape."""

    kind = "bad_response"


class EncodeError(WireError):
    """A value has no JSON form."""

    kind = "bad_value"


class ConformanceError(WireError):
    """A request breaks an error-level rule of `wire.conformance` and is not sent."""

    kind = "conformance"

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        first = violations[0]
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        super().__init__(
            f"the request breaks rule {first.rule} at {first.path}: {first.message}{more}",
            remedy="Nothing was sent: the history, or what a hook made of it, is not valid.",
        )
        self.violations = violations


class ApiStatus(Value, frozen=True, kw_only=True):
    """An error reported by a service.

    `code` is the HTTP status (0 if missing), `status` the canonical name such as
    "RESOURCE_EXHAUSTED", `details` the typed detail objects (`@type` ErrorInfo, RetryInfo, …).
    `words` are the error codes of other dialects: the `code` and the `type` of an OpenAI error, the
    `type` of an Anthropic one ("insufficient_quota", "overloaded_error").
    """

    code: int = 0
    message: str = ""
    status: str = ""
    details: tuple[dict[str, Any], ...] = ()
    words: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of all ErrorInfo details, such as "API_KEY_INVALID"."""
        found = (detail.get("reason") for detail in self.details)
        return tuple(reason for reason in found if isinstance(reason, str) and reason)
