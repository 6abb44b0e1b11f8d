"""Small whole files of media, as services take them."""

import base64
import struct
import zlib


def png(filler: bytes = b"") -> bytes:
    """A PNG image of one pixel, with these bytes in a chunk that is not drawn."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    pixel = _chunk(b"IDAT", zlib.compress(b"\0\0"))
    note = _chunk(b"prVt", filler) if filler else b""
    return b"\x89PNG\r\n\x1a\n" + header + note + pixel + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def pdf(filler: bytes = b"") -> bytes:
    """The beginning and the end of a PDF."""
    return b"%PDF-1.7\n" + filler + b"\nstartxref\n0\n%%EOF\n"


def mp4(brand: bytes = b"isom") -> bytes:
    """The boxes of a film without frames."""
    return b"\0\0\0\x10ftyp" + brand + bytes(4) + b"\0\0\0\x08moov" + b"\0\0\0\x08mdat"


JPEG = b"\xff\xd8\xff\xe0\0\x04\0\0\xff\xda\0\x04\0\0scan\xff\xd9"
GIF = b"GIF89a" + bytes(7) + b"\x2c" + bytes(9) + b"\x02\x01\0\0;"
PNG_TEXT = base64.b64encode(png()).decode()
JPEG_TEXT = base64.b64encode(JPEG).decode()
