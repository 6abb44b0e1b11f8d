"""Requests to Anthropic's service: complete, and without unsupported fields."""

import json
from contextlib import aclosing
from typing import Any

import pytest

from alhena.models.catalogue import claude_info
from alhena.models.providers.anthropic_api import EMPTY
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part, text_content
from alhena.wire.dialects.fields import DialectError
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerationConfig,
    ThinkingConfig,
    ToolConfig,
    ToolDeclarations,
)
from tests.models.test_anthropic_api import asking, block, connected, message, taken, words
from tests.support.server import ScriptedServer

THINKING = ThinkingConfig(thinking_budget=2000)
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}


def tools(*names: str) -> tuple[ToolDeclarations, ...]:
    declared = tuple(FunctionDeclaration(name=n, parameters_json_schema=OBJECT) for n in names)
    return (ToolDeclarations(function_declarations=declared),)


def calling(mode: FunctionCallingMode, *only: str) -> ToolConfig:
    config = FunctionCallingConfig(mode=mode, allowed_function_names=only or None)
    return ToolConfig(function_calling_config=config)


async def sent(
    server: ScriptedServer, *contents: Content, model: str = "claude-x", **config: Any
) -> Any:
    """The body that goes out for a request."""
    server.reply(message(words("done"), stop="end_turn"))
    generator = connected(server)
    async with aclosing(generator):
        await taken(generator, asking(*contents, model=f"anthropic:{model}", **config))
    return server.requests[-1].json


def call(name: str = "f", call_id: str = "c") -> Part:
    return Part(function_call=FunctionCall(id=call_id, name=name, args={}))


def result(text: str = "r", name: str = "f", call_id: str = "c") -> Content:
    answer = FunctionResponse(id=call_id, name=name, response={"output": text})
    return Content(role="user", parts=(Part(function_response=answer),))


async def test_text_of_white_space_alone_is_not_sent(server: ScriptedServer):
    body = await sent(
        server,
        Content(role="user", parts=(Part(text="hi"), Part(text=" "))),
        Content(role="model", parts=(Part(text="\n\n"), call())),
        result(" \n"),
        Content(role="model", parts=(Part(text="\t"),)),
        text_content("user", "on"),
        Content(role="model", parts=(Part(text="so"),)),
        text_content("user", "\u3000"),
    )
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": []},
                {"type": "text", "text": "on"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "so"}]},
        {"role": "user", "content": [{"type": "text", "text": EMPTY}]},
    ]


async def test_names_that_the_service_does_not_take_are_others_wherever_they_stand(
    server: ScriptedServer,
):
    names = ("issues.list", "issues_list", "n" * 100)
    history = (
        text_content("user", "go"),
        Content(role="model", parts=(call(names[0]),)),
        result(name=names[0]),
    )
    config: dict[str, Any] = {
        "tools": tools(*names),
        "tool_config": calling(FunctionCallingMode.ANY, names[0]),
    }
    body = await sent(server, *history, **config)
    theirs = [one["name"] for one in body["tools"]]
    assert len(set(theirs)) == 3
    assert all(len(name) <= 64 and "." not in name for name in theirs)
    assert theirs[1] == "issues_list"
    assert body["messages"][1]["content"][0]["name"] == theirs[0]
    assert body["tool_choice"] == {"type": "tool", "name": theirs[0]}
    start = {"type": "tool_use", "id": "t", "name": theirs[0], "input": {}}
    server.reply(message(block(0, start, {"type": "input_json_delta", "partial_json": "{}"})))
    generator = connected(server)
    async with aclosing(generator):
        chunks = await taken(generator, asking(*history, **config))
    calls = [part.function_call for chunk in chunks for part in chunk.parts]
    assert [one.name for one in calls if one] == ["issues.list"]


@pytest.mark.parametrize(
    ("model", "limit", "asked", "most"),
    [
        ("claude-3-opus-20240229", None, 4096, 4096),
        ("claude-3-5-haiku-latest", None, 8192, 8192),
        ("claude-3-7-sonnet-20250219", None, 32_000, 64_000),
        ("claude-sonnet-4-20250514", None, 32_000, 64_000),
        ("claude-opus-4-1", None, 32_000, 32_000),
        ("claude-opus-4-1", 50_000, 32_000, 32_000),
        ("claude-sonnet-4-5-20250929", 64_000, 64_000, 64_000),
        ("anthropic/claude-sonnet-4.5", None, 32_000, 64_000),
        ("claude-opus-7", 100_000, 100_000, None),
        ("claude-opus-7", None, 32_000, None),
        ("kimi-k2", None, 8192, None),
        ("kimi-k2", 100_000, 100_000, None),
    ],
)
async def test_the_limit_of_output_is_one_that_the_model_has(
    server: ScriptedServer, model: str, limit: int | None, asked: int, most: int | None
):
    config = GenerationConfig(max_output_tokens=limit)
    assert (await sent(server, model=model, generation_config=config))["max_tokens"] == asked
    assert claude_info(model).most_output == most


@pytest.mark.parametrize(
    ("mode", "thinks"),
    [(FunctionCallingMode.ANY, False), (FunctionCallingMode.AUTO, True)],
)
async def test_no_thinking_is_asked_for_where_a_tool_is_forced(
    server: ScriptedServer, mode: FunctionCallingMode, thinks: bool
):
    """Nor do thoughts go back then."""
    thought = Part(text="hm", thought=True, thought_signature="foreign:S")
    body = await sent(
        server,
        text_content("user", "hi"),
        Content(role="model", parts=(thought, call())),
        result(),
        tools=tools("f"),
        tool_config=calling(mode),
        generation_config=GenerationConfig(thinking_config=THINKING),
    )
    assert ("thinking" in body) == ("thinking" in json.dumps(body["messages"])) == thinks
    assert body["tool_choice"] == {"type": "any" if mode is FunctionCallingMode.ANY else "auto"}


@pytest.mark.parametrize(
    ("model", "given", "kept"),
    [
        ("claude-x", {"temperature": 1.7}, {"temperature": 1.0}),
        (
            "claude-x",
            {"temperature": 0.2, "top_p": 0.5, "top_k": 3},
            {"temperature": 0.2, "top_k": 3},
        ),
        ("claude-x", {"temperature": 0.2, "thinking_config": THINKING}, {}),
        (
            "claude-x",
            {"temperature": 1.0, "top_k": 3, "thinking_config": THINKING},
            {"temperature": 1.0},
        ),
        ("claude-x", {"top_p": 0.97, "thinking_config": THINKING}, {"top_p": 0.97}),
        ("claude-x", {"top_p": 0.5, "thinking_config": THINKING}, {}),
        (
            "claude-3-5-sonnet",
            {"temperature": 0.2, "thinking_config": THINKING},
            {"temperature": 0.2},
        ),
    ],
)
async def test_ways_of_sampling_are_those_that_the_service_takes(
    server: ScriptedServer, model: str, given: dict[str, Any], kept: dict[str, Any]
):
    body = await sent(server, model=model, generation_config=GenerationConfig(**given))
    assert {key: body[key] for key in ("temperature", "top_p", "top_k") if key in body} == kept
    assert ("thinking" in body) == ("thinking_config" in given and model == "claude-x")


@pytest.mark.parametrize(
    ("level", "thinking"),
    [
        ("LOW", {"type": "enabled", "budget_tokens": 1024}),
        ("HIGH", {"type": "enabled", "budget_tokens": 24_576}),
        ("THINKING_LEVEL_UNSPECIFIED", None),
    ],
)
async def test_a_level_of_thinking_is_so_many_tokens(
    server: ScriptedServer, level: str, thinking: dict[str, Any] | None
):
    config = GenerationConfig(thinking_config=ThinkingConfig(thinking_level=level))
    assert (await sent(server, generation_config=config)).get("thinking") == thinking


async def test_of_several_allowed_tools_no_other_can_be_called(server: ScriptedServer):
    config = calling(FunctionCallingMode.ANY, "f", "h")
    body = await sent(server, tools=tools("f", "g", "h"), tool_config=config)
    assert [one["name"] for one in body["tools"]] == ["f", "h"]
    assert body["tool_choice"] == {"type": "any"}


@pytest.mark.parametrize("mode", [FunctionCallingMode.AUTO, FunctionCallingMode.NONE])
async def test_there_is_no_choice_among_no_tools(server: ScriptedServer, mode: FunctionCallingMode):
    assert "tool_choice" not in await sent(server, tool_config=calling(mode))


@pytest.mark.parametrize(
    ("model", "schema", "said"),
    [
        ("claude-sonnet-4-5", None, "one JSON object"),
        ("claude-3-5-sonnet", OBJECT, '"properties":{"a"'),
        (
            "claude-sonnet-4-5",
            {"type": "object", "additionalProperties": {"type": "string"}},
            "Schema",
        ),
    ],
)
async def test_the_form_of_an_answer_is_told_in_words(
    server: ScriptedServer, model: str, schema: dict[str, Any] | None, said: str
):
    config = GenerationConfig(response_mime_type="application/json", response_json_schema=schema)
    body = await sent(
        server,
        model=model,
        generation_config=config,
        system_instruction=text_content("user", "Be brief."),
    )
    assert "output_config" not in body
    first, second = [item["text"] for item in body["system"]]
    assert first == "Be brief."
    assert said in second


async def test_what_would_be_lost_is_refused_before_anything_is_sent(server: ScriptedServer):
    generator = connected(server)
    async with aclosing(generator):
        refused: list[dict[str, Any]] = [
            {"cached_content": "cachedContents/x"},
            {"tools": (ToolDeclarations(google_search={}),)},
            {"generation_config": GenerationConfig(candidate_count=3)},
        ]
        for config in refused:
            with pytest.raises(DialectError):
                await taken(generator, asking(**config))
            with pytest.raises(DialectError):
                await generator.generate(asking(**config))
    assert server.requests == []


@pytest.mark.requirement("TODAY-02")
@pytest.mark.parametrize(
    "model", ["claude-opus-4-6", "claude-opus-4-7", "claude-sonnet-5", "claude-fable-5-5"]
)
@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"thinking_level": "LOW"}, "low"),
        ({"thinking_level": "MINIMAL"}, "low"),
        ({"thinking_level": "HIGH"}, "high"),
        ({"thinking_budget": 4096}, "medium"),
        ({"thinking_budget": 40_000}, "high"),
        ({"thinking_budget": -1}, None),
    ],
)
async def test_a_newer_claude_gets_an_effort_and_no_budget_or_sampling(
    server: ScriptedServer, model: str, thinking: dict[str, Any], effort: str | None
):
    config = GenerationConfig(
        temperature=0.3, top_p=0.9, top_k=4, thinking_config=ThinkingConfig(**thinking)
    )
    body = await sent(server, model=model, generation_config=config)
    assert body["thinking"] == {"type": "adaptive"}
    assert body.get("output_config") == (None if effort is None else {"effort": effort})
    assert not {"temperature", "top_p", "top_k"} & body.keys()


async def test_a_newer_claude_does_not_think_where_a_tool_is_forced_or_thinking_is_off(
    server: ScriptedServer,
):
    off = GenerationConfig(thinking_config=ThinkingConfig(thinking_budget=0))
    assert "thinking" not in await sent(server, model="claude-opus-4-7", generation_config=off)
    body = await sent(
        server,
        model="claude-opus-4-7",
        tools=tools("f"),
        tool_config=calling(FunctionCallingMode.ANY),
        generation_config=GenerationConfig(thinking_config=THINKING),
    )
    assert "thinking" not in body


@pytest.mark.parametrize(
    ("model", "last"), [("claude-opus-4-7", "user"), ("claude-3-opus", "assistant")]
)
async def test_the_beginning_of_an_answer_is_the_end_of_a_request_only_where_that_is_taken(
    server: ScriptedServer, model: str, last: str
):
    contents = (text_content("user", "Go."), text_content("model", "I"))
    assert (await sent(server, *contents, model=model))["messages"][-1]["role"] == last
