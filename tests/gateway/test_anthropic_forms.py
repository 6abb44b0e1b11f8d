"""Requests of today's clients of Anthropic's Messages API beside plain conversations."""

from typing import Any

import anthropic
import pytest

from tests.gateway.conversation import PNG, SIGNATURE
from tests.gateway.kit import Running, client, gateway
from tests.gateway.test_anthropic_client import connected
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

MODEL = "gemini-3.8-flash"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
SEARCH = {
    "type": "web_search_20250305",
    "name": "web_search",
    "max_uses": 8,
    "allowed_domains": ["example.org"],
}
READ = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
}
ASK = {"role": "user", "content": "Read it."}
USE = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}}
GROUNDING = {
    "webSearchQueries": ["kestrels"],
    "groundingChunks": [{"web": {"uri": "https://example.org/a", "title": "Kestrels"}}, {}],
}


def called(block: dict[str, Any] = USE) -> dict[str, Any]:
    return {"role": "assistant", "content": [block]}


def resulting(*blocks: Any) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": list(blocks)}
    return {"role": "user", "content": [result]}


async def post(running: Running, messages: list[Any], **more: Any) -> Any:
    body = {"model": "claude-opus-4-8", "max_tokens": 99, "messages": messages, **more}
    async with client(running) as http:
        return await http.post("/v1/messages", json=body)


@pytest.mark.requirement("GATE-02")
async def test_system_messages_stand_before_among_and_after_the_others():
    def system(content: Any, **more: Any) -> dict[str, Any]:
        return {"role": "system", "content": content, **more}

    messages = [
        system("First of all."),
        ASK,
        system([{"type": "text", "text": "Agents: Explore."}]),
        system("Only now.", clear_at="next_user_message"),
        called(),
        system("While it runs."),
        resulting({"type": "text", "text": "words"}),
        system("In the end.", clear_at="next_user_message"),
    ]
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, messages, system="Be brief.", tools=[READ])
    assert got.status_code == 200, got.text
    instruction = generator.requests[0].config.system_instruction
    assert [part.text for part in instruction.parts] == ["Be brief.", "First of all."]
    texts = [part.get("text") for content in generator.seen(0) for part in content["parts"]]
    assert [each for each in texts if each] == [
        "Read it.", "Agents: Explore.", "While it runs.", "In the end.",
    ]  # fmt: skip
    assert [content["role"] for content in generator.seen(0)] == ["user", "model", "user", "user"]


@pytest.mark.requirement("GATE-02")
async def test_references_search_results_and_documents_are_read_in_prompts_and_results():
    found = {
        "type": "search_result",
        "source": "https://example.org/s",
        "title": "A page",
        "content": [{"type": "text", "text": "found words"}],
        "citations": {"enabled": True},
    }
    inner: dict[str, Any] = {
        "type": "content",
        "content": [{"type": "text", "text": "p. 1"}, IMAGE],
    }
    plain = {"type": "content", "content": "only words"}
    document = {"type": "document", "source": inner, "title": "Report", "context": "draft"}
    reference = {"type": "tool_reference", "tool_name": "mcp__files__list"}
    prompt = {"role": "user", "content": [found, document, {"type": "document", "source": plain}]}
    earlier = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "text", "text": "I searched."},
        {**USE, "input": '"{\\"file_path\\": \\"a\\"}"'},
    ]
    messages = [
        prompt,
        {"role": "assistant", "content": earlier},
        resulting(reference, found, document),
    ]
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, messages, tools=[READ])
    assert got.status_code == 200, got.text
    asked, said, result = generator.seen(0)
    texts = [part.get("text") for part in asked["parts"]]
    assert texts == [
        "[search result: A page (https://example.org/s)]", "found words",
        "[document title: Report]", "[document context: draft]", "p. 1", None, "only words",
    ]  # fmt: skip
    assert list(said["parts"][0]) == ["text"]
    assert said["parts"][-1]["functionCall"]["args"] == {"file_path": "a"}
    answer = result["parts"][0]["functionResponse"]
    told = answer["response"]["output"]
    assert "mcp__files__list" in told
    assert "found words" in told
    assert "p. 1" in told
    assert answer["parts"][0]["inlineData"]["data"] == PNG


@pytest.mark.requirement("GATE-02")
@pytest.mark.parametrize("stream", [True, False])
async def test_clients_tools_have_public_schemas_and_others_are_left_out_by_name(stream: bool):
    tools = [
        {"type": "bash_20250124", "name": "bash"},
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "memory_20250818", "name": "memory"},
        {"type": "computer_20251124", "name": "computer", "display_width_px": 800,
         "display_height_px": 600},
        {**READ, "defer_loading": True, "input_examples": [], "strict": True},
        {"type": "code_execution_20260521", "name": "code_execution"},
        {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
        SEARCH,
    ]  # fmt: skip
    answer = chunk(call("bash", {"command": "ls"}, id="c1"), finish="STOP")
    generator = ScriptedGenerator([answer])
    async with gateway(generator, model=MODEL) as running:
        choice = {"type": "tool", "name": "web_search"}
        got = await post(running, [ASK], tools=tools, stream=stream, tool_choice=choice)
    assert got.status_code == 200, got.text
    left = "web_search, code_execution, tool_search_tool_bm25, mcp_toolset"
    assert got.headers["x-alhena-left-out"] == left
    config = generator.requests[0].config
    assert config.tool_config is None
    (declared,) = config.tools
    functions = {each.name: each for each in declared.function_declarations}
    assert list(functions) == ["bash", "str_replace_based_edit_tool", "memory", "computer", "Read"]
    properties = functions["bash"].parameters_json_schema["properties"]
    assert set(properties) == {"command", "restart"}
    edit = functions["str_replace_based_edit_tool"].parameters_json_schema
    assert edit["required"] == ["command", "path"]
    assert "rename" in functions["memory"].parameters_json_schema["properties"]["command"]["enum"]
    assert "800 pixels" in functions["computer"].description


@pytest.mark.requirement("GATE-02")
@pytest.mark.parametrize("stream", [True, False])
async def test_a_search_alone_is_geminis_and_its_pages_come_back(stream: bool):
    said = chunk({"text": "Kestrels "}), chunk({"text": "hover."}, finish="STOP")
    said[1]["candidates"][0]["groundingMetadata"] = GROUNDING
    whole = chunk({"text": "Kestrels hover."}, finish="STOP")
    whole["candidates"][0]["groundingMetadata"] = GROUNDING
    generator = ScriptedGenerator(said if stream else [whole])
    fetch = {"type": "web_fetch_20250910", "name": "web_fetch"}
    asked: dict[str, Any] = {
        "model": "claude-opus-4-8",
        "max_tokens": 99,
        "messages": [ASK],
        "tools": [SEARCH, fetch],
        "tool_choice": {"type": "tool", "name": "web_search"},
    }
    async with gateway(generator, model=MODEL) as running, connected(running) as package:
        if stream:
            async with package.messages.stream(**asked) as events:
                message = await events.get_final_message()
        else:
            raw = await package.messages.with_raw_response.create(**asked)
            assert "x-alhena-left-out" not in raw.headers
            message = await raw.parse()
    config = generator.requests[0].config
    assert [(tool.google_search, tool.url_context) for tool in config.tools] == [
        ({}, None),
        (None, {}),
    ]
    assert "example.org" in config.system_instruction.parts[-1].text
    anthropic.types.Message.model_validate(message.model_dump(), strict=True)
    assert [block.type for block in message.content] == [
        "text", "server_tool_use", "web_search_tool_result",
    ]  # fmt: skip
    _, use, result = message.content
    assert (use.name, use.input) == ("web_search", {"query": "kestrels"})
    assert [(page.url, page.title) for page in result.content] == [
        ("https://example.org/a", "Kestrels")
    ]
    assert message.usage.server_tool_use.web_search_requests == 1


@pytest.mark.parametrize(
    ("model", "gemini"), [("gemma-3-27b-it", True), ("anthropic:claude-x", False)]
)
async def test_a_search_is_left_out_where_the_model_has_none(model: str, gemini: bool):
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=model, gemini=gemini) as running:
        got = await post(running, [ASK], tools=[SEARCH])
    assert got.headers["x-alhena-left-out"] == "web_search"
    assert generator.requests[0].config.tools is None


@pytest.mark.requirement("GATE-02")
@pytest.mark.parametrize(
    ("asked", "level", "shown"),
    [
        ({"thinking": {"type": "adaptive"}}, None, True),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, None, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "LOW", True),
        ({"thinking": {"type": "between_tools"}}, None, True),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "LOW", True),
        ({"thinking": {"type": "disabled"}}, "LOW", None),
        ({"output_config": {"effort": "max"}}, "HIGH", None),
    ],
)
async def test_every_form_of_thinking_is_understood(
    asked: dict[str, Any], level: str | None, shown: bool | None
):
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        got = await post(running, [ASK], **asked)
    assert got.status_code == 200, got.text
    thinking = generator.requests[0].config.generation_config.thinking_config
    if level is None:
        assert thinking.thinking_level in (None, "HIGH")
    else:
        assert thinking.thinking_level == level
    assert thinking.include_thoughts is shown


async def test_tools_can_be_added_and_removed_by_system_messages():
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": READ}}
    gone = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Old"}}
    old = {"name": "Old", "input_schema": {"type": "object"}}
    generator = ScriptedGenerator([text("ok")])
    async with gateway(generator, model=MODEL) as running:
        messages = [ASK, {"role": "system", "content": [added, gone]}]
        got = await post(running, messages, tools=[old])
    assert got.status_code == 200, got.text
    (declared,) = generator.requests[0].config.tools
    assert [each.name for each in declared.function_declarations] == ["Read"]


CLAUDE_CODE: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>\n# currentDate\n</system-reminder>"},
                {"type": "text", "text": "Read it.", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {"role": "system", "content": "Available agent types for the Agent tool:\n- Explore"},
    ],
    "system": [
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}}
    ],
    "tools": [READ],
    "metadata": {"user_id": '{"session_id":"x"}'},
    "max_tokens": 64000,
    "thinking": {"type": "adaptive"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "diagnostics": {"previous_message_id": None},
    "stream": True,
}


@pytest.mark.requirement("GATE-02")
async def test_a_conversation_of_claude_code_goes_through():
    use = call("Read", {"file_path": "a"}, id="c1", thoughtSignature=SIGNATURE)
    generator = ScriptedGenerator(
        [chunk({"text": "Let me look."}), chunk(use, finish="STOP")], [text("words")]
    )
    async with gateway(generator, model=MODEL) as running, connected(running) as package:
        async with client(running) as http:
            assert (await http.head("/")).status_code == 200
            assert (await http.get("/")).status_code == 404
        asked = {key: value for key, value in CLAUDE_CODE.items() if key != "stream"}
        betas = ["claude-code-20250219", "mid-conversation-system-2026-04-07"]
        async with package.beta.messages.stream(**asked, betas=betas) as events:
            first = await events.get_final_message()
        assert first.stop_reason == "tool_use"
        told = [block.model_dump(exclude_none=True) for block in first.content]
        result = {"type": "tool_result", "tool_use_id": "c1", "content": "words"}
        asked["messages"] = [
            *asked["messages"],
            {"role": "assistant", "content": told},
            {"role": "user", "content": [result]},
            {"role": "system", "content": "The date has changed."},
        ]
        async with package.beta.messages.stream(**asked, betas=betas) as events:
            last = await events.get_final_message()
    assert last.content[-1].text == "words"
    said = generator.seen(1)[1]["parts"]
    assert said[-1] == {
        "functionCall": {"id": "c1", "name": "Read", "args": {"file_path": "a"}},
        "thoughtSignature": SIGNATURE,
    }


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([{"type": "image", "source": {"type": "url", "url": "https://x.org/a"}}], "source.url"),
        ([{"type": "document", "source": {"type": "file", "file_id": "f"}}], "source.file_id"),
        ([{"type": "container_upload", "file_id": "f"}], "type"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_its_place(content: Any, place: str):
    generator = ScriptedGenerator()
    async with gateway(generator) as running:
        got = await post(running, [{"role": "user", "content": content}])
    assert got.status_code == 400
    assert f"messages[0].content[0].{place}" in got.json()["error"]["message"]
    assert generator.requests == []
