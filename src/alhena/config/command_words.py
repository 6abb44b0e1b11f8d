"""The words of a command line, as far as they can be told without a shell that runs it."""

import re
from collections.abc import Callable, Iterator

MAX_PATH = 4096
_MAX_DEPTH = 4
_MAX_BRACES = 16
"""How deep command lines stand in words of others; how many words one with braces stands for."""
_BETWEEN = re.compile(r"[\s\"'=;|&<>()`,:]+")
_JOINED = re.compile(r"[=,:@]+")
_GLUED = re.compile(r"-[^-]|-+[\w-]*(?=[./])|@")
"""What of a word comes before a path without anything between."""
_PUT_IN = re.compile(r"[)}`]/+|\$\w+/*|\$\{[^{}]*\}/*|~[+-]/+")
"""What a shell puts in before a path: `$(pwd)/srv.py` may mean `srv.py`."""
_BLANK = re.compile(r"\s")
_QUOTING = re.compile(r"[\s\"'\\{;|&()]")
_TOKEN = re.compile(
    r"""(?:[^\s"'\\;|&<>()`]|\\.|"(?:[^"\\]|\\.)*+"|'[^']*+')++|[;|&()`\n]""", re.DOTALL
)
_QUOTED = re.compile(r"""\\(.)|"((?:[^"\\]|\\.)*+)"|'([^']*+)'""", re.DOTALL)
_BRACES = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")
_OPERATORS = frozenset(";|&()`\n")


def simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of a line with their words, quotes taken away. What a shell would put in
    (variables, what matches a pattern) stays as it stands there."""
    words: list[str] = []
    for found in _TOKEN.finditer(line):
        if found[0] not in _OPERATORS:
            words.append(_QUOTED.sub(_plain, found[0]))
        elif words:
            yield words
            words = []
    if words:
        yield words


def pieces(word: str, charge: Callable[[int], None]) -> Iterator[str]:
    """What of a word may name a file or a directory: a shell may read it, an option may end in it
    or be glued to it. `charge` is told how much is looked at, and may raise."""
    seen: set[str] = set()
    known = {word}
    waiting = [(word, _MAX_DEPTH)]
    while waiting:
        text, depth = waiting.pop()
        charge(2 + len(text) // (8 if _QUOTING.search(text) else 64))
        for piece in (text, *_parts(text)):
            glued = _GLUED.match(piece)
            for each in (piece, piece[glued.end() :] if glued else ""):
                if each and len(each) <= MAX_PATH and each not in seen:
                    seen.add(each)
                    yield each
        if depth and _QUOTING.search(text):
            tokens = dict.fromkeys(token for command in simple_commands(text) for token in command)
            words = dict.fromkeys(each for token in tokens for each in _without_braces(token))
            waiting += ((each, depth - 1) for each in words if each not in known)
            known.update(words)


def _parts(text: str) -> Iterator[str]:
    yield from _BETWEEN.split(text)
    if _BLANK.search(text):
        yield from _JOINED.split(text)
    put_in = _PUT_IN.sub(" ", text)
    if put_in != text:
        yield from _BETWEEN.split(put_in)


def _without_braces(word: str) -> list[str]:
    """The words that one with braces stands for: `srv.{sh,py}`."""
    words = [word]
    while len(word) <= MAX_PATH and (found := _BRACES.search(words[0])):
        ends = found[1].split(",")
        more = [
            each[: there.start()] + end + each[there.end() :]
            for each in words
            if (there := _BRACES.search(each))
            for end in ends
        ]
        if len(more) > _MAX_BRACES:
            return [word]
        words = more
    return words


def _plain(found: re.Match[str]) -> str:
    if found[1] is not None:
        return "" if found[1] == "\n" else found[1]
    return found[3] if found[2] is None else re.sub(r"\\([\"\\$`])", r"\1", found[2])
