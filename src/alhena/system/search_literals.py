"""What any line that matches a pattern must contain: fixed text to look for first.

Programs that search files disagree about the syntax of regular expressions. They agree about fixed
text, so that is all they are asked for; the pattern itself is matched in one place only.
"""

import re

_QUANTIFIER = re.compile(r"([*+?]|\{\d+(?:,\d*)?\})[?+]?")
_OPENING = re.compile(r"\?(?:(<?[=!])|:|P?<[A-Za-z_]\w*>)")
_QUANTIFIER_START = "*+?{"
_CLASS_ESCAPES = frozenset("dDwWsSbBAZtnrfva")
_SPECIAL = frozenset("\\.[](){}*+?^$|")
_SHORTEST = 2

# The characters beyond ASCII that match an ASCII letter when case does not count.
_FOLDED = {"i": "\u0130|\u0131", "k": "\u212a", "s": "\u017f"}

_Alternatives = frozenset[str]


class _UnknownSyntaxError(Exception):
    """A construct whose meaning is not followed here."""


def required_literals(pattern: str) -> tuple[str, ...]:
    """ASCII texts in lower case of which every matching line has one, in any case; () if unknown.

    They have two characters or more. `pattern` is a valid regular expression, searched for in
    single lines without regard to case.
    """
    try:
        parser = _Parser(pattern)
        found = parser.alternatives()
        if parser.position < len(pattern):
            return ()
    except _UnknownSyntaxError:
        return ()
    return tuple(sorted(found)) if found and min(map(len, found)) >= _SHORTEST else ()


def literal_source(literals: tuple[str, ...], *, folded: bool = True) -> str:
    """A regular expression for any of these texts, in the syntax all dialects share.

    To be used without regard to the case of ASCII letters. `folded` adds the characters beyond
    ASCII that match some of them.
    """
    table = _FOLDED if folded else {}
    return "|".join("".join(_one(char, table) for char in literal) for literal in literals)


def longest_pieces(literals: tuple[str, ...], without: str) -> tuple[str, ...]:
    """Of each text its longest piece that has none of these characters.

    What holds the text holds the piece; () when a piece would say too little.
    """
    table = str.maketrans(dict.fromkeys(without, "\n"))
    pieces = tuple(max(text.translate(table).split("\n"), key=len) for text in literals)
    return pieces if min(map(len, pieces), default=0) >= _SHORTEST else ()


def _one(char: str, table: dict[str, str]) -> str:
    folded = table.get(char)
    if folded:
        return f"({char}|{folded})"
    return "\\" + char if char in _SPECIAL else char


def _better(one: _Alternatives | None, other: _Alternatives | None) -> _Alternatives | None:
    """The more selective of two requirements that both hold."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda found: (min(map(len, found)), -len(found)))


class _Parser:
    """Recursive descent over the part of the syntax that is the same everywhere."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0
        self._depth = 0

    def alternatives(self) -> _Alternatives | None:
        """Up to the end of the group: what is required whichever branch matches."""
        branches = [self._sequence()]
        while self._peek() == "|":
            self.position += 1
            branches.append(self._sequence())
        united: set[str] = set()
        for branch in branches:
            if branch is None:
                return None
            united |= branch
        return frozenset(united) if len(united) <= 50 else None

    def _peek(self) -> str:
        return self._pattern[self.position : self.position + 1]

    def _sequence(self) -> _Alternatives | None:
        best: _Alternatives | None = None
        run = ""
        while (char := self._peek()) and char not in "|)":
            literal, required = self._atom(char)
            least, once = self._quantifier()
            if literal and once:
                run += literal
                continue
            if literal and least:
                required = frozenset({run + literal})
            best = _better(best, frozenset({run}) if run else None)
            best = _better(best, required if least else None)
            run = ""
        return _better(best, frozenset({run}) if run else None)

    def _atom(self, char: str) -> tuple[str, _Alternatives | None]:
        """The next atom: a literal character, or what else it requires."""
        self.position += 1
        if char == "(":
            return "", self._group()
        if char == "[":
            self._class()
            return "", None
        if char == "\\":
            return self._escape(), None
        if char in ".^$":
            return "", None
        if char in _QUANTIFIER_START:
            raise _UnknownSyntaxError
        return (char.lower() if " " <= char <= "~" else ""), None

    def _group(self) -> _Alternatives | None:
        opening = _OPENING.match(self._pattern, self.position)
        if opening:
            self.position = opening.end()
        elif self._peek() in {"?", "*"}:
            raise _UnknownSyntaxError
        self._depth += 1
        if self._depth > 50:
            raise _UnknownSyntaxError
        found = self.alternatives()
        if self._peek() != ")":
            raise _UnknownSyntaxError
        self.position += 1
        self._depth -= 1
        # What is looked at is no part of the match, and may be what must not be there.
        return None if opening and opening.group(1) else found

    def _class(self) -> None:
        if self._peek() == "^":
            self.position += 1
        first = True
        while (char := self._peek()) != "]" or first:
            if not char or char == "[":
                raise _UnknownSyntaxError
            self.position += 2 if char == "\\" else 1
            first = False
        self.position += 1

    def _escape(self) -> str:
        char = self._peek()
        self.position += 1
        if char in _CLASS_ESCAPES and char:
            return ""
        if not char or char.isalnum() or not char.isascii() or not char.isprintable():
            raise _UnknownSyntaxError
        return char

    def _quantifier(self) -> tuple[bool, bool]:
        """Whether the atom before must match at least once, and whether exactly once."""
        if self._peek() not in _QUANTIFIER_START or not self._peek():
            return True, True
        found = _QUANTIFIER.match(self._pattern, self.position)
        if found is None:
            raise _UnknownSyntaxError
        self.position = found.end()
        if self._peek() and self._peek() in _QUANTIFIER_START:
            raise _UnknownSyntaxError
        sign = found.group(1)
        if sign[0] != "{":
            return sign == "+", False
        return int(sign[1:-1].split(",")[0]) > 0, False
