"""The openai package, pointed at the gateway."""

import json
from typing import Any

import openai
import pytest

from tests.gateway.conversation import (
    ANSWER,
    CALLS,
    MODEL,
    PNG,
    WEATHER,
    calls_seen,
    prompt_seen,
    result_of,
    whole,
)
from tests.gateway.kit import Running, gateway
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk, text

IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}]
PROMPT = {"role": "user", "content": [{"type": "text", "text": "How is the weather there?"}, IMAGE]}
RESULTS = [
    {"role": "tool", "tool_call_id": "call-b", "content": "sun"},
    {"role": "tool", "tool_call_id": "call-a", "content": "snow"},
]


def connected(running: Running, **options: Any) -> openai.AsyncOpenAI:
    options = {"base_url": f"{running.url}/v1", "api_key": "unused", "max_retries": 0} | options
    return openai.AsyncOpenAI(**options)


async def answered(client: openai.AsyncOpenAI, messages: list[Any], *, stream: bool) -> Any:
    asked: dict[str, Any] = {
        "model": "gpt-4o",
        "messages": [{"role": "system", "content": "Be brief."}, *messages],
        "tools": TOOLS,
        "reasoning_effort": "low",
        "max_completion_tokens": 500,
    }
    if not stream:
        return await client.chat.completions.create(**asked)
    async with client.chat.completions.stream(
        **asked, stream_options={"include_usage": True}
    ) as events:
        return await events.get_final_completion()


@pytest.mark.requirement("NATIVE-06")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_conversation_with_calls_side_by_side_goes_through_whole(stream: bool):
    last_turn = ANSWER if stream else [text("Snow in Oslo, sun in Lima.")]
    generator = ScriptedGenerator(CALLS if stream else whole(CALLS), last_turn)
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, [PROMPT], stream=stream)
        message = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls"
        assert message.content == "Let me look."
        assert [json.loads(item.function.arguments) for item in message.tool_calls] == [
            {"city": "Oslo"},
            {"city": "Lima"},
        ]
        assert (first.usage.prompt_tokens, first.usage.completion_tokens) == (11, 7)
        back = message.model_dump(exclude_none=True, exclude={"parsed"})
        for item in back["tool_calls"]:
            item["function"].pop("parsed_arguments", None)
        last = await answered(client, [PROMPT, back, *RESULTS], stream=stream)
    assert last.choices[0].message.content == "Snow in Oslo, sun in Lima."
    assert last.choices[0].finish_reason == "stop"
    seen = generator.seen(1)
    prompt_seen(seen)
    calls_seen(seen)
    snow, sun = result_of(seen, 0), result_of(seen, 1)
    assert snow == {"id": "call-a", "name": "weather", "response": {"output": "snow"}}
    assert sun == {"id": "call-b", "name": "weather", "response": {"output": "sun"}}
    generation = generator.requests[0].config.generation_config
    assert generation.thinking_config.thinking_level == "LOW"
    assert generation.max_output_tokens == 500


async def test_calls_without_ids_get_ids_that_pair_with_their_results():
    parts = [{"functionCall": {"name": "weather", "args": {"city": name}}} for name in "AB"]
    generator = ScriptedGenerator([chunk(*parts, finish="STOP")], [text("done")])
    async with gateway(generator) as running, connected(running) as client:
        first = await answered(client, [PROMPT], stream=False)
        message = first.choices[0].message
        ids = [item.id for item in message.tool_calls]
        assert len(set(ids)) == 2
        results = [{"role": "tool", "tool_call_id": one, "content": one} for one in ids[::-1]]
        await answered(client, [PROMPT, message, *results], stream=False)
    entries = generator.seen(1)
    assert [result_of(entries, at)["response"]["output"] for at in (0, 1)] == ids


async def test_an_image_in_a_result_stands_beside_it_for_models_that_want_it_there():
    generator = ScriptedGenerator(whole(CALLS), [text("done")])
    async with gateway(generator) as running, connected(running) as client:
        first = await answered(client, [PROMPT], stream=False)
        results = [RESULTS[0], {**RESULTS[1], "content": [IMAGE]}]
        await answered(client, [PROMPT, first.choices[0].message, *results], stream=False)
    parts = generator.seen(1)[2]["parts"]
    assert [list(part) for part in parts] == [
        ["functionResponse"],
        ["functionResponse"],
        ["text"],
        ["inlineData"],
    ]


async def test_an_answer_that_breaks_off_raises_in_the_middle_of_the_stream():
    generator = ScriptedGenerator([chunk({"text": "half an "})])
    async with gateway(generator) as running, connected(running) as client:
        with pytest.raises(openai.APIError, match="finish reason"):
            await answered(client, [PROMPT], stream=True)


async def test_models_are_listed():
    named = {"gpt-4o": "gemini-2.5-pro"}
    async with gateway(ScriptedGenerator(), named=named) as running, connected(running) as client:
        listed = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("gpt-4o")
    assert listed[:2] == ["gemini-2.5-flash", "gpt-4o"]
    assert one.object == "model"
