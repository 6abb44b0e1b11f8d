"""A pattern for single lines -> one that finds the same lines in a text of many.

Looking through a whole block at once is fast; looking at each line by itself is what a search
means. The two agree when nothing in the pattern can match a line feed, which is what the rewriting
ensures. A pattern that holds anything not followed here is not rewritten, and goes line by line.
"""

import re

_QUANTIFIER = re.compile(r"\{\d*(?:,\d*)?\}")
_GROUPS = ("?:", "?=", "?!", "?<=", "?<!")
_NAMED = re.compile(r"\?P?<[A-Za-z_]\w*>|\?P=[A-Za-z_]\w*(?=\))")
_ESCAPES = {"s": r"[^\S\n]", "W": r"[^\w\n]", "D": r"[^\d\n]"}
_SAME = frozenset("wdSbtfv123456789")
_HARMLESS_IN_CLASS = frozenset("wdtfv")
_SET_OPERATORS = ("&&", "||", "--", "~~")


class _NotFollowedError(Exception):
    """A construct whose meaning is not followed here."""


def line_bounded(pattern: str) -> str | None:
    """The pattern for a text of lines, `^` and `$` meaning theirs; None when there is none.

    `pattern` is a valid expression of the `regex` module. The result is to be compiled with
    MULTILINE and the flags `pattern` has; its matches lie within lines that end with LF alone.
    """
    try:
        return _Rewriter(pattern).run()
    except _NotFollowedError:
        return None


class _Rewriter:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def run(self) -> str:
        done: list[str] = []
        while self._at < len(self._pattern):
            done.append(self._next())
        return "".join(done)

    def _next(self) -> str:
        char = self._take()
        match char:
            case "\\":
                return self._escape()
            case "[":
                return self._class()
            case "(":
                return f"({self._group()}"
            case "{":
                return self._braces()
            case "\n":
                raise _NotFollowedError
            case _:
                return char

    def _take(self) -> str:
        char = self._pattern[self._at : self._at + 1]
        if not char:
            raise _NotFollowedError
        self._at += 1
        return char

    def _escape(self) -> str:
        char = self._take()
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _SAME or (char.isascii() and char.isprintable() and not char.isalnum()):
            return f"\\{char}"
        raise _NotFollowedError

    def _group(self) -> str:
        for opening in _GROUPS:
            if self._pattern.startswith(opening, self._at):
                self._at += len(opening)
                return opening
        if self._pattern.startswith(("?", "*"), self._at):
            named = _NAMED.match(self._pattern, self._at)
            if named is None:
                raise _NotFollowedError
            self._at = named.end()
            return named.group()
        return ""

    def _braces(self) -> str:
        # Anything else in braces may be fuzzy matching, which can put a line feed anywhere.
        found = _QUANTIFIER.match(self._pattern, self._at - 1)
        if found is None:
            raise _NotFollowedError
        self._at = found.end()
        return found.group()

    def _class(self) -> str:
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        items: list[str] = []
        safe = True
        while not self._pattern.startswith("]", self._at) or not items:
            item = self._take()
            if item == "\\":
                item += self._take()
                safe = safe and (item[1] in _HARMLESS_IN_CLASS or not item[1].isalnum())
                safe = safe and not (item == "\\t" and self._pattern.startswith("-", self._at))
            elif item == "[":
                raise _NotFollowedError
            # A range may begin below the line feed.
            safe = safe and item not in {"\n", "\\\n"} and not (item < " " and len(item) == 1)
            items.append(item)
        self._at += 1
        body = "".join(items)
        if any(operator in body for operator in _SET_OPERATORS):
            raise _NotFollowedError
        if negated:
            # At the beginning a bracket or a hyphen stands for itself, behind the line feed not.
            quoted = "\\" if items[0] in {"]", "-"} else ""
            return f"[^\\n{quoted}{body}]"
        return f"[{body}]" if safe else f"(?:(?!\\n)[{body}])"
