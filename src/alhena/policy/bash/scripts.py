"""Scripts of sed and awk: their effects, and the first piece not known to only print.

Versions differ on where some texts end (slashes within brackets, labels, the text of `a`), and on
whether a slash divides. Such a piece is not known to only print.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.programs import listed

if TYPE_CHECKING:
    import re


MAX_SCRIPTS = 16 * 1024
"""Characters of a command line with scripts of sed and awk that are read for what they do."""


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
    """The effect of a sed script: `w` and `W` write, `e` runs; also as flags of `s`."""
    return _Sed(script).read().effect


def strange_sed(script: str) -> str | None:
    """The rest of a sed script from the first command on that is not known to only print."""
    return _Sed(script).read().strange


_DELIMITERS = frozenset("/|#,@:!%+~=_;")
_END = r"[ \t]*(?:[;\n}#]|\Z)"
_LABEL = rf"[A-Za-z0-9_.]*{_END}"
_LINE_OF_TEXT = r"[ \t]*[^\\\n{};\s][^\\\n]*+(?=\n|\Z)"
_BRACKET = r"\[\^?\]?(?:\[[:.=][a-z]*[:.=]\]|\\[^\]\n]|\[(?![:.=])|[^\[\]\\\n])*+\]"
_PLAIN_COMMANDS = r"(?:[ \t\n;{}]|[=dDgGhHnNpPqQxlLzF][0-9 \t]*+(?=[;\n}#]|\Z))*+"


class _Sed:
    def __init__(self, script: str) -> None:
        self.text = script
        self.at = self.start = 0
        self.effect = ScriptEffect.NONE
        self.strange: str | None = None

    def read(self) -> "_Sed":
        try:
            while self._plain():
                self.start = self.at
                self._address()
                letter = self._take()
                self._command(letter)
                if letter != "{":
                    self._alike(_END, self.at)
        except IndexError:
            self._has(ScriptEffect.UNKNOWN)
        return self

    def _has(self, effect: ScriptEffect) -> None:
        """The command at hand has this effect, or none and is not read alike everywhere."""
        self.effect = worse(self.effect, effect)
        if self.strange is None:
            self.strange = self.text[self.start : self.start + 40]

    def _alike(self, pattern: str, at: int) -> None:
        """The command at hand is only read alike everywhere if the pattern matches there."""
        if _compiled(pattern).match(self.text, at) is None:
            self._has(ScriptEffect.NONE)

    def _plain(self) -> bool:
        """Skip commands without an address that only print or move text: of these a script can
        have very many."""
        found = _compiled(_PLAIN_COMMANDS).match(self.text, self.at)
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
        if mark not in _DELIMITERS:
            self._has(ScriptEffect.NONE)
        while (letter := self._take()) != mark:
            if letter == "\n" or (letter == "\\" and self._take() == "\n"):
                self._has(ScriptEffect.NONE)
            elif letter == "[" and regex:
                start = self.at
                self._bracket()
                self._alike(_BRACKET, start - 1)
                if mark in self.text[start : self.at]:
                    self._has(ScriptEffect.NONE)

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
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif letter in "aic":
            # One line of text, and more behind a backslash; an unread rest only adds commands.
            self._alike(_LINE_OF_TEXT, self.at)
            self._line()
        elif letter in "wW":
            self._has(ScriptEffect.WRITES)
            self._line()
        elif letter == "e":
            self._has(ScriptEffect.RUNS)
            self._line()
        elif letter in "btT:":
            self._blanks(" \t")
            self._alike(_LABEL, self.at)
            self._label()
        elif letter in "rRv":
            self._has(ScriptEffect.NONE)
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
            self._has(ScriptEffect.UNKNOWN)

    def _flags(self) -> None:
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;}#":
            flag = self._take()
            if flag == "w":
                self._has(ScriptEffect.WRITES)
                self._line()
            elif flag == "e":
                self._has(ScriptEffect.RUNS)
            elif flag not in "gpiImM0123456789":
                self._has(ScriptEffect.UNKNOWN)

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


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> "re.Pattern[str]":
    import re

    return re.compile(pattern)


_MAX_AWK = 8 * 1024
_AWK_TOKENS = (
    r'(?P<space>[ \t]+)|(?P<other>\r|\\\n|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>[0-9.]+)"
    r"|(?P<operator>\|\||&&|>=|==|<=|!=|\+\+|--|>>|\|&|.|\n)"
)
_AWK_REGEX = (
    r"/(?:[^/\\\n\[]|\\[^\n]"
    r"|\[\^?(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])*+\])*+/"
)
_BEFORE_REGEX = frozenset({"print", "printf", "return", "do", "else", "case"})
_EITHER = frozenset({")", "++", "--", "getline", "exit", "in", "delete"})


class _Token(msgspec.Struct, frozen=True, gc=False):
    """A piece of an awk program. Not `sure`: an awk may take a slash in it otherwise."""

    kind: str
    text: str
    at: int
    sure: bool = True


def _awk_tokens(program: str) -> Iterator[_Token]:
    """The pieces of an awk program; kinds are string, word, number, operator, regex, and other for
    comments and joined lines. An unread rest is an operator that is not sure."""
    import re

    pattern = re.compile(_AWK_TOKENS, re.DOTALL)
    at, before = 0, "\n"
    while at < len(program):
        if program[at] == "/" and (before in _BEFORE_REGEX or not _is_operand(before)):
            end, sure = _regex_end(program, at + 1)
            yield _Token("regex", program[at:end], at, sure and before not in _EITHER)
            at, before = end, "0"
            continue
        found = pattern.match(program, at)
        if found is None:
            yield _Token("operator", program[at:], at, sure=False)
            return
        kind, text = found.lastgroup or "", found.group()
        if kind != "space":
            sure = text != '"' and (text != "/" or before not in _EITHER)
            yield _Token(kind, text, at, sure)
        if kind not in {"space", "other"}:
            before = "0" if kind in {"string", "number"} else text
        at = found.end()


def _is_operand(text: str) -> bool:
    return text[-1] == "]" or text[-1] == "_" or text[-1].isalnum()


def _regex_end(text: str, at: int) -> tuple[int, bool]:
    """The end of a regular expression, and whether all awks end it there."""
    bracket = False
    while at < len(text) and text[at] != "\n":
        letter = text[at]
        if letter == "/":
            return at + 1, not bracket
        bracket = (bracket or letter == "[") and letter != "]"
        at += 1 + (letter == "\\")
    return at, False


def awk_effect(program: str) -> ScriptEffect:
    """The effect of an awk program: `system`, pipes and extensions run, `print >` writes."""
    import re

    if re.search(r"\bsystem\b|@\s*[A-Za-z_]|\bextension\b", program):
        return ScriptEffect.RUNS
    if "|" not in program and ">" not in program:
        return ScriptEffect.NONE
    if len(program) > _MAX_AWK:
        return ScriptEffect.UNKNOWN
    effect, depth = ScriptEffect.NONE, 0
    printing: int | None = None
    for token in _awk_tokens(program):
        if not token.sure:
            return ScriptEffect.UNKNOWN
        match token.text if token.kind in {"operator", "word"} else "":
            case "print" | "printf":
                printing = depth
            case "|" | "|&":
                return ScriptEffect.RUNS
            case "(" | "[":
                depth += 1
            case ")" | "]":
                depth -= 1
            case ";" | "\n" | "}" | "{":
                printing = None
            case ">" | ">>" if printing is not None and depth <= printing:
                effect = ScriptEffect.WRITES
            case _:
                pass
    return effect


_MARKS = r"\|\||&&|[<>=!]=|\+\+|--|[-+*/%!~<>=?:,;(){}\[\]$\n]"


def known_variable(name: str) -> bool:
    """May an awk program that only prints use this variable?"""
    single = len(name) == 1 and "a" <= name <= "z"
    return single or name in listed("awk_variables")


def strange_awk(program: str) -> str | None:
    """The first piece of an awk program that is not known to only print."""
    if len(program) > _MAX_AWK:
        return program[:40]
    tokens = list(_awk_tokens(program))
    parens = braces = 0
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else _Token("operator", "\n", 0)
        if not _prints(token, before, [each.text for each in tokens[at + 1 : at + 4]]):
            return token.text if token.kind == "word" else program[token.at : token.at + 40]
        if token.kind == "operator":
            parens += (token.text == "(") - (token.text == ")")
            braces += (token.text == "{") - (token.text == "}")
            # Within an action `>` writes to a file, unless parentheses make it a comparison.
            if min(parens, braces) < 0 or (token.text == ">" and braces and not parens):
                return token.text
    return None


def _prints(token: _Token, before: _Token, following: list[str]) -> bool:
    """Is this a piece of programs that only print?"""
    text = token.text
    match token.kind if token.sure else "":
        case "word":
            return _known_name(text, following)
        case "string":
            return "\n" not in text
        case "number":
            return text.count(".") <= 1 and text[0] != "."
        case "regex":
            return _compiled(_AWK_REGEX).fullmatch(text) is not None
        case "operator" if text == "/":
            divides = before.kind == "number" or before.text == "]" or known_variable(before.text)
            return divides and following[:1] != ["="]
        case "operator":
            return _compiled(_MARKS).fullmatch(text) is not None
        case _:
            return False


def _known_name(name: str, following: list[str]) -> bool:
    if name == "for":
        return following[2:3] == ["in"]
    if name in listed("awk_keywords"):
        return True
    if following[:1] == ["("]:
        return name in listed("awk_functions")
    return known_variable(name)
