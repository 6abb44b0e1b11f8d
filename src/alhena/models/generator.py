"""The seam between the loop and whoever answers. Nothing above `models/` knows HTTP."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, GenerateContentResponse


class ContentGenerator(Protocol):
    """Answers requests; methods raise `models.errors.ModelError` or `wire.errors.WireError`."""

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        """The whole answer in one piece."""
        ...

    def stream(self, request: GenerateContentRequest) -> AsyncIterator[GenerateContentResponse]:
        """The answer chunk by chunk. Closing the iterator (or cancelling) closes the connection."""
        ...

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        """The number of tokens the contents take in this model's prompt."""
        ...

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        """One vector per content."""
        ...

    async def aclose(self) -> None:
        """Releases connections and files; the generator is not used after it."""
        ...
