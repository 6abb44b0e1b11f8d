"""A command line as values: the parts bash would run, what cannot be known of them, and what a walk
over the line has found so far."""

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_MARKS = 320
MAX_PIECES = 1600


class WordKind(StrEnum):
    """The part of a word that is known before bash runs."""

    LITERAL = "literal"
    PATTERN = "pattern"  # a glob, a brace list or a tilde: one or more file names or texts
    EXPANSION = "expansion"  # a variable, a substitution, arithmetic: any text


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word, its quotes removed. Of one that is not LITERAL, `text` is its certain beginning,
    before the first character that bash replaces; `source` is the word as written.
    `split` is false when the word surely stays one word (every expansion is in double quotes).
    """

    text: str
    kind: WordKind = WordKind.LITERAL
    source: str = ""
    split: bool = False

    @property
    def literal(self) -> bool:
        """Is `text` the whole word, whatever happens?"""
        return self.kind is WordKind.LITERAL


class Effect(StrEnum):
    """The effect of a redirection on files."""

    NONE = "none"  # 2>&1, >/dev/null, a here document
    READ = "read"
    WRITE = "write"  # also what cannot be known


class Redirection(msgspec.Struct, frozen=True, gc=False):
    """`2>file`: `operator` without its descriptor, the target when it has one, `source` as written.
    `body` is the text of a here document or here string."""

    operator: str
    effect: Effect
    source: str
    target: Word | None = None
    body: str | None = None


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """`NAME=value` before a command or alone."""

    name: str
    value: Word
    source: str


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One simple command, or what counts as one (a bare assignment, a bare redirection).

    `text` is as written. `words` is empty when nothing but assignments and redirections is there.
    `redirections` include those of every compound command around it. `directories` are the targets
    of each `cd` that ran, or may have run, before it in the same shell, in order; a `cd` without an
    operand is the word `~`. `loops` are the variables of the loops around it with the words that
    they go through, the innermost last; a `while` has none and an empty name. `stdin_piped`: it
    reads what another command writes. `nested`: it is inside a substitution. `deferred`: it is
    inside a function, and runs where that is called. `piped_words`: of a console that reads from
    a pipe, the words of all other commands of the line, and what they are fed.
    """

    text: str
    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    directories: tuple[Word, ...] = ()
    loops: tuple[tuple[str, tuple[Word, ...]], ...] = ()
    stdin_piped: bool = False
    nested: bool = False
    deferred: bool = False
    piped_words: tuple[Word, ...] = ()

    @property
    def shown_input(self) -> tuple[Word, ...]:
        """The texts of its here documents and here strings."""
        return tuple(
            each.target or Word(each.body or "")
            for each in self.redirections
            if each.operator.startswith("<<")
        )


class Doubt(msgspec.Struct, frozen=True, gc=False):
    """The reason why no rule that looks at the command may allow it: one clause in words, such as
    "arithmetic can run code hidden in data", and the text it is about."""

    reason: str
    text: str

    @property
    def clause(self) -> str:
        """The reason, with the text that it is about."""
        return f"{self.reason} ({self.text})" if self.text else self.reason


class Analysis(msgspec.Struct, frozen=True, gc=False):
    """All that a command line may run. Not `complete`: something may run that no part shows (it
    does not parse, or is over a limit)."""

    parts: tuple[Part, ...]
    doubts: tuple[Doubt, ...] = ()
    complete: bool = True


class HereDocument(msgspec.Struct, frozen=True):
    """`<<WORD` and its body; `start` and `stop` are offsets of the body, its last line excluded."""

    delimiter: str
    quoted: bool
    strips_tabs: bool
    operator_stop: int
    start: int
    stop: int


class Source(msgspec.Struct, frozen=True):
    """`raw` holds one character per UTF-8 byte, so offsets are those of the parser. `text` is the
    same with here documents blanked out (and, in long commands, what is between quotes): it is
    what is parsed and scanned. Not `certain`: bash may see the quotes or documents otherwise.
    """

    raw: str
    text: str
    ascii: bool
    documents: dict[int, HereDocument] = {}
    certain: bool = True

    def decode(self, text: str) -> str:
        """Characters as people write them, of a slice of `raw`."""
        if self.ascii:
            return text
        return text.encode("latin-1").decode("utf-8", "replace")

    def written(self, start: int, stop: int) -> str:
        """The command as written between two offsets."""
        return self.decode(self.raw[start:stop])


def plain_source(command: str, data: bytes) -> Source:
    """The command as it is; `data` is its UTF-8 form."""
    if command.isascii():
        return Source(command, command, ascii=True)
    raw = data.decode("latin-1")
    return Source(raw, raw, ascii=False)


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
    """The surroundings of a command. `loops` are the variables of the loops around it with the
    words that they go through, the innermost last."""

    shell: Shell
    redirections: tuple[Redirection, ...] = ()
    piped: bool = False
    nested: bool = False
    backtick: bool = False
    depth: int = 0
    loops: tuple[tuple[str, tuple[Word, ...]], ...] = ()
    deferred: bool = False

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
            self.deferred,
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
        self.marks = MAX_MARKS  # what the parser may still be given, of all texts together
        self.pieces = MAX_PIECES
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
