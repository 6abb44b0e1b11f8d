"""Anthropic's Messages API of the gateway."""

from typing import Any

from alhena.gateway.dialect import ErrorForm, StreamForm, call_ids, event
from alhena.gateway.faults import Fault, FaultKind
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.encoded import encode_value
from alhena.wire.response import GenerateContentResponse

_INVALID = "invalid_request_error"
_ERRORS = {
    FaultKind.INVALID: (400, _INVALID),
    FaultKind.TOO_LARGE: (413, "request_too_large"),
    FaultKind.UNAUTHENTICATED: (401, "authentication_error"),
    FaultKind.FORBIDDEN: (403, "permission_error"),
    FaultKind.NOT_FOUND: (404, "not_found_error"),
    FaultKind.METHOD: (405, _INVALID),
    FaultKind.SLOW_REQUEST: (408, "timeout_error"),
    FaultKind.BUSY: (529, "overloaded_error"),
    FaultKind.STOPPING: (503, "api_error"),
    FaultKind.NO_MODEL: (404, "not_found_error"),
    FaultKind.RATE_LIMIT: (429, "rate_limit_error"),
    FaultKind.QUOTA: (429, "rate_limit_error"),
    FaultKind.OVERLOADED: (529, "overloaded_error"),
    FaultKind.UPSTREAM: (502, "api_error"),
    FaultKind.TIMEOUT: (504, "timeout_error"),
    FaultKind.INTERNAL: (500, "api_error"),
}


class AnthropicSpeech:
    """A `Speech`."""

    name = "anthropic"

    def whole(self, response: GenerateContentResponse, asked: DialectRequest) -> dict[str, Any]:
        """A message."""
        return anthropic.write_response(
            response, model=asked.model, names=asked.names, new_id=call_ids("toolu")
        )

    def stream(self, asked: DialectRequest) -> StreamForm:
        """The events of a message."""
        return _Events(asked)

    def count(self, tokens: int) -> dict[str, Any]:
        """The answer of count_tokens."""
        return {"input_tokens": tokens}

    def error(self, fault: Fault) -> ErrorForm:
        """An error object."""
        status, kind = _ERRORS[fault.kind]
        error = {"type": kind, "message": fault.message}
        return ErrorForm(status, {"type": "error", "error": error})


_BEHIND = b"}}\n\n"
"""The end of an event after its text."""


class _Events:
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
            return b"%b%b%b" % (before, encode_value(text), _BEHIND)
        self._before = b""
        return _joined(self._writer.feed(chunk))

    def _around(self) -> bytes:
        return _joined([self._writer.with_text("")]).removesuffix(b'""' + _BEHIND)

    def finish(self) -> bytes:
        return _joined(self._writer.finish())

    def failure(self, fault: Fault) -> bytes:
        return _joined([AnthropicSpeech().error(fault).body])

    def ping(self) -> bytes:
        return _joined([{"type": "ping"}])


def _joined(events: list[dict[str, Any]]) -> bytes:
    return b"".join([event(encode_value(one), one["type"]) for one in events])
