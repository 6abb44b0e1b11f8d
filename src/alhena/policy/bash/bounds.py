"""How much of a command is read: limits that hold before, in and after the parser."""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

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
    """What is left for one command, over all the texts parsed for it."""

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
