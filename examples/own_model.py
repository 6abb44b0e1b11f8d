"""A model of your own: a class with the methods of `Model`."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from alhena import Agent, Content, Part, models


class Echo:
    """Repeats the last text it is sent."""

    name = "echo"

    async def generate(
        self, request: models.GenerateContentRequest
    ) -> models.GenerateContentResponse:
        last = request.contents[-1].content.parts[0].text
        answer = Content(role="model", parts=(Part(text=f"You said: {last}"),))
        candidate = models.Candidate(content=answer, finish_reason="STOP")
        return models.GenerateContentResponse(candidates=(candidate,))

    async def stream(
        self, request: models.GenerateContentRequest
    ) -> AsyncIterator[models.GenerateContentResponse]:
        yield await self.generate(request)

    async def count_tokens(self, contents: Sequence[Any], *, model: str) -> int:
        return len(model) + sum(map(len, contents)) // 4

    async def embed(self, contents: Sequence[Any], *, model: str) -> models.EmbedContentResponse:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


print(Agent(Echo(), isolated=True, builtin_tools=()).ask_sync("Hello"))
