"""Stretches of a conversation that are conversations themselves (C7).

For whatever sends a part of a history: compression, routing, loop checks. No cut ever comes
between a call and its response.
"""

from collections.abc import Sequence
from typing import TypeVar

from alhena.wire.content import MODEL, USER, Content
from alhena.wire.encoded import EncodedContent

Entry = TypeVar("Entry", Content, EncodedContent)


def slice_history(
    contents: Sequence[Entry],
    start: int = 0,
    stop: int | None = None,
    *,
    lead: Entry | None = None,
) -> tuple[Entry, ...]:
    """What of `contents[start:stop]` can stand by itself; negative positions count from the end.

    The start moves on to the next prompt. With a `lead`, a user's content of text that says what
    was left out, it moves to the next model's content at the latest, and the lead stands before it.
    Calls at the end whose responses are outside are left out. Empty when nothing can stand.
    """
    begin, end, _ = slice(start, stop).indices(len(contents))
    begin = split_point(contents, begin, steps=lead is not None)
    while end > begin and has_calls(contents[end - 1]):
        end -= 1
    taken = tuple(contents[begin:end])
    if lead is not None and taken and _content(taken[0]).role == MODEL:
        return (lead, *taken)
    return taken


def split_point(contents: Sequence[Entry], at: int, *, steps: bool = False) -> int:
    """The first position from `at` on where a history may be cut in two: before a prompt, and with
    `steps` also before a model's content. The length of the history when there is none."""
    for index in range(max(at, 0), len(contents)):
        content = _content(contents[index])
        if content.role == USER and not has_responses(content):
            return index
        if steps and content.role == MODEL and not has_responses(content):
            return index
    return len(contents)


def has_calls(entry: Content | EncodedContent) -> bool:
    """Whether a content holds a function call."""
    return any(part.function_call is not None for part in _content(entry).parts)


def has_responses(entry: Content | EncodedContent) -> bool:
    """Whether a content holds a function response."""
    return any(part.function_response is not None for part in _content(entry).parts)


def _content(entry: Content | EncodedContent) -> Content:
    return entry if isinstance(entry, Content) else entry.content
