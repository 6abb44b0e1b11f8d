"""One command as a value: its program, options and operands, each with its part in the command."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from alhena.shell.arguments import Argument, walk_arguments
from alhena.shell.languages.builtins import one_word
from alhena.shell.languages.interpreters import scripts_in
from alhena.shell.languages.reading_checks import SCRIPTS
from alhena.shell.options import (
    ANYTHING,
    base_name,
    behind_subcommands,
    command_keys,
    inner_command,
)
from alhena.shell.outputs import written_words
from alhena.shell.parse.model import Part, Redirection, Word, WordKind
from alhena.shell.readonly import Arguments, read_strictly
from alhena.shell.tables import Effect, FileRole, Program, listed, main_name, program
from alhena.shell.tables import Option as Entry

_PLAIN = Program()


class Role(StrEnum):
    """The part of a word in a command. One that may name a file, as far as the tables know, is
    taken to."""

    READS = "reads"  # a file that it reads, or a directory that it lists
    WRITES = "writes"  # a file that it writes, overwrites or removes
    SCRIPT = "script"  # code: of a shell, of sed, awk or jq, of an interpreter
    PATTERN = "pattern"  # a pattern that it looks for, or that chooses files
    NAME = "name"  # no file: a text, a number, a name
    LIST = "list"  # a file that lists files
    TREE = "tree"  # a file, or a directory that it reads with all that is below


class Option(msgspec.Struct, frozen=True):
    """An option: its name in the table or, where there is none, as written; its value with the role
    of that; its entry in the table, None for an unknown option. `sure` is false when the value may
    be a word of its own, or several."""

    name: str
    value: Word | None = None
    role: Role = Role.NAME
    entry: Entry | None = None
    sure: bool = True


class Operand(msgspec.Struct, frozen=True):
    """A word that is neither an option nor the value of one."""

    word: Word
    role: Role


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command that a line may run.

    `program`: its name, without directory and by its main name (`grep` for `egrep`); empty when it
    is only known when the line runs. `path`: the program and its subcommands (`git`, `log`).
    `options`, `operands`: of a wrapper (`sudo`, `xargs`) its own. `inner`: all commands that it
    runs. `sure` is false when it is a guess, such as a word in the code of an interpreter. `via` is
    what runs it, empty for a command of the line itself. `redirections` and `directories` (each
    `cd` before it) are those of the line.
    """

    words: tuple[Word, ...]
    program: str = ""
    path: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    operands: tuple[Operand, ...] = ()
    inner: tuple["Command", ...] = ()
    sure: bool = True
    via: str = ""
    redirections: tuple[Redirection, ...] = ()
    directories: tuple[Word, ...] = ()

    @property
    def files(self) -> Iterator[tuple[Role, Word]]:
        """The words that may name files, with their roles."""
        for each in self.options:
            if each.value is not None and each.role in FILES and not each.value.text.isdigit():
                yield each.role, each.value
        for each in self.operands:
            if each.role in FILES:
                yield each.role, each.word


FILES = frozenset({Role.READS, Role.WRITES, Role.LIST, Role.TREE})
"""The roles of words that name files."""


def read_command(words: tuple[Word, ...]) -> Command:
    """A command by its words. Of one that only reads the tables know every word; the words of any
    other are read as far as they know them."""
    head = words[0] if words else ANYTHING
    if not head.literal:
        operands = tuple(Operand(word, Role.READS) for word in words[1:])
        return Command(words=words, operands=operands)
    name = main_name(base_name(head.text))
    own, wraps = _own_words(name, words)
    strict = read_strictly(Part(text="", words=own))
    if strict is not None:
        key, options, operands = strict.key, tuple(options_of(strict)), tuple(operands_of(strict))
    else:
        key, options, operands = _read_widely(name, own)
        if wraps:
            operands = tuple(Operand(each.word, Role.NAME) for each in operands)
    return Command(
        words=words,
        program=name,
        path=tuple(key.split(" ")),
        options=options,
        operands=operands,
    )


def _own_words(name: str, words: tuple[Word, ...]) -> tuple[tuple[Word, ...], bool]:
    """The words of a command without those of one that it runs, and whether it is a wrapper."""
    inner = inner_command(words)
    if inner is not None and inner.starts:
        return words[: min(at for at, _ in inner.starts)], True
    if name in listed("finders"):
        actions = (at for at, word in enumerate(words) if word.text in listed("find_actions"))
        return words[: next(actions, len(words))], False
    return words, False


def operands_of(arguments: Arguments) -> Iterator[Operand]:
    """The operands of a command that only reads, with their roles."""
    given, table = arguments.given, arguments.table
    role = Role.TREE if plays(arguments, FileRole.TREES) else Role.READS
    role = Role.NAME if arguments.key in listed("takes_text") else role
    options = table.files.get(FileRole.PATTERN)
    for at, word in enumerate(given.operands):
        if at or options is None or given.has(*options):
            yield Operand(word, role)
            continue
        # A word that is not literal may be nothing, several words or an option.
        sure = word.literal or (given.ended == 0 and one_word(word))
        yield Operand(word, _pattern_role(table) if sure else role)


def options_of(arguments: Arguments) -> Iterator[Option]:
    """The options of a command that only reads, with the roles of their values."""
    table = arguments.table
    patterns = (FileRole.PATTERN, FileRole.ONLY, FileRole.WITHOUT)
    for name, value in arguments.given.options:
        entry = table.options.get(name)
        if value is None:
            yield Option(name, entry=entry)
            continue
        role = Role.LIST if name in table.files.get(FileRole.LISTS, ()) else Role.READS
        sure = _is_one(name, value)
        if sure and name in table.files.get(FileRole.TEXTS, ()):
            chooses = any(name in table.files.get(each, ()) for each in patterns)
            role = _pattern_role(table) if chooses else Role.NAME
        source = value.source.removeprefix(f"{name}=")
        word = Word(value.text, value.kind, source, value.split)
        yield Option(name, word, role, entry, sure)


def plays(arguments: Arguments, role: FileRole) -> bool:
    """Does an option play this part, or does it need none?"""
    options = arguments.table.files.get(role, ())
    return bool(options) and (options == ("*",) or arguments.given.has(*options))


def _pattern_role(table: Program) -> Role:
    return Role.SCRIPT if table.check in SCRIPTS else Role.PATTERN


def _is_one(option: str, value: Word) -> bool:
    """Is the value surely the option's, and no other word? A glob attached to it is."""
    glob = value.kind is WordKind.PATTERN and value.source.startswith(f"{option}=")
    return one_word(value) or glob


def _read_widely(
    name: str, words: tuple[Word, ...]
) -> tuple[str, tuple[Option, ...], tuple[Operand, ...]]:
    """The path, options and operands of a command that may do more than read."""
    key = next((each for each in command_keys(name, words) if program(each)), name)
    begin = behind_subcommands(words, key.split(" ")[1:]) or 1
    table = program(key) or _PLAIN
    roles = _Roles(table, key, words)
    options: list[Option] = []
    operands: list[Operand] = []
    for argument in walk_arguments(program(name) or _PLAIN, words[: begin - 1]):
        options += roles.options(argument)  # options before the subcommand
    for argument in walk_arguments(table, words[begin - 1 :]):
        if argument.may_be_operand:
            operands.append(Operand(argument.word, roles.of(argument.word)))
        options += roles.options(argument)
    return key, tuple(options), tuple(operands)


class _Roles:
    """The roles of the words of a command that may do more than read."""

    def __init__(self, table: Program, key: str, words: tuple[Word, ...]) -> None:
        self._table = table
        self._scripts = scripts_in(words)
        self._written = list(written_words(words))
        self._other = Role.NAME if key in listed("takes_text") else Role.READS

    def of(self, word: Word) -> Role:
        """The role of an operand."""
        if any(each is word for each in self._scripts):
            return Role.SCRIPT
        return Role.WRITES if any(each is word for each in self._written) else self._other

    def options(self, argument: Argument) -> Iterator[Option]:
        """The options in a word, with the roles of their values."""
        for found in argument.options:
            name = found.names[0] if found.names else found.shown
            entry = self._table.options.get(name)
            value = found.value or found.following
            code = entry is not None and entry.effect is Effect.CODE
            role = Role.SCRIPT if code else self._value_role(value)
            yield Option(name, value, role, entry)

    def _value_role(self, value: Word | None) -> Role:
        if value is None:
            return Role.NAME
        if any(each.text == value.text for each in self._scripts):
            return Role.SCRIPT
        if any(each.text == value.text for each in self._written):
            return Role.WRITES
        return Role.READS
