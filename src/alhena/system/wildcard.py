"""Converts wildcard patterns to regular expressions, for .gitignore files and glob patterns.

The rules are those of git's wildmatch on paths: `*` and `?` stop at a slash, `**` as a whole
segment spans directories, `[...]` with ranges and POSIX classes, a backslash quotes. The result
matches in linear time for each star: a middle piece is matched at its first fit without
backtracking (atomic groups), so no pattern can explode.
"""

import re
from itertools import pairwise

_STAR = "*"
_SLASH = "/"
_ANYTHING = r"(?s:.)"
_CLASS = r"\[:[^\]]*:\]"
_BRACKET = rf"(?s)\[([!^]?)((?>(?:{_CLASS}|\\.|[^\\])(?:{_CLASS}|\\.|[^\]\\])*))\]"
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


class BadPatternError(ValueError):
    """A pattern that matches nothing: an unclosed bracket or a trailing backslash."""


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    """The bracket expression at `start` as a regular expression for one character, and its end."""
    found = re.compile(_BRACKET).match(pattern, start)
    if found is None:
        raise BadPatternError(pattern)
    items = re.findall(rf"{_CLASS}|\\.|.", found[2], re.DOTALL)
    body = ""
    while items:
        item = items.pop(0)
        if len(item) > 2:
            if item[2:-2] not in _CLASSES:
                raise BadPatternError(pattern)
            body += _CLASSES[item[2:-2]]
            continue
        low = item[-1]
        body += re.escape(low)
        if len(items) > 1 and items[0] == "-":
            high = items[1][-1]
            body += f"-{re.escape(high)}" if low <= high else ""
            del items[:2]
    return (f"[^/{body}]" if found[1] else f"(?!/)[{body}]"), found.end()


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
            source, at = _bracket(pattern, at - 1)
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
