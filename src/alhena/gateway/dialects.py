"""The dialects of the gateway: Gemini's own, Anthropic's Messages, OpenAI's chat completions and
Responses. Each reads requests, and writes answers, errors and ids."""

import secrets
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import msgspec
from starlette.requests import Request

from alhena.gateway.embeddings import (
    EmbeddingRequest,
    read_google_embeddings,
    read_openai_embeddings,
)
from alhena.gateway.faults import Fault, FaultKind, refusal_error
from alhena.gateway.stored import ResponseStore
from alhena.wire.content import encode_value
from alhena.wire.dialects import anthropic, gemini, openai, responses
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.responses.events import answer_to
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


class ClientDialect(Protocol):
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
_EMBED, _EMBED_MANY = "embedContent", "batchEmbedContents"
_METHODS = ("generateContent", "streamGenerateContent", "countTokens", _EMBED, _EMBED_MANY)


class ClientRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request. `counts`: only the number of tokens; `embeds`: only vectors; `own`: in
    Gemini's own dialect."""

    request: DialectRequest
    counts: bool = False
    embeds: EmbeddingRequest | None = None
    own: bool = False


Reading = Callable[[Any, Request], ClientRequest]
"""Reads a body (JSON values) with its HTTP request. Raises AlhenaError."""


def _require_few(body: Any, key: str) -> None:
    items = as_array((as_object(body) or {}).get(key)) or ()
    if len(items) > MAX_MESSAGES:
        raise DialectError(f"holds {len(items)} messages; {MAX_MESSAGES} is the most.", key)


def reads_anthropic(body: Any, request: Request) -> ClientRequest:
    """POST /v1/messages, and its count_tokens."""
    _require_few(body, "messages")
    counts = request.url.path.endswith("/count_tokens")
    return ClientRequest(request=anthropic.read_request(body), counts=counts)


def reads_openai(body: Any, request: Request) -> ClientRequest:
    """POST /v1/chat/completions."""
    del request
    _require_few(body, "messages")
    return ClientRequest(request=openai.read_request(body))


def reads_embeddings(body: Any, request: Request) -> ClientRequest:
    """POST /v1/embeddings."""
    del request
    return _embedding(read_openai_embeddings(body))


def _embedding(asked: EmbeddingRequest) -> ClientRequest:
    return ClientRequest(request=DialectRequest(model=asked.model, contents=()), embeds=asked)


def reads_responses(store: ResponseStore) -> Reading:
    """POST /v1/responses, and its input_tokens."""

    def read(body: Any, request: Request) -> ClientRequest:
        previous = (as_object(body) or {}).get("previous_response_id")
        body = store.insert_conversation(body)
        _require_few(body, "input")
        asked = responses.read_request(body)
        echo = {**asked.echo, "previous_response_id": previous}
        counts = request.url.path.endswith("/input_tokens")
        return ClientRequest(request=msgspec.structs.replace(asked, echo=echo), counts=counts)

    return read


def reads_google(body: Any, request: Request) -> ClientRequest:
    """POST /v1beta/models/NAME:METHOD."""
    model, _, method = str(request.path_params["name"]).rpartition(":")
    if not model or method not in _METHODS:
        known = ", ".join(_METHODS)
        raise refusal_error(
            FaultKind.NOT_FOUND, f"there is no method {method[:60]!r} here, but {known}."
        )
    if method in (_EMBED, _EMBED_MANY):
        _require_few(body, "requests")
        return _embedding(read_google_embeddings(body, model, batch=method == _EMBED_MANY))
    _require_few(body, "contents")
    return ClientRequest(
        request=gemini.read_request(body, model, stream=method == "streamGenerateContent"),
        counts=method == "countTokens",
        own=True,
    )


_GOOGLE_ERRORS = {
    FaultKind.INVALID: (400, "INVALID_ARGUMENT"),
    FaultKind.TOO_LARGE: (413, "INVALID_ARGUMENT"),
    FaultKind.UNAUTHENTICATED: (401, "UNAUTHENTICATED"),
    FaultKind.FORBIDDEN: (403, "PERMISSION_DENIED"),
    FaultKind.NOT_FOUND: (404, "NOT_FOUND"),
    FaultKind.METHOD: (405, "UNIMPLEMENTED"),
    FaultKind.SLOW_REQUEST: (408, "DEADLINE_EXCEEDED"),
    FaultKind.BUSY: (429, "RESOURCE_EXHAUSTED"),
    FaultKind.STOPPING: (503, "UNAVAILABLE"),
    FaultKind.NO_MODEL: (404, "NOT_FOUND"),
    FaultKind.NO_ANSWER: (400, "INVALID_ARGUMENT"),
    FaultKind.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED"),
    FaultKind.QUOTA: (429, "RESOURCE_EXHAUSTED"),
    FaultKind.OVERLOADED: (503, "UNAVAILABLE"),
    FaultKind.UPSTREAM: (502, "INTERNAL"),
    FaultKind.TIMEOUT: (504, "DEADLINE_EXCEEDED"),
    FaultKind.INTERNAL: (500, "INTERNAL"),
}


class GoogleDialect:
    """A `ClientDialect`. Streams are server-sent events, or one JSON array without `alt=sse`."""

    name = "gemini"

    def __init__(self, *, sse: bool = True) -> None:
        self._sse = sse

    def whole(self, response: GenerateContentResponse, asked: DialectRequest) -> dict[str, Any]:
        """A GenerateContentResponse."""
        del asked
        return msgspec.to_builtins(gemini.write_response(response))

    def stream(self, asked: DialectRequest) -> StreamForm:
        """The unchanged chunks."""
        del asked
        return _GoogleEvents() if self._sse else _GoogleArray()

    def count(self, tokens: int) -> dict[str, Any]:
        """The answer of countTokens."""
        return {"totalTokens": tokens}

    def error(self, fault: Fault) -> ErrorForm:
        """A google.rpc.Status."""
        status, name = _GOOGLE_ERRORS[fault.kind]
        error: dict[str, Any] = {"code": status, "message": fault.message, "status": name}
        if fault.details:
            error["details"] = list(fault.details)
        return ErrorForm(status, {"error": error})


class _GoogleEvents:
    media_type = "text/event-stream"

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        return event(encode_value(gemini.write_response(chunk)))

    def finish(self) -> bytes:
        return b""

    def failure(self, fault: Fault) -> bytes:
        return event(encode_value(GoogleDialect().error(fault).body))

    def ping(self) -> bytes:
        """Empty: readers of this dialect take every line for a part of the answer."""
        return b""


class _GoogleArray:
    media_type = "application/json; charset=utf-8"

    def __init__(self) -> None:
        self._before = b"["

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        return self._element(encode_value(gemini.write_response(chunk)))

    def finish(self) -> bytes:
        return b"]" if self._before != b"[" else b"[]"

    def failure(self, fault: Fault) -> bytes:
        return self._element(encode_value(GoogleDialect().error(fault).body)) + b"]"

    def ping(self) -> bytes:
        return b"\n"

    def _element(self, element: bytes) -> bytes:
        before, self._before = self._before, b",\r\n"
        return before + element


_ANTHROPIC_INVALID = "invalid_request_error"
_ANTHROPIC_ERRORS = {
    FaultKind.INVALID: (400, _ANTHROPIC_INVALID),
    FaultKind.TOO_LARGE: (413, "request_too_large"),
    FaultKind.UNAUTHENTICATED: (401, "authentication_error"),
    FaultKind.FORBIDDEN: (403, "permission_error"),
    FaultKind.NOT_FOUND: (404, "not_found_error"),
    FaultKind.METHOD: (405, _ANTHROPIC_INVALID),
    FaultKind.SLOW_REQUEST: (408, "timeout_error"),
    FaultKind.BUSY: (529, "overloaded_error"),
    FaultKind.STOPPING: (503, "api_error"),
    FaultKind.NO_MODEL: (404, "not_found_error"),
    FaultKind.NO_ANSWER: (400, _ANTHROPIC_INVALID),
    FaultKind.RATE_LIMIT: (429, "rate_limit_error"),
    FaultKind.QUOTA: (429, "rate_limit_error"),
    FaultKind.OVERLOADED: (529, "overloaded_error"),
    FaultKind.UPSTREAM: (502, "api_error"),
    FaultKind.TIMEOUT: (504, "timeout_error"),
    FaultKind.INTERNAL: (500, "api_error"),
}


class AnthropicDialect:
    """A `ClientDialect`."""

    name = "anthropic"

    def whole(self, response: GenerateContentResponse, asked: DialectRequest) -> dict[str, Any]:
        """A message."""
        return anthropic.write_response(
            response, model=asked.model, names=asked.names, new_id=call_ids("toolu")
        )

    def stream(self, asked: DialectRequest) -> StreamForm:
        """The events of a message."""
        return _AnthropicEvents(asked)

    def count(self, tokens: int) -> dict[str, Any]:
        """The answer of count_tokens."""
        return {"input_tokens": tokens}

    def error(self, fault: Fault) -> ErrorForm:
        """An error object."""
        status, kind = _ANTHROPIC_ERRORS[fault.kind]
        error = {"type": kind, "message": fault.message}
        return ErrorForm(status, {"type": "error", "error": error})


_AFTER_TEXT = b"}}\n\n"
"""The end of an event after its text."""


class _AnthropicEvents:
    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, asked: DialectRequest) -> None:
        self._writer = anthropic.EventWriter(
            model=asked.model, names=asked.names, new_id=call_ids("toolu")
        )
        self._before = b""

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        text = self._writer.text(chunk)
        if text:
            # The bytes around the text stay the same within a block.
            before = self._before = self._before or self._around()
            return b"%b%b%b" % (before, encode_value(text), _AFTER_TEXT)
        self._before = b""
        return _join_events(self._writer.feed(chunk))

    def _around(self) -> bytes:
        return _join_events([self._writer.with_text("")]).removesuffix(b'""' + _AFTER_TEXT)

    def finish(self) -> bytes:
        return _join_events(self._writer.finish())

    def failure(self, fault: Fault) -> bytes:
        return _join_events([AnthropicDialect().error(fault).body])

    def ping(self) -> bytes:
        return _join_events([{"type": "ping"}])


def _join_events(events: list[dict[str, Any]]) -> bytes:
    return b"".join([event(encode_value(one), one["type"]) for one in events])


_OPENAI_INVALID, _SERVER = "invalid_request_error", "server_error"
_OPENAI_ERRORS: dict[FaultKind, tuple[int, str, str | None]] = {
    FaultKind.INVALID: (400, _OPENAI_INVALID, None),
    FaultKind.TOO_LARGE: (413, _OPENAI_INVALID, "request_too_large"),
    FaultKind.UNAUTHENTICATED: (401, _OPENAI_INVALID, "invalid_api_key"),
    FaultKind.FORBIDDEN: (403, _OPENAI_INVALID, "forbidden"),
    FaultKind.NOT_FOUND: (404, _OPENAI_INVALID, "unknown_url"),
    FaultKind.METHOD: (405, _OPENAI_INVALID, "method_not_supported"),
    FaultKind.SLOW_REQUEST: (408, _OPENAI_INVALID, "request_timeout"),
    FaultKind.BUSY: (429, "rate_limit_error", "too_many_requests"),
    FaultKind.STOPPING: (503, _SERVER, "shutting_down"),
    FaultKind.NO_MODEL: (404, _OPENAI_INVALID, "model_not_found"),
    FaultKind.NO_ANSWER: (400, _OPENAI_INVALID, "previous_response_not_found"),
    FaultKind.RATE_LIMIT: (429, "rate_limit_error", "rate_limit_exceeded"),
    FaultKind.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
    FaultKind.OVERLOADED: (503, _SERVER, "overloaded"),
    FaultKind.UPSTREAM: (502, _SERVER, "upstream_error"),
    FaultKind.TIMEOUT: (504, _SERVER, "timeout"),
    FaultKind.INTERNAL: (500, _SERVER, None),
}


class OpenAiDialect:
    """A `ClientDialect`."""

    name = "openai"

    def whole(self, response: GenerateContentResponse, asked: DialectRequest) -> dict[str, Any]:
        """A chat completion."""
        return openai.write_response(
            response,
            model=asked.model,
            names=asked.names,
            new_id=call_ids("call"),
            created=int(time.time()),
        )

    def stream(self, asked: DialectRequest) -> StreamForm:
        """The chunks of a chat completion."""
        return _OpenAiChunks(asked)

    def count(self, tokens: int) -> dict[str, Any]:
        """The usage of a request without an answer, because the dialect has no token counting."""
        return {"usage": {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}}

    def error(self, fault: Fault) -> ErrorForm:
        """An error object."""
        status, kind, code = _OPENAI_ERRORS[fault.kind]
        error = {
            "message": fault.message,
            "type": kind,
            "param": fault.place or None,
            "code": code,
        }
        return ErrorForm(status, {"error": error})


_AFTER_DELTA = b',"logprobs":null,"finish_reason":null}]}\n\n'
"""The end of a chunk after its delta."""


class _OpenAiChunks:
    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, asked: DialectRequest) -> None:
        self._writer = openai.EventWriter(
            model=asked.model,
            names=asked.names,
            new_id=call_ids("call"),
            created=int(time.time()),
            include_usage=asked.include_usage,
        )
        self._before = b""

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        text = self._writer.text(chunk)
        if text:
            # The bytes around the text are the same in all chunks of an answer.
            before = self._before = self._before or self._around()
            return b'%b{"content":%b}%b' % (before, encode_value(text), _AFTER_DELTA)
        return b"".join([event(encode_value(one)) for one in self._writer.feed(chunk)])

    def _around(self) -> bytes:
        return event(encode_value(self._writer.with_delta({}))).removesuffix(b"{}" + _AFTER_DELTA)

    def finish(self) -> bytes:
        last = [event(encode_value(one)) for one in self._writer.finish()]
        return b"".join([*last, event(b"[DONE]")])

    def failure(self, fault: Fault) -> bytes:
        return event(encode_value(OpenAiDialect().error(fault).body))

    def ping(self) -> bytes:
        return b": still at work\n\n"


_FAILURE_CODES = {
    FaultKind.RATE_LIMIT: "rate_limit_exceeded",
    FaultKind.QUOTA: "insufficient_quota",
    FaultKind.INVALID: "invalid_prompt",
}
"""Codes of errors in a stream; the others are the server's."""


class ResponsesDialect(OpenAiDialect):
    """A `ClientDialect`, with the errors of chat completions. Answers are put into the `store`
    unless the request forbids it."""

    name = "responses"

    def __init__(self, store: ResponseStore) -> None:
        self._store = store

    def whole(self, response: GenerateContentResponse, asked: DialectRequest) -> dict[str, Any]:
        """A response."""
        made = responses.write_response(
            response,
            answer_to(asked, f"resp_{answer_id()}", int(time.time())),
            names=asked.names,
            new_id=call_ids("call"),
        )
        self._store.put(made, asked)
        return made

    def stream(self, asked: DialectRequest) -> StreamForm:
        """The events of a response."""
        return _ResponsesEvents(asked, self._store)

    def count(self, tokens: int) -> dict[str, Any]:
        """The answer of input_tokens."""
        return {"object": "response.input_tokens", "input_tokens": tokens}


class _ResponsesEvents:
    media_type = "text/event-stream; charset=utf-8"

    def __init__(self, asked: DialectRequest, store: ResponseStore) -> None:
        self._asked = asked
        self._store = store
        self._writer = responses.EventWriter(
            answer_to(asked, f"resp_{answer_id()}", int(time.time())),
            names=asked.names,
            new_id=call_ids("call"),
        )

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        return _join_events(self._writer.feed(chunk))

    def finish(self) -> bytes:
        last = self._writer.finish()
        self._store.put(last[-1]["response"], self._asked)
        return _join_events(last)

    def failure(self, fault: Fault) -> bytes:
        return _join_events(
            self._writer.fail(_FAILURE_CODES.get(fault.kind, _SERVER), fault.message)
        )

    def ping(self) -> bytes:
        return b": still at work\n\n"
