"""The rules for declarations and settings: T1-T3, T13, T15, C8."""

import json
from typing import Any

import pytest

from alhena.wire.conformance.check import RequestGate, check_request
from alhena.wire.conformance.json_body import check_json, repair_json
from alhena.wire.content import Content, Part
from alhena.wire.encode import encode_request
from alhena.wire.errors import ConformanceError, Severity, Violation
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ToolConfig,
    ToolDeclarations,
)
from tests.support.each import for_each
from tests.wire.histories import CONFIG, NAMES, PNG, request_of, user

HI = user(Part(text="hi"))


def with_config(**settings: Any) -> tuple[Violation, ...]:
    return check_request(request_of([HI], GenerateContentConfig(**settings)))


def declare_tools(*names: str, **fields: Any) -> ToolDeclarations:
    return ToolDeclarations(
        function_declarations=tuple(FunctionDeclaration(name=name, **fields) for name in names)
    )


def calling(mode: FunctionCallingMode, *names: str) -> ToolConfig:
    return ToolConfig(
        function_calling_config=FunctionCallingConfig(mode=mode, allowed_function_names=names)
    )


OBJECT = {"type": "object"}
CONFIG_CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("C8", "systemInstruction", {"system_instruction": Content()}),
    ("C8", "systemInstruction.parts[0]", {"system_instruction": user(Part(inline_data=PNG))}),
    (
        "C8",
        "systemInstruction.parts[1]",
        {"system_instruction": user(Part(text="a"), Part(text=""))},
    ),
    ("T1", "tools[0].functionDeclarations[0].name", {"tools": (declare_tools(""),)}),
    ("T1", "tools[0].functionDeclarations[0].name", {"tools": (declare_tools("1st"),)}),
    ("T1", "tools[0].functionDeclarations[0].name", {"tools": (declare_tools("read file"),)}),
    ("T1", "tools[0].functionDeclarations[0].name", {"tools": (declare_tools("lesen_ä"),)}),
    ("T1", "tools[0].functionDeclarations[0].name", {"tools": (declare_tools("a" * 65),)}),
    ("T2", "tools[0].functionDeclarations[1].name", {"tools": (declare_tools("a", "a"),)}),
    ("T2", "tools[1].functionDeclarations", {"tools": (declare_tools("a"), declare_tools("b"))}),
    (
        "T3",
        "tools[0].functionDeclarations[0]",
        {"tools": (declare_tools("a", parameters=OBJECT, parameters_json_schema=OBJECT),)},
    ),
    (
        "T3",
        "tools[0].functionDeclarations[0].parametersJsonSchema",
        {"tools": (declare_tools("a", parameters_json_schema={"type": "string"}),)},
    ),
    (
        "T3",
        "tools[0].functionDeclarations[0].parameters",
        {"tools": (declare_tools("a", parameters={"type": "ARRAY", "items": {"type": "STRING"}}),)},
    ),
    (
        "T13",
        "toolConfig.functionCallingConfig.allowedFunctionNames",
        {"tools": (declare_tools("a"),), "tool_config": calling(FunctionCallingMode.AUTO, "a")},
    ),
    (
        "T13",
        "toolConfig.functionCallingConfig.allowedFunctionNames[1]",
        {"tools": (declare_tools("a"),), "tool_config": calling(FunctionCallingMode.ANY, "a", "b")},
    ),
    *(
        (
            "T13",
            "toolConfig.functionCallingConfig",
            {
                "tools": tools,
                "tool_config": ToolConfig(function_calling_config=FunctionCallingConfig(mode=mode)),
            },
        )
        for mode in FunctionCallingMode
        for tools in (None, (ToolDeclarations(google_search={}),))
    ),
]


@for_each(("rule", "path", "given_settings"), CONFIG_CASES)
def test_a_broken_rule_of_the_settings_is_named_with_its_path(
    rule: str, path: str, given_settings: dict[str, Any]
) -> None:
    found = with_config(**given_settings)
    assert [(item.rule, item.path, item.level) for item in found] == [(rule, path, Severity.ERROR)]
    config = GenerateContentConfig(**given_settings)
    body = json.loads(encode_request(request_of([HI], config)))
    assert [(item.rule, item.path) for item in check_json(body)] == [(rule, path)]


def test_names_that_only_some_services_take_are_a_warning() -> None:
    for name in ("a:b", "a" * 64):
        found = with_config(tools=(declare_tools(name),))
        assert [(item.rule, item.level) for item in found] == [("T1", Severity.WARNING)]
    assert with_config(tools=(declare_tools("_a.b-C9", "a" * 63),)) == ()


def test_functions_where_the_answer_has_to_be_json_are_a_warning() -> None:
    form = GenerationConfig(response_mime_type="application/json", response_json_schema=OBJECT)
    [found] = with_config(tools=(declare_tools("a"),), generation_config=form)
    assert (found.rule, found.level) == ("T15", Severity.WARNING)
    assert found.path == "generationConfig.responseMimeType"
    config = GenerateContentConfig(tools=(declare_tools("a"),), generation_config=form)
    body = json.loads(encode_request(request_of([HI], config)))
    assert [(item.rule, item.path) for item in check_json(body)] == [(found.rule, found.path)]
    assert with_config(generation_config=form) == ()


@pytest.mark.parametrize("mode", [None, "AUTO", "NONE", "VALIDATED"])
def test_a_calling_mode_with_nothing_to_call_is_left_out(mode: str | None) -> None:
    calling = FunctionCallingConfig(mode=FunctionCallingMode(mode) if mode else None)
    place = {"latLng": {"latitude": 1, "longitude": 2}}
    for rest, left in ((None, None), (place, ToolConfig(retrieval_config=place))):
        tools = ToolConfig(function_calling_config=calling, retrieval_config=rest)
        request = request_of([HI], GenerateContentConfig(tool_config=tools))
        admitted, repairs = RequestGate().admit(request)
        assert admitted.config.tool_config == left
        assert [(item.rule, item.path) for item in repairs] == [
            ("T13", "toolConfig.functionCallingConfig")
        ]


def test_a_call_that_is_demanded_where_nothing_can_be_called_is_not_sent() -> None:
    config = GenerateContentConfig(tool_config=calling(FunctionCallingMode.ANY))
    with pytest.raises(ConformanceError) as raised:
        RequestGate().admit(request_of([HI], config))
    assert [item.rule for item in raised.value.violations] == ["T13"]


@pytest.mark.parametrize(
    ("key", "inner"),
    [("toolConfig", "functionCallingConfig"), ("tool_config", "function_calling_config")],
)
def test_the_calling_mode_of_a_body_is_left_out_in_every_form_of_it(key: str, inner: str) -> None:
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    settings = {key: {inner: {"mode": "AUTO"}}}
    for body in (
        {"contents": contents, **settings},
        {"model": "m", "request": {"contents": contents, **settings}},
        {"model": "m", "contents": contents, "config": settings},
    ):
        assert [item.rule for item in check_json(body)] == ["T13"]
        done = repair_json(body)
        assert done.violations == ()
        assert [item.rule for item in done.repairs] == ["T13"]
        assert inner not in json.dumps(done.body)
    demanded = {"contents": contents, key: {inner: {"mode": "ANY"}}}
    assert [item.rule for item in repair_json(demanded).violations] == ["T13"]


def test_well_formed_settings_pass() -> None:
    upper = {"type": "OBJECT"}
    assert (
        with_config(
            tools=(declare_tools("a", parameters=upper),),
            tool_config=calling(FunctionCallingMode.ANY, "a"),
        )
        == ()
    )
    assert CONFIG.function_names() == NAMES
