"""A Messages request, written."""

import base64
import binascii
from typing import Any

from alhena.wire.content import MODEL, Blob, Content, FileData, FunctionResponse, Part
from alhena.wire.dialects.anthropic.blocks import blocks_of
from alhena.wire.dialects.conversation import (
    DialectRequest,
    NewId,
    answer_schema,
    declared_functions,
    system_texts,
    thinking_budget,
    with_ids,
)
from alhena.wire.dialects.lost import refuse_lost
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.results import from_response
from alhena.wire.dialects.words import words_for
from alhena.wire.request import (
    FunctionCallingMode,
    GenerateContentConfig,
    GenerationConfig,
)

DEFAULT_MAX_TOKENS = 8192
"""The dialect demands a limit; Gemini's own default has none."""

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def write_request(
    request: DialectRequest, *, new_id: NewId, keep_thoughts: bool = True
) -> dict[str, Any]:
    """The body of POST /v1/messages. Media that a message cannot hold become words. Raises
    DialectError for settings that would be lost (`refuse_lost`).

    `keep_thoughts` keeps thoughts and signatures in their opaque fields; a server of another
    service refuses those.
    """
    contents = with_ids(request.contents, new_id)
    config = request.config
    refuse_lost(config)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _messages(contents, request.names, new_id, keep_thoughts=keep_thoughts),
    }
    system = system_texts(config)
    if system:
        body["system"] = [{"type": "text", "text": text} for text in system]
    tools = _tools(config, request.names)
    if tools:
        body["tools"] = tools
    choice = _tool_choice(config, request.names)
    if choice is not None:
        body["tool_choice"] = choice
    body |= _generation(config.generation_config or GenerationConfig())
    if request.stream:
        body["stream"] = True
    return body


def _messages(
    contents: tuple[Content, ...], names: ToolNames, new_id: NewId, *, keep_thoughts: bool
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for content in contents:
        if content.role == MODEL:
            parts = content.parts if keep_thoughts else tuple(_plain(content.parts))
            role, blocks = "assistant", blocks_of(parts, names, new_id)
        else:
            role, blocks = "user", [block for part in content.parts for block in _user_blocks(part)]
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return messages


def _plain(parts: tuple[Part, ...]) -> list[Part]:
    """The parts without thoughts and signatures."""
    return [
        Part(
            text=part.text,
            inline_data=part.inline_data,
            file_data=part.file_data,
            function_call=part.function_call,
            executable_code=part.executable_code,
            code_execution_result=part.code_execution_result,
        )
        for part in parts
        if not part.thought
    ]


def _user_blocks(part: Part) -> list[dict[str, Any]]:
    if part.function_response is not None:
        return [_result(part.function_response)]
    media = _media(part.inline_data, part.file_data)
    if media is not None:
        return [media]
    text = words_for(part)
    return [{"type": "text", "text": text}] if text else []


def _result(answer: FunctionResponse) -> dict[str, Any]:
    pieces, failed = from_response(answer)
    blocks = [
        {"type": "text", "text": piece}
        if isinstance(piece, str)
        else _media(piece.inline_data, piece.file_data)
        or {
            "type": "text",
            "text": words_for(Part(inline_data=piece.inline_data, file_data=piece.file_data)),
        }
        for piece in pieces
        if piece != ""
    ]
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": answer.id, "content": blocks}
    if failed:
        block["is_error"] = True
    return block


def _media(data: Blob | None, file: FileData | None) -> dict[str, Any] | None:
    """The block of media; None when the dialect has none for them."""
    if data is not None:
        return _data_block(data)
    if file is None:
        return None
    kind = "document" if file.mime_type == "application/pdf" else "image"
    if kind == "image" and file.mime_type is not None and file.mime_type not in _IMAGES:
        return None
    return {"type": kind, "source": {"type": "url", "url": file.file_uri}}


def _data_block(data: Blob) -> dict[str, Any] | None:
    if data.mime_type == "text/plain":
        try:
            text = base64.b64decode(data.data, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return None
        source = {"type": "text", "media_type": data.mime_type, "data": text}
        return {"type": "document", "source": source}
    kind = "document" if data.mime_type == "application/pdf" else "image"
    if kind == "image" and data.mime_type not in _IMAGES:
        return None
    source = {"type": "base64", "media_type": data.mime_type, "data": data.data}
    return {"type": kind, "source": source}


def _tools(config: GenerateContentConfig, names: ToolNames) -> list[dict[str, Any]]:
    """The tools; of several among which one has to be called, those alone, for the dialect cannot
    say it otherwise."""
    only = {names.original(name) for name in _allowed(config)}
    return [
        {"name": name, "description": description, "input_schema": schema}
        for name, description, schema in declared_functions(config, names)
        if len(only) < 2 or name in only
    ]


def _allowed(config: GenerateContentConfig) -> tuple[str, ...]:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is None or calling.mode is not FunctionCallingMode.ANY:
        return ()
    return calling.allowed_function_names or ()


def _tool_choice(config: GenerateContentConfig, names: ToolNames) -> dict[str, Any] | None:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is None or calling.mode is None:
        return None
    match calling.mode:
        case FunctionCallingMode.NONE:
            return {"type": "none"}
        case FunctionCallingMode.ANY:
            only = _allowed(config)
            if len(only) == 1:
                return {"type": "tool", "name": names.original(only[0])}
            return {"type": "any"}
        case FunctionCallingMode.AUTO | FunctionCallingMode.VALIDATED:
            return {"type": "auto"}


def _generation(config: GenerationConfig) -> dict[str, Any]:
    body: dict[str, Any] = {"max_tokens": config.max_output_tokens or DEFAULT_MAX_TOKENS}
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if config.top_p is not None:
        body["top_p"] = config.top_p
    if config.top_k is not None:
        body["top_k"] = config.top_k
    if config.stop_sequences:
        body["stop_sequences"] = list(config.stop_sequences)
    schema = answer_schema(config)
    if schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    budget = thinking_budget(config.thinking_config)
    if budget is not None:
        body["thinking"] = _thinking(budget)
    return body


def _thinking(budget: int) -> dict[str, Any]:
    if budget == 0:
        return {"type": "disabled"}
    if budget < 0:
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": budget}
