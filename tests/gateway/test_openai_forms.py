"""Requests of today's clients of OpenAI's APIs beside plain conversations, and embeddings."""

import json
from typing import Any

import openai
import pytest

from tests.gateway.conversation import PNG, WEATHER
from tests.gateway.kit import Running, client, gateway
from tests.gateway.test_openai_client import connected
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

MODEL = "gemini-3.8-flash"
ASK = {"role": "user", "content": "hi"}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "other"}},
]
BOTH = chunk(call("weather", {"city": "A"}), call("weather", {"city": "B"}), finish="STOP")


async def post(running: Running, path: str = "/v1/chat/completions", **fields: Any) -> Any:
    body = {"model": "gpt-5", "messages": [ASK], **fields}
    async with client(running) as http:
        return await http.post(path, json=body)


@pytest.mark.requirement("GATE-03")
@pytest.mark.parametrize("dialect", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"city": "Oslo"}', {"city": "Oslo"}),
        (json.dumps('{"city": "Oslo"}'), {"city": "Oslo"}),
        (json.dumps(json.dumps('{"city": "Oslo"}')), {"city": "Oslo"}),
        ({"city": "Oslo"}, {"city": "Oslo"}),
        ("", {}),
        ("null", {}),
        (None, {}),
        ('{"city": "Os', {"arguments": '{"city": "Os'}),
        ("[1, 2]", {"arguments": [1, 2]}),
        ([1, 2], {"arguments": [1, 2]}),
        ("7", {"arguments": 7}),
        ('{"city": "Oslo \\ud83d"}', {"city": "Oslo \ufffd"}),
    ],
)
async def test_no_arguments_of_an_old_call_end_a_conversation(
    dialect: str, given: Any, read: dict[str, Any]
):
    function = {"name": "weather", "arguments": given}
    tool_call = {"id": "c1", "type": "function", "function": function}
    item = {"type": "function_call", "call_id": "c1", **function}
    use = {"type": "tool_use", "id": "c1", "name": "weather", "input": given}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "snow"}
    bodies = {
        "chat": ("/v1/chat/completions", {"messages": [
            ASK,
            {"role": "assistant", "content": None, "tool_calls": [tool_call]},
            {"role": "tool", "tool_call_id": "c1", "content": "snow"},
        ]}),
        "responses": ("/v1/responses", {"input": [
            ASK, item, {"type": "function_call_output", "call_id": "c1", "output": "snow"},
        ]}),
        "anthropic": ("/v1/messages", {"max_tokens": 9, "messages": [
            ASK,
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]}),
    }  # fmt: skip
    path, body = bodies[dialect]
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, path, **body)
    assert got.status_code == 200, got.text
    _, said, told = generator.seen(0)
    assert said["parts"][0]["functionCall"] == {"id": "c1", "name": "weather", "args": read}
    assert told["parts"][0]["functionResponse"]["response"] == {"output": "snow"}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "thinking", "thinking": "Oslo.", "signature": "abc"},
        {"type": "reasoning", "reasoning": "Oslo."},
        {"type": "reasoning_content", "reasoning_content": {"text": "Oslo."}},
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}},
        "Oslo.",
    ],
)
async def test_parts_that_other_services_left_in_an_answer_end_no_conversation(part: Any):
    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    tool_call = {"id": "c1", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": ["How is", "the weather?"]},
        {"role": "assistant", "content": [part], "tool_calls": [tool_call]},
        {"role": "tool", "tool_call_id": "c1", "content": ["snow"]},
    ]
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, "/v1/chat/completions", messages=messages)
    assert got.status_code == 200, got.text
    asked, said, told = generator.seen(0)
    assert asked["parts"] == [{"text": "How is"}, {"text": "the weather?"}]
    (made,) = [each["functionCall"] for each in said["parts"] if "functionCall" in each]
    assert made == {"id": "c1", "name": "weather", "args": {"city": "Oslo"}}
    assert told["parts"][0]["functionResponse"]["response"] == {"output": "snow"}


@pytest.mark.requirement("GATE-03")
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_half_a_character_is_replaced(path: str):
    said = rb'{"role": "user", "content": "\ud83d\ude00 a\ud83d \\ud83d"}'
    key = b"input" if path == "/v1/responses" else b"messages"
    body = b'{"model": "m", "max_tokens": 9, "%b": [%b]}' % (key, said)
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running, client(running) as http:
        headers = {"content-type": "application/json"}
        got = await http.post(path, content=body, headers=headers)
    assert got.status_code == 200, got.text
    assert generator.seen(0)[0]["parts"] == [{"text": "\U0001f600 a\ufffd \\ud83d"}]


@pytest.mark.requirement("GATE-03")
async def test_calls_without_ids_are_answered_in_their_order():
    calls = [{"type": "function", "function": {"name": "weather", "arguments": "{}"}}] * 2
    told = [{"role": "tool", "content": {"sky": "clear"}}, {"role": "tool", "content": "snow"}]
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        messages = [ASK, {"role": "assistant", "tool_calls": calls}, *told]
        got = await post(running, messages=messages)
    assert got.status_code == 200, got.text
    parts = generator.seen(0)[2]["parts"]
    assert [part["functionResponse"]["response"] for part in parts] == [
        {"output": '{"sky":"clear"}'}, {"output": "snow"},
    ]  # fmt: skip


@pytest.mark.requirement("GATE-03")
@pytest.mark.parametrize("stream", [True, False])
async def test_all_stop_sequences_are_kept_to_and_five_at_most_are_sent(stream: bool):
    answer = [text("One, two, <en", None), text("d> thr", None), text("ee <end>> four")]
    generator = ScriptedGenerator(answer if stream else [text("One, two, <end> three <end>> four")])
    stops = ["a1", "", "b2", "a1", "c3", "d4", "e5", "<end>>", "three <x"]
    asked: dict[str, Any] = {"model": "gpt-5", "messages": [ASK], "stop": stops}
    async with gateway(generator, model=MODEL) as running, connected(running) as package:
        if stream:
            pieces = [piece async for piece in await package.chat.completions.create(
                **asked, stream=True)]  # fmt: skip
            said = "".join(piece.choices[0].delta.content or "" for piece in pieces)
            reason = pieces[-1].choices[0].finish_reason
        else:
            done = await package.chat.completions.create(**asked)
            said, reason = done.choices[0].message.content, done.choices[0].finish_reason
    assert (said, reason) == ("One, two, <end> three ", "stop")
    sent = generator.requests[0].config.generation_config.stop_sequences
    assert sent == ("a1", "b2", "c3", "d4", "e5")
    assert generator.closed_early == int(stream)


async def test_anthropics_clients_learn_which_of_the_other_stop_sequences_was_reached():
    generator = ScriptedGenerator([text("One END two")], [text("One EN")])
    stops = ["1", "2", "3", "4", "5", "END"]
    asked: dict[str, Any] = {"max_tokens": 9, "stop_sequences": stops}
    async with gateway(generator, model=MODEL) as running:
        reached = (await post(running, "/v1/messages", **asked)).json()
        ended = (await post(running, "/v1/messages", **asked)).json()
    assert (reached["stop_reason"], reached["stop_sequence"]) == ("stop_sequence", "END")
    assert reached["content"] == [{"type": "text", "text": "One "}]
    assert (ended["stop_reason"], ended["content"][0]["text"]) == ("end_turn", "One EN")


@pytest.mark.requirement("GATE-03")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_one_call_at_a_time_is_the_first(path: str, stream: bool):
    asked: dict[str, Any] = {"tools": TOOLS, "parallel_tool_calls": False}
    if path == "/v1/messages":
        choice = {"type": "auto", "disable_parallel_tool_use": True}
        declared = [{"name": "weather", "input_schema": WEATHER}]
        asked = {"tools": declared, "tool_choice": choice, "max_tokens": 9}
    elif path == "/v1/responses":
        asked["input"] = "hi"
        asked["tools"] = [{"type": "function", "name": "weather", "parameters": WEATHER}]
    generator = ScriptedGenerator([BOTH])
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, path, stream=stream, **asked)
    assert got.status_code == 200, got.text
    plain = got.text.replace("\\", "")
    assert '"city":"A"' in plain
    assert '"city":"B"' not in plain


@pytest.mark.requirement("GATE-03")
@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_only_allowed_tools_can_be_called(mode: str):
    only = [{"type": "function", "function": {"name": "weather"}}]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": only}}
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, tools=TOOLS, tool_choice=choice)
    assert got.status_code == 200, got.text
    config = generator.requests[0].config
    names = config.function_names()
    if mode == "auto":
        assert names == ("weather",)
        assert config.tool_config is None
    else:
        calling = config.tool_config.function_calling_config
        assert (calling.mode, calling.allowed_function_names) == ("ANY", ("weather",))


@pytest.mark.requirement("GATE-03")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_custom_tool_takes_and_gives_text(stream: bool):
    described = {
        "name": "patch",
        "description": "Edits.",
        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}},
    }
    tools = [{"type": "custom", "custom": described}, {"type": "web_search"}]
    answer = chunk(call("patch", {"input": "*** x"}, id="c1"), finish="STOP")
    generator = ScriptedGenerator([answer], [text("ok")])
    choice = {"type": "custom", "custom": {"name": "patch"}}
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, tools=tools, tool_choice=choice, stream=stream)
        assert got.headers["x-alhena-left-out"] == "web_search"
        made = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}
        if stream:
            first = json.loads(got.text.split("\n\n")[1].removeprefix("data: "))
            assert first["choices"][0]["delta"]["tool_calls"] == [{"index": 0, **made}]
        else:
            assert got.json()["choices"][0]["message"]["tool_calls"] == [made]
        told = {"role": "tool", "tool_call_id": "c1", "content": "done"}
        messages = [ASK, {"role": "assistant", "tool_calls": [made]}, told]
        assert (await post(running, messages=messages, tools=tools)).status_code == 200
    (declared,) = generator.requests[0].config.tools[0].function_declarations
    assert list(declared.parameters_json_schema["properties"]) == ["input"]
    assert "start: x" in declared.description
    assert generator.seen(1)[1]["parts"][0]["functionCall"]["args"] == {"input": "*** x"}


@pytest.mark.requirement("GATE-03")
@pytest.mark.parametrize(
    ("part", "kind", "place"),
    [
        ({"image_url": {"url": "https://x.org/a.PNG?size=3"}}, "image/png", ""),
        ({"image_url": "https://x.org/a.jpg"}, "image/jpeg", ""),
        ({"image_url": {"url": f"data:image/webp;base64,{PNG}"}}, "image/webp", ""),
        ({"file": {"filename": "a.pdf", "file_data": "JVBERi0="}}, "application/pdf", ""),
        ({"file": {"file_data": "https://x.org/b.csv"}}, "text/csv", ""),
        ({"image_url": {"url": "https://x.org/a"}}, "", "image_url.url"),
        ({"file": {"file_id": "f"}}, "", "file.file_id"),
    ],
)
async def test_media_have_their_type_or_are_refused(part: dict[str, Any], kind: str, place: str):
    generator = ScriptedGenerator([text("ok")])
    content = [{"type": next(iter(part)), **part}]
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, messages=[{"role": "user", "content": content}])
    if place:
        assert got.status_code == 400
        assert got.json()["error"]["param"] == f"messages[0].content[0].{place}"
        assert generator.requests == []
    else:
        assert got.status_code == 200, got.text
        (sent,) = generator.seen(0)[0]["parts"]
        assert (sent.get("inlineData") or sent.get("fileData"))["mimeType"] == kind


@pytest.mark.requirement("GATE-03")
async def test_unknown_fields_are_ignored_and_lost_wishes_are_told_with_field_and_value():
    generator = ScriptedGenerator(*[[text("ok")]] * 8)
    ignored: dict[str, Any] = {"kestrel": {"a": 1}, "verbosity": "low", "prediction": None}
    efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"]
    refused: dict[str, Any] = {
        "n": 3,
        "logit_bias": {"7": -100},
        "logprobs": True,
        "top_logprobs": 2,
    }
    async with gateway(generator, model=MODEL) as running:
        assert (await post(running, **ignored)).status_code == 200
        for effort in efforts:
            assert (await post(running, reasoning_effort=effort)).status_code == 200
        for name, value in refused.items():
            got = await post(running, **{name: value})
            assert got.status_code == 400
            assert got.json()["error"]["param"] == name
            assert json.dumps(value) in got.json()["error"]["message"]
    assert len(generator.requests) == 8


@pytest.mark.requirement("GATE-03")
async def test_embeddings_are_geminis_vectors_in_openais_form():
    generator = ScriptedGenerator()
    async with gateway(generator, model=MODEL) as running, connected(running) as package:
        many = await package.embeddings.create(model="text-embedding-3-small", input=["a"] * 150)
        one = await package.embeddings.create(
            model="gemini-embedding-001", input="b", dimensions=2, encoding_format="float"
        )
        for wrong in ([1, 2], [[1, 2], [3]], [], ["a", ""]):
            with pytest.raises(openai.BadRequestError) as refused:
                await package.embeddings.create(model="m", input=wrong)
            assert refused.value.param.startswith("input")
    assert len(many.data) == 150
    assert many.data[149].embedding == one.data[0].embedding == [0.5, -0.25]
    assert (many.data[149].index, many.model) == (149, "text-embedding-3-small")
    assert [(model, len(contents)) for model, contents in generator.embedded] == [
        ("gemini-embedding-001", 100), ("gemini-embedding-001", 50), ("gemini-embedding-001", 1),
    ]  # fmt: skip
    assert generator.embedded[2][1][0].settings.output_dimensionality == 2


@pytest.mark.requirement("GATE-03")
async def test_models_tell_their_windows():
    async with gateway(ScriptedGenerator(), model=MODEL) as running, connected(running) as package:
        listed = [model async for model in package.models.list()]
        one = await package.models.retrieve("gemini-embedding-001")
    assert listed[0].id == MODEL
    assert (listed[0].context_window, listed[0].max_output_tokens) == (1048576, 65536)
    assert "gemini-embedding-001" not in [model.id for model in listed]
    assert one.id == "gemini-embedding-001"
