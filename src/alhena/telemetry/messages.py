"""Writes the texts of requests and calls in the form of OpenTelemetry's conventions for GenAI."""

from typing import Any

import msgspec

from alhena.wire.json_values import as_array, as_object

_ROLES = {"model": "assistant"}
_REASONS = {"stop": "stop", "max_tokens": "length", "safety": "content_filter"}


def input_messages(contents: str) -> list[dict[str, Any]]:
    """The messages of a request; `contents` is the JSON of its contents. Results of tools are
    messages of the role `tool`."""
    messages: list[dict[str, Any]] = []
    for content in _objects(msgspec.json.decode(contents)):
        role = str(content.get("role", "user"))
        parts = list(map(_part, _objects(content.get("parts"))))
        results = [each for each in parts if each["type"] == "tool_call_response"]
        others = [each for each in parts if each["type"] != "tool_call_response"]
        if results:
            messages.append({"role": "tool", "parts": results})
        if others or not results:
            messages.append({"role": _ROLES.get(role, role), "parts": others})
    return messages


def output_messages(pieces: str, finish_reason: str) -> list[dict[str, Any]]:
    """The message of an answer; `pieces` is the JSON of its chunks."""
    parts: list[dict[str, Any]] = []
    for piece in _objects(msgspec.json.decode(pieces)):
        for candidate in _objects(piece.get("candidates"))[:1]:
            content = as_object(candidate.get("content")) or {}
            for part in map(_part, _objects(content.get("parts"))):
                _append(parts, part)
    calls = any(part["type"] == "tool_call" for part in parts)
    reason = finish_reason.lower()
    known = "tool_call" if calls and reason == "stop" else _REASONS.get(reason, reason)
    return [{"role": "assistant", "parts": parts, "finish_reason": known}]


def system_parts(instruction: str) -> list[dict[str, Any]]:
    """The parts of a system instruction; `instruction` is the JSON of its content."""
    content = as_object(msgspec.json.decode(instruction)) or {}
    return list(map(_part, _objects(content.get("parts"))))


def tool_result(parts: tuple[Any, ...]) -> Any:
    """The result of a call as the model gets it: the answer, or the answers of several parts."""
    plain = msgspec.json.decode(msgspec.json.encode(parts))
    found = [_part(part) for part in _objects(plain)]
    answers = [part["response"] if part["type"] == "tool_call_response" else part for part in found]
    return answers[0] if len(answers) == 1 else answers


def _append(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Adds a part; a text continues that of the same kind before it."""
    kind = part["type"]
    if parts and kind in {"text", "reasoning"} and parts[-1]["type"] == kind:
        parts[-1] = {**part, "content": parts[-1]["content"] + part["content"]}
    else:
        parts.append(part)


def _part(part: dict[str, Any]) -> dict[str, Any]:
    call, answer = as_object(part.get("functionCall")), as_object(part.get("functionResponse"))
    if call is not None:
        made = {"type": "tool_call", "id": call.get("id"), "name": call.get("name")}
        return made | {"arguments": call.get("args") or {}}
    if answer is not None:
        response = answer.get("response")
        return {"type": "tool_call_response", "id": answer.get("id"), "response": response}
    blob, file = as_object(part.get("inlineData")), as_object(part.get("fileData"))
    if blob is not None:  # its bytes would fill the span
        mime_type, size = str(blob.get("mimeType")), len(str(blob.get("data", ""))) * 3 // 4
        modality = mime_type.partition("/")[0]
        return {"type": "blob", "mime_type": mime_type, "modality": modality, "size": size}
    if file is not None:
        return {"type": "uri", "mime_type": file.get("mimeType"), "uri": file.get("fileUri")}
    kind = "reasoning" if part.get("thought") else "text"
    return {"type": kind, "content": str(part.get("text") or "")}


def _objects(value: object) -> list[dict[str, Any]]:
    return [found for each in as_array(value) or () if (found := as_object(each)) is not None]
