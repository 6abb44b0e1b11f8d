"""Edits of this repository's own sources as models get them wrong, with what must come of them.

Nothing is stored: each case is made from a source file by a generator that is seeded by its name.
What is expected is worked out on lists of lines here, without the code under test.
"""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
FILES = 24
BLOCK = 4
OTHERS = ("pyproject.toml", "Makefile", "CHANGELOG.md", "docs/[a-f]*.md",
          "src/alhena/policy/defaults/*.toml", ".github/workflows/*.yml")  # fmt: skip
"""Texts that are no Python: blanks mean other things in them."""


class Case(NamedTuple):
    """A file's bytes, the parameters of the edit, and the bytes and rung or failure expected."""

    name: str
    before: bytes
    params: dict[str, Any]
    after: bytes
    outcome: str


class Block(NamedTuple):
    """Lines of a file (no line ends) from `start`, and the edit: line `at` of them is `changed`."""

    lines: list[str]
    start: int
    size: int
    at: int
    changed: list[str]

    @property
    def old(self) -> list[str]:
        return self.lines[self.start : self.start + self.size]

    @property
    def new(self) -> list[str]:
        return [*self.old[: self.at], *self.changed, *self.old[self.at + 1 :]]

    @property
    def edited(self) -> list[str]:
        return [*self.lines[: self.start], *self.new, *self.lines[self.start + self.size :]]


Made = tuple[bytes, str, str, bytes]
Maker = Callable[[Block, random.Random], Made | None]


def sources() -> list[Path]:
    """Some sources of every room, always the same ones of one tree."""
    found = [path for path in sorted((ROOT / "src").rglob("*.py")) if path.stat().st_size > 3000]
    others = [path for pattern in OTHERS for path in sorted(ROOT.glob(pattern))]
    return [*found[:: max(1, len(found) // FILES)][:FILES], *others]


def cases(kind: str) -> Iterator[Case]:
    """The cases of one kind, one for each source that has a fitting place."""
    maker, outcome = KINDS[kind]
    for path in sources():
        rng = random.Random(f"{kind} {path.name}")
        lines = path.read_text(encoding="utf-8").split("\n")
        for _ in range(60):
            block = pick(lines, rng)
            made = maker(block, rng) if block else None
            if made:
                before, old, new, after = made
                yield Case(
                    path.name, before, {"old_string": old, "new_string": new}, after, outcome
                )
                break


def pick(lines: list[str], rng: random.Random) -> Block | None:
    """A block that occurs once, whatever its blanks, with one line to change."""
    start = rng.randrange(len(lines) - BLOCK)
    old = lines[start : start + BLOCK]
    at = rng.randrange(BLOCK)
    words = re.findall(r"[A-Za-z_]{4,}", old[at])
    if (
        not (old[0].strip() and old[-1].strip() and words)
        or squeezed(lines).count(squeezed(old)) != 1
    ):
        return None
    changed = old[at].replace(rng.choice(words), "renamed_by_the_edit", 1)
    indent = old[at][: len(old[at]) - len(old[at].lstrip())]
    return Block(lines, start, BLOCK, at, [changed, f"{indent}added_by_the_edit"])


def squeezed(lines: list[str]) -> str:
    return "".join("".join(line.split()) for line in lines)


def text(lines: list[str], end: str = "\n") -> str:
    return end.join(lines)


def data(lines: list[str], end: str = "\n") -> bytes:
    return text(lines, end).encode()


def exact(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes]:
    return data(block.lines), text(block.old), text(block.new), data(block.edited)


def wide_exact(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    encoding = rng.choice(["utf-16-le", "utf-16-be", "utf-8"])
    before, after = ("\ufeff" + text(lines) for lines in (block.lines, block.edited))
    return before.encode(encoding), text(block.old), text(block.new), after.encode(encoding)


def crlf(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes]:
    return data(block.lines, "\r\n"), text(block.old), text(block.new), data(block.edited, "\r\n")


def accented(block: Block, rng: random.Random) -> Made | None:
    """The file has accents as characters of their own, the model does not."""
    if not any("e" in line for line in block.old):
        return None

    def made(lines: list[str], letter: str) -> list[str]:
        return [line.replace("e", letter) for line in lines]

    apart, one = "e\u0301", "\u00e9"
    return (
        data(made(block.lines, apart)),
        text(made(block.old, one)),
        text(made(block.new, one)),
        data(made(block.edited, apart)),
    )


def mixed(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    ends = [rng.choice(["\n", "\r\n"]) for _ in block.lines[:-1]] + [""]
    ends[block.start] = "\r\n"  # so that the block is not exactly what the model gave
    ends[-2] = "\n"
    line = block.start + block.at
    if line >= len(ends) - 2:
        return None
    after = [*ends[: line + 1], ends[line], *ends[line + 1 :]]
    return (
        "".join(map("".join, zip(block.lines, ends, strict=True))).encode(),
        text(block.old),
        text(block.new),
        "".join(map("".join, zip(block.edited, after, strict=True))).encode(),
    )


def reindented(block: Block, change: Callable[[str], str]) -> tuple[str, str] | None:
    """Old and new text with another indentation; None when old then still stands in the file."""
    old = text([change(line) if line.strip() else line for line in block.old])
    new = text([change(line) if line.strip() else line for line in block.new])
    return None if old in text(block.lines) else (old, new)


def dedented(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    depth = min(len(line) - len(line.lstrip()) for line in block.old if line.strip())
    made = reindented(block, lambda line: line[depth:]) if depth else None
    return made and (data(block.lines), *made, data(block.edited))


def indented(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    made = reindented(block, lambda line: " " * 4 + line)
    return made and (data(block.lines), *made, data(block.edited))


def tabbed(lines: list[str]) -> list[str]:
    out: list[str] = []
    for line in lines:
        depth = len(line) - len(line.lstrip())
        out.append("\t" * (depth // 4) + " " * (depth % 4) + line.lstrip())
    return out


def tabs(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    depths = {len(line) - len(line.lstrip()) for line in block.old if line.strip()}
    if depths == {0} or any(depth % 4 for depth in depths):
        return None
    made = text(block.old), text(block.new)
    return data(tabbed(block.lines)), *made, data(tabbed(block.edited))


def trailing(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    padded = [line + "  " for line in block.old]
    after = [*padded[: block.at], *block.changed, *padded[block.at + 1 :]]
    head, tail = block.lines[: block.start], block.lines[block.start + block.size :]
    return (
        data([*head, *padded, *tail]),
        text(block.old),
        text(block.new),
        data([*head, *after, *tail]),
    )


def deletion(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    depth = min(len(line) - len(line.lstrip()) for line in block.old if line.strip())
    made = reindented(block, lambda line: line[depth:]) if depth else None
    rest = [*block.lines[: block.start], *block.lines[block.start + block.size :]]
    return made and (data(block.lines), made[0] + "\n", "", data(rest))


def tokens(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    """The model writes the operators of a call closer together than the file has them."""
    sign = r"[-+*/%=<>!&|^~?:.]"
    if re.search(rf"[\"'`]|{sign} {sign}", text(block.old)):
        return None  # blanks within quotes and between operators are not free
    renamed = [*block.old[: block.at], block.changed[0], *block.old[block.at + 1 :]]
    after = [*block.lines[: block.start], *renamed, *block.lines[block.start + block.size :]]
    old, new = (
        re.sub(r"(?<=\S) ?([=,+:(]) ?", r"\1", text(lines)) for lines in (block.old, renamed)
    )
    stripped = [[line.strip() for line in old.split("\n")], [line.strip() for line in block.old]]
    if stripped[0] == stripped[1]:
        return None
    return data(block.lines), old, new, data(after)


def fuzzy(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    """The model leaves a letter out of a line that it does not change."""
    other = rng.randrange(block.size)
    word = re.search(r"[A-Za-z]{6,}", block.old[other])
    if other == block.at or not word or len(squeezed(block.old)) < 60:
        return None
    cut = word.start() + 3
    slip = block.old[other][:cut] + block.old[other][cut + 1 :]
    old = [*block.old[:other], slip, *block.old[other + 1 :]]
    new = [slip if line is block.old[other] else line for line in block.new]
    return data(block.lines), text(old), text(new), data(block.edited)


def absent(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes]:
    """Lines that look like the file's but are others."""
    old = [re.sub(r"[aeiou]", "y", line) + " # elsewhere" for line in block.old]
    return data(block.lines), text(old), text(block.new), data(block.lines)


def other_number(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    """A line that differs from one of the file by a number only is not that line."""
    lines = [*block.lines, f"LIMIT_OF_THE_TEST_{block.start} = 100 * SECONDS_IN_A_DAY"]
    old = f"LIMIT_OF_THE_TEST_{block.start} = 200 * SECONDS_IN_A_DAY"
    return data(lines), old, old.replace("DAY", "WEEK"), data(lines)


def misplaced(block: Block, rng: random.Random, *, inside: str, given: str) -> Made:
    """A last line that stands within a block in the one text and after it in the other."""
    unit, shift = rng.choice(["    ", "  ", "\t"]), rng.choice(["", "    "])
    head = [f"{shift}if ready_{block.start}:", f"{shift}{unit}first_step(  )"]
    lines = [*block.lines, *head, f"{shift}{unit * len(inside)}last_step()", ""]
    ours = [f"if ready_{block.start}:", "    first_step()", f"{'    ' * len(given)}last_step()"]
    if rng.random() < 0.5:  # then no line differs by more than its indentation
        lines = [line.replace("(  )", "()  ") for line in lines]
    return data(lines), text(ours), text([*ours[:2], "    other_step()", ours[2]]), data(lines)


def moved_out(block: Block, rng: random.Random) -> Made:
    """The model takes a line of a block for the line after it."""
    return misplaced(block, rng, inside=">", given="")


def moved_in(block: Block, rng: random.Random) -> Made:
    """The model takes the line after a block for a line of it."""
    return misplaced(block, rng, inside="", given=">")


def twice(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes]:
    """The same lines stand twice, and the model means one of them."""
    before = data([*block.lines, *block.old])
    return before, text(block.old), text(block.new), before


def twice_reindented(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    """Twice but for the indentation, and exactly like neither."""
    made = reindented(block, lambda line: "   " + line)
    before = data([*block.lines, *block.old, ""])
    return made and (before, *made, before)


def similar_twice(block: Block, rng: random.Random) -> tuple[bytes, str, str, bytes] | None:
    """Two places that are equally close to what the model gave."""
    made = fuzzy(block, rng)
    if made is None:
        return None
    before = data([*block.lines, "", *block.old, ""])
    return before, made[1], made[2], before


MISS, COUNT = "edit_no_occurrence_found", "edit_expected_occurrence_mismatch"
KINDS: dict[str, tuple[Maker, str]] = {
    "exact": (exact, "exact"),
    "wide exact": (wide_exact, "exact"),
    "crlf": (crlf, "line_endings"),
    "mixed line ends": (mixed, "line_endings"),
    "accents": (accented, "canonically_equal"),
    "dedented": (dedented, "whitespace"),
    "indented": (indented, "whitespace"),
    "tabs in the file": (tabs, "whitespace"),
    "trailing blanks in the file": (trailing, "whitespace"),
    "deletion": (deletion, "whitespace"),
    "blanks between tokens": (tokens, "tokens"),
    "a letter missing": (fuzzy, "fuzzy"),
    "absent": (absent, MISS),
    "another number": (other_number, MISS),
    "moved out of a block": (moved_out, MISS),
    "moved into a block": (moved_in, MISS),
    "twice": (twice, COUNT),
    "twice but for blanks": (twice_reindented, COUNT),
    "two similar places": (similar_twice, MISS),
}
