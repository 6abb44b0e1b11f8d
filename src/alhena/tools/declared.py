"""Declarations of tools that are data: `NAME.json` (names for people, kind, parameters) and
`NAME.md` (the description for the model), beside the tool's module."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from alhena.tools.contract import Kind, Tool, ToolFailure, ToolInvocation
from alhena.values import Value
from alhena.wire.request import FunctionDeclaration

BUILT_IN = Path(__file__).with_name("builtin")


class Declared(Value, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The content of a `NAME.json`; `parameters` is a JSON Schema."""

    display_name: str
    kind: Kind
    parameters: dict[str, Any]
    is_output_markdown: bool = False
    can_update_output: bool = False


@cache
def declared(folder: Path, name: str) -> Declared:
    """Reads a tool's `NAME.json`."""
    return msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Declared)


@cache
def description(folder: Path, name: str) -> str:
    """Reads a tool's `NAME.md`."""
    return (folder / f"{name}.md").read_text(encoding="utf-8").strip()


def declaration_of(tool: Tool) -> FunctionDeclaration:
    """The declaration of a tool with its own description and schema."""
    return FunctionDeclaration(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameter_schema
    )


class LazyTool:
    """A built-in tool whose module is imported with its first call; satisfies `contract.Tool`.

    `make` imports and creates the tool. `note` is appended to its description.
    """

    def __init__(self, name: str, make: Callable[[], Tool], *, note: str = "") -> None:
        data = declared(BUILT_IN, name)
        self.name = name
        self.display_name = data.display_name
        self.kind = data.kind
        self.parameter_schema = data.parameters
        self.is_output_markdown = data.is_output_markdown
        self.can_update_output = data.can_update_output
        self._note = note
        self._make = make
        self._made: Tool | None = None

    @property
    def description(self) -> str:
        """The text of `NAME.md`, and the note."""
        said = description(BUILT_IN, self.name)
        return f"{said}\n\n{self._note}" if self._note else said

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return declaration_of(self)

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        """The call, by the tool itself (TOOLS-05)."""
        return self.tool().build(params)

    def tool(self) -> Tool:
        """The tool itself, created at the first use."""
        if self._made is None:
            self._made = self._make()
        return self._made
