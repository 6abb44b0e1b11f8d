"""Converts HTML to Markdown-like text. Runs as a separate program (started by `readable`): a
hostile page can drive parsers to quadratic time, and only a process can be killed.

Standard input is the page in UTF-8; the arguments are its URL and the maximum number of characters;
the output is a JSON object: title, text, cut.
"""

import json
import re
import sys
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

CPU_SECONDS = 5
MEMORY = 2 << 30

_SKIPPED = frozenset(
    {
        *("script", "style", "noscript", "template", "svg", "math", "iframe", "object", "canvas"),
        *("head", "select", "audio", "video", "datalist", "button"),
    }
)
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "div"),
        *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr"),
        *("main", "nav", "ol", "p", "pre", "section", "summary", "table", "ul"),
        *("h1", "h2", "h3", "h4", "h5", "h6"),
    }
)
_LINES = frozenset({"li", "tr", "dd", "dt"})
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_FEW = 200


class _PageText:
    """The text so far. Line breaks and spaces are held back until other text follows."""

    def __init__(self, limit: int) -> None:
        self._pieces: list[str] = []
        self._room = limit
        self._breaks = 0
        self._space = False
        self._indent = ""

    @property
    def full(self) -> bool:
        return self._room < 0

    def breaks(self, count: int) -> None:
        self._breaks = max(self._breaks, count)
        self._space = False

    def indent(self, depth: int) -> None:
        self._indent = "  " * min(max(depth, 0), 8)

    def words(self, text: str) -> None:
        """Adds running text: blanks collapse."""
        text = _BLANKS.sub(" ", text)
        if text.startswith(" "):
            self._space = True
        if stripped := text.strip(" "):
            self.verbatim(stripped)
            self._space = text.endswith(" ")

    def verbatim(self, text: str) -> None:
        if self._breaks and self._pieces:
            self._add("\n" * self._breaks + self._indent)
        elif self._space and self._pieces:
            self._add(" ")
        self._breaks, self._space = 0, False
        self._add(text)

    def _add(self, text: str) -> None:
        self._pieces.append(text[: max(self._room, 0)])
        self._room -= len(text)

    def close(self, text: str) -> None:
        """Adds text attached to the previous words: a pending space follows it."""
        self._add(text)

    def end_line(self) -> None:
        if self._pieces and not self._pieces[-1].endswith("\n"):
            self._add("\n")

    def mark(self) -> int:
        return len(self._pieces)

    def since(self, mark: int) -> bool:
        return len(self._pieces) > mark

    def __str__(self) -> str:
        return "".join(self._pieces)


class Renderer:
    """Walks a tree without recursion, so that any depth works."""

    def __init__(self, base: str, limit: int, skipped: frozenset[str]) -> None:
        self.out = _PageText(limit)
        self._base = base
        self._skipped = skipped
        self._pre = 0
        self._lists: list[int | None] = []
        self._cells = 0
        self._leaving: list[tuple[str, int]] = []

    def render(self, root: LexborNode) -> str:
        """The text under `root`, up to the limit."""
        node: LexborNode | None = root
        while node is not None and not self.out.full:
            child = self._enter(node)
            if child is not None:
                node = child
                continue
            node = self._after(node, root)
        return str(self.out).strip("\n ")

    def _after(self, node: LexborNode, root: LexborNode) -> LexborNode | None:
        """The node after `node` and its descendants."""
        current: LexborNode | None = node
        while current is not None and current.mem_id != root.mem_id:
            following = current.next
            if following is not None:
                return following
            current = current.parent
            if self._leaving and current is not None:
                tag, mark = self._leaving.pop()
                self._leave(current, tag, mark)
        return None

    def _enter(self, node: LexborNode) -> LexborNode | None:
        """Writes the text before a node's children; returns the first child, None without any."""
        if node.is_text_node:
            text = node.text_content or ""
            if self._pre:
                self.out.verbatim(text)
            else:
                self.out.words(text)
            return None
        tag = node.tag or ""
        if not node.is_element_node or tag in self._skipped or "hidden" in node.attributes:
            return None
        self._before(node, tag)
        child = node.child
        if child is None:
            self._leave(node, tag, self.out.mark())
            return None
        self._leaving.append((tag, self.out.mark()))
        return child

    def _before(self, node: LexborNode, tag: str) -> None:
        if tag in _BLOCKS and not (tag in {"ul", "ol"} and self._lists):
            self.out.breaks(2)
        elif tag in _LINES or tag in {"br", "ul", "ol"}:
            self.out.breaks(1)
        if tag in {"ul", "ol"}:
            self._lists.append(0 if tag == "ol" else None)
        elif tag == "li":
            self._item()
        elif tag == "pre":
            self.out.verbatim("```\n")
            self._pre += 1
        elif tag in _CODE and not self._pre:
            self.out.verbatim("`")
        elif tag in {"tr", "td", "th"}:
            self._cell(tag)
        elif tag in {"hr", "img", "h1", "h2", "h3", "h4", "h5", "h6"}:
            self._sign(node, tag)

    def _cell(self, tag: str) -> None:
        if tag == "tr":
            self._cells = 0
            return
        if self._cells:
            self.out.words(" | ")
        self._cells += 1

    def _sign(self, node: LexborNode, tag: str) -> None:
        alt = (node.attributes.get("alt") or "").strip() if tag == "img" else ""
        if tag == "hr":
            self.out.verbatim("---")
        elif alt:
            self.out.words(f"[image: {alt}]")
        elif tag != "img":
            self.out.verbatim("#" * int(tag[1]) + " ")

    def _item(self) -> None:
        self.out.indent(len(self._lists) - 1)
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        self.out.verbatim("- " if number is None else f"{number + 1}. ")

    def _leave(self, node: LexborNode, tag: str, mark: int) -> None:
        if tag == "a" and self.out.since(mark):
            self._link(node.attributes.get("href"))
        elif tag == "pre":
            self._pre -= 1
            self.out.end_line()
            self.out.close("```")
        elif tag in _CODE and not self._pre:
            self.out.close("`")
        elif tag in {"ul", "ol"} and self._lists:
            self._lists.pop()
            self.out.indent(len(self._lists) - 1)
        if tag in _BLOCKS and not (tag in {"ul", "ol"} and self._lists):
            self.out.breaks(2)
        elif tag in _LINES:
            self.out.breaks(1)

    def _link(self, href: str | None) -> None:
        if not href or href.startswith("#") or self._pre:
            return
        try:
            target = urljoin(self._base, href.strip())
        except ValueError:
            return
        if target.startswith(("http://", "https://")):
            self.out.close(f" <{target}>")


def render(html: str, base: str, limit: int) -> dict[str, object]:
    """The title and text of a page; `cut` is True for more than `limit` characters."""
    tree = LexborHTMLParser(html)
    title = tree.css_first("title")
    words = _BLANKS.sub(" ", title.text() if title is not None else "").strip()
    root = tree.body or tree.root
    text, cut = "", False
    # Navigation is noise, unless there is nothing else on the page.
    for skipped in (_SKIPPED | {"nav"}, _SKIPPED):
        if root is not None and len(text) < _FEW:
            renderer = Renderer(base, limit, skipped)
            text, cut = renderer.render(root), renderer.out.full
    return {"title": words[:300], "text": text, "cut": cut}


def _bound() -> None:
    """Limits time and memory."""
    import resource

    bounds = [(resource.RLIMIT_CPU, CPU_SECONDS)]
    if sys.platform == "linux":
        bounds.append((resource.RLIMIT_AS, MEMORY))
    for kind, bound in bounds:
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or hard > bound:
            resource.setrlimit(kind, (bound, bound))


if __name__ == "__main__":
    _bound()
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    answer = render(page, sys.argv[1], int(sys.argv[2]))
    sys.stdout.buffer.write(json.dumps(answer).encode("ascii"))
