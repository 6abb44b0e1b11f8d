"""The modules of the source, parsed; those that cannot matter are passed over by their text."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "alhena"


def parsed_modules(words: str, room: str = "") -> Iterator[tuple[Path, ast.Module]]:
    """The modules of a room whose text matches the regular expression `words`, with their paths
    below the source."""
    for path in sorted((SOURCE / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(words, text):
            yield path.relative_to(SOURCE), ast.parse(text)
