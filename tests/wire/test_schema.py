"""Schemas on their way to a model: adapted ones accept all that the given ones do."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alhena.wire.conformance import ConformanceFindings
from alhena.wire.conformance.check import check_schema
from alhena.wire.errors import Severity
from alhena.wire.request import FunctionDeclaration, GenerateContentConfig, ToolDeclarations
from alhena.wire.schema.adapt import (
    MAX_DEPTH,
    SchemaForm,
    adapt,
    adapt_declaration,
    local_schema,
    with_form,
)
from alhena.wire.schema.keywords import is_plain, refers_to_itself, untyped_at
from alhena.wire.schema.openapi import SchemaError, to_parameters

WORDS = ["a", "b", "c", "path", "a b"]
words = st.sampled_from(WORDS)
scalars = st.sampled_from([None, True, False, 0, 1, -3, 2.5, "", "a", "b"])

values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def _typed_objects(
    name: str, **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    told = {"description": words, "title": words}
    return _optional(**fields, **told).map(lambda node: {"type": name} | node)


numbers = st.sampled_from([-2, 0, 1, 1.5, 4])
strings = _typed_objects(
    "string",
    minLength=st.integers(0, 2),
    maxLength=st.integers(0, 3),
    enum=st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=3, unique=True),
    pattern=st.just("^a"),
    format=st.sampled_from(["uri", "date-time", "email"]),
)
integers = _typed_objects(
    "integer",
    minimum=numbers,
    maximum=numbers,
    exclusiveMinimum=numbers,
    exclusiveMaximum=numbers,
    multipleOf=st.just(2),
    enum=st.lists(st.integers(-1, 1), min_size=1, max_size=2, unique=True),
)
fractions = _typed_objects("number", minimum=numbers, exclusiveMaximum=numbers)
leaves = (
    strings
    | integers
    | fractions
    | _typed_objects("boolean")
    | st.just({"type": "null"})
    | st.sampled_from([{"const": "a"}, {"enum": ["a", 1, None]}, {"type": ["string", "null"]}])
    | st.sampled_from([{"type": ["integer", "string"], "minimum": 0}, {"$ref": "#/$defs/name"}])
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = _typed_objects(
        "array",
        items=inner,
        minItems=st.integers(0, 1),
        maxItems=st.integers(0, 2),
        uniqueItems=st.booleans(),
    )
    combined = st.tuples(
        st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)
    ).map(lambda pair: {pair[0]: pair[1]})
    return arrays | objects_of(inner) | combined


def objects_of(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return _typed_objects(
        "object",
        properties=st.dictionaries(words, inner, max_size=3),
        required=st.lists(words, max_size=2, unique=True),
        additionalProperties=st.booleans() | inner,
        minProperties=st.integers(0, 1),
        patternProperties=st.just({"^p": {"type": "string"}}),
    )


nodes = st.recursive(leaves, _containers, max_leaves=6)
parameters = objects_of(nodes).map(
    lambda node: {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"name": {"type": "string", "minLength": 1}},
        **node,
    }
)


def as_json_schema(node: dict[str, Any]) -> dict[str, Any]:
    """JSON Schema that accepts the same values as a schema in the API's form."""
    if "anyOf" in node:
        return {"anyOf": [as_json_schema(item) for item in node["anyOf"]]}
    made = {key: value for key, value in node.items() if key not in ("nullable", "example")}
    made["type"] = node["type"].lower()
    if "items" in node:
        made["items"] = as_json_schema(node["items"])
    if "properties" in node:
        made["properties"] = {
            name: as_json_schema(item) for name, item in node["properties"].items()
        }
    return {"anyOf": [made, {"type": "null"}]} if node.get("nullable") else made


OBJECT = {"type": "object"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def older(schema: dict[str, Any]) -> dict[str, Any]:
    made = to_parameters(local_schema(schema))
    assert made is not None
    return made


def one(schema: Any, **defs: Any) -> dict[str, Any]:
    """One property in the older form."""
    return older(of(x=schema) | ({"$defs": defs} if defs else {}))["properties"]["x"]


def errors(schema: object) -> list[str]:
    findings = ConformanceFindings()
    check_schema(schema, "p", findings)
    return [f"{i.rule} {i.path}" for i in findings.violations if i.level == Severity.ERROR]


def no_refs(value: object) -> bool:
    return '"$ref"' not in json.dumps(value)


MOST_LISTS = 2
"""Lists directly within one another that the older form takes where a schema says nothing."""


def run_of_lists(value: Any, above: int = 0) -> int:
    """The most lists directly within one another."""
    match value:
        case [*inner]:
            return max([above + 1, *(run_of_lists(each, above + 1) for each in inner)])
        case {**inner}:
            return max([0, *map(run_of_lists, inner.values())])
        case _:
            return 0


@settings(max_examples=40, deadline=None)
@given(parameters, st.lists(st.dictionaries(words, values, max_size=4), max_size=8))
def test_adapted_schemas_are_valid_and_accept_what_the_given_one_does(
    schema: dict[str, Any], candidates: list[dict[str, Any]]
) -> None:
    before = json.dumps(schema)
    local = local_schema(schema)
    assert json.dumps(schema) == before
    assert no_refs(local)
    jsonschema_rs.meta.validate(local)
    made = to_parameters(local)
    assert made is None or errors(made) == []
    original = jsonschema_rs.validator_for(schema)
    for candidate in candidates:
        if original.is_valid(candidate):
            assert jsonschema_rs.is_valid(local, candidate)
            if made is not None and run_of_lists(candidate) <= MOST_LISTS:
                assert jsonschema_rs.is_valid(as_json_schema(made), candidate)


@settings(max_examples=20, deadline=None)
@given(parameters)
def test_adapting_twice_changes_nothing_more(schema: dict[str, Any]) -> None:
    local = local_schema(schema)
    assert local_schema(local) == local


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "properties",
                        "items",
                        "$ref",
                        "anyOf",
                        "oneOf",
                        "allOf",
                        "not",
                        "enum",
                    ),
                    *("required", "const", "prefixItems", "additionalProperties", "minimum", "if"),
                    *(
                        "exclusiveMinimum",
                        "description",
                        "minLength",
                        "format",
                        "examples",
                        "$defs",
                    ),
                ]
            )
            | st.text(max_size=2),
            inner | st.sampled_from(["#", "#/properties", "object", "string", "\ud800"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(JSONISH)
@example({"properties": {"x": {"items": [True]}}})
def test_whatever_is_given_as_a_schema_ends_in_a_schema_or_a_reason(value: Any) -> None:
    try:
        local = local_schema(value)
        made = to_parameters(local)
    except SchemaError:
        return
    assert no_refs(local) or "$ref" in json.dumps(value)
    assert local["type"] == "object"
    jsonschema_rs.meta.validate(local)
    json.dumps(local).encode("utf-8")
    assert made is None or errors(made) == []


def test_local_references_are_resolved_and_others_said_not_to_be() -> None:
    schema = of(
        a={"$ref": "#/$defs/a%20b"},
        b={"$ref": "#/$defs/x~1y", "description": "mine"},
        c={"$ref": "https://example.com/s.json"},
        d={"$ref": "#/$defs/none"},
        e={"$ref": "#/$defs/list/1"},
        f={"$ref": 7},
    )
    schema["$defs"] = {
        "a b": {"type": "string"},
        "x/y": {"type": "integer", "description": "theirs"},
        "list": [{}, {"type": "boolean"}],
    }
    assert local_schema(schema) == of(
        a={"type": "string"},
        b={"type": "integer", "description": "mine"},
        c={"description": "(https://example.com/s.json is not described here)"},
        d={"description": "(#/$defs/none is not described here)"},
        e={"type": "boolean"},
        f={"description": "(a reference that is no text is not followed)"},
    )


def test_what_stands_beside_a_reference_holds_as_well() -> None:
    schema = of(x={"$ref": "#/$defs/n", "minimum": 3, "type": "integer"})
    schema["$defs"] = {"n": {"type": "integer", "minimum": 1, "maximum": 9}}
    assert older(schema)["properties"]["x"] == {
        "type": "INTEGER",
        "minimum": 1,
        "maximum": 9,
        "description": "(minimum: 3)",
    }


OLDER_GENERATIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "integer", "minimum": 1, "exclusiveMinimum": True, "exclusiveMaximum": False},
        {"type": "integer", "exclusiveMinimum": 1},
    ),
    (
        {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
    ),
    (
        {"type": "string", "enum": ["a"], "nullable": True},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    ({"type": "string", "required": True}, {"type": "string"}),
    ({"type": ["string", "file"]}, {"description": '(type: ["string","file"])'}),
    ({"type": "any", "description": "d"}, {"description": 'd (type: "any")'}),
    (
        {"type": "object", "required": ["a", "a", 1], "properties": None, "minProperties": "1"},
        {"type": "object", "properties": {}},
    ),
]


@pytest.mark.parametrize(("said", "meant"), OLDER_GENERATIONS)
def test_what_older_generations_said_is_said_as_it_is_now(
    said: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert local_schema(of(x=said)) == of(x=meant)
    assert errors(older(of(x=said))) == []


def test_recursion_is_cut_where_it_returns() -> None:
    tree = of(value={"type": "string"}, children={"type": "array", "items": {"$ref": "#"}})
    assert refers_to_itself(tree)
    local = local_schema(tree)
    assert not refers_to_itself(local)
    assert local["properties"]["children"]["items"] == {
        "type": "object",
        "description": "(# again, in itself; not described again)",
    }
    mutual = of(a={"$ref": "#/$defs/a"})
    mutual["$defs"] = {"a": of(b={"$ref": "#/$defs/b"}), "b": of(a={"$ref": "#/$defs/a"})}
    assert refers_to_itself(mutual)
    inner = local_schema(mutual)["properties"]["a"]["properties"]["b"]["properties"]["a"]
    assert inner == {
        "type": "object",
        "description": "(#/$defs/a again, in itself; not described again)",
    }
    assert not refers_to_itself(
        of(a={"$ref": "#/$defs/s"}, b={"$ref": "#/$defs/s"}) | {"$defs": {"s": {"type": "string"}}}
    )


def test_a_cut_never_makes_a_schema_refuse_more() -> None:
    node: dict[str, Any] = {"not": {"$ref": "#"}, "oneOf": [{"$ref": "#"}, {"type": "string"}]}
    local = local_schema(of(x=node) | {"type": "object"})
    made = local["properties"]["x"]
    assert "not" not in made
    assert "oneOf" not in made
    assert made["description"] == "(not: not described)"
    assert jsonschema_rs.is_valid(local, {"x": "text"})


def test_nesting_is_bounded_however_deep_a_schema_is() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = of(x=deep)
    local = local_schema(deep)
    depth, node = 0, local
    while "properties" in node:
        depth, node = depth + 1, node["properties"]["x"]
    assert depth == MAX_DEPTH
    assert node == {"type": "object", "description": "(deeper levels are not described)"}
    assert errors(to_parameters(local)) == []
    circular: dict[str, Any] = of()
    circular["properties"]["x"] = circular
    assert local_schema(circular)["type"] == "object"


def test_schemas_that_multiply_are_refused_in_bounded_time() -> None:
    defs: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 20):
        below = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = of(a=below, b=below)
    with pytest.raises(SchemaError, match="more than 4000 nodes"):
        local_schema(of(x={"$ref": "#/$defs/d19"}) | {"$defs": defs})
    with pytest.raises(SchemaError, match="bytes"):
        local_schema(of(x={"type": "string", "description": "é" * 200_000}))


@pytest.mark.parametrize("schema", [None, [], "object", {"type": "string"}, {"type": ["array"]}])
def test_parameters_that_are_no_object_are_refused(schema: Any) -> None:
    with pytest.raises(SchemaError):
        local_schema(schema)


def test_a_type_is_added_where_only_the_root_lacks_one() -> None:
    assert local_schema({"properties": {"a": {"type": "string"}}})["type"] == "object"
    assert local_schema({"type": ["null", "object"]}) == OBJECT


def test_a_plain_declaration_stays_the_same_object() -> None:
    declaration = FunctionDeclaration(
        name="f", parameters_json_schema=of(a={"type": "string", "minLength": 1})
    )
    assert adapt_declaration(declaration) is declaration
    own = FunctionDeclaration(name="g", parameters={"type": "OBJECT"})
    assert adapt_declaration(own, SchemaForm.OPENAPI) is own


@pytest.mark.parametrize("form", list(SchemaForm))
def test_one_that_cannot_be_adapted_is_left_out_by_name_and_the_others_go_on(
    form: SchemaForm,
) -> None:
    good = FunctionDeclaration(name="good", parameters_json_schema=of(a={"type": "string"}))
    bad = FunctionDeclaration(name="bad", parameters_json_schema={"type": "string"})
    done = adapt([bad, good], form)
    assert [item.name for item in done.declarations] == ["good"]
    assert [(item.name, item.reason) for item in done.left_out] == [
        ("bad", "the parameters are not an object but ['string'].")
    ]
    config = GenerateContentConfig(tools=(ToolDeclarations(function_declarations=(bad,)),))
    assert with_form(config, form)[0].tools is None


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (of(a={"type": "string"}), None),
        ({"anyOf": [{"type": "string"}, of(a={})]}, "$.anyOf[1].properties.a"),
        (of(a={"type": "array", "items": {"enum": [1]}}), "$.properties.a.items"),
        ({"properties": {}}, "$"),
        ({"type": "object", "properties": {"a": True}}, "$.properties.a"),
    ],
)
def test_the_place_without_a_type_is_named(schema: Any, place: str | None) -> None:
    assert untyped_at(schema) == place


@settings(max_examples=40, deadline=None)
@given(parameters | JSONISH)
def test_a_plain_schema_is_what_adapting_makes_of_it(value: Any) -> None:
    if is_plain(value):
        assert local_schema(value) == value


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_bounds_that_json_cannot_say_are_left_out(number: float) -> None:
    keywords = ("minimum", "maximum", "exclusiveMinimum", "multipleOf", "maxLength")
    schema = {
        "type": "object",
        "properties": {"a": {"type": "number", **dict.fromkeys(keywords, number)}},
    }
    assert not is_plain(schema)
    assert local_schema(schema)["properties"]["a"] == {"type": "number"}
