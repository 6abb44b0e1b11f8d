"""The command inside a command: what wrappers and package runners run."""

from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from alhena.policy.bash.model import Word, WordKind
from alhena.policy.bash.options import (
    Takes,
    base_name,
    behind_subcommands,
    is_option,
    is_setting,
    takes,
)
from alhena.policy.programs import Wrapper, listed, program, wrapper

ANYTHING = Word("", WordKind.EXPANSION, "…", split=True)
"""A word that may turn out to be any words."""

INPUT_IN_ARGUMENTS = frozenset({"xargs", "gxargs", "parallel"})
"""Wrappers that put what they read behind the words of the command."""


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
        if name == "command" and len(words) > 1 and _only_describes(words[1]):
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
        self.certain, self.ended, self.found = True, False, False

    def inner(self) -> Inner:
        while self.at < len(self.words) and not self.found:
            self._step(self.words[self.at])
            self.at += 1
        return Inner(self.via, self.wrapper, tuple(self.starts), tuple(self.settings), self.certain)

    def _step(self, word: Word) -> None:
        if not self.ended and word.literal and word.text == "--":
            self.ended = True
        elif not self.ended and is_option(word):
            self._option(word)
        elif self.wrapper.settings and (word.text in {"-", "!"} or is_setting(word.text)):
            self.certain = self.certain and not word.split
            self.settings.append(word)
        elif self.operands:
            self.operands -= 1
            self.certain = self.certain and not word.split
        else:
            self.starts.append((self.at, True))
            # An operand that may be missing is taken for the command as well.
            self.found = not self.optional
            self.optional = max(self.optional - 1, 0)

    def _option(self, word: Word) -> None:
        if not word.literal:
            self.certain = False
        match takes(word.text, self.wrapper.options):
            case Takes.NEXT:
                self.at += 1
                if self.at < len(self.words):
                    self.certain = self.certain and not self.words[self.at].split
            case Takes.PERHAPS:
                other = self.at + 2
                while other < len(self.words) and is_option(self.words[other]):
                    other += 1
                if other < len(self.words):
                    self.starts.append((other, False))
            case Takes.NOTHING:
                pass


def wrapped(words: tuple[Word, ...]) -> Iterator[Runs]:
    """The commands that the wrapper at the head of `words` runs."""
    inner = inner_command(words)
    if inner is None:
        return
    via = inner.via
    if via in {"env", "genv"}:
        yield from _split_string(words, inner)
    if not inner.certain:
        yield Runs(via=via)
    if via in INPUT_IN_ARGUMENTS:
        words = (*with_unknown(words, _replaced(words)), ANYTHING)
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
    if name in {"sudo", "doas", "pkexec"}:
        flags = "".join(w.text for w in words[1:] if w.text[:2] != "--")
        return any(letter in flags for letter in "sie") or any(
            w.text in {"--shell", "--login", "--edit"} for w in words
        )
    return name in {"chroot", "unshare", "nsenter", "setarch", "fakeroot", "parallel", "xvfb-run"}


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


def _replaced(words: tuple[Word, ...]) -> set[str]:
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
