"""What the entry of a server, or a command line, has to be looked through for."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from alhena.config.choosing import is_choosing
from alhena.config.command_words import simple_commands

_OF_DATA = frozenset(
    {
        *("state", "statefile", "data", "datafile", "db", "dbfile", "database", "storage", "store"),
        *("memory", "cache", "log", "logs", "logfile", "output", "history", "journal", "pid"),
        *("pidfile", "lock", "lockfile", "socket", "session", "sessions"),
    }
)
_OF_PLACES = frozenset({"file", "path", "dir", "directory", "name", "folder", "location"})
"""How names of options and variables end that say that it is data, and what may come behind."""


class EntryWord(NamedTuple):
    """A word of a command. `command`: it is what is started; `given`: not by a variable; `chooses`:
    by one that is known to choose what runs; `state`: the name of its option or variable says that
    it is data."""

    text: str
    command: bool = False
    given: bool = True
    chooses: bool = False
    state: bool = False


class EntryWords(NamedTuple):
    """What an entry has to be looked through for: where it is started, its words, its command
    lines, and where programs are looked for."""

    cwd: str
    words: list[EntryWord]
    commands: list[list[str]]
    path: str


def entry_words(entry: Any, path: str) -> EntryWords:
    """What there is of an entry of `mcpServers`, or of a command line, if anything is run.
    `path` is where programs are looked for unless the entry says so itself."""
    if isinstance(entry, str):
        commands = list(simple_commands(entry))
        first = [EntryWord(words[0], command=True) for words in commands[:1]]
        return EntryWords("", _texts([*first, EntryWord(entry)]), commands, path)
    members = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    command, cwd, env = members.get("command"), members.get("cwd"), members.get("env")
    if not isinstance(command, str):
        return EntryWords("", [], [], path)
    arguments = members.get("args")
    argv = [command]
    if isinstance(arguments, list):
        argv += (each for each in cast("list[Any]", arguments) if isinstance(each, str))
    words = [EntryWord(command, command=True), *_arguments(argv[1:])]
    if isinstance(env, dict):
        table = cast("dict[str, Any]", env)
        words += (
            EntryWord(each, given=False, chooses=is_choosing(name), state=_says_data(name))
            for name, each in table.items()
            if isinstance(each, str)
        )
        path = table["PATH"] if isinstance(table.get("PATH"), str) else path
    place = cwd if isinstance(cwd, str) and "\0" not in cwd else ""
    return EntryWords(place, _texts(words), [argv], "" if "\0" in path else path)


def _arguments(arguments: list[str]) -> Iterator[EntryWord]:
    before = ""
    for each in arguments:
        option, equals, _ = each.partition("=") if each.startswith("-") else (before, "=", "")
        yield EntryWord(each, state=bool(equals) and option.startswith("-") and _says_data(option))
        before = each


def _says_data(name: str) -> bool:
    """Whether the name of an option or a variable says that what it names is data:
    `--state-file`, `MEMORY_FILE_PATH`."""
    if is_choosing(name):
        return False
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    while words and words[-1] in _OF_PLACES:
        words.pop()
    return bool(words) and words[-1] in _OF_DATA


def _texts(words: list[EntryWord]) -> list[EntryWord]:
    return [word for word in dict.fromkeys(words) if word.text and "\0" not in word.text]
