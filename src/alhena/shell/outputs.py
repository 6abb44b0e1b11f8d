"""The words of a command that name the files which it removes or overwrites."""

from collections.abc import Iterator
from functools import lru_cache

from alhena.shell.arguments import Kind, walk_arguments
from alhena.shell.options import base_name, first_operands, is_option, options_in
from alhena.shell.parse.model import Word
from alhena.shell.tables import (
    ONE_DASH,
    Arity,
    Effect,
    Option,
    Program,
    global_options,
    listed,
    main_name,
    program,
    removal,
)
from alhena.values import Value

_TAR_VALUES = frozenset("bCfFgHIKLNTVX")
_ARCHIVE_CHANGES = frozenset("rqdms")
_CHOSEN = {
    "all": slice(None),
    "archive": slice(1, 2),
    "final": slice(-1, None),
    "first": slice(1),
    "last": slice(-1, None),
    "rest": slice(1, None),
    "script": slice(1, None),
}
_SHORTEST = 5
"""Characters of the shortest beginning of a long option that is taken for it."""


class Removal(Value, frozen=True):
    """The words of a program that it removes or overwrites, as `names.toml` describes them.

    `operands`: all, first, rest (all but the first), last (of several), final, roots,
    archive (the second, if the first has letters of `ar` that change it), script (not the first,
    unless an option gives the script), none, always (the program spoils more than files); `needs`:
    only with one of these options; `unless`: not with these; `written`: options whose value is
    written, too; `valued`: others with a value. `entries`: a link is removed itself. `apart`: its
    letters are never joined."""

    operands: str
    needs: frozenset[str] = frozenset()
    unless: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    entries: bool = False
    apart: bool = False

    def applies(self, words: tuple[Word, ...]) -> bool:
        """Does a command with these words remove or overwrite anything in this way?"""
        if self.unless:
            surely = self._surely_given(words)
            if any(_is_given(each, surely) for each in self.unless):
                return False
        given = set(letters_of(words))
        return not self.needs or any(_is_given(each, given) for each in self.needs)

    def _surely_given(self, words: tuple[Word, ...]) -> set[str]:
        """The options of a command that can be nothing else, such as the value of another."""
        known = {name: Option(Arity.VALUE) for name in self.valued | self.written}
        groups = tuple(name for name in known if len(name) > 2 and name[1] != "-")
        table = Program(options=known, letter_groups=groups)
        found: set[str] = set()
        for argument in walk_arguments(table, dash_letters(words)):
            if argument.kind is Kind.OPTION and not argument.repeated:
                found.add(argument.word.text.partition("=")[0])
                found |= {each.shown for each in argument.options}
        return found

    def operands_of(self, words: tuple[Word, ...]) -> list[Word]:
        """The words that are no options, nor values of options."""
        return operands_in(dash_letters(words), self.valued | self.written)

    def chosen(self, words: tuple[Word, ...], operands: list[Word]) -> list[Word]:
        """The operands that are removed or overwritten."""
        given = set(letters_of(words))
        match self.operands:
            case "archive" if given & {f"-{letter}" for letter in _ARCHIVE_CHANGES}:
                return operands[:1]
            case "archive" if not operands or not _ARCHIVE_CHANGES & set(operands[0].text):
                return []
            case "last" if self._surely_given(words) & {"-t", "--target-directory"}:
                return []
            case "last" if len(operands) < 2 and all(each.literal for each in operands):
                return []
            case "script" if given & {"-e", "-f", "--expression", "--file", "-E"}:
                return operands
            case "of=":
                return [_cut_start(w, 3) for w in operands if w.text.startswith("of=")]
            case kind:
                return operands[_CHOSEN[kind]] if kind in _CHOSEN else []

    def values(self, words: tuple[Word, ...]) -> Iterator[Word]:
        """The values of the options that name what is written."""
        words = dash_letters(words)
        for at, word in enumerate(words):
            if not at or not is_option(word):
                continue
            start = self._value_start(word.text)
            if start is None:
                continue
            if start < len(word.text) or not word.literal:
                yield _cut_start(word, start)
            elif at + 1 < len(words):
                yield words[at + 1]

    def _value_start(self, text: str) -> int | None:
        """The offset in an option at which the value of a `written` one begins; its length where
        that is the next word."""
        name, sign, _ = text.partition("=")
        if any(_is_given(each, {name}) for each in self.written):
            return len(name) + len(sign)
        if text[:2] == "--":
            return None
        for each in self.written:
            if each[:2] != "--" and text.startswith(each) and (len(each) == 2 or each[1] != "-"):
                return len(each)
        for at, letter in enumerate(text[1:] if not self.apart else "", start=1):
            if f"-{letter}" in self.written:
                return at + 1
            if f"-{letter}" in self.valued or not letter.isalnum():
                break
        return None


def removing(name: str, words: tuple[Word, ...]) -> tuple[str, tuple[Word, ...]]:
    """The program with its subcommands, as far as it is known to destroy with them, and the words
    from there."""
    found = first_operands(words, global_options(name), 2)
    for count in range(len(found), 0, -1):
        key = " ".join((name, *(words[at].text for at in found[:count])))
        if removal(key) is not None or program(key) is not None:
            return key, words[found[count - 1] :]
    return name, words


def removals_of(name: str, key: str) -> tuple[Removal, ...]:
    """The ways in which a program with these subcommands removes or overwrites files."""
    known = program(key) is not None or program(name) is not None
    return removals("mkfs" if name.startswith("mkfs") else key, in_table=known)


def written_words(words: tuple[Word, ...]) -> Iterator[Word]:
    """The words that name the files which a command removes or overwrites."""
    name = main_name(base_name(words[0].text))
    key, behind = removing(name, words)
    for each in removals_of(name, key):
        if each.applies(behind):
            yield from each.chosen(behind, each.operands_of(behind))
            yield from each.values(behind)
    table = program(key) or program(name)
    for _, value in option_outputs(behind, table) if table is not None else ():
        yield value


@lru_cache(maxsize=256)
def removals(name: str, *, in_table: bool = True) -> tuple[Removal, ...]:
    """The ways in which a program removes or overwrites files. One that has neither such an entry
    nor a table is taken to write what the usual options for output name."""
    text = removal(name) or (removal("*") if not in_table else None)
    table = program(name)
    one_dash = name in listed("one_dash") or (table is not None and table.style in ONE_DASH)
    return tuple(_read(each, apart=one_dash) for each in text.split(";")) if text else ()


def _read(text: str, *, apart: bool) -> Removal:
    kind, *rest = text.split()
    marked = {mark: [each[1:] for each in rest if each[0] == mark] for mark in "?!>"}
    return Removal(
        operands=kind.removesuffix("/"),
        needs=frozenset(marked["?"]),
        unless=frozenset(marked["!"]),
        written=frozenset(each.rstrip(":=") for each in marked[">"]),
        valued=frozenset(each.rstrip(":=") for each in rest if each[0] == "-"),
        entries=kind.endswith("/"),
        apart=apart,
    )


def _is_given(option: str, given: set[str]) -> bool:
    """Is an option among those given, a long one perhaps shortened?"""
    if option in given:
        return True
    return option[:2] == "--" and any(
        len(each) >= _SHORTEST and option.startswith(each) for each in given
    )


def _cut_start(word: Word, start: int) -> Word:
    """A word without its first characters, which are surely known."""
    cut = word.source.find(word.text[:start]) + start if word.source else 0
    return Word(word.text[start:], word.kind, word.source[cut:], word.split)


def dash_letters(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of `tar xCf .. a.tar` as `tar -x -C .. -f a.tar`."""
    name = base_name(words[0].text)
    if name not in {"bsdtar", "gtar", "tar"} or len(words) < 2 or not words[1].text.isalnum():
        return words
    found, at = [words[0]], 2
    for letter in words[1].text:
        found.append(Word(f"-{letter}"))
        if letter in _TAR_VALUES:
            found += words[at : at + 1]
            at += 1
    return (*found, *words[at:])


def letters_of(words: tuple[Word, ...]) -> Iterator[str]:
    """The options of a command: whole, and letter by letter."""
    for word in dash_letters(words)[1:]:
        if is_option(word):
            yield word.text.partition("=")[0]
            if word.text[:2] != "--":
                yield from (f"-{letter}" for letter in word.text[1:])


def operands_in(words: tuple[Word, ...], valued: frozenset[str] = frozenset()) -> list[Word]:
    """The words that are no options, nor values of the options in `valued`."""
    found: list[Word] = []
    at, ended = 1, False
    while at < len(words):
        word = words[at]
        if not ended and word.literal and word.text == "--":
            ended = True
        elif ended or not is_option(word):
            found.append(word)
        elif word.text in valued or (word.text[:2] != "--" and f"-{word.text[-1]}" in valued):
            at += 1
        at += 1
    return found


def option_outputs(words: tuple[Word, ...], table: Program) -> Iterator[tuple[str, Word]]:
    """The options by which a program writes a file, with the files, by its table."""
    for at, word in enumerate(words):
        if not at or not is_option(word):
            continue
        for found in options_in(table, word):
            if not any(_names_output(table, name) for name in found.names):
                continue
            attached = found.value
            if attached is not None:
                cut = len(word.text) - len(attached.text)
                yield found.shown, Word(attached.text, word.kind, word.source[cut:], word.split)
            elif at + 1 < len(words) and any(map(table.takes_next, found.names)):
                yield found.shown, words[at + 1]


def _names_output(table: Program, name: str) -> bool:
    effect = table.effect_of(name)
    return effect is Effect.WRITES or (effect is Effect.ELSEWHERE and name in listed("outputs"))
