"""A model that plays a script in this process and records what it was asked."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import EmbedContentResponse, Embedding, GenerateContentResponse

Script = Sequence[dict[str, Any] | Exception]


class ScriptedGenerator:
    """Each turn is a list of chunks in wire form (see support.server.chunk), or an exception to
    raise at that point. `requests` holds every request; `seen(i)` its contents in wire form, `embedded` the
    models and contents of vectors."""

    def __init__(self, *turns: Script) -> None:
        self.turns = list(turns)
        self.requests: list[GenerateContentRequest] = []
        self.embedded: list[tuple[str, Sequence[EncodedContent]]] = []
        self.closed_early = 0

    def seen(self, index: int) -> list[Any]:
        return [msgspec.json.decode(bytes(c.raw)) for c in self.requests[index].contents]

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        self.requests.append(request)
        for item in self.turns.pop(0):
            if isinstance(item, Exception):
                raise item
            return msgspec.convert(item, GenerateContentResponse)
        raise AssertionError("an empty turn answers nothing")

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        self.requests.append(request)
        finished = False
        try:
            for item in self.turns.pop(0):
                if isinstance(item, Exception):
                    raise item
                yield msgspec.convert(item, GenerateContentResponse)
            finished = True
        finally:
            self.closed_early += not finished

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        return sum(len(content) for content in contents) // 4

    async def embed(
        self, contents: Sequence[EncodedContent], *, model: str
    ) -> EmbedContentResponse:
        self.embedded.append((model, contents))
        vector = Embedding(values=(0.5, -0.25))
        return EmbedContentResponse(embeddings=tuple(vector for _ in contents))

    async def aclose(self) -> None:
        pass
