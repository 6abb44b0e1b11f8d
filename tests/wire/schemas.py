"""Schemas for tests, values that fit them, and the API's own form read back as JSON Schema."""

from typing import Any

from hypothesis import strategies as st

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


def _typed(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    told = {"description": words, "title": words}
    return _optional(**fields, **told).map(lambda node: {"type": name} | node)


numbers = st.sampled_from([-2, 0, 1, 1.5, 4])
strings = _typed(
    "string",
    minLength=st.integers(0, 2),
    maxLength=st.integers(0, 3),
    enum=st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=3, unique=True),
    pattern=st.just("^a"),
    format=st.sampled_from(["uri", "date-time", "email"]),
)
integers = _typed(
    "integer",
    minimum=numbers,
    maximum=numbers,
    exclusiveMinimum=numbers,
    exclusiveMaximum=numbers,
    multipleOf=st.just(2),
    enum=st.lists(st.integers(-1, 1), min_size=1, max_size=2, unique=True),
)
fractions = _typed("number", minimum=numbers, exclusiveMaximum=numbers)
leaves = (
    strings
    | integers
    | fractions
    | _typed("boolean")
    | st.just({"type": "null"})
    | st.sampled_from([{"const": "a"}, {"enum": ["a", 1, None]}, {"type": ["string", "null"]}])
    | st.sampled_from([{"type": ["integer", "string"], "minimum": 0}, {"$ref": "#/$defs/name"}])
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = _typed(
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
    return _typed(
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
