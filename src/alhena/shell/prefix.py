"""The prefixes of rules against a command: strictly to allow, widely to deny."""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from alhena.shell.arguments import Argument, Kind, is_option, options_in, walk_arguments
from alhena.shell.languages.interpreters import shell_arguments
from alhena.shell.options import (
    ANYTHING,
    base_name,
    first_operands,
    inner_command,
    is_setting,
    main_spelling,
    option_values,
    split_settings,
    wrapper_runs,
)
from alhena.shell.parse.model import Part, Word, WordKind
from alhena.shell.reach import Reached, program_name, program_runs
from alhena.shell.tables import Arity, Option, Program, Style, global_options, listed
from alhena.shell.tables import program as known_program

_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]+(?:[ \t]+[A-Za-z0-9_./:,@%+=-]+)*")
_RESERVED = frozenset(
    {
        *("if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "while", "until"),
        *("do", "done", "in", "function", "coproc"),
    }
)


@lru_cache(maxsize=4096)
def prefix_words(prefix: str) -> tuple[str, ...] | None:
    """The words of a rule's `commandPrefix`, leading `NAME=value` words among them.

    None when bash would not take them for exactly these words: operators, expansions, globs,
    comments, reserved words, control characters, no words at all.
    """
    text = prefix.strip(" \t\n")
    plain = text == "[" or _PLAIN.fullmatch(text.removeprefix("[ "))  # it need not be closed yet
    words = tuple(text.split()) if plain else _read_words(text)
    if words is None:
        return None
    command = split_settings(words)[1]
    # A command word with a percent sign names a job, quoted or not.
    if command and (not command[0] or command[0][0] == "%" or "=" in command[0]):
        return None
    return None if command and command[0] in _RESERVED else words


def _read_words(text: str) -> tuple[str, ...] | None:
    """The words of a text if it is one command, all of it literal."""
    from alhena.shell.parse.analysis import analyse

    analysis = analyse(text)
    if len(analysis.parts) != 1 or not analysis.complete:
        return None
    (part,) = analysis.parts
    literal = all(word.literal for word in part.words) and all(
        each.value.literal and each.source.startswith(f"{each.name}=") for each in part.assignments
    )
    visible = all(letter.isprintable() or letter in "\t\n" for letter in text)
    if part.text != text or part.redirections or not literal or not visible:
        return None
    if part.words and "=" in part.words[0].text:
        return None  # quoted, it is no setting
    settings = [f"{each.name}={each.value.text}" for each in part.assignments]
    return (*settings, *(word.text for word in part.words))


class DividedPrefix(msgspec.Struct, frozen=True):
    """The words of a prefix: the `NAME=value` ones in front, and the command."""

    settings: tuple[str, ...]
    words: tuple[str, ...]


@lru_cache(maxsize=4096)
def divided_prefix(prefix: str) -> DividedPrefix | None:
    """`prefix_words` in two."""
    words = prefix_words(prefix)
    return None if words is None else DividedPrefix(*split_settings(words))


def useless_prefix(prefix: str) -> str | None:
    """The reason why an allow rule with this prefix can never allow anything; None when it can."""
    divided = divided_prefix(prefix)
    if divided is None:
        return "it is more than literal words, and only those are compared"
    if not divided.words:
        return f"it names no program, only {' '.join(divided.settings)}"
    return explain_unreached(tuple(Word(text) for text in divided.words), len(divided.words))


def explain_unreached(words: tuple[Word, ...], length: int) -> str | None:
    """The reason why the first `length` words, all literal, do not yet say what `words` run; None
    when they do."""
    start = 0
    while True:
        rest = words[start:]
        head = rest[0]
        name = base_name(head.text)
        if not head.literal or not head.text or name in listed("evaluators") | listed("opaque"):
            return f"{name or 'an empty word'} makes later words mean something else"
        if head.text in listed("code_in_data") - listed("plain_builtins"):
            return f"{name} can run code hidden in its arguments"
        if name in listed("shells"):
            return _shell_reaches(rest, length - start)
        if name in listed("finders"):
            return _actions_reach(rest, length - start)
        if not _code(rest) <= _code(rest[: length - start]):
            return f"{name} runs code, and the prefix does not name it"
        inner = inner_command(rest)
        if inner is None or inner.alone or inner.wrapper.remote:
            return None
        last = max((at for at, _ in inner.starts), default=len(rest))
        if not inner.certain or last >= length - start:
            return f"{inner.via} runs another command, and the prefix does not name it"
        if len(inner.starts) > 1 or inner.wrapper.code:
            # More than one reading: all of them have to be in the prefix to their end.
            return None if len(rest) == length - start else f"{inner.via} can be read in two ways"
        start += last
        if inner.via in listed("adds_input"):
            words = (*words, ANYTHING)


def _code(words: tuple[Word, ...]) -> set[tuple[Word, ...]]:
    """The shell code that a command surely runs (`env -S`), unless its arguments are judged."""
    name = base_name(words[0].text) if words else ""
    table = known_program(name)
    if not name or (table is not None and (table.judged or table.subcommands)):
        return set()
    runs = (*wrapper_runs(words), *program_runs(words, Part(text="", words=words)))
    return {each.code for each in runs if each.code and each.sure}


def _actions_reach(words: tuple[Word, ...], length: int) -> str | None:
    """The commands of `find -exec` within the prefix; those after it are hazards."""
    for at, word in enumerate(words[:length]):
        if word.text in listed("find_actions"):
            left = length - at - 1
            found = explain_unreached((*words[at + 1 :], ANYTHING), left)
            if found is not None or left < 1:
                return found or f"{word.text} runs a command that the prefix does not name"
    return None


def _shell_reaches(words: tuple[Word, ...], length: int) -> str | None:
    name = base_name(words[0].text)
    found = shell_arguments(words)
    if found.informs and len(words) <= length:
        return None
    if found.operand is None or found.operand >= length or found.reads_input or not found.certain:
        return f"{name} runs any command, and the prefix does not name the script or the code"
    if found.has_code and len(words) != length:
        return f"{name} -c runs code that may use the words after it"
    script = words[found.operand].text
    if not found.has_code and (script == "-" or script.startswith(("/dev/", "/proc/"))):
        return f"{name} runs what it reads from {script}"
    return None


class Match(IntEnum):
    """The answer to a condition. MAYBE is for commands that say too little about themselves."""

    NO = 0
    MAYBE = 1
    YES = 2


def match_words(wanted: tuple[str, ...], words: tuple[Word, ...]) -> Match:
    """`wanted` against the beginning of a command, options and spellings aside."""
    head = _match_head(wanted[0], words[0])
    if head is Match.NO or len(wanted) == 1 or (words[0].split and not words[0].literal):
        return head
    if _literally(wanted, words):
        return head
    name = base_name(wanted[0])
    program = _Compared(name, known_program(name) or Program())
    wanted_words = program.respelled(tuple(Word(text) for text in wanted))
    words = program.respelled(words)
    options, operands = program.divided(wanted_words, valued=True)
    found = program.match(options, operands, words)
    if any(each.may_be_letters for each in options):
        found = max(found, program.match(*program.divided(wanted_words, valued=False), words))
    return min(head, found)


def _literally(wanted: Sequence[str], words: Sequence[Word]) -> bool:
    return len(words) >= len(wanted) and all(
        word.literal and want == word.text
        for want, word in zip(wanted[1:], words[1:], strict=False)
    )


def _match_head(want: str, word: Word) -> Match:
    """Programs compare without their directory, and with doubt where the system may ignore case."""
    if not word.literal:
        return _match_unknown_head(base_name(want), word)
    name, wanted = base_name(word.text), base_name(want)
    if name == wanted:
        return Match.YES
    same = name.casefold().removesuffix(".exe") == wanted.casefold()
    return Match.MAYBE if same else Match.NO


def _match_unknown_head(name: str, word: Word) -> Match:
    """A command word that bash replaces; a glob without braces still has to fit."""
    pattern = word.source or ""
    plain = word.kind is WordKind.PATTERN and not any(mark in pattern for mark in "{}~\\'\"$`@!+()")
    if plain and pattern and not fnmatchcase(name, base_name(pattern)):
        return Match.NO
    return Match.MAYBE


class _Wanted(msgspec.Struct, frozen=True):
    """A word of options in a prefix: as written, and its options, each with its value where it is
    known to take one. `apart`: a word of its own is such a value."""

    text: str
    options: tuple[tuple[str, str | None], ...]
    apart: bool

    @property
    def may_be_letters(self) -> bool:
        """Are these letters (`-xf a`, `-tx`), of which one has a value that may be none?"""
        valued = any(value is not None for _, value in self.options)
        return valued and len(self.text) > 2 and self.text[:2] != "--"


@lru_cache(maxsize=256)
def _shared_options(name: str, *, valued: bool) -> Program:
    """The options of a program that mean the same in all its subcommands, as far as they are known.
    `valued`: those that take a value in any subcommand, with it."""
    if name in listed("one_dash"):
        return Program(style=Style.WORDS)
    known = known_program(name) or Program()
    options = dict.fromkeys((f"-{letter}" for letter in known.letters or ""), _VALUED)
    for letter, long in known.long.items():
        if options.setdefault(f"-{letter}", _FLAG) is _FLAG:
            options[f"--{long}"] = _FLAG
    return Program(options=options if valued else dict.fromkeys(options, _FLAG))


_FLAG, _VALUED = Option(Arity.FLAG), Option(Arity.VALUE)


class _Compared(msgspec.Struct, frozen=True):
    """The program whose arguments are compared, by its table."""

    name: str
    table: Program

    @property
    def has_subcommands(self) -> bool:
        """Does what an option means depend on a subcommand?"""
        return self.table.before is not None

    @property
    def has_letters(self) -> bool:
        """Are its options of one letter known?"""
        return self.table.letters is not None

    def respelled(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """The words with the main spelling of the subcommand."""
        found = first_operands(words, global_options(self.name), 2)
        if not found or not words[found[0]].literal:
            return words
        first = found[0]
        adjacent = len(found) == 2 and found[1] == first + 1 and words[found[1]].literal
        second = words[found[1]].text if adjacent else None
        text, both = main_spelling(self.table, words[first].text, second)
        if text == words[first].text and not both:
            return words
        return (*words[:first], Word(text), *words[first + 1 + both :])

    def match(
        self, options: list[_Wanted], operands: tuple[str, ...], words: tuple[Word, ...]
    ) -> Match:
        """Has the command these options, and do its operands begin with these?"""
        found = self.operands(operands, words)
        for option in options:
            if found is Match.NO:
                break
            found = min(found, self.option(option, words))
        return found

    def divided(
        self, words: tuple[Word, ...], *, valued: bool
    ) -> tuple[list[_Wanted], tuple[str, ...]]:
        """The options of a prefix and its operands; `valued`: with the values that letters take."""
        options: list[_Wanted] = []
        operands: list[str] = []
        shared = _shared_options(self.name, valued=valued and not self.has_subcommands)
        start, table, ended = 1, self.table.before or shared, False
        while start < len(words):
            arguments = walk_arguments(table, words, start, exact=True)
            start, table = len(words), shared
            for argument in arguments:
                if argument.kind is Kind.OPTION:
                    options.append(_read_wanted(argument))
                elif argument.kind is Kind.END:
                    ended = True
                else:
                    operands.append(argument.word.text)
                    if len(operands) == 1 and not ended:  # a subcommand has other options
                        start = argument.at + 1
                        break
        return options, tuple(operands)

    def operands(self, wanted: tuple[str, ...], words: tuple[Word, ...]) -> Match:
        """Are these the first operands? All readings are followed: which option takes a value is
        not always known. A place is how many were found and whether options have ended."""
        places: list[dict[tuple[int, bool], bool]] = [{} for _ in range(len(words) + 2)]
        places[1][0, False] = True
        best = Match.YES if not wanted else Match.NO
        for at in range(1, len(words)):
            for (found, ended), sure in places[at].items():
                for step, now, end, certain in self._steps(wanted, words, at, (found, ended)):
                    likely = sure and certain
                    if now == len(wanted):
                        best = max(best, Match.YES if likely else Match.MAYBE)
                        continue
                    there = places[min(at + step, len(words))]
                    there[now, end] = there.get((now, end), False) or likely
            if best is Match.YES:
                break
        return best

    def _steps(
        self, wanted: tuple[str, ...], words: tuple[Word, ...], at: int, place: tuple[int, bool]
    ) -> list[tuple[int, int, bool, bool]]:
        """The readings of the word at `at`: (words taken, operands found, options ended, sure)."""
        if len(wanted) <= place[0]:
            return []
        word, (found, ended) = words[at], place
        want = wanted[found]
        if not word.literal:
            return _unknown_steps(word, want, found, len(wanted), ended=ended)
        text = word.text
        if not ended and text == "--":
            return [(1, found, True, True)]
        skipped = (at == 1 and text[:1] == "+") or (
            self.name in listed("makes") and is_setting(text)
        )
        if skipped and text != want:
            return [(1, found, ended, True)]
        if not ended and is_option(word):
            return [(n, found, ended, sure) for n, sure in self._widths(word, first=found == 0)]
        if text == want:
            return [(1, found + 1, ended, True)]
        if found == 0 and self.name in listed("abbreviating") and text and want.startswith(text):
            return [(1, 1, ended, False)]
        return []

    def _widths(self, word: Word, *, first: bool) -> list[tuple[int, bool]]:
        """The number of words an option takes up, each with whether that is sure."""
        before = self.table.before if first else None
        table = _shared_options(self.name, valued=True) if before is None else before
        argument = next(walk_arguments(table, (word, ANYTHING), 0, exact=True))
        width, long = argument.last + 1, word.text[:2] == "--"
        known = any(name[:2] == "--" for each in argument.options for name in each.names)
        if before is not None:
            return [(width, True), *([(2, False)] if argument.may_take_next else [])]
        if long and ("=" in word.text or known):
            return [(1, True)]
        if long or not self.has_letters:
            return [(1, False), (2, False)]
        attached = any(each.value for each in argument.options)
        unsure = self.has_subcommands and not attached
        return [(width, True), *([(3 - width, False)] if unsure else [])]

    def option(self, wanted: _Wanted, words: tuple[Word, ...]) -> Match:
        """Are these options there, in any spelling, joined with others or apart?"""
        spelled = (wanted.text, *(value for _, value in wanted.options[-1:] if wanted.apart))
        given = [word.text if word.literal else None for word in self._arguments(words)]
        if any(tuple(given[at : at + len(spelled)]) == spelled for at in range(len(given))):
            return Match.YES
        found = min(self._one_option(*each, words) for each in wanted.options)
        vague = len(wanted.options) > 1 and not (self.has_letters or wanted.apart)
        return min(found, Match.MAYBE) if vague else found

    def _arguments(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """The words among which options may stand."""
        if self.name in listed("one_dash"):
            return words[1:]
        ends = [at for at, word in enumerate(words) if word.literal and word.text == "--"]
        return words[1 : ends[0]] if ends else words[1:]

    def _one_option(self, want: str, value: str | None, words: tuple[Word, ...]) -> Match:
        """Is this option there, with this value if it has one?"""
        long = want[2:] if want[:2] == "--" else self.table.long.get(want[1:])
        names = {want, f"--{long}"} if long else {want}
        names.update(f"-{letter}" for letter, other in self.table.long.items() if other == long)
        if value is not None:
            letters = "".join(name[1] for name in names if len(name) == 2)
            whole = " ".join(name for name in names if len(name) > 2)
            return _value(value, option_values(words, letters, whole), words)
        if self.name in listed("one_dash"):
            names.add(f"-{want}")
        best = Match.NO
        for word in self._arguments(words):
            if not word.literal and _may_be_option(word):
                best = max(best, Match.MAYBE)
            elif word.literal and is_option(word):
                best = max(best, self._in_word(want, long, names, word))
        return best

    def _in_word(self, want: str, long: str | None, names: set[str], word: Word) -> Match:
        """Is the option, by any of its names, in this word of options?"""
        shared, rest = _shared_options(self.name, valued=True), None
        for index, each in enumerate(options_in(shared, word)):
            if each.shown in names:
                sure = self.has_letters or index == 0
                return Match.YES if sure else Match.MAYBE
            rest = each.value
        if want[:2] != "--" and self.name in listed("one_dash"):
            return Match.NO
        if word.text[:2] == "--":
            given = word.text[2:].partition("=")[0]
            # Its long name may be shortened; where none is known, it may begin with its letter.
            vague = long.startswith(given) if long else given[:1].casefold() == want[1:].casefold()
            return Match.MAYBE if given and vague else Match.NO
        if want[:2] != "--":
            unsure = self.has_subcommands and rest is not None and want[1] in rest.text
        elif self.has_letters:
            unsure = len(names) == 1 and want[2:3] in word.text
        else:
            unsure = want[2:3].casefold() in word.text.casefold()
        return Match.MAYBE if unsure else Match.NO


def _read_wanted(argument: Argument) -> _Wanted:
    """A word of options in a prefix."""
    options = tuple(
        (each.shown, None if value is None else value.text)
        for each in argument.options
        for value in (each.value or each.following,)
    )
    return _Wanted(argument.word.text, options, apart=argument.last > argument.at)


def _value(wanted: str, values: Iterator[Word], words: Sequence[Word]) -> Match:
    """Is one of the values the wanted one?"""
    best = Match.NO
    for word in values:
        if word.literal and word.text == wanted:
            return Match.YES
        if not word.literal and wanted.startswith(word.text):
            best = Match.MAYBE
    unknown = any(not word.literal and _may_be_option(word) for word in words[1:])
    return Match.MAYBE if unknown else best


def _unknown_steps(
    word: Word, want: str, found: int, count: int, *, ended: bool
) -> list[tuple[int, int, bool, bool]]:
    """The readings of a word that bash replaces, where the operand `want` is next."""
    steps: list[tuple[int, int, bool, bool]] = []
    if want.startswith(word.text):
        steps.append((1, found + 1, ended, False))
        if word.split:
            steps.append((1, count, ended, False))
    if not ended and (word.text == "" or is_option(word)):
        steps += [(1, found, ended, False), (2, found, ended, False)]
    return steps


def _may_be_option(word: Word) -> bool:
    """May a word that bash replaces become an option? File names with a dot or a slash do not."""
    if is_option(word) or word.text == "-":
        return True
    if word.text:
        return False
    plain = word.kind is WordKind.PATTERN and not any(mark in word.source for mark in "{}~[]()")
    return not (plain and any(mark in word.source for mark in "./"))


@lru_cache(maxsize=4096)
def prefix_name(prefix: str) -> str | None:
    """The program a restricting prefix is about, spelled as `Reached.program` is; None when it may
    be any. Of two names neither of which is None, only equal ones can match: rules can be looked
    up by it."""
    found = divided_prefix(prefix)
    return program_name(found.words[0]) if found is not None and found.words else None


def restricts(prefix: str, command: Reached) -> Match:
    """Is a deny or ask rule with this prefix meant for the command, however it is written?

    Programs compare without their directory; options between the words, their order and their
    spelling do not matter. MAYBE where an expansion, an unknown option or a guess leaves it open.
    """
    name, wanted = command.program, prefix_name(prefix)
    if name != wanted and name is not None and wanted is not None:
        return Match.NO
    divided = divided_prefix(prefix)
    if divided is None:
        found = _restricts_pattern(prefix, command)
    elif not divided.words:
        return Match.NO
    else:
        found = match_words(divided.words, command.words)
        if found is not Match.NO:
            found = min([found, *(_setting(text, command) for text in divided.settings)])
    return found if command.sure else min(found, Match.MAYBE)


def _setting(text: str, command: Reached) -> Match:
    name = text.partition("=")[0]
    best = Match.NO
    for word in command.settings:
        if word.literal and word.text == text:
            best = Match.YES
        elif not word.literal and word.text.startswith(f"{name}=") and best is Match.NO:
            best = Match.MAYBE
    return best


def _restricts_pattern(prefix: str, command: Reached) -> Match:
    """For a prefix that is no literal words: its globs are matched, the rest is compared as
    written."""
    wanted, whole = _pattern_words(prefix)
    if not wanted:
        normal = " ".join(prefix.split())
        written = " ".join(word.source or word.text for word in command.words)
        return Match.YES if normal and written.startswith(normal) else Match.NO
    if len(command.words) < len(wanted) and command.literal:
        return Match.NO
    best = Match.YES if whole else Match.MAYBE
    for index, (want, word) in enumerate(zip(wanted, command.words, strict=False)):
        best = min(best, _pattern_word(want, word, first=index == 0))
        if not word.literal and best is Match.MAYBE and word.source != want.source:
            return Match.MAYBE
    return best if len(command.words) >= len(wanted) else min(best, Match.MAYBE)


def _pattern_word(want: Word, word: Word, *, first: bool) -> Match:
    if want.source and want.source == word.source:
        return Match.YES
    if not word.literal:
        return Match.MAYBE
    text = base_name(word.text) if first else word.text
    if want.literal:
        return Match.YES if text == (base_name(want.text) if first else want.text) else Match.NO
    return Match.YES if fnmatchcase(text, want.source) else Match.NO


@lru_cache(maxsize=1024)
def _pattern_words(prefix: str) -> tuple[tuple[Word, ...], bool]:
    """The words of the first command of a prefix, and whether they are all of it."""
    from alhena.shell.parse.analysis import analyse

    analysis = analyse(prefix)
    parts = [part for part in analysis.parts if part.words]
    if not parts:
        return (), False
    first = parts[0]
    whole = analysis.complete and len(analysis.parts) == 1
    return first.words, whole and not first.redirections and not first.assignments


def allows(prefix: str, part: Part) -> bool:
    """Does an allow rule with this prefix reach to everything that decides what `part` runs?

    Assignments and words have to be the prefix's, word for word. Of a wrapper, the prefix has to
    hold the command inside it; of a shell, its whole code; what evaluates its arguments is never
    allowed. Redirections and hazardous arguments are the caller's to look at.
    """
    divided = divided_prefix(prefix)
    if divided is None or not divided.words or len(part.words) < len(divided.words):
        return False
    settings, wanted = divided.settings, divided.words
    for want, word in zip(wanted, part.words, strict=False):
        if word.text != want or not word.literal:
            return False
    if not _same_settings(settings, part):
        return False
    return explain_unreached(part.words, len(wanted)) is None


def _same_settings(settings: tuple[str, ...], part: Part) -> bool:
    if not part.assignments:
        return not settings
    given = tuple(f"{a.name}={a.value.text}" for a in part.assignments if a.value.literal)
    plain = all(a.source.startswith(f"{a.name}=") for a in part.assignments)
    return plain and given == settings and len(given) == len(part.assignments)
