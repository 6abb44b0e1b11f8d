"""Medium: those that programs give, the type that their bytes have, and problems for which services
refuse them."""

import binascii
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import ClassVar, Self, cast

from msgspec.structs import force_setattr, replace

from alhena.tools.reading import sniff_mime
from alhena.values import Value
from alhena.wire.content import Blob, FileData, Part

_CONVERTIBLE = frozenset({"image/heic", "image/heif", "image/avif"})
_PDF_END = 4096
"""Bytes at the end of a PDF that hold its end mark."""
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)
"""Sizes in the headers of audio that was streamed."""
_CUT = "it is cut short: its end is missing"


def find_media_problem(mime: str, data: bytes) -> str | None:
    """The reason why services refuse these data as media of type `mime`, None without one."""
    if mime in _CONVERTIBLE:
        return "models do not take this format; convert it to PNG or JPEG"
    if not data:
        return "it is empty"
    check = _WHOLE.get(mime)
    return None if check is None or check(data) else _CUT


def correct_blob(blob: Blob) -> Blob | str:
    """The medium with the type that its bytes have, or the reason why services refuse it. Text,
    and formats that bytes do not tell, keep the declared type."""
    kind = blob.mime_type.partition(";")[0].strip().lower()
    try:
        data = binascii.a2b_base64(blob.data)
    except (binascii.Error, ValueError):
        return "it is not valid base64"
    found = sniff_mime(data[:SAMPLE])
    if found is not None and not (kind.startswith("text/") and b"\0" not in data[:SAMPLE]):
        alike = found == kind or any(found in names and kind in names for names in _SYNONYMS)
        problem = find_media_problem(kind if alike else found, data)
        return problem or (blob if alike else replace(blob, mime_type=found))
    if not data or kind in _CONVERTIBLE:
        return find_media_problem(kind, data) or blob
    if kind in _RECOGNISED or (kind.startswith(_MEDIA) and _is_words(data)):
        start = data[:SHOWN].decode("utf-8", "replace")
        return f"it is no {kind} but begins with {start!r}"
    return blob


SAMPLE = 8192
SHOWN = 40
_MEDIA = ("image/", "audio/", "video/")
_RECOGNISED = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})
"""Types that are always told from the first bytes."""
_SYNONYMS = (
    frozenset({"audio/mpeg", "audio/mp3"}),
    frozenset({"audio/mp4", "audio/m4a", "audio/aac", "video/mp4", "video/mov", "video/quicktime"}),
    frozenset({"audio/ogg", "audio/opus", "video/ogg"}),
    frozenset({"video/webm", "audio/webm"}),
    frozenset({"video/mpeg", "video/mpg"}),
)


def _is_words(data: bytes) -> bool:
    """True for text, such as an error page in place of a medium."""
    try:
        sample = data[:SAMPLE].decode("utf-8", "ignore" if len(data) > SAMPLE else "strict")
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char.isspace() for char in sample)


def _is_whole_png(data: bytes) -> bool:
    at = 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4])
        if data[at + 4 : at + 8] == b"IEND":
            return end <= len(data)
        at = end
    return False


def _is_whole_jpeg(data: bytes) -> bool:
    """True where an end mark comes after the beginning of the last scan, not that of a preview."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xDA:
            return data.find(b"\xff\xd9", at) > 0
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4])
    return False


def _is_whole_gif(data: bytes) -> bool:
    at = 13 + _colour_table(data, 10)
    while at < len(data):
        if data[at] == 0x3B:
            return True
        if data[at] == 0x21:
            at += 2
        elif data[at] == 0x2C:
            at += 11 + _colour_table(data, at + 9)
        else:
            return False
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
    return False


def _colour_table(data: bytes, at: int) -> int:
    """The bytes of the table that a field of a GIF announces."""
    flags = data[at] if at < len(data) else 0
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _is_whole_riff(data: bytes) -> bool:
    size = int.from_bytes(data[4:8], "little")
    return size in _UNKNOWN_SIZES or size + 8 <= len(data) + 1


def _is_whole_pdf(data: bytes) -> bool:
    return b"%%EOF" in data[-_PDF_END:] and b"startxref" in data[-_PDF_END:]


def _is_whole_iso(data: bytes) -> bool:
    """True where all boxes of an MP4 file are there, that with the index among them."""
    at, names = 0, set[bytes]()
    while at + 8 <= len(data):
        size, head = int.from_bytes(data[at : at + 4]), 8
        if size == 1:
            size, head = int.from_bytes(data[at + 8 : at + 16]), 16
        names.add(data[at + 4 : at + 8])
        if size == 0:
            return bool(names & _INDEXES)
        if size < head or at + size > len(data):
            return False
        at += size
    return bool(names & _INDEXES)


_INDEXES = {b"moov", b"moof"}
_WHOLE: dict[str, Callable[[bytes], bool]] = {
    "image/png": _is_whole_png,
    "image/jpeg": _is_whole_jpeg,
    "image/gif": _is_whole_gif,
    "image/webp": _is_whole_riff,
    "audio/wav": _is_whole_riff,
    "application/pdf": _is_whole_pdf,
    "video/mp4": _is_whole_iso,
    "audio/mp4": _is_whole_iso,
    "video/quicktime": _is_whole_iso,
}


def left_out_note(mime: str, reason: str) -> str:
    """The words that a model gets in place of a medium."""
    return f"[Data of type {mime} was left out: {reason}.]"


def correct_parts(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], list[str]]:
    """The parts of a prompt, with words in place of media that services refuse; these words."""
    corrected = tuple(map(_correct_part, parts))
    pairs = zip(corrected, parts, strict=True)
    return corrected, [part.text for part, given in pairs if part is not given and part.text]


def _correct_part(part: Part) -> Part:
    if part.inline_data is None:
        return part
    blob = correct_blob(part.inline_data)
    if blob is part.inline_data:
        return part
    if isinstance(blob, str):
        return Part(text=left_out_note(part.inline_data.mime_type, blob))
    return replace(part, inline_data=blob)


class Medium(Value, frozen=True):
    """An image, document, audio or video: in a prompt, or as the result of a tool. It has its
    `data`, or a `url` from which the service reads it. `mime_type` is such as "image/png"; "" is
    told by the data, or by the name in the URL."""

    _kinds: ClassVar[tuple[str, ...]] = ()

    data: bytes = b""
    mime_type: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not isinstance(cast("object", self.data), bytes):
            raise TypeError(f"{name}.data has to be bytes, not {type(self.data).__name__}")
        super().__post_init__()
        if bool(self.url) == bool(self.data):
            raise TypeError(f"{name} has to have data or a url")
        mime = self.mime_type or _guess_mime(self.data, self.url)
        if not mime or not mime.startswith(self._kinds):
            kinds = " or ".join(f"{each}…" for each in self._kinds)
            what = f"not {mime!r}" if mime else "and cannot be told by its name or data"
            raise TypeError(f"{name}.mime_type has to be {kinds}, {what}")
        force_setattr(self, "mime_type", mime)

    def __repr__(self) -> str:
        where = self.url or f"{len(self.data)} bytes"
        return f"{type(self).__name__}({where}, {self.mime_type!r})"

    @classmethod
    def from_path(cls, path: str | PathLike[str], mime_type: str = "") -> Self:
        """The medium in a file. Raises OSError, and TypeError for one of another kind."""
        data = Path(path).read_bytes()
        if not data:
            raise TypeError(f"{cls.__name__}: the file {path} is empty")
        return cls(data, mime_type or _guess_mime(data, str(path)))

    @classmethod
    def from_url(cls, url: str, mime_type: str = "") -> Self:
        """The medium at a URL, which the service reads itself."""
        if not url.startswith(("https://", "http://", "gs://")):
            raise TypeError(f"{cls.__name__}: the url has to begin with https://, not {url!r:.80}")
        guessed = mime_type or _guess_mime(b"", url) or cls._usual()
        return cls(mime_type=guessed, url=url)

    @classmethod
    def _usual(cls) -> str:
        """The type of a URL whose name does not tell it."""
        return _USUAL[cls.__name__]

    @property
    def part(self) -> Part:
        """The medium as a part of a message."""
        if self.url:
            return Part(file_data=FileData(file_uri=self.url, mime_type=self.mime_type))
        text = binascii.b2a_base64(self.data, newline=False).decode("ascii")
        return Part(inline_data=Blob(mime_type=self.mime_type, data=text))


class Image(Medium, frozen=True):
    """An image: `Image(data, "image/png")`, `Image.from_path(…)`, `Image.from_url(…)`."""

    _kinds: ClassVar[tuple[str, ...]] = ("image/",)


class Document(Medium, frozen=True):
    """A document, such as a PDF: `Document.from_path("report.pdf")`."""

    _kinds: ClassVar[tuple[str, ...]] = ("application/", "text/")


class Audio(Medium, frozen=True):
    """A recording: `Audio.from_path("call.mp3")`."""

    _kinds: ClassVar[tuple[str, ...]] = ("audio/",)


class Video(Medium, frozen=True):
    """A video: `Video.from_path("tour.mp4")`, or `Video.from_url(…)`, also of YouTube."""

    _kinds: ClassVar[tuple[str, ...]] = ("video/",)


_USUAL = {
    "Image": "image/jpeg",
    "Document": "application/pdf",
    "Audio": "audio/mpeg",
    "Video": "video/mp4",
}


def _guess_mime(data: bytes, name: str) -> str:
    """The type that the data have, or else the name; "" if neither tells it."""
    found = sniff_mime(data[:SAMPLE]) if data else None
    if found is not None:
        return found
    import mimetypes

    return mimetypes.guess_type(name.partition("?")[0])[0] or ""
