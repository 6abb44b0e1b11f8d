"""Gemini's own bodies in all spellings, as a dialect."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from alhena.wire.conformance.body import camel
from alhena.wire.content import SIGNATURE_SENTINEL, Content, Wire
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.fields import (
    RESPONSES,
    DialectError,
    Fields,
    describe_value,
    seal_signature,
    unseal_signature,
)
from alhena.wire.dialects.results import sole_text
from alhena.wire.encode import ContentToEmbed, EmbedSettings, EncodedContent, encode_request
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from alhena.wire.response import GenerateContentResponse

_OPAQUE = frozenset(
    {
        *("args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "enum"),
        *("partMetadata", "default", "example", "required", "propertyOrdering"),
    }
)
"""Fields with foreign content, keys included."""
_NAMED = frozenset({"properties", "defs", "$defs"})
"""Objects with foreign keys but our own values."""
_NO_BYTES = frozenset({SIGNATURE_SENTINEL, "context_engineering_is_the_way_to_go"})
_STANDARD = str.maketrans("-_", "+/")
_LETTERS = re.compile(r"[A-Za-z0-9+/]+")


def normalise_body(body: object) -> Any:
    """Normalises a body to camelCase keys and standard base64."""
    if (items := as_array(body)) is not None:
        return [normalise_body(item) for item in items]
    fields = as_object(body)
    if fields is None:
        return body
    read: dict[str, Any] = {}
    for key, value in fields.items():
        name = camel(key) if "_" in key[1:] else key
        # Keep both spellings of a key if both are present, so that neither is silently lost.
        name = key if name != key and name in fields else name
        read[name] = _value(name, value)
    return read


def _value(name: str, value: Any) -> Any:
    if name in _OPAQUE:
        return value
    if name in _NAMED and (fields := as_object(value)) is not None:
        return {key: normalise_body(item) for key, item in fields.items()}
    if isinstance(value, str) and name in {"data", "thoughtSignature"}:
        is_plain = value in _NO_BYTES or value.startswith(RESPONSES)
        return value if is_plain else _standard(value)
    return normalise_body(value)


def _standard(text: str) -> str:
    """Converts URL-safe base64 to the standard alphabet with padding; other text is unchanged."""
    made = text.translate(_STANDARD) if "-" in text or "_" in text else text
    missing = -len(made) % 4
    return f"{made}{'=' * missing}" if missing in (1, 2) and _LETTERS.fullmatch(made) else made


_ELSEWHERE = frozenset({"model"})
"""Fields of a body that repeat the URL."""


class _Contents(Wire, frozen=True, kw_only=True):
    contents: tuple[Content, ...] = ()


def read_request(body: object, model: str, *, stream: bool = False) -> DialectRequest:
    """Reads a body; the model is in the URL. countTokens may wrap it in `generateContentRequest`.

    Keys may be in snake_case, and bytes in URL-safe base64. Raises DialectError, also for a field
    that would be lost.
    """
    fields = Fields(body)
    wrapped = fields.object("generateContentRequest")
    plain = body if wrapped is None else fields.plain("generateContentRequest")
    with _raising_place():
        plain = normalise_body(plain)
        contents = msgspec.convert(plain, _Contents, strict=False)
        config = msgspec.convert(plain, GenerateContentConfig, strict=False)
    _refuse_lost(plain, msgspec.to_builtins(contents) | msgspec.to_builtins(config), "")
    opened = tuple(_with_signatures(content, unseal_signature) for content in contents.contents)
    return DialectRequest(model=model, contents=opened, config=config, stream=stream)


class _ToEmbed(EmbedSettings, frozen=True, kw_only=True):
    content: Content


class _AllToEmbed(Wire, frozen=True, kw_only=True):
    requests: tuple[_ToEmbed, ...]


def read_embeddings(body: object, *, batch: bool) -> tuple[ContentToEmbed, ...]:
    """Reads the body of embedContent, or of batchEmbedContents. Raises DialectError."""
    Fields(body)
    with _raising_place():
        plain = normalise_body(body)
        read = msgspec.convert(plain, _AllToEmbed if batch else _ToEmbed, strict=False)
    _refuse_lost(plain, msgspec.to_builtins(read), "")
    ones = read.requests if isinstance(read, _AllToEmbed) else (read,)
    if not ones:
        raise DialectError("must not be empty.", "requests")
    return tuple(
        ContentToEmbed(
            one.content,
            EmbedSettings(
                task_type=one.task_type,
                title=one.title,
                output_dimensionality=one.output_dimensionality,
            ),
        )
        for one in ones
    )


@contextmanager
def _raising_place() -> Generator[None]:
    """Converts the errors of reading a body to DialectError."""
    try:
        yield
    except msgspec.ValidationError as error:
        raise _invalid(error) from error
    except RecursionError as error:
        raise DialectError("the body is nested too deeply.") from error
    except UnicodeEncodeError as error:
        raise DialectError(
            "a string in it contains half of a character (a lone surrogate)."
        ) from error


def write_request(request: DialectRequest) -> dict[str, Any]:
    """Builds the body of a request."""
    sent = GenerateContentRequest(
        model=request.model,
        contents=tuple(map(EncodedContent, request.contents)),
        config=request.config,
    )
    return msgspec.json.decode(encode_request(sent))


def write_response(response: GenerateContentResponse) -> GenerateContentResponse:
    """An answer, or one chunk, in the form for clients: with signatures in base64."""
    if sole_text(response) or not any(part.thought_signature for part in response.parts):
        return response
    candidates = tuple(
        msgspec.structs.replace(
            each, content=each.content and _with_signatures(each.content, seal_signature)
        )
        for each in response.candidates
    )
    return msgspec.structs.replace(response, candidates=candidates)


def _with_signatures(content: Content, change: Callable[[str], str]) -> Content:
    """The content with converted signatures; the same object if unchanged."""
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
    """Raises for a field of `given` that was lost in reading. Omitted empty values (null, false, an
    empty array) do not count, but an empty object does: it may be a tool."""
    waiting: list[tuple[object, object, str]] = [(given, read, path)]
    while waiting:
        given, read, path = waiting.pop()
        fields, kept = as_object(given), as_object(read)
        if fields is not None and kept is not None:
            for key, value in fields.items():
                place = f"{path}.{key}" if path else key
                if key in kept:
                    waiting.append((value, kept[key], place))
                elif (value or as_object(value) is not None) and key not in _ELSEWHERE:
                    known = "is not a field that can be sent on"
                    raise DialectError(f"{known}; its value is {describe_value(value)}.", place)
            continue
        pairs = zip(as_array(given) or (), as_array(read) or (), strict=False)
        waiting += [(one, other, f"{path}[{at}]") for at, (one, other) in enumerate(pairs)]
