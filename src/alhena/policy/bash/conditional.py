"""`[[ … ]]`: words and operators by rules of their own."""

import re

from alhena.policy.bash.expansions import ARITHMETIC
from alhena.policy.bash.model import Part, Word
from alhena.policy.bash.reading import Reading, Scope, UnclearError
from alhena.policy.bash.words import read_regex, read_word

_BLANKS = re.compile(r"(?:[ \t\n]|\\\n)*")
_JOINED = re.compile(r"(?<![ \t\n])\\\n")
_OPERATOR = re.compile(r"=~(?=[ \t\n])|&&|\|\||[()]|[<>](?!\()")
_END = re.compile(r"\]\](?=[ \t\n;&|()<>]|\Z)")
_NUMERIC = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_EVALUATING = frozenset({"-v", "-R"})


def read_conditional(reading: Reading, start: int, stop: int, scope: Scope) -> None:
    """Adds it as a part, with the doubts about it."""
    words: list[Word] = []
    try:
        _read(reading, start, stop, scope, words)
    except UnclearError:
        reading.unclear(start, stop)
        reading.queue_within(start, stop, scope)
    for word in words:
        if word.text in _NUMERIC:
            reading.doubt(ARITHMETIC, start, stop)
        elif word.text in _EVALUATING:
            reading.doubt("a test with -v or -R can run code hidden in data", start, stop)
    reading.findings.parts.append(
        Part(
            text=reading.source.written(start, stop),
            words=tuple(words),
            redirections=scope.redirections,
            directories=scope.shell.directories,
            stdin_piped=scope.piped,
            nested=scope.nested,
        )
    )


def _read(reading: Reading, start: int, stop: int, scope: Scope, words: list[Word]) -> None:
    text = reading.text
    if _JOINED.search(text, start, stop):
        raise UnclearError
    at = start + 2
    words.append(Word("[[", source="[["))
    while True:
        blanks = _BLANKS.match(text, at)
        spaced = blanks is not None and blanks.end() > at
        at = blanks.end() if blanks else at
        if at >= stop:
            raise UnclearError
        end = _END.match(text, at)
        if end and spaced:
            words.append(Word("]]", source="]]"))
            if end.end() != stop:
                raise UnclearError
            return
        operator = _OPERATOR.match(text, at)
        if operator:
            words.append(Word(operator.group(), source=operator.group()))
            at = operator.end()
        elif words[-1].source == "=~":
            word, at = read_regex(reading, at, scope)
            words.append(word)
        elif len(words) == 1 and not spaced:
            raise UnclearError
        else:
            word, at = read_word(reading, at, scope)
            words.append(word)
