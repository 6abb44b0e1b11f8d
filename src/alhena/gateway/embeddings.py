"""Vectors of texts: requests in OpenAI's and Gemini's forms, and their answers."""

import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from alhena.wire.content import USER, text_content
from alhena.wire.dialects import gemini
from alhena.wire.dialects.fields import Fields, limit_of, unknown
from alhena.wire.encode import ContentToEmbed, EmbedSettings
from alhena.wire.response import EmbedContentResponse, Embedding

EMBEDDING_MODEL = "gemini-embedding-001"
"""The model of requests that name none of Gemini's."""
BATCH = 100
"""Maximum contents of one request to the service."""
_FORMATS = ("float", "base64")


class EmbeddingRequest(msgspec.Struct, frozen=True):
    """The contents to embed, and the function that writes the answer in the client's form."""

    model: str
    contents: tuple[ContentToEmbed, ...]
    write: Callable[[EmbedContentResponse], dict[str, Any]]


def read_openai_embeddings(body: object) -> EmbeddingRequest:
    """Reads the body of POST /v1/embeddings. Raises DialectError, also for lists of tokens, which
    only OpenAI's models understand."""
    fields = Fields(body)
    model = fields.required_text("model")
    encoding = fields.text("encoding_format") or "float"
    if encoding not in _FORMATS:
        raise unknown(fields, "encoding_format", encoding, "there are float and base64")
    settings = EmbedSettings(output_dimensionality=limit_of(fields, "dimensions"))
    contents = [ContentToEmbed(text_content(USER, text), settings) for text in _texts(fields)]

    def write(response: EmbedContentResponse) -> dict[str, Any]:
        data = [
            {"object": "embedding", "index": at, "embedding": _write_vector(each, encoding)}
            for at, each in enumerate(response.embeddings)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return {"object": "list", "data": data, "model": model, "usage": usage}

    return EmbeddingRequest(model, tuple(contents), write)


def _texts(fields: Fields) -> Sequence[str]:
    """The texts of `input`."""
    value = fields.value("input")
    if isinstance(value, str):
        return (fields.required_text("input"),)
    items = fields.array("input")
    if not items:
        raise fields.fail("input", "is missing." if items is None else "must not be empty.")
    if any(not isinstance(item, str) for item in items):
        raise fields.fail("input", "must be a text or a list of texts; tokens are not supported.")
    named = Fields({str(at): item for at, item in enumerate(items)}, fields.place("input"))
    return [named.required_text(str(at)) for at in range(len(items))]


def _write_vector(vector: Embedding, encoding: str) -> list[float] | str:
    """The numbers, or their bytes as 32-bit floats in base64."""
    if encoding == "float":
        return list(vector.values)
    return b64encode(struct.pack(f"<{len(vector.values)}f", *vector.values)).decode("ascii")


def read_google_embeddings(body: object, model: str, *, batch: bool) -> EmbeddingRequest:
    """Reads the body of embedContent, or of batchEmbedContents. Raises DialectError."""
    contents = gemini.read_embeddings(body, batch=batch)

    def write(response: EmbedContentResponse) -> dict[str, Any]:
        vectors = msgspec.to_builtins(response.embeddings)
        return {"embeddings": vectors} if batch else {"embedding": vectors[0]}

    return EmbeddingRequest(model, contents, write)
