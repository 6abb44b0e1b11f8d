"""Arguments by which an allowed program does more than the rule names.

One walk over the arguments of a program by its table. The languages of consoles are large, so
nothing is parsed: of the program's own commands those that only show something are known; of SQL,
the words without which a statement stays in the database.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.shell.arguments import Argument, Kind, is_option, options_in, walk_arguments
from alhena.shell.languages.sed_awk import STRANGE
from alhena.shell.parse.model import Part, Word
from alhena.shell.tables import (
    ONE_DASH,
    Console,
    Effect,
    Program,
    Style,
    matches,
    program,
)

if TYPE_CHECKING:
    import re


def stays_inside(name: str, text: str) -> bool:
    """Does this text, as commands for the program, surely run, write and load nothing else?"""
    refused, lines = _patterns(name)
    if refused is not None and refused.search(text):
        return False
    return lines is None or all(lines.fullmatch(line) for line in text.split("\n"))


@lru_cache(maxsize=32)
def _patterns(name: str) -> "tuple[re.Pattern[str] | None, re.Pattern[str] | None]":
    import re

    table = program(name)
    console = table.console if table and table.console else Console()
    refused = re.compile(console.refused) if console.refused else None
    return refused, re.compile(console.lines) if console.lines else None


def fed(part: Part) -> tuple[Word, ...] | None:
    """The standard input of a command, as far as the line shows it; None when it is a file's or
    another command's text."""
    texts: list[Word] = []
    for redirection in part.redirections:
        target = redirection.target
        if redirection.operator.startswith("<<"):
            texts.append(target or Word(redirection.body or ""))
        elif redirection.operator in {"<", "<>", "<&"} and not _nothing(target):
            return None
    return tuple(texts) if texts or not part.stdin_piped else None


def _nothing(target: Word | None) -> bool:
    return target is not None and target.literal and target.text == "/dev/null"


SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "-"})

_HOME = ("~", "$HOME", "${HOME", '"$HOME', '"${HOME')
_LOCAL = frozenset({"127.0.0.1", "::1"})


def describe_excess(text: str, effect: str) -> str:
    """An argument does something that the rule does not speak of, as a sentence."""
    return f"{text} {effect}, and the rule does not name it"


def describe_unknown(word: Word, name: str, effect: str) -> str:
    """An argument may become an option with an effect, as a sentence."""
    shown = word.source or word.text or "…"
    effect = effect if effect is not Effect.ELSEWHERE else "works elsewhere"
    return f"{shown} may turn out to be an option by which {name} {effect}"


def any_subcommand(word: Word, name: str) -> str:
    """A word in the place of a subcommand is not known, as a sentence."""
    return f"{word.source or word.text} may be any subcommand of {name}; write it out"


def leads_out(word: Word) -> bool:
    """May a path lead out of the working directory, or to git's own, going by how it is written?"""
    text = word.text
    if not word.literal or text.startswith(("/", "~", "\\")) or "://" in text or text[1:2] == ":":
        return True
    return not {"..", ".git"}.isdisjoint(text.translate(_SEPARATED).casefold().split("/"))


_SEPARATED = str.maketrans(dict.fromkeys("\\:;,=", "/"))
"""Marks that end the name of a directory, in paths and in lists of them."""


def is_secret(word: Word) -> bool:
    """Does a path, or one behind a `name=`, name a file that may hold secrets?"""
    from alhena.shell.secret_files import may_hold_secrets

    return any(may_hold_secrets(text) for text in (word.text, word.text.rpartition("=")[2]))


def script_effect(name: str, word: Word) -> str | None:
    """The effect of the code that a program is given, as a sentence."""
    if not word.literal:
        return f"the {name} script holds {word.source or word.text}, which may be any command"
    if name not in STRANGE:
        if stays_inside(name, word.text):
            return None
        return f"the commands for {name} may run, write or load something else"
    strange = STRANGE[name](word.text, by_rule=True)
    if strange is None:
        return None
    return f"{strange!r} in the {name} script may write, run or load something"


class Reading:
    """The walk. `count` words, from the first, are named by the rule; `operand` judges what is no
    option."""

    def __init__(
        self,
        name: str,
        words: tuple[Word, ...],
        count: int,
        table: Program,
        operand: "Callable[[Reading, Word], str | None] | None" = None,
    ) -> None:
        self.name, self.words, self.count, self.table = name, words, count, table
        self.operand = operand
        self.seen: set[str] = set()
        self.operands = 0
        self.at = self.start = self.end = 1
        self.ended_at = len(words)
        self.vague = False

    @property
    def beyond(self) -> bool:
        """Does the rule not name the word that is looked at?"""
        return self.at >= self.count

    def hazard(self) -> str | None:
        """The first argument with an effect that the rule does not name, as a sentence."""
        if self.table.at_files and self.table.script is None:
            for word in self.words[max(self.count, 1) :]:
                if word.text.startswith("@"):
                    return describe_excess(
                        word.source or word.text, "is a file of further arguments"
                    )
        for argument in walk_arguments(self.table, self.words):
            self.at, self.start, self.end = argument.last, argument.at, argument.end
            found = None
            if argument.kind is Kind.END:
                self.ended_at = argument.at
            elif argument.kind is Kind.OPTION:
                found = self._option(argument)
            else:
                found = self._operand(argument.word)
                if found is None and self._is_script(argument.word):
                    return None
            if found is not None:
                return found
        return None

    def _operand(self, word: Word) -> str | None:
        found = self._always(word) or self._beside_pattern(word)
        if found is None and self.operand:
            found = self.operand(self, word)
        self.operands += 1
        return found

    def _is_script(self, word: Word) -> bool:
        """Are the words behind this operand arguments of the program that it names?"""
        more, subcommands = self.table.script, self.name.count(" ")
        if more is None or self.operands <= subcommands:
            return False
        return word.literal and not matches(more, word.text)

    def _beside_pattern(self, word: Word) -> str | None:
        """The effect of an operand that is not like the program's harmless ones."""
        for clause, pattern in self.table.operand_pattern.items() if self.beyond else ():
            home = word.source.startswith(_HOME) and not word.literal
            if not matches(pattern, word.source if home else word.text, known=word.literal):
                return describe_excess(word.source or word.text, clause)
            if clause == Effect.ELSEWHERE and (home or is_secret(word)):
                return describe_excess(word.source or word.text, "may hold secrets")
        return None

    def _always(self, word: Word) -> str | None:
        """The effect of a subcommand, if the rule does not name this last word of it."""
        last = self.operands == self.name.count(" ") - 1
        alone = self.table.always if last and self.beyond else ""
        return describe_excess(word.text, alone) if alone else None

    def _option(self, argument: Argument) -> str | None:
        word = argument.word
        whole = word.text.startswith("--") or self.table.style in (*ONE_DASH, Style.NOPT)
        for found in argument.options:
            value = found.value or found.following
            for name in found.names:
                if not argument.repeated:
                    self.seen.add(name)
                effect = self.effect(found.shown, name, value)
                if effect is not None:
                    return effect
            if not found.names and value is not None:
                effect = self._beside_pattern(value) or self._unknown(found.shown, value)
                if effect is not None:
                    return effect
            self.vague = self.vague or (whole and not found.names)
        return self._may_become(word) if argument.open else None

    def _unknown(self, shown: str, value: Word) -> str | None:
        """The effect of an option that the table does not have."""
        harmless = self.table.unknown
        if harmless is None or not self.beyond or (value.literal and matches(harmless, value.text)):
            return None
        return describe_excess(shown, Effect.PLAIN)

    def _may_become(self, word: Word) -> str | None:
        effects = (each.effect for each in self.table.options.values() if each.may_surprise)
        effect = next(effects, None)
        return describe_unknown(word, self.name, effect) if effect and self.beyond else None

    def effect(self, shown: str, option: str, value: Word | None) -> str | None:
        """The effect of an option with its value, if the rule does not name it."""
        effect = self.table.effect_of(option)
        if option in self.table.beside and TARGET in self.seen and self.start >= self.count:
            return describe_excess(shown, "may change the target")
        if option in self.table.hands or effect is Effect.CODE:
            return self._code(option, value) if value and self.end >= self.count else None
        if not effect or (value is not None and self._is_harmless(option, effect, value)):
            return None
        elsewhere = effect in _PATHS
        if value is None and elsewhere and self.table.takes_next(option):
            return None  # no path is given
        # To name an option that runs a program is not yet to name the program.
        naming = effect in _NAMING
        if (self.end if naming else self.start) < self.count:
            return None
        if elsewhere and value is not None:
            shown = f"{shown} {value.source or value.text}"
            effect = "may hold secrets" if is_secret(value) else effect
        return describe_excess(shown, effect)

    def _code(self, option: str, value: Word) -> str | None:
        """The effect of a value that the program takes for commands, or hands on."""
        table = program(self.table.hands.get(option, ""))
        if table is None:
            return script_effect(self.name, value)
        if not value.literal:
            return describe_unknown(value, self.name, Effect.RUNS)
        words = tuple(Word(text) for text in ("", *value.text.split(",")))
        found = Reading(self.name, words, 1, table).hazard()
        return found or next(_open_effects(option, words[-1], table), None)

    def _is_harmless(self, option: str, effect: Effect, value: Word) -> bool:
        """Is there no harm in this value?"""
        text = value.text
        if effect is Effect.WRITES and value.literal and text in SINKS:
            return True
        harmless = self.table.harmless.get(option)
        if harmless is not None:
            secret = effect in _PATHS and is_secret(value)
            return value.literal and matches(harmless, text) and not secret
        if effect in _PATHS:
            # `-f=../x` is a spelling of `-f ../x` for some.
            out = leads_out(value) or is_secret(value)
            return not (out or leads_out(Word(text.removeprefix("="), value.kind)))
        if not value.literal:
            return False
        if effect in (Effect.PLAIN, Effect.CONNECTS):
            local = effect is Effect.CONNECTS and (text in _LOCAL or text[:1] == "/")
            return local or text.replace("-", "").replace("_", "").replace("+", "").isalnum()
        return False


def _open_effects(option: str, word: Word, table: Program) -> Iterator[str]:
    """The effects of an option that is handed on before its value (`-Xlinker -o -Xlinker FILE`)."""
    for found in options_in(table, word) if is_option(word) else ():
        for name in found.names if found.value is None else ():
            effect = table.effect_of(name)
            if effect and table.takes_next(name):
                yield describe_excess(f"{option} {word.text}", effect)


_PATHS = (Effect.ELSEWHERE, Effect.LISTS)
_NAMING = (Effect.RUNS, *_PATHS, Effect.PLAIN, Effect.SETTINGS)


TARGET = " target"
"""Seen where the rule names a target or an address."""
