"""Old results of tools, masked: the model keeps a preview, the whole stays on the disk."""

from collections.abc import Callable, Sequence

import msgspec

from alhena.chat.estimates import response_tokens, text_tokens
from alhena.wire.content import Content, FunctionResponse, Part
from alhena.wire.encoded import EncodedContent, encode_value

Keep = Callable[[str, str, str], str | None]
"""Keeps a text of a tool's call on the disk: where it is, or None when it could not be."""

EXEMPT = frozenset({"activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"})
"""Tools whose answers steer everything that follows."""

OPEN, CLOSE = "<tool_output_masked>", "</tool_output_masked>"
MASK_LENGTH = 8_000
"""Characters that no mask exceeds."""

_SHELL = frozenset({"run_shell_command", "read_background_output"})
_LINES = 10
_END = 250
_LINE_END = 1_500


class MaskingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens. The newest `protected` of results stay as they are; nothing is masked before `least`
    can be. With `latest` the last content stays, whatever is in it."""

    protected: int = 50_000
    least: int = 30_000
    latest: bool = True


def maskable_tokens(content: Content) -> int:
    """Tokens of the results in a content that could be masked."""
    return sum(
        int(response_tokens(part.function_response))
        for part in content.parts
        if part.function_response is not None and _is_maskable(part.function_response)
    )


def to_mask(entries: Sequence[EncodedContent], limits: MaskingLimits) -> dict[int, frozenset[int]]:
    """What is old enough to be masked: positions of contents, and of parts in them. The result
    with which the protected ones are complete can be masked itself. Empty when it is not worth
    it."""
    found: dict[int, frozenset[int]] = {}
    seen = prunable = 0
    for index in range(len(entries) - 1 - limits.latest, -1, -1):
        parts = entries[index].content.parts
        chosen: set[int] = set()
        for place in range(len(parts) - 1, -1, -1):
            response = parts[place].function_response
            if response is None or not _is_maskable(response):
                continue
            tokens = int(response_tokens(response))
            seen += tokens
            if seen > limits.protected:
                chosen.add(place)
                prunable += tokens
        if chosen:
            found[index] = frozenset(chosen)
    return found if prunable >= limits.least else {}


def masked(
    content: Content, places: frozenset[int], keep: Keep, *, always: bool = False
) -> Content:
    """`content` with the results at these places masked. One that cannot be kept on the disk stays
    whole, unless masked `always`; so does one that would not be shorter."""
    parts = tuple(
        _masked_part(part, keep, always=always) if place in places else part
        for place, part in enumerate(content.parts)
    )
    return msgspec.structs.replace(content, parts=parts)


def preview(name: str, text: str) -> str:
    """The beginning and the end of a result: lines of a command's, characters of any other."""
    if name in _SHELL:
        lines = text.split("\n")
        if len(lines) <= 2 * _LINES:
            return _ends(text, _LINE_END)
        first, last = "\n".join(lines[:_LINES]), "\n".join(lines[-_LINES:])
        omitted = len(lines) - 2 * _LINES
        return (
            f"{_ends(first, _LINE_END)}\n... [{omitted:,} lines omitted] ...\n"
            f"{_ends(last, _LINE_END)}"
        )
    return _ends(text, _END)


def said(response: FunctionResponse) -> tuple[str, str]:
    """Under which key a result says something, and what; as JSON when it is not one text."""
    if len(response.response) == 1:
        (key, value), *_ = response.response.items()
        if isinstance(value, str):
            return key, value
    return "output", encode_value(response.response).decode("utf-8")


def _masked_part(part: Part, keep: Keep, *, always: bool) -> Part:
    response = part.function_response
    if response is None:
        return part
    key, text = said(response)
    shown = preview(response.name, text)
    if text_tokens(shown) + len(OPEN) > text_tokens(text):
        return part
    path = keep(response.name, response.id or "", text)
    if path is None:
        if not always:
            return part
        where = "Output too large. It could not be kept on the disk."
    else:
        where = f"Output too large. Full output available at: {path}"
    mask = f"{OPEN}\n{shown}\n\n{where}\n{CLOSE}"
    if text_tokens(mask) >= text_tokens(text):
        return part
    fresh = msgspec.structs.replace(response, response={key: mask})
    return msgspec.structs.replace(part, function_response=fresh)


def _is_maskable(response: FunctionResponse) -> bool:
    if response.name in EXEMPT or not response.response:
        return False
    if len(response.response) > 1:
        return True
    (value,) = response.response.values()
    return not (isinstance(value, str) and value.startswith(OPEN) and len(value) <= MASK_LENGTH)


def _ends(text: str, size: int) -> str:
    if len(text) <= 2 * size:
        return text
    return f"{text[:size]}\n... [TRUNCATED] ...\n{text[len(text) - size :]}"
