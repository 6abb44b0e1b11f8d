"""Which commands does one piece of a shell command come down to?

`FOO=1 sudo -u bob /bin/rm x` comes down to `/bin/rm x` as well: assignments, reserved words and
wrappers are looked through, shell code in arguments is read as shell code.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.policy.pieces import Piece, Word, split_pieces
from alhena.policy.wrappers import (
    EVALUATORS,
    FIND_ACTIONS,
    OPAQUE,
    POSITIONALS,
    SHELLS,
    VALUE_OPTIONS,
    base_name,
    evaluates,
    is_interpreter,
    is_loader,
    is_wrapper,
)

if TYPE_CHECKING:
    import re

MAX_FORMS = 64
MAX_INNER_WORDS = 256
_MAX_CODE_TOKENS = 64
_MAX_SKIPPED = 12
_READS_ARGUMENTS = frozenset({"xargs", "parallel"})
_TAKES_CODE = frozenset({"watch", "parallel", "flock"})
_BEFORE_COMMANDS = frozenset(
    {"!", "{", "}", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "coproc"}
)


class Form(msgspec.Struct, frozen=True):
    """A command that may run. `sure` is false when it is a guess (a word inside `python -c`, a
    subcommand behind global options)."""

    words: tuple[Word, ...]
    sure: bool = True

    @property
    def text(self) -> str:
        """The words up to the first expansion, one space between."""
        texts: list[str] = []
        for word in self.words:
            texts.append(word.text)
            if word.dynamic:
                break
        return " ".join(texts)

    @property
    def dynamic(self) -> bool:
        """Does any word hold an expansion?"""
        return any(word.dynamic for word in self.words)


class Forms(msgspec.Struct, frozen=True):
    """The forms of a piece; `unsure` when it may run what no form shows."""

    forms: tuple[Form, ...]
    unsure: bool


def forms_of(piece: Piece) -> Forms:
    """Every command that `piece` comes down to, the piece itself first."""
    unfolding = _Unfolding()
    unfolding.add(Form(piece.words))
    return unfolding.unfold()


class _Unfolding:
    def __init__(self) -> None:
        self.forms: list[Form] = []
        self.seen: set[Form] = set()
        self.unsure = False

    def add(self, form: Form) -> None:
        if self.forms and len(form.words) > MAX_INNER_WORDS:
            self.unsure = True
            form = Form(form.words[:MAX_INNER_WORDS], form.sure)
        if not form.words or form in self.seen:
            return
        if len(self.forms) >= MAX_FORMS:
            self.unsure = True
            return
        self.seen.add(form)
        self.forms.append(form)

    def unfold(self) -> Forms:
        done = 0
        while done < len(self.forms):
            self._unfold(self.forms[done])
            done += 1
        return Forms(tuple(self.forms), self.unsure)

    def _unfold(self, form: Form) -> None:
        words = form.words
        bare = _without_prefixes(words)
        if bare != words:
            self.add(Form(bare, form.sure))
            return
        head = words[0]
        name = base_name(head.text)
        self._evaluated(words, form.sure)
        if head.dynamic:
            return
        if name in VALUE_OPTIONS or is_loader(name):
            self._wrapper(name, form)
        if name in SHELLS:
            self._shell(form)
        elif is_interpreter(name) or name in _TAKES_CODE or _git_alias(words):
            self._mentions(words[1:])
        else:
            self._builtin(name, form)
        if not is_wrapper([word.text for word in words]):
            for index in _behind_options(words):
                self.add(Form((head, *words[index:]), sure=False))

    def _builtin(self, name: str, form: Form) -> None:
        """Builtins that run code, and `find`, which runs commands."""
        words = form.words
        if name in EVALUATORS:
            self._code(" ".join(word.text for word in words[1:]), form.sure)
            self.unsure = self.unsure or form.dynamic
        elif name in OPAQUE:
            self.unsure = True
        elif name == "find":
            starts = [index + 1 for index, w in enumerate(words) if w.text in FIND_ACTIONS]
            self.unsure = self.unsure or len(starts) > MAX_FORMS
            for start in starts[:MAX_FORMS]:
                self.add(Form(_with_input(words[start:], {"{}"}), form.sure))

    def _evaluated(self, words: tuple[Word, ...], sure: bool) -> None:
        """Function bodies, and code that tests and arithmetic find inside data."""
        for index, word in enumerate(words):
            if word.text == "{" and not word.dynamic:
                self.add(Form(words[index + 1 :], sure))
        texts = [word.text for word in words]
        if texts[0] in {"[[", "test"} or "[" in texts[0] or evaluates(texts):
            for text in texts:
                if "$(" in text or "`" in text:
                    self._code(text, sure)

    def _wrapper(self, name: str, form: Form) -> None:
        words = form.words
        if name == "command" and len(words) > 1 and words[1].text in {"-v", "-V"}:
            return
        starts = list(_command_starts(name, words))
        first = words[starts[-1]] if starts else None
        if name in _READS_ARGUMENTS and first is not None:
            words = (*_with_input(words, _replaced(words)), Word("", dynamic=True))
        for start in starts:
            self.add(Form(words[start:], form.sure))
        if name == "env":
            self._split_string(form)
        needs_command = name in {"sudo", "doas", "chroot", "unshare", "nsenter", "parallel"}
        options = form.words[1 : starts[-1] if starts else None]
        dynamic_options = any(word.dynamic for word in options)
        self.unsure = self.unsure or (needs_command and first is None) or dynamic_options

    def _split_string(self, form: Form) -> None:
        """`env -S 'command and arguments'`."""
        for index, word in enumerate(form.words):
            for option in ("-S", "--split-string=", "--split-string"):
                if word.text.startswith(option):
                    rest = [w.text for w in form.words[index + 1 :]]
                    code = " ".join([word.text[len(option) :], *rest])
                    # `env` has rules of its own for escapes, and takes more for a blank.
                    self.unsure = self.unsure or "\\" in code
                    self._code(" ".join(code.split()), form.sure)
                    break

    def _shell(self, form: Form) -> None:
        """A shell: its code when that is in the arguments; with no arguments it reads input."""
        arguments = form.words[1:]
        options = [w for w in arguments if w.text.startswith(("-", "+"))]
        has_code = any("c" in w.text for w in options)
        operands = [w for w in arguments if not w.text.startswith(("-", "+"))]
        looked_at = arguments if has_code else operands[:1]
        self.unsure = (
            self.unsure
            or not operands
            or any(w.dynamic or w.text.startswith(("/dev/", "/proc/")) for w in looked_at)
        )
        if has_code:
            for word in operands:
                self._code(word.text, form.sure)

    def _code(self, text: str, sure: bool) -> None:
        inner = split_pieces(text)
        self.unsure = self.unsure or inner.unsure
        for piece in inner.pieces:
            self.add(Form(piece.words, sure))

    def _mentions(self, words: tuple[Word, ...]) -> None:
        """Words inside an interpreter's arguments, each as the start of a command."""
        tokens: list[Word] = []
        for word in words:
            tokens += [Word(token) for token in _code_breaks().split(word.text) if token]
        self.unsure = self.unsure or len(tokens) > _MAX_CODE_TOKENS
        tokens = tokens[:_MAX_CODE_TOKENS]
        for index in range(len(tokens)):
            self.add(Form(tuple(tokens[index : index + 8]), sure=False))


@lru_cache(maxsize=1)
def _code_breaks() -> "re.Pattern[str]":
    import re

    return re.compile(r"[\s'\"`,;|&()<>\[\]{}!]+")


@lru_cache(maxsize=1)
def _assignment() -> "re.Pattern[str]":
    import re

    return re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=")


def _is_assignment(word: Word) -> bool:
    return _assignment().match(word.text) is not None


def _without_prefixes(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words behind leading reserved words and assignments."""
    start = 0
    while start < len(words) and (
        (words[start].text in _BEFORE_COMMANDS and not words[start].dynamic)
        or _is_assignment(words[start])
    ):
        start += 1
    return words[start:]


def _git_alias(words: tuple[Word, ...]) -> bool:
    return base_name(words[0].text) == "git" and any("alias." in word.text for word in words)


def _command_starts(name: str, words: tuple[Word, ...]) -> Iterator[int]:
    """Where the wrapped command may begin: one index, more when a long option may take a value."""
    with_value = VALUE_OPTIONS.get(name, "")
    operands = POSITIONALS.get(name, 0)
    index = 1
    ended = False
    while index < len(words):
        text = words[index].text
        if not ended and text == "--":
            ended = True
        elif not ended and text.startswith("--"):
            if "=" not in text and index + 2 < len(words):
                yield index + 2
        elif not ended and text.startswith("-") and len(text) > 1:
            if text[-1] in with_value:
                if len(text) > 2 and index + 2 < len(words):
                    yield index + 2
                index += len(text) == 2
        elif name in {"env", "sudo", "doas"} and _is_assignment(words[index]):
            pass
        elif operands:
            operands -= 1
        else:
            yield index
            return
        index += 1


def _replaced(words: tuple[Word, ...]) -> set[str]:
    """What stands for the input in the command of `xargs -I` or `parallel`."""
    marks = {"{}"}
    for word, following in zip(words, (*words[1:], Word("")), strict=True):
        for option in ("-I", "-J", "--replace="):
            if word.text.startswith(option):
                marks.add(word.text[len(option) :] or following.text)
    return marks - {""}


def _with_input(words: tuple[Word, ...], marks: set[str]) -> tuple[Word, ...]:
    """The words with what will be put in place of a mark as an expansion."""
    found: list[Word] = []
    for word in words:
        cuts = [word.text.index(mark) for mark in marks if mark in word.text]
        found.append(Word(word.text[: min(cuts)], dynamic=True) if cuts else word)
    return tuple(found)


def _behind_options(words: tuple[Word, ...]) -> Iterator[int]:
    """Operands that may be the subcommand when options stand right behind the command word."""
    if len(words) < 3 or not words[1].text.startswith("-"):
        return
    for index, word in enumerate(words[2 : 2 + _MAX_SKIPPED], start=2):
        if not word.text.startswith("-"):
            yield index
