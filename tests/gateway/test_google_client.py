"""The google-genai package, pointed at the gateway."""

import base64
from io import BytesIO
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from alhena.wire.encode import EmbedSettings
from tests.gateway.conversation import (
    ANSWER,
    CALLS,
    MODEL,
    PNG,
    SIGNATURE,
    calls_seen,
    prompt_seen,
    result_of,
    whole,
)
from tests.gateway.kit import Running, gateway
from tests.gateway.kit import client as http
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk, text

PROMPT = types.Content(
    role="user",
    parts=[
        types.Part(text="How is the weather there?"),
        types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png"),
    ],
)
CITY = types.Schema(
    type=types.Type.OBJECT, properties={"city": types.Schema(type=types.Type.STRING)}
)
WEATHER = types.FunctionDeclaration(name="weather", description="Tells.", parameters=CITY)
CONFIG = types.GenerateContentConfig(
    system_instruction="Be brief.",
    temperature=0.5,
    tools=[types.Tool(function_declarations=[WEATHER])],
    thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level=types.ThinkingLevel.LOW),
    safety_settings=[
        types.SafetySetting(
            category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
            threshold=types.HarmBlockThreshold.BLOCK_NONE,
        )
    ],
)  # fmt: skip


def connected(running: Running, version: str = "v1beta") -> genai.Client:
    options = types.HttpOptions(base_url=running.url, api_version=version)
    return genai.Client(api_key="unused", http_options=options)


async def answered(client: genai.Client, contents: list[Any], *, stream: bool) -> types.Content:
    asked: dict[str, Any] = {"model": MODEL, "contents": contents, "config": CONFIG}
    if not stream:
        response = await client.aio.models.generate_content(**asked)
        return response.candidates[0].content
    parts: list[types.Part] = []
    async for piece in await client.aio.models.generate_content_stream(**asked):
        parts += piece.candidates[0].content.parts or []
    return types.Content(role="model", parts=parts)


def results(content: types.Content) -> types.Content:
    parts = [
        types.Part(
            function_response=types.FunctionResponse(
                id=part.function_call.id,
                name=part.function_call.name,
                response={"output": part.function_call.args["city"]},
            )
        )
        for part in content.parts
        if part.function_call
    ]
    return types.Content(role="user", parts=parts)


@pytest.mark.requirement("GATE-04")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("version", ["v1beta", "v1", "v1alpha"])
async def test_a_conversation_with_calls_side_by_side_goes_through_whole(
    stream: bool, version: str
):
    last_turn = ANSWER if stream else [text("Snow in Oslo, sun in Lima.")]
    generator = ScriptedGenerator(CALLS if stream else whole(CALLS), last_turn)
    async with gateway(generator) as running:
        client = connected(running, version)
        first = await answered(client, [PROMPT], stream=stream)
        assert [part.thought_signature for part in first.parts if part.thought_signature] == [
            base64.b64decode(SIGNATURE)
        ]
        history = [PROMPT, first, results(first)]
        last = await answered(client, history, stream=stream)
        await client.aio.aclose()
    assert "".join(part.text for part in last.parts) == "Snow in Oslo, sun in Lima."
    seen = generator.seen(1)
    prompt_seen(seen)
    said = seen[1]["parts"]
    merged = [{"text": "".join(part.get("text", "") for part in said)}, *said[-2:]]
    calls_seen([seen[0], {"role": "model", "parts": merged}])
    oslo = result_of(seen, 0)
    assert oslo == {"id": "call-a", "name": "weather", "response": {"output": "Oslo"}}
    config = generator.requests[0].config
    assert config.generation_config.thinking_config.thinking_level == "LOW"
    assert config.safety_settings[0]["threshold"] == "BLOCK_NONE"
    assert config.generation_config.temperature == 0.5
    assert generator.requests[0].model == MODEL


@pytest.mark.requirement("GATE-04")
async def test_tokens_are_counted_and_models_listed():
    async with gateway(ScriptedGenerator()) as running:
        client = connected(running)
        counted = await client.aio.models.count_tokens(model=MODEL, contents="hello there")
        listed = [model.name async for model in await client.aio.models.list()]
        one = await client.aio.models.get(model="gemini-2.5-pro")
        await client.aio.aclose()
    assert counted.total_tokens > 0
    assert listed[0] == "models/gemini-2.5-flash"
    assert listed.count("models/gemini-embedding-001") == 1
    assert one.input_token_limit == 1_048_576


@pytest.mark.requirement("GATE-04")
async def test_vectors_are_made_with_the_clients_settings():
    generator = ScriptedGenerator()
    settings = types.EmbedContentConfig(output_dimensionality=2, task_type="RETRIEVAL_QUERY")
    body = {"content": {"parts": [{"text": "c"}]}, "task_type": "CLUSTERING"}
    async with gateway(generator) as running, http(running) as plain:
        package = connected(running)
        made = await package.aio.models.embed_content(
            model="gemini-embedding-001", contents=["a", "b"], config=settings
        )
        await package.aio.aclose()
        one = await plain.post("/v1beta/models/gemini-embedding-001:embedContent", json=body)
        lost = await plain.post(
            "/v1beta/models/gemini-embedding-001:embedContent", json=body | {"new": 1}
        )
    assert [each.values for each in made.embeddings] == [[0.5, -0.25]] * 2
    assert one.json() == {"embedding": {"values": [0.5, -0.25]}}
    assert (lost.status_code, "new" in lost.text) == (400, True)
    (model, first), (_, second) = generator.embedded
    assert model == "gemini-embedding-001"
    assert [bytes(each.raw) for each in first] == [
        b'{"parts":[{"text":"a"}],"role":"user"}', b'{"parts":[{"text":"b"}],"role":"user"}',
    ]  # fmt: skip
    assert first[0].settings == EmbedSettings(task_type="RETRIEVAL_QUERY", output_dimensionality=2)
    assert second[0].settings.task_type == "CLUSTERING"


@pytest.mark.requirement("GATE-04")
async def test_a_key_in_the_address_counts_on_geminis_paths_and_is_not_logged():
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, key="secret-key") as running, http(running) as plain:
        right = await plain.post(f"{path}?key=secret-key", json=body)
        wrong = await plain.post(f"{path}?key=another-key", json=body)
        listed = await plain.get("/v1beta/models?key=secret-key")
        other = await plain.post("/v1/messages?key=secret-key", json=body)
        lines = await running.logged(4)
    codes = [each.status_code for each in (right, wrong, listed, other)]
    assert codes == [200, 401, 200, 401]
    assert "-key" not in str(lines)


async def test_a_tool_that_the_gateway_does_not_know_is_refused():
    body = {"contents": [{"parts": [{"text": "hi"}]}], "tools": [{"kestrelTool": {}}]}
    async with gateway(ScriptedGenerator()) as running, http(running) as plain:
        got = await plain.post("/v1beta/models/gemini-3.8-flash:generateContent", json=body)
    assert got.status_code == 400
    assert "tools[0].kestrelTool" in got.json()["error"]["message"]


async def test_an_error_is_the_clients_own_error_type():
    generator = ScriptedGenerator()
    async with gateway(generator, key="secret-key") as running:
        client = connected(running)
        with pytest.raises(errors.ClientError) as refused:
            await answered(client, [PROMPT], stream=False)
        await client.aio.aclose()
    assert (refused.value.code, refused.value.status) == (401, "UNAUTHENTICATED")


async def test_an_answer_that_breaks_off_raises_in_the_middle_of_the_stream():
    generator = ScriptedGenerator([chunk({"text": "half an "})])
    async with gateway(generator) as running:
        client = connected(running)
        with pytest.raises(errors.APIError, match="finish reason"):
            await answered(client, [PROMPT], stream=True)
        await client.aio.aclose()


@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_what_is_not_there_is_told_in_the_clients_form(version: str):
    async with gateway(ScriptedGenerator(), model=MODEL) as running:
        options = types.HttpOptions(base_url=running.url, api_version=version)
        async with genai.Client(api_key="unused", http_options=options).aio as client:
            with pytest.raises(errors.ClientError) as refused:
                await client.caches.create(model=MODEL)
            assert refused.value.status == "NOT_FOUND"
            with pytest.raises(errors.ClientError) as refused:
                await client.files.upload(file=BytesIO(b"x"), config={"mime_type": "text/plain"})
            assert refused.value.status == "NOT_FOUND"
