"""Chat completion requests, written."""

from collections.abc import Callable
from typing import Any

from alhena.wire.content import MODEL, Blob, Content, FileData, FunctionResponse, Part
from alhena.wire.dialects.conversation import (
    DialectRequest,
    NewId,
    ToolNameMap,
    answer_schema,
    declared_functions,
    system_texts,
    thinking_budget,
    with_ids,
)
from alhena.wire.dialects.fields import EFFORTS, DialectError
from alhena.wire.dialects.openai.reading import TIERS
from alhena.wire.dialects.openai.response import message_of
from alhena.wire.dialects.results import from_response, refuse_lost, words_for
from alhena.wire.request import (
    FunctionCallingMode,
    GenerateContentConfig,
    GenerationConfig,
    ServiceTier,
)

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


def write_tier(tier: ServiceTier | None) -> dict[str, str]:
    """The field `service_tier`, if it is set."""
    if tier is None:
        return {}
    return {"service_tier": next(name for name, each in TIERS.items() if each is tier)}
