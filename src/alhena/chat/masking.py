"""Old results of tools, masked: the model keeps a preview, the whole stays on the disk."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from alhena.chat.estimates import response_tokens, text_tokens
from alhena.wire.content import Content, FunctionResponse, Part
from alhena.wire.encoded import EncodedContent, encode_value

Keep = Callable[[Sequence[tuple[str, str, str]]], Sequence[str | None]]
"""Keeps texts (tool, id of the call, text) on the disk: where each is, or None when it could not
be."""

EXEMPT = frozenset({"activate_skill", "ask_user", "enter_plan_mode", "exit_plan_mode"})
"""Tools whose answers steer everything that follows."""

OPEN, CLOSE = "<tool_output_masked>", "</tool_output_masked>"
FULL_AT = "Full output available at: "
MASK_LENGTH = 8_000
"""Characters that no mask exceeds."""

_SHELL = frozenset({"run_shell_command", "read_background_output"})
AHEAD = 4
"""Results that are kept with one turn before they are masked; those of one content go together."""
_LINES = 10
_END = 250
_LINE_END = 1_500


class MaskingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens. The newest `protected` of results stay as they are; nothing is masked before `least`
    can be. With `latest` the last content stays, whatever is in it."""

    protected: int = 50_000
    least: int = 30_000
    latest: bool = True


class KeptAhead:
    """A `Keep` over another, which has texts on the disk before they are asked for: a few with each
    turn, so that none has to wait for many."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._paths: dict[tuple[str, str, str], str] = {}
        self._next = 0

    def __call__(self, texts: Sequence[tuple[str, str, str]]) -> list[str | None]:
        """A `Keep`."""
        found = [self._paths.pop(text, None) for text in texts]
        there = [path if path and os.path.exists(path) else None for path in found]
        fresh = iter(
            self._keep([text for text, path in zip(texts, there, strict=True) if path is None])
        )
        return [next(fresh) if path is None else path for path in there]

    def prepare(self, entries: Sequence[EncodedContent], end: int) -> Callable[[], None] | None:
        """What keeps some results of `entries` that come before `end`, behind the last ones, and
        may be done in another thread; None where there are none."""
        texts: list[tuple[str, str, str]] = []
        while self._next < end and len(texts) < AHEAD:
            responses = (part.function_response for part in entries[self._next].content.parts)
            texts += (
                (response.name, response.id or "", said(response)[1])
                for response in responses
                if response is not None and _is_maskable(response) and _is_worth_it(response)
            )
            self._next += 1
        return partial(self._put_by, texts) if texts else None

    def _put_by(self, texts: Sequence[tuple[str, str, str]]) -> None:
        for text, path in zip(texts, self._keep(texts), strict=True):
            if path is not None:
                self._paths[text] = path

    def forget(self) -> None:
        """Begins anew, with another conversation."""
        self._paths.clear()
        self._next = 0


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
    contents: Mapping[int, Content],
    places: Mapping[int, frozenset[int]],
    keep: Keep,
    *,
    always: bool = False,
) -> dict[int, Content]:
    """Those of `contents` that change when the results at these places are masked. A result that
    cannot be kept on the disk stays whole, unless masked `always`; so does one that would not be
    shorter."""
    found: list[tuple[int, int, FunctionResponse]] = []
    for index, chosen in places.items():
        parts = contents[index].parts
        for place in sorted(chosen):
            response = parts[place].function_response
            if response is not None and _is_worth_it(response):
                found.append((index, place, response))
    texts = [(response.name, response.id or "", said(response)[1]) for _, _, response in found]
    changed: dict[int, list[Part]] = {}
    for (index, place, response), path in zip(found, keep(texts), strict=True):
        mask = _mask(response, path)
        if (path is None and not always) or mask is None:
            continue
        parts = changed.setdefault(index, list(contents[index].parts))
        parts[place] = msgspec.structs.replace(parts[place], function_response=mask)
    return {
        index: msgspec.structs.replace(contents[index], parts=tuple(parts))
        for index, parts in changed.items()
    }


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


def _is_worth_it(response: FunctionResponse) -> bool:
    text = said(response)[1]
    return text_tokens(preview(response.name, text)) + len(OPEN) <= text_tokens(text)


def _mask(response: FunctionResponse, path: str | None) -> FunctionResponse | None:
    """The masked result; None when it would not be shorter."""
    key, text = said(response)
    where = "It could not be kept on the disk." if path is None else f"{FULL_AT}{path}"
    shown = preview(response.name, text)
    mask = f"{OPEN}\n{shown}\n\nOutput too large. {where}\n{CLOSE}"
    if text_tokens(mask) >= text_tokens(text):
        return None
    return msgspec.structs.replace(response, response={key: mask})


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
