"""Finds the command of a part of a line, and every command inside it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from alhena.shell.languages.git_commands import git_runs
from alhena.shell.languages.interpreters import (
    evaluated,
    input_mentions,
    input_runs,
    interpreted,
    pager_runs,
    piped_code,
    possible_words,
    sed_runs,
    shell_runs,
)
from alhena.shell.options import (
    ANYTHING,
    Runs,
    base_name,
    command_keys,
    first_operands,
    inner_command,
    is_console,
    is_option,
    is_wrapper,
    option_values,
    values_of,
    with_unknown,
    wrapped,
)
from alhena.shell.parse.model import Effect, Part, Redirection, Word
from alhena.shell.tables import Valued, interpreter, listed, main_name, program

MAX_COMMANDS = 64
MAX_GUESSES = 512
MAX_WORDS = 4096
MAX_ALL_WORDS = 8 * 1024
MAX_DEPTH = 8
MAX_CODE = 64 * 1024
MAX_READINGS = 64
_GUESS_WORDS = 8


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
        yield from wrapped(words)
        if name.startswith(("pwsh", "powershell")) and any(map(_is_encoded, words)):
            yield Runs(via=name)
        if name in listed("shells"):
            yield from shell_runs(words, part)
        elif name in listed("evaluators"):
            yield from evaluated(words)
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
        before = words[: inner.starts[0][0]]
        letters = "CD" if name in {"env", "genv", "sudo"} else ""
        yield from option_values(before, letters, "chdir cwd wd working-directory directory")


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


_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_PLACES = ("{}", "{/", "{.", "{1")
_FD_ACTIONS = frozenset({"-x", "-X", "--exec", "--exec-batch"})


@lru_cache(maxsize=256)
def runs_others(name: str) -> bool:
    """May the program of this (base) name run others, as far as `program_runs` knows?"""
    main = main_name(name)
    known = main in _HANDLERS or main in _FED or is_console(name) or _commands(name)
    table = program(name)
    deeper = table is not None and any(map(_commands, table.subcommands))
    return bool(known) or deeper or name.startswith("git-") or interpreter(name) is not None


def _commands(name: str) -> Valued | None:
    table = program(name)
    return table.commands if table is not None else None


def program_runs(words: tuple[Word, ...], part: Part) -> Iterator[Runs]:
    """The commands the program at the head of `words` may run, wrappers and shells aside."""
    name = base_name(words[0].text)
    language = interpreter(name)
    if language is not None:
        yield from interpreted(words, language, part)
    handler = _HANDLERS.get(main_name(name))
    if handler is not None:
        yield from handler(words)
    fed = _FED.get(main_name(name))
    if fed is not None:
        yield from fed(words, part)
    for key in command_keys(main_name(name), words):
        commands = _commands(key)
        for value in values_of(words, commands) if commands is not None else ():
            code = _without(value, "exec=") if main_name(name) == "tar" else value
            yield Runs(via=name, code=(code,), sure=name != "rsync")
    if is_console(name):
        yield Runs(via=name, mentions=words[1:])
        yield from input_mentions(name, part)
    if name.startswith("git-") and len(name) > 4:
        rest = (Word("git"), Word(name[4:]), *words[1:])
        yield Runs(via=name, words=rest)


def _without(word: Word, beginning: str) -> Word:
    return Word(word.text.removeprefix(beginning), word.kind, word.source, word.split)


def _find(words: tuple[Word, ...]) -> Iterator[Runs]:
    yield from _actions(words, _FIND_ACTIONS, frozenset({";", "+"}))


def _fd(words: tuple[Word, ...]) -> Iterator[Runs]:
    yield from _actions(words, _FD_ACTIONS, frozenset({";"}))
    for value in option_values(words, "xX", "exec exec-batch"):
        yield Runs(via="fd -x", words=with_unknown((value,), _PLACES))


def _actions(
    words: tuple[Word, ...], actions: frozenset[str], ends: frozenset[str]
) -> Iterator[Runs]:
    for index, word in enumerate(words):
        if word.text in actions and word.literal:
            rest = words[index + 1 :]
            stop = next((at for at, w in enumerate(rest) if w.literal and w.text in ends), None)
            via = f"{base_name(words[0].text)} {word.text}"
            yield Runs(via=via, words=with_unknown(rest[:stop], _PLACES))
            if stop is not None and rest[stop].text == "+":
                # It may be an argument of the command, which then goes on.
                yield Runs(via=via, words=with_unknown(rest, _PLACES), sure=False)


_SSH = Valued("BbcDEeFIiJLlmOoPpQRSWw")
_SSH_COMMANDS = ("proxycommand", "localcommand", "knownhostscommand")


def _ssh(words: tuple[Word, ...]) -> Iterator[Runs]:
    for value in option_values(words, "o", ""):
        key, _, code = value.text.partition(" " if " " in value.text.split("=")[0] else "=")
        if key.lower() in _SSH_COMMANDS:
            yield Runs(via=f"ssh -o {key}", code=(Word(code, value.kind, value.source),))
    operands = first_operands(words, _SSH, 2)  # options may stand behind the host, too
    if base_name(words[0].text) == "ssh" and len(operands) == 2:
        yield Runs(via="ssh", code=words[operands[1] :], sure=False)


def _ssh_input(words: tuple[Word, ...], part: Part) -> Iterator[Runs]:
    """Without a command, the shell there reads its commands."""
    if len(first_operands(words, _SSH, 2)) == 1:
        for text in part.shown_input:
            yield Runs(via="ssh", code=(text,), sure=False)
        if part.stdin_piped:
            yield Runs(via="ssh")
            yield from piped_code("ssh", part)


def _su(words: tuple[Word, ...]) -> Iterator[Runs]:
    """`su`, `runuser` and `sg`: a shell of its own, or behind `--` a command."""
    name = base_name(words[0].text)
    if not any(True for _ in option_values(words, "c", "command session-command")):
        yield Runs(via=name)
    rest = [at for at, word in enumerate(words) if word.literal and word.text == "--"]
    if rest:
        yield Runs(via=name, words=words[rest[0] + 1 :])
    if name == "sg" and len(words) > 2 and not is_option(words[2]):
        yield Runs(via=name, code=words[2:])


def _start_stop(words: tuple[Word, ...]) -> Iterator[Runs]:
    rest = [at for at, word in enumerate(words) if word.literal and word.text == "--"]
    behind = words[rest[0] + 1 :] if rest else ()
    for value in option_values(words, "xa", "exec startas"):
        yield Runs(via="start-stop-daemon", words=(value, *behind))


def _entr(words: tuple[Word, ...]) -> Iterator[Runs]:
    if any(w.text[:1] == "-" and "s" in w.text for w in words[1:]):
        yield Runs(via="entr -s", code=tuple(w for w in words[1:] if not is_option(w)))


def _parallel(words: tuple[Word, ...]) -> Iterator[Runs]:
    marks = [at for at, w in enumerate(words) if w.text.startswith(":::")]
    for word in words[marks[0] + 1 :] if marks else ():
        yield Runs(via="parallel", code=(word,), sure=False)


def _script(words: tuple[Word, ...]) -> Iterator[Runs]:
    """`script [-q] FILE COMMAND …` of the BSDs; without a command, a shell."""
    operands = first_operands(words, Valued("cEIOoBTmtF"), 2)
    if len(operands) == 2:
        yield Runs(via="script", words=words[operands[1] :], sure=False)
    elif not any(True for _ in option_values(words, "c", "command")):
        yield Runs(via="script")


def _make(words: tuple[Word, ...]) -> Iterator[Runs]:
    for word in words[1:]:
        name, sign, value = word.text.partition("=")
        if sign and name.isidentifier():
            code = Word(value, word.kind, word.source, word.split)
            yield Runs(via=f"make {name}=", code=(code,), sure=False)
    for value in option_values(words, "f", "file makefile"):
        if value.text in {"-", "/dev/stdin"} or not value.literal:
            yield Runs(via="make -f -")


_CMAKE_TOOLS = {
    "chdir": (),
    "copy": ("cp",),
    "copy_directory": ("cp", "-r"),
    "copy_if_different": ("cp",),
    "create_hardlink": ("ln",),
    "create_symlink": ("ln", "-s"),
    "env": ("env",),
    "make_directory": ("mkdir",),
    "remove": ("rm",),
    "remove_directory": ("rm", "-r"),
    "rename": ("mv",),
    "rm": ("rm",),
    "tar": ("tar",),
    "time": ("time",),
    "touch": ("touch",),
}
"""Tools of `cmake -E` -> the programs they are like."""


def _cmake(words: tuple[Word, ...]) -> Iterator[Runs]:
    tool = next((at for at, w in enumerate(words) if w.text == "-E"), None)
    if tool is not None and tool + 1 < len(words):
        known = _CMAKE_TOOLS.get(words[tool + 1].text)
        if not words[tool + 1].literal:
            yield Runs(via="cmake -E")
        elif known is not None:
            rest = words[tool + (2 if known else 3) :]
            yield Runs(via="cmake -E", words=(*map(Word, known), *rest))
    for script in option_values(words, "P", ""):
        yield Runs(via="cmake -P", words=(script,) if script.literal else ())


def _ctest(words: tuple[Word, ...]) -> Iterator[Runs]:
    for at, word in enumerate(words):
        if word.text == "--test-command" and at + 1 < len(words):
            yield Runs(via="ctest --test-command", words=words[at + 1 :])


def _gcc(words: tuple[Word, ...]) -> Iterator[Runs]:
    """`gcc -wrapper PROGRAM,ARGUMENT,…`"""
    for value in option_values(words, "", "-wrapper"):
        texts = value.text.split(",")
        split = (*map(Word, texts), ANYTHING) if value.literal else (value,)
        yield Runs(via="gcc -wrapper", words=split)


def _cargo(words: tuple[Word, ...]) -> Iterator[Runs]:
    for value in option_values(words, "", "config"):
        yield Runs(via="cargo --config", mentions=(value,), sure=False)


def _socat(words: tuple[Word, ...]) -> Iterator[Runs]:
    """`EXEC:COMMAND,option` and the like; two addresses may stand in one word."""
    for word in words[1:]:
        for address in word.text.split("!!"):
            kind, sign, command = address.partition(":")
            if sign and kind.casefold() in {"exec", "system", "shell"}:
                for text in {command, command.partition(",")[0]}:
                    code = Word(text, word.kind, word.source, word.split)
                    yield Runs(via=f"socat {kind}", code=(code,))
            elif not word.literal and not is_option(word):
                yield Runs(via="socat")


def _is_encoded(word: Word) -> bool:
    """`-EncodedCommand` of PowerShell, or any beginning of it."""
    text = word.text.casefold()
    return len(text) > 1 and ("-encodedcommand".startswith(text) or text == "-ec")


def _code_operands(words: tuple[Word, ...]) -> Iterator[Runs]:
    for word in words[1:]:
        if not is_option(word) and word.text:
            yield Runs(via=base_name(words[0].text), code=(word,))


_HANDLERS: dict[str, Callable[[tuple[Word, ...]], Iterator[Runs]]] = {
    "at": input_runs,
    "batch": input_runs,
    **dict.fromkeys(("c++", "cc", "g++", "gcc"), _gcc),
    "cargo": _cargo,
    "cmake": _cmake,
    "concurrently": _code_operands,
    "crontab": input_runs,
    "ctest": _ctest,
    "ed": input_runs,
    "entr": _entr,
    "fd": _fd,
    "find": _find,
    "git": git_runs,
    "hyperfine": _code_operands,
    "less": pager_runs,
    "make": _make,
    "more": pager_runs,
    "mispipe": _code_operands,
    "newgrp": _su,
    "parallel": _parallel,
    "pee": _code_operands,
    "rsync": _ssh,
    "runuser": _su,
    "scp": _ssh,
    "script": _script,
    "sftp": _ssh,
    "sg": _su,
    "socat": _socat,
    "ssh": _ssh,
    "start-stop-daemon": _start_stop,
    "su": _su,
}


_FED: dict[str, Callable[[tuple[Word, ...], Part], Iterator[Runs]]] = {
    "sed": sed_runs,
    "ssh": _ssh_input,
}
"""Programs that may read code from their standard input."""
