"""Options that would change the answer are sent on or refused, never dropped unseen."""

from typing import Any

import pytest

from alhena.wire.conformance.repair import repair
from alhena.wire.content import USER, text_content
from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.dialects.fields import DialectError
from tests.support.each import for_each
from tests.wire.dialects.conversations import ids

ASK = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
FORM = {"type": "json_schema", "schema": SCHEMA}


def asking(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [ASK], **fields}


@for_each(
    "fields",
    [
        {"mcp_servers": [{"name": "x"}]},
        {"container": "c"},
        {"context_management": {"edits": [{}]}},
        {"context_management": {"edits": [{"type": "clear_x"}, {"type": "compact_20260112"}]}},
        {"thinking": {"type": "enabled", "budget_tokens": -5}},
        {"max_tokens": 0},
        {"max_tokens": -5},
        {"temperature": 1e39},
        {"max_tokens": 10**400},
        {"output_config": {"format": {"type": "xml"}}},
    ],
)
def test_what_the_messages_api_asks_for_and_gemini_cannot_do_is_refused(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(DialectError) as raised:
        anthropic.read_request(asking(**fields))
    assert raised.value.path.startswith(next(iter(fields)))


@pytest.mark.parametrize(
    "fields",
    [
        {"web_search_options": {}},
        {"modalities": ["text", "audio"]},
        {"audio": {"voice": "a"}},
        {"logit_bias": {"1": -100}},
        {"top_logprobs": 3},
        {"max_tokens": 0},
        {"max_completion_tokens": -1},
        {"temperature": -1e39},
    ],
)
def test_what_a_chat_completion_asks_for_and_gemini_cannot_do_is_refused(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(DialectError) as raised:
        openai.read_request(asking(**fields))
    assert raised.value.path.startswith(next(iter(fields)))


@pytest.mark.parametrize(
    "management",
    [
        None,
        {},
        {"edits": []},
        {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        {
            "edits": [
                {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 3}}
            ]
        },
    ],
)
def test_edits_of_the_context_that_only_clear_are_no_reason_to_refuse(management: Any) -> None:
    read = anthropic.read_request(asking(context_management=management))
    assert anthropic.write_request(read, new_id=ids()) == anthropic.write_request(
        anthropic.read_request(asking()), new_id=ids()
    )


def test_options_that_ask_for_nothing_are_no_reason_to_refuse() -> None:
    nothing = {"modalities": ["text"], "logit_bias": {}, "top_logprobs": 0, "audio": None}
    openai.read_request(asking(**nothing, verbosity="low", parallel_tool_calls=False))
    anthropic.read_request(asking(mcp_servers=[], container=None))


@pytest.mark.parametrize("fields", [{"output_config": {"format": FORM}}, {"output_format": FORM}])
def test_the_schema_of_an_answer_reaches_the_model_and_comes_back(fields: dict[str, Any]) -> None:
    request = anthropic.read_request(asking(**fields))
    generation = request.config.generation_config
    assert generation is not None
    assert generation.response_json_schema == SCHEMA
    assert generation.response_mime_type == "application/json"
    written = anthropic.write_request(request, new_id=ids())
    assert written["output_config"] == {"format": FORM}


def test_title_and_context_of_a_document_stand_as_text_before_it() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "words"}
    document: dict[str, Any] = {"type": "document", "source": source}
    about = {**document, "title": "Q3", "context": "draft"}
    request = anthropic.read_request(asking(messages=[{"role": "user", "content": [about]}]))
    texts = [part.text for part in request.contents[0].parts]
    assert texts == ["[document title: Q3]", "[document context: draft]", None]
    cited = {**document, "citations": {"enabled": True}}
    with pytest.raises(DialectError, match="citations"):
        anthropic.read_request(asking(messages=[{"role": "user", "content": [cited]}]))


def test_geminis_settings_of_service_go_through() -> None:
    body = {
        "contents": [{"role": "user", "parts": [{"text": "x"}]}],
        "serviceTier": "flex",
        "modelArmorConfig": {"promptTemplateName": "t"},
        "store": False,
    }
    assert gemini.write_request(gemini.read_request(body, "m")) == body


def test_a_hundred_thousand_messages_of_one_role_become_one_content() -> None:
    count = 100_000
    request = anthropic.read_request(asking(messages=[ASK] * count))
    assert [len(content.parts) for content in request.contents] == [count]
    repaired = repair([text_content(USER, "x")] * count)
    assert [len(content.parts) for content in repaired.contents] == [count]


def test_results_in_another_order_than_their_calls_come_back_with_them() -> None:
    names = ("a", "b", "c")
    calls = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in names]
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    results = [
        {
            "type": "tool_result",
            "tool_use_id": one,
            "content": [image, {"type": "text", "text": f"[media 1]\n{one}"}, image],
        }
        for one in reversed(names)
    ]
    messages = [
        ASK,
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    request = anthropic.read_request(asking(messages=messages))
    written = anthropic.write_request(request, new_id=ids())
    assert written["messages"][2]["content"] == results[::-1]


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "f"}}], ids=str
)
def test_a_call_that_is_demanded_of_no_tools_is_the_clients_error(choice: Any) -> None:
    with pytest.raises(DialectError) as raised:
        openai.read_request(asking(tool_choice=choice))
    assert raised.value.path == "tool_choice"


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_choice_among_no_tools_says_nothing(choice: str) -> None:
    request = openai.read_request(asking(tool_choice=choice, tools=[]))
    assert request.config.tool_config is None


@pytest.mark.parametrize("mode", ["AUTO", "NONE", "VALIDATED"])
def test_a_choice_among_no_tools_is_not_sent_to_another_service(mode: str) -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    choice = {"toolConfig": {"functionCallingConfig": {"mode": mode}}}
    assert "tool_choice" not in openai.write_request(
        gemini.read_request(body | choice, "m"), new_id=ids()
    )
    choice["toolConfig"]["functionCallingConfig"]["mode"] = "ANY"
    with pytest.raises(DialectError, match="toolConfig"):
        openai.write_request(gemini.read_request(body | choice, "m"), new_id=ids())
