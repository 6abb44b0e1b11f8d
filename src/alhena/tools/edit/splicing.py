"""Applies edits to a text and computes unified diffs, in bounded time.

Edits are ranges of a file's text with LF line endings; results have the file's own.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from alhena.system.encoding import LineEnding, TextFile
from alhena.tools.contract import DiffStat


def common_prefix(a: str, b: str) -> int:
    """Length of the common prefix of `a` and `b`."""
    low, high = 0, min(len(a), len(b))
    step = 64
    # Short prefixes are usual: double up to the first difference, then halve.
    while step < high and a[low:step] == b[low:step]:
        low, step = step, step * 2
    high = min(high, step)
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(a: str, b: str, limit: int) -> int:
    """Length of the common suffix of `a` and `b`, at most `limit`."""
    return common_prefix(
        a[len(a) - min(limit, len(a)) :][::-1], b[len(b) - min(limit, len(b)) :][::-1]
    )


Span = tuple[int, int]


class Edit(NamedTuple):
    """The text from `start` up to `end` becomes `new`."""

    start: int
    end: int
    new: str


def apply_edits(text: str, edits: list[Edit]) -> str:
    """Applies edits, which are in order and do not overlap, to `text`."""
    pieces: list[str] = []
    at = 0
    for start, end, new in edits:
        pieces += (text[at:start], new)
        at = end
    pieces.append(text[at:])
    return "".join(pieces)


def splice_file(file: TextFile, edits: list[Edit]) -> str:
    """Applies the edits to the raw text; unchanged text keeps its line endings.

    Text common to old and new stays as it is in the file; new line endings are those of the edited
    line, else of the file.
    """
    if file.line_ending is not LineEnding.MIXED:
        newline = file.newline
        smaller = [_narrow_edit(file.text, edit) for edit in edits]
    else:
        newline = ""
        smaller = [
            _narrow_edit(file.text, part) for edit in edits for part in by_line(file.text, edit)
        ]
    places = file.spans([(edit.start, edit.end) for edit in smaller])
    pieces: list[str] = []
    at = 0
    for (start, end), edit in zip(places, smaller, strict=True):
        ending = newline or _newline_at(file, start)
        new = edit.new if ending == "\n" else edit.new.replace("\n", ending)
        pieces += (file.raw[at:start], new)
        at = end
    pieces.append(file.raw[at:])
    return "".join(pieces)


def rewritten(file: TextFile, content: str) -> str:
    """The raw text for the new `content`; unchanged lines keep their characters.

    `content` is compared with the displayed text, so that a line with stray bytes counts as
    unchanged when it comes back as displayed.
    """

    if content == file.shown:
        return file.raw
    shown = split_lines(file.shown)
    return splice_file(file, _line_edits(shown, split_lines(file.text), 0, split_lines(content)))


def by_line(text: str, edit: Edit) -> list[Edit]:
    """Splits an edit into edits of the lines it changes."""

    lines = split_lines(text[edit.start : edit.end])
    return _line_edits(lines, lines, edit.start, split_lines(edit.new))


def _line_edits(compared: list[str], lines: list[str], at: int, new: list[str]) -> list[Edit]:
    """Edits that turn `compared` into `new`, at the positions of `lines`, which begin at `at`."""

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


def _narrow_edit(text: str, edit: Edit) -> Edit:
    """Removes the common prefix and suffix of old and new text from an edit."""
    old = text[edit.start : edit.end]
    head = common_prefix(old, edit.new)
    tail = common_suffix(old, edit.new, min(len(old), len(edit.new)) - head)
    return Edit(edit.start + head, edit.end - tail, edit.new[head : len(edit.new) - tail])


def _newline_at(file: TextFile, start: int) -> str:
    feed = file.raw.find("\n", start)
    if feed < 0:
        return file.newline
    return "\r\n" if feed and file.raw[feed - 1] == "\r" else "\n"


CONTEXT = 3
_COMPARED_LINES = 6_000
"""Maximum number of differing lines, both sides together, that are matched with each other; above
it the whole range counts as replaced."""
_SHOWN = 100_000
_NO_NEWLINE = "\\ No newline at end of file"
Opcode = tuple[str, int, int, int, int]


def unified_diff(old: str, new: str, name: str) -> tuple[str, DiffStat]:
    """The diff with headers Original and Written, and the numbers of added and removed lines.

    A diff over 100,000 characters is truncated with a note; the counts cover all of it.
    """
    return diff_of(changed_window(old, new, CONTEXT), name)


def diff_of(window: "Window", name: str) -> tuple[str, DiffStat]:
    """The diff of a window, which has at least three lines of context."""
    added, removed = _count_lines(window.changes)
    if not (added or removed):
        return "", DiffStat()
    lines = [f"--- {name}\tOriginal", f"+++ {name}\tWritten"]
    size = 0
    for line in _hunks(window):
        size += len(line) + 1
        if size > _SHOWN:
            lines.append(f"... [diff cut: {added} lines added and {removed} removed in all]")
            break
        lines.append(line)
    return "\n".join(lines) + "\n", DiffStat(ai_added_lines=added, ai_removed_lines=removed)


def diff_stat(original: str, proposed: str, written: str) -> DiffStat:
    """Counts lines changed by the model and lines changed by a person in its proposal."""
    ai_added, ai_removed = line_counts(original, proposed)
    user_added, user_removed = line_counts(proposed, written)
    return DiffStat(
        ai_added_lines=ai_added,
        ai_removed_lines=ai_removed,
        user_added_lines=user_added,
        user_removed_lines=user_removed,
    )


def line_counts(old: str, new: str) -> tuple[int, int]:
    """Numbers of lines added and removed from `old` to `new`."""
    if old == new:
        return 0, 0
    return _count_lines(changed_window(old, new, 0).changes)


def _count_lines(changes: list[Opcode]) -> tuple[int, int]:
    added = sum(j2 - j1 for tag, _, _, j1, j2 in changes if tag != "equal")
    removed = sum(i2 - i1 for tag, i1, i2, _, _ in changes if tag != "equal")
    return added, removed


class Window(NamedTuple):
    """The differing part of two texts, as lines, and the changes.

    `base` lines precede it; `ends` is True if none follow.
    """

    base: int
    before: list[str]
    after: list[str]
    changes: list[Opcode]
    ends: bool


def changed_window(old: str, new: str, context: int) -> Window:
    """The lines from the first to the last difference, with `context` lines around them."""
    head = common_prefix(old, new)
    start = old.rfind("\n", 0, head) + 1
    tail = common_suffix(old, new, min(len(old), len(new)) - head)
    for _ in range(context):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
    end = len(old) - tail
    if not (_begins_line(old, end) and _begins_line(new, len(new) - tail)):
        end = _line_end(old, end)
    for _ in range(context):
        end = _line_end(old, end)
    before = split_lines(old[start:end])
    after = split_lines(new[start : end + len(new) - len(old)])
    return Window(old.count("\n", 0, start), before, after, opcodes(before, after), end == len(old))


def _begins_line(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n"


def _line_end(text: str, at: int) -> int:
    """End of the line that contains `at`, its LF included."""
    feed = text.find("\n", at)
    return len(text) if feed < 0 else feed + 1


def split_lines(text: str) -> list[str]:
    """Lines with their LF; no other character ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def opcodes(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Opcode]:
    """Like difflib's opcodes, without comparing common prefix and suffix."""
    shortest = min(len(before), len(after))
    head = 0
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    end, stop = len(before) - tail, len(after) - tail
    found: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    if end + stop - 2 * head > _COMPARED_LINES:
        found.append(("replace", head, end, head, stop))
    else:
        from difflib import SequenceMatcher

        matcher = SequenceMatcher(None, before[head:end], after[head:stop], autojunk=True)
        found.extend(
            (tag, i1 + head, i2 + head, j1 + head, j2 + head)
            for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        )
    if tail:
        found.append(("equal", end, len(before), stop, len(after)))
    return found


def group_changes(changes: list[Opcode], context: int) -> list[list[Opcode]]:
    """Groups the changes that have at most twice the context between them."""
    groups: list[list[Opcode]] = []
    for change in changes:
        if change[0] == "equal":
            continue
        if groups and change[1] - groups[-1][-1][2] <= 2 * context:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunks(window: Window) -> Iterator[str]:
    base, before, after = window.base, window.before, window.after
    for group in group_changes(window.changes, CONTEXT):
        _, first_old, _, first_new, _ = group[0]
        _, _, last_old, _, last_new = group[-1]
        lead, tail = min(CONTEXT, first_old), min(CONTEXT, len(before) - last_old)
        at, end = first_old - lead, last_old + tail
        yield (
            f"@@ -{_range(base + at, base + end)} "
            f"+{_range(base + first_new - lead, base + last_new + tail)} @@"
        )
        for _, i1, i2, j1, j2 in group:
            yield from _lines(" ", before[at:i1])
            yield from _lines("-", before[i1:i2])
            yield from _lines("+", after[j1:j2])
            at = i2
        yield from _lines(" ", before[at:end])


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _lines(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        text = line.rstrip("\n")
        yield sign + text
        if text == line:
            yield _NO_NEWLINE
