"""Scripts of sed and awk: one strict reader for each, which finds the first piece that is not known
to be harmless.

Versions differ on where some texts end (slashes within brackets, labels), and on whether a slash
divides. Such a piece is not known to be harmless. By a rule for the program a script may also read
files, loop without end and define functions: a rule is asked whether it writes, runs or loads.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.shell.tables import listed

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


def strange_sed(script: str, *, by_rule: bool = False) -> str | None:
    """The rest of a sed script from the first command on that is not known to only print, or
    `by_rule` to only print and read files."""
    found = _Sed(script).read()
    return found.strange if by_rule else found.reading or found.strange


def writes_as_sed(text: str) -> bool:
    """Would a text that is no plain name of a file write or run something as a script of sed?"""
    plain = all(letter.isalnum() or letter in "._/-+" for letter in text)
    return not plain and sed_effect(text) in (ScriptEffect.WRITES, ScriptEffect.RUNS)


_DELIMITERS = frozenset("/|#,@:!%+~=_;")
_END = r"[ \t]*(?:[;\n}#]|\Z)"
_LABEL = r"[A-Za-z0-9_.]*(?:[ \t]*\}*[ \t]*(?:[;\n]|\Z)|[ \t]+#)"
_FILE_NAME = r"[ \t]*[^\\\n{};\s][^\\\n{};]*+(?=\n|\Z)"
_TEXT = r"[ \t]*(?:\\\n|[^\\\n{};\s]|\\[ \t]*[^\\\s])(?:[^\\\n]|\\.|\\\n)*+(?=\n|\Z)"
_BRACKET = r"\[\^?\]?(?:\[[:.=][a-z]*[:.=]\]|\\[^\]\n]|\[(?![:.=])|[^\[\]\\\n])*+\]"
_PLAIN_COMMANDS = r"(?:[ \t\n;{}]|[=dDgGhHnNpPqQxlLzF][0-9 \t]*+(?=[;\n}#]|\Z))*+"


class _Sed:
    def __init__(self, script: str) -> None:
        self.text = script
        self.at = self.start = 0
        self.effect = ScriptEffect.NONE
        self.strange: str | None = None
        self.reading: str | None = None
        self.label_line = 0
        self.files: list[str | None] = []

    def read(self) -> "_Sed":
        try:
            while self._plain():
                self.start = self.at
                self._address()
                letter = self._take()
                self._command(letter)
                if letter != "{":
                    self._alike(_END, self.at)
                if self.start < self.label_line < self.at:
                    self._has(ScriptEffect.NONE)
        except IndexError:
            self._has(ScriptEffect.UNKNOWN)
        return self

    def _has(self, effect: ScriptEffect) -> None:
        """The command at hand has this effect, or none and is not read alike everywhere."""
        self.effect = worse(self.effect, effect)
        if self.strange is None:
            self.strange = self._show_command()

    def _show_command(self) -> str:
        return self.text[self.start : self.start + 40]

    def _alike(self, pattern: str, at: int) -> None:
        """The command at hand is only read alike everywhere if the pattern matches there."""
        if _compile_pattern(pattern).match(self.text, at) is None:
            self._has(ScriptEffect.NONE)

    def _plain(self) -> bool:
        """Skip commands without an address that only print or move text: of these a script can
        have very many."""
        found = _compile_pattern(_PLAIN_COMMANDS).match(self.text, self.at)
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
                self._skip_delimited(self.text[self.at - 1])
                while self.text[self.at] in "IM":
                    self.at += 1
            elif mark in "0123456789$,+~!":
                self.at += 1
            else:
                return

    def _skip_delimited(self, mark: str, *, regex: bool = True, lines: bool = False) -> None:
        """Skip past the next `mark` that neither a backslash nor a bracket protects. `lines`: a
        backslash may stand before a line break."""
        if mark not in _DELIMITERS:
            self._has(ScriptEffect.NONE)
        while (letter := self._take()) != mark:
            if letter == "\n" or (letter == "\\" and self._take() == "\n" and not lines):
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
            found = _compile_pattern(_TEXT).match(self.text, self.at)
            self._alike(_TEXT, self.at)
            # An unread rest only adds commands.
            self.at = found.end() if found else self._end_of_line()
        elif letter in "wWe":
            self._has(ScriptEffect.RUNS if letter == "e" else ScriptEffect.WRITES)
            self._rest_of_line(writes=letter != "e")
        elif letter in "btT:":
            self._blanks(" \t")
            self._alike(_LABEL, self.at)
            self._label()
            # BSD's labels extend to the end of the line: no later command may go beyond it.
            self.label_line = self._end_of_line()
        elif letter in "rR":
            self.reading = self.reading or self._show_command()
            self._alike(_FILE_NAME, self.at)
            self._label("\n;}")
        elif letter == "v":
            self._has(ScriptEffect.NONE)
            self._label()
        elif letter == "s":
            mark = self._take()
            self._skip_delimited(mark)
            self._skip_delimited(mark, regex=False, lines=True)
            self._flags()
        elif letter == "y":
            mark = self._take()
            self._skip_delimited(mark, regex=False)
            self._skip_delimited(mark, regex=False)
        elif letter in "{=dDgGhHnNpPqQxlLzF":
            self._blanks("0123456789 \t")
        else:
            self._has(ScriptEffect.UNKNOWN)

    def _flags(self) -> None:
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;}#":
            flag = self._take()
            if flag == "w":
                self._has(ScriptEffect.WRITES)
                self._rest_of_line(writes=True)
            elif flag == "e":
                self._has(ScriptEffect.RUNS)
            elif flag not in "gpiImM0123456789":
                self._has(ScriptEffect.UNKNOWN)

    def _rest_of_line(self, *, writes: bool) -> None:
        start, self.at = self.at, self._end_of_line()
        self.files += [self.text[start : self.at].strip()] if writes else []

    def _end_of_line(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def _label(self, ends: str = "\n;} \t") -> None:
        """A label or a file name: some versions end it early, so what follows is read as commands,
        too."""
        while self.at < len(self.text) and self.text[self.at] not in ends:
            self.at += 1


@lru_cache(maxsize=16)
def _compile_pattern(pattern: str) -> "re.Pattern[str]":
    import re

    return re.compile(pattern)


_MAX_AWK = 8 * 1024
_AWK_TOKENS = (
    r'(?P<space>[ \t]+)|(?P<other>\r|\\\n|\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9.]+)"
    r"|(?P<operator>\|\||&&|>=|==|<=|!=|\+\+|--|>>|\|&|.|\n)"
)
_AWK_REGEX = (
    r"/(?:[^/\\\n\[]|\\[^\n]"
    r"|\[\^?(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])*+\])*+/"
)
_BEFORE_REGEX = frozenset({"print", "printf", "return", "do", "else", "case"})
_EITHER = frozenset({")", "++", "--", "getline", "exit", "in", "delete"})
_CONDITIONS = frozenset({"if", "while", "for", "switch"})


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
    conditions: list[bool] = []
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
        if text == "(":
            conditions.append(before in _CONDITIONS)
        value = text == ")" and conditions and not conditions.pop()
        if kind not in {"space", "other"}:
            before = "0" if value or kind in {"string", "number"} else text
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


_MARKS = r"\|\||&&|[<>=!]=|\+\+|--|[-+*/%^!~<>=?:,;(){}\[\]$\n]"
_AFTER_GETLINE = r"(?:[A-Za-z_][A-Za-z0-9_]* )?[;\n})]"


def known_variable(name: str, *, by_rule: bool = False) -> bool:
    """May an awk program that only prints use this variable?"""
    if by_rule:
        return name.isidentifier() and not any(
            name in listed(f"awk_{kind}")
            for kind in ("keywords", "functions", "more_keywords", "more_functions", "refused")
        )
    single = len(name) == 1 and "a" <= name <= "z"
    return single or name in listed("awk_variables")


def strange_awk(program: str, *, by_rule: bool = False) -> str | None:
    """The first piece of an awk program that is not known to only print, or `by_rule` to write, run
    and load nothing."""
    return program[:40] if len(program) > _MAX_AWK else _Awk(program, by_rule=by_rule).strange()


def files_of_script(language: str, script: str) -> list[str | None]:
    """The files that a script of sed or awk writes; None for one that is not known."""
    import re

    if language == "awk":
        return list(_awk_files(script[:_MAX_AWK]))
    found = _Sed(script).read()
    if found.effect is ScriptEffect.UNKNOWN:  # what follows may write as well
        found.files += re.findall(r"[wW][ \t]+([^\s;}]+)", script)
    return found.files


def _awk_files(program: str) -> Iterator[str | None]:
    """The targets of `print > FILE` outside parentheses."""
    tokens = [each for each in _awk_tokens(program) if each.kind not in {"space", "other"}]
    printing, depth = False, 0
    for at, token in enumerate(tokens):
        if token.kind == "word" and token.text in {"print", "printf"}:
            printing, depth = True, 0
        elif token.kind == "operator" and token.text in {";", "{", "}", "\n"}:
            printing = False
        elif token.kind == "operator" and token.text in {"(", ")"}:
            depth += 1 if token.text == "(" else -1
        elif printing and not depth and token.text in {">", ">>"} and token.kind == "operator":
            target, after = (*tokens[at + 1 : at + 3], *[_Token("operator", "\n", 0)] * 2)[:2]
            alone = after.kind == "operator" and after.text in {";", "}", "\n", ")"}
            plain = target.kind == "string" and "\\" not in target.text and alone
            yield target.text[1:-1] if plain else None


def could_be_awk(text: str) -> bool:
    """Could a text, as a program of awk, do more than print? Names of files hardly do."""
    names = ("system", "print", "getline", "extension", "@")
    return any(mark in text for mark in '(|>"') and any(name in text for name in names)


class _Awk:
    def __init__(self, program: str, *, by_rule: bool) -> None:
        self.program = program
        self.by_rule = by_rule
        self.tokens = list(_awk_tokens(program))
        self.parens = self.braces = 0
        self.printing = False

    def strange(self) -> str | None:
        for at, token in enumerate(self.tokens):
            before = self.tokens[at - 1] if at else _Token("operator", "\n", 0)
            following = [each.text for each in self.tokens[at + 1 : at + 4]]
            if not self._prints(token, before, following):
                word = token.kind == "word"
                return token.text if word else self.program[token.at : token.at + 40]
            if not self._fits_place(token):
                return token.text
        return None

    def _fits_place(self, token: _Token) -> bool:
        """Is the piece harmless at its place? `>` writes in a statement with `print`, which in
        parentheses (of `for`) or outside braces is not read alike everywhere."""
        match token.text if token.kind in {"word", "operator"} else "":
            case "print" | "printf":
                self.printing = True
                return self.braces > 0 and self.parens == 0
            case ">":
                return self.parens > 0 or not self.printing
            case ";" | "{" | "}" as text:
                self.printing = False
                self.braces += (text == "{") - (text == "}")
            case "(" | ")" as text:
                self.parens += (text == "(") - (text == ")")
            case _:
                pass
        return min(self.parens, self.braces) >= 0

    def _prints(self, token: _Token, before: _Token, following: list[str]) -> bool:
        """Is this a piece of programs that only print?"""
        text = token.text
        match token.kind if token.sure else "":
            case "word":
                return self._known_name(text, following)
            case "string":
                return "\n" not in text
            case "number":
                return text.count(".") <= 1 and text[0] != "."
            case "regex":
                return _compile_pattern(_AWK_REGEX).fullmatch(text) is not None
            case "operator" if text == "/":
                return self._divides(before) and following[:1] != ["="]
            case "operator":
                return _compile_pattern(_MARKS).fullmatch(text) is not None
            case "other":
                return text[0] == "#" and "\\" not in text
            case _:
                return False

    def _divides(self, before: _Token) -> bool:
        variable = before.kind == "word" and known_variable(before.text, by_rule=self.by_rule)
        return variable or before.kind == "number" or before.text in {"]", ")"}

    def _known_name(self, name: str, following: list[str]) -> bool:
        if self.by_rule:
            if name == "getline":
                return _compile_pattern(_AFTER_GETLINE).match(" ".join(following)) is not None
            return name not in listed("awk_refused")
        if name == "for":
            return following[2:3] == ["in"]
        if name in listed("awk_keywords"):
            return True
        if following[:1] == ["("]:
            return name in listed("awk_functions")
        return known_variable(name)


STRANGE = {"awk": strange_awk, "sed": strange_sed}
"""Programs -> the function that finds what is not known to only print in a script."""
