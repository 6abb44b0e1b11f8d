"""JSON Schema in the API's own form."""

from pathlib import Path
from typing import Any

from alhena.agent.delegation import open_agents
from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.options import SessionSpec
from alhena.agent.toolset.toolset import SessionLinks
from alhena.config.effective_settings import Place
from alhena.config.settings import Settings
from alhena.wire.conformance import ConformanceFindings
from alhena.wire.conformance.check import check_schema
from alhena.wire.request import FunctionDeclaration
from alhena.wire.schema.adapt import SchemaForm, adapt_declaration, local_schema
from alhena.wire.schema.keywords import is_plain
from alhena.wire.schema.openapi import to_parameters
from tests.support.each import for_each
from tests.support.scripted import ScriptedGenerator

OBJECT = {"type": "object"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def older(schema: dict[str, Any]) -> dict[str, Any]:
    made = to_parameters(local_schema(schema))
    assert made is not None
    findings = ConformanceFindings()
    check_schema(made, "p", findings)
    assert findings.violations == []
    return made


def one(schema: Any) -> dict[str, Any]:
    """One property in the older form."""
    return older(of(x=schema))["properties"]["x"]


NUMBER = {"type": "NUMBER"}
ANY_BUT_ARRAYS = [
    {"type": "STRING", "nullable": True},
    NUMBER,
    {"type": "BOOLEAN"},
    {"type": "OBJECT"},
]
ANYTHING = {"anyOf": [*ANY_BUT_ARRAYS, {"type": "ARRAY", "items": {"anyOf": ANY_BUT_ARRAYS}}]}
SAID: list[tuple[Any, dict[str, Any]]] = [
    ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
    ({"type": ["string", "number"]}, {"anyOf": [{"type": "STRING"}, NUMBER]}),
    ({"anyOf": [{"type": "null"}, {"type": "number"}]}, NUMBER | {"nullable": True}),
    ({"const": "a"}, {"type": "STRING", "enum": ["a"]}),
    ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "nullable": True}),
    ({"enum": [1, 2]}, {"type": "INTEGER", "description": "(one of: [1,2])"}),
    (
        {"type": "string", "enum": ["", "a"]},
        {"type": "STRING", "description": '(one of: ["","a"])'},
    ),
    (
        {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10},
        {
            "type": "INTEGER",
            "minimum": 0,
            "maximum": 10,
            "description": "(exclusiveMinimum: 0; exclusiveMaximum: 10)",
        },
    ),
    (
        {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        NUMBER | {"minimum": 0, "description": "(exclusiveMinimum: 0; multipleOf: 0.5)"},
    ),
    ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
    (
        {"type": "string", "format": "uri", "description": "Where."},
        {"type": "STRING", "description": 'Where. (format: "uri")'},
    ),
    (
        {"type": "array", "items": [{"type": "string"}]},
        {
            "type": "ARRAY",
            "items": ANYTHING,
            "description": '(prefixItems: [{"type":"string"}])',
        },
    ),
    (
        {"type": "object", "required": ["a"]},
        {"type": "OBJECT", "description": '(required too: ["a"])'},
    ),
    (
        {"allOf": [{"type": "integer", "minimum": 1}, {"minimum": 4, "maximum": 9}]},
        {"type": "INTEGER", "minimum": 1, "maximum": 9, "description": "(minimum: 4)"},
    ),
    (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False, "not": {"a": 1}},
        {
            "type": "OBJECT",
            "properties": {"a": ANYTHING},
            "description": '(not: {"a":1})',
        },
    ),
]


@for_each(("given_schema", "said"), SAID)
def test_what_the_older_form_cannot_say_is_said_in_words(
    given_schema: Any, said: dict[str, Any]
) -> None:
    assert one(given_schema) == said


def test_alternatives_at_the_top_become_one_object() -> None:
    schema = {
        "oneOf": [
            of(a={"type": "string"}, b={"type": "string"}) | {"required": ["a", "b"]},
            of(a={"type": "string"}, c={"type": "integer"}) | {"required": ["a"]},
        ]
    }
    made = older(schema)
    assert list(made["properties"]) == ["a", "b", "c"]
    assert made["description"].startswith("(exactly one of: ")


def test_an_object_that_may_hold_anything_has_no_schema_in_the_older_form() -> None:
    declaration = FunctionDeclaration(name="f", parameters_json_schema=OBJECT | {"properties": {}})
    made = adapt_declaration(declaration, SchemaForm.OPENAPI)
    assert (made.parameters, made.parameters_json_schema) == (None, None)


def test_the_schemas_of_the_built_in_tools_need_no_adapting_and_have_an_older_form(
    tmp_path: Path,
) -> None:
    options = SessionSpec(place=Place(cwd=tmp_path, environ={}, settings=Settings()))
    links = SessionLinks(
        session_id="s", answering=lambda: (ScriptedGenerator(), "m"), delegate=open_agents
    )
    declarations = open_toolset(options, links).registry.function_declarations()
    assert len(declarations) > 10
    for declaration in declarations:
        assert is_plain(declaration.parameters_json_schema)
        said = adapt_declaration(declaration, SchemaForm.OPENAPI)
        assert said.parameters_json_schema is None
        schema = declaration.parameters_json_schema or {}
        assert said.parameters == (older(schema) if schema["properties"] else None)
