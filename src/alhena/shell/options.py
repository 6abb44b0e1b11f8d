"""The words of a command: its options, their values, its operands; the command inside a wrapper."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from alhena.shell.arguments import Argument, Kind, is_option, walk_arguments, walk_past_end
from alhena.shell.parse.model import Word, WordKind
from alhena.shell.tables import (
    Program,
    Wrapper,
    global_options,
    interpreter,
    listed,
    main_name,
    program,
    table_of_values,
    wrapper,
)


def base_name(text: str) -> str:
    """The program a command word names, without its directory."""
    return text.rsplit("/", 1)[-1] if "/" in text else text


def is_setting(text: str) -> bool:
    """Is this a `NAME=value`?"""
    name, sign, _ = text.partition("=")
    return bool(sign) and name.removesuffix("+").isidentifier() and name.isascii()


def first_operands(words: Sequence[Word], table: Program, count: int) -> tuple[int, ...]:
    """The indices of the first `count` operands, by the likeliest reading: options that the table
    does not hold take no value. A word that is not literal counts as an operand, `+nightly` does
    not."""
    found: list[int] = []
    for argument in walk_arguments(table, words, exact=True):
        at = argument.at
        if argument.kind is Kind.OPERAND and not (at == 1 and argument.word.text[:1] == "+"):
            found.append(at)
            if len(found) == count:
                break
    return tuple(found)


def behind_subcommands(words: Sequence[Word], path: Sequence[str]) -> int | None:
    """The index of the first argument behind the subcommands `path`, options between them skipped;
    None when these are not the subcommands of the command."""
    name = base_name(words[0].text)
    start = 0
    for depth, want in enumerate(path):
        known = global_options(" ".join((name, *path[:depth])))
        found = first_operands(words[start:], known, 1)
        place = words[start + found[0]] if found else None
        if place is None or not place.literal or place.text != want:
            return None
        start += found[0]
    return start + 1


def unknown_subcommand(words: Sequence[Word]) -> int | None:
    """The index of a word that is not literal where the tables know subcommands; None when there is
    none. It may be any of them."""
    name = main_name(base_name(words[0].text))
    table = program(name)
    if table is None or not table.subcommands:
        return None
    path = name
    for at in first_operands(words, global_options(name), 2):
        if not table.has_below(path):
            return None
        if not words[at].literal:
            return at
        path = f"{path} {words[at].text}"
    return None


def main_spelling(table: Program, first: str, second: str | None) -> tuple[str, bool]:
    """The main spelling of a subcommand (`npm i` is `npm install`), and whether the second word
    belongs to it (`docker container rm` is `docker rm`)."""
    for names, main in table.groups.get(first, {}).items() if second else ():
        if second in names.split():
            return main or second, True
    main = next(
        (main for main, others in table.spellings.items() if first in others.split()), first
    )
    return main, False


def command_keys(name: str, words: Sequence[Word]) -> list[str]:
    """The names under which tables may speak of a command of the program `name`: with its
    subcommands, the longest first, then the program's own."""
    table = program(name)
    keys, start, known = [name], 0, global_options(name)
    while table is not None and table.has_below(keys[0]):
        found = first_operands(words[start:], known, 2)
        if not found:
            break
        texts = [words[start + at].text for at in found]
        both = False
        if len(keys) == 1:
            texts[0], both = main_spelling(table, texts[0], texts[1] if len(found) == 2 else None)
        start += found[both]
        keys.insert(0, f"{keys[0]} {texts[0]}")
        deeper = program(keys[0])
        known = deeper.before if deeper is not None and deeper.before is not None else known
    return keys


def option_values(words: Sequence[Word], letters: str, names: str) -> Iterator[Word]:
    """The values given to these options: `-Xvalue`, `-vX value`, `--name=value`, `--name value`,
    and `--nam` for a name."""
    return values_of(words, table_of_values(letters, names))


def values_of(words: Sequence[Word], table: Program) -> Iterator[Word]:
    """The values given to the options of a table, also behind a `--`: what a program has besides is
    not in it, and may take that for a value. The `source` of an attached value is the whole word.
    """
    for argument in walk_past_end(table, words):
        for each in argument.options:
            value, word = each.value, argument.word
            if value is not None and each.names:
                apart = each.names[0] in table.letter_groups
                text = value.text.removeprefix("=") if apart else value.text
                yield Word(text, word.kind, word.source, word.split)
            elif each.following is not None:
                yield each.following


def split_settings(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The leading `NAME=value` words of a prefix, and the others."""
    count = 0
    while count < len(words) and is_setting(words[count]) and "+=" not in words[count]:
        count += 1
    return words[:count], words[count:]


ANYTHING = Word("", WordKind.EXPANSION, "…", split=True)
"""A word that may turn out to be any words."""


class Runs(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A command that another may run. One of: `words`, a command; `code`, words that joined with
    blanks are shell code; `mentions`, words in which a command may be written in some other way;
    none of these, when nothing can be known. `sure` is false for a guess; `via` is what runs it."""

    via: str
    words: tuple[Word, ...] = ()
    code: tuple[Word, ...] = ()
    mentions: tuple[Word, ...] = ()
    settings: tuple[Word, ...] = ()
    sure: bool = True


class Inner(msgspec.Struct, frozen=True, gc=False):
    """The places in the words of a command where another may begin (`starts`, each with a flag:
    that reading is sure). `certain` is false when an expansion before it may hold the command."""

    via: str
    wrapper: Wrapper
    starts: tuple[tuple[int, bool], ...]
    settings: tuple[Word, ...] = ()
    certain: bool = True

    @property
    def alone(self) -> bool:
        """Does no command follow, so that nothing else runs?"""
        return not self.starts and self.certain and self.via in listed("without_command")


def inner_command(words: tuple[Word, ...]) -> Inner | None:
    """The command that `words` wrap; None when they are no wrapper's or runner's."""
    head = words[0]
    if not head.literal:
        return None
    name = base_name(head.text)
    known = wrapper(name)
    if known is not None:
        if name in listed("describes") and len(words) > 1 and _only_describes(words[1]):
            return None
        return _Search(words, name, known, 1).inner()
    paths = _runner_paths(name)
    if paths:
        texts = {word.text for word in words}
        for path, runner in paths:
            if path[0] not in texts:
                continue
            begin = behind_subcommands(words, path)
            if begin is not None:
                return _Search(words, " ".join((name, *path)), runner, begin).inner()
    return None


def _only_describes(word: Word) -> bool:
    return word.literal and word.text[:1] == "-" and ("v" in word.text or "V" in word.text)


@lru_cache(maxsize=256)
def _runner_paths(name: str) -> tuple[tuple[tuple[str, ...], Wrapper], ...]:
    """The subcommands of a program that run others, the longest first."""
    known = program(name)
    runners = known.runners if known is not None else ()
    return tuple((tuple(key.split()[1:]), wraps) for key in runners if (wraps := wrapper(key)))


def is_console(name: str) -> bool:
    """Does the program of this (base) name take its words, or what it reads, for commands of a
    language of its own?"""
    if name in listed("mentioning") or main_name(name) in listed("mentioning"):
        return True
    return name in listed("code_runners") and interpreter(name) is None


def takes_code(name: str) -> bool:
    """May the program of this (base) name run what it reads from its standard input?"""
    shell = name in listed("shells") or name in listed("remote_shells")
    return shell or is_console(name) or interpreter(name) is not None


def is_wrapper(name: str) -> bool:
    """May the program of this (base) name run another that its words name?"""
    return wrapper(name) is not None or bool(_runner_paths(name))


class _Search:
    """Walks over the options and operands of a wrapper to the command behind them."""

    def __init__(self, words: tuple[Word, ...], via: str, wrapper: Wrapper, begin: int) -> None:
        self.words, self.via, self.wrapper, self.at = words, via, wrapper, begin
        self.operands, self.optional = wrapper.operands, wrapper.optional
        self.starts: list[tuple[int, bool]] = []
        self.settings: list[Word] = []
        self.certain, self.found = True, False

    def inner(self) -> Inner:
        for argument in walk_arguments(self.wrapper.options, self.words, self.at, exact=True):
            if argument.kind is Kind.OPTION:
                self._option(argument)
            elif argument.kind is Kind.OPERAND:
                self._operand(argument)
            if self.found:
                break
        return Inner(self.via, self.wrapper, tuple(self.starts), tuple(self.settings), self.certain)

    def _operand(self, argument: Argument) -> None:
        word = argument.word
        if self.wrapper.settings and (word.text in {"-", "!"} or is_setting(word.text)):
            self.certain = self.certain and not word.split
            self.settings.append(word)
        elif self.operands:
            self.operands -= 1
            self.certain = self.certain and not word.split
        else:
            self.starts.append((argument.at, True))
            # An operand that may be missing is taken for the command as well.
            self.found = not self.optional
            self.optional = max(self.optional - 1, 0)

    def _option(self, argument: Argument) -> None:
        values = [each.following for each in argument.options if each.following is not None]
        self.certain = self.certain and argument.word.literal
        self.certain = self.certain and not any(value.split for value in values)
        if argument.may_take_next:
            other = argument.at + 2
            while other < len(self.words) and is_option(self.words[other]):
                other += 1
            places = range(other, min(other + self.operands + 1, len(self.words)))
            self.starts += [(place, not argument.word.literal) for place in places]


def wrapper_runs(words: tuple[Word, ...]) -> Iterator[Runs]:
    """The commands that the wrapper at the head of `words` runs."""
    inner = inner_command(words)
    name = base_name(words[0].text)
    if _runner_paths(name) and unknown_subcommand(words) is not None:
        yield Runs(via=name)
    if inner is None:
        return
    via = inner.via
    if via in listed("splits_text"):
        yield from _split_string(words, inner)
    if not inner.certain:
        yield Runs(via=via)
    if via in listed("adds_input"):
        words = (*with_unknown(words, _find_marks(words)), ANYTHING)
    sure = not inner.wrapper.remote
    for start, likely in inner.starts:
        rest = words[start:]
        yield Runs(via=via, words=rest, sure=likely and sure, settings=inner.settings)
        if inner.wrapper.code or inner.wrapper.remote:
            yield Runs(via=via, code=rest, sure=likely and sure)
    if not inner.starts and via not in listed("without_command") and _opens_a_shell(words):
        yield Runs(via=via)


def _opens_a_shell(words: tuple[Word, ...]) -> bool:
    """With options alone, does this wrapper start a shell, or read commands?"""
    name = base_name(words[0].text)
    if name in listed("root_shells"):
        flags = "".join(w.text for w in words[1:] if w.text[:2] != "--")
        return any(letter in flags for letter in "sie") or any(
            w.text in {"--shell", "--login", "--edit"} for w in words
        )
    return name in listed("opens_shell")


def _split_string(words: tuple[Word, ...], inner: Inner) -> Iterator[Runs]:
    """`env -S 'command and arguments'`."""
    for index, word in enumerate(words):
        text = word.text
        if text.startswith("--split-string"):
            code = text[len("--split-string") :].removeprefix("=")
        elif text.startswith("-") and not text.startswith("--") and "S" in text:
            code = text.split("S", 1)[1]
        else:
            continue
        rest = words[index + 1 :]
        first = Word(code, word.kind, word.source, word.split)
        # `env` has rules of its own for escapes and expansions, and takes more for a blank.
        texts = [first.text, *(w.text for w in rest)]
        if any(mark in t for t in texts for mark in "\\$"):
            yield Runs(via=inner.via)
        blanks = [Word(" ".join(w.text.split()), w.kind, w.source, w.split) for w in (first, *rest)]
        yield Runs(via=inner.via, code=tuple(w for w in blanks if w.text or not w.literal))


def _find_marks(words: tuple[Word, ...]) -> set[str]:
    """The marks that stand for the input in the command of `xargs -I` or `parallel`."""
    marks = {"{}"}
    for word, following in zip(words, (*words[1:], Word("")), strict=True):
        for option in ("-I", "-J", "-i", "--replace="):
            if word.text.startswith(option):
                marks.add(word.text[len(option) :] or following.text)
    return marks - {""}


def with_unknown(words: tuple[Word, ...], marks: Iterable[str]) -> tuple[Word, ...]:
    """The words with what will be put in place of a mark as an expansion."""
    found: list[Word] = []
    for word in words:
        cuts = [word.text.index(mark) for mark in marks if mark in word.text]
        found.append(
            Word(word.text[: min(cuts)], WordKind.EXPANSION, word.source) if cuts else word
        )
    return tuple(found)
