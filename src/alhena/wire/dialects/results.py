"""What a tool returned: text and media in an order, and Gemini's response object with its parts.

The response holds `output`, or `error` when the tool failed. Where media stand between texts, a
line `[media 1]` in the text says where each belongs; where there are media, a line of the text
itself that looks like one stands in one more pair of brackets.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from alhena.wire.content import Content, FunctionResponse, FunctionResponsePart, Part
from alhena.wire.encoded import encode_value

Piece = str | FunctionResponsePart

_MARK = re.compile(r"^\[media ([1-9][0-9]*)\]$", re.MULTILINE)
_LIKE_MARK = re.compile(r"^\[+media [1-9][0-9]*\]+$", re.MULTILINE)
_ESCAPED = re.compile(r"^\[(\[+media [1-9][0-9]*\]+)\]$", re.MULTILINE)


def to_response(
    pieces: Iterable[Piece], *, failed: bool
) -> tuple[dict[str, Any], tuple[FunctionResponsePart, ...]]:
    """The response object and the media of a result. Texts side by side are joined by a line
    break; media behind all text need no mark."""
    items = list(pieces)
    if not all(isinstance(item, str) for item in items):
        items = [_LIKE_MARK.sub(r"[\g<0>]", i) if isinstance(i, str) else i for i in items]
    last_text = max((at for at, item in enumerate(items) if isinstance(item, str)), default=-1)
    lines: list[str] = []
    media: list[FunctionResponsePart] = []
    for at, item in enumerate(items):
        if isinstance(item, str):
            lines.append(item)
            continue
        media.append(item)
        if at < last_text:
            lines.append(f"[media {len(media)}]")
    return {"error" if failed else "output": "\n".join(lines)}, tuple(media)


def from_response(answer: FunctionResponse) -> tuple[list[Piece], bool]:
    """The pieces of a result in their order, and whether it is a failure. Empty texts are left out
    but where nothing else is there."""
    text = _text(answer.response)
    media = list(answer.parts or ())
    pieces: list[Piece] = []
    start = 0
    for number, mark in enumerate(_marks(text, len(media))):
        before = _own(text[start : mark.start()].removesuffix("\n"))
        if before:
            pieces.append(before)
        pieces.append(media[number])
        start = mark.end() + 1
    placed = sum(not isinstance(piece, str) for piece in pieces)
    if start < len(text) or not media:
        pieces.append(_own(text[start:]) if media else text[start:])
    pieces += media[placed:]
    return pieces, "error" in answer.response


def _own(text: str) -> str:
    """The words of the tool itself; lines of it that look like marks had brackets put around."""
    return _ESCAPED.sub(r"\g<1>", text)


def _marks(text: str, count: int) -> list["re.Match[str]"]:
    """The marks in a text; none when they are not those of `count` media."""
    found = list(_MARK.finditer(text)) if count else []
    numbers = [int(mark[1]) for mark in found]
    return found if numbers == list(range(1, len(found) + 1)) and len(found) <= count else []


def _text(response: dict[str, Any]) -> str:
    """The words of a response object; one of another form than ours is given as JSON."""
    for key in ("error", "output"):
        value = response.get(key)
        if len(response) == 1 and isinstance(value, str):
            return value
    return encode_value(response).decode() if response else ""


def beside_results(contents: Sequence[Content]) -> tuple[Content, ...]:
    """The contents with the media of results behind all results of their content, which is where
    models before Gemini 3 take them (F13); a line says to which call they belong."""
    return tuple(map(_beside, contents))


def _beside(content: Content) -> Content:
    if not any(part.function_response and part.function_response.parts for part in content.parts):
        return content
    answers: list[Part] = []
    behind: list[Part] = []
    for part in content.parts:
        answer = part.function_response
        if answer is None:
            behind.append(part)
            continue
        media = answer.parts or ()
        answers.append(Part(function_response=msgspec.structs.replace(answer, parts=None)))
        if media:
            behind.append(Part(text=f"[media of the result of {answer.name}, call {answer.id}]"))
        behind += [Part(inline_data=one.inline_data, file_data=one.file_data) for one in media]
    return Content(role=content.role, parts=(*answers, *behind))
