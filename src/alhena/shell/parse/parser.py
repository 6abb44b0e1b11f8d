"""Finds quotes, comments and here documents in one pass, then parses within limits.

The parser takes here documents apart wrongly as soon as anything follows them on their line, so it
never sees one: the operator becomes a plain `<`, the body becomes blanks. In commands with very
many operators what is surely inert between quotes is masked too, which bounds the parser's work.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.shell.parse.model import MAX_MARKS, MAX_PIECES, Findings, HereDocument, Source

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_STEPS = 1600
MAX_DEPTH = 100

_LIST_RUN = re.compile(r"[^'\"\\$`<>()#\n]+")
_DOUBLE_RUN = re.compile(r'[^"\\$`]+')
_BRACE_RUN = re.compile(r"[^}'\"\\$`]+")
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_OPERATOR = re.compile(r"<<(-?)(?:[ \t]|\\\n)*")
_DELIMITER = re.compile(r"'([^'\n]*)'|\"([^\"\\$`\n]*)\"|(\\?)([\w.+@%,:/-]+)", re.ASCII)
_ENDS = frozenset(" \t\n;&|<>()")
_CASE = re.compile(r"(?<![\w-])case[ \t]")


class _Context:
    """A list of commands (`(`, `$(`, a backtick, the whole text), or the inside of `"` or `${`."""

    __slots__ = ("arithmetic", "kind", "waiting")

    def __init__(self, kind: str, *, arithmetic: bool = False) -> None:
        self.kind = kind
        self.arithmetic = arithmetic
        self.waiting: list[tuple[int, int, str, bool, bool]] = []


class _Layout:
    def __init__(self, raw: str, kind: str) -> None:
        self.raw = raw
        self.at = 0
        self.stack = [_Context(kind)]
        self.quotes: list[int] = []
        self.certain = True
        self.inert: list[tuple[int, int]] = []
        self.comments: list[tuple[int, int]] = []
        self.documents: dict[int, HereDocument] = {}

    def read(self) -> None:
        steps = 0
        while self.at < len(self.raw):
            steps += 1
            if steps > MAX_STEPS or len(self.stack) > MAX_DEPTH:
                self.certain = False
                break
            kind = self.stack[-1].kind
            if kind == '"':
                self._double()
            elif kind == "{":
                self._brace()
            else:
                self._list()
        if len(self.stack) > 1 or self.stack[0].waiting:
            self.certain = False

    def _list(self) -> None:
        run = _LIST_RUN.match(self.raw, self.at)
        if run:
            self._run(run.group())
            self.at = run.end()
            return
        mark = self.raw[self.at]
        if mark == "'":
            self._single()
        elif mark == "#":
            self._comment()
        elif mark in "<>":
            self._angle()
        elif mark == "\n":
            self._newline()
        elif mark in "()":
            self._bracket(mark)
        else:
            self._common(mark)

    def _run(self, run: str) -> None:
        """A pattern of `case` ends in a bracket, which would be taken for the end of `$(`."""
        if "case" in run and len(self.stack) > 1 and _CASE.search(run):
            self.certain = self.certain and all(c.kind in {"list", "("} for c in self.stack)

    def _common(self, mark: str) -> None:
        """Reads marks that mean the same in a list, between double quotes and in `${`."""
        if mark == '"':
            self.stack.append(_Context('"'))
            self.at += 1
        elif mark == "\\":
            self.at += 2
        elif mark == "`":
            self._backtick()
        elif self.raw.startswith("$(", self.at):
            self.stack.append(_Context("$(", arithmetic=self.raw.startswith("$((", self.at)))
            self.at += 2
        elif self.raw.startswith("${", self.at):
            self.stack.append(_Context("{"))
            self.at += 2
        elif self.raw.startswith("$'", self.at) and self.stack[-1].kind != '"':
            quoted = _ANSI.match(self.raw, self.at)
            self.certain = self.certain and quoted is not None
            self.at = quoted.end() if quoted else len(self.raw)
        else:
            self.at += 1

    def _single(self) -> None:
        end = self.raw.find("'", self.at + 1)
        if end < 0:
            self.certain = False
            end = len(self.raw)
        self.inert.append((self.at + 1, end))
        self.at = end + 1

    def _comment(self) -> None:
        before = self.raw[self.at - 1] if self.at else "\n"
        if before not in " \t\n;&|()<>`":
            self.at += 1
            return
        if any(context.kind == "`" for context in self.stack):
            self.certain = False
        end = self.raw.find("\n", self.at)
        end = len(self.raw) if end < 0 else end
        self.inert.append((self.at + 1, end))
        self.comments.append((self.at, end))
        self.at = end

    def _double(self) -> None:
        run = _DOUBLE_RUN.match(self.raw, self.at)
        if run:
            self.inert.append((self.at, run.end()))
            self.at = run.end()
        elif self.raw[self.at] == '"':
            if len(self.stack) == 1:
                self.quotes.append(self.at)
            else:
                self.stack.pop()
            self.at += 1
        else:
            self._common(self.raw[self.at])

    def _brace(self) -> None:
        run = _BRACE_RUN.match(self.raw, self.at)
        if run:
            self.at = run.end()
        elif self.raw[self.at] == "}":
            self.stack.pop()
            self.at += 1
        elif self.raw[self.at] == "'":
            # Whether it quotes depends on what is around.
            self.certain = False
            self.at += 1
        else:
            self._common(self.raw[self.at])

    def _backtick(self) -> None:
        self.at += 1
        if not any(context.kind == "`" for context in self.stack):
            self.stack.append(_Context("`"))
            return
        while True:
            closed = self.stack.pop()
            self.certain = self.certain and not closed.waiting
            if closed.kind == "`":
                return
            self.certain = False

    def _bracket(self, mark: str) -> None:
        if mark == "(":
            twice = self.raw.startswith("((", self.at)
            self.stack.append(_Context("(", arithmetic=twice))
        elif self.stack[-1].kind in {"(", "$("}:
            closed = self.stack.pop()
            if closed.kind == "(":
                self.stack[-1].waiting += closed.waiting
            elif closed.waiting:
                self.certain = False
        self.at += 1

    def _angle(self) -> None:
        raw = self.raw
        if raw.startswith("<<<", self.at):
            self.at += 3
        elif raw.startswith("<<", self.at):
            self._operator()
        elif raw.startswith("(", self.at + 1):
            self.stack.append(_Context("$("))
            self.at += 2
        else:
            self.at += 1

    def _operator(self) -> None:
        operator = _OPERATOR.match(self.raw, self.at)
        word = _DELIMITER.match(self.raw, operator.end()) if operator else None
        after = self.raw[word.end() : word.end() + 1] if word else ""
        before = re.split(r"[ \t\n;&|()]", self.raw[max(0, self.at - 64) : self.at])[-1]
        if not operator or not word or (after and after not in _ENDS) or "[" in before:
            self.certain = False
            self.at += 2
            return
        if any(context.arithmetic or context.kind == "`" for context in self.stack):
            self.certain = False
        single, double, escape, bare = word.groups()
        delimiter = next(text for text in (single, double, bare) if text is not None)
        quoted = bare is None or bool(escape)
        self.stack[-1].waiting.append(
            (self.at, word.start(), delimiter, quoted, bool(operator.group(1)))
        )
        self.at = word.end()

    def _newline(self) -> None:
        context = self.stack[-1]
        self.certain = self.certain and not any(outer.waiting for outer in self.stack[:-1])
        for operator, operator_stop, delimiter, quoted, strips in context.waiting:
            end = _last_line(delimiter, strips=strips).search(self.raw, self.at)
            body_stop = end.start() + 1 if end else len(self.raw)
            start = min(self.at + 1, len(self.raw))
            self.documents[operator] = HereDocument(
                delimiter, quoted, strips, operator_stop, start, body_stop
            )
            self._check_body(context.kind, self.documents[operator], found=end is not None)
            self.at = end.end() if end else len(self.raw)
        context.waiting = []
        self.at += 1

    def _check_body(self, kind: str, document: HereDocument, *, found: bool) -> None:
        body = self.raw[document.start : document.stop]
        # In a substitution bash also ends it where the closing bracket follows the delimiter.
        early = kind == "$(" and re.search(
            rf"^\t*{re.escape(document.delimiter)}", body, re.MULTILINE
        )
        joined = not document.quoted and "\\\n" in body
        if not found or early or joined or not document.delimiter:
            self.certain = False


@lru_cache(maxsize=16)
def _last_line(delimiter: str, *, strips: bool) -> re.Pattern[str]:
    tabs = r"\t*" if strips else ""
    return re.compile(rf"\n{tabs}{re.escape(delimiter)}(?=\n|\Z)")


def set_apart(source: Source, *, mask_quotes: bool) -> Source:
    """The source with its here documents set aside, and inert text masked when asked for."""
    layout = _Layout(source.raw, "list")
    layout.read()
    pieces: list[str] = []
    at = 0
    spans = [(start, stop, "x") for start, stop in layout.inert] if mask_quotes else []
    for operator, document in layout.documents.items():
        spans.append((operator + 1, document.operator_stop, " "))
        stop = min(len(source.raw), _line_stop(source.raw, document))
        spans.append((document.start, stop, " "))
    for start, stop, filler in sorted(spans):
        if start >= at:
            pieces += [source.raw[at:start], filler * (stop - start)]
            at = stop
    pieces.append(source.raw[at:])
    return Source(source.raw, "".join(pieces), source.ascii, layout.documents, layout.certain)


def without_comments(command: str) -> str:
    """A command line without its comments and what is blank before these; as it is where it is not
    certain what they are."""
    if "#" not in command:
        return command
    layout = _Layout(command, "list")
    layout.read()
    if not layout.certain:
        return command
    pieces: list[str] = []
    at = 0
    for start, end in layout.comments:
        pieces.append(command[at:start].rstrip(" \t"))
        at = end
    return "".join([*pieces, command[at:]])


def as_quoted(body: Source) -> Source:
    """A here document's body between double quotes, which is how bash reads it: those that stand
    in it are characters like any other, and masked."""
    layout = _Layout(body.raw, '"')
    layout.read()
    letters = list(body.raw)
    for at in layout.quotes:
        letters[at] = "x"
    text = "".join(letters)
    certain = layout.certain and not layout.documents
    return Source(f'"{body.raw}"', f'"{text}"', body.ascii, certain=certain)


def _line_stop(raw: str, document: HereDocument) -> int:
    """The end of the line that ends a document."""
    end = raw.find("\n", document.stop)
    return len(raw) if end < 0 else end


MAX_BYTES = 64 * 1024
MAX_PARSER_STEPS = 250
MAX_STEPS_AFTER_ERROR = 8
_SHORT = 256
_CHUNK = 4096

# The parser's own work on a broken text grows with the square of what it holds on its stack, and
# nothing but reserved words, operators and quotes makes it hold more.
_INERT = bytes(
    code
    for code in range(256)
    if code >= 0x80 or chr(code).isalnum() or chr(code) in " \t_./-@,:+%"
)

_ASCII = bytes(code if code < 0x80 else ord(".") for code in range(256))
"""Characters outside ASCII are parts of words to bash. The grammar takes some for blanks, and where
one follows a brace it looks it up behind the end of a table of the C library, and may crash."""

_RESERVED = re.compile(
    rb"\b(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|in|function|select|time|coproc"
    rb"|declare|typeset|export|readonly|local|unset|unsetenv)"
)


class TooMuchError(Exception):
    """The text is over a limit, which the message names."""


def exceeds(data: bytes) -> bool:
    """Does the text hold more operators or words than the parser is given?"""
    if len(data) <= _SHORT:
        return False
    marks, pieces = _count_marks(data)
    return marks > MAX_MARKS or pieces > MAX_PIECES


def parse(data: bytes, findings: Findings) -> "Node":
    """The syntax tree of a text; raises TooMuchError."""
    from tree_sitter import Parser

    parser = Parser(_language())
    data = data.translate(_ASCII)
    if len(data) <= _SHORT:
        return parser.parse(data).root_node
    marks, pieces = _count_marks(data)
    findings.marks -= marks
    findings.pieces -= pieces
    if findings.marks < 0:
        raise TooMuchError(f"it has more than {MAX_MARKS} operators, quotes and reserved words")
    if findings.pieces < 0:
        raise TooMuchError(f"it has more than {MAX_PIECES} words")
    steps = _Steps()
    try:
        tree = parser.parse(
            lambda offset, _point: data[offset : offset + _CHUNK], progress_callback=steps.spent
        )
    except ValueError as error:
        raise TooMuchError("it takes too long to parse") from error
    return tree.root_node


def _count_marks(data: bytes) -> tuple[int, int]:
    marks = len(data.translate(None, _INERT)) + len(_RESERVED.findall(data))
    return marks, marks + len(data.split())


class _Steps:
    """Counts what the parser does, by hundreds of operations; none of it is a clock."""

    def __init__(self) -> None:
        self.left = MAX_PARSER_STEPS

    def spent(self, _offset: int, has_error: bool) -> bool:
        if has_error:
            self.left = min(self.left, MAX_STEPS_AFTER_ERROR)
        self.left -= 1
        return self.left <= 0


@lru_cache(maxsize=1)
def _language() -> "Language":
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())
