"""What the gateway needs of a dialect: requests read, answers and errors written."""

from typing import Any, Protocol

import msgspec

from alhena.gateway.faults import Fault
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.response import GenerateContentResponse


class ErrorForm(msgspec.Struct, frozen=True):
    """An error as its dialect writes it: the HTTP status and the body."""

    status: int
    body: dict[str, Any]


class StreamForm(Protocol):
    """One streamed answer in the bytes of a dialect. `feed` and `finish` raise DialectError."""

    @property
    def media_type(self) -> str:
        """The content type."""
        ...

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        """The bytes that one more chunk comes to; may be none."""
        ...

    def finish(self) -> bytes:
        """The bytes at the end."""
        ...

    def failure(self, fault: Fault) -> bytes:
        """The bytes that end the answer where something went wrong."""
        ...

    def ping(self) -> bytes:
        """Bytes that say nothing but that there is more to come; none where that cannot be said."""
        ...


class Speech(Protocol):
    """A dialect. `read` and `whole` raise DialectError."""

    @property
    def name(self) -> str:
        """What the access log calls it."""
        ...

    def whole(self, response: GenerateContentResponse, asked: DialectRequest) -> dict[str, Any]:
        """The body of a whole answer."""
        ...

    def stream(self, asked: DialectRequest) -> StreamForm:
        """The form of a streamed answer."""
        ...

    def count(self, tokens: int) -> dict[str, Any]:
        """The body that tells a number of tokens."""
        ...

    def error(self, fault: Fault) -> ErrorForm:
        """The form of an error."""
        ...


def event(data: bytes, name: str = "") -> bytes:
    """A server-sent event."""
    head = b"event: %b\n" % name.encode("ascii") if name else b""
    return b"%bdata: %b\n\n" % (head, data)
