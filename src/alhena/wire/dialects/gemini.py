"""Gemini's own bodies: requests of generateContent, streamGenerateContent and countTokens, read,
and answers, written."""

from collections.abc import Callable
from typing import Any

import msgspec

from alhena.wire.content import Content, Wire
from alhena.wire.dialects.anthropic.signatures import sealed, unsealed
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.spelling import plainly_spelt
from alhena.wire.dialects.words import sole_text
from alhena.wire.encode import EncodedContent, encode_request
from alhena.wire.plain import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse

_ELSEWHERE = frozenset({"model"})
"""Fields of a body that say what the URL says."""


class _Contents(Wire, frozen=True, kw_only=True):
    contents: tuple[Content, ...] = ()


def read_request(body: object, model: str, *, stream: bool = False) -> DialectRequest:
    """A body, whose model stands in the URL. countTokens may wrap it in `generateContentRequest`.

    Names may be in snake_case, and bytes in the URL-safe alphabet. Raises DialectError, also for a
    field that would be lost on the way.
    """
    fields = Fields(body)
    wrapped = fields.object("generateContentRequest")
    plain = body if wrapped is None else fields.plain("generateContentRequest")
    try:
        plain = plainly_spelt(plain)
        contents = msgspec.convert(plain, _Contents, strict=False)
        config = msgspec.convert(plain, GenerateContentConfig, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    except RecursionError as error:
        raise DialectError("the body is nested too deeply.") from error
    except UnicodeEncodeError as error:
        raise DialectError(
            "a string in it holds half of a character (a lone surrogate)."
        ) from error
    _refuse_lost(plain, msgspec.to_builtins(contents) | msgspec.to_builtins(config), "")
    opened = tuple(_with_signatures(content, unsealed) for content in contents.contents)
    return DialectRequest(model=model, contents=opened, config=config, stream=stream)


def write_request(request: DialectRequest) -> dict[str, Any]:
    """The body of a request."""
    sent = GenerateContentRequest(
        model=request.model,
        contents=tuple(map(EncodedContent, request.contents)),
        config=request.config,
    )
    return msgspec.json.decode(encode_request(sent))


def write_response(response: GenerateContentResponse) -> GenerateContentResponse:
    """An answer, or one chunk of it, as clients can read it: with signatures in base64."""
    if sole_text(response) or not any(part.thought_signature for part in response.parts):
        return response
    candidates = tuple(
        msgspec.structs.replace(
            each, content=each.content and _with_signatures(each.content, sealed)
        )
        for each in response.candidates
    )
    return msgspec.structs.replace(response, candidates=candidates)


def _with_signatures(content: Content, change: Callable[[str], str]) -> Content:
    """The content with its signatures changed; the same object where none is."""
    if not any(part.thought_signature for part in content.parts):
        return content
    parts = tuple(
        msgspec.structs.replace(part, thought_signature=change(part.thought_signature))
        if part.thought_signature
        else part
        for part in content.parts
    )
    return content if parts == content.parts else Content(role=content.role, parts=parts)


def _invalid(error: msgspec.ValidationError) -> DialectError:
    message, _, place = str(error).partition(" - at `$.")
    return DialectError(f"{message}.", place.removesuffix("`"))


def _refuse_lost(given: object, read: object, path: str) -> None:
    """Raises for a field of `given` that is not in what was read of it. What is left out because
    it says nothing (null, false, an empty array) is not lost."""
    waiting: list[tuple[object, object, str]] = [(given, read, path)]
    while waiting:
        given, read, path = waiting.pop()
        fields, kept = as_object(given), as_object(read)
        if fields is not None and kept is not None:
            for key, value in fields.items():
                place = f"{path}.{key}" if path else key
                if key in kept:
                    waiting.append((value, kept[key], place))
                elif value and key not in _ELSEWHERE:
                    raise DialectError("is not a field that can be sent on.", place)
            continue
        pairs = zip(as_array(given) or (), as_array(read) or (), strict=False)
        waiting += [(one, other, f"{path}[{at}]") for at, (one, other) in enumerate(pairs)]
