"""A unified diff as lines with line numbers, nothing in them hidden."""

import re

from alhena.display_text import exact
from alhena.frontends.terminal.lines import TAB, Line

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_FILE = ("Index: ", "=====")


def diff_lines(diff: str) -> list[Line]:
    """The lines of a diff of one file: number in the new file, sign, text. File headers are left
    out; what cannot be seen in a line is escaped, padding is counted."""
    lines: list[Line] = []
    number: int | None = None
    for raw in diff.rstrip("\n").split("\n"):
        hunk = _HUNK.match(raw)
        if hunk:
            if number is not None:
                lines.append((("dim", "     ⋮"),))
            number = int(hunk[1])
        elif number is not None:
            sign, text = raw[:1] or " ", exact(raw[1:]).expandtabs(TAB)
            style = {"+": "added", "-": "removed", "\\": "dim"}.get(sign, "")
            shown = "" if sign in "-\\" else str(number)
            lines.append((("dim", f"{shown:>6} "), (style, f"{sign} {text}")))
            number += sign not in "-\\"
        elif not raw.startswith(_FILE) and not raw.startswith(("--- ", "+++ ")):
            lines.append((("", exact(raw).expandtabs(TAB)),))
    return lines
