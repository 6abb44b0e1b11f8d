"""Does a command surely only read? Known options of known programs, never a list of bad ones."""

from collections.abc import Sequence

import msgspec

from alhena.shell.languages.git_reading import git_table, refuse_git
from alhena.shell.languages.reading_checks import CHECKS, LANGUAGES
from alhena.shell.parse.model import Effect, Part, Word
from alhena.shell.strict_reading import Given, read_words, refuse_by_patterns
from alhena.shell.tables import (
    Program,
    main_name,
    program,
    tells_version,
    why_absent,
)

_MOVES = "cd"
_CONDITION = "[["
_INERT = frozenset({_MOVES, _CONDITION, "true", "false", ":", "exit", "break", "continue"})

_PLACES = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_SAYS_ONLY = frozenset(["echo", "expr", "true", "false", ":"])


def is_inert(part: Part) -> bool:
    """Does the part run nothing and change no file? It may change the directory of the shell."""
    words = part.words
    if not words or words[0].text not in _INERT:
        return False
    if part.assignments or any(each.effect is not Effect.NONE for each in part.redirections):
        return False
    if words[0].text == _CONDITION:
        return True  # what runs within it is a part of its own
    if not all(word.literal for word in words):
        return False
    if words[0].text == _MOVES:
        return len(words) == 2
    return all(word.text.isdigit() for word in words[1:])


def changes_directory(part: Part) -> bool:
    """Is this a `cd`?"""
    return bool(part.words) and part.words[0].text == _MOVES


def not_read_only(part: Part) -> str | None:
    """The reason why the command may do more than read, as one clause, or None when it surely only
    reads: writes no file, runs no program that its words or the folder's files name, uses no
    network. Whether its words can be trusted (doubts) and which files it reads are not asked here
    (`working_directory`); what a program keeps for itself (git's index) does not count."""
    if not part.words:
        return "no program is named"
    if part.assignments:
        return f"{part.assignments[0].source} changes the environment"
    for each in part.redirections:
        if each.effect is Effect.WRITE:
            harm = "could open a network connection" if each.operator == "<" else "writes"
            return f"{each.source} {harm}"
    first = part.words[0]
    name = program_name(first.text) if first.literal else None
    if name is None:
        return f"{first.source or first.text} is not the plain name of a program"
    return _refuse_program(name, part.words[1:])


def folder_may_run(part: Part) -> str | None:
    """The reason why the working directory's files can make a command that only reads run a
    program, as one clause, or None. Where a folder is not trusted, such a command is no read. For
    git that depends on whether there is a repository (`policy.places`)."""
    words = part.words
    name = program_name(words[0].text) if words and words[0].literal else None
    if name == "go":
        return "go fetches and runs the toolchain that go.mod names"
    return None


def program_name(text: str) -> str | None:
    """The program a literal command word names: a bare name, or one in a system's directory."""
    place = next((each for each in _PLACES if text.startswith(each)), "")
    text = text.removeprefix(place)
    return None if "/" in text or not text else text


def _refuse_program(name: str, words: Sequence[Word]) -> str | None:
    texts = [word.text for word in words if word.literal]
    if name in _SAYS_ONLY or (len(texts) == len(words) == 1 and tells_version(name, texts[0])):
        return None
    name = main_name(name)
    if name == "git":
        return refuse_git(words)
    if name in LANGUAGES:
        return LANGUAGES[name](words)
    key, table, words = _table_of(name, words)
    if table is None or not table.reads:
        if table is not None and texts and words[0].literal and any(map(_reads, table.subcommands)):
            return f"{name} {texts[0]} is not in the list of commands that only read"
        return why_absent(name)
    return _refuse_by_table(key, table, words)


def _table_of(name: str, words: Sequence[Word]) -> tuple[str, Program | None, Sequence[Word]]:
    """The program or its subcommand, with its table and the words that belong to it."""
    table = program(name)
    if table is not None and table.subcommands and words and words[0].literal:
        key = f"{name} {words[0].text}"
        inner = program(key)
        if inner is not None and inner.reads:
            return key, inner, words[1:]
    return name, table, words


class Arguments(msgspec.Struct, frozen=True):
    """The words of a command that only reads, by the table of its program or subcommand, and the
    directories to which git goes first."""

    key: str
    table: Program
    given: Given
    moves: tuple[str, ...] = ()


def read_strictly(part: Part) -> Arguments | None:
    """The arguments of a command that only reads; None without a table that divides them."""
    words = part.words[1:]
    head = part.words[0] if part.words else None
    name = main_name(program_name(head.text) or "") if head and head.literal else ""
    table = program(name)
    moves: tuple[str, ...] = ()
    if name != "git" or table is None:
        key, table, words = _table_of(name, words)
    else:
        before = read_words(table, name, words)
        if isinstance(before, str) or not before.operands:
            return None
        moves = tuple(word.text for word in before.values("-C"))
        key, table, words = git_table(before.operands)
    given = read_words(table, key, words) if table is not None and table.reads else ""
    if table is None or isinstance(given, str):
        return None
    return Arguments(key, table, given, moves)


def _reads(name: str) -> bool:
    table = program(name)
    return table is not None and table.reads


def _refuse_by_table(name: str, table: Program, words: Sequence[Word]) -> str | None:
    given = read_words(table, name, words)
    if isinstance(given, str):
        return given
    refusal = refuse_by_patterns(table, given)
    return refusal or (CHECKS[table.check](given) if table.check else None)
