"""The words of a command that name the files which it removes or overwrites."""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from alhena.shell.arguments import Argument, Kind, cut_start, walk_arguments
from alhena.shell.options import base_name, first_operands
from alhena.shell.parse.model import Word
from alhena.shell.tables import (
    ONE_DASH,
    Arity,
    Effect,
    Option,
    Program,
    Style,
    global_options,
    listed,
    main_name,
    option_name,
    program,
    removal,
)

_ARCHIVE_CHANGES = frozenset("rqdms")
_GIVES_SCRIPT = frozenset({"-e", "-f", "--expression", "--file", "-E"})
_CHOSEN = {
    "all": slice(None),
    "archive": slice(1, 2),
    "final": slice(-1, None),
    "first": slice(1),
    "last": slice(-1, None),
    "rest": slice(1, None),
    "script": slice(1, None),
}


class Uses(msgspec.Struct, frozen=True):
    """The words of a command by their use: operands, the values that name what is written, options
    that are given, and those that can be nothing else, such as the value of another."""

    operands: list[Word] = []
    written: list[Word] = []
    given: set[str] = set()
    surely: set[str] = set()


class Removal(msgspec.Struct, frozen=True):
    """The words of a program that it removes or overwrites, as `names.toml` describes them.

    `operands`: all, first, rest (all but the first), last (of several), final, roots,
    archive (the second, if the first has letters of `ar` that change it), script (not the first,
    unless an option gives the script), none, always (the program spoils more than files); `needs`:
    only with one of these options; `unless`: not with these; `table`: the options of the program,
    those that name what is written with this effect. `entries`: a link is removed itself. `here`:
    also files of the directory that it works in. `away`: the other operands are gone then."""

    operands: str
    needs: frozenset[str]
    unless: frozenset[str]
    table: Program
    entries: bool = False
    here: bool = False
    away: bool = False

    def read(self, words: tuple[Word, ...]) -> Uses:
        """Tells the words of a command apart, by the table."""
        found = Uses()
        for argument in walk_arguments(self.table, words, exact=True):
            if argument.kind is Kind.OPERAND:
                found.operands.append(argument.word)
            found.surely.update(*(each.names for each in argument.options if len(each.names) == 1))
        for argument in walk_arguments(self.table, words):
            found.given.update(*(each.names or (each.shown,) for each in argument.options))
            found.written.extend(self._find_written(argument))
        return found

    def _find_written(self, argument: Argument) -> Iterator[Word]:
        for each in argument.options:
            if any(self.table.effect_of(name) is Effect.WRITES for name in each.names):
                value = each.value or each.following
                if value is not None:
                    yield cut_start(value, value.text.startswith("=")) if each.value else value

    def applies(self, uses: Uses) -> bool:
        """Does a command with these words remove or overwrite anything in this way?"""
        if self.unless & uses.surely:
            return False
        return not self.needs or bool(self.needs & uses.given)

    def targets(self, uses: Uses) -> list[Word]:
        """The words that are removed or overwritten."""
        place = [Word(".")] if self.here else []
        return [*place, *self._choose_operands(uses), *uses.written]

    def _choose_operands(self, uses: Uses) -> list[Word]:
        operands = uses.operands
        match self.operands:
            case "archive" if uses.given & {f"-{letter}" for letter in _ARCHIVE_CHANGES}:
                return operands[:1]
            case "archive" if not operands or not _ARCHIVE_CHANGES & set(operands[0].text):
                return []
            case "last" if uses.surely & {"-t", "--target-directory"}:
                return []
            case "last" if len(operands) < 2 and all(each.literal for each in operands):
                return []
            case "script" if uses.given & _GIVES_SCRIPT:
                return operands
            case "of=":
                return [cut_start(w, 3) for w in operands if w.text.startswith("of=")]
            case kind:
                return operands[_CHOSEN[kind]] if kind in _CHOSEN else []


def removing(name: str, words: tuple[Word, ...]) -> tuple[str, tuple[Word, ...]]:
    """The program with its subcommands, as far as it is known to destroy with them, and the words
    from there."""
    found = first_operands(words, global_options(name), 2)
    for count in range(len(found), 0, -1):
        key = " ".join((name, *(words[at].text for at in found[:count])))
        if removal(key) is not None or program(key) is not None:
            return key, words[found[count - 1] :]
    return name, words


def removals_of(name: str, key: str) -> tuple[Removal, ...]:
    """The ways in which a program with these subcommands removes or overwrites files."""
    return removals(key, name)


def written_words(words: tuple[Word, ...]) -> Iterator[Word]:
    """The words that name the files which a command removes or overwrites."""
    name = main_name(base_name(words[0].text))
    key, behind = removing(name, words)
    for each in removals_of(name, key):
        uses = each.read(behind)
        if each.applies(uses):
            yield from each.targets(uses)


@lru_cache(maxsize=256)
def removals(key: str, name: str) -> tuple[Removal, ...]:
    """The ways in which a program, with its subcommands, removes or overwrites files. One that has
    neither such an entry nor a table is taken to write what the usual options for output name."""
    known = program(key) or program(name)
    text = removal(key) or removal(key.partition(".")[0]) or ("none" if known else removal("*"))
    style = Style.WORDS if name in listed("one_dash") else Style.LETTERS
    table = known if known is not None and known.options else Program(style=style)
    uses = [*(text or "").split(";"), *(["none"] if known else [])]
    return tuple(_read(each, table) for each in dict.fromkeys(uses))


def _read(text: str, table: Program) -> Removal:
    style, (kind, *rest) = table.style, text.split()
    known = {name: each for name, each in table.options.items() if _is_output(name, each)}
    options = {name: Option(each.arity, Effect.WRITES) for name, each in known.items()}
    marked: dict[str, list[str]] = {"?": [], "!": [], ">": [], "-": []}
    # The same option may have a value and decide.
    for each in sorted(
        (word for word in rest if word[0] in "?!>-"), key=lambda word: word[0] in "?!"
    ):
        bare = each.lstrip("?!>").rstrip(":=")
        name = option_name(bare, style) if style in ONE_DASH or bare[:2] == "--" else bare
        marked[each[0]].append(name)
        arity = Arity.VALUE if each[0] in ">-" else Arity.FLAG
        effect = {">": Effect.WRITES, "-": Effect.NONE}.get(each[0], Effect.CHANGES)
        options.setdefault(name, Option(arity, effect))
    if table.bundled:
        options = {**{name: Option(each.arity) for name, each in table.options.items()}, **options}
    groups = () if style in ONE_DASH else (o for o in options if o[1] != "-" and len(o) > 2)
    return Removal(
        operands=kind.removesuffix("/"),
        needs=frozenset(marked["?"]),
        unless=frozenset(marked["!"]),
        table=Program(
            options=options,
            style=style,
            bundled=table.bundled,
            joined=table.joined,
            letter_groups=tuple(sorted(groups, key=len, reverse=True)),
        ),
        entries=kind.endswith("/"),
        here="here" in rest,
        away="away" in rest,
    )


def _is_output(name: str, option: Option) -> bool:
    """Does an option name what is written?"""
    effect = option.effect
    return effect is Effect.WRITES or (effect is Effect.ELSEWHERE and name in listed("outputs"))
