"""What servers answer with -> what a model gets (MCP-04), and what a person sees (MCP-05)."""

import binascii
from collections.abc import Iterator
from typing import Any

import msgspec

from alhena.tools.contract import LlmContent
from alhena.wire.content import Blob, Part
from alhena.wire.plain import as_array, as_object

MAX_MEDIA = 10 * 1024 * 1024
"""Characters of base64 that one result may bring along; media beyond are named instead."""

UNREADABLE = "[Error: Could not parse tool response]"


def content_of(tool: str, result: dict[str, Any]) -> LlmContent:
    """The parts of a result, in its order. What `tool` is called stands before media. A result
    without blocks is told by its structured content."""
    blocks = as_array(result.get("content"))
    if blocks is None and result.get("content") is not None:
        return UNREADABLE
    room = _Room(MAX_MEDIA)
    parts = tuple(part for block in blocks or () for part in _parts(tool, _fields(block), room))
    if parts:
        return parts
    structured = result.get("structuredContent")
    return "" if structured is None else _json(structured)


def text_of(result: dict[str, Any]) -> str:
    """The words of a result, for people: media and links as short notes between brackets."""
    blocks = as_array(result.get("content")) or []
    lines = [line for block in blocks if (line := _shown(_fields(block)))]
    if not lines and result.get("structuredContent") is not None:
        return _json(result["structuredContent"])
    return "\n".join(lines)


class _Room(msgspec.Struct):
    """Characters of media that there is still room for."""

    left: int


def _parts(tool: str, block: dict[str, Any], room: _Room) -> Iterator[Part]:
    match block.get("type"):
        case "text":
            yield Part(text=_text(block, "text"))
        case "image" | "audio" as kind:
            what = f"{kind} data"
            yield from _media(tool, what, block.get("mimeType"), block.get("data"), room)
        case "resource":
            resource = _fields(block.get("resource"))
            if isinstance(resource.get("text"), str):
                yield Part(text=resource["text"])
            elif "blob" in resource:
                mime = resource.get("mimeType") or "application/octet-stream"
                yield from _media(tool, "embedded resource", mime, resource["blob"], room)
        case "resource_link":
            name = _text(block, "title") or _text(block, "name")
            yield Part(text=f"Resource Link: {name} at {_text(block, 'uri')}")
        case _:
            return


def _media(tool: str, what: str, mime: object, data: object, room: _Room) -> Iterator[Part]:
    kind = mime if isinstance(mime, str) and mime else "application/octet-stream"
    note = f"[Tool '{tool}' provided the following {what} with mime-type: {kind}]"
    if not isinstance(data, str) or not is_base64(data):
        yield Part(text=f"{note[:-1]}, but it is not valid base64 and is left out]")
    elif len(data) > room.left:
        yield Part(text=f"{note[:-1]}, but it is too large ({len(data):,} characters)]")
    else:
        room.left -= len(data)
        yield Part(text=note)
        yield Part(inline_data=Blob(mime_type=kind, data=data))


def is_base64(data: str) -> bool:
    """Whether this is base64 to the letter, as models want it."""
    try:
        binascii.a2b_base64(data.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True


def _shown(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return _text(block, "text")
        case "image":
            return f"[Image: {block.get('mimeType')}]"
        case "audio":
            return f"[Audio: {block.get('mimeType')}]"
        case "resource_link":
            name = _text(block, "title") or _text(block, "name")
            return f"[Link to {name}: {_text(block, 'uri')}]"
        case "resource":
            resource = _fields(block.get("resource"))
            if isinstance(resource.get("text"), str):
                return resource["text"]
            return f"[Embedded Resource: {resource.get('mimeType') or 'unknown type'}]"
        case other:
            return f"[Unknown content type: {other}]"


def _fields(value: object) -> dict[str, Any]:
    return as_object(value) or {}


def _text(fields: dict[str, Any], key: str) -> str:
    value: object = fields.get(key)
    return value if isinstance(value, str) else ""


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")
