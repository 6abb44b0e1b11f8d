"""The commands in the arguments and the input of shells and interpreters."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.shell.arguments import Argument, Kind, is_option, walk_arguments, walk_past_end
from alhena.shell.languages.sed_awk import ScriptEffect, sed_effect, strange_awk, strange_sed
from alhena.shell.options import Runs, base_name, first_operands, option_values
from alhena.shell.parse.model import Part, Word, WordKind
from alhena.shell.tables import (
    Arity,
    Effect,
    Option,
    Program,
    Style,
    interpreter,
    listed,
    main_name,
    program,
    table_of_values,
)

if TYPE_CHECKING:
    import re

_AWK_RUNNERS = ("system", "|", "@", "extension")
_STANDARD_INPUT = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_SHELL_MARKS = ("$(", "${", "\\", "`", "eval", '"$')


def input_mentions(via: str, part: Part) -> Iterator[Runs]:
    """Mentions in the standard input, for programs that take it for commands."""
    texts = (*part.shown_input, *part.piped_words)
    if texts:
        yield Runs(via=via, mentions=texts, sure=False)


def script_input(via: str, part: Part) -> Iterator[Runs]:
    """A script that a program reads from its standard input."""
    yield from input_mentions(via, part)
    if part.stdin_piped or not part.shown_input:
        yield Runs(via=via)


def interpreter_runs(words: tuple[Word, ...], language: str, part: Part) -> Iterator[Runs]:
    """The commands an interpreter may run: guesses from its code, its module or its script."""
    name = base_name(words[0].text)
    found = _CodeSearch(words, language)
    for word in found.code:
        yield Runs(via=name, mentions=(word,), sure=False)
    if not found.certain:
        yield Runs(via=name)
    if language == "awk":
        yield from _awk(words, found, part)
    elif found.module is not None:
        yield Runs(via=f"{name} -m", words=words[found.module :])
    elif language in listed("mentioning"):
        pass  # all its words are looked at
    elif found.script is not None and words[found.script].text not in _STANDARD_INPUT:
        if not words[found.script].literal:
            yield Runs(via=name)
        elif language in {"deno", "R"}:
            yield Runs(via=name, mentions=words[found.script :], sure=False)
        elif "." in words[found.script].text or "/" in words[found.script].text:
            yield Runs(via=name, words=words[found.script :])
    elif not found.code and not found.informs:
        yield from script_input(name, part)


class _CodeSearch:
    """Finds the code, the module or the script in an interpreter's arguments."""

    def __init__(self, words: tuple[Word, ...], language: str) -> None:
        self.words, self.language = words, language
        self.code: list[Word] = []
        self.module: int | None = None
        self.script: int | None = None
        self.informs, self.certain = False, True
        self.table = language_table(language)
        taken = -1
        for argument in walk_past_end(self.table, words, exact=True):
            word, at = argument.word, argument.at
            if argument.kind is Kind.OPTION and at != taken:
                self.certain = self.certain and (word.literal or "=" in word.text)
                taken = self._option(argument)
                modular = language in {"python", "pypy"} and word.text[:2] != "--"
                if modular and word.text.endswith("m") and max(taken, at) + 1 < len(words):
                    self.module = max(taken, at) + 1
                    break
            elif argument.kind is Kind.OPERAND and at != taken and not self._is_command(word):
                self.script = at
                break

    def _is_command(self, word: Word) -> bool:
        return word.text.startswith("+") and self.language in {"vim", "ex"}

    def _option(self, argument: Argument) -> int:
        """Adds the code behind the options in a word. The index of the last word that it takes."""
        text = argument.word.text
        self.informs = self.informs or text in {"--version", "--help", "-V", "-h", "-v", "-version"}
        following = self.words[argument.at + 1 : argument.at + 2]
        for found in argument.options:
            if not found.names or self.table.effect_of(found.names[0]) is not Effect.CODE:
                continue
            self.code += [each for each in (found.value or found.following,) if each is not None]
            # `perl -ne CODE`, `node -pe CODE`: letters may follow the one that says code.
            if found.value is not None and text[:2] != "--":
                self.code += following
                return argument.at + (found.value.text.isalpha())
        return argument.last


@lru_cache(maxsize=64)
def language_table(language: str) -> Program:
    """The options of an interpreter, those that every one may have for code among them."""
    table = program(language)
    known = table.language if table and table.language else Program()
    code = dict.fromkeys(listed("long_code_options"), Option(Arity.VALUE, Effect.CODE))
    groups = {*known.letter_groups, *(name for name in code if name[1] != "-")}
    return msgspec.structs.replace(
        known,
        options={**known.options, **code},
        letter_groups=tuple(sorted(groups, key=len, reverse=True)),
    )


def _awk(words: tuple[Word, ...], found: _CodeSearch, part: Part) -> Iterator[Runs]:
    """The program is the first operand, unless it is in a file."""
    if any(word.text in _STANDARD_INPUT for word in option_values(words, "fE", "file exec")):
        yield from script_input("awk", part)
    from_file = any(w.text.startswith(("-f", "--file", "-E")) for w in words[1:])
    if from_file or found.script is None:
        return
    program = words[found.script]
    text = program.text
    runs = strange_awk(text, by_rule=True) and any(mark in text for mark in _AWK_RUNNERS)
    if not program.literal or (runs and any(mark in text for mark in _SHELL_MARKS)):
        yield Runs(via="awk")
    if runs:
        yield Runs(via="awk", mentions=(program,), sure=False)


class ShellArguments(msgspec.Struct, frozen=True):
    """The call of a shell: `operand` is the index of the code (`has_code`) or the script."""

    has_code: bool = False
    operand: int | None = None
    reads_input: bool = False
    certain: bool = True
    informs: bool = False


_SHELL = Program(
    style=Style.APART,
    options={
        **dict.fromkeys(("-o", "-O"), Option(Arity.APART)),
        **dict.fromkeys(("--rcfile", "--init-file", "--init-command"), Option(Arity.VALUE)),
        **dict.fromkeys(("-c", "--command"), Option(Arity.FLAG, Effect.CODE)),
        "-s": Option(Arity.FLAG),
    },
)
_FILES = ("-file", "-f")
_POWERSHELL = Program(
    style=Style.FOLDED,
    options={
        **dict.fromkeys(
            ("-executionpolicy", "-ex", "-ep", "-workingdirectory"), Option(Arity.VALUE)
        ),
        **dict.fromkeys(("-noprofile", "-nop", "-nologo", "-noninteractive"), Option(Arity.FLAG)),
        **dict.fromkeys(("-command", "-c", "-C"), Option(Arity.FLAG, Effect.CODE)),
        **dict.fromkeys(_FILES, Option(Arity.FLAG)),
    },
)


def shell_arguments(words: tuple[Word, ...]) -> ShellArguments:
    """The options and the first operand of a shell's call."""
    whole = base_name(words[0].text) in listed("encoded_code")
    if len(words) > 1 and words[1].text in {"--version", "--help"}:
        return ShellArguments(informs=True)
    table = _POWERSHELL if whole else _SHELL
    found: set[str] = set()
    certain, operand = True, len(words)

    def is_code(name: str) -> bool:
        return table.effect_of(name) is Effect.CODE

    # `+x` undoes `-x`, and takes the same values.
    signed = [Word(f"-{w.text[1:]}", w.kind) if w.text[:1] == "+" else w for w in words]
    for argument in walk_arguments(table, signed, exact=True):
        word = words[argument.at]
        if argument.kind is Kind.END or (word.text == "-" and word.literal):
            operand = argument.at + 1
            break
        if argument.kind is Kind.OPERAND and word.text != "+":
            operand = argument.at
            break
        certain = certain and word.literal
        for each in argument.options:
            names = () if word.text[:1] == "+" else each.names
            found.update(names)
            # In `--command=CODE` the code is no word of its own.
            hidden = bool(each.value) and any(map(is_code, names))
            certain = certain and not hidden and (not whole or bool(names))
    code = any(map(is_code, found))
    # Without -File, versions of PowerShell differ in whether it is a script or code.
    certain = certain and (not whole or code or operand == 1 or not found.isdisjoint(_FILES))
    if operand < len(words) and not words[operand].literal:
        certain = certain and not words[operand].split
    return ShellArguments(
        has_code=code,
        operand=operand if operand < len(words) else None,
        reads_input="-s" in found and not code,
        certain=certain,
    )


def sed_scripts(words: tuple[Word, ...]) -> list[Word]:
    """The scripts in the words of sed."""
    scripts = list(option_values(words, "e", "expression"))
    if scripts:
        return scripts
    known = table_of_values("efl", "expression file line-length")
    return [words[at] for at in first_operands(words, known, 1)]


def file_scripts(name: str, words: tuple[Word, ...]) -> list[Word]:
    """The scripts among the words that may write files: of sed and awk."""
    if name == "sed":
        return sed_scripts(words)
    return awk_programs(words) if name == "awk" else []


def awk_programs(words: tuple[Word, ...]) -> list[Word]:
    """The program in the words of awk, unless a file has it."""
    found = _CodeSearch(words, "awk")
    from_file = any(w.text.startswith(("-f", "--file", "-E")) for w in words[1:])
    return [] if from_file or found.script is None else [*found.code, words[found.script]]


def scripts_in(words: tuple[Word, ...]) -> list[Word]:
    """The words of a command that are code: for a shell, an interpreter, sed, awk or `eval`."""
    name = base_name(words[0].text)
    if name in listed("shells"):
        found = shell_arguments(words)
        return [words[found.operand]] if found.has_code and found.operand is not None else []
    if name in listed("evaluators"):
        return [code for runs in evaluator_runs(words) for code in runs.code]
    if main_name(name) == "sed":
        return sed_scripts(words)
    language = interpreter(name)
    if language == "awk":
        return awk_programs(words)
    return [] if language is None else _CodeSearch(words, language).code


def sed_runs(words: tuple[Word, ...], part: Part) -> Iterator[Runs]:
    """The commands in the scripts of sed."""
    if any(word.text in _STANDARD_INPUT for word in option_values(words, "f", "file")):
        yield from script_input("sed", part)
    for script in sed_scripts(words):
        effect = sed_effect(script.text)
        unread = effect is ScriptEffect.NONE and strange_sed(script.text, by_rule=True) is not None
        runs = not script.literal or effect in {ScriptEffect.RUNS, ScriptEffect.UNKNOWN}
        if runs:
            # `s/…/…/e` runs what it read.
            yield Runs(via="sed")
        if runs or unread:
            yield Runs(via="sed", mentions=(script,), sure=False)


def script_place(words: tuple[Word, ...]) -> int | None:
    """The index of the last word that a shell, an interpreter or sed may take for code or an
    option; None for any other program."""
    name = base_name(words[0].text)
    ended = next((at for at, word in enumerate(words) if word.literal and word.text == "--"), None)
    if name in listed("shells"):
        arguments = shell_arguments(words)
        return arguments.operand if arguments.operand is not None else len(words)
    language = interpreter(name)
    if language is None:
        if main_name(name) != "sed":
            return None
        script = any(not is_option(word) or word.text[:2] == "-e" for word in words[1:ended])
        return len(words) if ended is None else ended + (not script)
    found = _CodeSearch(words, language)
    place = found.module if found.module is not None else found.script
    if place is None:
        return len(words)
    if not found.code:
        return place
    return place - 1 if ended is not None or language in {"python", "pypy"} else len(words)


def evaluator_runs(words: tuple[Word, ...]) -> Iterator[Runs]:
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


def shell_runs(words: tuple[Word, ...], part: Part) -> Iterator[Runs]:
    """A shell: the code in its arguments, else its script, else its standard input."""
    name = base_name(words[0].text)
    found = shell_arguments(words)
    if found.informs:
        return
    if not found.certain:
        yield Runs(via=name)
    for word in option_values(words, "", "init-file rcfile init-command"):
        yield Runs(via=name, code=(Word("."), word))
    if found.has_code:
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
        texts = part.shown_input
        for text in texts:
            yield Runs(via=name, code=(text,))
        if not texts:
            yield Runs(via=name)
        yield from piped_code(name, part)


def piped_code(via: str, part: Part) -> Iterator[Runs]:
    """The words that other commands may write into the pipe, as shell code."""
    words = part.piped_words
    for code in (words, *((word,) for word in words if " " in word.text)) if words else ():
        yield Runs(via=via, code=code, sure=False)


def possible_words(text: str) -> list[Word]:
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


def pager_runs(words: tuple[Word, ...]) -> Iterator[Runs]:
    """The commands of a pager (`+COMMAND`)."""
    commands = tuple(word for word in words[1:] if word.text.startswith("+"))
    if commands:
        yield Runs(via=base_name(words[0].text), mentions=commands, sure=False)


def input_runs(words: tuple[Word, ...]) -> Iterator[Runs]:
    """`at` and `batch` run the input as shell code; `ed` can."""
    if not any(word.text in {"-l", "-c", "--version"} for word in words[1:]):
        yield Runs(via=base_name(words[0].text))
