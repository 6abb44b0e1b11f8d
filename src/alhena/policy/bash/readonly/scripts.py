"""Scripts of sed and awk: which only print, and what the others do.

A script is accepted when each command is known and seds that differ on where a text ends (slashes
within brackets, labels, the text of `a`) agree here.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.policy.bash.readonly.grammar import Given, could_begin_with, listed

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
    """How many characters stand in the words of a command that may be given a script, else 0:
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


_PIECE = (
    r"[ \t]+|(?P<newline>\n)|(?P<text>\"(?:[^\"\\\n]|\\[^\n])*+\")|(?P<number>[0-9]+(?:\.[0-9]*)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>&&|\|\||!~|[<>=!+\-*/%]=|\+\+|--|[-+*/%!~<>=?:,;(){}\[\]$])"
)
_REGEX = (
    r"(?P<regex>/(?:[^/\\\n\[]|\\[^\n]"
    r"|\[\^?(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])*+\])*+/)"
)
_MAX_PROGRAM = 8192
_VARIABLES = listed("NR NF FNR FS OFS RS ORS FILENAME RSTART RLENGTH SUBSEP")
_OWN_NAMES = listed(
    "acc arr avg cnt col count cur diff end found first hits idx key keys last len line lines max "
    "mean min name names out prev res result rows seen size start sum tmp tot total val value "
    "values word words"
)
_FUNCTIONS = listed("gsub index int length match split sprintf sqrt sub substr tolower toupper")
_KEYWORDS = listed("BEGIN END else exit for if in next print printf")
_BEFORE_REGEX_AWK = frozenset(["", "\n", "(", ",", "{", "}", ";", "!", "~", "!~", "&&", "||"])


def refuse_awk(given: Given) -> str | None:
    """Why an awk with these words may do more than print, as one clause, or None."""
    for value in given.values("-v"):
        name, _, _ = value.text.partition("=")
        if not _known_variable(name):
            return f"{value.source or value.text} sets a variable that is not known"
    if not given.operands:
        return "awk lacks its program"
    program, files = given.operands[0], given.operands[1:]
    if not program.literal:
        return f"{program.source} could be any program"
    for file in files:
        if could_begin_with(file, "/inet"):
            return f"{file.source or file.text} could name a network connection"
    if len(program.text) > _MAX_PROGRAM:
        return "the awk program is very long"
    refused = _refused(program.text)
    return None if refused is None else f"{refused!r} is not known to only print in awk"


def _known_variable(name: str) -> bool:
    single = len(name) == 1 and "a" <= name <= "z"
    return single or name in _VARIABLES or name in _OWN_NAMES


def _refused(program: str) -> str | None:
    """What in the program is not known, or None."""
    tokens = _tokens(program)
    if isinstance(tokens, str):
        return tokens
    parens = braces = 0
    for at, (kind, text) in enumerate(tokens):
        if kind == "name" and not _known_name(tokens, at):
            return text
        if kind == "mark":
            parens += (text == "(") - (text == ")")
            braces += (text == "{") - (text == "}")
            # Within an action `>` writes to a file, unless parentheses make it a comparison.
            if min(parens, braces) < 0 or (text == ">" and braces and not parens):
                return text
    return None


def _known_name(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    name = tokens[at][1]
    following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
    if name == "for":
        return [text for _, text in tokens[at + 3 : at + 4]] == ["in"]
    if name in _KEYWORDS or name == "length":
        return True
    if following == "(":
        return name in _FUNCTIONS
    return _known_variable(name)


def _tokens(program: str) -> list[tuple[str, str]] | str:
    """The program's tokens with their kinds, or its rest from the first unknown one on."""
    token, regex = _patterns()
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(program):
        pattern = token
        if program[at] == "/":
            kind, before = found[-1] if found else ("", "")
            if before in _BEFORE_REGEX_AWK:
                pattern = regex
            elif not (kind == "number" or before == "]" or _divisible(kind, before)):
                return program[at : at + 40]
        match = pattern.match(program, at)
        if match is None or match[0] == "/=":
            return program[at : at + 40]
        at = match.end()
        if match.lastgroup:
            found.append((match.lastgroup, match[0]))
    return found


def _divisible(kind: str, text: str) -> bool:
    return kind == "name" and _known_variable(text)


@lru_cache(maxsize=1)
def _patterns() -> "tuple[re.Pattern[str], re.Pattern[str]]":
    """Tokens, and the regular expressions between slashes (whether a slash divides is told by what
    stands before it; where awks could differ on that, the slash is unknown)."""
    import re

    return re.compile(_PIECE), re.compile(_REGEX)


_DELIMITERS = "/|#,@:!%+~=_;"
_BLANK = r"[ \t]*"


def refuse_sed(given: Given) -> str | None:
    """Why a sed with these words may do more than print, as one clause, or None."""
    scripts = given.values("-e", "--expression")
    if not scripts:
        if given.has("--help", "--version"):
            return None
        if not given.operands:
            return "sed lacks its script"
        scripts = given.operands[:1]
    for script in scripts:
        if not script.literal:
            return f"{script.source} could be any script"
        refused = next(_refused_sed(script.text), None)
        if refused is not None:
            return f"{refused!r} is not known to only print in sed"
    return None


def _refused_sed(script: str) -> Iterator[str]:
    """The rest of the script from the first command on that is not known."""
    pattern = _commands()
    at = 0
    while at < len(script):
        match = pattern.match(script, at)
        if match is None or match.end() == at:
            yield script[at : at + 40]
            return
        at = match.end()


@lru_cache(maxsize=1)
def _commands() -> "re.Pattern[str]":
    """One command with its addresses, blanks, and what ends it. Every alternative begins with
    another character, and all repeats are possessive: matching takes linear time."""
    import re

    regex = _regex_until("/")
    address = rf"(?:[0-9]++(?:~[0-9]++)?|\$|/{regex}/[IM]*+)"
    second = rf"(?:,{_BLANK}(?:[+~][0-9]++|{address}))?+"
    label = r"[A-Za-z0-9_.]*+"
    commands = "|".join(
        [
            r"[pdPDgGhHxnN=zF]",
            rf"[qQlL]{_BLANK}[0-9]*+",
            rf"[btT]{_BLANK}{label}",
            *(_substitution(mark) for mark in _DELIMITERS),
        ]
    )
    end = rf"{_BLANK}(?:[;\n]|\Z|(?=\}}))"
    return re.compile(
        rf"(?:[ \t\n;]++"
        rf"|\#[^\n]*+(?:\n|\Z)"
        rf"|:{_BLANK}{label}{_BLANK}(?:[;\n]|\Z)"
        rf"|\}}{end}"
        rf"|(?:{address}{second})?+{_BLANK}(?:!{_BLANK})?+"
        rf"(?:\{{|[aic]{_BLANK}[^\\\n{{}};\s][^\\\n]*+(?:\n|\Z)|(?:{commands}){end}))"
    )


def _substitution(mark: str) -> str:
    import re

    quoted = re.escape(mark)
    text = rf"(?:[^\\\n{quoted}]|\\[^\n])*+"
    replaced = rf"s{quoted}{_regex_until(mark)}{quoted}{text}{quoted}[gpiIMm0-9]*+"
    return rf"{replaced}|y{quoted}{text}{quoted}{text}{quoted}"


def _regex_until(mark: str) -> str:
    """A regular expression that ends before `mark`, which no bracket in it holds."""
    import re

    quoted = re.escape(mark)
    inner = rf"(?:\[[:.=][a-z]*+[:.=]\]|\\[^\]\n{quoted}]|\[(?![:.=])|[^\[\]\\\n{quoted}])"
    bracket = rf"\[\^?+\]?+{inner}*+\]"
    return rf"(?:[^\\\n\[{quoted}]|\\[^\n]|{bracket})*+"
