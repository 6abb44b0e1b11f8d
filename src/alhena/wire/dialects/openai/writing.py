"""Writes a chat completion request."""

from typing import Any

from alhena.wire.content import MODEL, Blob, Content, FileData, FunctionResponse, Part
from alhena.wire.dialects.conversation import (
    DialectRequest,
    NewId,
    ToolNames,
    answer_schema,
    declared_functions,
    system_texts,
    thinking_budget,
    with_ids,
)
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.openai.reading import EFFORTS
from alhena.wire.dialects.openai.response import message_of
from alhena.wire.dialects.results import from_response, refuse_lost, words_for
from alhena.wire.request import (
    FunctionCallingMode,
    GenerateContentConfig,
    GenerationConfig,
)

_COPIED = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "seed")


def write_request(
    request: DialectRequest, *, new_id: NewId, keep_thoughts: bool = True
) -> dict[str, Any]:
    """Builds the body of POST /v1/chat/completions. Unsupported media become text. Raises
    DialectError for settings that would be lost (`refuse_lost`).

    `keep_thoughts` keeps thoughts and signatures in `reasoning_content` and `extra_content`, which
    servers of other services may reject.
    """
    contents = with_ids(request.contents, new_id)
    config = request.config
    refuse_lost(config)
    messages: list[dict[str, Any]] = []
    system = system_texts(config)
    if system:
        messages.append({"role": "system", "content": _content([_text(text) for text in system])})
    for content in contents:
        messages += _messages(content, request.names, new_id, keep_thoughts=keep_thoughts)
    body: dict[str, Any] = {"model": request.model, "messages": messages}
    tools = _tools(config, request.names)
    if tools:
        body["tools"] = tools
    choice = _tool_choice(config, request.names)
    if choice == "required" and not tools:
        raise DialectError("demands a call, and no tool is declared.", "toolConfig")
    if choice is not None and tools:
        body["tool_choice"] = choice
    body |= _generation(config.generation_config or GenerationConfig())
    if request.stream:
        body["stream"] = True
        if request.include_usage:
            body["stream_options"] = {"include_usage": True}
    return body


def _messages(
    content: Content, names: ToolNames, new_id: NewId, *, keep_thoughts: bool
) -> list[dict[str, Any]]:
    if content.role == MODEL:
        message = message_of(content.parts, names, new_id)
        del message["refusal"]
        if not keep_thoughts:
            message = _plain(message)
        if message["content"] is None and "tool_calls" not in message:
            message["content"] = ""
        return [message]
    messages = [_result(part.function_response) for part in content.parts if part.function_response]
    said = [item for part in content.parts if (item := _user_part(part)) is not None]
    if said:
        messages.append({"role": "user", "content": _content(said)})
    return messages


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message without thoughts and signatures."""
    kept = {k: v for k, v in message.items() if k not in {"reasoning_content", "extra_content"}}
    if "tool_calls" in kept:
        kept["tool_calls"] = [
            {key: value for key, value in call.items() if key != "extra_content"}
            for call in kept["tool_calls"]
        ]
    return kept


def _result(answer: FunctionResponse) -> dict[str, Any]:
    pieces, _ = from_response(answer)
    parts = [
        _text(piece)
        if isinstance(piece, str)
        else _media_or_words(piece.inline_data, piece.file_data)
        for piece in pieces
    ]
    return {"role": "tool", "tool_call_id": answer.id, "content": _content(_joined(parts))}


def _joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of a result with adjacent texts merged, because the division is not preserved."""
    made: list[dict[str, Any]] = []
    for part in parts:
        if made and part["type"] == made[-1]["type"] == "text":
            made[-1] = _text(f"{made[-1]['text']}\n{part['text']}")
        else:
            made.append(part)
    return made


def _user_part(part: Part) -> dict[str, Any] | None:
    if part.function_response is not None:
        return None
    if part.inline_data is not None or part.file_data is not None:
        return _media_or_words(part.inline_data, part.file_data)
    text = words_for(part)
    return _text(text) if text else None


def _content(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Parts as a message's content; a single text becomes a string, which every server accepts."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        return str(parts[0]["text"])
    return parts


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _media_or_words(data: Blob | None, file: FileData | None) -> dict[str, Any]:
    if file is not None and (file.mime_type or "image/").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": file.file_uri}}
    if file is not None:
        return _text(words_for(Part(file_data=file)))
    if data is None:
        return _text("")
    if data.mime_type.startswith("audio/"):
        sound = {"data": data.data, "format": data.mime_type.removeprefix("audio/")}
        return {"type": "input_audio", "input_audio": sound}
    url = f"data:{data.mime_type};base64,{data.data}"
    if data.mime_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"file_data": url}}


def _tools(config: GenerateContentConfig, names: ToolNames) -> list[dict[str, Any]]:
    declared = declared_functions(config, names)
    return [
        {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": schema},
        }
        for name, description, schema in declared
    ]


def _tool_choice(config: GenerateContentConfig, names: ToolNames) -> str | dict[str, Any] | None:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is None or calling.mode is None:
        return None
    match calling.mode:
        case FunctionCallingMode.NONE:
            return "none"
        case FunctionCallingMode.AUTO | FunctionCallingMode.VALIDATED:
            return "auto"
        case FunctionCallingMode.ANY:
            only = [_named(names.original(name)) for name in calling.allowed_function_names or ()]
            if len(only) < 2:
                return only[0] if only else "required"
            allowed = {"mode": "required", "tools": only}
            return {"type": "allowed_tools", "allowed_tools": allowed}


def _named(name: str) -> dict[str, Any]:
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
    effort = _effort(thinking_budget(config.thinking_config))
    if effort is not None:
        body["reasoning_effort"] = effort
    return body


def _effort(tokens: int | None) -> str | None:
    """The lowest effort that grants the tokens."""
    if tokens is None or tokens < 0:
        return None
    return next((name for name, budget in EFFORTS.items() if budget >= tokens), "high")
