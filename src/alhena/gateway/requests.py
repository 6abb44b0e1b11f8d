"""The requests that ask the model, read from their bodies and addresses."""

from collections.abc import Callable
from typing import Any

import msgspec
from starlette.requests import Request

from alhena.gateway.faults import FaultKind, refused
from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import DialectError
from alhena.wire.plain import as_array, as_object

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
