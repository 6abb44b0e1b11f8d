"""Where an edit's old text stands in a file, and what to say when it does not.

`RUNGS` is the ladder: each rung finds the places by a looser rule than the one before, and the
first that finds any decides.
"""

from collections.abc import Callable

import msgspec

Span = tuple[int, int]
Rung = Callable[[str, str], list[Span]]


class Match(msgspec.Struct, frozen=True):
    """The places found, as ranges of the text in order, and the rung that found them."""

    rung: str
    spans: list[Span]


def exact(text: str, old: str) -> list[Span]:
    """Every place where `old` stands as it is, none overlapping another."""
    spans: list[Span] = []
    at = text.find(old)
    while at >= 0:
        spans.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


RUNGS: tuple[tuple[str, Rung], ...] = (("exact", exact),)


def find(text: str, old: str, rungs: tuple[tuple[str, Rung], ...] = RUNGS) -> Match | None:
    """The places of `old` (not empty) in `text`, both with LF line ends; None if there are none."""
    for name, rung in rungs:
        spans = rung(text, old)
        if spans:
            return Match(name, spans)
    return None


_SEARCHED = 20_000
_CANDIDATES = 200
_COMPARED = 2_000
_SHOWN = 120


def nearest(text: str, old: str) -> str:
    """A sentence on the line closest to `old` and how it differs; "" if none is near."""
    wanted = old.split("\n")
    lines = text.split("\n", _SEARCHED)[:_SEARCHED]
    anchor = next((index for index, line in enumerate(wanted) if line.strip()), None)
    if anchor is None:
        return ""
    key = _squeezed(wanted[anchor])
    places = [i for i, line in enumerate(lines) if key in _squeezed(line)][:_CANDIDATES]
    if not places:
        return _closest(lines, wanted[anchor])
    best = max(places, key=lambda at: _agreeing(lines, wanted, at - anchor))
    return _first_difference(lines, wanted, best - anchor)


def _squeezed(line: str) -> str:
    return "".join(line.split()).lower()


def _agreeing(lines: list[str], wanted: list[str], start: int) -> int:
    """How many of the wanted lines stand from `start` on, blanks and case aside."""
    here = lines[max(start, 0) : start + len(wanted)]
    given = wanted[max(-start, 0) :]
    return sum(_squeezed(a) == _squeezed(b) for a, b in zip(here, given, strict=False))


def _first_difference(lines: list[str], wanted: list[str], start: int) -> str:
    for offset, given in enumerate(wanted):
        number = start + offset
        if not 0 <= number < len(lines):
            return f"The file ends before line {offset + 1} of old_string." if number > 0 else ""
        if _fits(lines[number], given, first=offset == 0, last=offset == len(wanted) - 1):
            continue
        return (
            f"The closest place is line {number + 1}: the file has {_quoted(lines[number])}, "
            f"old_string has {_quoted(given)} ({_reason(lines[number], given)})."
        )
    return ""


def _fits(line: str, given: str, *, first: bool, last: bool) -> bool:
    if first and last:
        return given in line
    if first:
        return line.endswith(given)
    return line.startswith(given) if last else line == given


def _reason(line: str, given: str) -> str:
    if _squeezed(line) != _squeezed(given) and _squeezed(given) not in _squeezed(line):
        return "the text differs"
    if "".join(line.split()) != "".join(given.split()) and "".join(given.split()) not in "".join(
        line.split()
    ):
        return "upper and lower case differ"
    if ("\t" in line) != ("\t" in given):
        return "tabs and spaces differ"
    if line.lstrip() == given.lstrip():
        return "the indentation differs"
    if line.rstrip() == given.rstrip():
        return "the blanks at the end of the line differ"
    return "the blanks differ"


def _closest(lines: list[str], given: str) -> str:
    from difflib import get_close_matches

    wanted = given.strip()[:_SHOWN]
    stripped = [line.strip()[:_SHOWN] for line in lines[:_COMPARED]]
    near = get_close_matches(wanted, stripped, n=1, cutoff=0.75)
    if not near:
        return ""
    number = stripped.index(near[0])
    return (
        f"The closest line is line {number + 1}: the file has {_quoted(lines[number])}, old_string "
        f"has {_quoted(given)} ({_reason(lines[number], given)})."
    )


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")
