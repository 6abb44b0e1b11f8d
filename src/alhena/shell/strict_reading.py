"""The words of a command by a table, each known for certain: what is not known is refused, also
abbreviations of long options."""

from collections.abc import Sequence

import msgspec

from alhena.shell.languages.builtins import one_word
from alhena.shell.options import options_in
from alhena.shell.parse.model import Word, WordKind
from alhena.shell.tables import (
    Arity,
    Program,
    matches,
)
from alhena.shell.tables import Effect as OptionEffect

_PIPE = "<("
"""A process substitution becomes the name of a pipe, /dev/fd/63."""


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
    ended: int
    """The number of operands before `--`; those behind it are no options, whatever they become."""
    late: list[Word]
    """Values of options, words of their own, behind an operand: to programs that end their options
    there, they are operands."""

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
    ended = len(reading.operands) if reading.ended is None else reading.ended
    return reading.refusal or Given(reading.options, reading.operands, ended, reading.late)


class _Reading:
    def __init__(self, table: Program, program: str, words: Sequence[Word]) -> None:
        self.table = table
        self.program = program
        self.words = words
        self.at = 0
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.late: list[Word] = []
        self.ended: int | None = None
        self.refusal: str | None = None
        self.expression = "expression" in table.form
        self.guarded = "guarded" in table.form or table.operands is not None

    def read(self) -> None:
        words = self.words
        while self.at < len(words) and self.refusal is None:
            word = words[self.at]
            self.at += 1
            text = word.text
            if not word.literal and "subcommand" in self.table.form:
                self.refusal = f"{word.source} could be any subcommand"
            elif not word.literal:
                self._unknown(word)
            elif text[:1] != "-" or text == "-":
                self.operands.append(word)
                if "subcommand" in self.table.form:
                    self._rest()
            elif text == "--" and not self.expression:
                self.ended = len(self.operands)
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
        name, equals, text = word.text.partition("=")
        valued = equals and self._arity(name) not in {None, Arity.FLAG}
        if valued and (one_word(word) or word.kind is WordKind.PATTERN):
            self.options.append((name, Word(text, word.kind, word.source, word.split)))
        elif not self.guarded or surely_operand(word):
            self.operands.append(word)
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
        if self.operands:
            self.late.append(value)

    def _arity(self, name: str) -> Arity | None:
        """The arity of an option that only reads; None for any other."""
        option = self.table.options.get(name)
        return option.arity if option is not None and option.reads else None

    def _refuse(self, name: str) -> None:
        option = self.table.options.get(name)
        clause = self.table.refuses.get(name) or (option.effect if option else OptionEffect.NONE)
        self.refusal = (
            f"{name} {clause}" if clause else f"{name} is not a known option of {self.program}"
        )


def _looks_like_option(word: Word) -> bool:
    text = word.text
    return text[:1] == "-" and text != "-" and not (word.literal and text[1:].isdigit())


def _operands(count: int) -> str:
    return "an operand" if count == 1 else f"{count} operands"


def refuse_by_patterns(table: Program, given: Given) -> str | None:
    """The reason why operands or values of options may do more than read, by the patterns of the
    table; None when none does."""
    for clause, pattern in table.operand_pattern.items():
        for word in given.operands:
            if not matches(pattern, word.text, known=word.literal):
                return f"{word.source or word.text} {clause}"
    for option, value in given.options:
        pattern = table.harmless.get(option)
        if pattern and value and not matches(pattern, value.text, known=value.literal):
            return f"{value.source or value.text} is not known to only read"
    return None
