"""OpenAI's chat completions of the gateway."""

import time
from typing import Any

from alhena.gateway.dialect import ErrorForm, StreamForm, call_ids, event
from alhena.gateway.faults import Fault, FaultKind
from alhena.wire.dialects import openai
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.encoded import encode_value
from alhena.wire.response import GenerateContentResponse

_INVALID, _SERVER = "invalid_request_error", "server_error"
_ERRORS: dict[FaultKind, tuple[int, str, str | None]] = {
    FaultKind.INVALID: (400, _INVALID, None),
    FaultKind.TOO_LARGE: (413, _INVALID, "request_too_large"),
    FaultKind.UNAUTHENTICATED: (401, _INVALID, "invalid_api_key"),
    FaultKind.FORBIDDEN: (403, _INVALID, "forbidden"),
    FaultKind.NOT_FOUND: (404, _INVALID, "unknown_url"),
    FaultKind.METHOD: (405, _INVALID, "method_not_supported"),
    FaultKind.SLOW_REQUEST: (408, _INVALID, "request_timeout"),
    FaultKind.BUSY: (429, "rate_limit_error", "too_many_requests"),
    FaultKind.STOPPING: (503, _SERVER, "shutting_down"),
    FaultKind.NO_MODEL: (404, _INVALID, "model_not_found"),
    FaultKind.RATE_LIMIT: (429, "rate_limit_error", "rate_limit_exceeded"),
    FaultKind.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
    FaultKind.OVERLOADED: (503, _SERVER, "overloaded"),
    FaultKind.UPSTREAM: (502, _SERVER, "upstream_error"),
    FaultKind.TIMEOUT: (504, _SERVER, "timeout"),
    FaultKind.INTERNAL: (500, _SERVER, None),
}


class OpenAiSpeech:
    """A `Speech`."""

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
        return _Chunks(asked)

    def count(self, tokens: int) -> dict[str, Any]:
        """The usage of a request without an answer, because the dialect has no token counting."""
        return {"usage": {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}}

    def error(self, fault: Fault) -> ErrorForm:
        """An error object."""
        status, kind, code = _ERRORS[fault.kind]
        error = {
            "message": fault.message,
            "type": kind,
            "param": fault.place or None,
            "code": code,
        }
        return ErrorForm(status, {"error": error})


_BEHIND = b',"logprobs":null,"finish_reason":null}]}\n\n'
"""The end of a chunk after its delta."""


class _Chunks:
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
            return b'%b{"content":%b}%b' % (before, encode_value(text), _BEHIND)
        return b"".join([event(encode_value(one)) for one in self._writer.feed(chunk)])

    def _around(self) -> bytes:
        return event(encode_value(self._writer.with_delta({}))).removesuffix(b"{}" + _BEHIND)

    def finish(self) -> bytes:
        last = [event(encode_value(one)) for one in self._writer.finish()]
        return b"".join([*last, event(b"[DONE]")])

    def failure(self, fault: Fault) -> bytes:
        return event(encode_value(OpenAiSpeech().error(fault).body))

    def ping(self) -> bytes:
        return b": still at work\n\n"
