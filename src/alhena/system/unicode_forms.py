"""Canonically equal names and texts: é is one character or two, and a file system or a program may
change one into the other."""

import os
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate
from unicodedata import combining, normalize


def compose(text: str) -> str:
    """The composed form (NFC)."""
    return text if text.isascii() else normalize("NFC", text)


def existing_form(path: str, names_in: Callable[[str], Mapping[str, str]] | None = None) -> str:
    """An absolute, normalised path with the names that directories have for what is missing under
    the names given, but there in an equal form. `names_in` replaces `accented_names`, for many
    paths in the same directories."""
    if path.isascii() or os.path.lexists(path):
        return path
    names_in = names_in or accented_names
    found = ""
    for name in path.split("/")[1:]:
        below = f"{found}/{name}"
        if not name.isascii() and not os.path.lexists(below):
            below = f"{found}/{names_in(found or '/').get(compose(name), name)}"
        found = below
    return found


def accented_names(directory: str) -> dict[str, str]:
    """The names of a directory that are not ASCII by their composed forms: of equal ones the first
    in order."""
    try:
        with os.scandir(directory) as entries:
            names = sorted((each.name for each in entries if not each.name.isascii()), reverse=True)
    except OSError:  # there is nothing to find
        return {}
    return {compose(name): name for name in names}


def find_equal(text: str, wanted: str, most: int) -> list[tuple[int, int]]:
    """The ranges of `text`, at most so many, that are canonically equal to `wanted`; no character,
    with its accents, is taken in part."""
    if wanted.isascii() and text.isascii():
        return []
    apart, sought = normalize("NFD", text), normalize("NFD", wanted)
    lines, apart_lines = _line_starts(text), _line_starts(apart)
    spans: list[tuple[int, int]] = []
    at = apart.find(sought)
    while at >= 0 and len(spans) < most:
        end = at + len(sought)
        if end == len(apart) or not combining(apart[end]):
            first, last = (_origin(place, text, lines, apart_lines) for place in (at, end))
            if first is not None and last is not None:
                spans.append((first, last))
        at = apart.find(sought, end)
    return spans


def origin_of(span: tuple[int, int], text: str) -> tuple[int, int]:
    """The range of `text` for a range of its composed form."""
    places = range(len(text) + 1)
    start, end = (bisect_left(places, at, key=lambda k: len(compose(text[:k]))) for at in span)
    return start, max(start, end)


def keep_form(text: str, near: str) -> str:
    """`text` in the form of the text `near`, if that has one form only."""
    for form in ("NFC", "NFD"):
        other = "NFD" if form == "NFC" else "NFC"
        if near == normalize(form, near) != normalize(other, near):
            return normalize(form, text)
    return text


def _line_starts(text: str) -> list[int]:
    return [0, *accumulate(len(line) + 1 for line in text.split("\n"))]


def _origin(place: int, text: str, lines: list[int], apart_lines: list[int]) -> int | None:
    """The index in `text` of a place in its decomposed form; None within a character."""
    number = bisect_left(apart_lines, place + 1) - 1
    line = text[lines[number] : lines[number + 1]]
    starts = _decomposed_starts(line)
    column = bisect_left(starts, place - apart_lines[number])
    inside = column < len(starts) and starts[column] == place - apart_lines[number]
    return lines[number] + column if inside else None


@cache
def _decomposed_length(char: str) -> int:
    return len(normalize("NFD", char))


def _decomposed_starts(line: str) -> list[int]:
    """The places where each character of a line begins in its decomposed form, and of its end."""
    return [0, *accumulate(map(_decomposed_length, line))]
