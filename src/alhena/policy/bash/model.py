"""A command line as values: the parts bash would run, and what cannot be known of them."""

from enum import StrEnum

import msgspec


class WordKind(StrEnum):
    """The part of a word that is known before bash runs."""

    LITERAL = "literal"
    PATTERN = "pattern"  # a glob, a brace list or a tilde: one or more file names or texts
    EXPANSION = "expansion"  # a variable, a substitution, arithmetic: any text


class Word(msgspec.Struct, frozen=True, gc=False):
    """One word, its quotes removed. Of one that is not LITERAL, `text` is its certain beginning,
    before the first character that bash replaces; `source` is the word as written.
    `split` is false when the word surely stays one word (every expansion is in double quotes).
    """

    text: str
    kind: WordKind = WordKind.LITERAL
    source: str = ""
    split: bool = False

    @property
    def literal(self) -> bool:
        """Is `text` the whole word, whatever happens?"""
        return self.kind is WordKind.LITERAL


class Effect(StrEnum):
    """The effect of a redirection on files."""

    NONE = "none"  # 2>&1, >/dev/null, a here document
    READ = "read"
    WRITE = "write"  # also what cannot be known


class Redirection(msgspec.Struct, frozen=True, gc=False):
    """`2>file`: `operator` without its descriptor, the target when it has one, `source` as written.
    `body` is the text of a here document or here string."""

    operator: str
    effect: Effect
    source: str
    target: Word | None = None
    body: str | None = None


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """`NAME=value` before a command or alone."""

    name: str
    value: Word
    source: str


class Part(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One simple command, or what counts as one (a bare assignment, a bare redirection).

    `text` is as written. `words` is empty when nothing but assignments and redirections is there.
    `redirections` include those of every compound command around it. `directories` are the targets
    of each `cd` that ran, or may have run, before it in the same shell, in order; a `cd` without an
    operand is the word `~`. `loops` are the variables of the `for` loops around it with the words
    that they go through, the innermost last. `stdin_piped`: it reads what another command writes.
    `nested`: it is inside a substitution.
    """

    text: str
    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    directories: tuple[Word, ...] = ()
    loops: tuple[tuple[str, tuple[Word, ...]], ...] = ()
    stdin_piped: bool = False
    nested: bool = False


class Doubt(msgspec.Struct, frozen=True, gc=False):
    """The reason why no rule that looks at the command may allow it: one clause in words, such as
    "arithmetic can run code hidden in data", and the text it is about."""

    reason: str
    text: str


class Analysis(msgspec.Struct, frozen=True, gc=False):
    """All that a command line may run. Not `complete`: something may run that no part shows (it
    does not parse, or is over a limit)."""

    parts: tuple[Part, ...]
    doubts: tuple[Doubt, ...] = ()
    complete: bool = True
