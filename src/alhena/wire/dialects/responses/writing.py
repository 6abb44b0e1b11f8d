"""Requests to the Responses API, written. Nothing is stored there: each has the whole history."""

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
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.openai.writing import effort_for, write_choice, write_tier
from alhena.wire.dialects.responses.events import ItemWriter
from alhena.wire.dialects.responses.items import Item
from alhena.wire.dialects.results import from_response, refuse_lost, words_for
from alhena.wire.dialects.tool_forms import form_of
from alhena.wire.request import (
    GenerateContentConfig,
    GenerationConfig,
)

ENCRYPTED = "reasoning.encrypted_content"
_REFUSED = {
    "stop_sequences": "stopSequences",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "seed": "seed",
}
_NO_SUCH = "is not supported: OpenAI's Responses API has no such setting."
_FILE_NAMES = {"application/pdf": "file.pdf", "text/plain": "file.txt"}
_NOT_FILES = ("audio/", "video/")


def write_request(request: DialectRequest, *, new_id: NewId) -> dict[str, Any]:
    """Builds the body of POST /v1/responses. Unsupported media become text. Raises DialectError
    for settings that would be lost."""
    config = request.config
    refuse_lost(config)
    items: list[Item] = []
    for content in with_ids(request.contents, new_id):
        if content.role == MODEL:
            items += _model_items(content, request.names, new_id)
        else:
            items += _user_items(content, request.names)
    body: dict[str, Any] = {"model": request.model, "input": items}
    body |= {"store": False, "include": [ENCRYPTED]}
    system = system_texts(config)
    if system:
        body["instructions"] = "\n\n".join(system)
    tools = _tools(config, request.names)
    choice = write_choice(config, request.names, _function_choice, _allowed_choice)
    if choice == "required" and not tools:
        raise DialectError("demands a call, and no tool is declared.", "toolConfig")
    if tools:
        body |= {"tools": tools, "parallel_tool_calls": request.parallel_calls}
        if choice is not None:
            body["tool_choice"] = choice
    body |= _generation(config.generation_config or GenerationConfig())
    body |= write_tier(config.service_tier)
    return body | ({"stream": True} if request.stream else {})


def _model_items(content: Content, names: ToolNameMap, new_id: NewId) -> list[Item]:
    """The items of an answer. Only reasoning items keep an id, because nothing is stored."""
    writer = ItemWriter(names, new_id)
    for part in content.parts:
        for _ in writer.part(part):
            pass
    for _ in writer.close():
        pass
    return [_strip_item(item) for item in writer.items]


def _strip_item(item: Item) -> Item:
    kept = {key: value for key, value in item.items() if key != "status"}
    if item["type"] == "reasoning":
        return kept
    kept.pop("id", None)
    if item["type"] == "message":
        # Without an id a message has plain text.
        kept["content"] = "".join(each["text"] for each in item["content"])
    return kept


def _user_items(content: Content, names: ToolNameMap) -> list[Item]:
    answers = [part.function_response for part in content.parts if part.function_response]
    items = [_result(answer, names) for answer in answers]
    said = [piece for part in content.parts if (piece := _user_piece(part)) is not None]
    if said:
        items.append({"type": "message", "role": "user", "content": said})
    return items


def _result(answer: FunctionResponse, names: ToolNameMap) -> Item:
    """The output of a call: a text, or pieces if it has media."""
    pieces, _ = from_response(answer)
    output: str | list[Item]
    if all(isinstance(piece, str) for piece in pieces):
        output = "\n".join(piece for piece in pieces if isinstance(piece, str))
    else:
        output = [
            _input_text(piece)
            if isinstance(piece, str)
            else _media(piece.inline_data, piece.file_data)
            for piece in pieces
        ]
    kind = "custom_tool_call" if form_of(names, answer.name).custom else "function_call"
    return {"type": f"{kind}_output", "call_id": answer.id, "output": output}


def _user_piece(part: Part) -> Item | None:
    if part.function_response is not None:
        return None
    if part.inline_data is not None or part.file_data is not None:
        return _media(part.inline_data, part.file_data)
    text = words_for(part)
    return _input_text(text) if text else None


def _input_text(text: str) -> Item:
    return {"type": "input_text", "text": text}


def _media(data: Blob | None, file: FileData | None) -> Item:
    if file is not None:
        kind = file.mime_type or "image/"
        if kind.startswith("image/"):
            return {"type": "input_image", "image_url": file.file_uri, "detail": "auto"}
        if kind.startswith(_NOT_FILES):
            return _input_text(words_for(Part(file_data=file)))
        return {"type": "input_file", "file_url": file.file_uri}
    if data is None or data.mime_type.startswith(_NOT_FILES):
        return _input_text(words_for(Part(inline_data=data)))
    url = f"data:{data.mime_type};base64,{data.data}"
    if data.mime_type.startswith("image/"):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    name = data.display_name or _FILE_NAMES.get(data.mime_type, "file")
    return {"type": "input_file", "filename": name, "file_data": url}


def _tools(config: GenerateContentConfig, names: ToolNameMap) -> list[Item]:
    return [
        {
            "type": "function",
            "name": name,
            "description": description,
            "parameters": schema,
            "strict": False,
        }
        for name, description, schema in declared_functions(config, names)
    ]


def _function_choice(name: str) -> Item:
    return {"type": "function", "name": name}


def _allowed_choice(only: list[Item]) -> Item:
    return {"type": "allowed_tools", "mode": "required", "tools": only}


def _generation(config: GenerationConfig) -> dict[str, Any]:
    for field, name in _REFUSED.items():
        if getattr(config, field):
            raise DialectError(_NO_SUCH, f"generationConfig.{name}")
    body: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "max_output_tokens")
        if (value := getattr(config, name)) is not None
    }
    schema = answer_schema(config)
    if schema is not None:
        body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema}}
    elif config.response_mime_type == "application/json":
        body["text"] = {"format": {"type": "json_object"}}
    reasoning: dict[str, Any] = {}
    effort = effort_for(thinking_budget(config.thinking_config))
    if effort is not None:
        reasoning["effort"] = effort
    if config.thinking_config is not None and config.thinking_config.include_thoughts:
        reasoning["summary"] = "auto"
    return body | ({"reasoning": reasoning} if reasoning else {})
