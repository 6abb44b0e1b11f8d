"""A dialect as the gateway needs it: requests read, answers and ids written."""

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
from alhena.wire.plain import as_array, as_object
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


def call_ids(prefix: str) -> Callable[[str], str]:
    """Gives ids to the calls of one answer: different from each other and from those of others."""
    token = secrets.token_hex(8)
    numbers = count(1)
    return lambda _name: f"{prefix}_{token}_{next(numbers)}"


def answer_id() -> str:
    """An id for an answer."""
    return secrets.token_hex(12)


MAX_MESSAGES = 20_000
"""The most messages of a request: far more than a model can read, and few enough to check."""
_METHODS = ("generateContent", "streamGenerateContent", "countTokens")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a client wants. `counts`: the number of tokens only; `own`: it is Gemini's own
    dialect."""

    request: DialectRequest
    counts: bool = False
    own: bool = False


Reading = Callable[[Any, Request], Asked]
"""Reads a body (as JSON values) and the request it came with. Raises AlhenaError."""


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
