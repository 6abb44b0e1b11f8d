"""What a model and a person get of a result that is too long: its two ends, and where it is whole.

This is the one place of truncation, for the results, errors and displays of all tools (TOOLS-22).
"""

import msgspec

from alhena.tools.contract import (
    LlmContent,
    SpilledText,
    ToolFailure,
    ToolResult,
)
from alhena.tools.display import FileDiff, TerminalOutput, ToolDisplay
from alhena.tools.output_store import EXCERPT, WHOLE_AT, OutputStore
from alhena.tools.response import content_text
from alhena.wire.content import Part

DISPLAY_CHARACTERS = 100_000
_SAVING_FAILED = "The full output could not be saved"


class Truncation(msgspec.Struct, frozen=True, kw_only=True):
    """What was left out of a result; lengths are characters."""

    original_length: int
    truncated_length: int
    output_file: str | None
    problem: str


class BoundedResult(msgspec.Struct, frozen=True):
    """A result of bounded length; `truncation` is None when nothing was left out."""

    result: ToolResult
    truncation: Truncation | None


def bounded(result: ToolResult, store: OutputStore, tool: str, call_id: str) -> BoundedResult:
    """`result` as the model may have it. What is over the store's threshold is saved there."""
    result = msgspec.structs.replace(result, display=bounded_display(result.display))
    if result.error is not None:
        return _bounded_error(result, result.error, store, (tool, call_id))
    if result.spilled is not None:
        text = excerpt(result.spilled, store.memory_characters)
        replaced = msgspec.structs.replace(result, llm_content=text, spilled=None)
        return BoundedResult(replaced, _truncation(result.spilled, text))
    whole = content_text(result.llm_content)
    if not 0 < store.threshold < len(whole):
        return BoundedResult(result, None)
    spilled = _saved(whole, store, (tool, call_id))
    text = excerpt(spilled, store.threshold)
    content = _with_media(text, result.llm_content)
    replaced = msgspec.structs.replace(result, llm_content=content)
    return BoundedResult(replaced, _truncation(spilled, text))


def excerpt(spilled: SpilledText, size: int) -> str:
    """The first fifth and the rest from the end of `size` characters, below a line that says so."""
    first, last = ends(size)
    if spilled.path is None:
        where = f"{_SAVING_FAILED}: {spilled.problem}"
    elif spilled.problem:
        where = (
            f"For its first {spilled.saved:,} characters see: {spilled.path}\n"
            f"The rest could not be saved: {spilled.problem}"
        )
    else:
        where = f"{WHOLE_AT}{spilled.path}"
    omitted = spilled.characters - first - last
    return (
        f"{EXCERPT}{first:,} and last {last:,} characters. {where}\n"
        f"{spilled.head[:first]}\n\n... [{omitted:,} characters omitted] ...\n\n"
        f"{spilled.tail[len(spilled.tail) - last :]}"
    )


def ends(size: int) -> tuple[int, int]:
    """How many characters of the beginning and of the end make an excerpt of this size."""
    return size // 5, size - size // 5


def bounded_display(display: ToolDisplay) -> ToolDisplay:
    """What a person sees, its longest text no longer than 100,000 characters and a line."""
    match display:
        case str():
            return shortened(display)
        case TerminalOutput(text=text) if len(text) > DISPLAY_CHARACTERS:
            return msgspec.structs.replace(display, text=shortened(text))
        case FileDiff(file_diff=diff) if len(diff) > DISPLAY_CHARACTERS:
            return msgspec.structs.replace(display, file_diff=shortened(diff))
        case _:
            return display


def shortened(text: str, size: int = DISPLAY_CHARACTERS) -> str:
    """`text`, or its two ends around the number of characters between them."""
    if len(text) <= size:
        return text
    first, last = ends(size)
    omitted = len(text) - size
    return f"{text[:first]}\n... [{omitted:,} characters omitted] ...\n{text[len(text) - last :]}"


def _bounded_error(
    result: ToolResult, error: ToolFailure, store: OutputStore, name: tuple[str, str]
) -> BoundedResult:
    if not 0 < store.threshold < len(error.message):
        return BoundedResult(result, None)
    spilled = _saved(error.message, store, name)
    text = excerpt(spilled, store.threshold)
    replaced = msgspec.structs.replace(
        result, llm_content=text, error=ToolFailure(text, error.type), spilled=None
    )
    return BoundedResult(replaced, _truncation(spilled, text))


def _saved(text: str, store: OutputStore, name: tuple[str, str]) -> SpilledText:
    saved = store.save(*name, text)
    first, last = ends(store.threshold)
    return SpilledText(
        head=text[:first],
        tail=text[len(text) - last :],
        characters=len(text),
        path=None if saved.path is None else str(saved.path),
        problem=saved.problem,
    )


def _with_media(text: str, content: LlmContent) -> LlmContent:
    """`text` in place of all words of `content`, before the media that stand among them."""
    if isinstance(content, str | Part):
        return text
    media = tuple(
        item
        for item in content
        if isinstance(item, Part) and (item.inline_data or item.file_data) is not None
    )
    return (text, *media) if media else text


def _truncation(spilled: SpilledText, text: str) -> Truncation:
    return Truncation(
        original_length=spilled.characters,
        truncated_length=len(text),
        output_file=spilled.path,
        problem=spilled.problem,
    )
