"""Tools of a Messages request: those with a schema of their own, those of clients whose type means
a public schema, and those that the service runs."""

from typing import Any

import msgspec

from alhena.wire.dialects.anthropic.client_tools import CLIENT_TOOLS
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.dialects.fields import Fields, strings, unknown
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    ToolConfig,
    ToolDeclarations,
)

_GEMINI_TOOLS = {"web_search": "googleSearch", "web_fetch": "urlContext"}
"""Tools of the service that Gemini has too -> their fields in `ToolDeclarations`."""
_CHANGES = frozenset({"tool_addition", "tool_removal"})


class DeclaredTools:
    """The tools of a request. `server` are Gemini's own (field -> the client's name), `left_out`
    the names or types of tools that cannot be declared, `wishes` instructions for a search."""

    def __init__(self, names: ToolNameMap) -> None:
        self._names = names
        self.functions: list[FunctionDeclaration] = []
        self.server: dict[str, str] = {}
        self.left_out: list[str] = []
        self.wishes: list[str] = []

    def declarations(self) -> tuple[ToolDeclarations, ...] | None:
        """The elements of `tools`; None without any."""
        functions = tuple(self.functions)
        made = [ToolDeclarations(function_declarations=functions)] if functions else []
        made += [msgspec.convert({field: {}}, ToolDeclarations) for field in self.server]
        return tuple(made) or None

    def add(self, tool: Fields) -> None:
        """Takes one element of `tools`."""
        kind = tool.text("type") or "custom"
        family = kind.rstrip("0123456789").removesuffix("_")
        if kind == "custom":
            self._add_function(tool, {"schema": tool.plain("input_schema")})
        elif family in _GEMINI_TOOLS:
            self.server[_GEMINI_TOOLS[family]] = tool.text("name") or family
            self._add_wishes(tool)
        elif family in CLIENT_TOOLS:
            self._add_function(tool, CLIENT_TOOLS[family])
        else:
            self.left_out.append(tool.text("name") or kind)

    def change(self, block: Fields) -> bool:
        """Takes a block that adds or removes a tool; False for another block. A reference adds
        nothing: all tools of a request are declared."""
        if block.text("type") not in _CHANGES:
            return False
        tool = block.object("tool")
        if tool is None:
            raise block.fail("tool", "is missing.")
        definition = tool.object("definition")
        if block.text("type") == "tool_removal":
            self._remove(tool.text("name"))
        elif definition is not None:
            self._remove(definition.text("name"))
            self.add(definition)
        return True

    def choice(self, fields: Fields) -> ToolConfig | None:
        """The calling mode of a request. A choice among tools that the client does not run is
        dropped: the model decides about its own."""
        choice = fields.object("tool_choice")
        if choice is None:
            return None
        kind = choice.required_text("type")
        modes = {
            "auto": FunctionCallingMode.AUTO,
            "none": FunctionCallingMode.NONE,
            "any": FunctionCallingMode.ANY,
            "tool": FunctionCallingMode.ANY,
        }
        if kind not in modes:
            raise unknown(choice, "type", kind, "there are auto, any, none and tool")
        only = choice.required_text("name") if kind == "tool" else None
        others = {*self.server.values(), *self.left_out}
        if others and (not self.functions or only in others):
            return None
        allowed = None if only is None else (self._names.wire(only),)
        if allowed and self.functions and allowed[0] not in {each.name for each in self.functions}:
            raise choice.fail("name", f'"{only}" is none of the tools.')
        config = FunctionCallingConfig(mode=modes[kind], allowed_function_names=allowed)
        return ToolConfig(function_calling_config=config)

    def _remove(self, name: str | None) -> None:
        kept = [each for each in self.functions if self._names.original(each.name) != name]
        self.functions = kept

    def _add_function(self, tool: Fields, known: dict[str, Any]) -> None:
        name = self._names.wire(tool.required_text("name"))
        description = tool.text("description") or known.get("description", "")
        width, height = tool.integer("display_width_px"), tool.integer("display_height_px")
        if width and height:
            description += f" The screen is {width} pixels wide and {height} high."
        declared = FunctionDeclaration(
            name=name,
            description=description,
            parameters_json_schema=known.get("schema") or {"type": "object"},
        )
        self.functions.append(declared)

    def _add_wishes(self, tool: Fields) -> None:
        """Notes the restrictions of a search, which Gemini takes in words only."""
        allowed, blocked = strings(tool, "allowed_domains"), strings(tool, "blocked_domains")
        if allowed:
            self.wishes.append(f"Use only web pages of these sites: {', '.join(allowed)}.")
        if blocked:
            self.wishes.append(f"Use no web pages of these sites: {', '.join(blocked)}.")
