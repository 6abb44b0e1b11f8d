"""The unified diff of two texts, in bounded time and of bounded size."""

from collections.abc import Iterator

from alhena.tools.display import DiffStat

CONTEXT = 3
_COMPARED_LINES = 6_000
"""Differing lines on both sides together up to which lines are matched with each other; above,
the whole differing stretch counts as replaced."""
_SHOWN = 100_000
_NO_NEWLINE = "\\ No newline at end of file"
_Opcode = tuple[str, int, int, int, int]


def unified_diff(old: str, new: str, name: str) -> tuple[str, DiffStat]:
    """The diff with headers Original and Written, and the lines it adds and removes.

    A diff of more than 100,000 characters is cut and says so; the counts are of all of it.
    """
    if old == new:
        return "", DiffStat()
    before, after = _split(old), _split(new)
    opcodes = _opcodes(before, after)
    added = sum(j2 - j1 for tag, _, _, j1, j2 in opcodes if tag != "equal")
    removed = sum(i2 - i1 for tag, i1, i2, _, _ in opcodes if tag != "equal")
    lines = [f"--- {name}\tOriginal", f"+++ {name}\tWritten"]
    size = 0
    for line in _hunks(before, after, opcodes):
        size += len(line) + 1
        if size > _SHOWN:
            lines.append(f"... [diff cut: {added} lines added and {removed} removed in all]")
            break
        lines.append(line)
    return "\n".join(lines) + "\n", DiffStat(ai_added_lines=added, ai_removed_lines=removed)


def _split(text: str) -> list[str]:
    """Lines with their LF; no other character ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _opcodes(before: list[str], after: list[str]) -> list[_Opcode]:
    """As difflib gives them; what both begin and end with is not compared."""
    shortest = min(len(before), len(after))
    head = 0
    while head < shortest and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    end, stop = len(before) - tail, len(after) - tail
    found: list[_Opcode] = [("equal", 0, head, 0, head)] if head else []
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


def _hunks(before: list[str], after: list[str], opcodes: list[_Opcode]) -> Iterator[str]:
    for group in _grouped(opcodes):
        _, first_old, _, first_new, _ = group[0]
        _, _, last_old, _, last_new = group[-1]
        yield f"@@ -{_range(first_old, last_old)} +{_range(first_new, last_new)} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from _lines(" ", before[i1:i2])
                continue
            yield from _lines("-", before[i1:i2])
            yield from _lines("+", after[j1:j2])


def _grouped(opcodes: list[_Opcode]) -> Iterator[list[_Opcode]]:
    """Changes that are closer than twice the context, with the context around them."""
    group: list[_Opcode] = []
    for index, (tag, i1, i2, j1, j2) in enumerate(opcodes):
        if tag != "equal":
            group.append((tag, i1, i2, j1, j2))
            continue
        length = i2 - i1
        if group and (index == len(opcodes) - 1 or length > 2 * CONTEXT):
            keep = min(length, CONTEXT)
            group.append((tag, i1, i1 + keep, j1, j1 + keep))
            yield group
            group = []
        if index < len(opcodes) - 1:
            skip = 0 if group else max(0, length - CONTEXT)
            group.append((tag, i1 + skip, i2, j1 + skip, j2))
    if group:
        yield group


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
