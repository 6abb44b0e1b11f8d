"""Some lines of a text file, in memory that does not depend on the file's size."""

import codecs
import os
import threading

import msgspec

from alhena.system.encoding import Codec, decode_text, detect

LINE_LENGTH = 2000
"""Characters of a line that are shown."""

_CUT = "... [truncated]"
_BLOCK = 1 << 20
_MOST = 4_000_000
"""Characters after which a window of a large file ends, whatever limit was asked for."""

_REPLACEMENT = "\ufffd"


class TextWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Lines `first` (from 0) and following, without line ends, of `total`.

    `long_lines` of them were cut at LINE_LENGTH characters; `replaced` says that bytes which are
    no text became U+FFFD.
    """

    lines: list[str]
    first: int
    total: int
    long_lines: int
    final_newline: bool
    encoding: str
    replaced: bool

    def beginning(self, count: int) -> "TextWindow":
        """The window of the first so many of these lines."""
        if count >= len(self.lines):
            return self
        lines = self.lines[:count]
        long_lines = sum(len(line) > LINE_LENGTH for line in lines)
        return msgspec.structs.replace(self, lines=lines, long_lines=long_lines)

    def content(self) -> str:
        """The lines with LF ends; the last has one when the file's has and it is shown."""
        text = "\n".join(self.lines)
        at_end = self.first + len(self.lines) == self.total
        return f"{text}\n" if self.lines and at_end and self.final_newline else text


def window_of_bytes(data: bytes, offset: int, limit: int) -> TextWindow:
    """The window of a file that is in memory."""
    file = decode_text(data)
    text = file.shown
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    shown = lines[offset : offset + limit]
    cut = 0
    if len(text) > LINE_LENGTH and max(map(len, shown), default=0) > LINE_LENGTH:
        cut = sum(len(line) > LINE_LENGTH for line in shown)
    return TextWindow(
        lines=[_shortened(line) for line in shown] if cut else shown,
        first=offset,
        total=len(lines),
        long_lines=cut,
        final_newline=file.final_newline,
        encoding=file.codec.encoding,
        replaced=file.codec.errors == "surrogateescape" or file.damage is not None,
    )


def _shortened(line: str) -> str:
    return line if len(line) <= LINE_LENGTH else line[:LINE_LENGTH] + _CUT


def window_of_file(
    descriptor: int, offset: int, limit: int, cancellation: threading.Event
) -> TextWindow:
    """The window of a file of any size, read block by block from the descriptor's position.

    The encoding is told by the first block. Ends early when `cancellation` is set. Raises OSError.
    """
    block = os.read(descriptor, _BLOCK)
    codec = detect(block, whole=False)
    decoder = codecs.getincrementaldecoder(codec.encoding)("replace")
    text = decoder.decode(block[len(codec.bom) :])
    # The first block also tells whether carriage returns end the lines, as in a file in memory.
    end = "\r" if "\r" in text and "\n" not in text else "\n"
    found = _Lines(offset, limit)
    while block and not cancellation.is_set():
        found.feed(text.replace(end, "\n"))
        block = os.read(descriptor, _BLOCK)
        text = decoder.decode(block)
    found.feed(decoder.decode(b"", final=True).replace(end, "\n"))
    return found.window(codec)


class _Lines:
    """Counts the lines of text that comes in pieces, keeping those of the window."""

    def __init__(self, offset: int, limit: int) -> None:
        self._offset = offset
        self._stop = offset + limit
        self._line = 0
        self._kept: list[str] = []
        self._current = ""
        self._open = False
        self._replaced = False
        self._size = 0

    def feed(self, text: str) -> None:
        if not text:
            return
        at = self._skip(text)
        while at < len(text) and self._offset <= self._line < self._stop:
            end = text.find("\n", at)
            piece = text[at : end if end >= 0 else len(text)]
            # Two characters more than are shown: one tells that it is long, one may be a CR.
            self._current += piece[: LINE_LENGTH + 2 - len(self._current)]
            if end < 0:
                at = len(text)
            else:
                self._close_line()
                at = end + 1
        self._line += text.count("\n", at)
        self._open = not text.endswith("\n")

    def _skip(self, text: str) -> int:
        missing = self._offset - self._line
        if missing <= 0:
            return 0
        count = text.count("\n")
        if count < missing:
            self._line += count
            return len(text)
        at = 0
        for _ in range(missing):
            at = text.index("\n", at) + 1
        self._line = self._offset
        return at

    def _close_line(self) -> None:
        line = self._current.removesuffix("\r")
        self._replaced = self._replaced or _REPLACEMENT in line
        self._kept.append(line)
        self._current = ""
        self._line += 1
        self._size += len(line)
        if self._size > _MOST:
            self._stop = self._line

    def window(self, codec: Codec) -> TextWindow:
        final_newline = not self._open
        if self._open:
            if self._offset <= self._line < self._stop:
                self._close_line()
            else:
                self._line += 1
        return TextWindow(
            lines=[_shortened(line) for line in self._kept],
            first=self._offset,
            total=self._line,
            long_lines=sum(len(line) > LINE_LENGTH for line in self._kept),
            final_newline=final_newline,
            encoding=codec.encoding,
            replaced=self._replaced,
        )
