"""Which places of a Markdown text are text, and not code. A CommonMark parser says so."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

_PRIVATE = range(0xE000, 0xF900)
_QUIET_HTML = re.compile(
    r"<!--.*?(?:-->|\Z)|<(pre|code|script|style|textarea)\b.*?(?:</\1\s*>|\Z)|</?[a-z][^<>]*>",
    re.DOTALL | re.IGNORECASE,
)
_CODE_TAG = re.compile(r"<(/?)(?:code|pre|samp|kbd)\b", re.IGNORECASE)


def places_in_text(text: str, places: Sequence[int]) -> frozenset[int]:
    """Those of `places`, offsets of characters in ascending order, that a reader would see as text.

    Not among them: what stands in code blocks and code spans, in HTML comments and code elements,
    and in what is not shown (definitions of links, info strings, tags).
    """
    from markdown_it import MarkdownIt

    # The parser knows the lines of blocks and nothing of the places of spans. So each character is
    # replaced by a mark that means nothing in Markdown, and the marks are looked for in what the
    # parser takes for text.
    unused = iter(chr(code) for code in _PRIVATE if chr(code) not in text)
    mark = next(unused, None)
    if mark is None:  # no text has all of them; without a mark nothing can be told
        return frozenset()
    pieces: list[str] = []
    last = 0
    for number, place in enumerate(places):
        pieces += (text[last:place], f"{mark}{number}{mark}")
        last = place + 1
    pieces.append(text[last:])
    # These decide nothing about code; without them no text takes long.
    unneeded = ["emphasis", "entity", "link", "image"]
    parser = MarkdownIt("commonmark").disable(unneeded)
    marks = re.compile(f"{mark}([0-9]+){mark}")
    found: set[int] = set()
    for token in parser.parse("".join(pieces)):
        for seen in _seen(token):
            found.update(places[int(number)] for number in marks.findall(seen))
    return frozenset(found)


def _seen(token: "Token") -> list[str]:
    """The pieces of a block that are text."""
    if token.type == "html_block":
        return [_QUIET_HTML.sub("", token.content)]
    if token.type != "inline":
        return []
    texts: list[str] = []
    code = 0
    for child in token.children or ():
        if child.type == "html_inline":
            tag = _CODE_TAG.match(child.content)
            if tag:
                code = max(0, code - 1) if tag[1] else code + 1
        elif child.type == "text" and not code:
            texts.append(child.content)
    return texts
