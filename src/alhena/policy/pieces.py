"""What might a shell command run? Every piece that bash could take for a command.

Deny rules need the opposite of `shell`: nothing may be missed. So this reader never refuses: it
splits at every operator, looks into quotes and substitutions, and says `unsure` where it could
have lost the thread (an open quote, a heredoc, a `case` pattern).
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import re

MAX_PIECES = 256
MAX_DEPTH = 64
MAX_STEPS = 12_000
_CASE = 4  # `case` is looked for among the first words: `then if ! case x in`
_BACKTICK = "`"


class Word(msgspec.Struct, frozen=True):
    """A word without its quotes. When it is dynamic, `text` is what stands before the first
    expansion."""

    text: str
    dynamic: bool = False


class Piece(msgspec.Struct, frozen=True):
    """One command as written (`text`), its words, and the targets of its redirections."""

    text: str
    words: tuple[Word, ...]
    targets: tuple[Word, ...] = ()


class Pieces(msgspec.Struct, frozen=True):
    """All that a command might run; `unsure` when something may be missing."""

    pieces: tuple[Piece, ...]
    unsure: bool


def split_pieces(command: str) -> Pieces:
    """The pieces of `command`, in time that grows with its length and has a limit."""
    reader = _Reader(command)
    reader.read()
    return Pieces(tuple(reader.pieces), reader.unsure)


class _List:
    """A list of commands being read: the whole text, or the inside of a substitution."""

    __slots__ = ("closer", "in_word", "letters", "pending", "start", "stop", "targets", "words")

    def __init__(self, closer: str, start: int) -> None:
        self.closer = closer
        self.words: list[Word] = []
        self.targets: list[Word] = []
        self.pending = False
        self.start = start
        self.fresh()

    def fresh(self) -> None:
        self.letters: list[str] = []
        self.in_word = False
        self.stop: int | None = None

    def add(self, text: str) -> None:
        self.in_word = True
        if self.stop is None:
            self.letters.append(text)

    def expand(self) -> None:
        self.in_word = True
        if self.stop is None:
            self.stop = len(self.letters)

    def end_word(self) -> None:
        if self.in_word:
            word = Word("".join(self.letters), self.stop is not None)
            (self.targets if self.pending else self.words).append(word)
            self.pending = False
        self.fresh()


class _Reader:
    """Reads left to right with an explicit stack: nesting costs no recursion.

    The stack holds lists, and the closing characters of the double quotes (`"`) and parameter
    expansions (`}`) open inside them.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.top = _List("", 0)
        self.stack: list[_List | str] = [self.top]
        self.pieces: list[Piece] = []
        self.open_backticks = 0
        self.unsure = "\0" in text

    def read(self) -> None:
        text = self.text
        steps = 0
        while self.at < len(text) and len(self.stack) <= MAX_DEPTH and steps < MAX_STEPS:
            if len(self.pieces) >= MAX_PIECES:
                break
            steps += 1
            inside = self.stack[-1]
            if inside == '"':
                self._double()
            elif inside == "}":
                self._brace()
            else:
                self._bare()
        if self.at < len(text) or len(self.stack) > 1:
            self.unsure = True
        while self.stack:
            inside = self.stack.pop()
            if isinstance(inside, _List):
                self._end_piece(inside)

    @property
    def _list(self) -> _List:
        for inside in reversed(self.stack):
            if isinstance(inside, _List):
                return inside
        return self.top

    def _end_piece(self, inside: _List) -> None:
        inside.end_word()
        if inside.words or inside.targets:
            raw = self.text[inside.start : self.at].strip()
            self.pieces.append(Piece(raw, tuple(inside.words), tuple(inside.targets)))
            # A pattern of `case` ends in a bracket, which is taken for the end of a list here.
            self.unsure = self.unsure or Word("case") in inside.words[:_CASE]
        inside.words, inside.targets, inside.pending = [], [], False
        inside.start = self.at + 1

    def _open(self, closer: str, width: int) -> None:
        self._list.expand()
        self.at += width
        self.stack.append(_List(closer, self.at))

    def _close_backtick(self) -> None:
        while True:
            inside = self.stack.pop()
            if isinstance(inside, _List):
                self._end_piece(inside)
                if inside.closer == _BACKTICK:
                    self.open_backticks -= 1
                    break
            else:
                self.unsure = True
        self.at += 1

    def _backtick(self) -> None:
        if self.open_backticks:
            self._close_backtick()
        else:
            self.open_backticks += 1
            self._open(_BACKTICK, 1)

    def _dollar(self) -> None:
        """An expansion; in a list also `$'…'` and `$"…"`."""
        after = self.text[self.at + 1 : self.at + 2]
        if after == "(":
            self._open(")", 2)
        elif after == "{":
            self._list.expand()
            self.stack.append("}")
            self.at += 2
        elif after == "'" and isinstance(self.stack[-1], _List):
            self._ansi_c()
        elif after == '"' and isinstance(self.stack[-1], _List):
            self.at += 1
        elif after == "[":
            self._list.expand()
            self.unsure = True
            self.at += 2
        elif after.isalnum() or (after and after in "_@*#?-$!"):
            self._list.expand()
            self.at += 2
        else:
            self._list.add("$")
            self.at += 1

    def _ansi_c(self) -> None:
        self._list.add("")
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            if self.text[end] == "\\":
                self._list.expand()
                end += 1
            end += 1
        self._list.add(self.text[self.at + 2 : end])
        self.unsure = self.unsure or end >= len(self.text)
        self.at = end + 1

    def _double(self) -> None:
        mark = self.text[self.at]
        if mark == '"':
            self.stack.pop()
            self.at += 1
        elif mark == "$":
            self._dollar()
        elif mark == _BACKTICK:
            self._backtick()
        elif mark == "\\":
            self._backslash(special='$`"\\\n')
        else:
            self._run(_in_double())

    def _brace(self) -> None:
        mark = self.text[self.at]
        if mark == "$":
            self._dollar()
        elif mark == _BACKTICK:
            self._backtick()
        elif mark == '"':
            self.stack.append('"')
            self.at += 1
        elif mark == "}":
            self.stack.pop()
            self.at += 1
        else:
            # A single quote may or may not quote here, depending on what is around.
            self.unsure = self.unsure or mark == "'"
            self.at += 2 if mark == "\\" else 1

    def _backslash(self, special: str | None) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if self.open_backticks:
            self.unsure = True
        if special is None or (following and following in special):
            if following != "\n":
                self._list.add(following or "\\")
            self.at += 2
        else:
            self._list.add("\\")
            self.at += 1

    def _run(self, pattern: "re.Pattern[str]") -> None:
        found = pattern.match(self.text, self.at)
        taken = found.group() if found else self.text[self.at]
        self._list.add(taken)
        self.at += len(taken)

    def _bare(self) -> None:
        mark = self.text[self.at]
        inside = self._list
        if mark in " \t":
            inside.end_word()
            self.at += 1
        elif mark == "'":
            self._single()
        elif mark == '"':
            inside.add("")
            self.stack.append('"')
            self.at += 1
        elif mark == "\\":
            self._backslash(special=None)
        elif mark == "$":
            self._dollar()
        elif mark == _BACKTICK:
            self._backtick()
        elif mark in "<>":
            self._redirection()
        elif mark in ";|&()\n":
            self._operator(mark)
        else:
            self._plain(mark)

    def _plain(self, mark: str) -> None:
        inside = self._list
        if mark == "#" and not inside.in_word:
            end = self.text.find("\n", self.at)
            self.unsure = self.unsure or self.open_backticks > 0
            self.at = len(self.text) if end < 0 else end
        elif mark in "*?[{":
            following = self.text[self.at + 1 : self.at + 2]
            # `[`, `[[`, `{` and `{}` are words of their own.
            bracket = following in {"", " ", "\t", "["} or inside.letters == ["["]
            brace = following in {"", " ", "\t", "\n", "}"}
            if (mark == "[" and bracket) or (mark == "{" and brace):
                inside.add(mark)
            else:
                inside.expand()
            self.at += 1
        else:
            self._run(_in_bare())

    def _single(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.unsure = True
            end = len(self.text)
        self._list.add(self.text[self.at + 1 : end])
        self.at = end + 1

    def _operator(self, mark: str) -> None:
        inside = self._list
        if mark == "&" and self.text[self.at + 1 : self.at + 2] == ">":
            inside.end_word()
            self.at += 1
        elif mark == "(":
            self._end_piece(inside)
            self.at += 1
            self.stack.append(_List(")", self.at))
        elif mark == ")" and inside.closer == ")":
            self._end_piece(inside)
            self.stack.pop()
            self.at += 1
            outer = self._list
            if not outer.words and not outer.in_word:
                outer.start = self.at
        else:
            self.unsure = self.unsure or mark == ")"
            self._end_piece(inside)
            self.at += 1

    def _redirection(self) -> None:
        inside = self._list
        if self.text[self.at + 1 : self.at + 2] == "(":
            self._open(")", 2)
            return
        if "".join(inside.letters).isdigit() and inside.stop is None:
            inside.fresh()
        inside.end_word()
        found = _redirections().match(self.text, self.at)
        operator = found.group() if found else self.text[self.at]
        self.unsure = self.unsure or (operator.startswith("<<") and operator != "<<<")
        inside.pending = True
        self.at += len(operator)


@lru_cache(maxsize=1)
def _in_double() -> "re.Pattern[str]":
    import re

    return re.compile(r'[^"$`\\]+')


@lru_cache(maxsize=1)
def _in_bare() -> "re.Pattern[str]":
    import re

    return re.compile(r"[^ \t\n'\"\\$`<>;|&()*?\[{#]+")


@lru_cache(maxsize=1)
def _redirections() -> "re.Pattern[str]":
    import re

    return re.compile(r"<<<|<<-?|[<>]+[&|]?")
