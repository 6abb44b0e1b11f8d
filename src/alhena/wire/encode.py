"""Request bodies for the Gemini API, joined from encoded contents."""

import math
from collections.abc import Iterator, Sequence

import msgspec

from alhena.wire.content import Wire
from alhena.wire.encoded import EncodedContent, encode_value, mend, needs_mending
from alhena.wire.errors import EncodeError
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest, GenerationConfig

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


class _Contents(Wire, frozen=True, kw_only=True):
    contents: tuple[msgspec.Raw, ...]


class _EmbedOne(Wire, frozen=True, kw_only=True):
    model: str
    content: msgspec.Raw


class _EmbedAll(Wire, frozen=True, kw_only=True):
    requests: tuple[_EmbedOne, ...]


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
    try:
        rest = encode_value(config)
    except UnicodeEncodeError:
        rest = encode_value(mend(config))
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
    return encode_value(_Contents(contents=tuple(content.raw for content in contents)))


def encode_embed(contents: Sequence[EncodedContent], model: str) -> bytes:
    """The body of batchEmbedContents, one request per content; each repeats the model."""
    name = resource_name(model)
    return encode_value(
        _EmbedAll(requests=tuple(_EmbedOne(model=name, content=one.raw) for one in contents))
    )


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
