"""The words of a command that may only read, told apart by the program's table.

Known options and operands; what is not known is refused. Abbreviations of long options are not
known.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from posixpath import normpath

import msgspec

from alhena.policy.bash.model import Word, WordKind
from alhena.policy.bash.options import options_in
from alhena.policy.programs import Arity, Effect, Program


def listed(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_PIPE = "<("
"""A process substitution becomes the name of a pipe, /dev/fd/63."""


def one_word(word: Word) -> bool:
    """Is the word surely one word when bash has expanded it?"""
    return word.literal or not word.split


def surely_operand(word: Word) -> bool:
    """Does nothing that the word expands to begin with a dash (`-` alone aside)?"""
    first = word.text[:1]
    match word.kind:
        case WordKind.LITERAL:
            return first != "-" or word.text == "-"
        case WordKind.EXPANSION:
            known = first not in {"", "-"} or word.source.startswith(_PIPE)
            return known and not word.split
        case WordKind.PATTERN:
            expands = "$" in word.source or "`" in word.source
            return not expands and (first not in {"", "-"} or word.source[:1] == "~")


def could_begin_with(word: Word, prefix: str) -> bool:
    """Could the text of a word that is not all known begin with `prefix`?"""
    if word.text:
        return word.text.startswith(prefix) or (
            not word.literal and prefix.startswith(word.text) and not _is_plain_glob(word)
        )
    return not (word.literal or word.source.startswith((_PIPE, "~", "*", "?", "[")))


def _is_plain_glob(word: Word) -> bool:
    return word.kind is WordKind.PATTERN and not word.text.startswith("/")


class Given(msgspec.Struct):
    """The words of a command, told apart. The `source` of an attached value begins with its
    option."""

    options: list[tuple[str, Word | None]]
    operands: list[Word]

    def values(self, *names: str) -> list[Word]:
        """The values that options of these names have, in order."""
        return [word for name, word in self.options if name in names and word is not None]

    def has(self, *names: str) -> bool:
        """Is one of these options there?"""
        return any(name in names for name, _ in self.options)


def read_words(table: Program, program: str, words: Sequence[Word]) -> Given | str:
    """The words after the program's name (or subcommand) by its table, or one clause saying why
    they are not surely harmless."""
    reading = _Reading(table, program, words)
    reading.read()
    return reading.refusal or Given(reading.options, reading.operands)


class _Reading:
    def __init__(self, table: Program, program: str, words: Sequence[Word]) -> None:
        self.table = table
        self.program = program
        self.words = words
        self.at = 0
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.refusal: str | None = None
        self.expression = "expression" in table.form
        self.guarded = "guarded" in table.form or table.operands is not None

    def read(self) -> None:
        words = self.words
        while self.at < len(words) and self.refusal is None:
            word = words[self.at]
            self.at += 1
            text = word.text
            if not word.literal:
                self._unknown(word)
            elif text[:1] != "-" or text == "-":
                self.operands.append(word)
                if "subcommand" in self.table.form:
                    self._rest()
            elif text == "--" and not self.expression:
                self._rest()
            elif "leading" in self.table.form and self.operands:
                self.refusal = f"{text} comes after an operand"
            else:
                self._options(word)
        if self.refusal is None:
            self._count()

    def _rest(self) -> None:
        """Takes all other words for operands."""
        self.operands.extend(self.words[self.at :])
        self.at = len(self.words)

    def _count(self) -> None:
        most = self.table.operands
        if most is not None and len(self.operands) > most:
            self.refusal = f"{self.program} with {_operands(len(self.operands))} may not only read"
        elif most is not None:
            many = next((word for word in self.operands if not one_word(word)), None)
            if many is not None:
                self.refusal = f"{many.source} could be more than one word"
        for names, clause in self.table.needs:
            if not any(name in names for name, _ in self.options):
                self.refusal = f"{self.program} without {' or '.join(sorted(names))} {clause}"

    def _unknown(self, word: Word) -> None:
        if not self.guarded or surely_operand(word):
            self.operands.append(word)
            return
        name, equals, _ = word.text.partition("=")
        if equals and one_word(word) and self._arity(name) not in {None, Arity.FLAG}:
            self.options.append((name, word))
        else:
            before = "./" if self.expression else "--"
            self.refusal = f"{word.source} could be an option; {before} before it rules that out"

    def _options(self, word: Word) -> None:
        for found in options_in(self.table, word):
            name = found.names[0] if len(found.names) == 1 else ""
            arity, value = self._arity(name), found.value
            if arity is None or name != found.shown:
                self._refuse(found.shown)
            elif arity == Arity.APART and value is None and word.text[-1] != name[1]:
                self.refusal = f"{word.text} has letters behind {name}, which takes the next word"
            elif value is None:
                self._option(name, arity)
            elif arity == Arity.FLAG:
                self.refusal = f"{name} takes no value"
            else:
                equals = "=" if name[:2] == "--" else ""
                self.options.append((name, Word(value.text, source=f"{name}{equals}{value.text}")))
            if self.refusal is not None:
                return

    def _option(self, name: str, arity: Arity) -> None:
        last = self.at >= len(self.words)
        if arity in {Arity.FLAG, Arity.ATTACHED} or (last and arity == Arity.UNLESS_LAST):
            self.options.append((name, None))
            return
        if last:
            self.refusal = f"{name} lacks its value"
            return
        if arity is Arity.PAIR:
            first = self.words[self.at]
            self.at += 1
            if self.at == len(self.words) or not first.literal or first.text[:1] == "-":
                self.refusal = f"{name} lacks its name and value"
                return
        value = self.words[self.at]
        self.at += 1
        if self.guarded and not one_word(value):
            self.refusal = f"{value.source} could be more than one word"
        elif self.guarded and arity != Arity.DASHED and _looks_like_option(value):
            self.refusal = f"{value.source or value.text} could be an option"
        self.options.append((name, value))

    def _arity(self, name: str) -> Arity | None:
        """The arity of an option that only reads; None for any other."""
        option = self.table.options.get(name)
        return option.arity if option is not None and option.reads else None

    def _refuse(self, name: str) -> None:
        option = self.table.options.get(name)
        clause = self.table.refuses.get(name) or (option.effect if option else Effect.NONE)
        self.refusal = (
            f"{name} {clause}" if clause else f"{name} is not a known option of {self.program}"
        )


def _looks_like_option(word: Word) -> bool:
    text = word.text
    return text[:1] == "-" and text != "-" and not (word.literal and text[1:].isdigit())


def _operands(count: int) -> str:
    return "an operand" if count == 1 else f"{count} operands"


_OPEN_PLACES = frozenset({"/dev/null", "/dev/stdin"})
_OPEN_PROC = listed(
    "cgroups cmdline cpuinfo diskstats filesystems loadavg meminfo modules mounts net partitions "
    "stat swaps sys uptime version vmstat"
)
_PROCESSES = ("self", "thread-self", "1", "4242")
_ENDLESS = listed("zero full random urandom tty ptmx console kmsg mem port")
_MAX_SPELLINGS = 64
_MAX_STEPS = 256
_MAX_DEPTH = 8
_MAX_WORD = 4096
_MAX_NAME = 256
_ANYWHERE = "/*/*/*"
_INNERMOST = r"\{([^{}]*)\}"
_EXPANSION = (
    r"\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`]*`|\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$[0-9@*#?$!-]"
)
_WITHIN = r"/[^\s\"'`;|&()<>{}:]*"


def closed_place(word: Word) -> str | None:
    """The reason why reading what this word names, or an option in it, is more than reading a file,
    as one clause, else None."""
    text = word.text
    if word.literal:
        if "dev" not in text and "proc" not in text:
            return None
        return _refusal(_names(text), word)
    source = word.source
    if "/" not in source:
        return None
    if len(source) > _MAX_WORD:
        return "a very long word could name a device"
    for spelling in _spellings(word):
        refusal = _refusal(spelling, word)
        if refusal is not None:
            return refusal
    return None


def reads_all(word: Word) -> bool:
    """Does a search in what this word names come by every process and device?"""
    return word.literal and word.text[:1] == "/" and normpath(word.text).strip("/") == ""


def _names(text: str) -> str:
    """The path in a word: behind a short option or a `=`, or all of it."""
    start = text.find("/")
    before = text[: max(start, 0)]
    if before.endswith("=") or (len(before) == 2 and before[0] == "-"):
        return text[start:]
    return text


def _spellings(word: Word) -> Iterator[str]:
    """Possible names in a word that is not all known, its expansions left out and by themselves."""
    bare = re.sub(r"""["'\\]""", "", word.source)
    if word.kind is WordKind.EXPANSION:
        within = ""
        for _ in range(_MAX_DEPTH):  # from the inside out
            found = _expansion().findall(bare)
            if not found:
                break
            within += " ".join(found)
            bare = _expansion().sub("", bare)
        else:
            yield _ANYWHERE
        yield from _within().findall(within)
    yield from map(_names, _unbraced(bare))


def _unbraced(text: str) -> list[str]:
    """The words that a brace list becomes, innermost first; more than a few are taken for a
    pattern."""
    done: list[str] = []
    waiting = [text]
    steps = 0
    while waiting:
        steps += 1
        if len(waiting) + len(done) > _MAX_SPELLINGS or steps > _MAX_STEPS:
            return [_ANYWHERE]
        each = waiting.pop()
        match = _innermost().search(each)
        if match is None:
            done.append(each)
            continue
        before, inner, after = each[: match.start()], match[1], each[match.end() :]
        options = inner.split(",") if "," in inner else ["*" if ".." in inner else inner]
        waiting += [before + option + after for option in options]
    return done


def _refusal(path: str, word: Word) -> str | None:
    shown = word.source or word.text
    absolute = path[:1] == "/"
    parts = normpath(path.lstrip("/") if absolute else path).split("/")
    climbs = not absolute and parts[0] == ".."
    parts = parts[next((at for at, part in enumerate(parts) if part != ".."), len(parts)) :]
    if not parts:
        return None
    if absolute:
        if parts[0] == "proc" and (len(parts) == 1 or parts[1] not in _OPEN_PROC):
            return f"{shown} may show the environment of a process"
        if parts[0] == "dev" and not _is_open_device("/" + "/".join(parts)):
            return f"{shown} names a device"
    # Only at the top can a pattern be what is told here; further down it would lead through a
    # symbolic link.
    top = absolute or climbs
    for at in range(len(parts) - 2):
        if _is_named(parts[at], "proc", pattern=top and at == 0) and _is_process(parts[at + 1]):
            return f"{shown} may show the environment of a process"
    in_dev = len(parts) > 1 and _is_named(parts[-2], "dev", pattern=top and len(parts) == 2)
    if in_dev and any(_fits(parts[-1], device) for device in _ENDLESS):
        return f"{shown} names a device"
    return None


def _is_open_device(path: str) -> bool:
    return path in _OPEN_PLACES or path.startswith("/dev/fd/")


def _is_named(part: str, name: str, *, pattern: bool) -> bool:
    return part == name or (pattern and _fits(part, name))


def _is_process(part: str) -> bool:
    return part.isdecimal() or any(_fits(part, process) for process in _PROCESSES)


def _fits(pattern: str, name: str) -> bool:
    """Could a glob be this name? A bracket counts as any character, and extended patterns as any
    text: never too strict."""
    if "(" in pattern or len(pattern) > _MAX_NAME:
        return True
    at = start = resume = 0
    star = -1
    pattern = re.sub(r"\[\]?[^\]]*\]", "?", pattern) if "[" in pattern else pattern
    for _ in range((len(pattern) + 1) * (len(name) + 1)):
        if start == len(name):
            return not pattern[at:].strip("*")
        if at < len(pattern) and pattern[at] == "*":
            star, resume = at, start
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[start]):
            at, start = at + 1, start + 1
        elif star >= 0:
            resume += 1
            at, start = star + 1, resume
        else:
            return False
    return True


@lru_cache(maxsize=1)
def _innermost() -> "re.Pattern[str]":
    return re.compile(_INNERMOST)


@lru_cache(maxsize=1)
def _expansion() -> "re.Pattern[str]":
    return re.compile(_EXPANSION)


@lru_cache(maxsize=1)
def _within() -> "re.Pattern[str]":
    return re.compile(_WITHIN)
