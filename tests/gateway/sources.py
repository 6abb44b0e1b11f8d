"""Generators that a test holds and lets go."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from alhena.wire.content import MODEL, Content, Part, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import Candidate, EmbedContentResponse, GenerateContentResponse


def said(words: str, finish: str | None = None) -> GenerateContentResponse:
    content = Content(role=MODEL, parts=(Part(text=words),)) if words else text_content(MODEL)
    return GenerateContentResponse(candidates=(Candidate(content=content, finish_reason=finish),))


class HeldGenerator:
    """Streams `chunks` texts of `size` characters, then waits for `go` and ends. `asked` is set when
    a request is there, `closed` when it has ended in whatever way; `given` counts chunks."""

    def __init__(self, chunks: int = 1, size: int = 4) -> None:
        self.chunks = chunks
        self.size = size
        self.given = 0
        self.running = 0
        self.asked = asyncio.Event()
        self.closed = asyncio.Event()
        self.go = asyncio.Event()

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        self.asked.set()
        self.running += 1
        try:
            for _ in range(self.chunks):
                self.given += 1
                yield said("x" * self.size)
                await asyncio.sleep(0)
            await self.go.wait()
            yield said("", "STOP")
        finally:
            self.running -= 1
            self.closed.set()

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        self.asked.set()
        self.running += 1
        try:
            await self.go.wait()
            return said("whole", "STOP")
        finally:
            self.running -= 1
            self.closed.set()

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        return 1

    async def embed(self, contents: Sequence[EncodedContent], *, model: str) -> Any:
        return EmbedContentResponse()

    async def aclose(self) -> None:
        pass
