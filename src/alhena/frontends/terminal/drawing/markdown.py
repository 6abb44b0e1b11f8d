"""Markdown as tokens that lose nothing, drawn by rich. Loaded with the first piece of Markdown.

Models write code, paths and formulas between their sentences. What CommonMark takes for HTML, for
an entity, for a reference definition or for emphasis inside a word stays text here; addresses
stand behind what links to them; line breaks stay where they are.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from io import StringIO
from typing import ClassVar, Literal, cast

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline, emphasis, escape, strikethrough
from markdown_it.token import Token
from pygments.token import Comment, Generic, Keyword, Name, Number, Operator, String
from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.containers import Renderables
from rich.markdown import (
    BlockQuote,
    CodeBlock,
    Heading,
    HorizontalRule,
    ListElement,
    ListItem,
    Markdown,
    MarkdownElement,
    TableElement,
)
from rich.measure import Measurement
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax, SyntaxTheme
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from alhena.display_text import escaped
from alhena.frontends.terminal.drawing.lines import TAB, wrap_text
from alhena.frontends.terminal.looks.theme import ANSI

Links = Literal["none", "beside", "alone"]
"""Links of the terminal (OSC 8): none, with their address behind them, or without it."""
_LINKED = re.compile(r"(?:https?://|mailto:|file:///)[!-~]+")
_LIKE_ADDRESS = re.compile(r"\w\.\w|://")
ADDRESS = "address"
"""The tag of what comes after a link: its destination and title."""
SLASHES = frozenset("/\\")
ESCAPABLE = frozenset("*_`[]<>~|#\n")
"""Characters a backslash escapes; before others it is as likely part of a path."""

MAX_MARKER = 12
"""Columns that indentation and number of a list item take."""

_UNUSED = ("html_inline", "html_block", "autolink", "entity", "reference")
_BOX = re.compile(r"\[([ xX])\] ")
_NUMBER = re.compile(r"\s*\d{1,9}")


def tokens_of(text: str, links: Links = "none") -> list[Token]:
    """The tokens of a text. Links are spans with the tag `a`, with an `address` behind them; by
    `links` they are links of the terminal."""
    parsed = _parser().parse(text)
    for index, token in enumerate(parsed):
        if token.type == "inline":
            if index > 1 and parsed[index - 2].type == "list_item_open":
                _read_box(parsed[index - 2], token)
            token.children = list(_with_addresses(token.children or (), links))
    return parsed


def _read_box(item: Token, inline: Token) -> None:
    """Takes the box of a task, `[ ]` or `[x]`, for the bullet of its item."""
    first = inline.children[0] if inline.children else None
    box = None if first is None or item.info else _BOX.match(first.content)
    if first is None or box is None or first.type != "text":
        return
    item.info, item.markup = ("☐" if box[1] == " " else "☑"), ""
    first.info = box[1].strip()
    first.content = first.content[box.end() :]


class _Parser(MarkdownIt):
    def normalizeLink(self, url: str) -> str:  # noqa: N802
        """The address as it was written."""
        return url


@cache
def _parser() -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"]).disable(list(_UNUSED))
    inline = parser.inline.ruler
    inline.at("newline", _newline)
    inline.at("escape", _escape)
    inline.at("emphasis", _emphasis)
    inline.at("strikethrough", _strikethrough)
    return parser


def _newline(state: StateInline, silent: bool) -> bool:
    """A line break that stays one, and the indentation after it."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.pending = state.pending.rstrip(" ")
        state.push("hardbreak", "br", 0)
    state.pos += 1
    return True


def _escape(state: StateInline, silent: bool) -> bool:
    pos = state.pos
    if state.src[pos] != "\\" or pos + 1 >= state.posMax:
        return False
    sign = state.src[pos + 1]
    if sign in ESCAPABLE or (sign in "-+.)" and _begins_list(state, sign)):
        return escape(state, silent)
    if not silent:
        state.pending += f"\\{sign}"
    state.pos += 2
    return True


def _begins_list(state: StateInline, sign: str) -> bool:
    """True when a sign would begin a list item if there were no backslash before it."""
    line = state.src.rfind("\n", 0, state.pos) + 1
    before = state.src[line : state.pos] if state.pos - line <= MAX_MARKER else "-"
    return _NUMBER.fullmatch(before) is not None if sign in ".)" else not before.strip()


def _emphasis(state: StateInline, silent: bool) -> bool:
    return _literal(state, silent) or emphasis.tokenize(state, silent)


def _strikethrough(state: StateInline, silent: bool) -> bool:
    return _literal(state, silent, "~") or strikethrough.tokenize(state, silent)


def _literal(state: StateInline, silent: bool, marks: str = "*_") -> bool:
    """Takes a run of marks that is rather an operator or part of a name: `2*3*4`, `src/*.py`,
    `__init__.py`."""
    marker = state.src[state.pos]
    if silent or marker not in marks:
        return False
    found = state.scanDelims(state.pos, True)
    end = state.pos + found.length
    before = state.src[state.pos - 1 : state.pos] if state.pos else ""
    after = state.src[end : min(end + 1, state.posMax)]
    between = found.can_open and found.can_close and before.isascii() and after.isascii()
    path = before in SLASHES or after in SLASHES
    dotted = after == "." and state.src[end + 1 : min(end + 2, state.posMax)].isalnum()
    glob = dotted and (marker != "*" or found.length == 1 or not found.can_open)
    if not (between or path or glob or (marker == "_" and found.length > 1)):
        return False
    state.pending += marker * found.length
    state.pos = end
    return True


def _with_addresses(tokens: Iterable[Token], links: Links) -> Iterator[Token]:
    """The tokens of a line, links and images as spans with their addresses behind them. A link of
    the terminal lacks it, unless its words could be taken for another address."""
    text: list[str] = []
    opened = Token("", "", 0)
    for token in tokens:
        if token.type == "image":
            label = list(_with_addresses(token.children or (), "none"))
            yield Token("link_span_open", "a", 1)
            yield from label
            yield Token("link_span_close", "a", -1)
            shown = "".join(each.content for each in label)
            text.append(shown)
            yield from _address_tokens(shown, token)
        elif token.type == "link_open":
            text.clear()
            opened = token
            linked = links != "none" and _LINKED.fullmatch(str(token.attrGet("href")))
            yield token if linked else Token("link_span_open", "a", 1)
        elif token.type == "link_close":
            linked = links != "none" and _LINKED.fullmatch(str(opened.attrGet("href")))
            yield token if linked else Token("link_span_close", "a", -1)
            words = "".join(text).strip()
            hidden = linked and links == "alone" and words and not _LIKE_ADDRESS.search(words)
            yield from _address_tokens("".join(text), opened, hidden=bool(hidden))
        else:
            text.append(token.content)
            yield token


def _address_tokens(text: str, token: Token, *, hidden: bool = False) -> Iterator[Token]:
    """The address of a link, what cannot be seen in it escaped; one that is its text is not said
    twice. `info` describes it without its letters."""
    address, title = str(token.attrGet("href") or token.attrGet("src")), token.attrGet("title")
    seen = escaped(f'{address} "{title}"' if title else address)
    said = hidden or seen in (text, f"mailto:{text}")
    shown = f" ({seen})" if text.strip() else f"({seen})"
    info = f"{address}{title}''<" if said or seen != address else ""
    yield Token(ADDRESS, ADDRESS, 0, content="" if said else shown, info=info)


CELL_COLUMNS = 8
"""Columns that a cell of a table needs; where there are fewer the rows are written as text."""
MAX_CODE = 4_000
"""Characters of code up to which it is coloured whatever it is. The patterns of some languages take
time that grows with the square of a run of words, so longer code with a long one stays plain."""
MAX_CODE_LINE = 2_000
"""Characters of a line up to which code is coloured."""

_RUN = re.compile(r"[\w\s.$<>?\[\]]{1000}")
_LONG_LINE = re.compile(rf"[^\n]{{{MAX_CODE_LINE + 1}}}")


class MarginHeading(Heading):
    """A heading that begins at the margin, as all else does."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        yield text


class LabelledCode(CodeBlock):
    """Code, below what its fence says beside a language."""

    label: str = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> CodeBlock:
        """Code without its lines still."""
        info = token.info.strip()
        language = info.split(maxsplit=1)[0] if info else ""
        known = _is_language(language)
        coloured = known and isinstance(markdown, RenderedDocument) and markdown.colour
        plain = not coloured or too_costly(token.content)
        theme = markdown.code_colours if isinstance(markdown, RenderedDocument) else None
        made = cls("text" if plain else language, cast("str", theme or "ansi_dark"))
        made.label = info
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.label:
            yield Text(self.label, style=console.get_style("markdown.info"))
        bar = Segment("│ ", console.get_style("markdown.info"))
        room = options.update(width=max(options.max_width - bar.cell_length, 1))
        code = Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True)
        for row in console.render_lines(code, room, pad=False):
            yield bar
            yield from row
            yield Segment.line()


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
            first = Segment(f" {mark or '•':>{columns}} ", style)
            yield from _indented(console, options, item.elements, (first, rest))


class WholeRule(HorizontalRule):
    """A rule from margin to margin."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style=console.get_style("markdown.hr"), characters="─")
        yield Text()


class FoldedTable(TableElement):
    """A table with wrapped cells; as text if the terminal is too narrow."""

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


_EMPTY = Markdown("")


class RenderedDocument(Markdown):
    """Markdown for a scrollback. `implied` is what it says without its letters, known once it was
    drawn: the languages of its code, which colours tell, and addresses that are links' texts."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "blockquote_open": Quote,
        "bullet_list_open": MarkedList,
        "code_block": LabelledCode,
        "fence": LabelledCode,
        "heading_open": MarginHeading,
        "hr": WholeRule,
        "list_item_open": NumberedItem,
        "ordered_list_open": MarkedList,
        "table_open": FoldedTable,
    }
    inlines: ClassVar[set[str]] = {*Markdown.inlines, "a", ADDRESS}

    def __init__(
        self,
        text: str,
        *,
        colour: bool,
        code_colours: SyntaxTheme,
        links: Links,
    ) -> None:
        # Not by rich's own, which makes a parser for each document.
        vars(self).update(vars(_EMPTY))
        self.hyperlinks = links != "none"
        self.code_colours = code_colours
        self.colour = colour
        self.parsed = tokens_of(text, links)
        self.implied = [each.info for token in self.parsed for each in token.children or ()]


def _indented(
    console: Console,
    options: ConsoleOptions,
    elements: Renderables,
    marks: tuple[Segment, Segment],
) -> RenderResult:
    """An element's content, indented by its mark."""
    first, rest = marks
    room = max(options.max_width - first.cell_length, 1)
    lines = console.render_lines(elements, options.update(width=room))
    for index, row in enumerate(lines):
        yield rest if index else first
        yield from row
        yield Segment.line()
    if not lines:
        yield first
        yield Segment.line()


def too_costly(code: str) -> bool:
    """True when code stays without colours: making out its parts may take seconds."""
    if _LONG_LINE.search(code):
        return True
    return len(code) > MAX_CODE and _RUN.search(code) is not None


@lru_cache(maxsize=64)
def _is_language(name: str) -> bool:
    return bool(name) and Syntax("", name).lexer is not None


MIN_COLUMNS = 10
MARKS = "*_~`#>-+|=[]()!:\\"
"""Signs that may be Markdown's own, and then are not drawn."""

_LINK = re.compile(r"\x1b\]8;([^;]*;[^\x1b]*)\x1b\\")
_SGR = re.compile(r"\x1b(?:\[[\d;]*m|\]8;[^\x07]*\x07)")
_BLANK = re.compile(rf"(?:{_SGR.pattern}|\s)*")
_WITHOUT_MARKS = str.maketrans("", "", MARKS)


def rich_look(look: str) -> str:
    """A look of a theme, as prompt_toolkit has it, as rich has it."""
    words = (
        re.sub("^bright", "bright_", word.removeprefix("ansi")) if word.startswith("ansi") else word
        for word in look.split()
    )
    return " ".join(words) or "none"


@lru_cache(maxsize=8)
def _colours(looks: tuple[tuple[str, str], ...]) -> tuple[Theme, SyntaxTheme]:
    """The colours of Markdown, and of code in it, by the looks of a theme."""
    look = {name: rich_look(each) for name, each in looks}
    accent, code = look["accent"], look["warning"]
    theme = {
        **{
            f"markdown.h{level}": f"bold {accent if level < 3 else 'none'}" for level in range(1, 7)
        },
        "markdown.a": look["link"],
        "markdown.link_url": look["link"],
        "markdown.address": look["dim"],
        "markdown.block_quote": look["dim"],
        "markdown.code": code,
        "markdown.hr": look["dim"],
        "markdown.info": look["dim"],
        "markdown.item.bullet": f"bold {accent}",
        "markdown.item.number": accent,
        "markdown.table.border": look["dim"],
        "markdown.table.header": f"bold {accent}",
    }
    tokens = (
        (Comment, "comment"),
        (Keyword, "keyword"),
        (String, "string"),
        (Number, "number"),
        (Operator, "symbol"),
        (Name.Tag, "keyword"),
        (Generic.Inserted, "ok"),
        (Generic.Deleted, "error"),
        (Generic.Subheading, "dim"),
        (Name.Function, "bold"),
        (Name.Class, "bold"),
    )
    styles = {(*kind,): Style.parse(look[name]) for kind, name in tokens}
    return Theme(
        {name: each.replace("none", "").strip() or "none" for name, each in theme.items()}
    ), (ANSISyntaxTheme(styles))


def render_markdown(
    text: str,
    columns: int,
    *,
    colour: bool,
    looks: Mapping[str, str] = ANSI.looks,
    depth: Literal["standard", "256", "truecolor"] = "standard",
    links: Links = "none",
) -> str:
    """A piece of Markdown as lines for a terminal, without the blank ones that some elements put
    around themselves. Every character is on them but Markdown's own marks. Its colours are those of
    the `looks` of a theme."""
    theme, code_colours = _colours(tuple(looks.items()))
    columns = max(columns, MIN_COLUMNS)
    console = Console(
        file=StringIO(),
        force_terminal=True,
        no_color=not colour,
        color_system=depth if colour else None,
        theme=theme,
        style=rich_look(looks["answer"]) if colour else None,
        width=columns,
        legacy_windows=False,
    )
    document = RenderedDocument(text, colour=colour, code_colours=code_colours, links=links)
    with console.capture() as capture:
        console.print(document)
    shown = _LINK.sub("\x1b]8;\\1\x07", capture.get())
    if loses_text(
        text, shown, document.implied
    ):  # nested too deeply, or more cells than a table has
        shown = "\n".join(
            piece for each in text.split("\n") for piece in wrap_text(each.expandtabs(TAB), columns)
        )
    rows = [row.rstrip() for row in shown.split("\n")]
    drawn = [index for index, row in enumerate(rows) if not _BLANK.fullmatch(row)]
    return "\n".join([*rows[drawn[0] : drawn[-1] + 1], ""] if drawn else [])


def loses_text(text: str, shown: str, implied: list[str]) -> bool:
    """True when characters of a text are not among those that are shown, but for marks and what
    those `implied`."""
    missing = _letters(text) - _letters(_SGR.sub("", shown)) - _letters("".join(implied))
    return bool(missing)


def _letters(text: str) -> Counter[str]:
    return Counter("".join(text.translate(_WITHOUT_MARKS).split()))
