"""Plain JSON bodies: shape, unknown keys, and the three forms a request comes in."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.wire.conformance.json_body import check_json
from tests.support.each import for_each
from tests.wire.histories import histories, request_of

HI: dict[str, Any] = {"role": "user", "parts": [{"text": "hi"}]}


def find_violations(value: object) -> list[tuple[str, str]]:
    return [(item.rule, item.path) for item in check_json(value)]


def step(call: dict[str, Any], response: dict[str, Any], **part: Any) -> dict[str, Any]:
    return {
        "contents": [
            HI,
            {"role": "model", "parts": [{"functionCall": call, **part}]},
            {"role": "user", "parts": [{"functionResponse": response}]},
        ]
    }


CALL = {"name": "f", "args": {}}
RESPONSE = {"name": "f", "response": {"output": "x"}}


@pytest.mark.parametrize(
    ("body", "violations"),
    [
        ({"contents": [{**HI, "id": "1"}]}, [("C4", "contents[0].id")]),
        (
            {"contents": [{"role": "user", "parts": [{"text": "a", "callIndex": 1}]}]},
            [("C4", "contents[0].parts[0].callIndex")],
        ),
        (
            step({**CALL, "thoughtSignature": "QUJD"}, RESPONSE),
            [("C4", "contents[1].parts[0].functionCall.thoughtSignature")],
        ),
        (
            step(CALL, {**RESPONSE, "metadata": {}}),
            [("C4", "contents[2].parts[0].functionResponse.metadata")],
        ),
        ({"contents": [HI], "temperature": 1}, [("C4", "temperature")]),
        (
            {"contents": [HI], "generationConfig": {"thinkingBudget": 1}},
            [("C4", "generationConfig.thinkingBudget")],
        ),
        (
            {"contents": [HI], "tools": [{"functions": []}]},
            [("C4", "tools[0].functions")],
        ),
        (
            {"contents": [{"role": "user", "parts": [{"inlineData": {"data": "AAAA"}}]}]},
            [("C4", "contents[0].parts[0].inlineData")],
        ),
    ],
)
def test_an_unknown_or_missing_key_is_named_with_its_path(
    body: dict[str, Any], violations: list[tuple[str, str]]
) -> None:
    assert find_violations(body) == violations


@for_each(
    ("body", "rule", "path"),
    [
        ([], "C4", "$"),
        ("text", "C4", "$"),
        ({}, "C1", "contents"),
        ({"contents": "hi"}, "C1", "contents"),
        ({"contents": ["hi"]}, "C1", "contents[0]"),
        ({"contents": [{"role": 5, "parts": [{"text": "a"}]}]}, "C1", "contents[0].role"),
        ({"contents": [{"role": "user", "parts": {"text": "a"}}]}, "C2", "contents[0].parts"),
        ({"contents": [{"role": "user", "parts": ["a"]}]}, "C2", "contents[0].parts[0]"),
        (
            {"contents": [{"role": "user", "parts": [{"text": 1}]}]},
            "C4",
            "contents[0].parts[0].text",
        ),
        (
            step({"name": "f", "args": "{}"}, RESPONSE),
            "F8",
            "contents[1].parts[0].functionCall.args",
        ),
        (
            step(CALL, {"name": "f", "response": "done"}),
            "F8",
            "contents[2].parts[0].functionResponse.response",
        ),
        (
            step(CALL, {"name": "f", "response": {"output": [{"a": float("nan")}]}}),
            "F8",
            "contents[2].parts[0].functionResponse.response",
        ),
        (
            step({"name": "f", "args": {"a\ud800": 1}}, RESPONSE),
            "F8",
            "contents[1].parts[0].functionCall.args",
        ),
        ({"contents": [HI], "systemInstruction": "be brief"}, "C8", "systemInstruction"),
        ({"contents": [HI], "tools": {"googleSearch": {}}}, "C4", "tools"),
        (
            {"contents": [HI], "tools": [{"functionDeclarations": [{"description": "d"}]}]},
            "T1",
            "tools[0].functionDeclarations[0]",
        ),
        (
            {"contents": [HI], "tools": [{"functionDeclarations": ["f"]}]},
            "C4",
            "tools[0].functionDeclarations[0]",
        ),
        (
            {
                "contents": [HI],
                "tools": [{"functionDeclarations": [{"name": "f", "parameters": []}]}],
            },
            "T3",
            "tools[0].functionDeclarations[0].parameters",
        ),
        (
            {"contents": [HI], "toolConfig": {"functionCallingConfig": {"mode": "FORCE"}}},
            "T13",
            "toolConfig.functionCallingConfig.mode",
        ),
        (
            {"contents": [HI], "toolConfig": {"functionCallingConfig": {"mode": 1}}},
            "T13",
            "toolConfig.functionCallingConfig.mode",
        ),
    ],
)
def test_a_wrong_shape_breaks_the_rule_that_asks_for_it(body: Any, rule: str, path: str) -> None:
    assert (rule, path) in find_violations(body)


def test_snake_case_keys_are_taken_as_the_api_takes_them() -> None:
    body = {
        "contents": [
            HI,
            {"role": "model", "parts": [{"function_call": CALL, "thought_signature": "QUJD"}]},
            {"role": "user", "parts": [{"function_response": RESPONSE}]},
        ],
        "system_instruction": {"parts": [{"text": "be brief"}]},
        "generation_config": {"max_output_tokens": 5},
    }
    assert find_violations(body) == []


def test_what_belongs_to_a_tool_is_not_searched_for_unknown_keys() -> None:
    body = step({"name": "f", "args": {"file_path": 1, "role": None}}, RESPONSE)
    assert find_violations(body) == []


def test_names_and_keys_are_shown_on_one_printable_line_of_bounded_length() -> None:
    name = "a\x1b[2J\n\ud800" + "x" * 10_000
    body = step({"name": name, "args": {}}, {**RESPONSE, name: 1})
    violations = check_json(body)
    assert {item.rule for item in violations} == {"C4", "F4", "F8"}
    for item in violations:
        assert item.path.isprintable()
        assert item.message.isprintable()
        assert len(item.path) <= 400
        assert len(item.message) <= 400


def test_null_fields_count_as_absent() -> None:
    part = {"text": "a", "functionCall": None, "thoughtSignature": None}
    body = {"contents": [{"role": "user", "parts": [part]}], "tools": None}
    assert find_violations(body) == []


def test_code_assist_nests_everything_under_request() -> None:
    inner = {"contents": [HI], "session_id": "s"}
    outer = {"model": "m", "project": "p", "user_prompt_id": "u", "request": inner}
    assert find_violations(outer) == []
    assert find_violations({**outer, "systemInstruction": HI}) == [("C8", "systemInstruction")]
    assert find_violations({**outer, "extra": 1}) == [("C4", "extra")]
    assert find_violations({"request": []}) == [("C4", "request"), ("C1", "request.contents")]
    assert find_violations({"request": {**inner, "user": 1}}) == [("C4", "request.user")]


def test_requests_in_the_form_of_client_libraries_are_read() -> None:
    config = {
        "systemInstruction": "be brief",
        "temperature": 1,
        "tools": [{"functionDeclarations": [{"name": "f"}]}],
        "abortSignal": {},
    }
    for contents in ("hi", ["hi", {"text": "there"}], [HI], {"text": "hi"}, HI):
        assert find_violations({"model": "m", "contents": contents, "config": config}) == []
    bad = {
        "model": "m",
        "contents": [],
        "config": {"tools": [{"functionDeclarations": [{"name": "1"}]}]},
    }
    assert find_violations(bad) == [
        ("C1", "contents"),
        ("T1", "config.tools[0].functionDeclarations[0].name"),
    ]
    assert find_violations({"contents": [HI], "config": {"tool": []}, "tools": []}) == [
        ("C4", "tools"),
        ("C4", "config.tool"),
    ]
    assert find_violations({"contents": [HI], "config": 5}) == [("C4", "config")]


def test_a_value_nested_without_end_is_read() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert find_violations(step({"name": "f", "args": deep}, RESPONSE)) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("contents", "config", "request", "parts", "role", "text", "functionCall"),
                    *("functionResponse", "name", "args", "response", "id", "tools", "toolConfig"),
                    *("functionDeclarations", "parameters", "functionCallingConfig", "mode"),
                    *("allowedFunctionNames", "systemInstruction", "system_instruction", "x"),
                    *("inlineData", "videoMetadata", "fps", "partialArgs", "thought", "model"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(JSON)
def test_any_json_value_is_judged_without_failing(value: Any) -> None:
    for item in check_json(value, needs_signatures=True):
        assert item.message.endswith(".")
        assert "\n" not in item.path


@settings(max_examples=25)
@given(histories(min_steps=1), JSON, st.data())
def test_a_body_with_one_value_replaced_is_judged_without_failing(
    contents: list[Any], value: Any, data: st.DataObject
) -> None:
    from alhena.wire.encode import encode_request

    body = json.loads(encode_request(request_of(contents)))
    holder: Any = body
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(holder[key], (dict, list)) or not holder[key] or data.draw(st.booleans()):
            break
        holder = holder[key]
    holder[key] = value
    for item in check_json(body):
        assert item.message
