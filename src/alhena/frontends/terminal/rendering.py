"""Markdown as rich draws it. Loaded with the first piece of Markdown."""

import re
from io import StringIO
from typing import ClassVar

from rich.console import Console, JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.theme import Theme

MIN_COLUMNS = 10

_BLANK = re.compile(r"(?:\x1b\[[\d;]*m|\s)*")
_THEME = Theme({"markdown.code": "cyan", "markdown.hr": "dim"})


class MarginHeading(Heading):
    """A heading that begins at the margin, as all else does."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {"h1": "left"}


class Document(Markdown):
    """Markdown for a scrollback."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": MarginHeading,
    }


def rendered(text: str, columns: int, *, colour: bool) -> str:
    """A piece of Markdown as lines for a terminal, without the blank ones that some elements put
    around themselves."""
    console = Console(
        file=StringIO(),
        force_terminal=True,
        no_color=not colour,
        color_system="standard" if colour else None,
        theme=_THEME,
        width=max(columns, MIN_COLUMNS),
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(Document(text, code_theme="ansi_dark", hyperlinks=False))
    rows = [row.rstrip() for row in capture.get().split("\n")]
    drawn = [index for index, row in enumerate(rows) if not _BLANK.fullmatch(row)]
    return "\n".join([*rows[drawn[0] : drawn[-1] + 1], ""] if drawn else [])
