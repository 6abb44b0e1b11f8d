"""Does a command surely only read? Known options of known programs, never a list of bad ones."""

from collections.abc import Sequence

import msgspec

from alhena.shell.languages.reading_checks import CHECKS, FOLDERS_RUN, LANGUAGES, SUBCOMMANDS
from alhena.shell.options import ANYTHING, base_name
from alhena.shell.parse.model import Effect, Part, Word
from alhena.shell.strict_reading import Given, read_words, refuse_by_patterns
from alhena.shell.tables import (
    Program,
    listed,
    main_name,
    program,
    tells_version,
    why_absent,
)

_MOVES = "cd"
_CONDITION = "[["
_INERT = frozenset({_MOVES, _CONDITION, "true", "false", ":", "exit", "break", "continue"})

_BLANKS_AND_QUOTES = " \t\n\v\f\r\\\"'"
_PLACES = ("/bin/", "/usr/bin/", "/usr/local/bin/")


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
    found = judge_part(part)
    return found if isinstance(found, str) else None


def judge_part(part: Part) -> "Arguments | str | None":
    """`not_read_only`, or the arguments of a command that only reads, if a table divides them."""
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
    return _judge_program(name, part.words[1:])


def folder_may_run(part: Part) -> str | None:
    """The reason why the working directory's files can make a command that only reads run a
    program, as one clause, or None. Where a folder is not trusted, such a command is no read. For
    git that depends on whether there is a repository (`policy.working_directory`)."""
    words = part.words
    if adds_input(part):
        added = add_input(main_name(base_name(words[0].text)), words[1:])
        words = words if isinstance(added, str) else added.words
    name = program_name(words[0].text) if words and words[0].literal else None
    return FOLDERS_RUN.get(name or "")


def program_name(text: str) -> str | None:
    """The program a literal command word names: a bare name, or one in a system's directory."""
    place = next((each for each in _PLACES if text.startswith(each)), "")
    text = text.removeprefix(place)
    return None if "/" in text or not text else text


def refuse_program(name: str, words: Sequence[Word]) -> str | None:
    """The reason why a program with these words may do more than read, as one clause, or None."""
    found = _judge_program(name, words)
    return found if isinstance(found, str) else None


def _judge_program(name: str, words: Sequence[Word]) -> "Arguments | str | None":
    texts = [word.text for word in words if word.literal]
    if name in listed("only_says") or (
        len(texts) == len(words) == 1 and tells_version(name, texts[0])
    ):
        return None
    name = main_name(name)
    if name in listed("adds_input"):
        return _refuse_added(name, words)
    if name in LANGUAGES:
        return LANGUAGES[name](words)
    found = _divide(name, words)
    if isinstance(found, str):
        return found
    refusal = refuse_by_patterns(found.table, found.given)
    judge = SUBCOMMANDS.get(name)
    if refusal is None and judge is not None and found.key != name:
        refusal = judge(found.key, found.given)
    check = found.table.check
    return refusal or (CHECKS[check](found.given) if check else None) or found


class AddedInput(msgspec.Struct, frozen=True):
    """A command that gets words from the input of another (`xargs`), a word of which nothing is
    known in their place, and the characters that keep a name from being one of those words."""

    words: tuple[Word, ...]
    dividing: frozenset[str]


def adds_input(part: Part) -> bool:
    """Does a part give a command words from its input?"""
    return bool(part.words) and base_name(part.words[0].text) in listed("adds_input")


def add_input(name: str, words: Sequence[Word]) -> AddedInput | str:
    """The command that a program of the list `adds_input` runs, or one clause saying why that is
    not surely known."""
    table = program(name)
    if table is None or not table.reads:
        return why_absent(name)
    given = read_words(table, name, words)
    if isinstance(given, str):
        return given
    refusal = refuse_by_patterns(table, given)
    if refusal is not None or not given.operands or not given.operands[0].literal:
        return refusal or why_absent(name)
    command, *rest = given.operands
    marks = [word.text for word in given.values("-I")]
    if not marks:
        rest.append(ANYTHING)
    else:
        for word in given.operands:
            whole = word.text == marks[-1] and word is not command
            if not word.literal or (marks[-1] in word.text and not whole):
                return f"{word.source or word.text} may become more than a word that {name} reads"
        rest = [ANYTHING if word.text == marks[-1] else word for word in rest]
    lines = "\n" if given.has("-d", "--delimiter") else _BLANKS_AND_QUOTES
    return AddedInput((command, *rest), frozenset("\0" if given.has("-0", "--null") else lines))


def _refuse_added(name: str, words: Sequence[Word]) -> str | None:
    added = add_input(name, words)
    if isinstance(added, str):
        return added
    inner = program_name(added.words[0].text)
    if inner is None or main_name(inner) in listed("adds_input"):
        return why_absent(name)
    return refuse_program(inner, added.words[1:])


class Arguments(msgspec.Struct, frozen=True):
    """The words of a command that only reads, by the table of its program or subcommand, and the
    directories to which git goes first."""

    key: str
    table: Program
    given: Given
    moves: tuple[str, ...] = ()


def read_strictly(part: Part) -> Arguments | None:
    """The arguments of a command that only reads; None without a table that divides them."""
    head = part.words[0] if part.words else None
    name = main_name(program_name(head.text) or "") if head and head.literal else ""
    found = _divide(name, part.words[1:])
    return None if isinstance(found, str) else found


def _divide(name: str, words: Sequence[Word]) -> Arguments | str:
    """The arguments of a program, or one clause saying why they are not surely harmless."""
    table, moves, key = program(name), (), name
    if table is not None and "subcommand" in table.form:
        before = read_words(table, name, words)
        if isinstance(before, str):
            return before
        if not all(word.literal for word in before.values("-C")):
            return f"the directory after {name} -C is not known"
        if before.has("--version", "-v"):
            return Arguments(name, table, before)
        if not before.operands:
            return f"{name} needs a subcommand"
        moves = tuple(word.text for word in before.values("-C"))
        key, table, words = _subcommand(name, before.operands)
    elif table is not None and table.subcommands and words and words[0].literal:
        inner = program(f"{name} {words[0].text}")
        if inner is not None and inner.reads:
            key, table, words = f"{name} {words[0].text}", inner, words[1:]
    if table is None or not table.reads:
        return _why_refused(name, key, words)
    given = read_words(table, key, words)
    return given if isinstance(given, str) else Arguments(key, table, given, moves)


def _subcommand(name: str, words: Sequence[Word]) -> tuple[str, Program | None, Sequence[Word]]:
    """The subcommand at the head of `words`, with its table and what follows."""
    key = f"{name} {words[0].text}"
    if len(words) > 1 and words[1].literal:
        longer = f"{key} {words[1].text}"
        table = program(longer)
        if table is not None and table.reads:
            return longer, table, words[2:]
    return key, program(key), words[1:]


def _why_refused(name: str, key: str, words: Sequence[Word]) -> str:
    table = program(name)
    if key != name:
        network = key.removeprefix(f"{name} ") in listed("git_network")
        return f"{key} {'uses the network' if network else _UNLISTED.format('subcommands')}"
    subcommands = table.subcommands if table is not None else ()
    if words and words[0].literal and any(map(_reads, subcommands)):
        return f"{name} {words[0].text} {_UNLISTED.format('commands')}"
    return why_absent(name)


_UNLISTED = "is not in the list of {} that only read"


def _reads(name: str) -> bool:
    table = program(name)
    return table is not None and table.reads
