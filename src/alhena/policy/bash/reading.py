"""One walk over a command: its bytes, its limits, and what has been found so far."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.bash.model import Doubt, Part, Redirection, Word

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MAX_BYTES = 64 * 1024
MAX_MARKS = 320
MAX_PIECES = 1600
MAX_STEPS = 250
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

_RESERVED = re.compile(
    rb"\b(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|in|function|select|time|coproc"
    rb"|declare|typeset|export|readonly|local|unset|unsetenv)"
)


class Budget:
    """The parser's budget for one command, over all the texts parsed for it."""

    __slots__ = ("marks", "pieces")

    def __init__(self) -> None:
        self.marks = MAX_MARKS
        self.pieces = MAX_PIECES


class TooMuchError(Exception):
    """The text is over a limit, which the message names."""


def exceeds(data: bytes) -> bool:
    """Does the text hold more operators or words than the parser is given?"""
    if len(data) <= _SHORT:
        return False
    marks, pieces = _counted(data)
    return marks > MAX_MARKS or pieces > MAX_PIECES


def parse(data: bytes, budget: Budget) -> "Node":
    """The syntax tree of a text; raises TooMuchError."""
    from tree_sitter import Parser

    parser = Parser(_language())
    if len(data) <= _SHORT:
        return parser.parse(data).root_node
    marks, pieces = _counted(data)
    budget.marks -= marks
    budget.pieces -= pieces
    if budget.marks < 0:
        raise TooMuchError(f"it has more than {MAX_MARKS} operators, quotes and reserved words")
    if budget.pieces < 0:
        raise TooMuchError(f"it has more than {MAX_PIECES} words")
    steps = _Steps()
    try:
        tree = parser.parse(
            lambda offset, _point: data[offset : offset + _CHUNK], progress_callback=steps.spent
        )
    except ValueError as error:
        raise TooMuchError("it takes too long to parse") from error
    return tree.root_node


def _counted(data: bytes) -> tuple[int, int]:
    marks = len(data.translate(None, _INERT)) + len(_RESERVED.findall(data))
    return marks, marks + len(data.split())


class _Steps:
    """Counts what the parser does, by hundreds of operations; none of it is a clock."""

    def __init__(self) -> None:
        self.left = MAX_STEPS

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
