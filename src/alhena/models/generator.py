"""The interface between the loop and model services. Nothing above `models/` knows HTTP."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse


class ContentGenerator(Protocol):
    """Answers requests; methods raise `models.errors.ModelError` or `wire.errors.WireError`."""

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """Returns the whole answer."""
        ...

    def stream(self, request: GenerateContentRequest) -> AsyncIterator[GenerateContentResponse]:
        """Yields the answer in chunks. Closing the iterator (or cancelling) closes the
        connection."""
        ...

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """Counts the tokens of the contents for this model."""
        ...

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Returns one vector per content."""
        ...

    async def aclose(self) -> None:
        """Releases connections and files; the generator must not be used afterwards."""
        ...


class WithoutEmbeddings:
    """The missing method of a service that computes no embeddings."""

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """Always raises RequestRejectedError."""
        from alhena.models.errors import RequestRejectedError

        del contents, model
        raise RequestRejectedError(
            "this service computes no embeddings.",
            remedy="Use the Gemini API (GEMINI_API_KEY) or Vertex AI for them.",
        )
