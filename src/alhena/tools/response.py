"""Converts a tool's result to the parts that answer its call (WIRE-11 to WIRE-15)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from alhena.tools.contract import LlmContent
from alhena.wire.content import (
    Blob,
    FileData,
    FunctionResponse,
    Part,
    media_label,
    takes_media,
)
from alhena.wire.json_values import scrub

SUCCEEDED = "Tool execution succeeded."

_OTHER_SPELLINGS = {
    "image/jpg": "image/jpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/x-aiff": "audio/aiff",
    "audio/x-flac": "audio/flac",
    "audio/x-m4a": "audio/m4a",
    "video/x-msvideo": "video/avi",
    "video/x-ms-wmv": "video/wmv",
}


def response_parts(name: str, call_id: str, llm_content: LlmContent) -> tuple[Part, ...]:
    """The parts that answer call `call_id` to `name`: its functionResponse with all text of the
    content, then media.

    There is exactly one functionResponse, whatever the content: an embedded one contributes its
    text, and a functionCall is dropped.
    """
    content = _single(llm_content)
    if isinstance(content, str):
        return (_answer(name, call_id, {"output": scrub(content)}),)
    if isinstance(content, Part):
        return _of_part(name, call_id, content)
    texts: list[str] = []
    media: list[Part] = []
    for item in content:
        data = None if isinstance(item, str) else item.inline_data or item.file_data
        part = _media_part(data) if data is not None else None
        if isinstance(part, str):
            texts.append(part)
        elif part is not None:
            media.append(part)
        else:
            texts.append(_item_text(item))
    output = _join_texts(texts) or SUCCEEDED
    return (_answer(name, call_id, {"output": scrub(output)}), *media)


def error_parts(name: str, call_id: str, message: str) -> tuple[Part, ...]:
    """The parts that answer a failed call."""
    return (_answer(name, call_id, {"error": scrub(message)}),)


def cancelled_parts(
    name: str, call_id: str, reason: str, partial: LlmContent | None = None
) -> tuple[Part, ...]:
    """The parts that answer a cancelled call; `partial` is what it had come to."""
    error = cancelled_text(reason)
    if partial is None:
        return error_parts(name, call_id, error)
    first, *siblings = response_parts(name, call_id, partial)
    made = first.function_response
    response = {**(made.response if made else {}), "error": scrub(error)}
    return (_answer(name, call_id, response), *siblings)


def cancelled_text(reason: str) -> str:
    """The error text of a cancelled call for the model."""
    return f"[Operation Cancelled] Reason: {reason}"


def join_responses(responses: Iterable[Sequence[Part]]) -> tuple[Part, ...]:
    """The parts of one user content: all functionResponses in call order, then all media, those of
    each call behind a line that names it if there are several calls."""
    batch = list(responses)
    answers: list[Part] = []
    behind: list[Part] = []
    for parts in batch:
        for part in parts:
            if part.function_response is not None:
                answers.append(part)
                if len(batch) > 1 and any(each.inline_data or each.file_data for each in parts):
                    behind.append(Part(text=media_label(part.function_response)))
            else:
                behind.append(part)
    return (*answers, *behind)


def content_length(parts: Iterable[Part]) -> int:
    """Size of the content for the model: characters of text plus characters of base64."""
    total = 0
    for part in parts:
        if part.function_response is not None:
            values = part.function_response.response.values()
            total += sum(len(value) for value in values if isinstance(value, str))
        if part.text is not None:
            total += len(part.text)
        if part.inline_data is not None:
            total += len(part.inline_data.data)
    return total


def content_text(content: LlmContent) -> str:
    """The text of a content, items separated by line breaks; media are skipped."""
    items = (content,) if isinstance(content, str | Part) else content
    return _join_texts(map(_item_text, items))


def _join_texts(texts: Iterable[str]) -> str:
    return "\n".join(filter(None, texts))


def _item_text(item: str | Part) -> str:
    if isinstance(item, str):
        return item
    if item.function_response is not None:
        return _words(_convert_embedded(item.function_response.response))
    return item.text or ""


def _single(content: LlmContent) -> LlmContent:
    if not isinstance(content, str | Part) and len(content) == 1:
        return content[0]
    return content


def _answer(name: str, call_id: str, response: dict[str, Any]) -> Part:
    return Part(function_response=FunctionResponse(id=call_id, name=name, response=response))


def _of_part(name: str, call_id: str, part: Part) -> tuple[Part, ...]:
    if part.function_response is not None:
        return (_answer(name, call_id, _convert_embedded(part.function_response.response)),)
    if part.text is not None:
        return (_answer(name, call_id, {"output": scrub(part.text)}),)
    data = part.inline_data or part.file_data
    if data is None:
        return (_answer(name, call_id, {"output": SUCCEEDED}),)
    media = _media_part(data)
    if isinstance(media, str):
        return (_answer(name, call_id, {"output": media}),)
    output = f"Binary content of type {_mime(media.inline_data or data)} was processed."
    return (_answer(name, call_id, {"output": output}), media)


def _mime(data: Blob | FileData) -> str:
    mime = (data.mime_type or "").partition(";")[0].strip().lower()
    return _OTHER_SPELLINGS.get(mime, mime) or "unknown"


def _media_part(data: Blob | FileData) -> Part | str:
    """The part that carries `data`, or a note where services reject it (conformance F13)."""
    if isinstance(data, FileData):
        return Part(file_data=data)
    from alhena.tools.media import correct_blob

    declared = _mime(data)
    found = correct_blob(Blob(mime_type=declared, data=data.data))
    if isinstance(found, str):
        return f"Binary content of type {declared} was left out: {found}."
    if not takes_media(found.mime_type):
        return (
            f"Binary content of type {found.mime_type} was left out: models take no media of this "
            "type."
        )
    return Part(inline_data=found)


def _convert_embedded(response: Mapping[str, Any]) -> dict[str, Any]:
    """An embedded response as this call's own: content blocks become text."""
    content: object = response.get("content")
    if isinstance(content, list):
        blocks = [_block_text(block) for block in cast("list[object]", content)]
        return {"output": scrub("\n".join(text for text in blocks if text))}
    try:
        return msgspec.json.decode(msgspec.json.encode(response), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())
        return {"error": scrub(f"The tool's response has no JSON form: {reason}")}


def _block_text(block: object) -> str:
    """The text of one content block; media are named, not included."""
    if isinstance(block, str):
        return block
    if not isinstance(block, dict):
        return ""
    fields = cast("dict[str, Any]", block)
    if isinstance(fields.get("text"), str):
        return fields["text"]
    resource: object = fields.get("resource")
    if isinstance(resource, dict):
        return _block_text(cast("object", resource))
    inline: object = fields.get("inlineData")
    source = cast("dict[str, Any]", inline) if isinstance(inline, dict) else fields
    kind, mime = fields.get("type", "data"), source.get("mimeType", "unknown")
    where = f" at {fields['uri']}" if isinstance(fields.get("uri"), str) else ""
    return f"[{kind} of type {mime}{where}]"


def _words(response: Mapping[str, Any]) -> str:
    for key in ("output", "error"):
        if isinstance(response.get(key), str):
            return response[key]
    return msgspec.json.encode(response).decode("utf-8") if response else ""
