"""Markdown around words that others have written: they can be read as they were meant, and are
neither headings of the document nor anything that a viewer would carry out.

What is written here is read alike by every viewer: a fence has more backticks than anything in it
and stands at the beginning of a line, a code span ends on its line (and in its cell of a table),
and outside of these no `<`, `[` and reference to a character is left as such.
"""

import re

from alhena.display_text import one_line
from alhena.suspicious_text import shown

_LANGUAGES = (
    "bash c c# c++ clojure console cpp cs css dart diff dockerfile elixir erlang f# go graphql "
    "haskell html ini java javascript js json json5 jsonc jsx julia kotlin lua make makefile "
    "markdown md objc ocaml patch perl php plain powershell proto py python r rb rs ruby rust "
    "scala scss sh shell sql swift tex text toml ts tsx txt typescript xml yaml yml zig zsh"
)
"""Languages that a block of code may say it is in; some viewers carry out what is in others."""

_OPENS = re.compile(r"([ \t]*)(`{3,}(?=[^`]*\Z)|~{3,})(.*)")
_CONTAINERS = re.compile(r"(?:[ \t>]|[-*+](?=[ \t])|[0-9]{1,9}[.)](?=[ \t]))*")
_RULE = re.compile(r"([ \t>]*)([-=*_+][-=*_+ \t]*)")
_PIECE = re.compile(r"\\[!-/:-@\[-`{-~]|`+|\[|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])")
_INDENT = re.compile(r" {4}| {0,3}\t")
_MARK = re.compile(r"[\\`*\[\]<>&#|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def inline(text: str) -> str:
    """A text on one line, every character of it as it is."""
    return _MARK.sub(lambda mark: _ENTITIES.get(mark[0], f"\\{mark[0]}"), one_line(text))


def fenced(text: str, language: str = "") -> list[str]:
    """The lines of a block of code."""
    body = shown(text).rstrip("\n")
    longest = max(map(len, re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", body, fence]


def prose(text: str) -> list[str]:
    """The lines of words that are Markdown themselves. Code, lists, quotations, tables and emphasis
    stay; headings, rules, links, images and HTML are told as they were written."""
    lines: list[str] = []
    found = shown(text).split("\n")
    at, listed = 0, False
    while at < len(found):
        line = found[at]
        begins = at == 0 or not found[at - 1].strip()
        if opening := _OPENS.fullmatch(line):
            body, at = _block(found, at + 1, opening)
            info = opening[3].strip()
            known = info.lower() in _LANGUAGES.split()
            lines += [] if known or not info else [_line(info)]
            lines += fenced(body, info if known else "")
        elif begins and not listed and line.strip() and _INDENT.match(line):
            body, at = _indented(found, at)
            lines += fenced(body)
        else:
            containers = _CONTAINERS.match(line)
            marked = containers is not None and bool(containers[0].strip(" \t>"))
            listed = marked or (listed and (not line.strip() or not begins or line[0] in " \t"))
            lines.append(_line(line))
            at += 1
    return lines


def _block(lines: list[str], at: int, opening: re.Match[str]) -> tuple[str, int]:
    """What stands between the fence that opens before `at` and the one that closes, and where the
    rest begins."""
    indent, fence, _ = opening.groups()
    closing = re.compile(rf"[ \t]*{fence}{re.escape(fence[0])}*[ \t]*")
    body: list[str] = []
    while at < len(lines) and not closing.fullmatch(lines[at]):
        line = lines[at]
        body.append(line[len(indent) :] if line.startswith(indent) else line.lstrip(" \t"))
        at += 1
    return "\n".join(body), at + 1


def _indented(lines: list[str], at: int) -> tuple[str, int]:
    """The code that begins at a line as it is indented, and where the rest begins."""
    end = stop = at
    while stop < len(lines) and (_INDENT.match(lines[stop]) or not lines[stop].strip()):
        stop += 1
        end = stop if lines[stop - 1].strip() else end
    return "\n".join(_INDENT.sub("", line, count=1) for line in lines[at:end]), end


def _line(line: str) -> str:
    rule = _RULE.fullmatch(line)
    if rule is not None:
        return f"{rule[1]}\\{rule[2]}"
    containers = _CONTAINERS.match(line)
    start = containers.end() if containers else 0
    rest = line[start:]
    mark = "\\" if rest.startswith(("#", "~~~")) or _RULE.fullmatch(rest) else ""
    # A table is taken apart before anything else, so that nothing reaches from one cell to another.
    return f"{line[:start]}{mark}{'|'.join(map(_span, rest.split('|')))}"


def _span(text: str) -> str:
    """Words within one line, or one cell."""
    pieces: list[str] = []
    at = 0
    while (found := _PIECE.search(text, at)) is not None:
        pieces.append(text[at : found.start()])
        mark, at = found[0], found.end()
        if mark[0] == "`":
            end = _end_of_code(text, at, len(mark))
            if end is None:
                pieces.append("\\`" * len(mark))
            else:
                pieces.append(text[found.start() : end])
                at = end
        elif mark[-1] in _ENTITIES:
            pieces.append(_ENTITIES[mark[-1]])
        else:
            pieces.append("\\[" if mark == "[" else mark)
    return "".join([*pieces, text[at:]])


def _end_of_code(text: str, start: int, length: int) -> int | None:
    """Where the code ends that begins at `start`, behind so many backticks."""
    runs = re.compile("`+").finditer(text, start)
    return next((run.end() for run in runs if len(run[0]) == length), None)
