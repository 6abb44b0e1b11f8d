"""The rules for schemas: T4-T10, and T12."""

import json
from typing import Any

import pytest

from alhena.wire.conformance.check import MAX_NESTING, check_request
from alhena.wire.conformance.json_body import check_json
from alhena.wire.content import Part
from alhena.wire.encode import encode_request
from alhena.wire.errors import Severity, Violation
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ToolDeclarations,
)
from tests.support.each import for_each
from tests.wire.histories import request_of, user

HI = user(Part(text="hi"))
PLACE = "tools[0].functionDeclarations[0].parameters"
TEXT = {"type": "STRING"}


def holding(**node: Any) -> dict[str, Any]:
    return {"type": "OBJECT", "properties": {"x": node}}


SCHEMA_CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("T4", ".$schema", {"type": "OBJECT", "$schema": "x"}),
    ("T4", ".properties.x.const", holding(type="STRING", const="a")),
    ("T4", ".properties.x.oneOf", holding(type="STRING", oneOf=[TEXT])),
    ("T4", ".properties.x", {"type": "OBJECT", "properties": {"x": True}}),
    ("T4", ".properties.x.defs", holding(type="STRING", defs={})),
    ("T5", ".properties.x", holding(description="d")),
    ("T5", ".properties.x.type", holding(type=["string", "null"])),
    ("T5", ".properties.x.type", holding(type="")),
    ("T5", ".properties.x.anyOf[0].type", holding(anyOf=[{"type": "any"}])),
    ("T6", ".properties.x.enum", holding(type="STRING", enum=[1])),
    ("T6", ".properties.x.enum", holding(type="STRING", enum=["a", ""])),
    ("T6", ".properties.x.enum", holding(type="INTEGER", enum=["1"])),
    ("T7", ".properties", {"type": "OBJECT", "properties": []}),
    ("T7", ".properties.x.properties", holding(type="STRING", properties={"a": TEXT})),
    ("T7", ".properties.x.required", holding(type="STRING", required=["a"])),
    ("T7", ".required", holding(type="STRING") | {"required": ["y"]}),
    ("T7", ".required", holding(type="STRING") | {"required": "x"}),
    ("T7", ".properties.x", holding(type="ARRAY")),
    ("T8", ".properties.x.format", holding(type="STRING", format="uri")),
    ("T9", ".properties.x.type", holding(ref="#/defs/a", type="STRING")),
]


def declare_function(**fields: Any) -> GenerateContentConfig:
    return GenerateContentConfig(
        tools=(ToolDeclarations(function_declarations=(FunctionDeclaration(name="a", **fields),)),)
    )


def find_violations(config: GenerateContentConfig) -> tuple[Violation, ...]:
    request = request_of([HI], config)
    typed = check_request(request)
    assert check_json(json.loads(encode_request(request))) == typed
    return typed


@for_each(("rule", "path", "schema"), SCHEMA_CASES)
def test_a_broken_rule_of_a_schema_is_named_with_its_path(
    rule: str, path: str, schema: dict[str, Any]
) -> None:
    broken = [
        (item.rule, item.path, item.level)
        for item in find_violations(declare_function(parameters=schema))
    ]
    assert (rule, f"{PLACE}{path}", Severity.ERROR) in broken
    settings = GenerationConfig(response_schema=schema)
    answer = find_violations(GenerateContentConfig(generation_config=settings))
    assert (rule, f"generationConfig.responseSchema{path}") in [(i.rule, i.path) for i in answer]


@pytest.mark.parametrize(
    "schema",
    [
        holding(type="string", enum=["a"], format="enum", nullable=True),
        holding(anyOf=[TEXT, {"type": "NUMBER", "format": "float"}]),
        holding(type="ARRAY", items={"type": "OBJECT"}, min_items=1) | {"required": ["x"]},
        {"type": "OBJECT", "properties": {"x": {"ref": "#/defs/a"}}, "defs": {"a": TEXT}},
    ],
)
def test_what_the_form_has_passes(schema: dict[str, Any]) -> None:
    schema = json.loads(json.dumps(schema).replace("min_items", "minItems"))
    assert find_violations(declare_function(parameters=schema)) == ()


def test_what_only_some_services_refuse_is_a_warning() -> None:
    given = {"type": "OBJECT", "properties": {}, "additionalProperties": False}
    assert [
        (item.rule, item.level) for item in find_violations(declare_function(parameters=given))
    ] == [
        ("T4", Severity.WARNING),
        ("T7", Severity.WARNING),
    ]


def nested_schema(levels: int, **leaf: Any) -> dict[str, Any]:
    schema: dict[str, Any] = leaf
    for _ in range(levels):
        schema = holding(**schema)
    return schema


@pytest.mark.parametrize("form", ["parameters", "parameters_json_schema"])
def test_nesting_without_measure_is_warned_of_and_ends(form: str) -> None:
    kind = {"type": "STRING"} if form == "parameters" else {"type": "string"}

    def rules(levels: int) -> list[str]:
        schema = json.loads(json.dumps(nested_schema(levels, **kind)).replace("OBJECT", "object"))
        request = request_of([HI], declare_function(**{form: schema}))
        return [item.rule for item in check_request(request)]

    assert rules(MAX_NESTING - 1) == []
    assert rules(MAX_NESTING + 1) == ["T10"]
    assert rules(200) == ["T10"]


def test_a_schema_that_refers_to_itself_is_warned_of() -> None:
    itself = {"type": "object", "properties": {"x": {"$ref": "#"}}}
    assert [
        item.rule for item in find_violations(declare_function(parameters_json_schema=itself))
    ] == ["T10"]
    other = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "string"}},
    }
    assert find_violations(declare_function(parameters_json_schema=other)) == ()


def test_tools_of_the_server_beside_functions_are_warned_of() -> None:
    search = ToolDeclarations(google_search={})
    config = declare_function(parameters_json_schema={"type": "object"})
    mixed = GenerateContentConfig(tools=(*(config.tools or ()), search))
    assert [(item.rule, item.path) for item in find_violations(mixed)] == [
        ("T12", "tools[1].googleSearch")
    ]
    assert find_violations(GenerateContentConfig(tools=(search,))) == ()
