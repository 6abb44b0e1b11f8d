"""What one walk over a command has found, and where it is."""

from typing import TYPE_CHECKING

import msgspec

from alhena.policy.bash.bounds import Budget
from alhena.policy.bash.model import Doubt, Part, Redirection, Word
from alhena.policy.bash.source import Source

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DOUBTS = 64
MAX_DEPTH = 100
_SHOWN = 200

UNCLEAR = "bash may read it in another way"


class UnclearError(Exception):
    """The text at hand cannot be read with certainty."""


class Shell:
    """One shell environment: where it may have gone, and how many loops it is in."""

    __slots__ = ("directories", "loops")

    def __init__(self, directories: tuple[Word, ...] = ()) -> None:
        self.directories = directories
        self.loops = 0


class Scope(msgspec.Struct, frozen=True):
    """What surrounds a command. `loops` are the variables of the loops around it with the words
    that they go through, the innermost last."""

    shell: Shell
    redirections: tuple[Redirection, ...] = ()
    piped: bool = False
    nested: bool = False
    backtick: bool = False
    depth: int = 0
    loops: tuple[tuple[str, tuple[Word, ...]], ...] = ()

    def inside(
        self,
        *,
        piped: bool = False,
        nested: bool = False,
        backtick: bool = False,
        redirections: tuple[Redirection, ...] = (),
        shell: Shell | None = None,
    ) -> "Scope":
        """The scope one level further in; what holds here holds there."""
        return Scope(
            shell or self.shell,
            self.redirections + redirections,
            self.piped or piped,
            self.nested or nested,
            self.backtick or backtick,
            self.depth + 1,
            self.loops,
        )

    def subshell(self, *, piped: bool = False) -> "Scope":
        """The scope of a process of its own, which starts where this one is."""
        return self.inside(piped=piped, shell=Shell(self.shell.directories))

    def captured(self) -> "Scope":
        """The scope of a substitution: a process of its own whose output becomes text."""
        return self.inside(nested=True, shell=Shell(self.shell.directories))


class Findings:
    """The parts and doubts collected so far."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.doubts: dict[tuple[str, str], Doubt] = {}
        self.complete = True
        self.budget = Budget()
        self.waiting: list[tuple[Reading, Node, Scope]] = []

    def doubt(self, reason: str, text: str) -> None:
        """Keep a reason not to allow; of many, the first."""
        if len(self.doubts) < MAX_DOUBTS:
            text = text[:_SHOWN]
            self.doubts[reason, text] = Doubt(reason, text)

    def lost(self, reason: str, text: str) -> None:
        """Something may run that no part shows."""
        self.complete = False
        self.doubt(reason, text)


class Reading:
    """One parsed text: the source, and its substitutions by offset. `expansions` is how many
    `${…}` the word at hand is inside of."""

    def __init__(self, source: Source, root: "Node | None", findings: Findings) -> None:
        self.source = source
        self.text = source.text
        self.root = root
        self.findings = findings
        self.expansions = 0
        self._queued: set[int] = set()
        self._nested: dict[int, Node] | None = None

    def doubt(self, reason: str, start: int, stop: int) -> None:
        """A reason not to allow, about a stretch of the text."""
        self.findings.doubt(reason, self.source.written(start, min(stop, start + 1000)))

    def unclear(self, start: int, stop: int) -> None:
        """Bash might read this stretch otherwise."""
        self.findings.lost(UNCLEAR, self.source.written(start, min(stop, start + 1000)))

    @property
    def nested(self) -> "dict[int, Node]":
        """Substitutions, expansions and arrays by where they start."""
        if self._nested is None:
            self._nested = {} if self.root is None else _nested_nodes(self.root, self.text)
        return self._nested

    def nested_at(self, position: int, *kinds: str) -> "Node":
        """The node of one of these kinds that starts there; raises UnclearError."""
        node = self.nested.get(position)
        if node is None or node.type not in kinds:
            raise UnclearError
        return node

    def queue(self, node: "Node", scope: Scope) -> None:
        """Read the commands in a substitution later."""
        if node.start_byte not in self._queued:
            self._queued.add(node.start_byte)
            self.findings.waiting.append((self, node, scope.captured()))

    def queue_within(self, start: int, stop: int, scope: Scope) -> None:
        """Read every substitution in a stretch that could not be read itself."""
        raw = self.source.raw[start:stop]
        if "'" in raw and ("$(" in raw or "`" in raw):
            # To the grammar that is text, but arithmetic and subscripts know no single quotes.
            self.unclear(start, stop)
        for position, node in self.nested.items():
            if start <= position < stop and node.type in SUBSTITUTIONS:
                self.queue(node, scope)


SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_NESTED = SUBSTITUTIONS | {"expansion", "arithmetic_expansion", "array"}


def _nested_nodes(root: "Node", text: str) -> "dict[int, Node]":
    found: dict[int, Node] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _NESTED:
            start, stop = node.byte_range
            # Between double quotes the parser counts blanks before it as part of it.
            start = stop - len(text[start:stop].lstrip(" \t\n"))
            found.setdefault(start, node)
        if node.child_count:
            stack.extend(node.children)
    return found
