"""Answers of OpenAI's Responses API, as event streams that the openai package takes for valid."""

import json
from typing import Any

from openai.types.responses import Response, ResponseInputItemParam, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.support.server import Reply, json_reply

_EVENTS: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_INPUT: TypeAdapter[Any] = TypeAdapter(list[ResponseInputItemParam])
USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 29,
}


def reasoning(number: int, *summary: str, **more: Any) -> dict[str, Any]:
    texts = [{"type": "summary_text", "text": text} for text in summary]
    item = {"type": "reasoning", "id": f"rs_{number}", "summary": texts}
    return {**item, "encrypted_content": f"gAAAA+{number}==", **more}


def message(text: str, **more: Any) -> dict[str, Any]:
    piece = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [piece]}
    return {**item, "status": "completed", **more}


def function_call(call_id: str, name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    return {**item, "arguments": text, "status": "completed", **more}


def response(*items: dict[str, Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    made = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "status": status,
        "model": "gpt-5.1-codex-2026",
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": USAGE,
    } | more
    Response.model_validate(made)
    return made


def events(*items: dict[str, Any], end: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The events of an answer with these items; `end` is the response of the last one."""
    made: list[dict[str, Any]] = [
        {"type": "response.created", "response": response(status="in_progress", usage=None)}
    ]
    for at, item in enumerate(items):
        made += _item_events(at, item)
    last = end or response(*items)
    made.append({"type": f"response.{last['status']}", "response": last})
    for number, event in enumerate(made):
        event["sequence_number"] = number
        _EVENTS.validate_python(event)
    return made


def _item_events(at: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    place = {"output_index": at, "item_id": item["id"]}
    begun = dict(item)
    made: list[dict[str, Any]] = []
    if item["type"] == "reasoning":
        begun |= {"summary": []}
        begun.pop("encrypted_content", None)
        for number, each in enumerate(item["summary"]):
            for piece in _pieces(each["text"]):
                delta = {"type": "response.reasoning_summary_text.delta", "delta": piece}
                made.append({**delta, **place, "summary_index": number})
    elif item["type"] == "message":
        begun |= {"content": []}
        place["content_index"] = 0
        for content in item["content"]:
            refused = content["type"] == "refusal"
            kind = "response.refusal.delta" if refused else "response.output_text.delta"
            more = {} if refused else {"logprobs": []}
            for piece in _pieces(content["refusal" if refused else "text"]):
                made.append({"type": kind, **place, "delta": piece, **more})
    elif item["type"] == "function_call":
        begun |= {"arguments": ""}
        for piece in _pieces(item["arguments"]):
            delta = {"type": "response.function_call_arguments.delta", "delta": piece}
            made.append({**delta, **place})
        done = {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
        made.append({**done, **place})
    added = {"type": "response.output_item.added", "output_index": at, "item": begun}
    return [added, *made, {"type": "response.output_item.done", "output_index": at, "item": item}]


def _pieces(text: str) -> list[str]:
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]


def stream(*items: dict[str, Any], end: dict[str, Any] | None = None, **options: Any) -> Reply:
    """The reply with an answer's events; with `keep` only so many of them, and a broken connection."""
    keep = options.pop("keep", None)
    made = events(*items, end=end)[:keep]
    pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in made]
    return Reply(content_type="text/event-stream", pieces=pieces, cut=keep is not None, **options)


def whole(*items: dict[str, Any], **more: Any) -> Reply:
    return json_reply(response(*items, **more))


def refusal(message: str, status: int = 404, **more: Any) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "param": "model", "code": None}
    return json_reply({"error": error | more}, status)


def input_items(body: Any) -> list[dict[str, Any]]:
    """The input of a request, which the openai package takes for valid."""
    _INPUT.validate_python(body["input"])
    return body["input"]
