"""What can be wrong with bytes and with conversations."""

from alhena.errors import AlhenaError
from alhena.wire.violation import Violation


class WireError(AlhenaError):
    """Something on the wire is not what the protocol says."""

    kind = "wire"


class SseError(WireError):
    """The bytes are no server-sent events, or an event exceeds the size cap.

    `body` is the start of what came instead of events, empty otherwise: it may hold an API error
    (`wire.decode.decode_error`).
    """

    kind = "bad_stream"

    def __init__(self, message: str, *, remedy: str | None = None, body: bytes = b"") -> None:
        super().__init__(message, remedy=remedy)
        self.body = body


class DecodeError(WireError):
    """A JSON value is not of the documented shape."""

    kind = "bad_response"


class EncodeError(WireError):
    """A value that JSON cannot carry."""

    kind = "bad_value"


class ConformanceError(WireError):
    """A request breaks an error-level rule of `wire.conformance` and is not sent."""

    kind = "conformance"

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        first = violations[0]
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        super().__init__(
            f"the request breaks rule {first.rule} at {first.path}: {first.message}{more}",
            remedy="This is a defect in alhena or in a history given to it; nothing was sent.",
        )
        self.violations = violations
