"""Tables of programs: their options, with what each takes and does.

The tables are the `programs/*.toml` files; `scripts/compile_policy.py` compiles them to
`programs.json`, of which a program is decoded when it is first asked for. docs/policy.md ("Adding a
program") describes them.
"""

from enum import IntEnum, StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import re


class Arity(IntEnum):
    """The way an option takes a value: not at all, surely, only attached, surely and perhaps
    dashed, unless it is the last word, from the next word whatever is attached, also joined to its
    name, from the two next words."""

    FLAG = 0
    VALUE = 1
    ATTACHED = 2
    DASHED = 3
    UNLESS_LAST = 4
    APART = 5
    JOINED = 6
    PAIR = 7


class Effect(StrEnum):
    """The effect of an option that the program alone does not have, as a clause."""

    NONE = ""
    WRITES = "writes a file"
    DELETES = "deletes files"
    RUNS = "runs another program"
    SETTINGS = "takes its settings from elsewhere"
    CHANGES = "changes more than it shows"
    ELSEWHERE = "leads out of the working directory"
    LISTS = "reads names of files from elsewhere"
    CONNECTS = "connects to another host"
    PLAIN = "may name a file or a program"
    CODE = "contains commands"


class Style(StrEnum):
    """The spelling of a program's options."""

    LETTERS = "letters"  # letters together, values attached or next; names may be shortened
    APART = "apart"  # letters together, each value in a word of its own
    WORDS = "words"  # whole words behind one dash or two
    FOLDED = "folded"  # whole words in any case
    CAMEL = "camel"  # as LETTERS, names in camel case or with dashes
    NOPT = "nopt"  # any beginning of a name behind any number of dashes, as npm reads them
    LONG_ONLY = "long-only"  # as WORDS, names may be shortened (getopt_long_only)


ONE_DASH = (Style.WORDS, Style.FOLDED, Style.LONG_ONLY)


class FileRole(StrEnum):
    """The part that an option plays in which files a program reads."""

    PATTERN = "pattern"  # it gives the pattern or script that is otherwise the first operand
    TEXTS = "texts"  # its value is no file
    LISTS = "lists"  # names of files are read from a file, or from the input
    SHOWS = "shows"  # it may show secrets
    ADDRESSES = "addresses"  # it shows addresses of repositories, which may hold credentials
    NAMES = "names"  # only names are shown, no contents
    TREES = "trees"  # directories are read with all that is below
    FOLLOWS = "follows"  # symbolic links below them are followed
    HIDDEN = "hidden"  # hidden and ignored files below them are read, too
    TRACKED = "tracked"  # the files are those that git tracks
    ONLY = "only"  # of these, only files whose names match its value; with `!`, only others
    WITHOUT = "without"  # files and directories whose names match its value are left out


class Option(msgspec.Struct, frozen=True):
    """One option. `reads`: a program that reads still only reads with it."""

    arity: Arity
    effect: Effect = Effect.NONE
    reads: bool = False

    @property
    def may_surprise(self) -> bool:
        """Does a word that may turn out to be this option need a person's yes?"""
        return bool(self.effect) and self.effect is not Effect.LISTS

    @property
    def takes_next(self) -> bool:
        """May its value be the next word?"""
        return self.arity not in (Arity.FLAG, Arity.ATTACHED)


class Console(msgspec.Struct, frozen=True):
    """The language of a program that reads commands. `refused`: a pattern that no harmless text
    holds. `lines`: a pattern that each line of a harmless text is; the lines are not looked at when
    it is empty. The program does not read its standard input when one of the options `without` is
    there, none of the options `needs` (if it names any), or as many operands as `operands` says."""

    refused: str = ""
    lines: str = ""
    without: str = ""
    needs: str = ""
    operands: int = 1_000_000


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program, or one of its subcommands. `options` keeps names as `option_name` gives them.

    `reads`: it only reads, with options that do. `form`: `guarded` (some option does more, so no
    word may turn out to be one), `leading` (options stand before operands), `names` (it looks at
    names, not contents), `expression` (options are tests, and stand anywhere), `subcommand` (all
    that follows the first operand is an operand). `operands`: the most there may be; `needs`:
    options of which one must be there, with what happens otherwise;
    `refuses`: options that do not only read. `operand_pattern`: a clause on operands that do not
    match the pattern (`matches`); `harmless`: the values of an option without its effect.
    `bundled`: the first operand holds letters of options. `judged`: it has options with an effect
    beyond that. `hands`: option -> the program that gets its value, in words that commas separate.
    `joined`: options that a value follows directly;
    `letter_groups`: those of several letters behind one dash, in a style of letters. `script`:
    what follows the first operand is for the program that it names, but for operands like this
    pattern.
    `commands`: options whose value is shell code or a program; `moves`: those of a wrapper that
    name the directory in which it starts its command; `own`: its subcommands, where it runs a
    program of any other name. `before`: options before the subcommand. `always`: a clause on what
    a subcommand does without any option. `beside`: options that ask where the rule names an
    operand. `unknown`: the harmless values of options that the table does not have. `files`:
    options by the part they play in which files are read (`FileRole`), `*` when no option is
    needed. `letters` and `long`: one-letter options with a
    value in any subcommand, and long names of letters. `operand` and `check` name the functions
    that judge operands. `subcommands`: those with a table; `deeper`: the
    beginnings of these that have two words or more (`az vm`).
    """

    options: dict[str, Option] = {}
    style: Style = Style.LETTERS
    bundled: bool = False
    at_files: bool = False
    reads: bool = False
    form: frozenset[str] = frozenset()
    operands: int | None = None
    needs: tuple[tuple[tuple[str, ...], str], ...] = ()
    operand_pattern: dict[str, str] = {}
    refuses: dict[str, str] = {}
    harmless: dict[str, str] = {}
    judged: bool = False
    hands: dict[str, str] = {}
    files: dict[FileRole, tuple[str, ...]] = {}
    joined: tuple[str, ...] = ()
    letter_groups: tuple[str, ...] = ()
    script: str | None = None
    commands: "Program | None" = None
    before: "Program | None" = None
    wraps: "Wrapper | None" = None
    moves: "Program | None" = None
    own: str = ""
    language: "Program | None" = None
    letters: str | None = None
    long: dict[str, str] = {}
    spellings: dict[str, str] = {}
    groups: dict[str, dict[str, str]] = {}
    console: Console | None = None
    operand: str = ""
    always: str = ""
    beside: frozenset[str] = frozenset()
    unknown: str | None = None
    check: str = ""
    subcommands: tuple[str, ...] = ()
    deeper: frozenset[str] = frozenset()
    runners: tuple[str, ...] = ()

    def has_below(self, path: str) -> bool:
        """Has a program with these words (`npm run`) subcommands in the tables?"""
        return path in self.deeper if " " in path else bool(self.subcommands)

    def effect_of(self, name: str) -> Effect:
        """The effect of an option; none for an unknown one."""
        option = self.options.get(name)
        return option.effect if option is not None else Effect.NONE

    def takes_next(self, name: str) -> bool:
        """May the value of this option be the next word?"""
        option = self.options.get(name)
        return option is not None and option.takes_next

    @property
    def has_effects(self) -> bool:
        """Has some option an effect that a word may turn out to have?"""
        return any(option.may_surprise for option in self.options.values())


class Wrapper(msgspec.Struct, frozen=True):
    """A command that ends in another command: its options, how many operands stand before the
    other, and how many more may. `code`: the rest is joined with blanks and is shell code.
    `settings`: `NAME=value` may stand before the other. `remote`: it runs on another machine.
    `enters`: its operand is the directory in which the other starts."""

    options: Program = Program()
    operands: int = 0
    optional: int = 0
    settings: bool = False
    code: bool = False
    remote: bool = False
    enters: bool = False


class _Tables(msgspec.Struct, frozen=True):
    names: dict[str, str]
    aliases: dict[str, str]
    versions: dict[str, str]
    absent: dict[str, str]
    narrow: dict[str, str]
    removes: dict[str, str]
    programs: dict[str, msgspec.Raw]


@lru_cache(maxsize=1)
def _tables() -> _Tables:
    compiled = Path(__file__).with_name("programs").joinpath("programs.json").read_bytes()
    return msgspec.json.decode(compiled, type=_Tables)


@lru_cache(maxsize=1024)
def program(name: str) -> Program | None:
    """The table of a program by any of its names, or of a program with subcommands (`npm ls`)."""
    first, blank, rest = name.partition(" ")
    raw = _tables().programs.get(f"{main_name(first)}{blank}{rest}")
    return None if raw is None else from_compiled(msgspec.json.decode(raw))


def from_compiled(table: dict[str, Any]) -> Program:
    """A table as `scripts/compile_policy.py` makes it."""
    options = dict(_options(table.get("options", {})))
    inner: dict[str, Any] = {name: from_compiled(table[name]) for name in _INNER if name in table}
    if "wraps" in table:
        wraps = {**table["wraps"], "options": from_compiled(table["wraps"]["options"])}
        inner["wraps"] = msgspec.convert(wraps, Wrapper)
    return msgspec.convert({**table, **inner, "options": options}, Program)


_INNER = ("before", "moves", "commands", "language")
"""Keys of a table under which there are tables of options."""


@lru_cache(maxsize=256)
def table_of_values(letters: str, names: str) -> Program:
    """A table of these options, each with a value; the names may be shortened, and those with one
    dash keep it."""
    found = [name if name[0] == "-" else f"--{name}" for name in names.split()]
    option = Option(Arity.VALUE, Effect.PLAIN)
    groups = (each for each in found if each[1] != "-" and len(each) > 2)
    options = dict.fromkeys([*(f"-{letter}" for letter in letters), *found], option)
    return Program(options=options, letter_groups=tuple(sorted(groups, key=len, reverse=True)))


def _options(groups: dict[str, str]) -> list[tuple[str, Option]]:
    found: list[tuple[str, Option]] = []
    for kind, names in groups.items():
        arity, effect, reads = kind.split(" ")
        known = Effect[effect.upper()] if effect else Effect.NONE
        option = Option(Arity(int(arity)), known, reads == "reads")
        found += [(name, option) for name in names.split(" ")]
    return found


def main_name(name: str) -> str:
    """The name under which a program has its table."""
    return _tables().aliases.get(name, name)


@lru_cache(maxsize=64)
def listed(name: str) -> frozenset[str]:
    """A list of names, as `names.toml` has it."""
    return frozenset(_tables().names[name].split())


@lru_cache(maxsize=64)
def narrow(path: str) -> frozenset[str] | None:
    """The subcommands of a program with which the rule of an approval may end, `*` for any word;
    None for a program without such a list."""
    words = _tables().narrow.get(path)
    return None if words is None else frozenset(words.split())


def removal(name: str) -> str | None:
    """The words that a program, or a subcommand of one, removes or overwrites, as `names.toml` has
    them; None for one that is not known to."""
    return _tables().removes.get(name)


def matches(pattern: str, text: str, *, known: bool = True) -> bool:
    """Does the pattern match the whole text? A NUL replaces what is not `known` at its end."""
    return _compile_pattern(pattern).fullmatch(text if known else f"{text}\0") is not None


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> "re.Pattern[str]":
    import re

    return re.compile(pattern, re.DOTALL)


def tells_version(name: str, word: str) -> bool:
    """Does this word, alone after the program's name, only make it tell its version?"""
    return word in _tables().versions.get(name, "").split()


def why_absent(name: str) -> str:
    """One clause on a program that does not only read."""
    return f"{name} {_tables().absent.get(name, 'is not in the list of commands that only read')}"


def all_programs() -> tuple[str, ...]:
    """The name of every table."""
    return tuple(_tables().programs)


def option_name(text: str, style: Style) -> str:
    """The name of an option as its table holds it; of letters case matters."""
    bare = text.lstrip("-")
    if len(bare) > 1 and style in (Style.FOLDED, Style.CAMEL, Style.NOPT):
        folded = bare.replace("-", "").replace("_", "").casefold()
        return f"-{folded}" if style is Style.FOLDED else f"--{folded}"
    if len(bare) < 2 or style in ONE_DASH:
        return f"-{bare}"
    return f"--{bare.replace('_', '-')}"


def global_options(name: str) -> Program:
    """The options of a program before its subcommand; empty when the program is not known."""
    found = program(name)
    return found.before if found and found.before else _NONE


_NONE = Program()


def wrapper(name: str) -> Wrapper | None:
    """The way a program of this (base) name wraps another."""
    loader = next(filter(name.startswith, listed("loaders")), name)
    found = program(loader)
    return found.wraps if found else None


@lru_cache(maxsize=256)
def interpreter(name: str) -> str | None:
    """The interpreter this (base) name means, perhaps with a version (`python3.12`)."""
    for known in (name, name.rstrip("0123456789.-")):
        found = program(known)
        if found is not None and found.language is not None:
            return main_name(known)
    return None
