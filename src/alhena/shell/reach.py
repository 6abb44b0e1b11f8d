"""Finds the command of a part of a line, and every command inside it."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from alhena.shell.languages.interpreters import (
    evaluator_runs,
    possible_words,
    shell_runs,
)
from alhena.shell.languages.runners import is_encoded, names_command, program_runs, runs_others
from alhena.shell.options import (
    Runs,
    base_name,
    inner_command,
    is_wrapper,
    values_of,
    wrapper_runs,
)
from alhena.shell.parse.model import Effect, Part, Redirection, Word
from alhena.shell.tables import listed, program, table_of_values

MAX_COMMANDS = 64
MAX_GUESSES = 512
MAX_WORDS = 4096
MAX_ALL_WORDS = 8 * 1024
MAX_DEPTH = 8
MAX_CODE = 64 * 1024
MAX_READINGS = 64
_GUESS_WORDS = 8
MOVES = table_of_values("", "chdir cwd wd working-directory directory")
"""Options of wrappers that name the directory in which they start their command."""


class Reached(msgspec.Struct, frozen=True, gc=False):
    """A command that may run. `sure` is false when it is a guess (a word inside `python -c`, a
    remote shell's). `via` is what runs it, empty for the part itself. `directories` are the changes
    of directory before it."""

    words: tuple[Word, ...]
    sure: bool = True
    via: str = ""
    settings: tuple[Word, ...] = ()
    directories: tuple[Word, ...] = ()

    @property
    def text(self) -> str:
        """The words up to the first that is not literal, one blank between."""
        texts: list[str] = []
        for word in self.words:
            texts.append(word.text)
            if not word.literal:
                break
        return " ".join(texts)

    @property
    def literal(self) -> bool:
        """Is every word known?"""
        return all(word.literal for word in self.words)

    @property
    def program(self) -> str | None:
        """The program, without its directory and in lower case; None when it may be any."""
        head = self.words[0]
        return program_name(head.text) if head.literal else None


class Reach(msgspec.Struct, frozen=True, gc=False):
    """The commands a part may come down to, itself first; not `complete` when it may run what
    none of them shows. `redirections` are those that write in shell code within it, `inputs` those
    that read, `unread` the code that is only known when it runs; `codes`: what runs the shell code
    within it, and the code.
    """

    commands: tuple[Reached, ...]
    complete: bool
    redirections: tuple[Redirection, ...] = ()
    unread: tuple[str, ...] = ()
    codes: tuple[tuple[str, str], ...] = ()
    inputs: tuple[Redirection, ...] = ()

    @property
    def writes(self) -> tuple[str, ...]:
        """Redirections that write, and code that may, as written."""
        return (*(each.source for each in self.redirections), *self.unread)

    @property
    def programs(self) -> frozenset[str | None]:
        """The programs that may run; None is among them when any may."""
        names = [command.program for command in self.commands]
        return frozenset(names if self.complete else [*names, None])


def program_name(text: str) -> str:
    """The program that a command word names, in the spelling in which programs are compared."""
    return base_name(text).casefold().removesuffix(".exe")


def reach(part: Part) -> Reach:
    """Every command that `part` comes down to, within fixed limits."""
    words = part.words
    if words and not part.assignments and len(words) <= MAX_WORDS:
        head = words[0]
        if head.literal and _runs_itself(base_name(head.text)):
            return Reach((Reached(words, directories=part.directories),), complete=True)
    unfolding = _Unfolding(part)
    unfolding.unfold()
    return Reach(
        tuple(unfolding.commands),
        unfolding.complete,
        tuple(unfolding.redirections),
        tuple(unfolding.unread),
        tuple(unfolding.codes),
        tuple(unfolding.inputs),
    )


@lru_cache(maxsize=256)
def _runs_itself(name: str) -> bool:
    """Is this (base) name that of a program that runs no other, whatever its words are?"""
    lists = ("shells", "evaluators", "opaque", "code_in_data")
    evaluates = any(name in listed(each) for each in lists)
    return not (is_wrapper(name) or evaluates or runs_others(name))


class _Unfolding:
    def __init__(self, part: Part) -> None:
        self.commands: list[Reached] = []
        self.seen: set[tuple[tuple[Word, ...], ...]] = set()
        self.waiting: deque[tuple[Reached, Part, int]] = deque()
        self.complete = True
        self.redirections: list[Redirection] = []
        self.inputs: list[Redirection] = []
        self.unread: list[str] = []
        self.codes: list[tuple[str, str]] = []
        self.guesses = 0
        self.code_left = MAX_CODE
        self.words_left = MAX_ALL_WORDS
        self.readings_left = MAX_READINGS
        self.add_part(part, Reached(()), depth=0)

    @property
    def full(self) -> bool:
        """Has as much been found as is looked at?"""
        return len(self.commands) - self.guesses >= MAX_COMMANDS or self.words_left < 0

    def add_part(self, part: Part, by: Reached, depth: int) -> None:
        """A part of the code that `by` runs, which says how and where."""
        settings = tuple(
            Word(f"{a.name}={a.value.text}", a.value.kind, a.source, a.value.split)
            for a in part.assignments
        )
        if part.words:
            directories = (*by.directories, *part.directories)
            self.add(Reached(part.words, by.sure, by.via, settings, directories), part, depth)
        else:
            self._settings(settings, depth)

    def add(self, command: Reached, part: Part, depth: int) -> None:
        if len(command.words) > MAX_WORDS:
            self.complete = False
            command = replace(command, words=command.words[:MAX_WORDS])
        # The same words with another input, or elsewhere, may run something else.
        key = (command.words, part.shown_input, command.directories)
        if key in self.seen:
            self._promote(command)
        elif self.full:
            self.complete = False
        else:
            self.words_left -= len(command.words)
            self.seen.add(key)
            self.commands.append(command)
            self.waiting.append((command, part, depth))

    def _promote(self, command: Reached) -> None:
        """A command that was a guess before may be certain now."""
        if command.sure:
            for index, known in enumerate(self.commands):
                if known.words == command.words and not known.sure:
                    self.commands[index] = replace(command, directories=known.directories)

    def unfold(self) -> None:
        while self.waiting:
            self._unfold(*self.waiting.popleft())

    def _unfold(self, command: Reached, part: Part, depth: int) -> None:
        self._settings(command.settings, depth)
        head = command.words[0]
        if not head.literal:
            self.complete = False
            return
        name = base_name(head.text)
        directories = (*command.directories, *_changed_directories(name, command.words))
        for runs in self._all_runs(name, command, part):
            if self.full or self.readings_left <= 0:
                self.complete = False
                break
            inner = Reached(
                runs.words, command.sure and runs.sure, runs.via, runs.settings, directories
            )
            if runs.words:
                self.add(inner, part, depth)
            elif runs.code:
                self._code(runs.code, inner, depth + 1)
            elif runs.mentions:
                self._mentions(runs)
            else:
                self.complete = False

    def _all_runs(self, name: str, command: Reached, part: Part) -> Iterator[Runs]:
        words = command.words
        yield from wrapper_runs(words)
        if name in listed("encoded_code") and any(map(is_encoded, words)):
            yield Runs(via=name)
        if name in listed("shells"):
            yield from shell_runs(words, part)
        elif name in listed("evaluators"):
            yield from evaluator_runs(words)
        elif name in listed("opaque"):
            if len(words) > 1:
                yield Runs(via=name)
        elif name in listed("code_in_data"):
            for word in words[1:]:
                if "$(" in word.text or "`" in word.text:
                    yield Runs(via=name, code=(word,), sure=False)
        else:
            yield from program_runs(words, part)

    def _settings(self, settings: Iterable[Word], depth: int) -> None:
        """Variables whose value is a command."""
        for setting in settings:
            name, _, value = setting.text.partition("=")
            if name in {"BASH_ENV", "ENV"}:
                self.complete = False
            elif names_command(name):
                code = Word(value.lstrip("|!-"), setting.kind, setting.source, setting.split)
                self._code((code,), Reached((), sure=False, via=f"{name}="), depth + 1)

    def _code(self, words: tuple[Word, ...], by: Reached, depth: int) -> None:
        """Words that joined are shell code; it is known up to the first expansion."""
        from alhena.shell.parse.analysis import analyse

        text = Reached(words).text
        self.code_left -= len(text)
        self.readings_left -= 1
        if depth > MAX_DEPTH or self.code_left < 0 or self.readings_left < 0:
            self.complete = False
            self.unread.append(text)
            return
        self.codes.append((by.via, text))
        literal = all(word.literal for word in words)
        inner = analyse(text)
        if not literal or not inner.complete:
            self.complete = False
            self.unread += (word.source or word.text for word in words)
        for part in inner.parts:
            self.redirections += (r for r in part.redirections if r.effect is Effect.WRITE)
            self.inputs += (r for r in part.redirections if r.effect is Effect.READ)
            self.add_part(part, by, depth)

    def _mentions(self, runs: Runs) -> None:
        """Words inside a program's arguments, each as the start of a command."""
        tokens: list[Word] = []
        for word in runs.mentions:
            self.complete = self.complete and word.literal
            tokens += possible_words(word.text)
            if "\\" in word.text:
                tokens += possible_words(word.text.replace("\\", ""))
        room = MAX_GUESSES - self.guesses
        if len(tokens) > room:
            self.complete = False
        for index in range(min(len(tokens), room)):
            words = tuple(tokens[index : index + _GUESS_WORDS])
            if (words, (), ()) not in self.seen:
                self.seen.add((words, (), ()))
                self.guesses += 1
                self.commands.append(Reached(words, sure=False, via=runs.via))


def _changed_directories(name: str, words: tuple[Word, ...]) -> Iterator[Word]:
    """The directories in which a wrapper starts its command, by its options."""
    inner = inner_command(words) if is_wrapper(name) else None
    if inner is not None and inner.starts:
        start = inner.starts[0][0]
        table = program(name)
        moves = table.moves if table is not None and table.moves is not None else MOVES
        yield from values_of(words[:start], moves)
        if inner.wrapper.enters:
            yield words[start - 1]
