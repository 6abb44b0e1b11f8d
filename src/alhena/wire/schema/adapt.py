"""Declarations in the form a service takes, and those that have none (T1 to T14)."""

from collections.abc import Iterable
from enum import StrEnum
from typing import assert_never

import msgspec

from alhena.wire.request import FunctionDeclaration, GenerateContentConfig, Tool
from alhena.wire.schema.errors import SchemaError
from alhena.wire.schema.keywords import has_json_form
from alhena.wire.schema.local import local_schema
from alhena.wire.schema.openapi import to_parameters


class SchemaForm(StrEnum):
    """How parameters are said: plain JSON Schema, which current services take, or the API's own
    Schema, for those that do not know `parametersJsonSchema`."""

    JSON_SCHEMA = "parametersJsonSchema"
    OPENAPI = "parameters"


class LeftOut(msgspec.Struct, frozen=True):
    """A tool that cannot be declared, and why."""

    name: str
    reason: str


class Adapted(msgspec.Struct, frozen=True):
    """What can be declared, and what cannot."""

    declarations: tuple[FunctionDeclaration, ...]
    left_out: tuple[LeftOut, ...]


def adapted(
    declaration: FunctionDeclaration, form: SchemaForm = SchemaForm.JSON_SCHEMA
) -> FunctionDeclaration:
    """A declaration in this form; the same object when it has it already. Raises SchemaError.

    A schema in the API's own form stays in it, whatever form is asked for.
    """
    for name in ("parameters", "response", "response_json_schema"):
        if not has_json_form(getattr(declaration, name)):
            raise SchemaError(
                f"its {name} holds a number that JSON lacks: NaN, or an infinite one."
            )
    given = declaration.parameters_json_schema
    if given is None:
        return declaration
    schema = local_schema(given)
    match form:
        case SchemaForm.JSON_SCHEMA:
            if schema == given:
                return declaration
            return msgspec.structs.replace(declaration, parameters_json_schema=schema)
        case SchemaForm.OPENAPI:
            return msgspec.structs.replace(
                declaration, parameters_json_schema=None, parameters=to_parameters(schema)
            )
        case _:
            assert_never(form)


def adapt(
    declarations: Iterable[FunctionDeclaration], form: SchemaForm = SchemaForm.JSON_SCHEMA
) -> Adapted:
    """All declarations in this form. One that has none is left out, and the others go on."""
    kept: list[FunctionDeclaration] = []
    left_out: list[LeftOut] = []
    for declaration in declarations:
        try:
            kept.append(adapted(declaration, form))
        except SchemaError as error:
            left_out.append(LeftOut(declaration.name, error.message))
    return Adapted(tuple(kept), tuple(left_out))


def with_form(
    config: GenerateContentConfig, form: SchemaForm
) -> tuple[GenerateContentConfig, tuple[LeftOut, ...]]:
    """The config with its declarations in this form, and the tools it lost by that."""
    left_out: list[LeftOut] = []
    tools: list[Tool] = []
    for tool in config.tools or ():
        if tool.function_declarations is not None:
            done = adapt(tool.function_declarations, form)
            left_out.extend(done.left_out)
            tool = msgspec.structs.replace(tool, function_declarations=done.declarations or None)
        if tool != Tool():
            tools.append(tool)
    return msgspec.structs.replace(config, tools=tuple(tools) or None), tuple(left_out)
