"""Bodies of Code Assist, a request in an envelope (WIRE-05), and of Vertex's embeddings."""

from collections.abc import Sequence

import msgspec

from alhena.wire.content import Content, EncodedContent, Part, Wire, encode_value
from alhena.wire.encode import RequestBody, encode_count_tokens, request_body, resource_name
from alhena.wire.errors import DecodeError
from alhena.wire.json_values import excerpt, scrub
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, Embedding


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    like `request_body`.
    """
    plain = msgspec.structs.replace(
        request, contents=tuple(map(_without_thoughts, request.contents))
    )
    envelope = encode_value(
        _Envelope(
            model=scrub(request.model),
            project=scrub(project),
            user_prompt_id=scrub(request.prompt_id),
        )
    )
    before = b"".join((envelope[:-1], b',"request":'))
    return request_body(plain, within=(before, b"}"), session=scrub(request.session_id))


def enveloped_count_tokens(contents: Sequence[EncodedContent], model: str) -> bytes:
    """The body of its countTokens: `{"request": {"model": "models/…", "contents": […]}}`."""
    named = encode_value(_Counted(model=scrub(resource_name(model))))
    inner = encode_count_tokens(tuple(map(_without_thoughts, contents)))
    return encode_value(_CountEnvelope(request=msgspec.Raw(named[:-1] + b"," + inner[1:])))


def _without_thoughts(content: EncodedContent) -> EncodedContent:
    """A content for Code Assist, which has no field `thought`: a call or a file keeps its part
    without the mark, a thought in words is dropped. If a content has nothing else, a text that
    explains this remains."""
    parts = content.content.parts
    if not any(part.thought for part in parts):
        return content
    kept = tuple(_unmarked(part) for part in parts if not part.thought or _holds_more(part))
    spoken = kept or tuple(_spoken(part) for part in parts)
    return EncodedContent(Content(role=content.content.role, parts=spoken))


def _holds_more(part: Part) -> bool:
    """True when a thought part is not text."""
    return part.text is None


def _unmarked(part: Part) -> Part:
    return msgspec.structs.replace(part, thought=None)


def _spoken(part: Part) -> Part:
    return Part(
        text=f"{part.text or ''}\n[Thought: true]", thought_signature=part.thought_signature
    )


class _Instance(Wire, frozen=True, kw_only=True):
    content: str


class _Instances(Wire, frozen=True, kw_only=True):
    instances: tuple[_Instance, ...]


class _One(Wire, frozen=True, kw_only=True):
    content: msgspec.Raw


class _Many(Wire, frozen=True, kw_only=True):
    requests: tuple[_One, ...]


class _Prediction(Wire, frozen=True, kw_only=True):
    embeddings: Embedding


class _Predictions(Wire, frozen=True, kw_only=True):
    predictions: tuple[_Prediction, ...]


def encode_predict(contents: Sequence[EncodedContent]) -> bytes:
    """The body of predict: only the text of each content."""
    texts = ("".join(part.text or "" for part in one.content.parts) for one in contents)
    return encode_value(_Instances(instances=tuple(_Instance(content=text) for text in texts)))


def encode_embed_contents(contents: Sequence[EncodedContent]) -> bytes:
    """The body of embedContent for one content, of batchEmbedContents otherwise. The model is in
    the URL."""
    ones = tuple(_One(content=one.raw) for one in contents)
    return encode_value(ones[0] if len(ones) == 1 else _Many(requests=ones))


def decode_predictions(payload: bytes) -> EmbedContentResponse:
    """The vectors of predict's answer. Raises DecodeError."""
    try:
        answer = msgspec.json.decode(payload, type=_Predictions, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f'the answer contains no predictions: "{excerpt(payload)}".') from error
    return EmbedContentResponse(embeddings=tuple(one.embeddings for one in answer.predictions))
