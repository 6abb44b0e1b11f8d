"""Numbers that JSON can say and a field, or a double, cannot hold."""

from typing import Any

import msgspec
import pytest

from alhena.gateway.upstream import adapt_config
from alhena.http.addresses import parse_endpoint
from alhena.models.catalogue import model_info
from alhena.models.providers.openai_compatible import OpenAiCompatible
from alhena.wire.encode import encode_request
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ThinkingConfig
from tests.gateway.kit import client, gateway
from tests.gateway.test_streams import ANTHROPIC, GOOGLE, OPENAI, RESPONSES
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, json_reply, text

GEMINI_PATH = GOOGLE[0].replace(":streamGenerate", ":generate")
INT32 = 2**31 - 1
LARGE = 2**70

MESSAGES = '"messages": [{"role": "user", "content": "x"}]'
BODIES = {
    ANTHROPIC[0]: '{"model": "m", "max_tokens": 9, "temperature": %s, ' + MESSAGES + "}",
    OPENAI[0]: '{"model": "m", "temperature": %s, ' + MESSAGES + "}",
    RESPONSES[0]: '{"model": "m", "temperature": %s, "input": "x"}',
    GEMINI_PATH: '{"generationConfig": {"temperature": %s}, '
    '"contents": [{"role": "user", "parts": [{"text": "x"}]}]}',
}


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400, "1" * 5000, "NaN", "Infinity"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_number_beyond_a_double_is_the_clients_error_in_its_dialect(path: str, number: str):
    generator = ScriptedGenerator([text("fine")])
    async with gateway(generator) as running, client(running) as http:
        refused = await http.post(path, content=(BODIES[path] % number).encode())
        assert refused.status_code == 400
        assert refused.json()["error"]["message"]
        assert generator.requests == []
        assert (await http.post(path, content=(BODIES[path] % "1").encode())).status_code == 200


@pytest.mark.parametrize("number", ["1e39", "-1e39"])
@pytest.mark.parametrize("path", [ANTHROPIC[0], OPENAI[0], RESPONSES[0]])
async def test_a_setting_beyond_32_bits_is_refused_as_the_service_refuses_it(
    path: str, number: str
):
    async with gateway(ScriptedGenerator()) as running, client(running) as http:
        refused = await http.post(path, content=(BODIES[path] % number).encode())
    assert refused.status_code == 400
    assert "temperature: is out of range." in refused.json()["error"]["message"]


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3-pro-preview", "one-nobody-knows"])
def test_limits_beyond_32_bits_are_within_them(model: str):
    given = GenerationConfig(
        top_k=LARGE, max_output_tokens=LARGE, thinking_config=ThinkingConfig(thinking_budget=LARGE)
    )
    made = adapt_config(GenerateContentConfig(generation_config=given), model_info(model))
    sent = msgspec.to_builtins(made)["generationConfig"]
    assert sent["topK"] == INT32
    assert 0 < sent["maxOutputTokens"] <= INT32
    assert sent.get("thinkingConfig", {}).get("thinkingBudget", 0) <= INT32


async def test_whole_numbers_in_arguments_go_on_digit_by_digit():
    args = {"id": LARGE, "least": -LARGE, "small": 1e-300, "large": 1.7976931348623157e308}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": args}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    messages: list[Any] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    generator = ScriptedGenerator([text("fine")])
    body = msgspec.json.encode({"model": "m", "max_tokens": 9, "messages": messages})
    async with gateway(generator) as running, client(running) as http:
        assert (await http.post(ANTHROPIC[0], content=body)).status_code == 200
    sent = encode_request(generator.requests[0])
    assert str(LARGE).encode() in sent
    assert msgspec.json.decode(sent)["contents"][1]["parts"][0]["functionCall"]["args"] == args


async def test_arguments_of_a_service_beyond_a_double_are_its_error(server: ScriptedServer):
    function = {"name": "f", "arguments": '{"n": 1e400}'}
    message = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function"}]}
    message["tool_calls"][0]["function"] = function
    server.reply(json_reply({"choices": [{"message": message, "finish_reason": "tool_calls"}]}))
    service = OpenAiCompatible(parse_endpoint(server.url, "OPENAI_BASE_URL"), "key")
    async with (
        gateway(service, model="openai:q", gemini=False) as running,
        client(running) as http,
    ):
        answer = await http.post(OPENAI[0], content=(BODIES[OPENAI[0]] % "1").encode())
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_error"
