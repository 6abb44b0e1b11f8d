"""Converts wildcard patterns to regular expressions, for .gitignore files and glob patterns.

The rules are those of git's wildmatch on paths: `*` and `?` stop at a slash, `**` as a whole
segment spans directories, `[...]` with ranges and POSIX classes, a backslash quotes. The result
matches in linear time for each star: a middle piece is matched at its first fit without
backtracking (atomic groups), so no pattern can explode.
"""

import re
from itertools import pairwise

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_STAR = "*"
_SLASH = "/"
_ANYTHING = r"(?s:.)"


class BadPatternError(ValueError):
    """A pattern that matches nothing: an unclosed bracket or a trailing backslash."""


class _Bracket:
    """Parses one bracket expression of `pattern`, with its "[" at `start`."""

    def __init__(self, pattern: str, start: int) -> None:
        self._pattern = pattern
        self._at = start + 1
        self._ranges: list[str] = []
        self._previous = ""

    def read(self) -> tuple[str, int]:
        """The expression as a regular expression for one character, and its end."""
        negated = self._peek() in ("!", "^")
        if negated:
            self._at += 1
        first = True
        while first or self._peek() != "]":
            first = False
            self._item()
        body = "".join(self._ranges)
        if negated:
            return f"[^/{body}]", self._at + 1
        return (f"(?!/)[{body}]" if body else "(?!)"), self._at + 1

    def _peek(self, ahead: int = 0) -> str:
        try:
            return self._pattern[self._at + ahead]
        except IndexError:
            raise BadPatternError(self._pattern) from None

    def _item(self) -> None:
        char = self._peek()
        if char == "-" and self._previous and self._peek(1) != "]":
            self._at += 1
            self._span(self._previous, self._literal())
            self._previous = ""
        elif char == "[" and self._peek(1) == ":" and self._class():
            self._previous = ""
        else:
            self._previous = self._literal()
            self._ranges.append(re.escape(self._previous))

    def _literal(self) -> str:
        char = self._peek()
        if char == "\\":
            self._at += 1
            char = self._peek()
        self._at += 1
        return char

    def _span(self, low: str, high: str) -> None:
        if low <= high:
            self._ranges.append(f"{re.escape(low)}-{re.escape(high)}")

    def _class(self) -> bool:
        end = self._pattern.find("]", self._at + 2)
        if end < 0:
            raise BadPatternError(self._pattern)
        if end == self._at + 2 or self._pattern[end - 1] != ":":
            return False
        name = self._pattern[self._at + 2 : end - 1]
        if name not in _CLASSES:
            raise BadPatternError(self._pattern)
        self._ranges.append(_CLASSES[name])
        self._at = end + 1
        return True


def _tokens(pattern: str) -> list[str]:
    """Regular expressions of one character each; `*` and `/` stand for themselves."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char in (_STAR, _SLASH):
            found.append(char)
        elif char == "?":
            found.append("[^/]")
        elif char == "[":
            source, at = _Bracket(pattern, at - 1).read()
            found.append(source)
        elif char == "\\":
            if at == len(pattern):
                raise BadPatternError(pattern)
            quoted = pattern[at]
            found.append(quoted if quoted == _SLASH else re.escape(quoted))
            at += 1
        else:
            found.append(re.escape(char))
    return found


def _segment(tokens: list[str]) -> str:
    pieces: list[list[str]] = [[]]
    for token in tokens:
        if token == _STAR:
            pieces.append([])
        else:
            pieces[-1].append(token)
    if len(pieces) == 1:
        return "".join(tokens)
    middle = "".join(f"(?>[^/]*?{''.join(piece)})" for piece in pieces[1:-1] if piece)
    return f"{''.join(pieces[0])}{middle}[^/]*{''.join(pieces[-1])}"


def _is_globstar(segment: list[str]) -> bool:
    return len(segment) > 1 and all(token == _STAR for token in segment)


def _segments(pattern: str) -> list[list[str]]:
    segments: list[list[str]] = [[]]
    for token in _tokens(pattern):
        if token == _SLASH:
            segments.append([])
        else:
            segments[-1].append(token)
    return segments


def path_regex(pattern: str) -> str:
    """The regular expression (for `fullmatch`) of a pattern for slash-separated relative paths.

    Raises BadPatternError.
    """
    blocks: list[list[str]] = [[]]
    for segment in _segments(pattern):
        if not _is_globstar(segment):
            blocks[-1].append(_segment(segment))
        elif blocks[-1] or len(blocks) == 1:
            blocks.append([])
    if len(blocks) == 1:
        return _SLASH.join(blocks[0])
    first, *middle, last = blocks
    source = "".join(f"{segment}/" for segment in first)
    for block in middle:
        source += f"(?>(?:[^/]+/)*?{_SLASH.join(block)}/)"
    if last:
        return f"{source}(?:[^/]+/)*{_SLASH.join(last)}"
    return f"{source}{_ANYTHING}+"


def name_regex(pattern: str) -> str:
    """The regular expression (for `fullmatch`) of a pattern for one name without slashes.

    Raises BadPatternError.
    """
    return _segment(_tokens(pattern))


def leading_regexes(pattern: str) -> tuple[tuple[str, ...], bool]:
    """One expression for each directory level before the first `**`, and True if there is a `**`.

    Lets a walk enter only directories below which a path can match. Raises BadPatternError.
    """
    leading: list[str] = []
    segments = _segments(pattern)
    for segment in segments[:-1]:
        if _is_globstar(segment):
            return tuple(leading), True
        leading.append(_segment(segment))
    return tuple(leading), _is_globstar(segments[-1])


def expand_braces(pattern: str, limit: int = 1_000) -> list[str]:
    """Expands `a.{b,c}` to `a.b` and `a.c`, nested ones too; unbalanced braces are literal.

    Raises BadPatternError for more than `limit` alternatives.
    """
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        group = _first_group(current)
        if group is None:
            done.append(current)
        else:
            start, end, options = group
            waiting.extend(current[:start] + o + current[end:] for o in reversed(options))
        if len(done) + len(waiting) > limit:
            raise BadPatternError(pattern)
    return done


def _first_group(pattern: str) -> tuple[int, int, list[str]] | None:
    """The first brace group with a comma: start, end, alternatives."""
    opened: list[tuple[int, list[int]]] = []
    groups: list[tuple[int, int, list[int]]] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif char == "{":
            opened.append((at, []))
        elif char == "," and opened:
            opened[-1][1].append(at)
        elif char == "}" and opened:
            start, commas = opened.pop()
            if commas:
                groups.append((start, at, commas))
        at += 1
    if not groups:
        return None
    start, end, commas = min(groups)
    bounds = [start, *commas, end]
    options = [pattern[a + 1 : b] for a, b in pairwise(bounds)]
    return start, end + 1, options
