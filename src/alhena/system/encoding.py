"""Decodes and encodes text files without loss, and reads ranges of lines of long files.

Order of detection: a byte order mark decides; UTF-16 without one is detected by its zero bytes;
then strict UTF-8 (ASCII with the escape sequences of ISO-2022-JP is that encoding). Other data is
decoded with the legacy encoding its characters suggest (see `legacy_text`), or as UTF-8 with stray
bytes kept as surrogates ("surrogateescape") if most of it is valid multi-byte characters, else as
Windows-1252 or Latin-1.

Invalid UTF-16 and UTF-32 is decoded with U+FFFD. Such a file cannot be restored from its text, so
it is not edited.
"""

import codecs
import os
import stat
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from enum import StrEnum
from io import StringIO, TextIOWrapper
from typing import assert_never

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
_UNWRITTEN = frozenset({"Cc", "Cn", "Co", "Cs"})
_FEWEST_CHARACTERS = 8
_C1 = bytes(range(0x80, 0xA0))


class LineEnding(StrEnum):
    """The line endings of a file; LF for a file without line endings."""

    LF = "lf"
    CRLF = "crlf"
    CR = "cr"
    MIXED = "mixed"


class Codec(msgspec.Struct, frozen=True):
    """The text encoding of a file: Python's codec name, its error handler, the BOM."""

    encoding: str = "utf-8"
    errors: str = "strict"
    bom: bytes = b""


class Damage(msgspec.Struct, frozen=True):
    """The first invalid byte of a file, counted from 0, and the reason."""

    offset: int
    reason: str


class TextFile(msgspec.Struct, frozen=True):
    """A decoded file. `raw` has the file's line endings, `text` has LF for all of them.

    A carriage return is a line ending before a line feed, and alone only in a file without line
    feeds. With `damage` the texts have U+FFFD for lost bytes.
    """

    raw: str
    text: str
    codec: Codec
    line_ending: LineEnding
    damage: Damage | None = None

    @property
    def newline(self) -> str:
        """The most frequent line ending."""
        match self.line_ending:
            case LineEnding.CRLF:
                return "\r\n"
            case LineEnding.CR:
                return "\r"
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
    wide = _wide_without_bom(data)
    if wide:
        return Codec(wide)
    if _decodes(data, "utf-8", whole=whole):
        return Codec(_seven_bit(data, whole=whole) or "utf-8") if b"\x1b" in data else Codec()
    from alhena.system.legacy_text import legacy_encoding

    characters, stray = _utf8_share(data)
    if characters <= 4 * stray:
        legacy = legacy_encoding(data)
        if legacy and _comes_back(data, legacy, whole=whole):
            return Codec(legacy)
    if 0 < characters >= stray:
        return Codec(errors="surrogateescape")
    if data.translate(None, _C1) != data and _decodes(data, "cp1252", whole=whole):
        return Codec("cp1252")
    return Codec("latin-1")


def _seven_bit(data: bytes, *, whole: bool) -> str | None:
    from alhena.system.legacy_text import seven_bit_encoding

    lines = data if whole else data[: data.rfind(b"\n") + 1] or data
    encoding = seven_bit_encoding(lines, whole=whole) if lines.isascii() else None
    return encoding if encoding and _comes_back(lines, encoding, whole=whole) else None


def decode_text(data: bytes) -> TextFile:
    """Decodes a whole file; never fails."""
    codec = detect(data)
    damage = None
    try:
        raw = data[len(codec.bom) :].decode(codec.encoding, codec.errors)
    except UnicodeDecodeError as error:
        damage = Damage(len(codec.bom) + error.start, error.reason)
        raw = data[len(codec.bom) :].decode(codec.encoding, "replace")
    ending = _line_ending(raw)
    match ending:
        case LineEnding.LF:
            text = raw
        case LineEnding.CR:
            text = raw.replace("\r", "\n")
        case LineEnding.CRLF | LineEnding.MIXED:
            text = raw.replace("\r\n", "\n")
        case _:
            assert_never(ending)
    return TextFile(raw, text, codec, ending, damage)


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
    if _wide_without_bom(sample):
        return False
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if b"\0" in sample or controls * 10 > len(sample) * 3:
        return True
    return controls * 100 > len(sample) and not _decodes(sample, "utf-8", whole=False)


def _line_ending(raw: str) -> LineEnding:
    if "\r" not in raw:
        return LineEnding.LF
    if "\n" not in raw:
        return LineEnding.CR
    crlf = raw.count("\r\n")
    if crlf == raw.count("\n"):
        return LineEnding.CRLF
    return LineEnding.MIXED if crlf else LineEnding.LF


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


def _comes_back(data: bytes, encoding: str, *, whole: bool) -> bool:
    """True when the bytes are valid in an encoding and encoding the text restores them."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(data, final=whole)
        written = text.encode(encoding)
    except UnicodeError:
        return False
    return written == data if whole else data.startswith(written)


def _wide_without_bom(data: bytes) -> str | None:
    """Detects UTF-16 by its zero bytes: ASCII has them in every second position only.

    The start of the data decides, as for `is_binary`.
    """
    sample = data[:SAMPLE_SIZE]
    if b"\0" not in sample:
        return None
    even, odd = sample[0::2], sample[1::2]
    for encoding, high, low in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        zeros, others = high.count(0), low.count(0)
        if zeros <= others:  # U+4E00, for example, has a zero byte in the other position
            continue
        latin = zeros * 2 > len(high) and not others and low.translate(None, _CONTROLS) == low
        if (latin or _is_script(sample, encoding)) and _decodes(sample, encoding, whole=False):
            return encoding
    return None


def _is_script(sample: bytes, encoding: str) -> bool:
    """True for text of lines or words with only printable characters."""
    from unicodedata import category

    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample[: len(sample) & ~1])
    except UnicodeDecodeError:
        return False
    if len(text) < _FEWEST_CHARACTERS or not ("\n" in text or " " in text):
        return False
    return not any(category(char) in _UNWRITTEN and char not in "\t\n\r\f" for char in text)


LINE_LENGTH = 2000
"""Maximum displayed characters of a line."""

_CUT = "... [truncated]"
_BLOCK = 1 << 20
_MOST = 4_000_000
"""Maximum characters of a window of a large file, whatever the limit."""

_REPLACEMENT = "\ufffd"


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

    The first block decides the encoding. Stops early when `cancellation` is set. Raises OSError.
    """
    block = os.read(descriptor, _BLOCK)
    codec = detect(block, whole=False)
    decoder = codecs.getincrementaldecoder(codec.encoding)("replace")
    text = decoder.decode(block[len(codec.bom) :])
    # The first block also decides if carriage returns end lines, as for files in memory.
    end = "\r" if "\r" in text and "\n" not in text else "\n"
    found = _Lines(offset, limit)
    while block and not cancellation.is_set():
        found.feed(text.replace(end, "\n"))
        block = os.read(descriptor, _BLOCK)
        text = decoder.decode(block)
    found.feed(decoder.decode(b"", final=True).replace(end, "\n"))
    return found.window(codec)


class _Lines:
    """Counts lines of text that arrives in pieces and keeps those in the window."""

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
            # Two characters more than displayed: one marks a long line, one may be a CR.
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


LONGEST_LINE = 1_000_000
"""Characters of a line that `lines_of` gives."""
WHOLE = 2 << 20
"""Maximum size of files whose encoding `lines_of` detects from all bytes."""

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW
_WIDE = ("utf-16", "utf-32")


def lines_of(
    path: str, lacks: Callable[[bytes | str], bool] = lambda _content: False
) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1, of at most `LONGEST_LINE` characters.

    None of a binary file, of one that is not regular, of a symlink, or when `lacks` is true of its
    content, as bytes if that is ASCII, else as text. Lines end at a line feed, and a carriage
    return before it is not part of them; in a file without line feeds they end at a carriage
    return. Raises OSError.
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
        codec = _codec(start, whole=whole)
        if codec is None:
            return
        end = _line_end(start.removeprefix(codec.bom), codec)
        source: StringIO | TextIOWrapper
        if whole:
            text = start[len(codec.bom) :].decode(codec.encoding, "replace")
            if not plain and lacks(text):
                return
            source = StringIO(text, newline=end)
        else:
            file.seek(len(codec.bom))
            source = TextIOWrapper(file, encoding=codec.encoding, errors="replace", newline=end)
        number = 1
        while line := source.readline(LONGEST_LINE):
            yield number, line.removesuffix("\n").removesuffix("\r")
            while line and not line.endswith(end):
                line = source.readline(LONGEST_LINE)
            number += 1


def _codec(start: bytes, *, whole: bool) -> Codec | None:
    """The encoding of a file from its start; None for a binary one."""
    sample = start[:SAMPLE_SIZE]
    if is_binary(sample):
        return None
    if b"\0" not in sample and start.isascii() and b"\x1b" not in start:
        return Codec()
    return detect(start, whole=whole)


def _line_end(start: bytes, codec: Codec) -> str:
    """The line ending of a file from its start: a carriage return if there are no line feeds."""
    if b"\r" not in start:
        return "\n"
    if codec.encoding.startswith(_WIDE):
        text = start.decode(codec.encoding, "replace")
        return "\r" if "\r" in text and "\n" not in text else "\n"
    return "\n" if b"\n" in start else "\r"
