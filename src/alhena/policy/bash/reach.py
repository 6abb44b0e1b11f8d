"""Finds the command of a part of a line, and every command inside it."""

from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.bash.child_commands import (
    program_runs,
    runs_others,
    shell_arguments,
    shown_input,
)
from alhena.policy.bash.model import Effect, Part, Word, WordKind
from alhena.policy.bash.options import Runs, base_name, is_wrapper, option_values, wrapped
from alhena.policy.programs import listed

if TYPE_CHECKING:
    import re

MAX_COMMANDS = 64
MAX_GUESSES = 512
MAX_WORDS = 4096
MAX_ALL_WORDS = 8 * 1024
MAX_DEPTH = 8
MAX_CODE = 64 * 1024
MAX_READINGS = 64
_GUESS_WORDS = 8


class Command(msgspec.Struct, frozen=True, gc=False):
    """A command that may run. `sure` is false when it is a guess (a word inside `python -c`, a
    remote shell's). `via` is what runs it, empty for the part itself."""

    words: tuple[Word, ...]
    sure: bool = True
    via: str = ""
    settings: tuple[Word, ...] = ()

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
    none of them shows. `writes` are the redirections that write in shell code within it, and code
    that is only known when it runs."""

    commands: tuple[Command, ...]
    complete: bool
    writes: tuple[str, ...] = ()

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
            return Reach((Command(words),), complete=True)
    unfolding = _Unfolding(part)
    unfolding.unfold()
    return Reach(tuple(unfolding.commands), unfolding.complete, tuple(unfolding.writes))


@lru_cache(maxsize=256)
def _runs_itself(name: str) -> bool:
    """Is this (base) name that of a program that runs no other, whatever its words are?"""
    lists = ("shells", "evaluators", "opaque", "code_in_data")
    evaluates = any(name in listed(each) for each in lists)
    return not (is_wrapper(name) or evaluates or runs_others(name))


class _Unfolding:
    def __init__(self, part: Part) -> None:
        self.commands: list[Command] = []
        self.seen: set[tuple[tuple[Word, ...], tuple[Word, ...]]] = set()
        self.waiting: deque[tuple[Command, Part, int]] = deque()
        self.complete = True
        self.writes: list[str] = []
        self.guesses = 0
        self.code_left = MAX_CODE
        self.words_left = MAX_ALL_WORDS
        self.readings_left = MAX_READINGS
        self.add_part(part, sure=True, via="", depth=0)

    @property
    def full(self) -> bool:
        """Has as much been found as is looked at?"""
        return len(self.commands) - self.guesses >= MAX_COMMANDS or self.words_left < 0

    def add_part(self, part: Part, *, sure: bool, via: str, depth: int) -> None:
        settings = tuple(
            Word(f"{a.name}={a.value.text}", a.value.kind, a.source, a.value.split)
            for a in part.assignments
        )
        if part.words:
            self.add(Command(part.words, sure, via, settings), part, depth)
        else:
            self._settings(settings, depth)

    def add(self, command: Command, part: Part, depth: int) -> None:
        if len(command.words) > MAX_WORDS:
            self.complete = False
            words = command.words[:MAX_WORDS]
            command = Command(words, command.sure, command.via, command.settings)
        # The same words with another input may run something else.
        key = (command.words, shown_input(part))
        if key in self.seen:
            self._promote(command)
        elif self.full:
            self.complete = False
        else:
            self.words_left -= len(command.words)
            self.seen.add(key)
            self.commands.append(command)
            self.waiting.append((command, part, depth))

    def _promote(self, command: Command) -> None:
        """A command that was a guess before may be certain now."""
        if command.sure:
            for index, known in enumerate(self.commands):
                if known.words == command.words and not known.sure:
                    self.commands[index] = command

    def unfold(self) -> None:
        while self.waiting:
            command, part, depth = self.waiting.popleft()
            self._unfold(command, part, depth)

    def _unfold(self, command: Command, part: Part, depth: int) -> None:
        self._settings(command.settings, depth)
        head = command.words[0]
        if not head.literal:
            self.complete = False
            return
        name = base_name(head.text)
        for runs in self._all_runs(name, command, part):
            if self.full or self.readings_left <= 0:
                self.complete = False
                break
            sure = command.sure and runs.sure
            if runs.words:
                self.add(Command(runs.words, sure, runs.via, runs.settings), part, depth)
            elif runs.code:
                self._code(runs.code, Runs(via=runs.via, sure=sure), depth + 1)
            elif runs.mentions:
                self._mentions(runs)
            else:
                self.complete = False

    def _all_runs(self, name: str, command: Command, part: Part) -> Iterator[Runs]:
        words = command.words
        yield from wrapped(words)
        if name in listed("shells"):
            yield from _shell(words, part)
        elif name in listed("evaluators"):
            yield from _evaluated(words)
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
                self._code((code,), Runs(via=f"{name}=", sure=False), depth + 1)

    def _code(self, words: tuple[Word, ...], runs: Runs, depth: int) -> None:
        """Words that joined are shell code; it is known up to the first expansion."""
        from alhena.policy.bash.analysis import analyse

        text = Command(words).text
        self.code_left -= len(text)
        self.readings_left -= 1
        if depth > MAX_DEPTH or self.code_left < 0 or self.readings_left < 0:
            self.complete = False
            self.writes.append(text)
            return
        literal = all(word.literal for word in words)
        inner = analyse(text)
        if not literal or not inner.complete:
            self.complete = False
            self.writes += (word.source or word.text for word in words)
        for part in inner.parts:
            self.writes += (r.source for r in part.redirections if r.effect is Effect.WRITE)
            self.add_part(part, sure=runs.sure, via=runs.via, depth=depth)

    def _mentions(self, runs: Runs) -> None:
        """Words inside a program's arguments, each as the start of a command."""
        tokens: list[Word] = []
        for word in runs.mentions:
            self.complete = self.complete and word.literal
            tokens += _tokens(word.text)
            if "\\" in word.text:
                tokens += _tokens(word.text.replace("\\", ""))
        room = MAX_GUESSES - self.guesses
        if len(tokens) > room:
            self.complete = False
        for index in range(min(len(tokens), room)):
            words = tuple(tokens[index : index + _GUESS_WORDS])
            if (words, ()) not in self.seen:
                self.seen.add((words, ()))
                self.guesses += 1
                self.commands.append(Command(words, sure=False, via=runs.via))


def _tokens(text: str) -> list[Word]:
    """Possible words of commands in some other language's code; a glob keeps its meaning."""
    found: list[Word] = []
    for token in _breaks().split(text):
        if "*" not in token and "?" not in token:
            found += [Word(token)] if token else []
        elif any(letter.isalnum() for letter in token):
            start = min(token.find(mark) for mark in "*?" if mark in token)
            found.append(Word(token[:start], WordKind.PATTERN, token, split=True))
    return found


@lru_cache(maxsize=1)
def _breaks() -> "re.Pattern[str]":
    import re

    return re.compile(r"(?:\\[nrt]|[\s'\"`,;|&()<>\[\]{}!=+])+")


_COMMAND_VARIABLES = frozenset({"BASH_ENV", "ENV", "PS0", "PS1", "PS4", "MAKEFLAGS", "SHELL"})
_COMMAND_ENDINGS = (
    *("PAGER", "EDITOR", "COMMAND", "_SSH", "BROWSER", "_RSH", "ASKPASS", "OPEN", "CLOSE"),
    *("VISUAL", "WRAPPER", "LINKER", "RUNNER"),
)


def names_command(variable: str) -> bool:
    """Is the value of this environment variable a command that some program runs?"""
    return (
        variable in _COMMAND_VARIABLES
        or variable.startswith("GIT_")
        or variable.endswith(_COMMAND_ENDINGS)
    )


def _evaluated(words: tuple[Word, ...]) -> Iterator[Runs]:
    """`eval CODE …` and `trap CODE SIGNAL …`."""
    name = base_name(words[0].text)
    rest = words[1:]
    while rest and rest[0].literal and rest[0].text == "--":
        rest = rest[1:]
    if not rest:
        return
    if name == "eval":
        yield Runs(via=name, code=rest)
    elif not (rest[0].literal and rest[0].text in {"-", "", "-l", "-p"}):
        yield Runs(via=name, code=rest[:1])


def _shell(words: tuple[Word, ...], part: Part) -> Iterator[Runs]:
    """A shell: the code in its arguments, else its script, else its standard input."""
    name = base_name(words[0].text)
    found = shell_arguments(words)
    if found.informs:
        return
    if not found.certain:
        yield Runs(via=name)
    for word in option_values(words, "", "init-file rcfile init-command"):
        yield Runs(via=name, code=(Word("."), word))
    if found.code is not None:
        if found.operand is None:
            yield Runs(via=name)
        else:
            yield Runs(via=f"{name} -c", code=(words[found.operand],))
    elif found.operand is not None and not found.reads_input:
        script = words[found.operand]
        hidden = script.text == "-" or script.text.startswith(("/dev/", "/proc/"))
        if hidden or not script.literal:
            yield Runs(via=name)
        yield Runs(via=name, words=words[found.operand :])
    else:
        texts = shown_input(part)
        for text in texts:
            yield Runs(via=name, code=(text,))
        if not texts:
            yield Runs(via=name)
