"""How the parts of a Markdown text are drawn: for a scrollback, and so that nothing is cut off."""

import re
from functools import lru_cache
from typing import ClassVar

from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderResult
from rich.containers import Renderables
from rich.markdown import (
    BlockQuote,
    CodeBlock,
    Heading,
    ListElement,
    ListItem,
    Markdown,
    MarkdownElement,
    TableElement,
)
from rich.measure import Measurement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from alhena.frontends.terminal.markdown_tokens import ADDRESS, tokens_of

MIN_BODY = 8
"""Columns that what is indented needs; where there are fewer it stands at the margin."""
CELL_COLUMNS = 8
"""Columns that a cell of a table needs; where there are fewer the rows are written as text."""
CODE_THEME = "ansi_dark"
MAX_CODE = 4_000
"""Characters of code up to which it is coloured whatever it is. The patterns of some languages take
time that grows with the square of a run of words, so longer code with a long one stays plain."""
MAX_CODE_LINE = 2_000
"""Characters of a line up to which code is coloured."""

_RUN = re.compile(r"[\w\s.$<>?\[\]]{1000}")
_LONG_LINE = re.compile(rf"[^\n]{{{MAX_CODE_LINE + 1}}}")


class MarginHeading(Heading):
    """A heading that begins at the margin, as all else does."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {"h1": "left"}


class LabelledCode(CodeBlock):
    """Code, below what its fence says beside a language."""

    label: str = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> CodeBlock:
        """Code without its lines still."""
        info = token.info.strip()
        language = info.split(maxsplit=1)[0] if info else ""
        known = _is_language(language)
        coloured = known and isinstance(markdown, Document) and markdown.colour
        plain = not coloured or too_costly(token.content)
        made = cls("text" if plain else language, CODE_THEME)
        if not known or info != language:
            made.label = info
        elif isinstance(markdown, Document):
            markdown.implied.append(info)
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.label:
            yield Text(self.label, style=console.get_style("markdown.info"))
        yield from super().__rich_console__(console, options)


class Quote(BlockQuote):
    """A quotation, with a bar at its side."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style = console.get_style(self.style_name, default="none")
        bar = Segment("▌ ", style)
        yield from _indented(console, options, self.elements, (bar, bar))


class NumberedItem(ListItem):
    """An item, with its number as it was written."""

    number: str = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> MarkdownElement:
        """An item, empty still."""
        made = super().create(markdown, token)
        if isinstance(made, cls) and token.info:
            made.number = f"{token.info}{token.markup}"
        return made


class MarkedList(ListElement):
    """A list, with the numbers that its items have."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        marks = [item.number if isinstance(item, NumberedItem) else "" for item in self.items]
        ordered = self.list_type != "bullet_list_open"
        columns = max(map(len, marks), default=0) if ordered else 1
        style = console.get_style(f"markdown.item.{'number' if ordered else 'bullet'}")
        rest = Segment(" " * (columns + 2), style)
        for item, mark in zip(self.items, marks, strict=True):
            first = Segment(f" {mark if ordered else '•':>{columns}} ", style)
            yield from _indented(console, options, item.elements, (first, rest))


class FoldedTable(TableElement):
    """A table whose cells go on in their next row; as text, where the terminal is too narrow."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = self.header.row if self.header else None
        rows = [head, *(self.body.rows if self.body else ())]
        cells = [[cell.content for cell in row.cells] for row in rows if row is not None]
        heads = cells[0] if head is not None else []
        made = Table(
            box=box.SIMPLE,
            pad_edge=False,
            style="markdown.table.border",
            collapse_padding=True,
        )
        for cell in heads:
            cell.stylize("markdown.table.header")
            made.add_column(cell, overflow="fold")
        for row in cells[1:]:
            made.add_row(*row)
        width = options.max_width
        narrow = len(made.columns) * CELL_COLUMNS > width
        if narrow and Measurement.get(console, options.update(width=10**6), made).maximum > width:
            yield Group(*(Text(" | ").join(row) for row in cells))
        else:
            yield made


class Document(Markdown):
    """Markdown for a scrollback. `implied` is what it says without its letters, known once it was
    drawn: the languages of its code, which colours tell, and addresses that are links' texts."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "blockquote_open": Quote,
        "bullet_list_open": MarkedList,
        "code_block": LabelledCode,
        "fence": LabelledCode,
        "heading_open": MarginHeading,
        "list_item_open": NumberedItem,
        "ordered_list_open": MarkedList,
        "table_open": FoldedTable,
    }
    inlines: ClassVar[set[str]] = {*Markdown.inlines, "a", ADDRESS}

    def __init__(self, text: str, *, colour: bool = True) -> None:
        super().__init__("", code_theme=CODE_THEME, hyperlinks=False)
        self.colour = colour
        self.parsed = tokens_of(text)
        self.implied = [each.info for token in self.parsed for each in token.children or ()]


def _indented(
    console: Console,
    options: ConsoleOptions,
    elements: Renderables,
    marks: tuple[Segment, Segment],
) -> RenderResult:
    """What an element holds, behind its mark and what stands below that; at the margin where
    there is no room for it."""
    first, rest = marks
    room = options.max_width - first.cell_length
    narrow = room < MIN_BODY
    if narrow:
        yield first
        yield Segment.line()
        room = options.max_width
    lines = console.render_lines(elements, options.update(width=room))
    for index, row in enumerate(lines):
        if not narrow:
            yield rest if index else first
        yield from row
        yield Segment.line()
    if not lines and not narrow:
        yield first
        yield Segment.line()


def too_costly(code: str) -> bool:
    """Whether code stays without colours: making out its parts may take seconds."""
    if _LONG_LINE.search(code):
        return True
    return len(code) > MAX_CODE and _RUN.search(code) is not None


@lru_cache(maxsize=64)
def _is_language(name: str) -> bool:
    return bool(name) and Syntax("", name).lexer is not None
