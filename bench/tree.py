"""Reproducible trees: a source tree of 3,000 files, modules of a few kilobytes in 150 folders; and
one of 50,000 empty files."""

import random
from pathlib import Path

FILES = 3_000
FOLDERS = 150
NEEDLE = "resolve_endpoint"
"""A name that occurs in every hundredth file, once."""

_WORDS = (
    *("value", "request", "part", "index", "buffer", "stream", "token", "window", "session"),
    *("path", "line", "config", "handle", "result", "content", "state", "event", "policy"),
    *("answer", "reader", "writer", "limit", "offset", "parent", "child", "symbol", "scope"),
)
_IGNORE = "*.pyc\n__pycache__/\n/dist/\n*.log\n!keep.log\n.venv/\n"


def make_tree(top: Path) -> int:
    """Creates the tree in `top`; returns the total bytes of its 3,000 files."""
    chance = random.Random(3_000)
    top.mkdir(parents=True)
    (top / ".gitignore").write_text(_IGNORE, encoding="utf-8")
    total = 0
    for number in range(FILES):
        group = number % FOLDERS
        folder = top / f"package_{group // 10:02}" / f"module_{group % 10}"
        if number < FOLDERS:
            folder.mkdir(parents=True)
            if number % 25 == 0:
                (folder / ".gitignore").write_text("generated_*\n", encoding="utf-8")
        suffix = ("py", "py", "py", "ts", "md")[number % 5]
        text = _source(chance, needle=number % 100 == 7)
        (folder / f"file_{number:04}.{suffix}").write_text(text, encoding="utf-8")
        total += len(text)
    return total


def make_folders(top: Path) -> None:
    """Creates 50,000 empty files in `top`: 50 in each of d0/d00, d1/d01 and so on."""
    for number in range(1_000):
        folder = top / f"d{number % 10}" / f"d{number:02}"
        folder.mkdir(parents=True)
        for file in range(50):
            (folder / f"f{file}.py").touch()


def _source(chance: random.Random, *, needle: bool) -> str:
    """60 to 140 lines, about 4 KB; one file in ten has a non-ASCII word."""
    lines = [
        f"{'    ' * chance.randrange(3)}{' '.join(chance.choices(_WORDS, k=6))}"
        for _ in range(chance.randrange(60, 140))
    ]
    if needle:
        lines[chance.randrange(len(lines))] = f"    {NEEDLE}(request, session)"
    if chance.random() < 0.1:
        lines.append("naïve café")
    return "\n".join(lines) + "\n"
