"""The files that a command line may name, for rules with `paths` that deny or ask."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import escape, iglob
from itertools import islice

from alhena.policy.conditions import SECRETS, TouchedPaths
from alhena.policy.files_read import file_words, leaves_workspace, searched_secrets
from alhena.policy.surroundings import Surroundings
from alhena.shell.languages.reading_checks import SCRIPTS
from alhena.shell.options import base_name, is_console
from alhena.shell.parse.expansion import NAME, PLACE, STAR, UnknownError, Variables
from alhena.shell.parse.model import Part, Redirection, Word
from alhena.shell.prefix import Match
from alhena.shell.reach import Reach, Reached
from alhena.shell.readonly import not_read_only
from alhena.shell.tables import FileRole, interpreter, listed, program

_MANY = 10_000
_MAX_STARTS = 16
_MAX_LETTERS = 8
_APART = re.compile(r"""[\s'"`$(){}<>|&;=:,@\\\[\]!^*?]+""")
_SIGNS = re.compile(r"[=,@;<]|:(?!\s)")
_TEXTS = re.compile(r"""(["'`])([^"'`\n]+)\1""")


class NamedFiles:
    """The files that the parts of one command line may name, by the widest reading. `directory` is
    where the call starts, relative to the working directory."""

    def __init__(
        self, parts: Sequence[Part], surroundings: Surroundings | None, directory: str
    ) -> None:
        self._parts = parts
        self._facts = surroundings
        self._directory = directory
        self._variables = Variables(parts)
        self._found: dict[Part, _Names] = {}

    def match(self, patterns: tuple[str, ...], part: Part, reach: Reach) -> Match:
        """Does the part name a file that one of the patterns means?"""
        found = self._found.get(part)
        if found is None:
            found = self._found[part] = _Names(part, reach, self._parts, self._variables)
        starts = self._starts(part, reach)
        paths = self._expanded(found.surely, starts or [self._directory])
        if paths is not None and self._covers(patterns, paths, starts):
            return Match.YES
        if self._is_proven(patterns, part, starts):
            return Match.NO
        unsure = found.unknown or paths is None or starts is None or not reach.complete
        if unsure or self._covers(patterns, found.perhaps, starts):
            return Match.MAYBE
        shown = SECRETS in patterns and self._goes_through(part, starts or [])
        return Match.MAYBE if shown else Match.NO

    def _covers(
        self, patterns: tuple[str, ...], paths: Iterable[str], starts: list[str] | None
    ) -> bool:
        touched = TouchedPaths(paths, self._facts, starts or [self._directory])
        return touched.any_covered(patterns)

    def _is_proven(self, patterns: tuple[str, ...], part: Part, starts: list[str] | None) -> bool:
        """Does the part surely read no secrets, which is all that the patterns mean?"""
        if patterns != (SECRETS,) or self._facts is None or not starts:
            return False
        if not_read_only(part) is not None:
            return False
        places = self._places(self._facts, starts)
        return leaves_workspace(part, self._parts, places, self._facts) is None

    def _goes_through(self, part: Part, starts: list[str]) -> bool:
        """May the part read secrets in directories that it searches?"""
        facts = self._facts
        if facts is None or not_read_only(part) is not None:
            return False
        places = self._places(facts, starts)
        return searched_secrets(part, self._parts, places, facts) is not None

    def _places(self, facts: Surroundings, starts: list[str]) -> set[str]:
        return {facts.real(os.path.join(facts.cwd, start)) for start in starts}

    def _starts(self, part: Part, reach: Reach) -> list[str] | None:
        """The directories in which the part may run; None when they are not known."""
        changes = dict.fromkeys((part.directories, *(each.directories for each in reach.commands)))
        found = {self._directory: None}
        for change in changes:
            starts = [self._directory]
            for word in change:
                try:
                    texts = self._variables.texts(word)
                except UnknownError:
                    return None
                if any(mark in text for text in texts for mark in (STAR, NAME)):
                    return None
                texts = [os.path.expanduser(text.replace(PLACE, starts[0])) for text in texts]
                starts += [os.path.join(start, text) for start in starts for text in texts]
            found.update(dict.fromkeys(starts))
            if len(found) > _MAX_STARTS:
                return None
        return list(found)

    def _expanded(self, texts: Iterable[str], starts: list[str]) -> list[str] | None:
        """The paths that texts may mean, globs as the file system is now; None when there are too
        many, or the file system is not known."""
        found: list[str] = []
        for text in texts:
            if STAR not in text:
                found.append(text.replace(PLACE, "."))
                continue
            if self._facts is None:
                return None
            pattern = escape(text.replace(PLACE, ".")).replace(STAR, "*")
            tops = [os.path.join(self._facts.cwd, start) for start in starts]
            for top in tops:
                found += islice(iglob(pattern, root_dir=top), _MANY)
            if len(found) >= _MANY:
                return None
        return found


class _Names:
    """The texts of a part that may be names of files: `surely` where it takes names, `perhaps` in
    code of another language. `unknown`: others are only known when it runs."""

    def __init__(
        self, part: Part, reach: Reach, parts: Sequence[Part], variables: Variables
    ) -> None:
        self._variables = variables
        self.surely: dict[str, None] = {}
        self.perhaps: dict[str, None] = {}
        self.unknown = False
        name = base_name(part.words[0].text) if part.words else ""
        words = file_words(part)
        if words is not None:
            for word in words:
                self._add(word)
        else:
            for command in reach.commands:
                self._of_command(command)
            for each in part.assignments:
                self._add(each.value)
            for word in part.shown_input if _takes_code(name) else ():
                self._of_code(word.text)
            self._redirections(reach.inputs)
            self._redirections(reach.redirections)
            several = not reach.complete or len(reach.commands) != 1
            if several and not _takes_code(name):
                self.surely.update(dict.fromkeys(_pieces(part.text)))
        self._redirections(part.redirections)
        names = {name, *(base_name(command.words[0].text) for command in reach.commands)}
        fed = names & listed("reads_names")
        if fed and part.stdin_piped:
            self.unknown = True
            for other in parts:
                self.surely.update(dict.fromkeys(_pieces(other.text)))

    def _redirections(self, redirections: Iterable[Redirection]) -> None:
        for each in redirections:
            if each.target is not None and not each.operator.startswith("<<"):
                self._add(each.target)

    def _of_command(self, command: Reached) -> None:
        name = base_name(command.words[0].text)
        table = program(name)
        if name in listed("finders") and any(
            word.text in listed("find_actions") for word in command.words
        ):
            self.unknown = True
        if table is not None and table.files.get(FileRole.LISTS):
            self.unknown = self.unknown or any(
                word.text.startswith(table.files[FileRole.LISTS]) for word in command.words
            )
        if name in listed("takes_text"):
            return
        if not command.sure:
            for word in command.words:
                self.perhaps.update(dict.fromkeys(_pieces(word.text)))
            return
        code = _takes_code(name)
        head = command.words[0]
        found_by_name = head.literal and "/" not in head.text
        for word in (*command.words[found_by_name:], *command.settings):
            self._add(word)
            if code and _APART.search(word.text):
                self._of_code(word.text)

    def _of_code(self, text: str) -> None:
        self.surely.update((found[2], None) for found in _TEXTS.finditer(text))
        self.perhaps.update(dict.fromkeys(_pieces(text)))

    def _add(self, word: Word) -> None:
        try:
            texts = self._variables.texts(word)
        except UnknownError:
            self.unknown = True
            texts = [word.text, *_pieces(word.source)]
        for text in texts:
            self.unknown = self.unknown or NAME in text
            self.surely.update(dict.fromkeys(_names(text)))


def _takes_code(name: str) -> bool:
    """Does the program take code in a language of its own?"""
    table = program(name)
    return (
        interpreter(name) is not None
        or is_console(name)
        or name in listed("mentioning")
        or name in listed("code_runners")
        or (table is not None and table.check in SCRIPTS)
    )


def _pieces(text: str) -> Iterator[str]:
    """The pieces of code that may be names of files."""
    return filter(None, _APART.split(text))


def _names(text: str) -> Iterator[str]:
    """The names of files in one word: itself, PATH in `--file=PATH`, `-fPATH`, `HEAD:PATH`."""
    if not text:
        return
    yield text
    yield from filter(None, (piece.strip('"') for piece in _SIGNS.split(text)))
    if text[0] == "-":
        yield from (text[at:] for at in range(2, min(len(text), _MAX_LETTERS)))
