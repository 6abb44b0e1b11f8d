"""What the scripts of sed and awk do beside printing."""

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re


MAX_SCRIPTS = 16 * 1024
"""Characters of a command line with scripts of sed and awk that are read for what they do."""
_MAX_AWK = 8 * 1024


class ScriptEffect(StrEnum):
    """The worst a script does. UNKNOWN: it cannot be read with certainty."""

    NONE = "none"
    WRITES = "writes"
    RUNS = "runs"
    UNKNOWN = "unknown"


_SEVERITY = (ScriptEffect.NONE, ScriptEffect.WRITES, ScriptEffect.UNKNOWN, ScriptEffect.RUNS)


def worse(one: ScriptEffect, other: ScriptEffect) -> ScriptEffect:
    """The more harmful of two effects."""
    return max(one, other, key=_SEVERITY.index)


def script_length(words: Iterable[str]) -> int:
    """The number of characters that stand in the words of a command given a script, else 0:
    reading scripts takes far longer than reading words."""
    import re

    text = " ".join(words)
    return len(text) if re.search(r"\b(?:\w*awk|g?sed)\b", text) else 0


def sed_effect(script: str) -> ScriptEffect:
    """What a sed script does: `w` and `W` write, `e` runs; also as flags of `s`."""
    return _Sed(script).read()


class _Sed:
    def __init__(self, script: str) -> None:
        self.text = script
        self.at = 0
        self.effect = ScriptEffect.NONE

    def read(self) -> ScriptEffect:
        try:
            while self._plain():
                self._address()
                self._command(self._take())
        except IndexError:
            self.effect = worse(self.effect, ScriptEffect.UNKNOWN)
        return self.effect

    def _plain(self) -> bool:
        """Skip commands without an address that only print or move text: of these a script can
        have very many."""
        found = _plain_commands().match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def _blanks(self, marks: str) -> bool:
        while self.at < len(self.text) and self.text[self.at] in marks:
            self.at += 1
        return self.at < len(self.text)

    def _take(self) -> str:
        mark = self.text[self.at]
        self.at += 1
        return mark

    def _address(self) -> None:
        """Skip `1,/re/I!`; raises IndexError where the script ends inside."""
        while True:
            self._blanks(" \t")
            mark = self.text[self.at]
            if mark in "/\\":
                self.at += 1 + (mark == "\\")
                self._delimited(self.text[self.at - 1])
                while self.text[self.at] in "IM":
                    self.at += 1
            elif mark in "0123456789$,+~!":
                self.at += 1
            else:
                return

    def _delimited(self, mark: str, *, regex: bool = True) -> None:
        """Skip past the next `mark` that neither a backslash nor a bracket protects."""
        while (letter := self._take()) != mark:
            if letter == "\\":
                self.at += 1
            elif letter == "[" and regex:
                self._bracket()

    def _bracket(self) -> None:
        self.at += self.text[self.at] == "^"
        self.at += self.text[self.at] == "]"
        while (letter := self._take()) != "]":
            if letter == "[" and self.text[self.at] in ":.=":
                self.at = self.text.find(self.text[self.at] + "]", self.at + 1) + 2
                if self.at < 2:
                    raise IndexError

    def _command(self, letter: str) -> None:
        if letter == "#":
            self._line()
        elif letter in "aic":
            # One line of text, and more behind a backslash; an unread rest only adds commands.
            self._line()
        elif letter in "wW":
            self.effect = worse(self.effect, ScriptEffect.WRITES)
            self._line()
        elif letter == "e":
            self.effect = worse(self.effect, ScriptEffect.RUNS)
            self._line()
        elif letter in "rRbtTv:":
            self._label()
        elif letter == "s":
            mark = self._take()
            self._delimited(mark)
            self._delimited(mark, regex=False)
            self._flags()
        elif letter == "y":
            mark = self._take()
            self._delimited(mark, regex=False)
            self._delimited(mark, regex=False)
        elif letter in "{=dDgGhHnNpPqQxlLzF":
            self._blanks("0123456789 \t")
        else:
            self.effect = worse(self.effect, ScriptEffect.UNKNOWN)

    def _flags(self) -> None:
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;}#":
            flag = self._take()
            if flag == "w":
                self.effect = worse(self.effect, ScriptEffect.WRITES)
                self._line()
            elif flag in "em":
                # `m` only changes what matches; `e` runs what the line became.
                effect = ScriptEffect.RUNS if flag == "e" else ScriptEffect.NONE
                self.effect = worse(self.effect, effect)
            elif flag not in "gpiIM0123456789":
                self.effect = worse(self.effect, ScriptEffect.UNKNOWN)

    def _line(self) -> None:
        """To the end of the line, or of the text when a backslash carries it on."""
        end = self.text.find("\n", self.at)
        while end > 0 and self.text[end - 1] == "\\":
            end = self.text.find("\n", end + 1)
        self.at = len(self.text) if end < 0 else end

    def _label(self) -> None:
        """A file name or a label: some versions end it at a semicolon, so what follows one is
        read as commands, too."""
        while self.at < len(self.text) and self.text[self.at] not in "\n;":
            self.at += 1


@lru_cache(maxsize=1)
def _plain_commands() -> "re.Pattern[str]":
    import re

    return re.compile(r"(?:[ \t\n;}]|[{=dDgGhHnNpPqQxlLzF][0-9 \t]*+)*+")


def awk_effect(program: str) -> ScriptEffect:
    """What an awk program does: `system`, pipes and extensions run, `print >` writes."""
    import re

    if re.search(r"\bsystem\b|@\s*[A-Za-z_]|\bextension\b", program):
        return ScriptEffect.RUNS
    if "|" not in program and ">" not in program:
        return ScriptEffect.NONE
    return ScriptEffect.UNKNOWN if len(program) > _MAX_AWK else _Awk(program).read()


_AWK_TOKENS = (
    r'(?P<space>[ \t\r]+|\\\n|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>[0-9.]+)"
    r"|(?P<operator>\|\||&&|>=|==|<=|!=|\+\+|--|>>|\|&|.|\n)"
)
_BEFORE_REGEX = frozenset({"print", "printf", "return", "do", "else", "case"})
_EITHER = frozenset({")", "++", "--", "getline", "exit", "in", "delete"})


class _Awk:
    def __init__(self, program: str) -> None:
        import re

        self.text = program
        self.tokens = re.compile(_AWK_TOKENS, re.DOTALL)
        self.effect = ScriptEffect.NONE
        self.before = "\n"
        self.printing: int | None = None
        self.depth = 0

    def read(self) -> ScriptEffect:
        at = 0
        while at < len(self.text) and self.effect in {ScriptEffect.NONE, ScriptEffect.WRITES}:
            if self.text[at] == "/" and self._regex_stands():
                at = self._past_regex(at + 1)
                self.before = "0"
                continue
            found = self.tokens.match(self.text, at)
            if found is None:
                return ScriptEffect.UNKNOWN
            at = found.end()
            if found.lastgroup != "space":
                self._piece(found.group(), found.lastgroup or "")
        return self.effect

    def _regex_stands(self) -> bool:
        """Does a slash begin a regular expression here, rather than divide?"""
        before = self.before
        if before in _EITHER:
            self.effect = worse(self.effect, ScriptEffect.UNKNOWN)
        operand = before[-1] == "]" or before[-1] == "_" or before[-1].isalnum()
        return before in _BEFORE_REGEX or not operand

    def _past_regex(self, at: int) -> int:
        bracket = False
        while at < len(self.text) and self.text[at] != "\n":
            letter = self.text[at]
            if letter == "/":
                if bracket:
                    self.effect = worse(self.effect, ScriptEffect.UNKNOWN)
                return at + 1
            bracket = bracket or letter == "["
            bracket = bracket and letter != "]"
            at += 1 + (letter == "\\")
        self.effect = worse(self.effect, ScriptEffect.UNKNOWN)
        return at

    def _piece(self, piece: str, kind: str) -> None:
        self.before = "0" if kind in {"string", "number"} else piece
        if kind != "operator":
            if piece in {"print", "printf"}:
                self.printing = self.depth
            return
        if piece == '"':
            self.effect = worse(self.effect, ScriptEffect.UNKNOWN)
        elif piece in {"|", "|&"}:
            self.effect = worse(self.effect, ScriptEffect.RUNS)
        elif piece in {"(", "["}:
            self.depth += 1
        elif piece in {")", "]"}:
            self.depth -= 1
        elif piece in {";", "\n", "}", "{"}:
            self.printing = None
        elif piece in {">", ">>"} and self.printing is not None and self.depth <= self.printing:
            self.effect = worse(self.effect, ScriptEffect.WRITES)
