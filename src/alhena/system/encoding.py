"""Decodes and encodes text files without loss, and reads ranges of their lines.

Order of detection: a byte order mark, then strict UTF-8. Other data is decoded as UTF-8 with stray
bytes kept as surrogates ("surrogateescape") if most of it is valid multi-byte characters, else as
Windows-1252 or Latin-1.

Invalid UTF-16 and UTF-32 is decoded with U+FFFD. Such a file cannot be restored from its text, so
it is not edited.
"""

import codecs
import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterator
from enum import StrEnum
from io import StringIO, TextIOWrapper
from typing import BinaryIO, assert_never

import msgspec

SAMPLE_SIZE = 8192
"""Bytes from the start of a file that suffice for `is_binary` and `sniff_mime`."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_TEXT_CONTROLS = b"\t\n\r\f\b\x1b"
_CONTROLS = bytes(code for code in range(32) if code not in _TEXT_CONTROLS) + b"\x7f"
_C1 = bytes(range(0x80, 0xA0))


class LineEnding(StrEnum):
    """The line endings of a file; LF for a file without line endings."""

    LF = "lf"
    CRLF = "crlf"
    MIXED = "mixed"


class Codec(msgspec.Struct, frozen=True):
    """The text encoding of a file: Python's codec name, its error handler, the BOM."""

    encoding: str = "utf-8"
    errors: str = "strict"
    bom: bytes = b""


class TextFile(msgspec.Struct, frozen=True):
    """A decoded file. `raw` has the file's line endings, `text` has LF for all of them.

    A carriage return counts before a line feed only. Of a `damaged` file the texts have U+FFFD for
    lost bytes.
    """

    raw: str
    text: str
    codec: Codec
    line_ending: LineEnding
    damaged: bool = False

    @property
    def newline(self) -> str:
        """The most frequent line ending."""
        match self.line_ending:
            case LineEnding.CRLF:
                return "\r\n"
            case LineEnding.MIXED:
                crlf = self.raw.count("\r\n")
                return "\r\n" if 2 * crlf > self.raw.count("\n") else "\n"
            case LineEnding.LF:
                return "\n"
            case _:
                assert_never(self.line_ending)

    @property
    def shown(self) -> str:
        """`text` as valid Unicode: stray bytes become U+FFFD."""
        return self.text if self.codec.errors == "strict" else safe_text(self.text)

    @property
    def final_newline(self) -> bool:
        """True when the last line has a line ending."""
        return self.text.endswith("\n")

    def spans(self, edits: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Converts ordered ranges of `text` to ranges of `raw`."""
        if "\r\n" not in self.raw:
            return edits
        ends: list[int] = []
        at = self.raw.find("\r\n")
        while at >= 0:
            ends.append(at - len(ends))
            at = self.raw.find("\r\n", at + 2)
        return [(a + bisect_left(ends, a), b + bisect_left(ends, b)) for a, b in edits]


def detect(data: bytes, *, whole: bool = True) -> Codec:
    """Detects the encoding of `data`. Without `whole` it is the start of a longer file."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            loose = encoding == "utf-8" and not _decodes(data, encoding, whole=whole)
            return Codec(encoding, "surrogateescape" if loose else "strict", bom)
    if _decodes(data, "utf-8", whole=whole):
        return Codec()
    characters, stray = _utf8_share(data)
    if 0 < characters >= stray:
        return Codec(errors="surrogateescape")
    if data.translate(None, _C1) != data and _decodes(data, "cp1252", whole=whole):
        return Codec("cp1252")
    return Codec("latin-1")


def decode_text(data: bytes) -> TextFile:
    """Decodes a whole file; never fails."""
    codec = detect(data)
    damaged = False
    try:
        raw = data[len(codec.bom) :].decode(codec.encoding, codec.errors)
    except UnicodeDecodeError:
        damaged = True
        raw = data[len(codec.bom) :].decode(codec.encoding, "replace")
    return TextFile(raw, raw.replace("\r\n", "\n"), codec, _line_ending(raw), damaged)


def safe_text(text: str) -> str:
    """`text` with U+FFFD for stray bytes, which are kept as surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def encode_text(raw: str, codec: Codec) -> bytes:
    """Encodes the text of a file. Raises UnicodeEncodeError."""
    return codec.bom + raw.encode(codec.encoding, codec.errors)


def unencodable(text: str, codec: Codec) -> str | None:
    """The first character of new text that the encoding lacks; None if there is none."""
    try:
        text.encode(codec.encoding)
    except UnicodeEncodeError as error:
        return text[error.start]
    return None


def is_binary(sample: bytes) -> bool:
    """True when the start of a file is not text in a known encoding."""
    if not sample or sample.startswith(tuple(bom for bom, _ in _BOMS)):
        return False
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if b"\0" in sample or controls * 10 > len(sample) * 3:
        return True
    return controls * 100 > len(sample) and not _decodes(sample, "utf-8", whole=False)


def _line_ending(raw: str) -> LineEnding:
    crlf = raw.count("\r\n")
    if not crlf:
        return LineEnding.LF
    return LineEnding.CRLF if crlf == raw.count("\n") else LineEnding.MIXED


def _decodes(data: bytes, encoding: str, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _utf8_share(data: bytes) -> tuple[int, int]:
    """The numbers of multi-byte characters and of bytes outside them."""
    valid = data.decode("utf-8", "ignore")
    return len(valid) - len(valid.encode("ascii", "ignore")), len(data) - len(valid.encode("utf-8"))


LINE_LENGTH = 2000
"""Maximum displayed characters of a line."""

_CUT = "... [truncated]"
_BLOCK = 1 << 20


class TextWindow(msgspec.Struct, frozen=True, kw_only=True):
    """Lines from index `first` (0-based), without line endings, of `total`.

    `long_lines` of them were truncated at LINE_LENGTH characters; `replaced` is True if invalid
    bytes became U+FFFD.
    """

    lines: list[str]
    first: int
    total: int
    long_lines: int
    final_newline: bool
    encoding: str
    replaced: bool

    def beginning(self, count: int) -> "TextWindow":
        """The window of the first `count` of these lines."""
        if count >= len(self.lines):
            return self
        lines = self.lines[:count]
        long_lines = sum(len(line) > LINE_LENGTH for line in lines)
        return msgspec.structs.replace(self, lines=lines, long_lines=long_lines)

    def content(self) -> str:
        """The lines with LF endings; the file's last line keeps its lack of one."""
        text = "\n".join(self.lines)
        at_end = self.first + len(self.lines) == self.total
        return f"{text}\n" if self.lines and at_end and self.final_newline else text


def window_of_bytes(data: bytes, offset: int, limit: int) -> TextWindow:
    """The window of a file in memory."""
    file = decode_text(data)
    text = file.shown
    total = text.count("\n") + bool(text and not file.final_newline)
    shown = text.split("\n", offset + limit)[offset : min(offset + limit, total)]
    cut = len([line for line in shown if len(line) > LINE_LENGTH])
    return TextWindow(
        lines=[_shorten_line(line) for line in shown] if cut else shown,
        first=offset,
        total=total,
        long_lines=cut,
        final_newline=file.final_newline,
        encoding=file.codec.encoding,
        replaced=file.codec.errors == "surrogateescape" or file.damaged,
    )


def _shorten_line(line: str) -> str:
    return line if len(line) <= LINE_LENGTH else line[:LINE_LENGTH] + _CUT


LONGEST_LINE = 20_000_000
"""Characters of a line that `lines_of` gives."""
WHOLE = 2 << 20
"""Maximum size of files whose encoding `lines_of` detects from all bytes."""

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW


def lines_of(
    path: str,
    lacks: Callable[[bytes | str], bool] = lambda _content: False,
    cut: Callable[[int], None] = lambda _number: None,
    binary: Callable[[bytes, BinaryIO], None] = lambda _start, _rest: None,
) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1, of at most `LONGEST_LINE` characters. `cut`
    gets the number of a longer one, `binary` the beginning of a binary file and the file behind it.

    None of a binary file, of one that is not regular, of a symlink, or when `lacks` is true of its
    content, as bytes if that is ASCII, else as text. Lines end at a line feed; a carriage return
    before it is not part of them. Raises OSError.
    """
    descriptor = os.open(path, _OPEN)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        start = file.read(status.st_size + 1 if status.st_size <= WHOLE else _BLOCK)
        whole = len(start) == status.st_size
        plain = start.isascii() and b"\0" not in start
        if whole and plain and lacks(start):
            return
        if is_binary(start[:SAMPLE_SIZE]):
            binary(start, file)
            return
        codec = Codec() if plain else detect(start, whole=whole)
        source: StringIO | TextIOWrapper
        if whole:
            text = start[len(codec.bom) :].decode(codec.encoding, "replace")
            if not plain and lacks(text):
                return
            source = StringIO(text, newline="\n")
        else:
            file.seek(len(codec.bom))
            source = TextIOWrapper(file, encoding=codec.encoding, errors="replace", newline="\n")
        number = 1
        while line := source.readline(LONGEST_LINE):
            yield number, line.removesuffix("\n").removesuffix("\r")
            if len(line) == LONGEST_LINE and not line.endswith("\n"):
                if line := source.readline(LONGEST_LINE):
                    cut(number)
                while line and not line.endswith("\n"):
                    line = source.readline(LONGEST_LINE)
            number += 1
