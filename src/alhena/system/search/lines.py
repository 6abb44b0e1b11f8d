"""Finds the lines of a file that match a pattern; long lines are searched in pieces.

Searching a whole block at once is fast; the defined result is that of each line by itself. Both
agree if nothing in the pattern matches a line feed, which the rewriting ensures. A pattern with
unsupported syntax is not rewritten and is applied line by line.

Lines end at a line feed; a carriage return before it is not part of the line. In a file without
line feeds (for a large one, in its first block) they end at a carriage return. `encoding.detect`
decides the encoding, as for reading: from all bytes of a file up to `WHOLE`, from the first block
of a larger one. Files are read in blocks, so any size works; of a line longer than `LONGEST_LINE`
bytes only the beginning is searched.
"""

import codecs
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from alhena.system.encoding import SAMPLE_SIZE, Codec, detect, is_binary
from alhena.system.errors import PatternError, SearchError, SearchTimeoutError, printable
from alhena.system.search.literals import FOLDED, longest_pieces

if TYPE_CHECKING:
    from regex import Pattern

_QUANTIFIER = re.compile(r"\{\d*(?:,\d*)?\}")
_GROUPS = ("?:", "?=", "?!", "?<=", "?<!")
_NAMED = re.compile(r"\?P?<[A-Za-z_]\w*>|\?P=[A-Za-z_]\w*(?=\))")
_ESCAPES = {"s": r"[^\S\n]", "W": r"[^\w\n]", "D": r"[^\d\n]"}
_SAME = frozenset("wdSbtfv123456789")
_HARMLESS_IN_CLASS = frozenset("wdtfv")
_SET_OPERATORS = ("&&", "||", "--", "~~")


class _NotFollowedError(Exception):
    """Unsupported syntax."""


def line_bounded(pattern: str) -> str | None:
    """Rewrites the pattern for a text of several lines, with `^` and `$` at line ends; None if
    impossible.

    `pattern` is a valid expression of the `regex` module. Compile the result with MULTILINE and the
    flags of `pattern`; its matches stay within lines that end with LF only.
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
        # Other braces may be fuzzy matching, which can match a line feed anywhere.
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
            # A leading bracket or hyphen is literal, but not after the inserted line feed.
            quoted = "\\" if items[0] in {"]", "-"} else ""
            return f"[^\\n{quoted}{body}]"
        return f"[{body}]" if safe else f"(?:(?!\\n)[{body}])"


PIECE = 100_000
"""Characters of a line that are searched at once."""

OVERLAP = 20_000
"""Overlap of pieces in characters: longer matches may be missed."""

_BEYOND = "\n\n"
"""Appended to a piece searched by itself, so that `$`, `\\Z` and `.` do not match at its end."""


def line_matches(pattern: "Pattern[str]", line: str, seconds: float) -> bool:
    """True when the pattern matches in the line. Raises TimeoutError, MemoryError."""
    if len(line) <= PIECE:
        return pattern.search(line, timeout=seconds, concurrent=True) is not None
    end = time.monotonic() + seconds
    for start in range(0, len(line) - OVERLAP, PIECE - OVERLAP):
        stop = start + PIECE
        found = pattern.search(line, start, stop, timeout=_left(end), concurrent=True)
        if found is None:
            continue
        if found.end() < stop or stop >= len(line):
            return True
        # It reaches the end of the piece, which may have been mistaken for the line's.
        piece = line[start:stop] + _BEYOND
        at = found.start() - start
        if pattern.search(piece, at, timeout=_left(end), concurrent=True) is not None:
            return True
    return False


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def short_and_long(text: str) -> Iterator[tuple[str, bool]]:
    """Splits a text at line ends into runs of short lines, and single lines longer than a piece.

    The flag is True for a long line.
    """
    if len(text) <= PIECE:
        yield text, False
        return
    begin = at = 0
    while at + PIECE < len(text):
        feed = text.rfind("\n", at, at + PIECE + 1)
        if feed >= 0:
            at = feed + 1
            continue
        if at > begin:
            yield text[begin:at], False
        end = text.find("\n", at + PIECE) + 1 or len(text)
        yield text[at:end], True
        begin = at = end
    if begin < len(text):
        yield text[begin:], False


LONGEST_PATTERN = 2_000
LONGEST_LINE = 4_000_000
LINE_SECONDS = 2.0
BLOCK_SECONDS = 1.0
LEAST_SECONDS = 0.05
"""Minimum time for a line when earlier lines have used up the total."""
WHOLE = 2 << 20
"""Maximum size of files whose encoding is detected from all bytes."""

_BLOCK = 1 << 20
_UTF8 = Codec()
_WIDE = ("utf-16", "utf-32")
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW


class LinePattern(msgspec.Struct, frozen=True):
    """A compiled pattern: for single lines, and if possible for a text of lines."""

    line: "Pattern[str]"
    text: "Pattern[str] | None"


def compile_pattern(pattern: str, *, case_sensitive: bool = False) -> LinePattern:
    """Compiles a pattern of the `regex` module. Raises PatternError."""
    import regex

    if len(pattern) > LONGEST_PATTERN:
        raise PatternError(
            f"Invalid regular expression pattern provided: {len(pattern):,} characters, "
            f"the limit is {LONGEST_PATTERN:,}."
        )
    flags = 0 if case_sensitive else regex.IGNORECASE
    try:
        line = regex.compile(pattern, flags)
    except regex.error as error:
        reason = str(error)
    except RecursionError:
        reason = "too deeply nested"
    except (ValueError, OverflowError) as error:
        reason = str(error)
    else:
        return LinePattern(line, _for_texts(pattern, flags))
    raise PatternError(
        f"Invalid regular expression pattern provided: {printable(pattern)}. Error: {reason}.",
        remedy="To search for the text as it is, escape its special characters with a backslash.",
    )


def _for_texts(pattern: str, flags: int) -> "Pattern[str] | None":
    import regex

    bounded = line_bounded(pattern)
    return None if bounded is None else regex.compile(bounded, flags | regex.MULTILINE)


class Deadline:
    """A time limit on the monotonic clock, or a stop signaled by `stopped`."""

    def __init__(self, seconds: float, stopped: Callable[[], bool]) -> None:
        self.seconds = seconds
        self._stopped = stopped
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Remaining seconds, at most `LINE_SECONDS`.

        Raises SearchTimeoutError when there are none, SearchError when it was stopped.
        """
        if self._stopped():
            raise SearchError("The search was cancelled.")
        left = self._end - time.monotonic()
        if left <= 0:
            raise SearchTimeoutError(
                f"Operation timed out after {self.seconds * 1000:.0f}ms. In large repositories, "
                "consider narrowing the search with path or include.",
                remedy="Simplify the pattern if it has nested repetitions.",
            )
        return min(left, LINE_SECONDS)


class LineMatcher:
    """Finds the matching lines of files; lines that also match `exclude` are dropped.

    Every matching line contains one of `literals`, ignoring case; () if unknown.
    """

    def __init__(
        self,
        pattern: LinePattern,
        exclude: LinePattern | None,
        literals: tuple[str, ...],
        deadline: Deadline,
    ) -> None:
        self._line = pattern.line
        self._text = pattern.text
        self._exclude = exclude.line if exclude else None
        self._deadline = deadline
        self._patience = LINE_SECONDS
        self._passed_over: list[int] = []
        self._literals = tuple(literal.encode() for literal in literals)
        pieces = longest_pieces(literals, FOLDED)
        self._pieces = tuple(piece.encode() for piece in pieces)
        self._wide_pieces = tuple(
            zeros.join(piece).encode() for piece in pieces for zeros in ("\0", "\0\0\0")
        )

    def matches(self, path: str, most: int) -> list[tuple[int, str]]:
        """Line numbers from 1 and text of up to `most` matching lines of a file.

        Finds nothing in binary files and files that are not regular. Does not follow symlinks.
        Raises OSError, SearchTimeoutError, SearchError when stopped. `passed_over` has the lines
        that were not searched.
        """
        self._deadline.left()
        descriptor = os.open(path, _OPEN)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return []
            start = first_bytes(descriptor, status.st_size)
            whole = len(start) == status.st_size
            if whole and self._lacks(start):
                return []
            codec = codec_of(start, whole=whole)
            if codec is None:
                return []
            return list(islice(self._lines(descriptor, start, codec), most))
        finally:
            os.close(descriptor)

    def _lines(self, descriptor: int, start: bytes, codec: Codec) -> Iterator[tuple[int, str]]:
        start = start.removeprefix(codec.bom)
        returns = line_end(start, codec) == "\r"
        if codec.encoding.startswith(_WIDE):
            pieces = _decoded(descriptor, start, codec.encoding)
            texts = (text.replace("\r", "\n") for text in pieces) if returns else pieces
            yield from self._wide(texts)
        else:
            blocks = _blocks(descriptor, start)
            feeds = (block.replace(b"\r", b"\n") for block in blocks) if returns else blocks
            yield from self._narrow(feeds, codec.encoding)

    def _lacks(self, block: bytes) -> bool:
        """True when these bytes, in any encoding, cannot contain a matching line, by required text
        alone.

        In UTF-16 and UTF-32 that text contains NUL bytes; elsewhere it has its ASCII bytes.
        """
        plain = block.isascii() and b"\x1b$" not in block
        literals = self._literals if plain else self._pieces
        if not literals:
            return False
        lowered = block.lower()
        if any(map(lowered.__contains__, literals)):
            return False
        if b"\0" not in block:
            return True
        return bool(self._wide_pieces) and not any(map(lowered.__contains__, self._wide_pieces))

    def _narrow(self, blocks: Iterator[bytes], encoding: str) -> Iterator[tuple[int, str]]:
        """Searches in an encoding where the line feed byte has no other meaning."""
        number = 1
        for block in _whole_lines(blocks):
            self._deadline.left()
            if not self._lacks(block):
                text = block.decode(encoding, "replace")
                yield from self.in_text(text, number)
            number += block.count(b"\n")

    def _wide(self, texts: Iterator[str]) -> Iterator[tuple[int, str]]:
        number, rest = 1, ""
        for piece in texts:
            text = rest + piece
            cut = text.rfind("\n") + 1
            rest = text[cut:][:LONGEST_LINE]
            yield from self.in_text(text[:cut], number)
            number += text.count("\n")
        yield from self.in_text(rest, number)

    def passed_over(self) -> list[int]:
        """The lines that took too long since the last call."""
        numbers, self._passed_over = self._passed_over, []
        return numbers

    def in_text(self, text: str, number: int) -> Iterator[tuple[int, str]]:
        """The matching lines of a text whose first line has this number."""
        if "\r" in text:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        for part, long in short_and_long(text):
            yield from self._each(part, number) if long else self._together(part, number)
            number += part.count("\n")

    def _together(self, text: str, number: int) -> Iterator[tuple[int, str]]:
        """Searches short lines all at once if possible."""
        at = 0
        try:
            while self._text is not None and at < len(text):
                seconds = min(self._deadline.left(), BLOCK_SECONDS, self._patience)
                found = self._text.search(text, at, timeout=seconds, concurrent=True)
                if found is None or (found.start() == len(text) and text.endswith("\n")):
                    return
                begin = text.rfind("\n", 0, found.start()) + 1
                end = text.find("\n", begin)
                number += text.count("\n", at, begin)
                line = text[begin:end] if end >= 0 else text[begin:]
                at = end + 1 if end >= 0 else len(text)
                if not self._excluded(number, line):
                    yield number, line
                number += 1
        except (TimeoutError, MemoryError):
            pass  # too expensive at once: line by line finds the culprit
        yield from self._each(text[at:], number)

    def _each(self, text: str, number: int) -> Iterator[tuple[int, str]]:
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        for line_number, line in enumerate(lines, start=number):
            if self._found(self._line, line_number, line) and not self._excluded(line_number, line):
                yield line_number, line

    def _excluded(self, number: int, line: str) -> bool:
        """True when the line is excluded, or may be: the time limit was too short to tell."""
        if self._exclude is None:
            return False
        return self._found(self._exclude, number, line) is not False

    def _found(self, pattern: "Pattern[str]", number: int, line: str) -> bool | None:
        """Matches a line; None when it takes too much time or memory."""
        try:
            return line_matches(pattern, line, min(self._deadline.left(), self._patience))
        except (TimeoutError, MemoryError):
            self._deadline.left()
            self._patience = max(self._patience / 2, LEAST_SECONDS)
            self._passed_over.append(number)
            return None


def open_for_search(path: str) -> int:
    """Opens a file without blocking and without following a symlink."""
    return os.open(path, _OPEN)


def first_bytes(descriptor: int, size: int) -> bytes:
    """The whole file, or its first block if it is larger than `WHOLE`; includes bytes added
    meanwhile. Raises OSError."""
    return os.read(descriptor, size + 1 if size <= WHOLE else _BLOCK)


def codec_of(start: bytes, *, whole: bool) -> Codec | None:
    """The encoding of a file from its start; None for a binary one. `whole`: the start is all of
    it."""
    sample = start[:SAMPLE_SIZE]
    if is_binary(sample):
        return None
    if b"\0" not in sample and start.isascii() and b"\x1b" not in start:
        return _UTF8
    return detect(start, whole=whole)


def line_end(start: bytes, codec: Codec) -> str:
    """The line ending of a file from its start: a carriage return if there are no line feeds, else
    a line feed."""
    if b"\r" not in start:
        return "\n"
    if codec.encoding.startswith(_WIDE):
        text = start.decode(codec.encoding, "replace")
        return "\r" if "\r" in text and "\n" not in text else "\n"
    return "\n" if b"\n" in start else "\r"


def _blocks(descriptor: int, start: bytes) -> Iterator[bytes]:
    """Yields the bytes already read, then the rest of the file."""
    data = start
    while data:
        yield data
        data = os.read(descriptor, _BLOCK)


def _decoded(descriptor: int, start: bytes, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield from map(decoder.decode, _blocks(descriptor, start))
    yield decoder.decode(b"", final=True)


def _whole_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Splits the file into blocks that end at line ends, except the last; truncates over-long
    lines."""
    rest = b""
    skipping = False
    for block in blocks:
        data = block
        if skipping:
            _, found, data = data.partition(b"\n")
            if not found:
                continue
            yield rest + b"\n"
            rest, skipping = b"", False
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        else:
            rest += data
        if len(rest) > LONGEST_LINE:
            rest, skipping = rest[:LONGEST_LINE], True
    if rest:
        yield rest
