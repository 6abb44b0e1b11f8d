"""The walk over the syntax tree: which commands run, in which shell, fed by what.

The tree says where commands, reserved words and operators stand. Nothing but blanks may stand
between them, and bash must take each for what the tree takes it: a command only where one may
start, a reserved word only where bash looks for one.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from alhena.shell.parse.model import (
    MAX_DEPTH,
    Assignment,
    Part,
    Reading,
    Scope,
    UnclearError,
    Word,
    WordKind,
)
from alhena.shell.parse.simple_command import ANYWHERE, SimpleCommand, read_pieces, read_simple
from alhena.shell.parse.words import ARITHMETIC, read_regex, read_word

if TYPE_CHECKING:
    from tree_sitter import Node

_GAP = re.compile(r"(?:[ \t\n]|\\\n)*")
_BOUNDARY = frozenset(" \t\n;&|()<>")
_OPENING = frozenset({"if", "then", "elif", "else", "while", "until", "do", "{", "!", "("})
_CLOSING = frozenset({"then", "elif", "else", "fi", "do", "done", "}", "esac"})
_RESERVED = _OPENING | _CLOSING | {")"}
_SEPARATORS = frozenset({";", "&", "&&", "||", "|", "|&"})
_OPERATOR = re.compile(r";;&|;;|;&|;|&&|&>>|&>|&|\|\||\|&|\|")
"""An operator as bash takes it: the longest that is there."""

SIMPLE = frozenset(
    {
        "command",
        "variable_assignment",
        "variable_assignments",
        "declaration_command",
        "unset_command",
        "test_command",
        "file_redirect",
        "herestring_redirect",
    }
)
"""Node types that are one simple command (a `test_command` unless it is `[[` or `((`)."""

_CLAUSES = frozenset({"elif_clause", "else_clause", "do_group"})


class Walk:
    """Goes through one text in order. `at` is how far it has come, `ready` whether a command may
    start there, `compound` whether a compound command has just ended."""

    def __init__(
        self, reading: Reading, compounds: "Mapping[str, Callable[[Walk, Node, Scope, int], None]]"
    ) -> None:
        self.reading = reading
        self.compounds = compounds
        self.at = 0
        self.ready = True
        self.compound = False
        self.depth = 0

    def program(self, root: "Node", scope: Scope) -> None:
        """The whole text."""
        self.sequence(root.children, scope)
        self.gap(len(self.reading.text))

    def substitution(self, node: "Node", scope: Scope) -> None:
        """The commands in `$(…)`, `<(…)`, `>(…)` or backticks."""
        children = node.children
        opening = children[0]
        start, stop = opening.end_byte, children[-1].start_byte
        closing = "`" if opening.type in {"`", "$`"} else ")"
        if children[-1].type != closing or scope.depth > MAX_DEPTH:
            self._too_deep(node)
            return
        if closing == "`":
            scope = scope.inside(backtick=True)
            if any(mark in self.reading.text[start:stop] for mark in "\\`#"):
                self.reading.unclear(start, stop)
        elif opening.type == ">(":
            scope = scope.inside(piped=True)
        self.at = start
        self.sequence(children[1:-1], scope)
        self.gap(stop)

    def sequence(self, nodes: "list[Node]", scope: Scope, stop: int = 0) -> None:
        """Commands, what separates them, and the reserved words around them; `stop` is where the
        last command ends when its redirections stand behind its node."""
        compounds = self.compounds
        last = len(nodes) - 1
        for index, node in enumerate(nodes):
            kind = node.type
            start = node.start_byte
            if start != self.at:
                self.gap(start)
            if kind in SIMPLE or kind in compounds:
                detached = index < last and nodes[index + 1].type == "&"
                around = scope.subshell() if detached else scope
                self.statement(node, around, stop if index == last else 0)
            elif kind in _SEPARATORS:
                self.separator(kind, node.end_byte)
            elif kind in _RESERVED:
                self.reserved(kind, node.end_byte)
            elif kind in _CLAUSES:
                self.sequence(node.children, scope)
            elif kind == "comment":
                self._comment(start, node.end_byte)
            else:
                self._unknown(node, scope)

    def statement(self, node: "Node", scope: Scope, stop: int = 0) -> None:
        """One command of any kind, up to `stop`."""
        stop = stop or node.end_byte
        kind = node.type
        if not self.ready:
            self.reading.unclear(node.start_byte, stop)
        if self.is_simple(node):
            read_simple(self.reading, node.start_byte, stop, scope)
            self.compound = False
        elif self.depth >= MAX_DEPTH or scope.depth > MAX_DEPTH:
            self._too_deep(node)
        else:
            self.depth += 1
            self.compounds[kind](self, node, scope, stop)
            self.depth -= 1
            self.compound = True
        self.at = stop
        self.ready = False

    def is_simple(self, node: "Node") -> bool:
        """Is it read as words? `[` is a command like any other, `[[` is not."""
        kind = node.type
        if kind == "test_command":
            text = self.reading.text
            start = node.start_byte
            return text.startswith("[", start) and not text.startswith("[[", start)
        return kind in SIMPLE

    def gap(self, start: int) -> None:
        """Only blanks, line ends and joined lines may stand between two tokens."""
        text = self.reading.text
        gap = text[self.at : start]
        if gap not in {"", " "} or start < self.at:
            if start < self.at or not _GAP.fullmatch(gap):
                self.reading.unclear(self.at, start)
            elif "\\" in gap:
                gap = gap.replace("\\\n", "")
                # Behind `&&` and `||` nothing can join; elsewhere it might.
                if (
                    not gap
                    and start < len(text)
                    and text[self.at - 2 : self.at] not in {"&&", "||"}
                ):
                    self.reading.unclear(self.at, start)
            if "\n" in gap:
                self.ready = True
        self.at = max(self.at, start)

    def separator(self, kind: str, stop: int) -> None:
        """An operator between commands."""
        start = stop - len(kind)
        operator = _OPERATOR.match(self.reading.text, start)
        if operator is None or operator.end() != stop:
            self.reading.unclear(start, stop + 1)
        self.ready = True
        self.at = stop

    def reserved(self, kind: str, stop: int) -> None:
        """A reserved word of a compound command, or one of its brackets."""
        following = self.reading.text[stop : stop + 1]
        bounded = kind in "()" or not following or following in _BOUNDARY
        ended = self.ready or self.compound
        if not bounded or (kind in _CLOSING and not ended) or (kind in _OPENING and not ended):
            self.reading.unclear(stop - len(kind), stop + 1)
        self.ready = kind in _OPENING
        self.at = stop

    def _comment(self, start: int, stop: int) -> None:
        text = self.reading.text
        end = text.find("\n", start)
        before = text[start - 1] if start else "\n"
        if before not in _BOUNDARY or stop != (len(text) if end < 0 else end):
            self.reading.unclear(start, stop)
        self.at = stop

    def _too_deep(self, node: "Node") -> None:
        text = self.reading.source.written(node.start_byte, node.start_byte + 40)
        self.reading.findings.lost(f"it is nested more than {MAX_DEPTH} deep", text)

    def _unknown(self, node: "Node", scope: Scope) -> None:
        """Syntax that is not known here: what looks like a command in it is kept for the rules
        that deny."""
        start, stop = node.start_byte, node.end_byte
        self.reading.unclear(start, stop)
        self.reading.queue_within(start, stop, scope)
        read_pieces(self.reading, start, stop, scope)
        self.at = stop
        self.ready = True


_JOINED_CONDITIONAL = re.compile(r"(?<![ \t\n])\\\n")
_OPERATOR_CONDITIONAL = re.compile(r"=~(?=[ \t\n])|&&|\|\||[()]|[<>](?!\()")
_END = re.compile(r"\]\](?=[ \t\n;&|()<>]|\Z)")
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_EVALUATING = frozenset({"-v", "-R"})


def read_conditional(reading: Reading, start: int, stop: int, scope: Scope) -> None:
    """Adds it as a part, with the doubts about it."""
    words: list[Word] = []
    try:
        _read(reading, start, stop, scope, words)
    except UnclearError:
        reading.unclear(start, stop)
        reading.queue_within(start, stop, scope)
    for word in words:
        if word.text in _NUMERIC:
            reading.doubt(ARITHMETIC, start, stop)
        elif word.text in _EVALUATING:
            reading.doubt("a test with -v or -R can run code hidden in data", start, stop)
    reading.findings.parts.append(
        Part(
            text=reading.source.written(start, stop),
            words=tuple(words),
            redirections=scope.redirections,
            directories=scope.shell.directories,
            stdin_piped=scope.piped,
            nested=scope.nested,
        )
    )


def _read(reading: Reading, start: int, stop: int, scope: Scope, words: list[Word]) -> None:
    text = reading.text
    if _JOINED_CONDITIONAL.search(text, start, stop):
        raise UnclearError
    at = start + 2
    words.append(Word("[[", source="[["))
    while True:
        blanks = _BLANKS.match(text, at)
        spaced = blanks is not None and blanks.end() > at
        at = blanks.end() if blanks else at
        if at >= stop:
            raise UnclearError
        end = _END.match(text, at)
        if end and spaced:
            words.append(Word("]]", source="]]"))
            if end.end() != stop:
                raise UnclearError
            return
        operator = _OPERATOR_CONDITIONAL.match(text, at)
        if operator:
            words.append(Word(operator.group(), source=operator.group()))
            at = operator.end()
        elif words[-1].source == "=~":
            word, at = read_regex(reading, at, scope)
            words.append(word)
        elif len(words) == 1 and not spaced:
            raise UnclearError
        else:
            word, at = read_word(reading, at, scope)
            words.append(word)


_LOOP = re.compile(r"(?:for|select)[ \t]+([A-Za-z_][A-Za-z0-9_]*)(?=[ \t\n;])")
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_READ_BY_PROGRAMS = re.compile(r".*_proxy|histchars|auto_resume|npm_.*|_")
_BLANKS = re.compile(r"(?:[ \t\n]|\\\n)*")
_JOINED = re.compile(r"\\(?:\n|\Z)")
_TERMINATIONS = frozenset({";;", ";&", ";;&"})
_LIST_END = re.compile(r"[ \t]*[;\n][ \t\n]*")


def _walk_redirected(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    body = node.children[0]
    if walk.is_simple(body):
        walk.sequence([body], scope, stop)
    elif body.type in walk.compounds:
        walk.statement(body, scope, stop)
    else:
        walk.sequence(node.children, scope)


def _trailing(walk: Walk, end: int, scope: Scope, stop: int) -> Scope:
    """The scope inside a compound command with the redirections after it."""
    if stop == end:
        return scope
    reading = walk.reading
    command = SimpleCommand(reading, scope)
    try:
        command.read(end, stop)
    except UnclearError:
        reading.unclear(end, stop)
    if command.words or command.assignments:
        reading.unclear(end, stop)
    return scope.inside(redirections=tuple(command.redirections))


def _pipeline(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    children = node.children
    piped = False
    for child in children:
        if child.type in {"|", "|&"}:
            walk.sequence([child], scope)
            piped = True
            continue
        if child.type == "list":
            walk.reading.unclear(child.start_byte, child.end_byte)
        member = scope.subshell(piped=piped)
        walk.sequence([child], member, stop if child is children[-1] else 0)


def _list(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    nodes: list[Node] = []
    while node.type == "list":
        first, *rest = node.children
        nodes += reversed(rest)
        node = first
    nodes.append(node)
    nodes.reverse()
    walk.sequence(nodes, scope, stop)


def _plain(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    """Walks a sequence of reserved words and commands: `if`."""
    walk.sequence(node.children, _trailing(walk, node.end_byte, scope, stop))


def _walk_negated(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    walk.sequence(node.children, scope, stop)


def _group(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    inner = _trailing(walk, node.end_byte, scope, stop)
    start = node.start_byte
    if walk.reading.text.startswith("((", start):
        _arithmetic(walk, start, node.end_byte, scope)
    if node.children[0].type == "((":
        walk.at = node.end_byte
        return
    walk.sequence(node.children, inner.subshell() if node.type == "subshell" else inner)


def _arithmetic(walk: Walk, start: int, stop: int, scope: Scope) -> None:
    """`((…))`, which bash takes for groups in groups when its brackets do not match."""
    reading = walk.reading
    reading.doubt(ARITHMETIC, start, stop)
    reading.queue_within(start, stop, scope)
    inside = reading.text[start + 2 : stop - 2]
    depth = 0
    for bracket in re.findall(r"[()'\"\\]", inside):
        depth += {"(": 1, ")": -1}.get(bracket, -1000)
        if depth < 0:
            break
    if depth or not reading.text.startswith("))", stop - 2):
        reading.unclear(start, stop)
        read_pieces(reading, start, stop, scope)


def _while(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    inner = _trailing(walk, node.end_byte, scope, stop)
    _repeat(walk, node.children, msgspec.structs.replace(inner, loops=(*inner.loops, ("", ()))))


def _repeat(walk: Walk, nodes: "list[Node]", scope: Scope) -> None:
    """Walks what a loop repeats. Where it changes the directory, it may begin in any."""
    shell, findings = scope.shell, walk.reading.findings
    before, parts, waiting = shell.directories, len(findings.parts), len(findings.waiting)
    shell.loops += 1
    walk.sequence(nodes, scope)
    shell.loops -= 1
    count = len(before)
    if len(shell.directories) == count:
        return
    for at in range(parts, len(findings.parts)):
        part = findings.parts[at]
        moved = (*part.directories[:count], ANYWHERE, *part.directories[count:])
        findings.parts[at] = msgspec.structs.replace(part, directories=moved)
    for inner in (shell, *(each.shell for _, _, each in findings.waiting[waiting:])):
        inner.directories = (*before, ANYWHERE, *inner.directories[count:])


def _for(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    reading = walk.reading
    inner = _trailing(walk, node.end_byte, scope, stop)
    children = node.children
    body = children[-1]
    head = _LOOP.match(reading.text, node.start_byte)
    variable: tuple[str, tuple[Word, ...]] = ("", ())
    if head is None:
        reading.doubt(ARITHMETIC, node.start_byte, body.start_byte)
        reading.queue_within(node.start_byte, body.start_byte, scope)
    else:
        name = head.group(1)
        if not _PLAIN_NAME.fullmatch(name) or _READ_BY_PROGRAMS.fullmatch(name):
            reading.doubt("the loop sets a variable that programs may read", *head.span())
        if children[0].type == "select":
            reading.doubt("select reads what to run from its input", *head.span())
        variable = (name, _values(walk, node, head.end(), scope))
    walk.at = body.start_byte
    walk.ready = True
    _repeat(walk, [body], msgspec.structs.replace(inner, loops=(*inner.loops, variable)))


_ANYTHING = (Word("", WordKind.EXPANSION, "$@", split=True),)


def _values(walk: Walk, node: "Node", at: int, scope: Scope) -> tuple[Word, ...]:
    """The words a `for` goes through; the line must end, or a `;` stand, before `do`."""
    reading = walk.reading
    children = node.children
    body = children[-1].start_byte
    word = next((child for child in children if child.type == "in"), None)
    values = [c for i, c in enumerate(children) if node.field_name_for_child(i) == "value"]
    given = _ANYTHING
    if word is None:
        stop = at
        clear = re.compile(r"[ \t\n]*;?[ \t\n]*").fullmatch(reading.text, at, body)
    else:
        blanks = _BLANKS.match(reading.text, word.end_byte)
        start = blanks.end() if blanks and values else word.end_byte
        stop = values[-1].end_byte if values else start
        command = SimpleCommand(reading, scope)
        try:
            command.read(start, stop)
        except UnclearError:
            reading.unclear(start, stop)
            reading.queue_within(start, stop, scope)
        before = reading.text[word.end_byte : start]
        if "\n" in before or command.redirections:
            reading.unclear(start, stop)
        given = (*command.words, *map(_as_word, command.assignments))
        clear = _BLANKS.fullmatch(reading.text, at, word.start_byte) and _LIST_END.fullmatch(
            reading.text, stop, body
        )
    if not clear:
        reading.unclear(at, body)
    return given


def _as_word(assignment: Assignment) -> Word:
    value = assignment.value
    text = f"{assignment.name}={value.text}"
    return Word(text, value.kind, assignment.source, value.split)


def _case(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    reading = walk.reading
    inner = _trailing(walk, node.end_byte, scope, stop)
    children = node.children
    try:
        at = _skip(walk, children[0].end_byte)
        _, at = read_word(reading, at, scope)
        at = _skip(walk, at)
        head = reading.text[node.start_byte : children[2].end_byte + 1]
        if children[2].type != "in" or children[2].start_byte != at or _JOINED.search(head):
            raise UnclearError
    except UnclearError:
        reading.unclear(node.start_byte, children[-1].start_byte)
        reading.queue_within(node.start_byte, children[-1].start_byte, scope)
    walk.at = children[2].end_byte if len(children) > 2 else node.end_byte
    for child in children[3:]:
        if child.type == "case_item":
            walk.gap(child.start_byte)
            _item(walk, child, inner)
        else:
            walk.sequence([child], inner)


def _item(walk: Walk, item: "Node", scope: Scope) -> None:
    """`pattern | pattern) commands ;;`"""
    reading = walk.reading
    children = item.children
    close = next((i for i, child in enumerate(children) if child.type == ")"), len(children) - 1)
    stop = children[close].start_byte
    try:
        if _JOINED.search(reading.text, item.start_byte, stop):
            raise UnclearError
        at = _skip(walk, item.start_byte + (children[0].type == "("))
        while True:
            word, at = read_word(reading, at, scope)
            at = _skip(walk, at)
            if word.source == "esac":
                raise UnclearError
            if at == stop:
                break
            if reading.text[at] != "|":
                raise UnclearError
            at = _skip(walk, at + 1)
    except UnclearError:
        reading.unclear(item.start_byte, stop)
        reading.queue_within(item.start_byte, stop, scope)
    walk.at = children[close].end_byte
    walk.ready = True
    ended = children[-1].type in _TERMINATIONS
    walk.sequence(children[close + 1 : -1 if ended else None], scope)
    if ended:
        walk.gap(children[-1].start_byte)
        walk.separator(children[-1].type, children[-1].end_byte)


def _skip(walk: Walk, at: int) -> int:
    blanks = _BLANKS.match(walk.reading.text, at)
    return blanks.end() if blanks else at


def _function(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    reading = walk.reading
    # Behind the body, redirections may be children as well.
    body = node.child_by_field_name("body") or node.children[-1]
    reading.doubt("a function changes what a command means", node.start_byte, body.start_byte)
    walk.at = body.start_byte
    walk.ready = True
    inner = _trailing(walk, body.end_byte, scope, stop)
    walk.statement(body, msgspec.structs.replace(inner, deferred=True))


def _conditional(walk: Walk, node: "Node", scope: Scope, stop: int) -> None:
    inner = _trailing(walk, node.end_byte, scope, stop)
    start, end = node.start_byte, node.end_byte
    if walk.reading.text.startswith("[[", start):
        read_conditional(walk.reading, start, end, inner)
    else:
        _arithmetic(walk, start, end, scope)


COMPOUNDS: "Mapping[str, Callable[[Walk, Node, Scope, int], None]]" = {
    "redirected_statement": _walk_redirected,
    "pipeline": _pipeline,
    "list": _list,
    "negated_command": _walk_negated,
    "subshell": _group,
    "compound_statement": _group,
    "if_statement": _plain,
    "while_statement": _while,
    "for_statement": _for,
    "c_style_for_statement": _for,
    "case_statement": _case,
    "function_definition": _function,
    "test_command": _conditional,
}
"""Node type -> who reads it."""
