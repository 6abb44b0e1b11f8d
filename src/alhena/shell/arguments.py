"""The one walk over the arguments of a command, by the table of its program.

It takes no side: each judge (`strict_reading`, `hazards`, `outputs`, `command`) asks of an argument
what matters to it. Where programs and their versions differ, a word is given in both readings,
unless it is asked for one: the table's.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec

from alhena.shell.parse.model import Word, WordKind
from alhena.shell.tables import ONE_DASH, Arity, Program, Style, option_name


class Found(msgspec.Struct, frozen=True, gc=False):
    """An option in a word: as written, the options of the table that it may be (none for one that
    is not known), and the value attached to it. `following`: the next word, when it is the value.
    """

    shown: str
    names: tuple[str, ...]
    value: Word | None = None
    following: Word | None = None


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
    text, sign, _ = word.text.partition("=")
    style, value = table.style, cut_start(word, len(text) + 1) if sign else None
    name = option_name(text, style)
    for each in (name, name.partition(":")[0]):
        if each in table.options:
            return Found(text, (each,), value)
    for known in () if text[:2] == "--" else table.joined:
        if name.startswith(known):
            start = len(text) - len(name) + len(known)
            return Found(known, (known,), cut_start(word, start))
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
        begun = (n for n in table.options if n[-1] in ".-" and name.startswith(n))
        family = next(begun, f"{name.partition('.')[0]}.")
    if family in table.options:
        return Found(text, (family,), value or _ANY)
    return Found(text, (), value)


def cut_start(word: Word, start: int) -> Word:
    """A word without its first characters, which are surely known."""
    if word.literal:
        return Word(word.text[start:])
    cut = word.source.find(word.text[:start]) + start if word.source else 0
    return Word(word.text[start:], word.kind, word.source[cut:], word.split)


def _letters(table: Program, word: Word) -> Iterator[Found]:
    """Options of one letter, or of more where the table has such (`zip -lf`), up to the first that
    takes a value."""
    apart = table.style is Style.APART
    end = 1
    while end < len(word.text):
        long = (n for n in table.letter_groups if word.text.startswith(n[1:], end))
        name = next(long, f"-{word.text[end]}")
        end += len(name) - 1
        option = table.options.get(name)
        if option is None:
            yield Found(name, ())
            continue
        rest = word.text[end:]
        attached = option.arity is not Arity.FLAG and (bool(rest) or not word.literal)
        if apart:
            attached = option.arity is Arity.APART and rest.isdecimal()
        value = cut_start(word, end) if attached else None
        yield Found(name, (name,), value)
        if attached or (option.arity is not Arity.FLAG and not apart):
            return


_WHOLE = (*ONE_DASH, Style.NOPT)


def is_option(word: Word) -> bool:
    """Does the word surely begin like an option?"""
    text = word.text
    return text[:1] == "-" and len(text) > 1


class Kind(Enum):
    """The part that a word has among the arguments."""

    OPTION = 0
    OPERAND = 1
    END = 2  # the `--` behind which there are no options


class Argument(msgspec.Struct, frozen=True, gc=False):
    """A word with the options in it. `at` is its index, `last` the index of the last word that it
    takes up, `end` that of the last which may be a value of it. `repeated`: the word may be the
    value of the option before it instead. `open`: bash may make another option of it."""

    kind: Kind
    word: Word
    at: int
    last: int
    end: int
    options: tuple[Found, ...] = ()
    repeated: bool = False
    open: bool = False

    @property
    def may_be_operand(self) -> bool:
        """Is the word an operand, or only an option if bash makes one of it?"""
        return self.kind is Kind.OPERAND or (
            self.kind is Kind.OPTION and not is_option(self.word) and not self.options
        )

    @property
    def may_take_next(self) -> bool:
        """Is it a long option that is not known, or one whose attached value may be nothing, so
        that its value may be the next word?"""
        text = self.word.text
        known = [each for each in self.options if each.names]
        hollow = any(each.value and not (each.value.literal or each.value.text) for each in known)
        return "=" not in text and (hollow or (text[:2] == "--" and not known))


def walk_arguments(
    table: Program, words: Sequence[Word], at: int = 1, *, exact: bool = False
) -> Iterator[Argument]:
    """The arguments from `words[at]` on. `exact`: only as the table says; the word behind an option
    with a value is its value, whatever it looks like."""
    walk = _Walk(table, words, at, exact=exact)
    if table.bundled and at < len(words) and words[at].text.isalnum():
        yield from walk.bundle()
    while walk.at < len(words):
        yield walk.argument()
        walk.at += 1


def walk_past_end(
    table: Program, words: Sequence[Word], *, exact: bool = False
) -> Iterator[Argument]:
    """As `walk_arguments`, with the options behind a `--`, too."""
    start = 1
    while start < len(words):
        behind = len(words)
        for argument in walk_arguments(table, words, start, exact=exact):
            if argument.kind is Kind.END:
                behind = argument.at + 1
                break
            yield argument
        start = behind


def operand_words(table: Program, words: Sequence[Word]) -> list[Word]:
    """The words that are no options, nor values of options."""
    return [each.word for each in walk_arguments(table, words) if each.may_be_operand]


def option_names(table: Program, words: Sequence[Word]) -> set[str]:
    """The options among the words: by their names in the table, unknown ones as written."""
    return {
        name
        for argument in walk_arguments(table, words)
        for each in argument.options
        for name in each.names or (each.shown,)
    }


class _Walk:
    def __init__(self, table: Program, words: Sequence[Word], at: int, *, exact: bool) -> None:
        self.table, self.words, self.exact = table, words, exact
        self.at = self.end = self.start = at
        self.doubtful = -1
        self.ended = self.surely = False

    def argument(self) -> Argument:
        word, start = self.words[self.at], self.at
        if word.text == "--" and not self.ended and word.literal and self._may_end():
            self._end()
            return Argument(Kind.END, word, start, start, start)
        if self._is_option(word):
            return self._option(word)
        return Argument(Kind.OPERAND, word, start, start, start)

    def bundle(self) -> Iterator[Argument]:
        """The letters of a first word without a dash, whose values follow it in their order
        (`tar xCf DIRECTORY FILE`)."""
        start = self.at
        word = self.words[start]
        for letter in word.text:
            name = f"-{letter}"
            names = (name,) if name in self.table.options else ()
            value = self._take_value(name)
            end = self.at if value is not None else start
            found = Found(name, names, following=value)
            yield Argument(Kind.OPTION, word, start, end, end, (found,))
        self.at += 1

    def _may_end(self) -> bool:
        if self.exact:
            return "expression" not in self.table.form
        return self.table.style not in ONE_DASH

    def _end(self) -> None:
        """Options end here, unless an option that is not known takes the two dashes for a value."""
        self.ended = self.surely = True
        if self.exact or self.at == self.start:
            return
        before = self.words[self.at - 1]
        known = self.table.options.get(option_name(before.text, self.table.style))
        flag = known is not None and before.literal and not (known.effect or known.takes_next)
        letter = len(before.text) == 2 and self.table.style is not Style.NOPT
        self.surely = not is_option(before) or "=" in before.text or flag or letter

    def _is_option(self, word: Word) -> bool:
        """Is this an option, or may it become one?"""
        if self.ended and (self.surely or not word.literal or word.text == "--"):
            return False
        if is_option(word):
            return True
        return (
            not word.literal
            and word.text in {"", "-"}
            and not (word.kind is WordKind.PATTERN and word.source.startswith("~"))
            and not self.exact
            and self.table.has_effects
        )

    def _option(self, word: Word) -> Argument:
        start = self.end = self.at
        repeated = start == self.doubtful
        whole = word.text.startswith("--") or self.table.style in _WHOLE
        found: list[Found] = []
        unread = whole and not word.literal and "=" not in word.text
        attached = not unread and (word.literal or whole)
        for each in () if unread else options_in(self.table, word):
            attached = attached or each.value is not None
            following = None
            if each.value is None and each.names:
                following = self._take_value(each.names[0])
            found.append(msgspec.structs.replace(each, following=following) if following else each)
        return Argument(
            Kind.OPTION, word, start, self.at, self.end, tuple(found), repeated, not attached
        )

    def _take_value(self, name: str) -> Word | None:
        """The next word, when it is the value of this option. It is passed over then, but one that
        looks like an option is read as such, too: programs and their versions differ in which
        options take a value."""
        option = self.table.options.get(name)
        if option is None or not option.takes_next or self.at + 1 >= len(self.words):
            return None
        if option.arity is Arity.PAIR and self.exact:
            first = self.words[self.at + 1]
            if self.at + 2 >= len(self.words) or not first.literal or is_option(first):
                return None
            self.at += 1
        following = self.words[self.at + 1]
        self.end = self.at + 1
        both = is_option(following) and not (following.literal and following.text == "--")
        if self.exact or (not both and (following.literal or not following.split)):
            self.at += 1
        elif both:
            self.doubtful = self.end
        return following
