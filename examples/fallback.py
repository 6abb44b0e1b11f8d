"""An own model, an OpenAI-compatible server and Anthropic: the first that answers."""

import asyncio
from collections.abc import AsyncIterator

from alhena import Agent, ModelSettings
from alhena.errors import ModelError
from alhena.events import ModelFallbackEvent
from alhena.models import Anthropic, Fallback, GenerateContentResponse, OpenAICompatible
from alhena.testing import TestModel

NOWHERE = "http://127.0.0.1:9/v1"
SETTINGS = ModelSettings(temperature=0.2, max_output_tokens=500)


class Own(TestModel):
    """A model of this program, which is not there today."""

    async def stream(self, request: object) -> AsyncIterator[GenerateContentResponse]:
        raise ModelError(f"out of order: {type(request).__name__} is not sent.")
        yield


async def main() -> None:
    local = OpenAICompatible("qwen3", base_url=NOWHERE, retry=None, settings=SETTINGS)
    claude = Anthropic("claude-haiku-4-5", api_key="key", base_url=NOWHERE, retry=None)
    async with Fallback(Own(), local, claude, TestModel("Here I am.")) as model:
        async for event in Agent(model, isolated=True, builtin_tools=()).run("Is anybody there?"):
            if isinstance(event, ModelFallbackEvent):
                print(event.instead_of, "->", event.model)


asyncio.run(main())
