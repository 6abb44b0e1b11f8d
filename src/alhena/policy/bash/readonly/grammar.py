"""The words of a command that may only read, told apart by the program's table.

Known options and operands; what is not known is refused. Abbreviations of long options are not
known.
"""

from collections.abc import Sequence

import msgspec

from alhena.policy.bash.model import Word, WordKind
from alhena.policy.programs import Arity, Effect, Program, Style


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
            elif text == "--":
                self.operands.extend(words[self.at :])
                self.at = len(words)
            elif "leading" in self.table.form and self.operands:
                self.refusal = f"{text} stands after an operand"
            elif text[1] == "-":
                self._long(word)
            elif self.table.style is Style.WORDS:
                self._whole(word)
            else:
                self._short(word)
        if self.refusal is None:
            self._count()

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
            self.refusal = f"{word.source} could be an option; -- before it rules that out"

    def _long(self, word: Word) -> None:
        name, equals, value = word.text.partition("=")
        arity = self._arity(name)
        if arity is None:
            self._refuse(name)
        elif not equals:
            self._option(name, arity)
        elif arity == Arity.FLAG:
            self.refusal = f"{name} takes no value"
        else:
            self.options.append((name, Word(value, source=word.text)))

    def _whole(self, word: Word) -> None:
        text = word.text
        arity = self._arity(text)
        if arity is not None:
            self._option(text, arity)
        elif self._arity(text[:2]) not in {None, Arity.FLAG} and text[2:].isdigit():
            self.options.append((text[:2], Word(text[2:], source=text)))
        else:
            self._refuse(text)

    def _short(self, word: Word) -> None:
        text = word.text
        if self._arity("-NUM") is not None and text[1:].isdigit():
            return
        for place in range(1, len(text)):
            name = "-" + text[place]
            arity = self._arity(name)
            if arity is None:
                self._refuse(name)
                return
            if arity != Arity.FLAG:
                rest = text[place + 1 :]
                if arity == Arity.APART and not rest.isdecimal() and rest:
                    self.refusal = f"{text} has letters behind {name}, which takes the next word"
                elif rest:
                    self.options.append((name, Word(rest, source=name + rest)))
                else:
                    self._option(name, arity)
                return
            self.options.append((name, None))

    def _option(self, name: str, arity: Arity) -> None:
        last = self.at >= len(self.words)
        if arity in {Arity.FLAG, Arity.ATTACHED} or (last and arity == Arity.UNLESS_LAST):
            self.options.append((name, None))
            return
        if last:
            self.refusal = f"{name} lacks its value"
            return
        value = self.words[self.at]
        self.at += 1
        if self.guarded and not one_word(value):
            self.refusal = f"{value.source} could be more than one word"
        elif self.guarded and arity != Arity.DASHED and _looks_like_option(value):
            self.refusal = f"{value.source or value.text} could be an option"
        self.options.append((name, value))

    def _arity(self, name: str) -> Arity | None:
        """How an option that only reads takes a value; None for any other."""
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
