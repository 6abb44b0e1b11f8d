"""Programs that list files, and those that write names: git, find, fd, ls and others."""

import re
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from alhena.shell.arguments import operand_words, option_names
from alhena.shell.options import base_name, option_values
from alhena.shell.parse.model import Part, Word
from alhena.shell.secret_files import may_match_secret
from alhena.shell.tables import Program, listed, program

_GIT_LISTS = re.compile(r"git ls-files\b|git diff (?!.*--no-index).*--name-only(?: [\w@^-]+)*\Z")
_GIT_NAMES = re.compile(
    r"git (?:rev-parse(?: --(?:short|abbrev-ref|verify)(?:=\d+)?)+(?: [\w@~^-]+)?"
    r"|describe(?: --?[a-z-]+(?:=\d+)?)*|branch --show-current|rev-parse [\w@~^][\w@~^-]*)"
)
_PLAIN_GLOB = re.compile(r"[\w.*?-]+")
_LISTS_NAMES = frozenset(f"-{letter}" for letter in "1AdrtSUvX")
_LISTING = frozenset(
    {"-c", "-d", "-m", "-o", "-z", "--", "--cached", "--deleted", "--modified", "--others"}
    | {"--exclude-standard"}
)
"""Options with which `git ls-files` lists names and nothing else."""


def _table(name: str) -> Program:
    return program(name) or Program()


def lists_names(part: Part) -> bool:
    """True when a part writes nothing but names of files below where it runs, or what it is fed."""
    name = base_name(part.words[0].text) if part.words else ""
    texts = [each.text for each in part.words[1:]]
    if name in listed("sorts_names"):
        return part.stdin_piped and all(each[:1] == "-" or each.isdigit() for each in texts)
    flags = {letter for each in texts if each[:1] == "-" != each[1:2] for letter in each[1:]}
    options = {each for each in texts if each[:1] == "-"}
    match name:
        case "git":
            return texts[:1] == ["ls-files"] and options <= _LISTING
        case "find":
            wanted = [v for o, v in pairwise(texts) if o in {"-name", "-iname"}]
            return (
                bool(wanted)
                and not any(map(may_match_secret, wanted))
                and not (any("printf" in each for each in texts) or "-ls" in texts)
            )
        case "ls":
            return flags <= set("1dfrtS") and not any(each[:2] == "--" for each in options)
        case "fd":
            return not flags & set("aAHu") and not any("hidden" in e for e in texts)
        case _:
            return False


def lists_or_passes(part: Part) -> bool | None:
    """True when a part writes nothing but what it reads, or names of files that git knows; None
    when it writes names of the files below the directories that it looks through; else False."""
    words = part.words
    name = base_name(words[0].text) if words else ""
    if name in listed("passes_names"):
        return name != "grep" or part.stdin_piped
    if name == "git":
        return _GIT_LISTS.match(" ".join(word.text for word in words)) is not None
    if name not in listed("finders") | {"ls"} or any("printf" in w.text for w in words):
        return False
    others = option_names(_table(name), words) - _LISTS_NAMES if name == "ls" else ()
    return False if others else None


def lists_tracked(part: Part) -> bool:
    """Does a part list files that git tracks, and no others?"""
    words = part.words
    name = base_name(words[0].text) if words else ""
    return name == "git" and not {"-o", "--others"} & {w.text for w in words if w.literal}


class NamesFound(NamedTuple):
    """The names that a part lists: only those like the patterns `only`, if there are any; `below`:
    each begins with a directory that the part names."""

    only: tuple[str, ...] = ()
    below: bool = False


def names_found(part: Part) -> NamesFound:
    """The names that a part may list, by its words."""
    if not part.words or base_name(part.words[0].text) != "find":
        return NamesFound()
    texts = [word.text for word in part.words[1:] if word.literal]
    names = tuple(v for o, v in pairwise(texts) if o == "-name" and _PLAIN_GLOB.fullmatch(v))
    mixed = {"-o", "-or", "-not", "!", ",", "-iname"} & set(texts)
    return NamesFound(() if mixed else names, below=True)


def tells_name(words: tuple[Word, ...]) -> bool:
    """Does a command surely write a name without slashes that is not `..`?"""
    if not all(word.literal for word in words):
        return False
    name = base_name(words[0].text)
    if name == "git":
        return _GIT_NAMES.fullmatch(" ".join(word.text for word in words)) is not None
    dotted = any("." in w.text or "/" in w.text for w in words[1:])
    return name in listed("tells_name") and not dotted


class Written(Enum):
    """The directory that a command writes the path of."""

    PLACE = 0
    REPOSITORY = 1
    TEMPORARY = 2


def written_directory(texts: list[str]) -> Written | None:
    """The directory whose path a command surely writes."""
    if texts == ["pwd"]:
        return Written.PLACE
    if texts == ["git", "rev-parse", "--show-toplevel"]:
        return Written.REPOSITORY
    made = bool(texts) and base_name(texts[0]) == "mktemp"
    if made and not any("/" in text or "p" in text[:4] for text in texts[1:]):
        return Written.TEMPORARY
    return None


def cuts_names(words: tuple[Word, ...]) -> bool:
    """Does a command write the last name of each path that it is given?"""
    return words[0].literal and base_name(words[0].text) == "basename"


def search_roots(words: tuple[Word, ...]) -> list[Word]:
    """The directories that find, fd or ls looks through."""
    name = base_name(words[0].text)
    if name in {"fd", "fdfind"}:
        stop = next(
            (at for at, w in enumerate(words) if w.text in listed("find_actions")), len(words)
        )
        roots = operand_words(_table(name), words[:stop])[1:]
        return [*roots, *option_values(words[:stop], "", "search-path base-directory")] or [
            Word(".")
        ]
    roots: list[Word] = []
    for word in words[1:]:
        if word.text[:1] in {"-", "(", "!", ")"} and word.text not in {"-H", "-L", "-P"}:
            if name != "ls":
                break
            continue
        roots += [] if word.text[:1] == "-" else [word]
    return roots or [Word(".")]
