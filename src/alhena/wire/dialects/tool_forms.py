"""Tools as clients of OpenAI's dialects declare them: functions, and `custom` tools, which take a
text instead of arguments."""

from typing import Any

import msgspec

from alhena.values import Value
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.dialects.fields import Fields, unknown, write_arguments
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    ToolConfig,
    ToolDeclarations,
)

INPUT = "input"
"""The parameter of a custom tool, whose input is one text."""
_CUSTOM_SCHEMA = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "The whole input of the tool."}},
    "required": [INPUT],
}
_FORMS = frozenset({"function", "custom"})
_MODES = {
    "auto": FunctionCallingMode.AUTO,
    "none": FunctionCallingMode.NONE,
    "required": FunctionCallingMode.ANY,
}


class ToolForm(msgspec.Struct, frozen=True):
    """A tool as its client declared it. A `custom` one takes a text instead of arguments."""

    name: str
    namespace: str = ""
    custom: bool = False


class ClientTools(ToolNameMap):
    """The names of a client's tools, with their forms."""

    def __init__(self) -> None:
        super().__init__()
        self._forms: dict[str, ToolForm] = {}

    def declare(self, form: ToolForm) -> str:
        """The name to send for a tool; the first form of a name counts."""
        sent = self.wire(f"{form.namespace}__{form.name}" if form.namespace else form.name)
        self._forms.setdefault(sent, form)
        return sent

    def form(self, sent: str) -> ToolForm:
        """The form of the tool that is sent as `sent`."""
        return self._forms.get(sent) or ToolForm(self.original(sent))


def form_of(names: ToolNameMap, sent: str) -> ToolForm:
    """The form of the tool that is sent as `sent`; names of another dialect have functions only."""
    return names.form(sent) if isinstance(names, ClientTools) else ToolForm(names.original(sent))


def declare_tool(
    tool: Fields, names: ToolNameMap, space: str = "", *, custom: bool = False
) -> FunctionDeclaration:
    """The declaration of a function or a custom tool."""
    form = ToolForm(tool.required_text("name"), space, custom)
    schema = _CUSTOM_SCHEMA if custom else tool.plain("parameters")
    return FunctionDeclaration(
        name=names.declare(form) if isinstance(names, ClientTools) else names.wire(form.name),
        description=(tool.text("description") or "") + (_describe_grammar(tool) if custom else ""),
        parameters_json_schema=schema if schema is not None else {"type": "object"},
    )


def _describe_grammar(tool: Fields) -> str:
    """A custom tool's grammar in words, because it cannot be enforced here."""
    form = tool.object("format")
    if form is None or form.text("type") != "grammar":
        return ""
    # Older clients put the definition beside the type, newer ones into an object.
    holder = form.object("grammar") or form
    syntax = holder.text("syntax") or "given"
    definition = holder.text("definition") or ""
    return f"\n\nThe input has to keep to this {syntax} grammar:\n{definition}"


def custom_input(args: dict[str, Any]) -> str:
    """The text for a custom tool, also if the model named the parameter otherwise."""
    given = args.get(INPUT)
    if given is None and len(args) == 1:
        (given,) = args.values()
    return given if isinstance(given, str) else write_arguments(args)


class ToolChoice(Value, frozen=True):
    """The choice of tools. `only`: the names of the tools to declare; None: all. `left_out`: the
    type of a demanded tool that the client does not run."""

    config: ToolConfig | None = None
    only: frozenset[str] | None = None
    left_out: tuple[str, ...] = ()

    def declare(
        self, declarations: list[FunctionDeclaration]
    ) -> tuple[ToolDeclarations, ...] | None:
        """The declarations that the choice leaves; None without any."""
        kept = tuple(each for each in declarations if self.only is None or each.name in self.only)
        return (ToolDeclarations(function_declarations=kept),) if kept else None


def read_tool_choice(
    fields: Fields, names: ClientTools, declared: list[FunctionDeclaration]
) -> ToolChoice:
    """Reads `tool_choice` of both of OpenAI's dialects. Without tools, a choice that requires a
    call is an error, and any other is ignored."""
    value = fields.value("tool_choice")
    if value is None:
        return ToolChoice()
    if isinstance(value, str):
        if value not in _MODES:
            raise unknown(fields, "tool_choice", value, "there are auto, none and required")
        return _demand_call(fields, _MODES[value], None, declared)
    choice = Fields(value, fields.place("tool_choice"))
    kind = choice.required_text("type")
    if kind in _FORMS:
        only = (_read_name(choice, names),)
        return _demand_call(fields, FunctionCallingMode.ANY, only, declared)
    if kind != "allowed_tools":
        return ToolChoice(left_out=(kind,))
    allowed = choice.object("allowed_tools") or choice
    listed = [each for each in allowed.objects("tools") if each.text("type") in _FORMS]
    callable_ = [_read_name(each, names) for each in listed]
    if allowed.text("mode") == "required":
        only = tuple(callable_)
        return _demand_call(fields, FunctionCallingMode.ANY, only, declared)
    return ToolChoice(only=frozenset(callable_))


def _read_name(choice: Fields, names: ClientTools) -> str:
    """The name to send for a chosen tool; chat completions have it in an inner object."""
    holder = choice.object(choice.required_text("type")) or choice
    space = holder.text("namespace") or ""
    return names.declare(ToolForm(holder.required_text("name"), space))


def _demand_call(
    fields: Fields,
    mode: FunctionCallingMode,
    only: tuple[str, ...] | None,
    declared: list[FunctionDeclaration],
) -> ToolChoice:
    known = {each.name for each in declared}
    missing = next((name for name in only or () if name not in known), None)
    if declared and missing is not None:
        raise fields.fail("tool_choice", f'"{missing}" is none of the tools.')
    if declared:
        config = FunctionCallingConfig(mode=mode, allowed_function_names=only or None)
        return ToolChoice(ToolConfig(function_calling_config=config))
    if mode is FunctionCallingMode.ANY:
        raise fields.fail("tool_choice", "demands a call, and there are no tools.")
    return ToolChoice()
