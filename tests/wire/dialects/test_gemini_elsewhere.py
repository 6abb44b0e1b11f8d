"""Gemini requests converted to OpenAI's dialect, or refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from alhena.wire.dialects import gemini, openai
from alhena.wire.dialects.conversation import LEVEL_BUDGETS, thinking_budget
from alhena.wire.dialects.fields import DialectError
from alhena.wire.request import ThinkingConfig
from alhena.wire.schema.adapt import to_json_schema
from tests.support.each import for_each
from tests.wire.dialects.conversations import ids

ASK: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
CITY = {
    "type": "OBJECT",
    "properties": {
        "city": {"type": "STRING", "nullable": True, "minLength": "1"},
        "days": {"type": "INTEGER", "format": "int32", "minimum": 1},
        "kinds": {"type": "ARRAY", "items": {"type": "STRING", "format": "enum", "enum": ["a"]}},
    },
    "required": ["city"],
    "propertyOrdering": ["kinds", "city"],
}
PLAIN = {
    "type": "object",
    "properties": {
        "kinds": {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        "city": {"type": ["string", "null"], "minLength": 1},
        "days": {"type": "integer", "minimum": 1},
    },
    "required": ["city"],
}


def send_body(**body: Any) -> dict[str, Any]:
    return openai.write_request(gemini.read_request({**ASK, **body}, "m"), new_id=ids())


def test_parameters_in_the_apis_own_form_are_json_schema_elsewhere() -> None:
    declared = {"functionDeclarations": [{"name": "f", "parameters": CITY}, {"name": "g"}]}
    first, second = (tool["function"] for tool in send_body(tools=[declared])["tools"])
    assert first["parameters"] == PLAIN
    assert second["parameters"] == {"type": "object"}


@pytest.mark.parametrize(
    ("key", "schema"), [("responseSchema", CITY), ("responseJsonSchema", PLAIN)]
)
def test_a_schema_for_the_answer_is_one_in_either_form(key: str, schema: Any) -> None:
    settings = {"responseMimeType": "application/json", key: schema}
    asked = send_body(generationConfig=settings)["response_format"]
    assert asked == {"type": "json_schema", "json_schema": {"name": "answer", "schema": PLAIN}}


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"type": "TYPE_UNSPECIFIED"}, {}),
        ({"anyOf": [{"type": "STRING"}], "nullable": True}, None),
        ({"type": "STRING", "enum": ["a"], "nullable": True}, None),
        (
            {"defs": {"A": {"type": "NUMBER"}}, "ref": "#/$defs/A"},
            {"$defs": {"A": {"type": "number"}}, "$ref": "#/$defs/A"},
        ),
        ({"type": "STRING", "example": "x"}, {"type": "string", "examples": ["x"]}),
        (PLAIN, PLAIN),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "STRING"}, "nullable": {}}},
            {"type": "object", "properties": {"type": {"type": "string"}, "nullable": {}}},
        ),
        (
            {"type": "OBJECT", "additionalProperties": {"type": "NULL"}},
            {"type": "object", "additionalProperties": {"type": "null"}},
        ),
    ],
)
def test_every_keyword_of_the_older_form_has_a_form_in_json_schema(
    schema: dict[str, Any], plain: dict[str, Any] | None
) -> None:
    made = to_json_schema(schema)
    if plain is not None:
        assert made == plain
    else:
        assert validator_for(made).is_valid(None)
        assert validator_for(made).is_valid("a")
        assert not validator_for(made).is_valid(7)


@for_each(
    ("schema", "plain"),
    [
        ({"type": "INTEGER", "format": "enum", "enum": ["101"]}, {"type": "integer"}),
        ({"type": "INTEGER", "enum": [1]}, {"type": "integer", "enum": [1]}),
        ({"type": "STRING", "enum": ["1"]}, {"type": "string", "enum": ["1"]}),
        (
            {"type": ["STRING", "integer"], "nullable": True},
            {"type": ["string", "integer", "null"]},
        ),
        ({"type": ["string", "null"], "nullable": True}, {"type": ["string", "null"]}),
    ],
)
def test_values_that_are_no_texts_are_not_written_as_texts(
    schema: dict[str, Any], plain: dict[str, Any]
) -> None:
    made = to_json_schema(schema)
    assert made == plain
    assert to_json_schema(made) == made


leaves = st.sampled_from(["STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL"]).map(
    lambda kind: {"type": kind}
)
schemas: st.SearchStrategy[dict[str, Any]] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "ARRAY", "items": items}, inner),
        st.builds(
            lambda properties, nullable: {
                "type": "OBJECT",
                "properties": properties,
                "nullable": nullable,
            },
            st.dictionaries(st.sampled_from(["a", "type", "items"]), inner, max_size=2),
            st.booleans(),
        ),
        st.builds(lambda choices: {"anyOf": choices}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=5,
)


@given(schemas)
def test_any_schema_of_the_older_form_becomes_one_that_can_be_checked(schema: Any) -> None:
    made = to_json_schema(schema)
    validator_for(made)
    assert to_json_schema(made) == made
    if schema.get("nullable"):
        assert validator_for(made).is_valid(None)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"cachedContent": "cachedContents/x"}, "cachedContent"),
        ({"tools": [{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {}}]}, "tools[1]"),
        ({"tools": [{"urlContext": {}}]}, "tools[0]"),
        ({"tools": [{"codeExecution": {}}]}, "tools[0]"),
        ({"generationConfig": {"candidateCount": 3}}, "generationConfig.candidateCount"),
        ({"generationConfig": {"responseLogprobs": True}}, "generationConfig.responseLogprobs"),
        (
            {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
            "generationConfig.responseModalities",
        ),
        ({"generationConfig": {"speechConfig": {"a": 1}}}, "generationConfig.speechConfig"),
        (
            {"generationConfig": {"responseMimeType": "text/x.enum"}},
            "generationConfig.responseMimeType",
        ),
    ],
)
def test_what_would_change_the_answer_and_cannot_be_asked_for_is_refused(
    body: dict[str, Any], place: str
) -> None:
    with pytest.raises(DialectError) as raised:
        send_body(**body)
    assert raised.value.path == place


def test_what_changes_no_answer_is_left_out() -> None:
    body = send_body(
        labels={"a": "b"},
        safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        generationConfig={"candidateCount": 1, "responseModalities": ["TEXT"], "topK": 3},
    )
    assert body.keys() == {"model", "messages"}


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"thinkingLevel": "MINIMAL"}, "minimal"),
        ({"thinkingLevel": "low"}, "low"),
        ({"thinkingLevel": "MEDIUM"}, "medium"),
        ({"thinkingLevel": "HIGH"}, "high"),
        ({"thinkingBudget": 0}, "none"),
        ({"thinkingBudget": 900}, "low"),
        ({"thinkingBudget": -1}, None),
        ({"includeThoughts": True}, None),
    ],
)
def test_how_much_may_be_thought_is_an_effort_elsewhere(
    thinking: dict[str, Any], effort: str | None
) -> None:
    asked = send_body(generationConfig={"thinkingConfig": thinking})
    assert asked.get("reasoning_effort") == effort


def test_a_level_of_thinking_stands_for_tokens_and_a_budget_for_itself() -> None:
    assert thinking_budget(ThinkingConfig(thinking_level="HIGH")) == LEVEL_BUDGETS["HIGH"]
    assert thinking_budget(ThinkingConfig(thinking_level="HIGH", thinking_budget=5)) == 5
    assert thinking_budget(ThinkingConfig(thinking_level="NEW")) is None
    assert thinking_budget(None) is None


def test_a_document_by_its_url_is_no_picture() -> None:
    files = [
        {"fileData": {"mimeType": "application/pdf", "fileUri": "https://e.example/x.pdf"}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://e.example/x.png"}},
        {"fileData": {"fileUri": "https://e.example/y"}},
    ]
    (message,) = send_body(contents=[{"role": "user", "parts": files}])["messages"]
    assert message["content"] == [
        {"type": "text", "text": "[application/pdf: https://e.example/x.pdf]"},
        {"type": "image_url", "image_url": {"url": "https://e.example/x.png"}},
        {"type": "image_url", "image_url": {"url": "https://e.example/y"}},
    ]


def test_instructions_alone_are_answered_as_words_of_the_user() -> None:
    told = [{"role": "system", "content": "Say hello."}, {"role": "developer", "content": "Now."}]
    request = openai.read_request({"model": "m", "messages": told})
    assert request.config.system_instruction is None
    (content,) = request.contents
    assert content.role == "user"
    assert [part.text for part in content.parts] == ["Say hello.", "Now."]
    with pytest.raises(DialectError, match="contains no message"):
        openai.read_request({"model": "m", "messages": [{"role": "system", "content": ""}]})
