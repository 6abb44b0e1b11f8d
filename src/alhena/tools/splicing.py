"""Putting edits into a text: what no edit touches comes back character for character.

Edits are ranges of a file's text with LF line ends; what comes out has the file's own.
"""

from typing import NamedTuple

from alhena.system.encoding import LineEnding, TextFile
from alhena.tools.affixes import common_prefix, common_suffix

Span = tuple[int, int]


class Edit(NamedTuple):
    """The text from `start` up to `end` becomes `new`."""

    start: int
    end: int
    new: str


def joined(text: str, edits: list[Edit]) -> str:
    """`text` with the edits, which are in order and do not overlap."""
    pieces: list[str] = []
    at = 0
    for start, end, new in edits:
        pieces += (text[at:start], new)
        at = end
    pieces.append(text[at:])
    return "".join(pieces)


def spliced(file: TextFile, edits: list[Edit]) -> str:
    """The raw text with the edits in it: what an edit does not change keeps its line ends.

    What old and new text have in common stays as it is in the file; elsewhere line ends are those
    of the line that the edit stands in, else of the file.
    """
    if file.line_ending is not LineEnding.MIXED:
        newline = file.newline
        smaller = [_narrowed(file.text, edit) for edit in edits]
    else:
        newline = ""
        smaller = [
            _narrowed(file.text, part) for edit in edits for part in by_line(file.text, edit)
        ]
    places = raw_spans(file, [(edit.start, edit.end) for edit in smaller])
    pieces: list[str] = []
    at = 0
    for (start, end), edit in zip(places, smaller, strict=True):
        ending = newline or _newline_at(file, start)
        new = edit.new if ending == "\n" else edit.new.replace("\n", ending)
        pieces += (file.raw[at:start], new)
        at = end
    pieces.append(file.raw[at:])
    return "".join(pieces)


def raw_spans(file: TextFile, spans: list[Span]) -> list[Span]:
    """Where ranges of the file's text, in order, lie in its raw text."""
    if file.line_ending is LineEnding.MIXED:
        return file.spans(spans)
    if file.line_ending is not LineEnding.CRLF:
        return spans
    found: list[Span] = []
    feeds = at = 0
    for start, end in spans:
        feeds += file.text.count("\n", at, start)
        first = start + feeds
        feeds += file.text.count("\n", start, end)
        found.append((first, end + feeds))
        at = end
    return found


def rewritten(file: TextFile, content: str) -> str:
    """The raw text that makes the file's text `content`: lines that stay keep their characters.

    `content` is compared with what people and models are shown of the file, so that a line with
    stray bytes counts as unchanged when it comes back as it was shown.
    """
    from alhena.tools.diffing import split_lines

    if content == file.shown:
        return file.raw
    shown = split_lines(file.shown)
    return spliced(file, _line_edits(shown, split_lines(file.text), 0, split_lines(content)))


def by_line(text: str, edit: Edit) -> list[Edit]:
    """One edit as edits of the lines that it changes."""
    from alhena.tools.diffing import split_lines

    lines = split_lines(text[edit.start : edit.end])
    return _line_edits(lines, lines, edit.start, split_lines(edit.new))


def _line_edits(compared: list[str], lines: list[str], at: int, new: list[str]) -> list[Edit]:
    """The edits that make `compared` into `new`, at the places of `lines`, which begin at `at`."""
    from alhena.tools.diffing import opcodes

    edits: list[Edit] = []
    done = 0
    for tag, i1, i2, j1, j2 in opcodes(compared, new):
        if tag == "equal":
            continue
        at += sum(map(len, lines[done:i1]))
        end = at + sum(map(len, lines[i1:i2]))
        edits.append(Edit(at, end, "".join(new[j1:j2])))
        at, done = end, i2
    return edits


def _narrowed(text: str, edit: Edit) -> Edit:
    """The edit without what old and new text begin and end with in common."""
    old = text[edit.start : edit.end]
    head = common_prefix(old, edit.new)
    tail = common_suffix(old, edit.new, min(len(old), len(edit.new)) - head)
    return Edit(edit.start + head, edit.end - tail, edit.new[head : len(edit.new) - tail])


def _newline_at(file: TextFile, start: int) -> str:
    feed = file.raw.find("\n", start)
    if feed < 0:
        return file.newline
    return "\r\n" if feed and file.raw[feed - 1] == "\r" else "\n"
