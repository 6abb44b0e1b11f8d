"""The request for a summary: what of a conversation goes into it, so that it always fits, and what
is taken from the answer."""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from alhena.chat.estimates import content_tokens, part_tokens, text_tokens
from alhena.chat.masking import preview, said
from alhena.errors import AlhenaError
from alhena.wire.conformance.slices import slice_history
from alhena.wire.content import MODEL, USER, Content, Part, text_content
from alhena.wire.encoded import EncodedContent

Ask = Callable[[tuple[EncodedContent, ...], str], Awaitable[str]]
"""The model's whole answer to contents under an instruction. Raises AlhenaError."""

RESULT_TOKENS = 50_000
"""Tokens of the newest results of tools that go in whole; of older ones a preview."""
TEXT_LENGTH = 8_000
"""Characters of any text, where the conversation would not fit otherwise."""
CHECKED_SHARE = 0.5
"""The share of a summary's length, without tags, that is left of it after it was checked."""
LEFT_OUT = "[The beginning of this conversation was left out, because it does not fit.]"
TOOLS_DONE = "[Tool execution completed.]"

_OPEN, _CLOSE = "<state_snapshot>", "</state_snapshot>"
_PROMPTS = Path(__file__).parent / "prompts"


@cache
def compression_text(name: str = "") -> str:
    """A text about compression of `prompts/`: the instruction, or `ask` and `check`."""
    file = f"compression_{name}.md" if name else "compression.md"
    return (_PROMPTS / file).read_text(encoding="utf-8").strip()


def overhead() -> int:
    """Tokens of the texts that go with a request for a summary."""
    return int(sum(text_tokens(compression_text(name)) for name in ("", "ask", "check")))


def summary_request(
    entries: Sequence[EncodedContent], room: int
) -> tuple[EncodedContent, ...] | None:
    """The contents that ask for a summary of these, in about `room` estimated tokens; None when
    nothing of them can stand by itself."""
    taken = _fitting(entries, room)
    if not taken:
        return None
    ask = EncodedContent(text_content(USER, compression_text("ask")))
    if taken[-1].content.role == USER:
        return (*taken, EncodedContent(text_content(MODEL, TOOLS_DONE)), ask)
    return (*taken, ask)


def check_request(asked: tuple[EncodedContent, ...], summary: str) -> tuple[EncodedContent, ...]:
    """The contents that have a summary checked. They begin as those before did, so that a service
    need not read these again."""
    said = (text_content(MODEL, summary), text_content(USER, compression_text("check")))
    return (*asked, *map(EncodedContent, said))


def snapshot(answer: str) -> str:
    """The summary in an answer, which is one whole element; "" when there is none, or nothing in
    it. A summary may speak of its own tags: the first that opens and the last that closes count."""
    start, end = answer.find(_OPEN), answer.rfind(_CLOSE)
    if start < 0 or end < start:
        return ""
    body = answer[start + len(_OPEN) : end]
    return f"{_OPEN}{body.rstrip()}\n{_CLOSE}" if _without_tags(body) else ""


def checked(summary: str, answer: str) -> str:
    """What a summary is after the model has looked at it again: what it answered, unless that is no
    summary, or so much shorter that it cannot be the whole of it."""
    found = snapshot(answer)
    least = len(_without_tags(summary)) * CHECKED_SHARE
    return found if len(_without_tags(found)) >= least else summary


def _without_tags(text: str) -> str:
    return re.sub(r"<[^<>]*>", "", text).strip()


async def summary_of(ask: Ask, entries: Sequence[EncodedContent], room: int, answer: int) -> str:
    """A summary of contents, asked for in `room` estimated tokens and checked by the model that
    wrote it, where there are `answer` more for that; "" when there is none. Raises AlhenaError."""
    asked = summary_request(entries, room)
    if asked is None:
        return ""
    instruction = compression_text()
    summary = snapshot(await ask(asked, instruction))
    check = check_request(asked, summary)
    if not summary or sum(content_tokens(entry.content) for entry in check) > room + answer:
        return summary
    try:
        return checked(summary, await ask(check, instruction))
    except AlhenaError:  # the summary that is there is good enough to go on from
        return summary


def _fitting(entries: Sequence[EncodedContent], room: int) -> tuple[EncodedContent, ...]:
    contents = _with_older_results_short([entry.content for entry in entries])
    tokens = [content_tokens(content) for content in contents]
    if sum(tokens) > room:
        contents = [_short(content) for content in contents]
        tokens = [content_tokens(content) for content in contents]
    shortened = [
        entry if content is entry.content else EncodedContent(content)
        for entry, content in zip(entries, contents, strict=True)
    ]
    left, start = sum(tokens), 0
    while left > room and start < len(tokens):
        left -= tokens[start]
        start += 1
    lead = EncodedContent(text_content(USER, LEFT_OUT)) if start else None
    return slice_history(shortened, start, lead=lead)


def _with_older_results_short(contents: list[Content]) -> list[Content]:
    left = RESULT_TOKENS
    for index in range(len(contents) - 1, -1, -1):
        content = contents[index]
        parts = list(content.parts)
        for place in range(len(parts) - 1, -1, -1):
            if parts[place].function_response is None:
                continue
            left -= int(part_tokens(parts[place]))
            if left < 0:
                parts[place] = _short_result(parts[place])
        if tuple(parts) != content.parts:
            contents[index] = msgspec.structs.replace(content, parts=tuple(parts))
    return contents


def _short_result(part: Part) -> Part:
    response = part.function_response
    if response is None:
        return part
    key, text = said(response)
    fresh = msgspec.structs.replace(
        response, response={key: preview(response.name, text)}, parts=None
    )
    return msgspec.structs.replace(part, function_response=fresh)


def _short(content: Content) -> Content:
    """A content in which no text is long and media are only named."""
    return msgspec.structs.replace(content, parts=tuple(map(_short_part, content.parts)))


def _short_part(part: Part) -> Part:
    if part.function_response is not None:
        return _short_result(part)
    if part.inline_data is not None or part.file_data is not None:
        media = part.inline_data or part.file_data
        kind = (media and media.mime_type) or "a file"
        return Part(text=f"[{kind} was here.]")
    if part.text and len(part.text) > TEXT_LENGTH:
        half = TEXT_LENGTH // 2
        omitted = len(part.text) - TEXT_LENGTH
        text = f"{part.text[:half]}\n... [{omitted:,} characters] ...\n{part.text[-half:]}"
        return msgspec.structs.replace(part, text=text)
    if part.function_call is not None and part_tokens(part) > TEXT_LENGTH / 4:
        args = {key: _short_value(value) for key, value in (part.function_call.args or {}).items()}
        call = msgspec.structs.replace(part.function_call, args=args)
        return msgspec.structs.replace(part, function_call=call)
    return part


def _short_value(value: object) -> object:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8")
    return f"{text[: TEXT_LENGTH // 8]} ..." if len(text) > TEXT_LENGTH // 4 else value
