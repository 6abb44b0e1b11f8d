"""The lines of a file that match a pattern: the one matcher behind every search backend.

Lines end at a line feed; a carriage return before it is no part of the line. Text is UTF-8 (stray
bytes become U+FFFD), or UTF-16 when a byte order mark says so. Files are read in blocks, so their
size does not matter; of a line longer than `LONGEST_LINE` bytes only the beginning is searched.
"""

import codecs
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.system.encoding import is_binary
from alhena.system.errors import PatternError, SearchError, SearchTimeoutError, printable
from alhena.system.files import open_regular
from alhena.system.search_literals import literal_source

if TYPE_CHECKING:
    from regex import Pattern

LONGEST_PATTERN = 2_000
LONGEST_LINE = 4_000_000
LINE_SECONDS = 2.0
_BLOCK = 1 << 20
_SNIFFED = 8_192
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


def compile_pattern(pattern: str) -> "Pattern[str]":
    """The pattern in the syntax of the `regex` module, case-insensitive. Raises PatternError."""
    import regex

    if len(pattern) > LONGEST_PATTERN:
        raise PatternError(
            f"Invalid regular expression pattern provided: {len(pattern):,} characters, "
            f"the limit is {LONGEST_PATTERN:,}."
        )
    try:
        return regex.compile(pattern, regex.IGNORECASE)
    except regex.error as error:
        reason = str(error)
    except RecursionError:
        reason = "too deeply nested"
    except (ValueError, OverflowError) as error:
        reason = str(error)
    raise PatternError(
        f"Invalid regular expression pattern provided: {printable(pattern)}. Error: {reason}.",
        remedy="To search for the text as it is, escape its special characters with a backslash.",
    )


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
                f"The search timed out after {self.seconds:g} s.",
                remedy="Narrow it with path or include, or use a simpler pattern.",
            )
        return min(left, LINE_SECONDS)


class LineMatcher:
    """Finds the matching lines of files; `exclude` takes lines back that match it, too."""

    def __init__(
        self,
        pattern: "Pattern[str]",
        exclude: "Pattern[str] | None",
        literals: tuple[str, ...],
        deadline: Deadline,
    ) -> None:
        import regex

        self._pattern = pattern
        self._exclude = exclude
        self._deadline = deadline
        source = literal_source(literals).encode()
        self._literals = tuple(literal.encode() for literal in literals)
        self._folded = regex.compile(source, regex.IGNORECASE) if literals else None

    def matches(self, path: Path) -> Iterator[tuple[int, str]]:
        """Line numbers from 1 and the lines. Nothing in a binary file.

        Raises FileError (also for what is no regular file), OSError, SearchTimeoutError.
        """
        descriptor = open_regular(path)
        try:
            start = os.read(descriptor, _BLOCK)
            encoding = _UTF16.get(start[:2])
            if encoding and not start.startswith(_UTF32):
                yield from self._wide(path, descriptor, start[2:], encoding)
            elif b"\0" not in start[:_SNIFFED] and not is_binary(start[:_SNIFFED]):
                yield from self._narrow(path, descriptor, start.removeprefix(codecs.BOM_UTF8))
        finally:
            os.close(descriptor)

    def _narrow(self, path: Path, descriptor: int, start: bytes) -> Iterator[tuple[int, str]]:
        number = 1
        for block in _whole_lines(descriptor, start, b"\n"):
            self._deadline.left()
            for line_number, line in self._candidates(block, number):
                text = line.decode("utf-8", "replace")
                if self._found(path, line_number, text):
                    yield line_number, text
            number += block.count(b"\n")

    def _wide(
        self, path: Path, descriptor: int, start: bytes, encoding: str
    ) -> Iterator[tuple[int, str]]:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        number, rest, data = 1, "", start
        while data:
            lines = (rest + decoder.decode(data)).split("\n")
            rest = lines.pop()
            for line in lines:
                text = line.removesuffix("\r")
                if self._found(path, number, text):
                    yield number, text
                number += 1
            rest = rest[:LONGEST_LINE]
            data = os.read(descriptor, _BLOCK)
        last = rest + decoder.decode(b"", final=True)
        if last and self._found(path, number, last):
            yield number, last

    def _candidates(self, block: bytes, number: int) -> Iterator[tuple[int, bytes]]:
        """The lines of a block that may match, with their numbers."""
        if self._folded is None:
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            for offset, line in enumerate(lines):
                yield number + offset, line.removesuffix(b"\r")
            return
        counted = 0
        for position in self._positions(block):
            if position < counted:
                continue
            begin = block.rfind(b"\n", 0, position) + 1
            end = block.find(b"\n", position)
            end = len(block) if end < 0 else end
            number += block.count(b"\n", counted, begin)
            yield number, block[begin:end].removesuffix(b"\r")
            number += 1
            counted = end + 1

    def _positions(self, block: bytes) -> Iterator[int]:
        """Where required text stands, ascending; with one literal and ASCII, much the faster."""
        if len(self._literals) == 1 and block.isascii():
            lowered, literal = block.lower(), self._literals[0]
            at = lowered.find(literal)
            while at >= 0:
                yield at
                at = lowered.find(literal, at + len(literal))
        elif self._folded is not None:
            for found in self._folded.finditer(block):
                yield found.start()

    def _found(self, path: Path, number: int, line: str) -> bool:
        seconds = self._deadline.left()
        try:
            if not self._pattern.search(line, timeout=seconds, concurrent=True):
                return False
            return not (
                self._exclude and self._exclude.search(line, timeout=seconds, concurrent=True)
            )
        except TimeoutError as error:
            self._deadline.left()
            raise SearchTimeoutError(
                f"The pattern takes more than {seconds:.2g} s on line {number:,} of "
                f"{printable(path)}: it tries too many ways to match.",
                remedy="Simplify nested or adjoining repetitions, such as (a+)+ or a*a*.",
            ) from error


def _whole_lines(descriptor: int, start: bytes, feed: bytes) -> Iterator[bytes]:
    """The file in blocks that end with a line, the last one excepted; over-long lines are cut."""
    rest, data = b"", start
    skipping = False
    while data:
        if skipping:
            _, found, data = data.partition(feed)
            if not found:
                data = os.read(descriptor, _BLOCK)
                continue
            yield rest + feed
            rest, skipping = b"", False
        cut = data.rfind(feed) + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        else:
            rest += data
        if len(rest) > LONGEST_LINE:
            rest, skipping = rest[:LONGEST_LINE], True
        data = os.read(descriptor, _BLOCK)
    if rest:
        yield rest
