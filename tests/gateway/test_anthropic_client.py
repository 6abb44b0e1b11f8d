"""The anthropic package, pointed at the gateway."""

from typing import Any

import anthropic
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

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
TOOLS = [{"name": "weather", "description": "Tells the weather.", "input_schema": WEATHER}]
PROMPT = {"role": "user", "content": [{"type": "text", "text": "How is the weather there?"}, IMAGE]}
RESULTS = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "call-b", "content": "no such city", "is_error": True},
        {
            "type": "tool_result",
            "tool_use_id": "call-a",
            "content": [{"type": "text", "text": "snow"}, IMAGE],
        },
    ],
}  # fmt: skip


def connected(running: Running, **options: Any) -> anthropic.AsyncAnthropic:
    options = {"base_url": running.url, "api_key": "unused", "max_retries": 0} | options
    return anthropic.AsyncAnthropic(**options)


async def answered(
    client: anthropic.AsyncAnthropic, messages: list[Any], *, stream: bool
) -> anthropic.types.Message:
    asked: dict[str, Any] = {
        "model": "claude-of-a-test",
        "max_tokens": 4000,
        "system": "Be brief.",
        "messages": messages,
        "tools": TOOLS,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
    }
    if not stream:
        return await client.messages.create(**asked)
    async with client.messages.stream(**asked) as events:
        return await events.get_final_message()


@pytest.mark.requirement("NATIVE-04", "NATIVE-05", "NATIVE-06")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_conversation_with_calls_side_by_side_goes_through_whole(stream: bool):
    last_turn = ANSWER if stream else [text("Snow in Oslo, sun in Lima.")]
    generator = ScriptedGenerator(CALLS if stream else whole(CALLS), last_turn)
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, [PROMPT], stream=stream)
        kinds = [block.type for block in first.content if block.type != "redacted_thinking"]
        assert kinds == ["thinking", "text", "tool_use", "tool_use"]
        assert first.stop_reason == "tool_use"
        assert (first.usage.input_tokens, first.usage.output_tokens) == (11, 7)
        assert first.model == "claude-of-a-test"
        history = [PROMPT, {"role": "assistant", "content": first.content}, RESULTS]
        last = await answered(client, history, stream=stream)
    assert "".join(block.text for block in last.content) == "Snow in Oslo, sun in Lima."
    assert last.stop_reason == "end_turn"
    seen = generator.seen(1)
    prompt_seen(seen)
    said = seen[1]["parts"]
    merged = [{"text": "".join(part.get("text", "") for part in said)}, *said[-2:]]
    calls_seen([seen[0], {"role": "model", "parts": merged}])
    snow, missing = result_of(seen, 0), result_of(seen, 1)
    assert (snow["id"], snow["name"], snow["response"]) == ("call-a", "weather", {"output": "snow"})
    assert snow["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
    assert (missing["id"], missing["response"]) == ("call-b", {"error": "no such city"})
    config = generator.requests[0].config
    assert config.system_instruction.parts[0].text == "Be brief."
    assert config.generation_config.thinking_config.thinking_level == "HIGH"
    assert config.tools[0].function_declarations[0].parameters_json_schema == WEATHER
    assert generator.requests[0].model == MODEL


async def test_tokens_are_counted_with_instructions_and_tools():
    generator = ScriptedGenerator()
    asked: dict[str, Any] = {"model": "claude", "messages": [{"role": "user", "content": "hi"}]}
    async with gateway(generator) as running, connected(running) as client:
        alone = await client.messages.count_tokens(**asked)
        more = await client.messages.count_tokens(**asked, system="Be brief.", tools=TOOLS)
    assert 0 < alone.input_tokens < more.input_tokens


async def test_models_are_listed_in_the_clients_own_form():
    async with gateway(ScriptedGenerator()) as running, connected(running) as client:
        listed = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("gemini-3.8-flash")
        with pytest.raises(anthropic.NotFoundError):
            await client.models.retrieve("claude-of-a-test")
    assert listed[0] == "gemini-2.5-flash"
    assert "gemini-3.8-flash" in listed
    assert one.id == "gemini-3.8-flash"


async def test_an_error_is_the_clients_own_error_type():
    generator = ScriptedGenerator()
    async with gateway(generator, key="secret-key") as running:
        async with connected(running) as client:
            with pytest.raises(anthropic.AuthenticationError) as refused:
                await answered(client, [PROMPT], stream=False)
            assert refused.value.body["error"]["type"] == "authentication_error"
        async with connected(running, api_key="secret-key") as client:
            orphan = {**RESULTS["content"][0], "tool_use_id": "nothing-like-it"}
            with pytest.raises(anthropic.BadRequestError, match="nothing-like-it"):
                await answered(client, [{"role": "user", "content": [orphan]}], stream=False)
    assert generator.requests == []


async def test_an_answer_that_breaks_off_raises_in_the_middle_of_the_stream():
    generator = ScriptedGenerator([chunk({"text": "half an "})])
    async with gateway(generator) as running, connected(running) as client:
        with pytest.raises(anthropic.APIStatusError, match="finish reason"):
            await answered(client, [PROMPT], stream=True)
