"""One word as bash reads it: quotes removed, expansions found."""

import re

import msgspec

from alhena.shell.parse.model import Reading, Scope, UnclearError, Word, WordKind

MAX_EXPANSIONS = 16
ARITHMETIC = "arithmetic can run code hidden in data"

_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_BRACED = re.compile(r"\$\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])\}")
_LENGTH = re.compile(r"\$\{#(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])\}")
_NAME = re.compile(r"\$\{(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])")
_OPERATOR = re.compile(r":?[-+?]|##?|%%?|//|/[#%]?|\^\^?|,,?")
_OPERAND_RUN = re.compile(r"[^'\"\\$`{}]+")
_PROCESS = re.compile(r"[<>]\(")
_OPERAND_QUOTED = re.compile(r"'[^']*'|\"[^\"\\$`]*\"")
_ANSI_RUN = re.compile(r"[^'\\]+")
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})"
    r"|([abeEfnrtv\\'\"?])|c(.))",
    re.DOTALL,
)
_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


class Dollar(msgspec.Struct, frozen=True):
    """Its end; its text when that is known; else `split`: it may become several words."""

    stop: int
    literal: str | None = None
    split: bool = False


def read_dollar(reading: Reading, at: int, scope: Scope, *, quoted: bool) -> Dollar:
    """Reads the expansion at the `$` at `at`; raises UnclearError."""
    text = reading.text
    variable = _VARIABLE.match(text, at)
    if variable:
        return Dollar(variable.end(), split=not quoted or variable.group() == "$@")
    following = text[at + 1 : at + 2]
    if following == "(":
        return _substitution(reading, at, scope, quoted=quoted)
    if following == "{":
        return _read_braces(reading, at, scope, quoted=quoted)
    if following == "[":
        node = reading.nested_at(at, "arithmetic_expansion")
        reading.doubt(ARITHMETIC, at, node.end_byte)
        reading.queue_within(at, node.end_byte, scope)
        return Dollar(node.end_byte, split=not quoted)
    if following == "'" and not quoted:
        return _ansi_c(reading, at)
    if following == '"' and not quoted:
        reading.doubt("bash translates the string", at, at + 2)
        return Dollar(at + 1, literal="")
    return Dollar(at + 1, literal="$")


def _substitution(reading: Reading, at: int, scope: Scope, *, quoted: bool) -> Dollar:
    node = reading.nested_at(at, "command_substitution", "arithmetic_expansion")
    if reading.text.startswith("$((", at):
        reading.doubt(ARITHMETIC, at, node.end_byte)
        reading.queue_within(at, node.end_byte, scope)
    elif node.type == "command_substitution":
        reading.queue(node, scope)
    else:
        raise UnclearError
    return Dollar(node.end_byte, split=not quoted)


def _read_braces(reading: Reading, at: int, scope: Scope, *, quoted: bool) -> Dollar:
    text = reading.text
    simple = _BRACED.match(text, at) or _LENGTH.match(text, at)
    if simple:
        return Dollar(simple.end(), split=not quoted or "@" in simple.group())
    node = reading.nested_at(at, "expansion")
    stop = node.end_byte
    name = _NAME.match(text, at)
    if text.startswith(("${!", "${#"), at) or not name:
        reading.doubt("the expansion can evaluate a name hidden in data", at, stop)
        reading.queue_within(at, stop, scope)
        return Dollar(stop, split=True)
    operator = _OPERATOR.match(text, name.end())
    if not operator:
        reading.doubt(_describe_operator(text[name.end() : name.end() + 2]), at, stop)
        reading.queue_within(at, stop, scope)
        return Dollar(stop, split=True)
    if reading.expansions >= MAX_EXPANSIONS:
        raise UnclearError
    reading.expansions += 1
    try:
        end = _operand(reading, operator.end(), scope, quoted=quoted)
    finally:
        reading.expansions -= 1
    if end != stop - 1:
        raise UnclearError
    return Dollar(stop, split=not quoted or "@" in name.group())


def _describe_operator(operator: str) -> str:
    if operator.startswith("["):
        return "a subscript can run code hidden in data"
    if operator.startswith("@"):
        return "the @ operator can run code hidden in data"
    if operator.startswith(("=", ":=")):
        return "the expansion assigns a variable"
    return ARITHMETIC


def _operand(reading: Reading, at: int, scope: Scope, *, quoted: bool) -> int:
    """The end of the word behind the operator of `${x:-word}`: its `}`."""
    text = reading.text
    while not text.startswith("}", at):
        run = _OPERAND_RUN.match(text, at) or (None if quoted else _OPERAND_QUOTED.match(text, at))
        process = run and not quoted and _PROCESS.search(text, at, run.end())
        if process:
            node = reading.nested_at(process.start(), "process_substitution")
            reading.queue(node, scope)
            at = node.end_byte
        elif run:
            at = run.end()
        elif text.startswith("$", at):
            at = read_dollar(reading, at, scope, quoted=True).stop
        elif text.startswith("`", at) and not scope.backtick:
            node = reading.nested_at(at, "command_substitution")
            reading.queue(node, scope)
            at = node.end_byte
        else:
            raise UnclearError
    return at


def _ansi_c(reading: Reading, at: int) -> Dollar:
    """`$'…'`: bash's escapes decoded; one it is not sure about is a doubt."""
    raw = reading.source.raw
    position = at + 2
    bits: list[str] = []
    while not raw.startswith("'", position):
        if position >= len(raw):
            raise UnclearError
        run = _ANSI_RUN.match(raw, position)
        if run:
            bits.append(run.group())
            position = run.end()
            continue
        escape = _ESCAPE.match(raw, position)
        text = _unescape(escape) if escape else None
        if escape is None or text is None:
            reading.doubt("the escape is not certain", at, position + 2)
            bits.append(raw[position : position + 2])
            position += 2
            continue
        bits.append(text)
        position = escape.end()
    return Dollar(position + 1, literal="".join(bits))


def _unescape(escape: re.Match[str]) -> str | None:
    octal, hexadecimal, short, long, letter, _control = escape.groups()
    if letter:
        return _LETTERS[letter]
    digits = octal or hexadecimal or short or long
    if not digits:
        return None
    code = int(digits, 8 if octal else 16)
    # Beyond ASCII the bytes depend on the locale; NUL ends the string.
    return chr(code) if 0 < code < 0x80 else None


SIMPLE = re.compile(
    r"(?:([A-Za-z0-9_./:,@%+^=\x80-\xff-]+)|'([^']*)'|\"([^\"\\$`]*)\")(?=[ \t\n;&|()]|\Z)[ \t]*"
)
"""A word in one of the three commonest forms, and the blanks after it."""

_RUN = re.compile(r"[^ \t\n;&|()<>'\"\\$`*?\[\]{}~]+")
_DOUBLE_RUN = re.compile(r'[^"\\$`]+')
_DOCUMENT_RUN = re.compile(r"[^\\$`]+")


class _Scan:
    """Reads one word; `bits` are its pieces, `cut` how many of them surely stand at its start."""

    __slots__ = (
        "assigned",
        "at",
        "bits",
        "brace",
        "bracket",
        "cut",
        "kind",
        "reading",
        "scope",
        "split",
        "start",
    )

    def __init__(self, reading: Reading, start: int, scope: Scope) -> None:
        self.reading = reading
        self.scope = scope
        self.start = start
        self.at = start
        self.bits: list[str] = []
        self.cut: int | None = None
        self.kind = WordKind.LITERAL
        self.split = False
        self.assigned = False
        self.bracket: int | None = None
        self.brace: tuple[int, int] | None = None

    def mark(self, kind: WordKind, *, split: bool, at: int | None = None) -> None:
        """From here on (or from piece `at` on) the word is not as written."""
        at = len(self.bits) if at is None else at
        self.cut = at if self.cut is None else min(self.cut, at)
        if self.kind is not WordKind.EXPANSION:
            self.kind = kind
        self.split = self.split or split

    def read(self, *, regex: bool = False) -> None:
        """Up to the end of the word; in a regex brackets and bars are ordinary."""
        text = self.reading.text
        length = len(text)
        while self.at < length:
            run = _RUN.match(text, self.at)
            if run:
                self.bits.append(self.reading.source.raw[self.at : run.end()])
                self.at = run.end()
                continue
            mark = text[self.at]
            if mark in " \t\n;&|()<>":
                if mark in "<>" and text.startswith("(", self.at + 1):
                    self._substitution("process_substitution", split=False)
                    continue
                if not (regex and mark in "()|"):
                    return
                self._keep(1)
            elif mark == "`" and self.scope.backtick:
                return
            else:
                self._special(mark)

    def _special(self, mark: str) -> None:
        if mark == "'":
            self._single()
        elif mark == '"':
            self._double()
        elif mark == "\\":
            self._backslash()
        elif mark == "$":
            self._dollar(quoted=False)
        elif mark == "`":
            self._substitution("command_substitution", split=True)
        elif mark == "~":
            self._tilde()
        else:
            self._glob(mark)

    def _keep(self, count: int) -> None:
        self.bits.append(self.reading.source.raw[self.at : self.at + count])
        self.at += count

    def _single(self) -> None:
        end = self.reading.text.find("'", self.at + 1)
        if end < 0:
            raise UnclearError
        self.bits.append(self.reading.source.raw[self.at + 1 : end])
        self.at = end + 1

    def _double(self) -> None:
        text = self.reading.text
        self.at += 1
        self.bits.append("")
        while not text.startswith('"', self.at):
            run = _DOUBLE_RUN.match(text, self.at)
            if run:
                self._keep(run.end() - self.at)
            elif self.at >= len(text):
                raise UnclearError
            elif text[self.at] == "\\":
                self._escape('$`"\\\n')
            elif text[self.at] == "`":
                if self.scope.backtick:
                    raise UnclearError
                self._substitution("command_substitution", split=False)
            else:
                self._dollar(quoted=True)
        self.at += 1

    def _escape(self, escaped: str) -> None:
        """A backslash where only some characters are escaped by one."""
        following = self.reading.text[self.at + 1 : self.at + 2]
        if following == "\n":
            self._join()
        elif following and following in escaped:
            self.bits.append(following)
            self.at += 2
        else:
            self._keep(1)

    def _join(self) -> None:
        """A joined line: what appears on both sides becomes one, `$` and `(` as well."""
        text = self.reading.text
        digits = "".join(self.bits).isdigit() and text[self.at + 2 : self.at + 3] in {"<", ">"}
        if digits or text[self.at - 1 : self.at] in {"$", "\\"}:
            raise UnclearError
        self.at += 2

    def _backslash(self) -> None:
        following = self.reading.source.raw[self.at + 1 : self.at + 2]
        if not following:
            raise UnclearError
        if following == "\n":
            self._join()
            return
        self.bits.append(following)
        self.at += 2

    def _dollar(self, *, quoted: bool) -> None:
        found = read_dollar(self.reading, self.at, self.scope, quoted=quoted)
        if found.literal is None:
            self.mark(WordKind.EXPANSION, split=found.split)
            self.bits.append("")
        else:
            self.bits.append(found.literal)
        self.at = found.stop

    def _substitution(self, kind: str, *, split: bool) -> None:
        node = self.reading.nested_at(self.at, kind)
        self.reading.queue(node, self.scope)
        self.mark(WordKind.EXPANSION, split=split)
        self.bits.append("")
        self.at = node.end_byte

    def _tilde(self) -> None:
        before = self.reading.text[self.at - 1] if self.at > self.start else ""
        # Bash also expands it behind `=` and `:` in words that look like assignments.
        if not before or before in "=:\n" or self.assigned:
            self.mark(WordKind.PATTERN, split=False)
        self._keep(1)

    def _glob(self, mark: str) -> None:
        if mark in "*?":
            self.mark(WordKind.PATTERN, split=True)
        elif mark == "[":
            self.bracket = len(self.bits) if self.bracket is None else self.bracket
        elif mark == "{":
            self.brace = (len(self.bits), self.at) if self.brace is None else self.brace
        elif mark == "]" and self.bracket is not None:
            self.mark(WordKind.PATTERN, split=True, at=self.bracket)
        elif mark == "}" and self.brace is not None:
            inside = self.reading.text[self.brace[1] : self.at]
            if "," in inside or ".." in inside or "\\" in inside:
                self.mark(WordKind.PATTERN, split=True, at=self.brace[0])
        self._keep(1)

    def read_document(self, stop: int) -> None:
        """As between double quotes, but a double quote is a character like any other."""
        text = self.reading.text
        while self.at < stop:
            run = _DOCUMENT_RUN.match(text, self.at, stop)
            if run:
                self._keep(run.end() - self.at)
            elif text[self.at] == "\\":
                self._escape("$`\\\n")
            elif text[self.at] == "`":
                self._substitution("command_substitution", split=False)
            else:
                self._dollar(quoted=True)

    def word(self) -> Word:
        """The word that has been read."""
        source = self.reading.source
        bits = self.bits if self.cut is None else self.bits[: self.cut]
        written = source.written(self.start, self.at)
        return Word(source.decode("".join(bits)), self.kind, written, self.split)


def read_word(reading: Reading, start: int, scope: Scope) -> tuple[Word, int]:
    """The word at `start` and where it stops; raises UnclearError, also when none is there."""
    scan = _Scan(reading, start, scope)
    scan.read()
    if scan.at == start:
        raise UnclearError
    return scan.word(), scan.at


def read_regex(reading: Reading, start: int, scope: Scope) -> tuple[Word, int]:
    """The right side of `=~`."""
    scan = _Scan(reading, start, scope)
    scan.read(regex=True)
    if scan.at == start:
        raise UnclearError
    return scan.word(), scan.at


def read_value(reading: Reading, start: int, scope: Scope) -> tuple[Word, int]:
    """The value of an assignment, which may be empty."""
    scan = _Scan(reading, start, scope)
    scan.assigned = True
    scan.read()
    return scan.word(), scan.at


def read_document(reading: Reading, start: int, stop: int, scope: Scope) -> Word:
    """The body of a here document whose delimiter is not quoted."""
    scan = _Scan(reading, start, scope)
    scan.read_document(stop)
    return scan.word()
