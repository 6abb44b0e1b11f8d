"""Adapts schemas of requests for servers that turn them into grammars."""

from typing import Any

from msgspec.structs import replace

from alhena.wire.content import USER, Content, Part, encode_value
from alhena.wire.dialects.conversation import answer_schema
from alhena.wire.request import FunctionDeclaration, GenerateContentConfig, GenerationConfig
from alhena.wire.schema.adapt import to_json_schema
from alhena.wire.schema.grammar import grammar_schema
from alhena.wire.schema.openapi import SchemaError

_IN_WORDS = "Answer with one JSON value and nothing else. It has to fit this JSON Schema:\n"


def reduce_schemas(config: GenerateContentConfig) -> GenerateContentConfig:
    """The settings with the schemas of functions and of the answer reduced to what grammar engines
    take."""
    tools = tuple(
        replace(
            tool, function_declarations=tuple(map(_reduce_declaration, tool.function_declarations))
        )
        if tool.function_declarations
        else tool
        for tool in config.tools or ()
    )
    if tools:
        config = replace(config, tools=tools)
    generation = config.generation_config
    schema = None if generation is None else answer_schema(generation)
    if generation is None or schema is None:
        return config
    generation = replace(
        generation, response_json_schema=_reduce_schema(schema), response_schema=None
    )
    return replace(config, generation_config=generation)


def describe_form(config: GenerateContentConfig) -> GenerateContentConfig:
    """The settings with the form of the answer told in words, for servers that take no schema."""
    generation = config.generation_config or GenerationConfig()
    schema = answer_schema(generation)
    plain = replace(
        generation, response_mime_type=None, response_json_schema=None, response_schema=None
    )
    config = replace(config, generation_config=plain)
    if schema is None:
        return config
    before = config.system_instruction.parts if config.system_instruction else ()
    texts = [part.text for part in before if part.text]
    told = f"{_IN_WORDS}{encode_value(schema).decode('utf-8')}"
    whole = Part(text="\n\n".join((*texts, told)))  # one text: templates of small models want that
    return replace(config, system_instruction=Content(role=USER, parts=(whole,)))


def _reduce_declaration(declaration: FunctionDeclaration) -> FunctionDeclaration:
    schema = declaration.parameters_json_schema
    if schema is None:
        schema = to_json_schema(declaration.parameters or {"type": "object"})
    return replace(declaration, parameters=None, parameters_json_schema=_reduce_schema(schema))


def _reduce_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The reduced schema; one that cannot be reduced is sent as it is, for the server to judge."""
    try:
        return grammar_schema(schema)
    except SchemaError:
        return schema
