"""Embedding bodies of Vertex: `predict` for its own embedding models, the rest as elsewhere."""

from collections.abc import Sequence

import msgspec

from alhena.wire.content import Wire
from alhena.wire.encoded import EncodedContent, encode_value
from alhena.wire.errors import DecodeError
from alhena.wire.response import EmbedContentResponse, Embedding
from alhena.wire.text import excerpt


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
    """The body of predict: the text of each content, for it takes nothing else."""
    texts = ("".join(part.text or "" for part in one.content.parts) for one in contents)
    return encode_value(_Instances(instances=tuple(_Instance(content=text) for text in texts)))


def encode_embed_contents(contents: Sequence[EncodedContent]) -> bytes:
    """The body of embedContent for one content, of batchEmbedContents for any other number. The
    model is in the URL."""
    ones = tuple(_One(content=one.raw) for one in contents)
    return encode_value(ones[0] if len(ones) == 1 else _Many(requests=ones))


def decode_predictions(payload: bytes) -> EmbedContentResponse:
    """The vectors of predict's answer. Raises DecodeError."""
    try:
        answer = msgspec.json.decode(payload, type=_Predictions, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f'the answer holds no predictions: "{excerpt(payload)}".') from error
    return EmbedContentResponse(embeddings=tuple(one.embeddings for one in answer.predictions))
