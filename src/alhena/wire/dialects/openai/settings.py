"""What a chat completion asks for beside its messages, read."""

from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.fields import Fields, limit_of, refuse, strings, unknown
from alhena.wire.dialects.names import ToolNames
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerationConfig,
    ThinkingConfig,
    Tool,
    ToolConfig,
)

EFFORTS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}
"""Reasoning effort -> tokens to think with."""

_JSON = "application/json"
_REFUSED = {
    "audio": "answers are text",
    "logit_bias": "Gemini has no such setting",
    "top_logprobs": "probabilities are not told",
}


def read_tools(fields: Fields, names: ToolNames) -> tuple[Tool, ...] | None:
    """The functions that may be called."""
    if fields.value("functions") is not None:
        raise fields.fail("functions", "is not supported; use tools.")
    declarations: list[FunctionDeclaration] = []
    for tool in fields.objects("tools"):
        kind = tool.required_text("type")
        if kind != "function":
            raise unknown(tool, "type", kind, "only functions of the client can be called")
        function = tool.object("function")
        if function is None:
            raise tool.fail("function", "is missing.")
        schema = function.plain("parameters")
        declarations.append(
            FunctionDeclaration(
                name=names.wire(function.required_text("name")),
                description=function.text("description") or "",
                parameters_json_schema=schema if schema is not None else {"type": "object"},
            )
        )
    return (Tool(function_declarations=tuple(declarations)),) if declarations else None


def read_tool_choice(fields: Fields, names: ToolNames, *, any_tools: bool) -> ToolConfig | None:
    """Whether the model may, must or must not call a function, and which. Where there are none, a
    choice that demands one is an error, and any other says nothing."""
    choice = _choice(fields, names)
    calling = choice.function_calling_config if choice is not None else None
    if any_tools or calling is None:
        return choice
    if calling.mode is FunctionCallingMode.ANY:
        raise fields.fail("tool_choice", "demands a call, and there are no tools.")
    return None


def _choice(fields: Fields, names: ToolNames) -> ToolConfig | None:
    value = fields.value("tool_choice")
    if value is None:
        return None
    if isinstance(value, str):
        modes = {
            "auto": FunctionCallingMode.AUTO,
            "none": FunctionCallingMode.NONE,
            "required": FunctionCallingMode.ANY,
        }
        if value not in modes:
            raise unknown(fields, "tool_choice", value, "there are auto, none and required")
        return _tool_config(modes[value])
    choice = Fields(value, fields.place("tool_choice"))
    kind = choice.required_text("type")
    if kind == "function":
        return _tool_config(FunctionCallingMode.ANY, (_function(choice, names),))
    if kind == "allowed_tools":
        allowed = choice.object("allowed_tools") or choice
        only = tuple(_function(tool, names) for tool in allowed.objects("tools"))
        if allowed.text("mode") == "required":
            return _tool_config(FunctionCallingMode.ANY, only)
        raise allowed.fail(
            "mode", "Gemini can limit the choice of tools only when one is required."
        )
    raise unknown(choice, "type", kind, "there are function and allowed_tools")


def _function(choice: Fields, names: ToolNames) -> str:
    function = choice.object("function")
    if function is None:
        raise choice.fail("function", "is missing.")
    return names.wire(function.required_text("name"))


def _tool_config(mode: FunctionCallingMode, only: tuple[str, ...] | None = None) -> ToolConfig:
    config = FunctionCallingConfig(mode=mode, allowed_function_names=only or None)
    return ToolConfig(function_calling_config=config)


def read_generation(fields: Fields) -> GenerationConfig | None:
    """Sampling and output settings."""
    if fields.integer("n") not in {None, 1}:
        raise fields.fail("n", "only one answer can be asked for.")
    if fields.flag("logprobs"):
        raise fields.fail("logprobs", "is not supported.")
    for key, why in _REFUSED.items():
        refuse(fields, key, why)
    if fields.value("web_search_options") is not None:
        raise fields.fail("web_search_options", "is not supported: no tools run here.")
    if any(item != "text" for item in strings(fields, "modalities") or ()):
        raise fields.fail("modalities", "is not supported: answers are text.")
    limit = limit_of(fields, "max_completion_tokens")
    mime, schema = _format(fields)
    config = GenerationConfig(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=limit if limit is not None else limit_of(fields, "max_tokens"),
        stop_sequences=_stop(fields),
        presence_penalty=fields.number("presence_penalty"),
        frequency_penalty=fields.number("frequency_penalty"),
        seed=fields.integer("seed"),
        response_mime_type=mime,
        response_json_schema=schema,
        thinking_config=_thinking(fields),
    )
    return None if config == GenerationConfig() else config


def _stop(fields: Fields) -> tuple[str, ...] | None:
    if isinstance(fields.value("stop"), str):
        return (fields.required_text("stop"),)
    return strings(fields, "stop") or None


def _format(fields: Fields) -> "tuple[str | None, dict[str, object] | None]":
    asked = fields.object("response_format")
    if asked is None:
        return None, None
    kind = asked.required_text("type")
    if kind == "text":
        return None, None
    if kind == "json_object":
        return _JSON, None
    if kind == "json_schema":
        described = asked.object("json_schema")
        schema = described.plain("schema") if described is not None else None
        if schema is None:
            raise DialectError("is missing.", f"{asked.path}.json_schema.schema")
        return _JSON, schema
    raise unknown(asked, "type", kind, "there are text, json_object and json_schema")


def _thinking(fields: Fields) -> ThinkingConfig | None:
    effort = fields.text("reasoning_effort")
    if effort is None:
        return None
    if effort not in EFFORTS:
        raise unknown(fields, "reasoning_effort", effort, f"there are {', '.join(EFFORTS)}")
    budget = EFFORTS[effort]
    return ThinkingConfig(thinking_budget=budget, include_thoughts=True if budget else None)
