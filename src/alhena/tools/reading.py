"""What the bytes of an open file come to: a window of text, media, or nothing to be shown."""

import os
import threading

import msgspec

from alhena.system.encoding import (
    SAMPLE_SIZE,
    TextWindow,
    is_binary,
    window_of_bytes,
    window_of_file,
)
from alhena.system.errors import FileTooLargeError
from alhena.system.files import read_bytes
from alhena.system.media import sniff_mime
from alhena.wire.content import Blob, Part

FILE_LIMIT = 20 * 1024 * 1024
"""Bytes of the largest file that is read."""

SMALL_FILE = 256 * 1024
"""Bytes up to which a file is read at once: a thread would cost more than the read."""

MOST_LINES = 2000
"""Lines that are read when nobody says how many."""

_STREAMED = 2 * 1024 * 1024


class Media(msgspec.Struct, frozen=True):
    """A media file as it is, with its type."""

    mime: str
    data: bytes

    def part(self) -> Part:
        """The file as inline data."""
        from binascii import b2a_base64

        data = b2a_base64(self.data, newline=False).decode("ascii")
        return Part(inline_data=Blob(mime_type=self.mime, data=data))


class UnwantedMedia(msgspec.Struct, frozen=True):
    """A media file that was not asked for; only its beginning was read."""

    mime: str


class Binary(msgspec.Struct, frozen=True):
    """A file that is neither text nor media a model can take."""


FileContent = TextWindow | Media | UnwantedMedia | Binary


class Lines(msgspec.Struct, frozen=True):
    """Which lines of a text are wanted: from which (counted from 0), and how many at most."""

    offset: int = 0
    limit: int = MOST_LINES


def read_content(
    descriptor: int,
    name: str,
    lines: Lines,
    cancellation: threading.Event,
    *,
    media: bool = True,
) -> FileContent:
    """The content of the regular file that `descriptor` stands at the beginning of.

    What it is shows in its first bytes; `name` only tells audio from video in shared containers.
    Raises FileTooLargeError for a file over FILE_LIMIT, whatever it is, and OSError.
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
        return Binary()
    if size > _STREAMED or len(data) > SMALL_FILE:
        os.lseek(descriptor, 0, os.SEEK_SET)
        return window_of_file(descriptor, lines.offset, lines.limit, cancellation)
    if size > SMALL_FILE:
        data += read_bytes(descriptor, _STREAMED)
    return window_of_bytes(data, lines.offset, lines.limit)


def _whole(descriptor: int, start: bytes, size: int) -> bytes:
    data = start
    if len(data) < size:
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
    """What to know about a text that is no valid Unicode; "" for one that is."""
    if window.replaced:
        name = window.encoding.upper().removesuffix("-LE").removesuffix("-BE")
        return f"NOTE: The file is not valid {name}; bytes that are no text are shown as \ufffd."
    if not window.encoding.startswith("utf-"):
        return f"NOTE: The file is not valid UTF-8; it is shown as {window.encoding}."
    return ""
