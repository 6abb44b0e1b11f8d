"""Streamed Markdown cut into pieces that can be rendered once and for all."""

import re

from alhena.frontends.terminal.drawing.lines import fold_line, plain

MAX_CHARACTERS, MAX_LINE, MAX_OPENING = 16_000, 8_000, 80
"""Characters of a piece from which on it is cut, of a line, and of one that opens a fence again."""

_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_MARKS = re.compile(r" *(?:>|(?:[-*+]|\d{1,9}[.)]) +(?:\[[ xX]\] +)?)? *")
_PERHAPS_ITEM = re.compile(r"[-*+\d]")
_PARTS = re.compile(rf".{{{MAX_LINE - 1_000},{MAX_LINE}}}? |.{{1,{MAX_LINE}}}")


def split(text: str) -> tuple[tuple[str, ...], str]:
    """The finished pieces at the beginning of a text that still grows, and its open rest.

    A piece ends where a blank line is followed by a line at the margin that does not continue a
    list, and behind a code fence that is in no list. A piece that becomes too long is cut between
    lines; a fence is closed and opened again there.
    """
    lines = [
        part
        for line in text.split("\n")
        for part in ([line] if len(line) <= MAX_LINE else _PARTS.findall(line))
    ]
    finished: list[str] = []
    while (end := _first_end(lines)) is not None:
        index, opening = end
        piece = "\n".join(lines[:index]).strip("\n")
        closing = f"\n{_mark(opening)}" if opening else ""
        finished += [piece + closing] if piece.strip() else []
        lines = [*([opening] if opening else []), *lines[index:]]
    return tuple(finished), "\n".join(lines)


def _first_end(lines: list[str]) -> tuple[int, str] | None:
    """The number of lines of the first finished piece, and the line that opened the fence in which
    it ends; None while it is open. The last line may still grow."""
    fence, mark, listed, size = "", "", False, 0
    for index, line in enumerate(lines):
        complete = index < len(lines) - 1
        if fence:
            if complete and mark in line and _closes(line, mark):
                return index + 1, ""
        elif index and not lines[index - 1].strip() and line.strip() and line[0] not in " \t":
            item = _ITEM.match(line) if complete else _PERHAPS_ITEM.match(line)
            if not (listed and item):
                return index, ""
        if complete and size >= MAX_CHARACTERS:
            return index, fence[:MAX_OPENING]
        size += len(line) + 1
        if not fence:
            listed = listed or bool(_ITEM.match(line))
            opened = _FENCE.match(line)
            if opened is not None and not (listed and opened[1]):
                fence, mark = line, opened[2]
    return None


def fold_prose(text: str, columns: int) -> str:
    """Markdown in lines of at most `columns`, broken at blanks; those of code and tables stay."""
    mark = ""
    rows: list[str] = []
    for each in text.split("\n"):
        opened = _FENCE.match(each)
        stays = bool(mark or opened) or each.lstrip().startswith("|")
        if mark:
            mark = "" if _closes(each, mark) else mark
        elif opened:
            mark = opened[2]
        hang = _MARKS.match(each)
        folded = fold_line((("", each),), columns, hang.end() if hang else 0)
        rows.append(each if stays or not each else plain(folded))
    return "\n".join(rows)


def _mark(opening: str) -> str:
    found = _FENCE.match(opening)
    return found[2] if found else ""


def _closes(line: str, mark: str) -> bool:
    stripped = line.strip()
    indent = len(line) - len(line.lstrip(" "))
    return indent <= 3 and len(stripped) >= len(mark) and not stripped.strip(mark[0])
