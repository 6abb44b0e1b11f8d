"""The gateway's interface to a dialect: reads requests, writes answers and ids."""

import secrets
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import msgspec
from starlette.requests import Request

from alhena.gateway.faults import Fault, FaultKind, refused
from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.json_values import as_array, as_object
from alhena.wire.response import GenerateContentResponse


class ErrorForm(msgspec.Struct, frozen=True):
    """An error in its dialect: the HTTP status and the body."""

    status: int
    body: dict[str, Any]


class StreamForm(Protocol):
    """A streamed answer in the bytes of a dialect. `feed` and `finish` raise DialectError."""

    @property
    def media_type(self) -> str:
        """The content type."""
        ...

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        """Converts a chunk to bytes; may be empty."""
        ...

    def finish(self) -> bytes:
        """The final bytes."""
        ...

    def failure(self, fault: Fault) -> bytes:
        """The bytes that end a failed answer."""
        ...

    def ping(self) -> bytes:
        """Bytes that only keep the stream alive; empty if the dialect has none."""
        ...


class Speech(Protocol):
    """A dialect. `read` and `whole` raise DialectError."""

    @property
    def name(self) -> str:
        """The name in the access log."""
        ...

    def whole(self, response: GenerateContentResponse, asked: DialectRequest) -> dict[str, Any]:
        """The body of a whole answer."""
        ...

    def stream(self, asked: DialectRequest) -> StreamForm:
        """The form of a streamed answer."""
        ...

    def count(self, tokens: int) -> dict[str, Any]:
        """The body with a token count."""
        ...

    def error(self, fault: Fault) -> ErrorForm:
        """The form of an error."""
        ...


def event(data: bytes, name: str = "") -> bytes:
    """A server-sent event."""
    head = b"event: %b\n" % name.encode("ascii") if name else b""
    return b"%bdata: %b\n\n" % (head, data)


def call_ids(prefix: str) -> Callable[[str], str]:
    """Generates ids for the calls of one answer, unique across answers."""
    token = secrets.token_hex(8)
    numbers = count(1)
    return lambda _name: f"{prefix}_{token}_{next(numbers)}"


def answer_id() -> str:
    """An id for an answer."""
    return secrets.token_hex(12)


MAX_MESSAGES = 20_000
"""Maximum messages of a request: far more than a model can read, and few enough to check."""
_METHODS = ("generateContent", "streamGenerateContent", "countTokens")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request. `counts`: only the number of tokens; `own`: in Gemini's own dialect."""

    request: DialectRequest
    counts: bool = False
    own: bool = False


Reading = Callable[[Any, Request], Asked]
"""Reads a body (JSON values) with its HTTP request. Raises AlhenaError."""


def _require_few(body: Any, key: str) -> None:
    items = as_array((as_object(body) or {}).get(key)) or ()
    if len(items) > MAX_MESSAGES:
        raise DialectError(f"holds {len(items)} messages; {MAX_MESSAGES} is the most.", key)


def reads_anthropic(body: Any, request: Request) -> Asked:
    """POST /v1/messages, and its count_tokens."""
    _require_few(body, "messages")
    counts = request.url.path.endswith("/count_tokens")
    return Asked(request=anthropic.read_request(body), counts=counts)


def reads_openai(body: Any, request: Request) -> Asked:
    """POST /v1/chat/completions."""
    del request
    _require_few(body, "messages")
    return Asked(request=openai.read_request(body))


def reads_google(body: Any, request: Request) -> Asked:
    """POST /v1beta/models/NAME:METHOD."""
    model, _, method = str(request.path_params["name"]).rpartition(":")
    if not model or method not in _METHODS:
        known = ", ".join(_METHODS)
        raise refused(FaultKind.NOT_FOUND, f"there is no method {method[:60]!r} here, but {known}.")
    _require_few(body, "contents")
    return Asked(
        request=gemini.read_request(body, model, stream=method == "streamGenerateContent"),
        counts=method == "countTokens",
        own=True,
    )
