"""The openai package's Responses API, pointed at the gateway."""

import json
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from alhena.errors import ServerFaultError
from alhena.gateway.stored import ResponseStore
from alhena.wire.content import text_content
from alhena.wire.dialects.conversation import DialectRequest
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
from tests.gateway.kit import Running, client, gateway
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOOL = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
PROMPT = {
    "role": "user",
    "content": [{"type": "input_text", "text": "How is the weather there?"}, IMAGE],
}
RESULTS = [
    {"type": "function_call_output", "call_id": "call-b", "output": "sun"},
    {"type": "function_call_output", "call_id": "call-a", "output": "snow"},
]
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin_patch"},
}


def connected(running: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="unused", max_retries=0)


async def answered(client: openai.AsyncOpenAI, items: Any, *, stream: bool, **more: Any) -> Any:
    asked: dict[str, Any] = {
        "model": "gpt-5-codex",
        "instructions": "Be brief.",
        "input": items,
        "tools": [TOOL],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "max_output_tokens": 500,
    } | more
    if not stream:
        return await client.responses.create(**asked)
    async with client.responses.stream(**asked) as events:
        return await events.get_final_response()


async def raw_events(running: Running, **body: Any) -> list[dict[str, Any]]:
    """The events of a stream; each is valid for the package, strictly."""
    asked = {"model": "gpt-5", "input": "hi", "stream": True, **body}
    async with client(running) as http:
        got = await http.post("/v1/responses", json=asked)
    assert got.status_code == 200, got.text
    blocks = [block for block in got.text.split("\n\n") if block]
    events = [json.loads(block.partition("data: ")[2]) for block in blocks]
    assert [block.partition("\n")[0] for block in blocks] == [
        f"event: {event['type']}" for event in events
    ]
    for event in events:
        EVENTS.validate_python(event)
    return events


def as_input(response: Any) -> list[dict[str, Any]]:
    """The output as a client sends it back."""
    kept: list[dict[str, Any]] = []
    for item in response.output:
        assert isinstance(item, BaseModel)
        plain = item.model_dump(exclude_none=True)
        plain.pop("parsed_arguments", None)
        kept.append(plain)
    return kept


@pytest.mark.requirement("GATE-01")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_conversation_with_calls_side_by_side_goes_through_whole(stream: bool):
    last_turn = ANSWER if stream else [text("Snow in Oslo, sun in Lima.")]
    generator = ScriptedGenerator(CALLS if stream else whole(CALLS), last_turn)
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, [PROMPT], stream=stream)
        Response.model_validate(first.model_dump())
        kinds = [item.type for item in first.output]
        assert kinds == ["reasoning", "message", "reasoning", "function_call", "function_call"]
        assert first.output[0].summary[0].text == "Both cities, then."
        assert first.output_text == "Let me look."
        assert [json.loads(item.arguments) for item in first.output[3:]] == [
            {"city": "Oslo"},
            {"city": "Lima"},
        ]
        assert (first.usage.input_tokens, first.usage.output_tokens) == (11, 7)
        assert (first.status, first.instructions, first.model) == (
            "completed",
            "Be brief.",
            "gpt-5-codex",
        )
        items = [PROMPT, *as_input(first), *RESULTS]
        last = await answered(client, items, stream=stream)
    assert last.output_text == "Snow in Oslo, sun in Lima."
    seen = generator.seen(1)
    prompt_seen(seen)
    calls_seen(seen)
    snow, sun = result_of(seen, 0), result_of(seen, 1)
    assert snow == {"id": "call-a", "name": "weather", "response": {"output": "snow"}}
    assert sun == {"id": "call-b", "name": "weather", "response": {"output": "sun"}}
    config = generator.requests[0].config
    assert config.system_instruction == text_content("user", "Be brief.")
    assert config.generation_config.thinking_config.thinking_level == "LOW"
    assert config.generation_config.thinking_config.include_thoughts is True
    assert config.generation_config.max_output_tokens == 500


@pytest.mark.requirement("GATE-01")
async def test_events_come_in_the_documented_order():
    generator = ScriptedGenerator(CALLS)
    async with gateway(generator, model=MODEL) as running:
        events = await raw_events(running, tools=[TOOL])
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"].removeprefix("response.") for event in events]
    reasoning = ["output_item.added", "output_item.done"]
    called = [
        *("output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
    ]
    assert kinds == [
        *("created", "in_progress", "output_item.added", "reasoning_summary_part.added"),
        *("reasoning_summary_text.delta", "reasoning_summary_text.done"),
        *("reasoning_summary_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *reasoning,
        *called,
        *called,
        "completed",
    ]
    last = events[-1]["response"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert last["output"] == done
    assert last["usage"]["total_tokens"] == 18
    assert len({item["id"] for item in done}) == len(done)


async def test_a_signature_on_the_last_text_comes_back_where_it_was():
    signed = chunk({"text": "", "thoughtSignature": "QUJD"}, finish="STOP")
    generator = ScriptedGenerator([text("Hello.", finish=None), signed], [text("Again.")])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, "hi", stream=True, tools=[])
        more = {"role": "user", "content": "once more"}
        items = [{"role": "user", "content": "hi"}, *as_input(first), more]
        await answered(client, items, stream=False, tools=[])
    assert generator.seen(1)[1]["parts"] == [
        {"text": "Hello."},
        {"text": "", "thoughtSignature": "QUJD"},
    ]


@pytest.mark.requirement("GATE-01")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_custom_tool_takes_and_gives_text(stream: bool):
    patch = "*** Begin Patch\n*** End Patch"
    called = chunk(call("apply_patch", {"input": patch}, id="c1"), finish="STOP")
    generator = ScriptedGenerator([called], [text("Done.")])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, "edit", stream=stream, tools=[PATCH])
        (item,) = first.output
        assert (item.type, item.name, item.input) == ("custom_tool_call", "apply_patch", patch)
        result = {"type": "custom_tool_call_output", "call_id": item.call_id, "output": "ok"}
        items = [{"role": "user", "content": "edit"}, *as_input(first), result]
        last = await answered(client, items, stream=stream, tools=[PATCH])
        assert last.output_text == "Done."
    (tool,) = generator.requests[0].config.tools
    (declared,) = tool.function_declarations
    assert declared.name == "apply_patch"
    assert "start: begin_patch" in declared.description
    assert list(declared.parameters_json_schema["properties"]) == ["input"]
    seen = generator.seen(1)
    assert seen[1]["parts"][0]["functionCall"]["args"] == {"input": patch}
    assert seen[2]["parts"][0]["functionResponse"]["response"] == {"output": "ok"}


async def test_the_events_of_a_custom_call_are_its_own():
    called = chunk(call("apply_patch", {"patch": "*** x"}), finish="STOP")
    async with gateway(ScriptedGenerator([called]), model=MODEL) as running:
        events = await raw_events(running, tools=[PATCH])
    kinds = [event["type"] for event in events]
    assert "response.custom_tool_call_input.delta" in kinds
    done = next(e for e in events if e["type"] == "response.custom_tool_call_input.done")
    assert done["input"] == "*** x"


async def test_tools_of_a_namespace_keep_it():
    space = {
        "type": "namespace",
        "name": "mcp__files",
        "description": "Files",
        "tools": [{"type": "function", "name": "read", "parameters": WEATHER}],
    }
    called = chunk(call("mcp__files__read", {"city": "x"}, id="c1"), finish="STOP")
    generator = ScriptedGenerator([called])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, "read", stream=False, tools=[space])
    (item,) = first.output
    assert (item.name, item.namespace) == ("read", "mcp__files")


async def test_tools_in_an_item_are_declared_too():
    space = {"type": "namespace", "name": "functions", "description": "", "tools": [PATCH]}
    added = {"type": "additional_tools", "role": "developer", "tools": [space, TOOL]}
    called = chunk(call("functions__apply_patch", {"input": "x"}, id="c1"), finish="STOP")
    generator = ScriptedGenerator([called], [text("ok")])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        asked = [added, {"role": "user", "content": "hi"}]
        first = await answered(client, asked, stream=True, tools=[])
        (item,) = first.output
        assert (item.type, item.name, item.namespace) == (
            "custom_tool_call",
            "apply_patch",
            "functions",
        )
        result = {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}
        await answered(client, [*asked, *as_input(first), result], stream=False, tools=[])
    (tool,) = generator.requests[1].config.tools
    names = [each.name for each in tool.function_declarations]
    assert names == ["functions__apply_patch", "weather"]
    assert generator.seen(1)[1]["parts"][0]["functionCall"]["name"] == names[0]


@pytest.mark.requirement("GATE-01")
@pytest.mark.parametrize("stream", [True, False])
async def test_tools_that_the_service_would_run_are_left_out_and_named_in_a_header(stream: bool):
    generator = ScriptedGenerator([text("ok")])
    body = {
        "model": "m",
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"role": "user", "content": "again"},
        ],
        "tools": [{"type": "web_search"}, {"type": "local\r\nshell"}, TOOL],
        "tool_choice": {"type": "file_search"},
        "stream": stream,
    }
    async with gateway(generator) as running, client(running) as http:
        got = await http.post("/v1/responses", json=body)
    assert got.status_code == 200, got.text
    assert got.headers["x-alhena-left-out"] == "web_search, local__shell, file_search"
    (tool,) = generator.requests[0].config.tools
    assert [each.name for each in tool.function_declarations] == ["weather"]
    if not stream:
        Response.model_validate(got.json() | {"tools": [], "tool_choice": "auto"})


@pytest.mark.requirement("GATE-01")
async def test_a_search_alone_is_geminis_and_is_told_of():
    said = chunk({"text": "Kestrels hover."}, finish="STOP")
    web = {"web": {"uri": "https://example.org/a", "title": "Kestrels"}}
    grounding = {"webSearchQueries": ["kestrels"], "groundingChunks": [web]}
    said["candidates"][0]["groundingMetadata"] = grounding
    generator = ScriptedGenerator([said], [text("ok")])
    search = {"type": "web_search"}
    async with gateway(generator) as running, client(running) as http:
        events = await raw_events(
            running, tools=[search], tool_choice={"type": "web_search_preview"}
        )
        last = events[-1]["response"]
        again = [
            {"role": "user", "content": "hi"},
            *last["output"],
            {"role": "user", "content": "?"},
        ]
        got = await http.post("/v1/responses", json={"model": "m", "input": again})
    assert got.status_code == 200, got.text
    assert [event["type"] for event in events[-6:-1]] == [
        "response.output_item.added",
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
        "response.output_item.done",
    ]
    assert [item["type"] for item in last["output"]] == ["message", "web_search_call"]
    assert last["output"][1]["action"]["query"] == "kestrels"
    assert [tool.google_search for tool in generator.requests[0].config.tools] == [{}]
    assert generator.seen(1)[1]["parts"] == [{"text": "Kestrels hover."}]


async def test_allowed_tools_and_single_calls_are_kept_to():
    other = {**TOOL, "name": "other"}
    both = chunk(call("weather", {"city": "A"}), call("weather", {"city": "B"}), finish="STOP")
    allowed = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "weather"}],
    }
    generator = ScriptedGenerator([both])
    async with gateway(generator) as running, connected(running) as client:
        first = await answered(
            client,
            "hi",
            stream=True,
            tools=[TOOL, other],
            tool_choice=allowed,
            parallel_tool_calls=False,
        )
    assert [item.arguments for item in first.output] == ['{"city":"A"}']
    (tool,) = generator.requests[0].config.tools
    assert [each.name for each in tool.function_declarations] == ["weather"]


@pytest.mark.requirement("GATE-01")
async def test_a_stored_answer_is_continued_read_and_removed():
    generator = ScriptedGenerator(whole(CALLS), [text("Snow and sun.")])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, [PROMPT], stream=False, store=True)
        last = await answered(
            client, RESULTS, stream=True, store=True, previous_response_id=first.id
        )
        assert last.previous_response_id == first.id
        kept = await client.responses.retrieve(last.id)
        assert kept.output_text == "Snow and sun."
        before = [item async for item in client.responses.input_items.list(last.id, order="asc")]
        assert [item.type for item in before] == [
            "message", *(item.type for item in first.output), *["function_call_output"] * 2,
        ]  # fmt: skip
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError) as refused:
            await answered(client, "more", stream=False, previous_response_id=first.id)
    assert refused.value.param == "previous_response_id"
    assert refused.value.code == "previous_response_not_found"
    calls_seen(generator.seen(1))
    assert len(generator.requests) == 2


@pytest.mark.requirement("GATE-01")
async def test_an_answer_that_must_not_be_stored_is_not():
    async with (
        gateway(ScriptedGenerator([text("secret")])) as running,
        connected(running) as client,
    ):
        first = await answered(client, "hi", stream=False)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)


def test_the_store_has_bounds():
    asked = DialectRequest(model="m", contents=())
    few = ResponseStore(max_answers=2)
    small = ResponseStore(max_bytes=150)
    for number in range(4):
        answer = {"id": f"r{number}", "output": [{"text": "x" * 20}]}
        few.put(answer, asked)
        small.put(answer, asked)
    assert [few.answer(f"r{n}") is not None for n in range(4)] == [False, False, True, True]
    assert [small.answer(f"r{n}") is not None for n in range(4)] == [False, False, False, True]
    small.put({"id": "huge", "output": [{"text": "x" * 200}]}, asked)
    assert small.answer("huge") is None


@pytest.mark.requirement("GATE-01")
async def test_a_structured_answer_is_asked_for_by_its_schema():
    class City(BaseModel):
        name: str

    generator = ScriptedGenerator([text('{"name": "Oslo"}')])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        parsed = await client.responses.parse(model="gpt-5", input="where?", text_format=City)
    assert parsed.output_parsed == City(name="Oslo")
    generation = generator.requests[0].config.generation_config
    assert generation.response_mime_type == "application/json"
    assert generation.response_json_schema["required"] == ["name"]


async def test_an_output_limit_and_a_filter_end_an_answer_incomplete():
    generator = ScriptedGenerator([text("half", "MAX_TOKENS")], [text("", "SAFETY")])
    async with gateway(generator) as running, connected(running) as client:
        cut = await answered(client, "hi", stream=False, tools=[])
        events = await raw_events(running)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["incomplete_details"] == {"reason": "content_filter"}


@pytest.mark.parametrize(
    "failure", [ServerFaultError("overloaded", status=503), None], ids=["fault", "cut"]
)
async def test_an_answer_that_breaks_off_fails_in_its_last_event(failure: Exception | None):
    half: list[Any] = [chunk({"text": "half an "}), *([failure] if failure else [])]
    async with gateway(ScriptedGenerator(half)) as running:
        events = await raw_events(running)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["status"] == "failed"
    assert events[-1]["response"]["error"]["code"] == "server_error"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"input": None}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].id"),
        ({"background": True}, "background"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"input": [{"type": "kestrel_call"}]}, "input[0].type"),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_image", "image_url": "https://example.org/a"}],
                    }
                ]
            },
            "input[0].content[0].image_url",
        ),
        ({"conversation": "conv_1"}, "conversation"),
        ({"reasoning": {"effort": "endless"}}, "reasoning.effort"),
        ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format.schema"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[0].content[0].file_id",
        ),
    ],
)
async def test_what_cannot_be_done_is_a_400_that_names_the_place(fields: Any, place: str):
    body = {"model": "m", "input": "hi"} | fields
    async with gateway(ScriptedGenerator()) as running, client(running) as http:
        got = await http.post("/v1/responses", json=body)
    assert got.status_code == 400, got.text
    assert got.json()["error"]["type"] == "invalid_request_error"
    assert got.json()["error"]["param"] == place


async def test_a_result_with_a_picture_and_a_file_reaches_the_model():
    items = [
        {
            "role": "user",
            "content": [
                {
                    "type": "input_file",
                    "filename": "a.pdf",
                    "file_data": "data:application/pdf;base64,JVBERi0=",
                }
            ],
        },
        {"type": "function_call", "call_id": "a", "name": "weather", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": [{"type": "input_text", "text": "seen"}, IMAGE],
        },
    ]
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        await answered(client, items, stream=False)
        counted = await client.responses.input_tokens.count(model="m", input=items)
    assert counted.input_tokens > 0
    seen = generator.seen(0)
    assert seen[0]["parts"][0]["inlineData"]["mimeType"] == "application/pdf"
    response = seen[2]["parts"][0]["functionResponse"]
    assert response["response"] == {"output": "seen"}
    assert response["parts"][0]["inlineData"]["data"] == PNG


@pytest.mark.requirement("GATE-01")
async def test_items_of_stored_answers_can_be_referred_to():
    generator = ScriptedGenerator(whole(CALLS), [text("Snow and sun.")])
    async with gateway(generator, model=MODEL) as running, connected(running) as client:
        first = await answered(client, [PROMPT], stream=False, store=True)
        references = [{"type": "item_reference", "id": item.id} for item in first.output[:-1]]
        references.append({"id": first.output[-1].id})
        await answered(client, [PROMPT, *references, *RESULTS], stream=False)
    calls_seen(generator.seen(1))


async def test_thoughts_of_another_service_keep_their_signatures():
    thought = chunk({"text": "Hm.", "thought": True})
    signed = chunk({"text": "", "thought": True, "thoughtSignature": "foreign:abc"})
    called = chunk(call("weather", {"city": "A"}, id="c1"), finish="STOP")
    generator = ScriptedGenerator([thought, signed, called], [text("ok")])
    async with (
        gateway(generator, model="anthropic:x", gemini=False) as running,
        connected(running) as client,
    ):
        first = await answered(client, "hi", stream=True)
        result = {"type": "function_call_output", "call_id": "c1", "output": "r"}
        items = [{"role": "user", "content": "hi"}, *as_input(first), result]
        await answered(client, items, stream=False)
    assert generator.seen(1)[1]["parts"] == [
        {"text": "Hm.", "thought": True, "thoughtSignature": "foreign:abc"},
        {"functionCall": {"id": "c1", "name": "weather", "args": {"city": "A"}}},
    ]


CODEX: dict[str, Any] = {
    "model": "gpt-5-codex",
    "instructions": "You are Codex.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions>"}],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
        {
            "type": "local_shell_call",
            "call_id": "c0",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "function_call_output", "call_id": "c0", "output": "of a tool that is left out"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "**Look**"}],
            "content": None,
            "encrypted_content": f"gemini:{'QUJD'}",
        },
        {
            "type": "function_call",
            "name": "exec_command",
            "call_id": "c1",
            "arguments": '{"cmd":"ls"}',
        },
        {
            "type": "custom_tool_call",
            "status": "completed",
            "call_id": "c2",
            "name": "apply_patch",
            "input": "*** Begin Patch",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    ],
    "tools": [
        {
            "type": "function",
            "name": "exec_command",
            "description": "Runs.",
            "strict": False,
            "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}},
        },
        PATCH,
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "text": {"verbosity": "medium"},
    "client_metadata": {"x": "y"},
}


@pytest.mark.requirement("GATE-01")
async def test_a_request_of_codex_is_understood():
    generator = ScriptedGenerator([text("Fixed.")])
    async with gateway(generator, model=MODEL) as running:
        events = await raw_events(running, **CODEX)
    assert events[-1]["type"] == "response.completed"
    prompt, answer, results = generator.seen(0)
    assert [part["text"] for part in prompt["parts"]] == ["<environment_context>", "fix it"]
    first, second = answer["parts"]
    assert first["thoughtSignature"] == "QUJD"
    assert second["functionCall"]["args"] == {"input": "*** Begin Patch"}
    assert [part["functionResponse"]["id"] for part in results["parts"]] == ["c1", "c2"]
    instruction = generator.requests[0].config.system_instruction
    assert [part.text for part in instruction.parts] == ["You are Codex.", "<permissions>"]
