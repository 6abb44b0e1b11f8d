"""Derives fixed text that any matching line must contain, to search for first.

Search programs differ in regular expression syntax and in encodings. They agree on bytes, so they
only search for the bytes of fixed text; the pattern itself is matched in one place.
"""

import re

import msgspec

_QUANTIFIER = re.compile(r"([*+?]|\{\d+(?:,\d*)?\})[?+]?")
_OPENING = re.compile(r"\?(?:(<?[=!])|:|P?<[A-Za-z_]\w*>)")
_QUANTIFIER_START = "*+?{"
_CLASS_ESCAPES = frozenset("dDwWsSbBAZtnrfva")
_SPECIAL = frozenset("\\.[](){}*+?^$|")
_SHORTEST = 2
_TELLING = 4
"""Characters of a piece searched instead of the whole text."""

# Non-ASCII characters that match an ASCII letter case-insensitively, and their bytes
# in encodings that extend ASCII: UTF-8, Windows-1254, CP949, EUC-JP, GB 18030.
_FOLDED: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "i": (
        "\u0130\u0131",
        (b"\xc4\xb0", b"\xc4\xb1", b"\xdd", b"\xfd", b"\xa9\xa5", b"\x8f\xaa\xc4", b"\x8f\xa9\xc5",
         b"\x81\x30\x90\x32", b"\x81\x30\x90\x33"),
    ),
    "k": ("\u212a", (b"\xe2\x84\xaa", b"\x81\x36\xbf\x32")),
    "s": ("\u017f", (b"\xc5\xbf", b"\x81\x30\x97\x37")),
}  # fmt: skip
FOLDED = "".join(_FOLDED)

_Alternatives = frozenset[str]


class _UnknownSyntaxError(Exception):
    """Unsupported syntax."""


def required_literals(pattern: str) -> tuple[str, ...]:
    """Lower-case ASCII texts of which every matching line contains one, ignoring case; () if
    unknown.

    They have two characters or more. `pattern` is a valid regular expression, matched in single
    lines without case.
    """
    try:
        parser = _Parser(pattern)
        found = parser.alternatives()
        if parser.position < len(pattern):
            return ()
    except _UnknownSyntaxError:
        return ()
    return tuple(sorted(found)) if found and min(map(len, found)) >= _SHORTEST else ()


class ByteSyntax(msgspec.Struct, frozen=True):
    """The notation of a NUL byte in a dialect, and a format for other non-ASCII bytes."""

    nul: str
    byte: str


ESCAPED = ByteSyntax("\\x00", "\\x{:02x}")
"""For dialects with hexadecimal escapes."""

RAW = ByteSyntax("[^\x01-\xff]", "{:c}")
"""For other dialects: characters stand for bytes, none of which is NUL."""


def literal_source(literals: tuple[str, ...], syntax: ByteSyntax = ESCAPED) -> str:
    """A regular expression for the bytes of any of these texts, in any supported encoding.

    Those are UTF-16 and UTF-32 in both byte orders, and the ASCII extensions known to
    `encoding.detect`. For use on bytes, ignoring ASCII case. A piece may stand for a whole text.
    """
    return "|".join(
        form
        for literal in map(_telling, literals)
        for form in (_narrow(literal, syntax), *_wide(literal, syntax))
    )


def longest_pieces(literals: tuple[str, ...], without: str) -> tuple[str, ...]:
    """The longest piece of each text without these characters.

    A file with the text contains the piece; () when a piece would be too short.
    """
    table = str.maketrans(dict.fromkeys(without, "\n"))
    pieces = tuple(max(text.translate(table).split("\n"), key=len) for text in literals)
    return pieces if min(map(len, pieces), default=0) >= _SHORTEST else ()


def _telling(literal: str) -> str:
    """A piece with a single form in each encoding, if one is long enough."""
    (piece,) = longest_pieces((literal,), FOLDED) or ("",)
    return piece if len(piece) >= _TELLING else literal


def _narrow(literal: str, syntax: ByteSyntax) -> str:
    return "".join(
        _any([char.encode(), *_FOLDED[char][1]], syntax) if char in _FOLDED else _quoted(char)
        for char in literal
    )


def _wide(literal: str, syntax: ByteSyntax) -> list[str]:
    """UTF-16 and UTF-32, each in both byte orders."""
    return [
        "".join(
            _any([one.encode(encoding) for one in (char, *_FOLDED.get(char, ("",))[0])], syntax)
            for char in literal
        )
        for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
    ]


def _any(forms: list[bytes], syntax: ByteSyntax) -> str:
    """Matches one of several byte sequences."""
    written = ["".join(_byte(byte, syntax) for byte in form) for form in forms]
    return f"({'|'.join(written)})" if len(written) > 1 else written[0]


def _byte(byte: int, syntax: ByteSyntax) -> str:
    if not byte:
        return syntax.nul
    char = chr(byte)
    return _quoted(char) if " " <= char <= "~" else syntax.byte.format(byte)


def _quoted(char: str) -> str:
    return "\\" + char if char in _SPECIAL else char


def _better(one: _Alternatives | None, other: _Alternatives | None) -> _Alternatives | None:
    """The more selective of two requirements that both hold."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda found: (min(map(len, found)), -len(found)))


class _Parser:
    """Recursive descent over the common part of the syntax."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.position = 0
        self._depth = 0

    def alternatives(self) -> _Alternatives | None:
        """Parses to the end of the group: the requirement common to all branches."""
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
        """Parses an atom: a literal character, or its other requirement."""
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
        # A lookaround is not part of the match, and may be negative.
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
        """True when the preceding atom must match at least once, and True when exactly once."""
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
