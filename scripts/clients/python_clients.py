"""One conversation with a tool through a Python package, named by the first argument; `run` starts
this with the interpreter of an environment that has the package."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

URL = os.environ["GATEWAY"]
KEY = "unused"
FLASH = "gemini-3.8-flash"
ASK = "Read one.txt and two.txt (kestrel), and say the words in them."


def read_word(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text(encoding="utf-8")


def talk_by_langchain(model: Any) -> str:
    """Streams answers and runs calls until there are none."""
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    bound = model.bind_tools([tool(read_word)])
    messages: list[Any] = [HumanMessage(ASK)]
    while True:
        answer: Any = None
        for piece in bound.stream(messages):
            answer = piece if answer is None else answer + piece
        messages.append(answer)
        if not answer.tool_calls:
            return str(answer.text)
        for call in answer.tool_calls:
            result = read_word(**call["args"])
            messages.append(ToolMessage(result, tool_call_id=call["id"], name=call["name"]))


def langchain_chat() -> str:
    from langchain_openai import ChatOpenAI

    return talk_by_langchain(ChatOpenAI(model="flash", base_url=f"{URL}/v1", api_key=KEY))


def langchain_responses() -> str:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="flash", base_url=f"{URL}/v1", api_key=KEY, use_responses_api=True)
    return talk_by_langchain(model)


def langchain_anthropic() -> str:
    from langchain_anthropic import ChatAnthropic

    return talk_by_langchain(ChatAnthropic(model="flash", base_url=URL, api_key=KEY))


def langchain_google() -> str:
    from langchain_google_genai import ChatGoogleGenerativeAI

    model = ChatGoogleGenerativeAI(model=FLASH, google_api_key=KEY, base_url=URL)
    return talk_by_langchain(model)


def talk_by_llama_index(model: Any) -> str:
    """Asks with tools and runs calls until there are none."""
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.tools import FunctionTool

    tools = [FunctionTool.from_defaults(read_word)]
    messages = [ChatMessage(role="user", content=ASK)]
    while True:
        answer = model.chat_with_tools(tools, chat_history=messages)
        messages.append(answer.message)
        calls = model.get_tool_calls_from_response(answer, error_on_no_tool_call=False)
        if not calls:
            return str(answer.message.content)
        for call in calls:
            result = read_word(**call.tool_kwargs)
            more = {"tool_call_id": call.tool_id, "name": call.tool_name}
            messages.append(ChatMessage(role="tool", content=result, additional_kwargs=more))


def llama_openai() -> str:
    from llama_index.llms.openai_like import OpenAILike

    model = OpenAILike(
        model="flash",
        api_base=f"{URL}/v1",
        api_key=KEY,
        is_chat_model=True,
        is_function_calling_model=True,
    )
    return talk_by_llama_index(model)


def llama_anthropic() -> str:
    from llama_index.llms.anthropic import Anthropic

    return talk_by_llama_index(Anthropic(model="claude-sonnet-4-5", base_url=URL, api_key=KEY))


def llama_google() -> str:
    from google.genai.types import HttpOptions
    from llama_index.llms.google_genai import GoogleGenAI

    options = HttpOptions(base_url=URL)
    model = GoogleGenAI(model=FLASH, api_key=KEY, http_options=options)
    return talk_by_llama_index(model)


def talk_by_pydantic_ai(model: Any) -> str:
    """Runs an agent, whose answers are streamed because their events are followed."""
    from pydantic_ai import Agent

    agent = Agent(model, tools=[read_word])

    async def follow(_context: Any, events: Any) -> None:
        async for _ in events:
            pass

    async def ask() -> str:
        return str((await agent.run(ASK, event_stream_handler=follow)).output)

    return asyncio.run(ask())


def pydantic_chat() -> str:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)
    return talk_by_pydantic_ai(OpenAIChatModel("flash", provider=provider))


def pydantic_responses() -> str:
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY)
    return talk_by_pydantic_ai(OpenAIResponsesModel("flash", provider=provider))


def pydantic_anthropic() -> str:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(base_url=URL, api_key=KEY)
    provider = AnthropicProvider(anthropic_client=client)
    return talk_by_pydantic_ai(AnthropicModel("flash", provider=provider))


def pydantic_google() -> str:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return talk_by_pydantic_ai(
        GoogleModel(FLASH, provider=GoogleProvider(api_key=KEY, base_url=URL))
    )


def talk_by_agents(model_type: str) -> str:
    """Runs an agent of openai-agents with a stream."""
    import agents
    from openai import AsyncOpenAI

    agents.set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY)
    model = getattr(agents, model_type)(model="flash", openai_client=client)
    agent = agents.Agent(name="reader", model=model, tools=[agents.function_tool(read_word)])

    async def ask() -> str:
        run = agents.Runner.run_streamed(agent, ASK)
        async for _ in run.stream_events():
            pass
        return str(run.final_output)

    return asyncio.run(ask())


def agents_responses() -> str:
    return talk_by_agents("OpenAIResponsesModel")


def agents_chat() -> str:
    return talk_by_agents("OpenAIChatCompletionsModel")


if __name__ == "__main__":
    talk: Callable[[], str] = globals()[sys.argv[1]]
    print(talk())
