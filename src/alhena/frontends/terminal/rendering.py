"""Markdown as rich draws it. Loaded with the first piece of Markdown."""

import re
from collections import Counter
from io import StringIO

from rich.console import Console
from rich.theme import Theme

from alhena.frontends.terminal.lines import TAB, wrapped
from alhena.frontends.terminal.markdown_elements import Document

MIN_COLUMNS = 10
MARKS = "*_~`#>-+|=[]()!:\\"
"""Signs that may be Markdown's own, and then are not drawn."""

_SGR = re.compile(r"\x1b\[[\d;]*m")
_BLANK = re.compile(r"(?:\x1b\[[\d;]*m|\s)*")
_WITHOUT_MARKS = str.maketrans("", "", MARKS)
_THEME = Theme(
    {
        "markdown.a": "blue",
        "markdown.address": "dim",
        "markdown.code": "cyan",
        "markdown.hr": "dim",
        "markdown.info": "dim",
    }
)


def rendered(text: str, columns: int, *, colour: bool) -> str:
    """A piece of Markdown as lines for a terminal, without the blank ones that some elements put
    around themselves. Every character is on them but Markdown's own marks."""
    columns = max(columns, MIN_COLUMNS)
    console = Console(
        file=StringIO(),
        force_terminal=True,
        no_color=not colour,
        color_system="standard" if colour else None,
        theme=_THEME,
        width=columns,
        legacy_windows=False,
    )
    document = Document(text, colour=colour)
    with console.capture() as capture:
        console.print(document)
    shown = capture.get()
    if lost(text, shown, document.implied):  # nested deeper than is parsed
        shown = "\n".join(
            piece for each in text.split("\n") for piece in wrapped(each.expandtabs(TAB), columns)
        )
    rows = [row.rstrip() for row in shown.split("\n")]
    drawn = [index for index, row in enumerate(rows) if not _BLANK.fullmatch(row)]
    return "\n".join([*rows[drawn[0] : drawn[-1] + 1], ""] if drawn else [])


def lost(text: str, shown: str, implied: list[str]) -> bool:
    """Whether characters of a text are not among those that are shown, but for marks and what
    those `implied`."""
    missing = _letters(text) - _letters(_SGR.sub("", shown)) - _letters("".join(implied))
    return bool(missing)


def _letters(text: str) -> Counter[str]:
    return Counter("".join(text.translate(_WITHOUT_MARKS).split()))
