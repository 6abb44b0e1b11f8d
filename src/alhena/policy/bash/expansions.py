"""What `$` begins: a variable, a substitution, arithmetic, a quoted string."""

import re

import msgspec

from alhena.policy.bash.reading import Reading, Scope, UnclearError

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
    """Where it stops; its text when that is known; else whether it may become several words."""

    stop: int
    literal: str | None = None
    split: bool = False


def read_dollar(reading: Reading, at: int, scope: Scope, *, quoted: bool) -> Dollar:
    """What stands at the `$` at `at`; raises UnclearError."""
    text = reading.text
    variable = _VARIABLE.match(text, at)
    if variable:
        return Dollar(variable.end(), split=not quoted or variable.group() == "$@")
    following = text[at + 1 : at + 2]
    if following == "(":
        return _substitution(reading, at, scope, quoted=quoted)
    if following == "{":
        return _braced(reading, at, scope, quoted=quoted)
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


def _braced(reading: Reading, at: int, scope: Scope, *, quoted: bool) -> Dollar:
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
        reading.doubt(_named(text[name.end() : name.end() + 2]), at, stop)
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


def _named(operator: str) -> str:
    if operator.startswith("["):
        return "a subscript can run code hidden in data"
    if operator.startswith("@"):
        return "the @ operator can run code hidden in data"
    if operator.startswith(("=", ":=")):
        return "the expansion assigns a variable"
    return ARITHMETIC


def _operand(reading: Reading, at: int, scope: Scope, *, quoted: bool) -> int:
    """Where the word behind the operator of `${x:-word}` stops: at its `}`."""
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
        text = _unescaped(escape) if escape else None
        if escape is None or text is None:
            reading.doubt("the escape is not certain", at, position + 2)
            bits.append(raw[position : position + 2])
            position += 2
            continue
        bits.append(text)
        position = escape.end()
    return Dollar(position + 1, literal="".join(bits))


def _unescaped(escape: re.Match[str]) -> str | None:
    octal, hexadecimal, short, long, letter, _control = escape.groups()
    if letter:
        return _LETTERS[letter]
    digits = octal or hexadecimal or short or long
    if not digits:
        return None
    code = int(digits, 8 if octal else 16)
    # Beyond ASCII the bytes depend on the locale; NUL ends the string.
    return chr(code) if 0 < code < 0x80 else None
