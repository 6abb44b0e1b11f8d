"""Repairs within one content (C1-C3, F12, F13, S2, S4-S6)."""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from alhena.wire.conformance.contents import SIGNATURE_STAND_INS
from alhena.wire.content import (
    DATA_FIELDS,
    MODEL,
    USER,
    Content,
    FunctionResponse,
    FunctionResponsePart,
    Part,
)
from alhena.wire.media import takes_media
from alhena.wire.signatures import without_thoughts

Note = Callable[[str, int, str], None]
"""Takes a rule, the position of a content, and what was done."""

_MODELS = frozenset({"assistant", "ai", "bot"})


def mend_content(
    content: Content, index: int, note: Note, *, signed: bool, thoughts: bool = False
) -> Content | None:
    """The content with parts that can be sent, None when it has none; the same object when nothing
    had to be done. Not `signed`, it keeps no signatures; with `thoughts` it keeps its thoughts."""
    role = _role(content, index, note)
    parts = list(content.parts)
    if not thoughts and any(part.thought for part in parts):
        parts = without_thoughts(parts)
        note("S5", index, "thoughts were left out, with their signatures.")
    if role == USER or not signed:
        parts = _unsigned(parts, index, note, "S2" if signed else "S6")
    parts = list(_single(parts, index, note))
    if any(part.function_response is not None for part in parts):
        parts = [_without_media(part, index, note) for part in parts]
    parts = [_whole_call(part, index, note) for part in parts]
    _take_stand_ins(parts, index, note)
    if not parts:
        note("C2", index, "a content without parts was left out.")
        return None
    if role == content.role and len(parts) == len(content.parts) and _same(parts, content.parts):
        return content
    return Content(role=role, parts=tuple(parts))


def _same(parts: Sequence[Part], given: Sequence[Part]) -> bool:
    return all(one is other for one, other in zip(parts, given, strict=True))


def _role(content: Content, index: int, note: Note) -> str:
    if content.role in (USER, MODEL):
        return content.role
    calls = any(part.function_call is not None for part in content.parts)
    role = MODEL if calls or content.role in _MODELS else USER
    note("C1", index, f"the role became {role}.")
    return role


def _unsigned(parts: Sequence[Part], index: int, note: Note, rule: str) -> list[Part]:
    if all(part.thought_signature is None for part in parts):
        return list(parts)
    note(rule, index, "thought signatures were removed.")
    return [
        part if part.thought_signature is None else replace(part, thought_signature=None)
        for part in parts
    ]


def _single(parts: Sequence[Part], index: int, note: Note) -> Iterator[Part]:
    """C3: parts with exactly one data field. The signature of a part with several goes with its
    call, else with the first."""
    for part in parts:
        fields = [name for name in DATA_FIELDS if getattr(part, name) is not None]
        if part.text == "" and (len(fields) > 1 or not part.thought_signature):
            fields.remove("text")
            note("C3", index, "an empty text was left out.")
            if fields:
                part = replace(part, text=None)
        elif not fields:
            note("C3", index, "a part without data was left out.")
        if len(fields) > 1:
            note("C3", index, "a part with several data fields became several parts.")
            yield from _split(part, fields)
        elif fields:
            yield part


def _split(part: Part, fields: Sequence[str]) -> Iterator[Part]:
    signed = "function_call" if "function_call" in fields else fields[0]
    for name in fields:
        others = {other: None for other in fields if other != name}
        signature = part.thought_signature if name == signed else None
        yield replace(part, **others, thought_signature=signature)


def _without_media(part: Part, index: int, note: Note) -> Part:
    """F13: media that no model takes, replaced by a sentence."""
    blob = part.inline_data
    if blob is not None and not takes_media(blob.mime_type):
        note("F13", index, f"data of type {blob.mime_type} was replaced by a text.")
        return Part(text=_left_out(blob.mime_type))
    response = part.function_response
    if response is None or response.parts is None:
        return part
    whole = tuple(item for item in response.parts if _is_whole(item))
    if len(whole) < len(response.parts):
        note("C3", index, "a part of a response without one medium was left out.")
        response = replace(response, parts=whole or None)
        part = replace(part, function_response=response)
    refused = [
        item.inline_data.mime_type
        for item in whole
        if item.inline_data is not None and not takes_media(item.inline_data.mime_type)
    ]
    if not refused:
        return part
    note("F13", index, f"data of type {', '.join(refused)} was taken out of a response.")
    return replace(part, function_response=_told(response, refused))


def _is_whole(part: FunctionResponsePart) -> bool:
    return (part.inline_data is None) != (part.file_data is None)


def _told(response: FunctionResponse, refused: Sequence[str]) -> FunctionResponse:
    kept = tuple(
        item
        for item in response.parts or ()
        if item.inline_data is None or takes_media(item.inline_data.mime_type)
    )
    body = dict(response.response)
    output = body.get("output")
    if isinstance(output, str) or "output" not in body:
        notes = "\n".join(map(_left_out, refused))
        body["output"] = f"{output}\n{notes}" if output else notes
    return replace(response, response=body, parts=kept or None)


def _left_out(mime_type: str) -> str:
    return f"[Data of type {mime_type} was left out: models take no media of this type.]"


def _whole_call(part: Part, index: int, note: Note) -> Part:
    """F12: a call without the marks of streaming."""
    call = part.function_call
    if call is None or not (call.partial_args or call.will_continue):
        return part
    note("F12", index, "a call lost the marks of one that is still being streamed.")
    return replace(part, function_call=replace(call, partial_args=None, will_continue=None))


def _take_stand_ins(parts: list[Part], index: int, note: Note) -> None:
    """S4: stand-ins on calls behind the first."""
    first = True
    for position, part in enumerate(parts):
        if part.function_call is None:
            continue
        if not first and part.thought_signature in SIGNATURE_STAND_INS:
            parts[position] = replace(part, thought_signature=None)
            note("S4", index, "a stand-in for a signature was removed behind the first call.")
        first = False
