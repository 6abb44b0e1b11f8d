"""Request bodies for the Gemini API, joined from encoded contents, and for Code Assist in an
envelope (WIRE-05); answers decoded to typed values.

Unknown keys are ignored. null means an absent field and a number may be a string, as in every JSON
form of a protocol buffer. Invalid values raise DecodeError and are never half-read.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from alhena.wire.content import (
    Content,
    EncodedContent,
    Wire,
    encode_value,
    mend,
    needs_mending,
)
from alhena.wire.errors import ApiStatus, DecodeError, EncodeError
from alhena.wire.json_values import as_array, as_object, decode_json, excerpt, scrub, scrub_json
from alhena.wire.request import (
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ServiceTier,
    merge_extra,
)
from alhena.wire.response import (
    CountTokensResponse,
    EmbedContentResponse,
    Embedding,
    GenerateContentResponse,
)

__all__ = [
    "EncodedContent",
    "RequestBody",
    "encode_count_tokens",
    "encode_embed",
    "encode_request",
    "request_body",
    "resource_name",
]


PIECE = 96 * 1024
"""Bytes above which a body is sent in pieces: large enough for few of them, and small enough that
each reuses the memory of the previous one."""


class _OfSession(GenerateContentConfig, frozen=True, kw_only=True):
    """Fields of Code Assist beside contents."""

    session_id: str = msgspec.field(name="session_id")


class _EncodedContents(Wire, frozen=True, kw_only=True):
    contents: tuple[msgspec.Raw, ...]


class EmbedSettings(Wire, frozen=True, kw_only=True):
    """Settings of one content's vector: its use (`RETRIEVAL_QUERY` …), the title of a document, and
    the number of dimensions."""

    task_type: str | None = None
    title: str | None = None
    output_dimensionality: int | None = None


class ContentToEmbed(EncodedContent):
    """A content with settings for its vector."""

    __slots__ = ("settings",)

    def __init__(self, content: Content, settings: EmbedSettings) -> None:
        super().__init__(content)
        self.settings = settings


def _embed_settings(content: EncodedContent) -> dict[str, Any]:
    settings = content.settings if isinstance(content, ContentToEmbed) else EmbedSettings()
    return msgspec.structs.asdict(settings)


class _EmbedOne(EmbedSettings, frozen=True, kw_only=True):
    model: str
    content: msgspec.Raw


class _EmbedAll(Wire, frozen=True, kw_only=True):
    requests: tuple[_EmbedOne, ...]


class _Rest(Wire, frozen=True, kw_only=True):
    """The field that asks for the rest of an answer."""

    continuation_token: str


class RequestBody:
    """The JSON of a request, joined piece by piece while it is sent: a long history then uses its
    memory once. It can be iterated repeatedly, for retries."""

    __slots__ = ("_contents", "_head", "_size", "_tail")

    def __init__(self, head: bytes, contents: Sequence[EncodedContent], tail: bytes) -> None:
        self._head = head
        self._contents = contents
        self._tail = tail
        commas = max(len(contents) - 1, 0)
        self._size = len(head) + sum([each.size for each in contents]) + commas + len(tail)

    def __len__(self) -> int:
        """The number of bytes."""
        return self._size

    def __iter__(self) -> Iterator[bytes]:
        """Yields the bytes, some contents at a time."""
        pieces, size = [self._head], len(self._head)
        comma = b""
        for content in self._contents:
            pieces += (comma, content.raw)
            comma = b","
            size += content.size
            if size >= PIECE:
                yield b"".join(pieces)
                pieces, size = [], 0
        pieces.append(self._tail)
        yield b"".join(pieces)

    def __bytes__(self) -> bytes:
        return b"".join(self)


def request_body(
    request: GenerateContentRequest, *, within: tuple[bytes, bytes] = (b"", b""), session: str = ""
) -> RequestBody:
    """The body of generateContent and streamGenerateContent, without None values. It is enclosed by
    the two parts of `within`, and names `session` unless that is "".

    Lone surrogates in the config become U+FFFD. Raises EncodeError for a generation setting that is
    not a finite number and for values without a JSON form.
    """
    config = request.config
    if config.generation_config is not None:
        _require_finite(config.generation_config)
    if session:
        config = _OfSession(**msgspec.structs.asdict(config), session_id=session)
    extra = config.extra
    if extra:
        config = msgspec.structs.replace(config, extra=None)
    try:
        rest = encode_value(config)
    except UnicodeEncodeError:
        rest = encode_value(mend(config))
    if extra:
        rest = encode_value(merge_extra(msgspec.json.decode(rest), extra))
    if request.continuation_token:
        token = encode_value(_Rest(continuation_token=scrub(request.continuation_token)))
        rest = token if rest == b"{}" else b"".join((rest[:-1], b",", token[1:]))
    before, after = within
    joint = b"]" if rest == b"{}" else b"],"
    return RequestBody(
        b"".join((before, b'{"contents":[')), request.contents, b"".join((joint, rest[1:], after))
    )


def encode_request(request: GenerateContentRequest) -> bytes:
    """The bytes of `request_body`; raises the same errors."""
    return bytes(request_body(request))


def encode_count_tokens(contents: Sequence[EncodedContent]) -> bytes:
    """The body of countTokens. The model is in the URL."""
    return encode_value(_EncodedContents(contents=tuple(content.raw for content in contents)))


def encode_embed(contents: Sequence[EncodedContent], model: str) -> bytes:
    """The body of batchEmbedContents, one request per content; each repeats the model."""
    name = resource_name(model)
    ones = [_EmbedOne(model=name, content=one.raw, **_embed_settings(one)) for one in contents]
    return encode_value(_EmbedAll(requests=tuple(ones)))


def resource_name(model: str) -> str:
    """The API's name of a model: "models/…", unless the name includes its collection."""
    return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"


def _require_finite(settings: GenerationConfig) -> None:
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise EncodeError(f"the generation setting {name} is {value}, not a finite number.")
        if isinstance(value, dict) and needs_mending(value):
            raise EncodeError(f"the generation setting {name} has a number that is not finite.")


T = TypeVar("T")

_MAX_NESTING = 4
_LONGEST_LIST = 400
"""Characters of a list of faults that are kept."""
_OPAQUE_KEYS = frozenset({"args", "response", "partialArgs", "partMetadata"})
"""Fields with a tool's own values, in which null is kept."""


class _Envelope(Wire, frozen=True, kw_only=True):
    """The envelope of Code Assist's answers (reference: `{response, traceId}`)."""

    response: GenerateContentResponse | None = None
    trace_id: str | None = None


class _Embeddings(Wire, frozen=True, kw_only=True):
    """embedContent returns one `embedding`, batchEmbedContents `embeddings`."""

    embedding: Embedding | None = None
    embeddings: tuple[Embedding, ...] | None = None


@cache
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Built for the first answer, because it takes too long at start-up."""
    return msgspec.json.Decoder(kind)


def decode_response(payload: bytes) -> GenerateContentResponse:
    """Decodes a whole answer or one streamed chunk.

    Raises DecodeError, also for an API error object, which `decode_error` reads.
    """
    _refuse_error(payload)
    return _decode(payload, GenerateContentResponse)


def decode_enveloped(payload: bytes) -> GenerateContentResponse:
    """Decodes `{"response": {…}, "traceId": …}` (WIRE-06).

    The trace id becomes the response id; without `response` the answer is empty.
    """
    _refuse_error(payload)
    envelope = _decode(payload, _Envelope)
    response = envelope.response or GenerateContentResponse()
    if envelope.trace_id is None:
        return response
    return msgspec.structs.replace(response, response_id=envelope.trace_id)


def decode_count_tokens(payload: bytes) -> CountTokensResponse:
    """Decodes the answer of countTokens; a missing `totalTokens` is 0."""
    _refuse_error(payload)
    return _decode(payload, CountTokensResponse)


def decode_embed(payload: bytes) -> EmbedContentResponse:
    """Decodes the answer of embedContent or batchEmbedContents."""
    _refuse_error(payload)
    answer = _decode(payload, _Embeddings)
    if answer.embeddings is not None:
        return EmbedContentResponse(embeddings=answer.embeddings)
    if answer.embedding is not None:
        return EmbedContentResponse(embeddings=(answer.embedding,))
    raise DecodeError(f'the answer contains no embedding: "{excerpt(payload)}".')


def decode_error(body: bytes) -> ApiStatus | None:
    """The API error in a body, None without one.

    Accepts `{"error": {code, message, status, details}}`, an array with one, `{"error": "text",
    "error_description": "text"}`, `{"object": "error", code, message}`, the events `error` and
    `response.failed` of the Responses API, and a complete error object as JSON inside the message
    of another, as from gateways: the innermost counts.
    """
    return _find_status(_parse(body))


def _decode(payload: bytes, kind: type[T]) -> T:
    try:
        return _decoder(kind).decode(payload)
    except msgspec.ValidationError as error:
        return _decode_leniently(payload, kind, error)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (clean := scrub_json(payload)) != payload:
            return _decode(clean, kind)
        raise _decode_error(payload, error) from error
    except RecursionError as error:
        raise _decode_error(payload, error) from error


def _decode_leniently(payload: bytes, kind: type[T], refusal: msgspec.ValidationError) -> T:
    try:
        plain = _without_nulls(decode_json(payload), frozenset())
        return msgspec.convert(plain, kind, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _decode_error(payload, refusal) from error


def _without_nulls(value: object, opaque: frozenset[str] = _OPAQUE_KEYS) -> Any:
    """`value` without null fields, except below the `opaque` keys. These do not apply at the top
    level, where `response` is Code Assist's."""
    if (array := as_array(value)) is not None:
        return [_without_nulls(item) for item in array]
    if (fields := as_object(value)) is not None:
        present = {key: item for key, item in fields.items() if item is not None}
        for key in present.keys() - opaque:
            present[key] = _without_nulls(present[key])
        return present
    return value


def _decode_error(payload: bytes, error: Exception) -> DecodeError:
    if isinstance(error, RecursionError):
        reason = "it is nested too deeply"
    elif isinstance(error, UnicodeDecodeError):
        reason = "a string in it is no UTF-8"
    else:
        reason = str(error)
    return DecodeError(f'the answer cannot be read: {reason}, in "{excerpt(payload)}".')


def _refuse_error(payload: bytes) -> None:
    """Raises for an error object, which must not pass for an empty answer."""
    if b'"error"' not in payload:
        return
    status = decode_error(payload)
    if status is not None:
        code = f" {status.code}" if status.code else ""
        raise DecodeError(f'the answer is an error{code}: "{excerpt(status.message)}".')


def _parse(text: bytes | str) -> Any:
    try:
        return decode_json(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _find_status(value: object, depth: int = 0) -> ApiStatus | None:
    for item in as_array(value) or ():
        status = _find_status(as_object(item), depth)
        if status is not None:
            return status
    holder = as_object(value) or {}
    error = holder.get("error")
    if (fields := as_object(error)) is not None:
        return _status(fields, depth)
    if not isinstance(error, str) or not error:
        if holder.get("type") == "response.failed":
            return _find_status(holder.get("response"), depth)
        is_error = "error" in (holder.get("object"), holder.get("type"))
        return _status(holder, depth) if is_error else None
    described = holder.get("error_description") or holder.get("message")
    message = f"{error}: {described}" if isinstance(described, str) else error
    return _inner_status(message, depth) or ApiStatus(message=message)


def _status(error: dict[str, Any], depth: int) -> ApiStatus:
    message = _message(error.get("message"))
    details = map(as_object, as_array(error.get("details")) or ())
    outer = ApiStatus(
        code=_code(error.get("code")),
        message=message,
        status=_text(error.get("status")),
        details=tuple(detail for detail in details if detail is not None),
        words=_words(error),
    )
    inner = _inner_status(message, depth)
    if inner is None:
        return outer
    return ApiStatus(
        code=inner.code or outer.code,
        message=inner.message or outer.message,
        status=inner.status or outer.status,
        details=inner.details or outer.details,
        words=inner.words or outer.words,
    )


def _inner_status(message: str, depth: int) -> ApiStatus | None:
    start, end = message.find("{"), message.rfind("}")
    if depth >= _MAX_NESTING or start < 0 or '"error"' not in message:
        return None
    return _find_status(_parse(message[start : end + 1]), depth + 1)


def _words(error: dict[str, Any]) -> tuple[str, ...]:
    said = (error.get("code"), error.get("type"))
    words = (one for one in said if isinstance(one, str) and one and not one.isdigit())
    return tuple(dict.fromkeys(words))


def _message(value: Any) -> str:
    """The message of an error; the beginning of its JSON for one that lists faults, as Mistral's
    do."""
    if not as_object(value) and not as_array(value):
        return _text(value)
    from json import dumps

    try:
        return excerpt(dumps(value, ensure_ascii=False), _LONGEST_LIST)
    except RecursionError:
        return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _code(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 6:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


class _CodeAssist(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields before the request, in the order of the keys."""

    model: str
    project: str = ""
    user_prompt_id: str = ""


class _Counted(msgspec.Struct, frozen=True, kw_only=True):
    model: str


class _CountEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    request: msgspec.Raw


def enveloped_body(request: GenerateContentRequest, project: str) -> RequestBody:
    """The body of Code Assist's generateContent and streamGenerateContent.

    Empty values are omitted: `project`, and the request's prompt and session. Raises EncodeError,
    like `request_body`, and for a service tier: there is only the standard one.
    """
    tier = request.config.service_tier
    if tier not in (None, ServiceTier.STANDARD):
        raise EncodeError(f'Code Assist has no service tier "{tier}".')
    if tier is not None:
        config = msgspec.structs.replace(request.config, service_tier=None)
        request = msgspec.structs.replace(request, config=config)
    envelope = encode_value(
        _CodeAssist(
            model=scrub(request.model),
            project=scrub(project),
            user_prompt_id=scrub(request.prompt_id),
        )
    )
    before = b"".join((envelope[:-1], b',"request":'))
    return request_body(request, within=(before, b"}"), session=scrub(request.session_id))


def enveloped_count_tokens(contents: Sequence[EncodedContent], model: str) -> bytes:
    """The body of its countTokens: `{"request": {"model": "models/…", "contents": […]}}`."""
    named = encode_value(_Counted(model=scrub(resource_name(model))))
    inner = encode_count_tokens(contents)
    return encode_value(_CountEnvelope(request=msgspec.Raw(named[:-1] + b"," + inner[1:])))


class _One(EmbedSettings, frozen=True, kw_only=True):
    content: msgspec.Raw


class _Many(Wire, frozen=True, kw_only=True):
    requests: tuple[_One, ...]


def encode_embed_contents(contents: Sequence[EncodedContent]) -> bytes:
    """The body of embedContent for one content, of batchEmbedContents otherwise. The model is in
    the URL."""
    ones = tuple(_One(content=one.raw, **_embed_settings(one)) for one in contents)
    return encode_value(ones[0] if len(ones) == 1 else _Many(requests=ones))
