"""Gemini's own API of the gateway."""

from typing import Any

import msgspec

from alhena.gateway.dialect import ErrorForm, StreamForm, event
from alhena.gateway.faults import Fault, FaultKind
from alhena.wire.dialects import gemini
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.encoded import encode_value
from alhena.wire.response import GenerateContentResponse

_ERRORS = {
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
    FaultKind.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED"),
    FaultKind.QUOTA: (429, "RESOURCE_EXHAUSTED"),
    FaultKind.OVERLOADED: (503, "UNAVAILABLE"),
    FaultKind.UPSTREAM: (502, "INTERNAL"),
    FaultKind.TIMEOUT: (504, "DEADLINE_EXCEEDED"),
    FaultKind.INTERNAL: (500, "INTERNAL"),
}


class GoogleSpeech:
    """A `Speech`. Streams are server-sent events, or one JSON array without `alt=sse`."""

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
        return _Events() if self._sse else _Array()

    def count(self, tokens: int) -> dict[str, Any]:
        """The answer of countTokens."""
        return {"totalTokens": tokens}

    def error(self, fault: Fault) -> ErrorForm:
        """A google.rpc.Status."""
        status, name = _ERRORS[fault.kind]
        error: dict[str, Any] = {"code": status, "message": fault.message, "status": name}
        if fault.details:
            error["details"] = list(fault.details)
        return ErrorForm(status, {"error": error})


class _Events:
    media_type = "text/event-stream"

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        return event(encode_value(gemini.write_response(chunk)))

    def finish(self) -> bytes:
        return b""

    def failure(self, fault: Fault) -> bytes:
        return event(encode_value(GoogleSpeech().error(fault).body))

    def ping(self) -> bytes:
        """Empty: readers of this dialect take every line for a part of the answer."""
        return b""


class _Array:
    media_type = "application/json; charset=utf-8"

    def __init__(self) -> None:
        self._before = b"["

    def feed(self, chunk: GenerateContentResponse) -> bytes:
        return self._element(encode_value(gemini.write_response(chunk)))

    def finish(self) -> bytes:
        return b"]" if self._before != b"[" else b"[]"

    def failure(self, fault: Fault) -> bytes:
        return self._element(encode_value(GoogleSpeech().error(fault).body)) + b"]"

    def ping(self) -> bytes:
        return b"\n"

    def _element(self, element: bytes) -> bytes:
        before, self._before = self._before, b",\r\n"
        return before + element
