"""A command line as a value: the commands that it may run, the files and programs they name."""

import os
from functools import cached_property

from msgspec.structs import replace

from alhena.shell.command import Command, Role, read_command
from alhena.shell.parse.analysis import analyse
from alhena.shell.parse.model import Effect, Part, Word
from alhena.shell.reach import reach


class Line:
    """A command line. `text` is as written, `cwd` the directory in which it starts. `parts` are the
    commands that it spells, in order; `complete` is false when it may run what no part shows."""

    def __init__(self, text: str, cwd: str | None = None) -> None:
        self.text, self.cwd = text, cwd
        found = analyse(text)
        self.parts: tuple[Part, ...] = found.parts
        self.complete = found.complete
        self._doubts = found.doubts

    @property
    def problem(self) -> str | None:
        """The reason why the line cannot be read with certainty, as one clause."""
        if self._doubts:
            return self._doubts[0].clause
        return None if self.complete else "the command cannot be read to its end"

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """Every command that the line may run: each part, followed by what it runs itself."""
        return tuple(each for part in self.parts for each in _commands(part))


def _commands(part: Part) -> tuple[Command, ...]:
    if not part.words:
        return (Command(words=(), redirections=part.redirections, directories=part.directories),)
    found = reach(part)
    inner = tuple(
        replace(
            read_command(each.words), sure=each.sure, via=each.via, directories=each.directories
        )
        for each in found.commands[1:]
    )
    own = replace(
        read_command(part.words),
        inner=inner,
        redirections=(*part.redirections, *found.redirections, *found.inputs),
        directories=part.directories,
    )
    return (own, *inner)


def read(line: str, *, cwd: "str | os.PathLike[str] | None" = None) -> Line:
    """Reads a command line. Nothing is run."""
    return Line(line, None if cwd is None else os.path.abspath(cwd))


def programs(line: "str | Line") -> tuple[str, ...]:
    """The programs that the line may run, in order, each once; `?` for one that is only known when
    it runs."""
    line = read(line) if isinstance(line, str) else line
    names = [each.program or "?" for each in line.commands if each.words and each.sure]
    reaches = map(reach, line.parts)
    unknown = not line.complete or not all(each.complete for each in reaches)
    return tuple(dict.fromkeys([*names, *(["?"] if unknown else [])]))


def paths(line: "str | Line") -> tuple[tuple[Role, str], ...]:
    """The files that the line names, with the role of each: as written, or with the `cwd` of the
    line absolute. A word that may name a file counts as one, and one that is only known when the
    line runs is given as it is written."""
    line = read(line) if isinstance(line, str) else line
    found: dict[tuple[Role, str], None] = {}
    for command in line.commands:
        words = list(command.files) if command.sure else []
        for each in command.redirections:
            if each.target is not None and each.effect is not Effect.NONE:
                role = Role.WRITES if each.effect is Effect.WRITE else Role.READS
                words.append((role, each.target))
        for role, word in words:
            found[role, _path(word, command, line)] = None
    return tuple(found)


def _path(word: Word, command: Command, line: Line) -> str:
    moves = command.directories
    if not word.literal or line.cwd is None or not all(each.literal for each in moves):
        return word.text if word.literal else word.source or word.text
    return os.path.normpath(os.path.join(line.cwd, *(each.text for each in moves), word.text))
