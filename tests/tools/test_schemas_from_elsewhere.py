"""Tools from elsewhere, with whatever schemas they come."""

from typing import Any

import pytest

from alhena.tools.contract import Kind, ToolFailure, ToolInvocation
from alhena.tools.registry import ToolOrigin, ToolRegistry
from alhena.wire.request import FunctionDeclaration


class Foreign:
    """A tool as a server describes it."""

    display_name = "Foreign"
    description = "d"
    kind = Kind.OTHER
    is_output_markdown = False
    can_update_output = False

    def __init__(self, name: str, schema: Any) -> None:
        self.name = name
        self.parameter_schema = schema

    def declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name, description="d", parameters_json_schema=self.parameter_schema
        )

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        raise NotImplementedError


RECURSIVE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"next": {"$ref": "#"}},
}


def test_the_model_is_told_an_adapted_schema_and_the_tool_keeps_its_own() -> None:
    tool = Foreign("f", RECURSIVE)
    registry = ToolRegistry()
    assert registry.register(tool, origin=ToolOrigin.MCP, server="s") is None
    (declaration,) = registry.function_declarations()
    assert declaration.parameters_json_schema == {
        "type": "object",
        "properties": {
            "next": {"type": "object", "description": "(# again, in itself; not described again)"}
        },
    }
    assert tool.parameter_schema is RECURSIVE


@pytest.mark.parametrize("schema", [{"type": "string"}, [], None, {"type": ["array", "null"]}])
def test_a_tool_that_cannot_be_declared_is_left_out_by_name_and_the_others_go_on(
    schema: Any,
) -> None:
    registry = ToolRegistry([Foreign("first", {"type": "object"})])
    warning = registry.register(Foreign("bad", schema), origin=ToolOrigin.MCP, server="s")
    assert registry.register(Foreign("last", {"type": "object"})) is None
    assert registry.names == ("first", "last")
    assert [item.name for item in registry.function_declarations()] == ["first", "last"]
    assert list(registry.left_out) == ["bad"]
    assert warning == f'Tool "bad" is left out: {registry.left_out["bad"]}'
    assert registry.get("bad") is None
