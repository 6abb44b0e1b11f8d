"""The words of a command, divided into options, values and operands; words that are plain text.

The reader here accepts a small part of what bash does and refuses the rest, so a prefix never
means something else to bash than to its reader. It needs no grammar: rules are checked on load.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.bash.model import Word, WordKind
from alhena.policy.programs import (
    ONE_DASH,
    Arity,
    Program,
    Style,
    Valued,
    global_options,
    option_name,
)

if TYPE_CHECKING:
    import re


class Takes(Enum):
    """Is the word behind an option its value?"""

    NOTHING = 0
    NEXT = 1
    PERHAPS = 2


def is_option(word: Word) -> bool:
    """Does the word surely begin like an option?"""
    text = word.text
    return text[:1] == "-" and len(text) > 1


def takes(text: str, known: Valued) -> Takes:
    """The use of the next word by the option `text`; for a long option not in `known`, PERHAPS."""
    if text.startswith("--"):
        name = text[2:]
        if "=" in name:
            return Takes.NOTHING
        return Takes.NEXT if name in known.names else Takes.PERHAPS
    if text in known.names:
        return Takes.NEXT
    for index, letter in enumerate(text[1:], start=2):
        if letter in known.letters:
            return Takes.NEXT if index == len(text) else Takes.NOTHING
    return Takes.NOTHING


def base_name(text: str) -> str:
    """The program a command word names, without its directory."""
    return text.rsplit("/", 1)[-1] if "/" in text else text


def is_setting(text: str) -> bool:
    """Is this a `NAME=value`?"""
    name, sign, _ = text.partition("=")
    return bool(sign) and name.removesuffix("+").isidentifier() and name.isascii()


def first_operands(words: Sequence[Word], known: Valued, count: int) -> tuple[int, ...]:
    """The indices of the first `count` operands, by the likeliest reading: options that `known`
    does not hold take no value. A word that is not literal counts as an operand, `+nightly` does
    not."""
    found: list[int] = []
    index, ended = 1, False
    while index < len(words) and len(found) < count:
        word = words[index]
        if not ended and word.literal and word.text == "--":
            ended = True
        elif not ended and (is_option(word) or (index == 1 and word.text.startswith("+"))):
            index += takes(word.text, known) is Takes.NEXT and word.literal
        else:
            found.append(index)
        index += 1
    return tuple(found)


def behind_subcommands(words: Sequence[Word], path: Sequence[str]) -> int | None:
    """The index of the first argument behind the subcommands `path`, options between them skipped;
    None when these are not the subcommands of the command."""
    name = base_name(words[0].text)
    start = 0
    for depth, want in enumerate(path):
        known = global_options(" ".join((name, *path[:depth])))
        found = first_operands(words[start:], known, 1)
        if not found or words[start + found[0]].text != want:
            return None
        start += found[0]
    return start + 1


def option_values(words: Sequence[Word], letters: str, names: str) -> Iterator[Word]:
    """The values given to these options: `-Xvalue`, `-vX value`, `--name=value`, `--name value`,
    and `--nam` for a name when it is long enough to be meant."""
    return values_of(words, Valued(letters, _split_names(names)))


def values_of(words: Sequence[Word], known: Valued) -> Iterator[Word]:
    """As `option_values`."""
    for index in range(1, len(words)):
        word = words[index]
        if not is_option(word):
            continue
        text = word.text
        following = words[index + 1] if index + 1 < len(words) else None
        if text.startswith("--") or text.partition("=")[0] in known.names:
            name, sign, value = text.removeprefix("--").partition("=")
            name = name.replace("_", "-")
            if not any(k == name or (len(name) > 2 and k.startswith(name)) for k in known.names):
                continue
            if sign:
                yield Word(value, word.kind, word.source, word.split)
            elif following is not None:
                yield following
            continue
        for at, letter in enumerate(text[1:], start=2):
            if letter in known.letters:
                if at < len(text) or not word.literal:
                    yield Word(text[at:], word.kind, word.source, word.split)
                elif following is not None:
                    yield following
                break


@lru_cache(maxsize=256)
def _split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


class Found(msgspec.Struct, frozen=True, gc=False):
    """An option in a word: as written, the options of the table that it may be (none for one that
    is not known), and the value attached to it."""

    shown: str
    names: tuple[str, ...]
    value: Word | None = None


_SHORTEST = {Style.LETTERS: 0, Style.APART: 0, Style.LONG_ONLY: 3, Style.NOPT: 4}
"""Characters of the shortest name of an option that may be shortened."""
_ANY = Word("", WordKind.EXPANSION, "…")


def options_in(table: Program, word: Word) -> Iterator[Found]:
    """The options in a word, by the table of the program."""
    if word.text.startswith("--") or table.style in ONE_DASH or table.style is Style.NOPT:
        yield _named_option(table, word)
    elif not ("-NUM" in table.options and word.text[1:].isdigit()):
        yield from _letters(table, word)


def _named_option(table: Program, word: Word) -> Found:
    text, sign, given = word.text.partition("=")
    style, value = table.style, Word(given, word.kind) if sign else None
    name = option_name(text, style)
    for each in (name, name.partition(":")[0]):
        if each in table.options:
            return Found(text, (each,), value)
    for known in () if text[:2] == "--" else table.joined:
        if name.startswith(known):
            return Found(known, (known,), Word(name[len(known) :] + sign + given, word.kind))
    if style is Style.WORDS and text[2:].isdigit() and table.takes_next(text[:2]):
        return Found(text[:2], (text[:2],), Word(text[2:]))
    if len(name) >= _SHORTEST.get(style, len(name) + 1):
        names = tuple(n for n, o in table.options.items() if o.effect and n.startswith(name))
        if names:
            return Found(text, names, value)
    if style is Style.NOPT:
        letters = () if text[:2] == "--" else (f"-{letter}" for letter in text.lstrip("-"))
        for letter in filter(table.effect_of, letters):
            return Found(text, (letter,), value)
        family = "--registry" if name.endswith(":registry") else name.partition(".")[0]
    else:
        family = f"{name.partition('.')[0]}."
    return Found(text, (family,), value or _ANY) if family in table.options else Found(text, ())


def _letters(table: Program, word: Word) -> Iterator[Found]:
    """Options of one letter, up to the first that takes a value."""
    apart = table.style is Style.APART
    for end, letter in enumerate(word.text[1:], start=2):
        option = table.options.get(f"-{letter}")
        if option is None:
            yield Found(f"-{letter}", ())
            continue
        rest = word.text[end:]
        attached = option.arity is not Arity.FLAG and (bool(rest) or not word.literal)
        if apart:
            attached = option.arity is Arity.APART and rest.isdecimal()
        value = Word(rest, word.kind) if attached else None
        yield Found(f"-{letter}", (f"-{letter}",), value)
        if attached or (option.arity is not Arity.FLAG and not apart):
            return


MAX_PREFIX = 16 * 1024
_BLANKS = " \t"
_GRAMMAR = (
    "! { } [[ ]] if then elif else fi case esac for select while until do done in function coproc"
)
_RESERVED = frozenset(_GRAMMAR.split())


@lru_cache(maxsize=4096)
def prefix_words(prefix: str) -> tuple[str, ...] | None:
    """The words of a rule's `commandPrefix`, leading `NAME=value` words among them.

    None when bash would not take them for exactly these words: operators, expansions, globs,
    comments, reserved words, control characters, no words at all.
    """
    if len(prefix) > MAX_PREFIX:
        return None
    words: list[str] = []
    position, settings = 0, True
    text = prefix.strip(" \t\n")
    while position < len(text):
        if text[position] in _BLANKS:
            position += 1
            continue
        read = _word(text, position)
        if read is None:
            return None
        word, end = read
        if settings and _setting().match(text, position) is None:
            settings = False
            # The command word. One with a percent sign names a job, quoted or not.
            if not word or word[0] == "%" or "=" in word or word in _RESERVED:
                return None
        words.append(word)
        position = end
    return tuple(words) or None


class DividedPrefix(msgspec.Struct, frozen=True):
    """The words of a prefix: the `NAME=value` ones in front, and the command."""

    settings: tuple[str, ...]
    words: tuple[str, ...]


@lru_cache(maxsize=4096)
def divided_prefix(prefix: str) -> DividedPrefix | None:
    """`prefix_words` in two."""
    words = prefix_words(prefix)
    return None if words is None else DividedPrefix(*split_settings(words))


def split_settings(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The leading `NAME=value` words of a prefix, and the others."""
    count = 0
    while count < len(words) and _is_setting(words[count]):
        count += 1
    return words[:count], words[count:]


def _is_setting(word: str) -> bool:
    return _setting().match(word) is not None


@lru_cache(maxsize=1)
def _setting() -> "re.Pattern[str]":
    import re

    return re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@lru_cache(maxsize=1)
def _bare() -> "re.Pattern[str]":
    import re

    return re.compile(r"[A-Za-z0-9_./:,@%+=^~#\-]+")


def _word(text: str, start: int) -> tuple[str, int] | None:
    """The word at `start` and where it ends; None when it is not certain to be literal."""
    piece: list[str] = []
    position = start
    while position < len(text) and text[position] not in _BLANKS:
        mark = text[position]
        if mark in "'\"":
            end = text.find(mark, position + 1)
            if end < 0:
                return None
            inner = text[position + 1 : end]
            if not (_is_literal_in_double(inner) if mark == '"' else _is_printable(inner)):
                return None
            piece.append(inner)
            position = end + 1
            continue
        if text.startswith("{}", position):
            piece.append("{}")
            position += 2
            continue
        if text.startswith(("\\;", "\\+"), position):
            piece.append(text[position + 1])
            position += 2
            continue
        found = _bare().match(text, position)
        bare = found.group() if found else mark
        if not _is_bare(bare, at_start=position == start, before="".join(piece)):
            return None
        piece.append(bare)
        position += len(bare)
    return "".join(piece), position


def _is_bare(text: str, *, at_start: bool, before: str) -> bool:
    if not text.isascii():
        return text.isalnum()
    if not _bare().fullmatch(text) or (at_start and text[0] in "~#%"):
        return False
    tilde = text.rfind("~")
    if tilde < 0:
        return True
    # Bash expands a tilde after "=" or ":" in words that look like assignments.
    return not any(mark in before + text[:tilde] for mark in "=:") and (bool(before) or tilde > 0)


def _is_literal_in_double(text: str) -> bool:
    if "$" in text or "`" in text or not _is_printable(text):
        return False
    # A closing quote was found by its character alone, so no backslash may stand before one.
    position = text.find("\\")
    while position >= 0:
        if text[position + 1 : position + 2] in {"", "\\", "\n"}:
            return False
        position = text.find("\\", position + 1)
    return True


def _is_printable(text: str) -> bool:
    """No control, format or surrogate characters; tab and newline are literal between quotes."""
    return text.isprintable() or all(c.isprintable() or c in "\t\n" for c in text)
