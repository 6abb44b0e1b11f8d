"""The words of a command by a table, each known for certain: what is not known is refused, also
abbreviations of long options."""

from collections.abc import Sequence

import msgspec

from alhena.shell.arguments import Argument, Kind, walk_arguments
from alhena.shell.languages.builtins import one_word
from alhena.shell.parse.model import Word, WordKind
from alhena.shell.tables import Arity, Program, matches
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
    judge = _Judge(table, program)
    for argument in walk_arguments(table, words, 0, exact=True):
        refusal = judge.refuse(argument)
        if refusal is not None:
            return refusal
        if judge.given.operands and judge.has_subcommand:
            judge.given.operands += words[argument.last + 1 :]
            judge.given.ended = len(judge.given.operands)
            break
    return judge.refuse_count() or judge.given


class _Judge:
    """Tells the arguments of a command apart, and refuses those that do more than read."""

    def __init__(self, table: Program, program: str) -> None:
        self.table, self.program = table, program
        self.given = Given([], [], 0, [])
        self.ended = False
        self.has_subcommand = "subcommand" in table.form
        self.guarded = "guarded" in table.form or table.operands is not None

    def refuse(self, argument: Argument) -> str | None:
        """The reason why an argument is not surely harmless, as one clause; None when it is."""
        word = argument.word
        if argument.kind is Kind.END:
            self.ended = True
        elif not word.literal and not self.ended:
            return self._refuse_unknown(word)
        elif argument.kind is Kind.OPERAND:
            self._add_operand(word)
        elif self.given.operands and "leading" in self.table.form:
            return f"{word.text} comes after an operand"
        else:
            return self._refuse_options(argument)
        return None

    def _add_operand(self, word: Word) -> None:
        self.given.operands.append(word)
        self.given.ended += not self.ended

    def _refuse_unknown(self, word: Word) -> str | None:
        if self.has_subcommand:
            return f"{word.source} could be any subcommand"
        name, equals, text = word.text.partition("=")
        valued = equals and self._arity(name) not in {None, Arity.FLAG}
        if valued and (one_word(word) or word.kind is WordKind.PATTERN):
            self.given.options.append((name, Word(text, word.kind, word.source, word.split)))
        elif not self.guarded or surely_operand(word):
            self._add_operand(word)
        else:
            before = "./" if "expression" in self.table.form else "--"
            return f"{word.source} could be an option; {before} before it rules that out"
        return None

    def _refuse_options(self, argument: Argument) -> str | None:
        text = argument.word.text
        for found in argument.options:
            name = found.names[0] if len(found.names) == 1 else ""
            arity, value = self._arity(name), found.value
            if arity is None or name != found.shown:
                return self._refuse_option(found.shown)
            if arity is Arity.APART and value is None and text[-1] != name[1]:
                return f"{text} has letters behind {name}, which takes the next word"
            if value is None:
                refusal = self._refuse_value(name, arity, found.following)
                if refusal is not None:
                    return refusal
            elif arity is Arity.FLAG:
                return f"{name} takes no value"
            else:
                equals = "=" if name[:2] == "--" else ""
                source = f"{name}{equals}{value.text}"
                self.given.options.append((name, Word(value.text, source=source)))
        return None

    def _refuse_value(self, name: str, arity: Arity, value: Word | None) -> str | None:
        self.given.options.append((name, value))
        if value is None:
            needless = (Arity.FLAG, Arity.ATTACHED, Arity.UNLESS_LAST)
            pair = " name and" if arity is Arity.PAIR else ""
            return None if arity in needless else f"{name} lacks its{pair} value"
        if self.given.operands:
            self.given.late.append(value)
        if self.guarded and not one_word(value):
            return f"{value.source} could be more than one word"
        if self.guarded and arity is not Arity.DASHED and _looks_like_option(value):
            return f"{value.source or value.text} could be an option"
        return None

    def refuse_count(self) -> str | None:
        """The reason why the number of operands, or what is missing, is not harmless."""
        operands, refusal = self.given.operands, None
        if self.table.operands is not None:
            many = next((word for word in operands if not one_word(word)), None)
            if len(operands) > self.table.operands:
                refusal = f"{self.program} with {_operands(len(operands))} may not only read"
            elif many is not None:
                refusal = f"{many.source} could be more than one word"
        for names, clause in self.table.needs:
            if not self.given.has(*names):
                refusal = f"{self.program} without {' or '.join(sorted(names))} {clause}"
        return refusal

    def _arity(self, name: str) -> Arity | None:
        """The arity of an option that only reads; None for any other."""
        option = self.table.options.get(name)
        return option.arity if option is not None and option.reads else None

    def _refuse_option(self, name: str) -> str:
        option = self.table.options.get(name)
        clause = self.table.refuses.get(name) or (option.effect if option else OptionEffect.NONE)
        return f"{name} {clause}" if clause else f"{name} is not a known option of {self.program}"


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
