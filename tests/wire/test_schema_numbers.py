"""Numbers that JSON lacks, in the schemas of tools: said in words, or their tool is left out."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.tools.registry import ToolRegistry
from alhena.wire.encode import encode_request
from alhena.wire.errors import EncodeError
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ToolDeclarations,
)
from alhena.wire.schema.adapt import SchemaForm, adapt, adapt_declaration, local_schema
from alhena.wire.schema.keywords import is_plain
from tests.scheduler.kit import SmallTool

NAN, INFINITE = float("nan"), float("inf")
NUMBERS = st.sampled_from([NAN, INFINITE, -INFINITE])
WORDS = st.sampled_from(["default", "const", "enum", "examples", "example", "x-limit"])


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def one(schema: dict[str, Any]) -> Any:
    return local_schema(of(x=schema))["properties"]["x"]


def strict(value: object) -> str:
    return json.dumps(value, allow_nan=False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"default": NAN}, {"description": "(default: NaN)"}),
        (
            {"default": {"a": [1, -INFINITE]}, "description": "How far."},
            {"description": 'How far. (default: {"a":[1,-Infinity]})'},
        ),
        ({"const": INFINITE}, {"description": "(const: Infinity)"}),
        ({"enum": [1, NAN, 2]}, {"description": "(enum: [1,NaN,2])"}),
        ({"enum": [NAN]}, {"description": "(enum: [NaN])"}),
        ({"examples": [NAN, 3]}, {"description": "(examples: [NaN,3])"}),
        ({"x-limit": {"most": NAN}}, {"description": '(x-limit: {"most":NaN})'}),
        ({"default": 1.5, "enum": [1.5, 2]}, {"default": 1.5, "enum": [1.5, 2]}),
    ],
)
def test_what_json_cannot_say_is_said_in_the_description(
    given: dict[str, Any], told: dict[str, Any]
) -> None:
    assert one({"type": "number", **given}) == {"type": "number", **told}


@given(WORDS, NUMBERS, st.sampled_from([SchemaForm.JSON_SCHEMA, SchemaForm.OPENAPI]))
def test_no_form_of_a_schema_holds_such_a_number_anywhere(
    word: str, number: float, form: SchemaForm
) -> None:
    value = [number] if word in ("enum", "examples") else number
    inner = {"type": "number", word: value}
    schema = of(
        plain=inner, listed={"type": "array", "items": inner}, either={"anyOf": [inner, inner]}
    )
    before = repr(schema)
    made = adapt_declaration(
        FunctionDeclaration(name="t", description="d", parameters_json_schema=schema), form
    )
    said = strict(msgspec.to_builtins(made))
    assert repr(schema) == before
    assert "null" not in said
    assert "NaN" in said or "Infinity" in said
    assert not is_plain(schema)


def test_a_choice_that_is_gone_never_makes_a_schema_refuse_more() -> None:
    assert "not" not in one({"not": {"const": NAN}})
    assert "not" not in one({"not": {"enum": []}})
    assert "not" not in one({"not": {"enum": [1, NAN]}})
    made = one({"oneOf": [{"type": "number", "const": NAN}, {"type": "number", "const": 1}]})
    assert "oneOf" not in made
    assert len(made["anyOf"]) == 2


def test_a_tool_goes_out_with_its_default_in_words_and_never_as_null() -> None:
    registry = ToolRegistry()
    tool = SmallTool("measure")
    tool.parameter_schema = of(tolerance={"type": "number", "default": NAN})
    registry.register(tool)
    (declaration,) = registry.function_declarations()
    request = GenerateContentRequest(
        model="m",
        contents=(),
        config=GenerateContentConfig(
            tools=(ToolDeclarations(function_declarations=(declaration,)),)
        ),
    )
    body = json.loads(encode_request(request))
    (sent,) = body["tools"][0]["functionDeclarations"]
    assert sent["parametersJsonSchema"]["properties"]["tolerance"] == {
        "type": "number",
        "description": "(default: NaN)",
    }


@pytest.mark.parametrize("field", ["parameters", "response", "response_json_schema"])
def test_a_declaration_in_a_form_of_its_own_is_left_out_by_name(field: str) -> None:
    odd = FunctionDeclaration(name="odd", description="d", **{field: {"default": [NAN]}})
    fine = FunctionDeclaration(name="fine", description="d", **{field: {"default": [1.0]}})
    done = adapt((odd, fine))
    assert [each.name for each in done.declarations] == ["fine"]
    (left,) = done.left_out
    assert (left.name, field in left.reason, "NaN" in left.reason) == ("odd", True, True)


@pytest.mark.parametrize("field", ["response_schema", "response_json_schema", "speech_config"])
def test_a_setting_that_holds_such_a_number_is_refused_by_name(field: str) -> None:
    settings = GenerationConfig(**{field: {"properties": {"x": {"default": INFINITE}}}})
    request = GenerateContentRequest(
        model="m", contents=(), config=GenerateContentConfig(generation_config=settings)
    )
    with pytest.raises(EncodeError, match=field):
        encode_request(request)


HUGE = 10**400
LONGER = 10**5000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"maximum": HUGE}, {}),
        ({"minLength": HUGE}, {}),
        ({"multipleOf": HUGE, "minimum": -HUGE}, {}),
        ({"maximum": 10**300}, {"maximum": 10**300}),
        ({"default": LONGER}, {"description": "(default: a number of thousands of digits)"}),
        ({"enum": [1, -LONGER]}, {"description": "(enum: a number of thousands of digits)"}),
        ({"enum": [1, 2**70]}, {"enum": [1, 2**70]}),
    ],
)
def test_whole_numbers_that_no_floating_point_number_equals_are_as_infinite_ones(
    given: dict[str, Any], told: dict[str, Any]
) -> None:
    assert one({"type": "number", **given}) == {"type": "number", **told}


@given(WORDS, st.sampled_from([HUGE, -HUGE, LONGER]), st.sampled_from(list(SchemaForm)))
def test_no_form_of_a_schema_holds_such_a_whole_number(
    word: str, number: int, form: SchemaForm
) -> None:
    value = [[number]] if word in ("enum", "examples") else {"a": number}
    schema = of(x={"type": "object", word: value})
    made = adapt_declaration(
        FunctionDeclaration(name="t", description="d", parameters_json_schema=schema), form
    )
    parameters = made.parameters_json_schema or made.parameters
    assert parameters is not None
    assert word not in parameters["properties"]["x"]
    assert json.loads(msgspec.json.encode(made))["name"] == "t"
    assert len(msgspec.json.encode(made)) < 1000
