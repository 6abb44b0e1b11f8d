"""An own model, an OpenAI-compatible server and Anthropic: the first that answers."""

from typing import Any

from openai import AsyncOpenAI
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from scripted import scripted

from pydantic_ai import Agent, ModelAPIError, ModelResponse, ModelSettings

NOWHERE = "http://127.0.0.1:9/v1"
SETTINGS = ModelSettings(temperature=0.2, max_tokens=500)


class Own(TestModel):
    """A model of this program, which is not there today."""

    async def request(self, *args: Any, **kwargs: Any) -> ModelResponse:
        raise ModelAPIError("own", "out of order")


client = AsyncOpenAI(base_url=NOWHERE, api_key="none", max_retries=0)
local = OpenAIChatModel("qwen3", provider=OpenAIProvider(openai_client=client), settings=SETTINGS)
provider = AnthropicProvider(api_key="key", base_url=NOWHERE)
claude = AnthropicModel("claude-haiku-4-5", provider=provider)
model = FallbackModel(Own(), local, claude, scripted("Here I am."))
response = Agent(model).run_sync("Is anybody there?").response
for attempt in response.failed_attempts or []:
    print(attempt.model_name, "->", response.model_name)
