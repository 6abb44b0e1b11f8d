"""The grammar of a program's arguments: known options and operands.

The lines of a table, for instance:

    guarded operands=1
    -bcu -k: -U? -e:: --key= --color[=] -NUM @diff
    ! -o --output writes its result to a file
    ? --no-pager may start a pager

`-bcu` are three options without a value; `-k:` takes one, attached or as the next word; `-U?` only
attached; `-e::` one that may begin with a dash. Of a long option `=` is a value after `=` or as the
next word, `[=]` one after `=` only, `==` one that may begin with a dash, `=?` one that only the
last word may lack. `-NUM` is a dash with digits. `@diff` takes over another table. `!` says why
options are refused, `?` that one of these must stand there and what happens otherwise.
Abbreviations of long options are not known.

Properties: `guarded` (some option writes, runs or follows, so no word may turn out to be an
option), `operands=N` (at most), `leading` (options stand before operands: after one they would be
operands to some implementations), `whole` (`-abc` is one option), `names` (names are looked at,
not contents).
"""

from collections.abc import Callable, Sequence

import msgspec

from alhena.policy.bash.model import Word, WordKind


def listed(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_PIPE = "<("
"""A process substitution becomes the name of a pipe, /dev/fd/63."""


def one_word(word: Word) -> bool:
    """Is the word surely one word when bash has expanded it?"""
    return word.literal or not word.split


def surely_operand(word: Word) -> bool:
    """Does nothing that the word expands to begin with a dash (`-` alone aside)?"""
    first = word.text[:1]
    match word.kind:
        case WordKind.LITERAL:
            return first != "-" or word.text == "-"
        case WordKind.EXPANSION:
            known = first not in {"", "-"} or word.source.startswith(_PIPE)
            return known and not word.split
        case WordKind.PATTERN:
            expands = "$" in word.source or "`" in word.source
            return not expands and (first not in {"", "-"} or word.source[:1] == "~")


def could_begin_with(word: Word, prefix: str) -> bool:
    """Could the text of a word that is not all known begin with `prefix`?"""
    if word.text:
        return word.text.startswith(prefix) or (
            not word.literal and prefix.startswith(word.text) and not _is_plain_glob(word)
        )
    return not (word.literal or word.source.startswith((_PIPE, "~", "*", "?", "[")))


def _is_plain_glob(word: Word) -> bool:
    return word.kind is WordKind.PATTERN and not word.text.startswith("/")


FLAG, VALUE, ATTACHED, DASHED, UNLESS_LAST, APART = range(6)
"""How an option takes a value: not at all, surely, only attached, surely and perhaps dashed, unless
it is the last word, from the next word whatever is attached."""


class Grammar(msgspec.Struct):
    """A table, read."""

    options: dict[str, int]
    refused: dict[str, str]
    needs: list[tuple[frozenset[str], str]]
    properties: set[str]
    operands: int | None = None


class Given(msgspec.Struct):
    """The words of a command, told apart. The `source` of an attached value begins with its
    option."""

    options: list[tuple[str, Word | None]]
    operands: list[Word]

    def values(self, *names: str) -> list[Word]:
        """The values that options of these names have, in order."""
        return [word for name, word in self.options if name in names and word is not None]

    def has(self, *names: str) -> bool:
        """Is one of these options there?"""
        return any(name in names for name, _ in self.options)


def read_grammar(text: str, shared: Callable[[str], str]) -> Grammar:
    """A table's text as a grammar; `shared` gives the text behind an `@name`."""
    grammar = Grammar({}, {}, [], set())
    _add_lines(grammar, text, shared)
    return grammar


def _add_lines(grammar: Grammar, text: str, shared: Callable[[str], str]) -> None:
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in {"!", "?"}:
            _add_clause(grammar, words)
            continue
        for entry in words:
            if entry.startswith("@"):
                _add_lines(grammar, shared(entry[1:]), shared)
            elif entry.startswith("-"):
                _add_option(grammar, entry)
            elif entry.startswith("operands="):
                grammar.operands = int(entry.removeprefix("operands="))
            else:
                grammar.properties.add(entry)


def _add_clause(grammar: Grammar, words: list[str]) -> None:
    names = [word for word in words[1:] if word.startswith("-")]
    clause = " ".join(words[1 + len(names) :])
    if words[0] == "?":
        grammar.needs.append((frozenset(names), clause))
    else:
        grammar.refused.update(dict.fromkeys(names, clause))


_LONG_ENDINGS = (("[=]", ATTACHED), ("=?", UNLESS_LAST), ("==", DASHED), ("=", VALUE))
_SHORT_ENDINGS = (("?", ATTACHED), (";", APART), ("::", DASHED), (":", VALUE))


def _add_option(grammar: Grammar, entry: str) -> None:
    for ending, arity in _LONG_ENDINGS if entry.startswith("--") else _SHORT_ENDINGS:
        if len(entry) > 2 and entry.endswith(ending):
            grammar.options[entry.removesuffix(ending)] = arity
            return
    if entry.startswith("--") or entry == "-NUM" or "whole" in grammar.properties:
        grammar.options[entry] = FLAG
    else:
        grammar.options.update(dict.fromkeys(("-" + letter for letter in entry[1:]), FLAG))


def read_words(grammar: Grammar, program: str, words: Sequence[Word]) -> Given | str:
    """The words after the program's name (or subcommand) by its grammar, or one clause saying why
    they are not surely harmless."""
    reading = _Reading(grammar, program, words)
    reading.read()
    return reading.refusal or Given(reading.options, reading.operands)


class _Reading:
    def __init__(self, grammar: Grammar, program: str, words: Sequence[Word]) -> None:
        self.grammar = grammar
        self.program = program
        self.words = words
        self.at = 0
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.refusal: str | None = None
        self.guarded = "guarded" in grammar.properties or grammar.operands is not None

    def read(self) -> None:
        words = self.words
        while self.at < len(words) and self.refusal is None:
            word = words[self.at]
            self.at += 1
            text = word.text
            if not word.literal:
                self._unknown(word)
            elif text[:1] != "-" or text == "-":
                self.operands.append(word)
            elif text == "--":
                self.operands.extend(words[self.at :])
                self.at = len(words)
            elif "leading" in self.grammar.properties and self.operands:
                self.refusal = f"{text} stands after an operand"
            elif text[1] == "-":
                self._long(word)
            elif "whole" in self.grammar.properties:
                self._whole(word)
            else:
                self._short(word)
        if self.refusal is None:
            self._count()

    def _count(self) -> None:
        most = self.grammar.operands
        if most is not None and len(self.operands) > most:
            self.refusal = f"{self.program} with {_operands(len(self.operands))} may not only read"
        elif most is not None:
            many = next((word for word in self.operands if not one_word(word)), None)
            if many is not None:
                self.refusal = f"{many.source} could be more than one word"
        for names, clause in self.grammar.needs:
            if not any(name in names for name, _ in self.options):
                self.refusal = f"{self.program} without {' or '.join(sorted(names))} {clause}"

    def _unknown(self, word: Word) -> None:
        if not self.guarded or surely_operand(word):
            self.operands.append(word)
            return
        name, equals, _ = word.text.partition("=")
        if equals and one_word(word) and self.grammar.options.get(name, FLAG) != FLAG:
            self.options.append((name, word))
        else:
            self.refusal = f"{word.source} could be an option; -- before it rules that out"

    def _long(self, word: Word) -> None:
        name, equals, value = word.text.partition("=")
        arity = self.grammar.options.get(name)
        if arity is None:
            self._refuse(name)
        elif not equals:
            self._option(name, arity)
        elif arity == FLAG:
            self.refusal = f"{name} takes no value"
        else:
            self.options.append((name, Word(value, source=word.text)))

    def _whole(self, word: Word) -> None:
        text = word.text
        arity = self.grammar.options.get(text)
        if arity is not None:
            self._option(text, arity)
        elif self.grammar.options.get(text[:2], FLAG) != FLAG and text[2:].isdigit():
            self.options.append((text[:2], Word(text[2:], source=text)))
        else:
            self._refuse(text)

    def _short(self, word: Word) -> None:
        text = word.text
        known = self.grammar.options
        if "-NUM" in known and text[1:].isdigit():
            return
        for place in range(1, len(text)):
            name = "-" + text[place]
            arity = known.get(name)
            if arity is None:
                self._refuse(name)
                return
            if arity != FLAG:
                rest = text[place + 1 :]
                if arity == APART and not rest.isdecimal() and rest:
                    self.refusal = f"{text} has letters behind {name}, which takes the next word"
                elif rest:
                    self.options.append((name, Word(rest, source=name + rest)))
                else:
                    self._option(name, arity)
                return
            self.options.append((name, None))

    def _option(self, name: str, arity: int) -> None:
        last = self.at >= len(self.words)
        if arity in {FLAG, ATTACHED} or (last and arity == UNLESS_LAST):
            self.options.append((name, None))
            return
        if last:
            self.refusal = f"{name} lacks its value"
            return
        value = self.words[self.at]
        self.at += 1
        if self.guarded and not one_word(value):
            self.refusal = f"{value.source} could be more than one word"
        elif self.guarded and arity != DASHED and _looks_like_option(value):
            self.refusal = f"{value.source or value.text} could be an option"
        self.options.append((name, value))

    def _refuse(self, name: str) -> None:
        clause = self.grammar.refused.get(name)
        self.refusal = (
            f"{name} {clause}" if clause else f"{name} is not a known option of {self.program}"
        )


def _looks_like_option(word: Word) -> bool:
    text = word.text
    return text[:1] == "-" and text != "-" and not (word.literal and text[1:].isdigit())


def _operands(count: int) -> str:
    return "an operand" if count == 1 else f"{count} operands"
