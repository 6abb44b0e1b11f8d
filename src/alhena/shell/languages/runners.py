"""The commands that single programs run: find, ssh, make, git and others, by their own words."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from alhena.shell.arguments import is_option
from alhena.shell.languages.git_commands import git_runs
from alhena.shell.languages.interpreters import (
    input_mentions,
    input_runs,
    interpreter_runs,
    pager_runs,
    piped_code,
    sed_runs,
)
from alhena.shell.options import (
    ANYTHING,
    Runs,
    base_name,
    command_keys,
    first_operands,
    is_console,
    option_values,
    values_of,
    with_unknown,
)
from alhena.shell.parse.model import Part, Word
from alhena.shell.tables import (
    Program,
    global_options,
    interpreter,
    main_name,
    program,
    table_of_values,
)

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
    known = known or (table is not None and table.own)
    deeper = table is not None and any(map(_commands, table.subcommands))
    return bool(known) or deeper or name.startswith("git-") or interpreter(name) is not None


def _commands(name: str) -> Program | None:
    table = program(name)
    return table.commands if table is not None else None


def program_runs(words: tuple[Word, ...], part: Part) -> Iterator[Runs]:
    """The commands the program at the head of `words` may run, wrappers and shells aside."""
    name = base_name(words[0].text)
    language = interpreter(name)
    if language is not None:
        yield from interpreter_runs(words, language, part)
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
    yield from _other_subcommand(name, words)
    if is_console(name):
        yield Runs(via=name, mentions=words[1:])
        yield from input_mentions(name, part)
    if name.startswith("git-") and len(name) > 4:
        rest = (Word("git"), Word(name[4:]), *words[1:])
        yield Runs(via=name, words=rest)


def _other_subcommand(name: str, words: tuple[Word, ...]) -> Iterator[Runs]:
    """`yarn rimraf dist`: a subcommand that is not the program's own is a script of the project, or
    a program."""
    table = program(name)
    found = (
        first_operands(words, global_options(name), 1) if table is not None and table.own else ()
    )
    if table is not None and found and words[found[0]].text not in table.own.split():
        yield Runs(via=name, words=words[found[0] :], sure=False)


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


_SSH = table_of_values("BbcDEeFIiJLlmOoPpQRSWw", "")
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


def _capsh(words: tuple[Word, ...]) -> Iterator[Runs]:
    """Behind `--` or `==` stand the arguments of a shell, or of capsh itself."""
    for at, word in enumerate(words):
        if word.literal and word.text in {"--", "=="}:
            head = Word("bash") if word.text == "--" else words[0]
            yield Runs(via="capsh", words=(head, *words[at + 1 :]))
            return
    if not all(word.literal for word in words):
        yield Runs(via="capsh")


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
    operands = first_operands(words, table_of_values("cEIOoBTmtF", ""), 2)
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


def is_encoded(word: Word) -> bool:
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
    "capsh": _capsh,
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
