"""The lines of a file that match a pattern, long ones in pieces.

Looking through a whole block at once is fast; looking at each line by itself is what a search
means. The two agree when nothing in the pattern can match a line feed, which is what the rewriting
ensures. A pattern that holds anything not followed here is not rewritten, and goes line by line.

Lines end at a line feed; a carriage return before it is no part of the line. In a file without line
feeds (its first block tells of a large one) they end at a carriage return. The encoding is the
one that `encoding.detect` tells, as for reading: by all bytes of a file up to `WHOLE`, by the first
block of a larger one. Those are read in blocks, so their size does not matter; of a line longer
than `LONGEST_LINE` bytes only the beginning is searched.
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


PIECE = 100_000
"""Characters of a line that are looked through at once."""

OVERLAP = 20_000
"""Characters that a piece has in common with the next one: longer matches may be missed."""

_BEYOND = "\n\n"
"""What stands behind a piece when it is judged by itself: nothing that `$` or `\\Z` take for the
end, nor `.` for a character."""


def line_matches(pattern: "Pattern[str]", line: str, seconds: float) -> bool:
    """True when the pattern matches somewhere in the line. Raises TimeoutError, MemoryError."""
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
        # It reaches the end of the piece, which may have been taken for that of the line.
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
    """The text cut at line ends: runs of lines, and each line longer than a piece by itself.

    The second tells which it is.
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
"""What a line has when many before it have taken all the time there was for them."""
WHOLE = 2 << 20
"""Bytes up to which the encoding of a file is told by all of it."""

_BLOCK = 1 << 20
_UTF8 = Codec()
_WIDE = ("utf-16", "utf-32")
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW


class LinePattern(msgspec.Struct, frozen=True):
    """What a line has to match: by itself, and if there is such a form within a text of lines."""

    line: "Pattern[str]"
    text: "Pattern[str] | None"


def compile_pattern(pattern: str, *, case_sensitive: bool = False) -> LinePattern:
    """The pattern in the syntax of the `regex` module. Raises PatternError."""
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
    """When to stop: at a moment of the monotonic clock, or when `stopped` says so."""

    def __init__(self, seconds: float, stopped: Callable[[], bool]) -> None:
        self.seconds = seconds
        self._stopped = stopped
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left, at most `LINE_SECONDS`.

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
    """Finds the matching lines of files; `exclude` takes lines back that match it, too.

    Every matching line has one of `literals`, in any case; () when that is not known.
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
        """Line numbers from 1 and the lines of a file that is no symlink, at most so many.

        Nothing in a binary file, nor in what is no regular file. Raises OSError,
        SearchTimeoutError, SearchError when stopped. `passed_over` has the lines that were not
        searched.
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
        """True when these bytes, in any encoding, can hold no matching line, by required text
        alone.

        In UTF-16 and UTF-32 that text has NUL bytes; elsewhere its bytes are those of ASCII.
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
        """In an encoding in which the byte of a line feed is nothing else."""
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
        """The lines that took too long, of what was searched since this was asked last."""
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
        """In lines that are none of them long, all at once as far as that goes."""
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
            pass  # too much for one go: line by line it shows which line it is
        yield from self._each(text[at:], number)

    def _each(self, text: str, number: int) -> Iterator[tuple[int, str]]:
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        for line_number, line in enumerate(lines, start=number):
            if self._found(self._line, line_number, line) and not self._excluded(line_number, line):
                yield line_number, line

    def _excluded(self, number: int, line: str) -> bool:
        """True when the line is taken back, or may be: the time was too short to tell."""
        if self._exclude is None:
            return False
        return self._found(self._exclude, number, line) is not False

    def _found(self, pattern: "Pattern[str]", number: int, line: str) -> bool | None:
        """None when it takes too long, or too much memory, to tell."""
        try:
            return line_matches(pattern, line, min(self._deadline.left(), self._patience))
        except (TimeoutError, MemoryError):
            self._deadline.left()
            self._patience = max(self._patience / 2, LEAST_SECONDS)
            self._passed_over.append(number)
            return None


def open_for_search(path: str) -> int:
    """A descriptor that neither blocks nor follows a symlink, whatever stands there by now."""
    return os.open(path, _OPEN)


def first_bytes(descriptor: int, size: int) -> bytes:
    """All of a file of this size, or a block of it when that is more than `WHOLE`; with what has
    been added meanwhile. Raises OSError."""
    return os.read(descriptor, size + 1 if size <= WHOLE else _BLOCK)


def codec_of(start: bytes, *, whole: bool) -> Codec | None:
    """How a file that begins so is text; None for a binary one. With `whole` there is no more."""
    sample = start[:SAMPLE_SIZE]
    if is_binary(sample):
        return None
    if b"\0" not in sample and start.isascii() and b"\x1b" not in start:
        return _UTF8
    return detect(start, whole=whole)


def line_end(start: bytes, codec: Codec) -> str:
    """What ends the lines of a file that begins so: a carriage return where there are only those,
    else a line feed."""
    if b"\r" not in start:
        return "\n"
    if codec.encoding.startswith(_WIDE):
        text = start.decode(codec.encoding, "replace")
        return "\r" if "\r" in text and "\n" not in text else "\n"
    return "\n" if b"\n" in start else "\r"


def _blocks(descriptor: int, start: bytes) -> Iterator[bytes]:
    """What was read of the file, then the rest of it."""
    data = start
    while data:
        yield data
        data = os.read(descriptor, _BLOCK)


def _decoded(descriptor: int, start: bytes, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield from map(decoder.decode, _blocks(descriptor, start))
    yield decoder.decode(b"", final=True)


def _whole_lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The file in blocks that end with a line, the last one excepted; over-long lines are cut."""
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
