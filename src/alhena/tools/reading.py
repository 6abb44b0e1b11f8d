"""Reads an open file for a model: a range of text lines, or media detected by their first bytes."""

import os

import msgspec

from alhena.system.encoding import (
    SAMPLE_SIZE,
    TextWindow,
    is_binary,
    window_of_bytes,
)
from alhena.system.errors import FileTooLargeError
from alhena.system.files import read_bytes
from alhena.wire.content import Blob, Part

_PREFIXES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"fLaC", "audio/flac"),
    (b"\x00\x00\x01\xba", "video/mpeg"),
    (b"\x00\x00\x01\xb3", "video/mpeg"),
    (b"FLV\x01", "video/x-flv"),
)
_CONTAINERS = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"RIFF", b"AVI "): "video/avi",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
_BRANDS = {
    b"qt  ": "video/quicktime",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"avif": "image/avif",
}
_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")


def sniff_mime(sample: bytes, name: str = "") -> str | None:
    """Detects the media type of a file from its first bytes; None for text and anything else.

    `name` only distinguishes audio from video in shared containers. SVG counts as text.
    """
    for prefix, mime in _PREFIXES:
        if sample.startswith(prefix):
            return mime
    container = _CONTAINERS.get((sample[:4], sample[8:12]))
    if container:
        return container
    if sample[4:8] == b"ftyp":
        return _iso_media(sample[8:12], name)
    if sample.startswith(b"OggS"):
        return "video/ogg" if name.lower().endswith(".ogv") else "audio/ogg"
    if sample.startswith(b"\x1aE\xdf\xa3"):
        return "video/webm" if b"webm" in sample[:64] else None
    if sample.startswith(_ASF):
        return "video/wmv" if name.lower().endswith((".wmv", ".asf")) else None
    return _mpeg_audio(sample)


def _iso_media(brand: bytes, name: str) -> str:
    if brand.startswith(b"3g"):
        return "video/3gpp"
    plain = "audio/mp4" if name.lower().endswith((".m4a", ".m4b")) else "video/mp4"
    return _BRANDS.get(brand, plain)


def _mpeg_audio(sample: bytes) -> str | None:
    if sample.startswith(b"ID3") and len(sample) > 10 and sample[3] < 0x10 and sample[4] < 0x10:
        return "audio/mp3"
    if len(sample) < 4 or sample[0] != 0xFF:
        return None
    if sample[1] in (0xF1, 0xF9) and sample[2] >> 2 & 0xF < 13:
        return "audio/aac"
    layer_three = sample[1] in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)
    plausible = sample[2] >> 4 not in (0x0, 0xF) and sample[2] >> 2 & 3 != 3
    return "audio/mp3" if layer_three and plausible else None


FILE_LIMIT = 20 * 1024 * 1024
"""Maximum bytes of a file."""

SMALL_FILE = 256 * 1024
"""Maximum bytes read directly: a thread would cost more than the read."""

MOST_LINES = 2000
"""Default number of lines."""


class Media(msgspec.Struct, frozen=True):
    """A media file with its type."""

    mime: str
    data: bytes

    def part(self) -> Part:
        """The file as inline data."""
        from binascii import b2a_base64

        data = b2a_base64(self.data, newline=False).decode("ascii")
        return Part(inline_data=Blob(mime_type=self.mime, data=data))


class UnwantedMedia(msgspec.Struct, frozen=True):
    """A media file that was not requested; only its beginning was read."""

    mime: str


class BinaryFile(msgspec.Struct, frozen=True):
    """A file that is neither text nor a supported media type."""


FileContent = TextWindow | Media | UnwantedMedia | BinaryFile


class LineRange(msgspec.Struct, frozen=True):
    """A range of lines: the first one (counted from 0) and the maximum number."""

    offset: int = 0
    limit: int = MOST_LINES


def read_content(
    descriptor: int,
    name: str,
    lines: LineRange,
    *,
    media: bool = True,
) -> FileContent:
    """Reads the regular file of `descriptor` from its start.

    The first bytes decide its type; `name` only distinguishes audio from video in shared
    containers. Raises FileTooLargeError for a file over FILE_LIMIT, whatever its type, and OSError.
    """
    size = os.fstat(descriptor).st_size
    _require_small(size)
    data = read_bytes(descriptor, SMALL_FILE + 1 if size <= SMALL_FILE else SAMPLE_SIZE)
    sample = data[:SAMPLE_SIZE]
    mime = sniff_mime(sample, name)
    if mime is not None:
        if not media:
            return UnwantedMedia(mime)
        return Media(mime, _whole(descriptor, data, size))
    if is_binary(sample):
        return BinaryFile()
    return window_of_bytes(_whole(descriptor, data, size), lines.offset, lines.limit)


def _whole(descriptor: int, start: bytes, size: int) -> bytes:
    data = start
    if len(data) < size or len(data) > SMALL_FILE:
        data += read_bytes(descriptor, FILE_LIMIT + 1 - len(data))
        _require_small(len(data))
    return data


def _require_small(size: int) -> None:
    if size > FILE_LIMIT:
        raise FileTooLargeError(
            f"File size exceeds the 20MB limit: it has {size} bytes.",
            remedy="Look into it with search_file_content or run_shell_command.",
        )


def encoding_note(window: TextWindow) -> str:
    """A note on the encoding of a text that is not valid Unicode; "" for valid text."""
    if window.replaced:
        name = window.encoding.upper().removesuffix("-LE").removesuffix("-BE")
        return f"NOTE: The file is not valid {name}; bytes that are no text are shown as \ufffd."
    if not window.encoding.startswith("utf-"):
        return f"NOTE: The file is not valid UTF-8; it is shown as {window.encoding}."
    return ""
