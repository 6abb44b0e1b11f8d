"""Chat completion requests, read and written: messages, tools and settings."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from alhena.wire.content import (
    MODEL,
    USER,
    Blob,
    Content,
    FileData,
    FunctionResponse,
    FunctionResponsePart,
    Part,
)
from alhena.wire.dialects.conversation import (
    ConversationBuilder,
    DialectRequest,
    NewId,
    ToolNameMap,
    answer_schema,
    declared_functions,
    system_texts,
    thinking_budget,
    with_ids,
)
from alhena.wire.dialects.fields import (
    DialectError,
    Fields,
    limit_of,
    read_arguments,
    refuse,
    strings,
    unknown,
)
from alhena.wire.dialects.openai.response import message_of, signature_of
from alhena.wire.dialects.results import Piece, from_response, refuse_lost, to_response, words_for
from alhena.wire.json_values import excerpt
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ServiceTier,
    ThinkingConfig,
    ToolConfig,
    ToolDeclarations,
)

EFFORTS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}
"""Reasoning effort -> thinking tokens."""
READ_EFFORTS = {**EFFORTS, "max": EFFORTS["xhigh"]}
"""The efforts of clients; the last one is not written, because few models take it."""

_TIERS = {
    "auto": None,
    "default": ServiceTier.STANDARD,
    "flex": ServiceTier.FLEX,
    "priority": ServiceTier.PRIORITY,
}
_JSON = "application/json"
_REFUSED = {
    "audio": "answers are text",
    "logit_bias": "Gemini has no such setting",
    "top_logprobs": "probabilities are not told",
}


def read_tools(fields: Fields, names: ToolNameMap) -> tuple[ToolDeclarations, ...] | None:
    """Reads the callable functions."""
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
    return (ToolDeclarations(function_declarations=tuple(declarations)),) if declarations else None


def read_tool_choice(fields: Fields, names: ToolNameMap, *, any_tools: bool) -> ToolConfig | None:
    """Reads the function calling mode and the allowed names. Without functions, a choice that
    requires a call is an error, and any other is ignored."""
    choice = _choice(fields, names)
    calling = choice.function_calling_config if choice is not None else None
    if any_tools or calling is None:
        return choice
    if calling.mode is FunctionCallingMode.ANY:
        raise fields.fail("tool_choice", "demands a call, and there are no tools.")
    return None


def _choice(fields: Fields, names: ToolNameMap) -> ToolConfig | None:
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
        return calling_config(modes[value])
    choice = Fields(value, fields.place("tool_choice"))
    kind = choice.required_text("type")
    if kind == "function":
        return calling_config(FunctionCallingMode.ANY, (_function(choice, names),))
    if kind == "allowed_tools":
        allowed = choice.object("allowed_tools") or choice
        only = tuple(_function(tool, names) for tool in allowed.objects("tools"))
        if allowed.text("mode") == "required":
            return calling_config(FunctionCallingMode.ANY, only)
        raise allowed.fail(
            "mode", "Gemini can limit the choice of tools only when one is required."
        )
    raise unknown(choice, "type", kind, "there are function and allowed_tools")


def _function(choice: Fields, names: ToolNameMap) -> str:
    function = choice.object("function")
    if function is None:
        raise choice.fail("function", "is missing.")
    return names.wire(function.required_text("name"))


def calling_config(mode: FunctionCallingMode, only: tuple[str, ...] | None = None) -> ToolConfig:
    """The configuration of a calling mode, with the allowed names."""
    config = FunctionCallingConfig(mode=mode, allowed_function_names=only or None)
    return ToolConfig(function_calling_config=config)


def read_generation(fields: Fields) -> GenerationConfig | None:
    """Reads sampling and output settings."""
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
    budget = read_effort(fields, "reasoning_effort")
    if budget is None:
        return None
    return ThinkingConfig(thinking_budget=budget, include_thoughts=True if budget else None)


def read_effort(fields: Fields, key: str) -> int | None:
    """The thinking tokens of the effort in a field."""
    effort = fields.text(key)
    if effort is None:
        return None
    if effort not in READ_EFFORTS:
        raise unknown(fields, key, effort, f"there are {', '.join(READ_EFFORTS)}")
    return READ_EFFORTS[effort]


def read_tier(fields: Fields) -> ServiceTier | None:
    """Reads `service_tier`."""
    tier = fields.text("service_tier")
    if tier is not None and tier not in _TIERS:
        raise unknown(fields, "service_tier", tier, f"there are {', '.join(_TIERS)}")
    return None if tier is None else _TIERS[tier]


def write_tier(tier: ServiceTier | None) -> dict[str, str]:
    """The field `service_tier`, if it is set."""
    if tier is None:
        return {}
    return {"service_tier": next(name for name, each in _TIERS.items() if each is tier)}


_DATA_URL = re.compile(r"data:([^;,\s]+)(?:;[^;,]+)*;base64,(.*)", re.DOTALL)
_SYSTEM = frozenset({"system", "developer"})


def read_request(body: object) -> DialectRequest:
    """Converts the body of POST /v1/chat/completions to Gemini's types.

    Raises DialectError. These distinctions are lost: a string and one text part, `developer` and
    `system`, consecutive messages of one role, adjacent texts in a tool result. A system message
    after other messages, or without any, becomes the user's. Settings without a Gemini equivalent
    are dropped (`user`, `metadata`, `store`, `parallel_tool_calls`, `strict`, `detail`,
    `verbosity`, `prediction`, names of participants).
    """
    fields = Fields(body)
    names = ToolNameMap()
    options = fields.object("stream_options")
    tools = read_tools(fields, names)
    system, contents = _read_messages(fields, names)
    return DialectRequest(
        model=fields.required_text("model"),
        contents=contents,
        config=GenerateContentConfig(
            system_instruction=system,
            tools=tools,
            tool_config=read_tool_choice(fields, names, any_tools=tools is not None),
            generation_config=read_generation(fields),
            service_tier=read_tier(fields),
        ),
        stream=fields.flag("stream"),
        include_usage=options is not None and options.flag("include_usage"),
        names=names,
    )


def _read_messages(
    fields: Fields, names: ToolNameMap
) -> tuple[Content | None, tuple[Content, ...]]:
    if fields.array("messages") is None:
        raise fields.fail("messages", "is missing.")
    conversation = ConversationBuilder(names)
    system: list[Part] = []
    begun = False
    for message in fields.objects("messages"):
        role = message.required_text("role")
        if role in _SYSTEM and not begun:
            system += _texts(message)
            continue
        begun = True
        if role in _SYSTEM:
            conversation.user(_texts(message), message.path)
        elif role == "user":
            conversation.user(list(_user_parts(message)), message.path)
        elif role == "assistant":
            conversation.model(list(_model_parts(conversation, message)), message.path)
        elif role == "tool":
            response, media = to_response(_pieces(message), failed=False)
            call_id = message.required_text("tool_call_id")
            conversation.result(call_id, response, media, message.path)
        else:
            raise unknown(message, "role", role, "there are system, user, assistant and tool")
    if not begun and system:
        # Gemini requires contents, and this is the only text.
        conversation.user(system, fields.place("messages"))
        system = []
    contents = conversation.finish(fields.place("messages"))
    return (Content(role=USER, parts=tuple(system)) if system else None), contents


def _texts(message: Fields) -> list[Part]:
    """The texts of a text-only message."""
    parts: list[Part] = []
    for part in _content(message):
        kind = part.required_text("type")
        if kind != "text":
            raise unknown(part, "type", kind, "this message contains only text")
        parts += _text(part)
    return parts


def _content(message: Fields) -> list[Fields]:
    value = message.value("content")
    if isinstance(value, str):
        return [Fields({"type": "text", "text": value}, message.place("content"))]
    return message.objects("content")


def _text(part: Fields) -> list[Part]:
    text = part.text("text")
    if text is None:
        raise part.fail("text", "is missing.")
    return [Part(text=text)] if text else []


def _user_parts(message: Fields) -> Iterator[Part]:
    for part in _content(message):
        if part.required_text("type") == "text":
            yield from _text(part)
        else:
            media = _media(part)
            yield Part(inline_data=media.inline_data, file_data=media.file_data)


def _pieces(message: Fields) -> Iterator[Piece]:
    if message.value("content") is None:
        yield ""
        return
    for part in _content(message):
        if part.required_text("type") == "text":
            yield part.text("text") or ""
        else:
            yield _media(part)


def _media(part: Fields) -> FunctionResponsePart:
    kind = part.required_text("type")
    holder = part.object(kind) if kind in {"image_url", "input_audio", "file"} else None
    if holder is None:
        known = "there are text, image_url, input_audio and file, each with its own field"
        raise unknown(part, "type", kind, known)
    if kind == "image_url":
        return media_by_url(holder, "url")
    if kind == "input_audio":
        mime = f"audio/{holder.required_text('format')}"
        return _inline(mime, holder.required_text("data"))
    if holder.value("file_id") is not None:
        raise holder.fail("file_id", "files are not kept here; send file_data.")
    return media_by_url(holder, "file_data")


def media_by_url(holder: Fields, key: str) -> FunctionResponsePart:
    """The media at a URL, or in a data URL."""
    url = holder.required_text(key)
    if not url.startswith("data:"):
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url) is None:
            raise holder.fail(key, f'"{excerpt(url, 40)}" is no URL.')
        return FunctionResponsePart(file_data=FileData(file_uri=url))
    found = _DATA_URL.fullmatch(url)
    if found is None:
        raise holder.fail(key, "must be of the form data:TYPE;base64,DATA.")
    return _inline(found[1], found[2])


def _inline(mime: str, data: str) -> FunctionResponsePart:
    return FunctionResponsePart(inline_data=Blob(mime_type=mime, data=data))


def _model_parts(conversation: ConversationBuilder, message: Fields) -> Iterator[Part]:
    thought = message.text("reasoning_content")
    if thought:
        yield Part(text=thought, thought=True)
    for part in _content(message):
        kind = part.required_text("type")
        if kind == "refusal":
            refusal = part.text("refusal")
            if refusal:
                yield Part(text=refusal)
            continue
        if kind != "text":
            raise unknown(part, "type", kind, "an assistant's parts are text and refusal")
        yield from _text(part)
    refusal = message.text("refusal")
    if refusal:
        yield Part(text=refusal)
    signature = signature_of(message)
    if signature:
        yield Part(text="", thought_signature=signature)
    if message.value("function_call") is not None:
        raise message.fail("function_call", "is not supported; use tool_calls.")
    for call in message.objects("tool_calls"):
        yield _call(conversation, call)


def _call(conversation: ConversationBuilder, call: Fields) -> Part:
    kind = call.text("type") or "function"
    function = call.object("function")
    if kind != "function" or function is None:
        raise unknown(call, "type", kind, "only functions can be called")
    args = read_arguments(function.text("arguments") or "")
    if args is None:
        raise DialectError("is not a JSON object.", function.place("arguments"))
    made = conversation.call(call.required_text("id"), function.required_text("name"), args)
    return Part(function_call=made, thought_signature=signature_of(call))


_COPIED = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")


def write_request(request: DialectRequest, *, new_id: NewId) -> dict[str, Any]:
    """Builds the body of POST /v1/chat/completions, with thoughts in `reasoning_content` and
    signatures in `extra_content`. Unsupported media become text. Raises DialectError for settings
    that would be lost (`refuse_lost`)."""
    contents = with_ids(request.contents, new_id)
    config = request.config
    refuse_lost(config)
    messages: list[dict[str, Any]] = []
    system = system_texts(config)
    if system:
        messages.append(
            {
                "role": "system",
                "content": _written_content([_written_text(text) for text in system]),
            }
        )
    for content in contents:
        messages += _messages(content, request.names, new_id)
    body: dict[str, Any] = {"model": request.model, "messages": messages}
    tools = _tools(config, request.names)
    if tools:
        body["tools"] = tools
    choice = write_choice(config, request.names, _function_choice, _allowed_choice)
    if choice == "required" and not tools:
        raise DialectError("demands a call, and no tool is declared.", "toolConfig")
    if choice is not None and tools:
        body["tool_choice"] = choice
    body |= _generation(config.generation_config or GenerationConfig())
    body |= write_tier(config.service_tier)
    if request.stream:
        body["stream"] = True
        if request.include_usage:
            body["stream_options"] = {"include_usage": True}
    return body


def _messages(content: Content, names: ToolNameMap, new_id: NewId) -> list[dict[str, Any]]:
    if content.role == MODEL:
        message = message_of(content.parts, names, new_id)
        del message["refusal"]
        if message["content"] is None and "tool_calls" not in message:
            message["content"] = ""
        return [message]
    messages = [_result(part.function_response) for part in content.parts if part.function_response]
    said = [item for part in content.parts if (item := _user_part(part)) is not None]
    if said:
        messages.append({"role": "user", "content": _written_content(said)})
    return messages


def _result(answer: FunctionResponse) -> dict[str, Any]:
    pieces, _ = from_response(answer)
    parts = [
        _written_text(piece)
        if isinstance(piece, str)
        else _media_or_words(piece.inline_data, piece.file_data)
        for piece in pieces
    ]
    return {
        "role": "tool",
        "tool_call_id": answer.id,
        "content": _written_content(_merge_texts(parts)),
    }


def _merge_texts(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of a result with adjacent texts merged, because the division is not preserved."""
    made: list[dict[str, Any]] = []
    for part in parts:
        if made and part["type"] == made[-1]["type"] == "text":
            made[-1] = _written_text(f"{made[-1]['text']}\n{part['text']}")
        else:
            made.append(part)
    return made


def _user_part(part: Part) -> dict[str, Any] | None:
    if part.function_response is not None:
        return None
    if part.inline_data is not None or part.file_data is not None:
        return _media_or_words(part.inline_data, part.file_data)
    text = words_for(part)
    return _written_text(text) if text else None


def _written_content(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Parts as a message's content; a single text becomes a string, which every server accepts."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def _written_text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _media_or_words(data: Blob | None, file: FileData | None) -> dict[str, Any]:
    if file is not None and (file.mime_type or "image/").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": file.file_uri}}
    if file is not None:
        return _written_text(words_for(Part(file_data=file)))
    if data is None:
        return _written_text("")
    if data.mime_type.startswith("audio/"):
        sound = {"data": data.data, "format": data.mime_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": sound}
    url = f"data:{data.mime_type};base64,{data.data}"
    if data.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"file_data": url}}


def _tools(config: GenerateContentConfig, names: ToolNameMap) -> list[dict[str, Any]]:
    declared = declared_functions(config, names)
    return [
        {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        }
        for name, description, schema in declared
    ]


def write_choice(
    config: GenerateContentConfig,
    names: ToolNameMap,
    function: Callable[[str], dict[str, Any]],
    allowed: Callable[[list[dict[str, Any]]], dict[str, Any]],
) -> str | dict[str, Any] | None:
    """The value of `tool_choice`; None where the service decides. `function` writes the choice of
    one function, `allowed` that of several."""
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is None or calling.mode is None:
        return None
    match calling.mode:
        case FunctionCallingMode.NONE:
            return "none"
        case FunctionCallingMode.AUTO | FunctionCallingMode.VALIDATED:
            return "auto"
        case FunctionCallingMode.ANY:
            only = [function(names.original(name)) for name in calling.allowed_function_names or ()]
            if len(only) < 2:
                return only[0] if only else "required"
            return allowed(only)


def _allowed_choice(only: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": only}}


def _function_choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


def _generation(config: GenerationConfig) -> dict[str, Any]:
    body: dict[str, Any] = {
        name: getattr(config, name) for name in _COPIED if getattr(config, name) is not None
    }
    if config.max_output_tokens is not None:
        body["max_completion_tokens"] = config.max_output_tokens
    if config.stop_sequences:
        body["stop"] = list(config.stop_sequences)
    schema = answer_schema(config)
    if schema is not None:
        described = {"name": "answer", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": described}
    elif config.response_mime_type == "application/json":
        body["response_format"] = {"type": "json_object"}
    effort = effort_for(thinking_budget(config.thinking_config))
    if effort is not None:
        body["reasoning_effort"] = effort
    return body


def effort_for(tokens: int | None) -> str | None:
    """The lowest effort that grants the tokens."""
    if tokens is None or tokens < 0:
        return None
    return next((name for name, budget in EFFORTS.items() if budget >= tokens), "high")
