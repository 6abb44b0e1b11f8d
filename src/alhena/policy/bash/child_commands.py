"""The commands that a program runs by its options or in its own language."""

from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from alhena.policy.bash.model import Part, Word
from alhena.policy.bash.options import (
    ANYTHING,
    Runs,
    Takes,
    base_name,
    first_operands,
    is_option,
    option_values,
    takes,
    values_of,
    with_unknown,
)
from alhena.policy.bash.scripts import ScriptEffect, awk_effect, sed_effect
from alhena.policy.programs import Valued, global_options, interpreter, listed, main_name, program

_EDITORS = frozenset({"vim", "ex", "emacs", "gdb", "lldb"})
_SHELL_MARKS = ("$(", "${", "\\", "`", "eval", '"$')


def shown_input(part: Part) -> tuple[Word, ...]:
    """The texts of the here documents and here strings that a command reads."""
    return tuple(
        redirection.target or Word(redirection.body or "")
        for redirection in part.redirections
        if redirection.operator.startswith("<<")
    )


def input_mentions(via: str, part: Part) -> Iterator[Runs]:
    """Mentions in the standard input, for programs that take it for commands."""
    for text in shown_input(part):
        yield Runs(via=via, mentions=(text,))


def interpreted(words: tuple[Word, ...], language: str, part: Part) -> Iterator[Runs]:
    """The commands an interpreter may run: guesses from its code, its module or its script."""
    name = base_name(words[0].text)
    found = _CodeSearch(words, language)
    for word in found.code:
        yield Runs(via=name, mentions=(word,), sure=False)
    if language == "awk":
        yield from _awk(words, found)
    elif found.module is not None:
        yield Runs(via=f"{name} -m", words=words[found.module :])
    elif language in _EDITORS:
        mentions = tuple(w for w in words[1:] if w.text.startswith("+"))
        if mentions:
            yield Runs(via=name, mentions=mentions, sure=False)
        yield from input_mentions(name, part)
    elif found.script is not None and words[found.script].text not in {"-", "/dev/stdin"}:
        if not words[found.script].literal:
            yield Runs(via=name)
        elif language in {"deno", "R"}:
            yield Runs(via=name, mentions=words[found.script :], sure=False)
        elif "." in words[found.script].text or "/" in words[found.script].text:
            yield Runs(via=name, words=words[found.script :])
    elif not found.code and not found.informs:
        yield from input_mentions(name, part)
        if not shown_input(part):
            yield Runs(via=name)


class _CodeSearch:
    """Finds the code, the module or the script in an interpreter's arguments."""

    def __init__(self, words: tuple[Word, ...], language: str) -> None:
        self.words = words
        self.code: list[Word] = []
        self.module: int | None = None
        self.script: int | None = None
        self.informs = False
        table = program(language)
        known = table.language if table and table.language else Valued()
        at = 1
        while at < len(words) and self.script is None and self.module is None:
            word = words[at]
            if is_option(word) and not (word.literal and word.text == "--"):
                at += self._option(at, known)
                modular = language in {"python", "pypy"} and word.text[:2] != "--"
                if modular and word.text.endswith("m") and at + 1 < len(words):
                    self.module = at + 1
            elif not is_option(word) and not (word.text.startswith("+") and language in _EDITORS):
                self.script = at
            at += 1

    def _option(self, at: int, known: Valued) -> int:
        """The number of words behind the option that belong to it."""
        word = self.words[at]
        text = word.text
        self.informs = self.informs or text in {"--version", "--help", "-V", "-h", "-v", "-version"}
        following = self.words[at + 1 : at + 2]
        name, sign, value = text.partition("=")
        if name in listed("long_code_options"):
            self.code += [Word(value, word.kind, word.source)] if sign else following
            return 0 if sign else 1
        if not text.startswith("--"):
            for index, letter in enumerate(text[1:], start=2):
                if letter in known.code:
                    attached = index < len(text) or not word.literal
                    self.code += [_cut(word, index)] if attached else following
                    # `perl -ne CODE`, `node -pe CODE`: letters may follow the one that says code.
                    self.code += following if attached else ()
                    return 0 if attached and not text[index:].isalpha() else 1
                if letter in known.letters:
                    return int(index == len(text))
        return int(takes(text, known) is Takes.NEXT)


def _cut(word: Word, start: int) -> Word:
    return Word(word.text[start:], word.kind, word.source, word.split)


def _awk(words: tuple[Word, ...], found: _CodeSearch) -> Iterator[Runs]:
    """The program is the first operand, unless it is in a file."""
    from_file = any(w.text.startswith(("-f", "--file", "-E")) for w in words[1:])
    if from_file or found.script is None:
        return
    program = words[found.script]
    effect = awk_effect(program.text)
    runs = effect is not ScriptEffect.NONE and any(mark in program.text for mark in _SHELL_MARKS)
    if not program.literal or (runs and effect is not ScriptEffect.WRITES):
        yield Runs(via="awk")
    if effect in {ScriptEffect.RUNS, ScriptEffect.UNKNOWN}:
        yield Runs(via="awk", mentions=(program,), sure=False)


class ShellArguments(msgspec.Struct, frozen=True):
    """The call of a shell: `code` is the index of `-c`, `operand` the code or the script."""

    code: int | None = None
    operand: int | None = None
    reads_input: bool = False
    certain: bool = True
    informs: bool = False


def shell_arguments(words: tuple[Word, ...]) -> ShellArguments:
    """The options and the first operand of a shell's call."""
    code: int | None = None
    reads_input, certain = False, True
    at = 1
    while at < len(words):
        word = words[at]
        text = word.text
        if text in {"--version", "--help"} and at == 1:
            return ShellArguments(informs=True)
        if text in {"--", "-"} and word.literal:
            at += 1
            break
        if not is_option(word) and text[:1] != "+":
            break
        certain = certain and word.literal
        if text[:2] == "--" or text.lower() == "-command":
            code = at if text.lower() in {"--command", "-command"} else code
            at += text in {"--rcfile", "--init-file", "--init-command"}
        else:
            code = at if "c" in text and text[0] == "-" else code
            reads_input = reads_input or "s" in text
            at += text.count("o") + text.count("O")
        at += 1
    operand = at if at < len(words) else None
    if operand is not None and not words[operand].literal:
        certain = certain and not words[operand].split
    return ShellArguments(code, operand, reads_input and code is None, certain)


_GIT_CODE = ("x", "upload-pack receive-pack exec extcmd open-files-in-pager sendmail-cmd to-cmd")


def git_runs(words: tuple[Word, ...]) -> Iterator[Runs]:
    """The commands a call of git may run, hooks and the user's own settings aside."""
    known = global_options("git")
    operands = first_operands(words, known, 1)
    start = operands[0] if operands else len(words)
    sub = words[start].text if operands else ""
    for value in (*option_values(words[:start], "c", ""), *_git_settings(words, start, sub)):
        key, _, setting = value.text.partition("=")
        name = key.lower().removeprefix("alias.")
        code = Word(setting.removeprefix("!"), value.kind, value.source, value.split)
        if key.lower().startswith("alias.") and not setting.startswith("!"):
            yield Runs(via="git alias", words=(words[0], *_split(code), *words[start + 1 :]))
        else:
            yield Runs(via=f"git -c {key}", code=(code,), sure=key != name and name == sub.lower())
    behind = words[start:]
    for value in option_values(behind, *_GIT_CODE):
        yield Runs(via=f"git {sub}", code=(value,), sure=sub in {"rebase", "difftool"})
    if sub == "grep":
        for value in option_values(behind, "O", ""):
            yield Runs(via="git grep -O", code=(value,))
    for word in behind:
        if word.text.startswith("ext::"):
            yield Runs(
                via="git ext::",
                code=(Word(word.text.removeprefix("ext::"), word.kind, word.source, word.split),),
            )
    if any(w.text.startswith("--config-env") for w in words[:start]):
        yield Runs(via="git --config-env")
    if sub in _COMING_DOWN:
        yield from _git_as(words, start)
    if words[0].text.endswith("hub"):
        yield Runs(via="hub", words=(Word("git"), *words[1:]))
    if sub == "filter-branch":
        yield Runs(via="git filter-branch", mentions=words[start + 1 :], sure=False)


_SENDING = (
    ("send-pack",),
    ("http-push",),
    ("lfs", "push"),
    ("subtree", "push"),
    ("svn", "dcommit"),
    ("p4", "submit"),
)
"""Other subcommands of git that push."""

_COMING_DOWN = frozenset({"for-each-repo", *(path[0] for path in _SENDING)})


def _git_as(words: tuple[Word, ...], start: int) -> Iterator[Runs]:
    """Subcommands that come down to others."""
    head, sub, behind = words[:1], words[start].text, words[start:]
    if sub == "for-each-repo":
        found = first_operands(behind, Valued("", frozenset({"config"})), 1)
        if found:
            yield Runs(via="git for-each-repo", words=(*head, *behind[found[0] :]))
    else:
        found = first_operands(behind, Valued(), 1)
        second = behind[found[0]] if found else Word("")
        rest = behind[found[0] + 1 :] if found else ()
        push = (*head, Word("push"))
        if (sub,) in _SENDING:
            yield Runs(via=f"git {sub}", words=(*push, *behind[1:]))
        elif (sub, second.text) in _SENDING or not second.literal:
            yield Runs(via=f"git {sub}", words=(*push, *rest), sure=second.literal)


def _git_settings(words: tuple[Word, ...], start: int, sub: str) -> Iterator[Word]:
    """`git config KEY VALUE` and `git clone -c KEY=VALUE`, as KEY=VALUE."""
    if sub == "clone":
        yield from option_values(words[start:], "c", "config")
    if sub == "config":
        for key, value in zip(words[start + 1 :], words[start + 2 :], strict=False):
            if "." in key.text and key.literal:
                yield Word(f"{key.text}={value.text}", value.kind, value.source, value.split)


def _split(word: Word) -> tuple[Word, ...]:
    texts = word.text.split()
    if word.literal:
        return tuple(Word(text) for text in texts)
    return (*(Word(text) for text in texts), ANYTHING)


_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_PLACES = ("{}", "{/", "{.", "{1")
_FD_ACTIONS = frozenset({"-x", "-X", "--exec", "--exec-batch"})


@lru_cache(maxsize=256)
def runs_others(name: str) -> bool:
    """May the program of this (base) name run others, as far as `program_runs` knows?"""
    known = main_name(name) in _HANDLERS or name in listed("mentioning") or _commands(name)
    return bool(known) or name.startswith("git-") or interpreter(name) is not None


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
    commands = _commands(name)
    for value in values_of(words, commands) if commands is not None else ():
        code = _without(value, "exec=") if main_name(name) == "tar" else value
        yield Runs(via=name, code=(code,), sure=name != "rsync")
    if name in listed("mentioning"):
        yield Runs(via=name, mentions=words[1:])
        yield from input_mentions(name, part)
    if name.startswith("git-") and len(name) > 4:
        rest = (Word("git"), Word(name[4:]), *words[1:])
        yield Runs(via=name, words=rest)


def _without(word: Word, beginning: str) -> Word:
    return Word(word.text.removeprefix(beginning), word.kind, word.source, word.split)


def _sed(words: tuple[Word, ...]) -> Iterator[Runs]:
    scripts = list(option_values(words, "e", "expression"))
    if not scripts:
        known = Valued("efl", frozenset({"expression", "file", "line-length"}))
        operand = first_operands(words, known, 1)
        scripts = [words[i] for i in operand]
    for script in scripts:
        effect = sed_effect(script.text)
        if not script.literal or effect in {ScriptEffect.RUNS, ScriptEffect.UNKNOWN}:
            # `s/…/…/e` runs what it read.
            yield Runs(via="sed")
            yield Runs(via="sed", mentions=(script,), sure=False)


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
    operands = first_operands(words, _SSH, 1)
    name = base_name(words[0].text)
    if name == "ssh" and operands and operands[0] + 1 < len(words):
        yield Runs(via="ssh", code=words[operands[0] + 1 :], sure=False)


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


def _pager(words: tuple[Word, ...]) -> Iterator[Runs]:
    commands = tuple(word for word in words[1:] if word.text.startswith("+"))
    if commands:
        yield Runs(via=base_name(words[0].text), mentions=commands, sure=False)


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


def _code_operands(words: tuple[Word, ...]) -> Iterator[Runs]:
    for word in words[1:]:
        if not is_option(word) and word.text:
            yield Runs(via=base_name(words[0].text), code=(word,))


def _database(words: tuple[Word, ...]) -> Iterator[Runs]:
    texts = [w for w in words[1:] if any(m in w.text for m in (".shell", ".system", "\\!", "|"))]
    if texts:
        yield Runs(via=base_name(words[0].text), mentions=tuple(texts), sure=False)


def _input_commands(words: tuple[Word, ...]) -> Iterator[Runs]:
    """`at` and `batch` run the input as shell code; `ed` can."""
    if not any(word.text in {"-l", "-c", "--version"} for word in words[1:]):
        yield Runs(via=base_name(words[0].text))


_HANDLERS: dict[str, Callable[[tuple[Word, ...]], Iterator[Runs]]] = {
    "at": _input_commands,
    "batch": _input_commands,
    **dict.fromkeys(("c++", "cc", "g++", "gcc"), _gcc),
    "cargo": _cargo,
    "cmake": _cmake,
    "concurrently": _code_operands,
    "crontab": _input_commands,
    "ctest": _ctest,
    "ed": _input_commands,
    "entr": _entr,
    "fd": _fd,
    "find": _find,
    "git": git_runs,
    "hyperfine": _code_operands,
    "less": _pager,
    "make": _make,
    "more": _pager,
    "mispipe": _code_operands,
    "mysql": _database,
    "parallel": _parallel,
    "pee": _code_operands,
    "psql": _database,
    "rsync": _ssh,
    "runuser": _su,
    "scp": _ssh,
    "script": _script,
    "sed": _sed,
    "sftp": _ssh,
    "sg": _su,
    "sqlite3": _database,
    "ssh": _ssh,
    "start-stop-daemon": _start_stop,
    "su": _su,
}
