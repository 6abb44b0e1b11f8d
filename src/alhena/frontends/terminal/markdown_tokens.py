"""Markdown as tokens that lose nothing: CommonMark where a mark is meant, text everywhere else.

Models write code, paths and formulas between their sentences. What CommonMark takes for HTML, for
an entity, for a reference definition or for emphasis inside a word stays text here; addresses
stand behind what links to them; line breaks stay where they are.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_block.table import escapedSplit, getLine
from markdown_it.rules_inline import StateInline, emphasis, escape, image, link, strikethrough
from markdown_it.token import Token

from alhena.display_text import escaped

InlineRule = Callable[[StateInline, bool], bool]

ADDRESS = "address"
"""The tag of what stands behind a link: its destination and title."""
SLASHES = frozenset("/\\")
ESCAPABLE = frozenset("*_`[]<>~|#\n")
"""What a backslash is a mark before; before other signs it is as likely part of a path."""

MAX_MARKER = 12
"""Columns that indentation and number of a list item take."""

_UNUSED = ("html_inline", "html_block", "autolink", "entity", "reference")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_NUMBER = re.compile(r"\s*\d{1,9}")


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text. Links are spans with the tag `a`, with an `address` behind them."""
    parsed = _parser().parse(text)
    for token in parsed:
        if token.type == "inline":
            token.children = list(_with_addresses(token.children or ()))
    return parsed


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"]).disable(list(_UNUSED))
    inline = parser.inline.ruler
    inline.at("newline", _newline)
    inline.at("escape", _escape)
    inline.at("emphasis", _emphasis)
    inline.at("strikethrough", _strikethrough)
    inline.at("link", _addressed(link, 0, nested=False))
    inline.at("image", _addressed(image, 1, nested=True))
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    return parser


def _newline(state: StateInline, silent: bool) -> bool:
    """A line break that stays one, and the indentation behind it."""
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
        state.append_pending(f"\\{sign}")
    state.pos += 2
    return True


def _begins_list(state: StateInline, sign: str) -> bool:
    """Whether a sign would begin a list item if there were no backslash before it."""
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
    state.append_pending(marker * found.length)
    state.pos = end
    return True


def _addressed(rule: InlineRule, before: int, *, nested: bool) -> InlineRule:
    """The rule, with the address as it was written; `before` characters precede the label."""

    def found(state: StateInline, silent: bool) -> bool:
        start = state.pos
        if not rule(state, silent):
            return False
        if not silent:
            state.tokens[-1].meta[ADDRESS] = _address(state, start + before, nested=nested)
        return True

    return found


def _address(state: StateInline, start: int, *, nested: bool) -> str:
    """What stands in parentheses behind the label that begins at `start`, as it was written."""
    label_end = state.md.helpers.parseLinkLabel(state, start, not nested)
    written = state.src[label_end + 2 : state.pos - 1]
    return _ESCAPE.sub(r"\1", " ".join(written.split()))


def _table(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """A table, unless a row has more cells than the head: those would not be drawn."""
    made, line = len(state.tokens), state.line
    if not table(state, start_line, end_line, silent):
        return False
    new = state.tokens[made:]
    heads = sum(token.type == "th_open" for token in new)
    rows = (token.map[0] for token in new if token.type == "tr_open" and token.map)
    if all(_cells(getLine(state, row)) <= heads for row in rows):
        return True
    del state.tokens[made:]
    state.line = line
    return False


def _cells(row: str) -> int:
    cells = escapedSplit(row.strip())
    return len(cells) - (cells[0] == "") - (cells[-1] == "")


def _with_addresses(tokens: Iterable[Token]) -> Iterator[Token]:
    """The tokens of a line, links and images as spans with their addresses behind them."""
    text: list[str] = []
    for token in tokens:
        if token.type == "image":
            label = list(_with_addresses(token.children or ()))
            yield Token("link_span_open", "a", 1)
            yield from label
            yield Token("link_span_close", "a", -1)
            shown = "".join(each.content for each in label)
            text.append(shown)
            yield from _behind(shown, token)
        elif token.type == "link_open":
            text.clear()
            yield Token("link_span_open", "a", 1)
        elif token.type == "link_close":
            yield Token("link_span_close", "a", -1)
            yield from _behind("".join(text), token)
        else:
            text.append(token.content)
            yield token


def _behind(text: str, token: Token) -> Iterator[Token]:
    """The address of a link, what cannot be seen in it escaped; one that is its text is not said
    twice. `info` is what of it is told without its letters."""
    address = str(token.meta[ADDRESS])
    seen = escaped(address)
    said = seen in (text, f"mailto:{text}")
    shown = f" ({seen})" if text.strip() else f"({seen})"
    info = address if said or seen != address else ""
    yield Token(ADDRESS, ADDRESS, 0, content="" if said else shown, info=info)
