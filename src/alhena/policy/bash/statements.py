"""The walk over the syntax tree: which commands run, in which shell, and is that surely so.

The tree says where commands, reserved words and operators stand. Nothing but blanks may stand
between them, and bash must take each for what the tree takes it: a command only where one may
start, a reserved word only where bash looks for one.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from alhena.policy.bash.reading import MAX_DEPTH, Reading, Scope
from alhena.policy.bash.simple import read_pieces, read_simple

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
