"""Token counts without asking anybody: of texts, of media by their first bytes, and of a whole
conversation.

The weights: a quarter of a token for an ASCII character, TOKENS_LETTER for one of another alphabet,
TOKENS_WIDE for any other one, whatever the length of the text; media as `media_tokens` has them.
What is known is better than an estimate: see `gauge`.

As the Gemini API documents it: an image of at most 384 pixels each way 258 tokens, a larger one
258 for each of its tiles; a page of a PDF 258; a second of sound 32, of video 263. Where the size
is not to be seen, the fallbacks below count.
"""

import re
import struct
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from math import ceil
from typing import Any

import msgspec

from alhena.wire.content import (
    Blob,
    Content,
    FileData,
    FunctionResponse,
    Part,
    VideoMetadata,
    encode_value,
)
from alhena.wire.errors import EncodeError
from alhena.wire.request import GenerateContentConfig

TILE = 258
PAGE = 258
SOUND_SECOND = 32
VIDEO_SECOND = 263

IMAGE_FALLBACK = 3_000
"""Tokens of an image whose size cannot be read."""
PDF_FALLBACK = 25_800
"""Tokens of a document whose pages cannot be counted: a hundred of them."""
SOUND_BYTES = 4_000
"""Bytes in a second of compressed sound (32 kbit/s, speech)."""
VIDEO_BYTES = 125_000
"""Bytes in a second of video (1 Mbit/s)."""
LINKED_SECONDS = 600
"""Seconds of sound or video of which only the address is known."""
LINKED_OTHER = 25_800
"""Tokens of anything else of which only the address is known."""

_SMALL = 384
_TILE_SIZES = (256, 768)
_MOST_PAGES = 1_000
_HEAD = 262_144
"""Characters of base64 in which the size of an image is looked for."""


def blob_tokens(blob: Blob, clip: VideoMetadata | None = None) -> float:
    """Tokens of inline media; `clip` is the stretch of it that counts."""
    kind = blob.mime_type.partition("/")[0].lower()
    if kind == "image":
        size = image_size(_decoded(blob.data[:_HEAD]))
        return IMAGE_FALLBACK if size is None else image_tokens(*size)
    if blob.mime_type.lower() == "application/pdf":
        pages = pdf_pages(_decoded(blob.data))
        return PDF_FALLBACK if pages is None else pages * PAGE
    if kind == "audio":
        return _clipped(_seconds(blob.data, SOUND_BYTES), clip) * SOUND_SECOND
    if kind == "video":
        return _clipped(_seconds(blob.data, VIDEO_BYTES), clip) * VIDEO_SECOND
    if kind == "text":
        return len(blob.data) * 3 / 4 / 4
    return len(blob.data) / 4


def file_tokens(file: FileData, clip: VideoMetadata | None = None) -> float:
    """Tokens of a file that only its address is known of. No type is a video: services take
    addresses of videos without one."""
    mime = (file.mime_type or "video/*").lower()
    kind = mime.partition("/")[0]
    if kind == "image":
        return IMAGE_FALLBACK
    if kind == "audio":
        return _clipped(LINKED_SECONDS, clip) * SOUND_SECOND
    if kind == "video":
        return _clipped(LINKED_SECONDS, clip) * VIDEO_SECOND
    return LINKED_OTHER


def image_tokens(width: int, height: int) -> int:
    """Tokens of an image of this size in pixels."""
    if width <= _SMALL and height <= _SMALL:
        return TILE
    least, most = _TILE_SIZES
    side = min(max(int(min(width, height) / 1.5), least), most)
    return TILE * ceil(width / side) * ceil(height / side)


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height that the head of an image says; None when it cannot be told."""
    for read in (_png, _gif, _webp, _bmp, _jpeg):
        try:
            size = read(data)
        except (struct.error, IndexError):
            continue  # it ends within its head
        if size is not None and 0 < size[0] < 100_000 and 0 < size[1] < 100_000:
            return size
    return None


def pdf_pages(data: bytes) -> int | None:
    """The pages of a PDF; None when they cannot be counted, as where objects are compressed."""
    found = len(re.findall(rb"/Type\s*/Page(?![A-Za-z])", data))
    if not found:
        counts = re.findall(rb"/Count\s+(\d{1,6})(?!\d)", data)
        found = max(map(int, counts), default=0)
    return min(found, _MOST_PAGES) or None


def sound_seconds(data: bytes) -> float | None:
    """Duration in seconds by the header of a WAV or MP4 file; None for any other format."""
    try:
        if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
            rate: int = struct.unpack_from("<I", data, data.index(b"fmt ") + 16)[0]
            return len(data) / rate if rate else None
        if data[4:8] == b"ftyp" and (at := data.find(b"mvhd")) >= 0:
            form, place = (">IQ", 24) if data[at + 4] else (">II", 16)
            scale, length = struct.unpack_from(form, data, at + place)
            return length / scale if scale else None
    except (struct.error, ValueError, IndexError):
        return None  # it is cut, or something else that begins like one
    return None


def _seconds(data: str, rate: int) -> float:
    raw = _decoded(data)
    told = sound_seconds(raw)
    return len(raw) / rate if told is None else told


def _clipped(seconds: float, clip: VideoMetadata | None) -> float:
    if clip is None:
        return seconds
    start = _offset(clip.start_offset)
    end = _offset(clip.end_offset)
    frames = 1.0 if clip.fps is None else max(1.0, clip.fps)
    whole = max(0.0, (seconds if end is None else end) - (start or 0.0))
    return whole * frames


def _offset(text: str | None) -> float | None:
    try:
        return None if text is None else float(text.removesuffix("s"))
    except ValueError:
        return None


def _decoded(data: str) -> bytes:
    """The bytes; of what is no base64, nothing, and the fallbacks count."""
    whole = data[: len(data) - len(data) % 4]
    try:
        return b64decode(whole)
    except (Base64Error, ValueError):
        return b""


def _png(data: bytes) -> tuple[int, int] | None:
    return struct.unpack_from(">II", data, 16) if data[:8] == b"\x89PNG\r\n\x1a\n" else None


def _gif(data: bytes) -> tuple[int, int] | None:
    return struct.unpack_from("<HH", data, 6) if data[:4] == b"GIF8" else None


def _bmp(data: bytes) -> tuple[int, int] | None:
    if data[:2] != b"BM":
        return None
    width, height = struct.unpack_from("<ii", data, 18)
    return width, abs(height)


def _webp(data: bytes) -> tuple[int, int] | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    form = data[12:16]
    if form == b"VP8X":
        return _int24(data, 24) + 1, _int24(data, 27) + 1
    if form == b"VP8L":
        bits: int = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<HH", data, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(data: bytes) -> tuple[int, int] | None:
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _int24(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 3], "little") if at + 3 <= len(data) else 0


TOKENS_ASCII = 0.25
TOKENS_LETTER = 0.5
"""Tokens of a letter of an alphabet that is not ASCII: Latin with marks, Greek, Cyrillic, Hebrew,
Arabic, the scripts of India, Thai. Words of these are split into more pieces than English ones,
commonly of two to three letters."""
TOKENS_WIDE = 1.5
"""Tokens of any other character. One of Chinese, Japanese or Korean takes between one half and two;
of symbols and rare scripts, each of their bytes may be a token."""

_ALPHABETS = bytes((*range(0x0F), 0x1E, 0x1F))
"""The upper halves of the UTF-16 units of these: U+0000 to U+0EFF, U+1E00 to U+1FFF."""


def text_tokens(text: str) -> float:
    """Tokens of a text."""
    if text.isascii():
        return len(text) * TOKENS_ASCII
    ascii_length = len(text.encode("ascii", "ignore"))
    halves = text.encode("utf-16-be", "surrogatepass")[::2]
    pairs = len(halves) - len(text)
    wide = len(halves.translate(None, _ALPHABETS)) - pairs
    letters = len(text) - ascii_length - wide
    return ascii_length * TOKENS_ASCII + letters * TOKENS_LETTER + wide * TOKENS_WIDE


def value_tokens(value: Any) -> float:
    """Tokens of a JSON value, as it is written. What has no JSON form takes none."""
    if not value:
        return 0.0
    try:
        return text_tokens(encode_value(value).decode("utf-8"))
    except (EncodeError, UnicodeEncodeError):
        return 0.0


def part_tokens(part: Part) -> float:
    """Tokens of a part. A signature goes back with its part and counts as text."""
    tokens = text_tokens(part.text) if part.text else 0.0
    call, response = part.function_call, part.function_response
    if call is not None:
        tokens += text_tokens(call.name) + value_tokens(call.args)
    elif response is not None:
        tokens += response_tokens(response)
    elif part.inline_data is not None:
        tokens += blob_tokens(part.inline_data, part.video_metadata)
    elif part.file_data is not None:
        tokens += file_tokens(part.file_data, part.video_metadata)
    elif part.text is None:
        tokens += value_tokens(part)
    if part.thought_signature:
        tokens += len(part.thought_signature) * TOKENS_ASCII
    return tokens


def response_tokens(response: FunctionResponse) -> float:
    """Tokens of the answer to a call: what it says, and the media in it."""
    tokens = text_tokens(response.name) + _fields_tokens(response.response)
    for part in response.parts or ():
        if part.inline_data is not None:
            tokens += blob_tokens(part.inline_data)
        elif part.file_data is not None:
            tokens += file_tokens(part.file_data)
    return tokens


def content_tokens(content: Content) -> int:
    """Tokens of a content, rounded down."""
    return int(sum(map(part_tokens, content.parts)))


def config_tokens(config: GenerateContentConfig) -> int:
    """Tokens of what goes with every request: the instruction and the declarations of tools."""
    system = config.system_instruction
    tokens = 0 if system is None else content_tokens(system)
    return tokens + int(value_tokens(config.tools))


def media_tokens(content: Content) -> int:
    """Those tokens of a content that are guessed of its media."""
    found = 0.0
    for part in content.parts:
        if part.inline_data is not None or part.file_data is not None:
            found += part_tokens(part)
        elif part.function_response is not None and part.function_response.parts:
            bare = msgspec.structs.replace(part.function_response, parts=None)
            found += response_tokens(part.function_response) - response_tokens(bare)
    return int(found)


def _fields_tokens(fields: Mapping[str, Any]) -> float:
    """Tokens of a response. Most hold one text, which is not worth encoding."""
    if len(fields) == 1:
        (name, value), *_ = fields.items()
        if isinstance(value, str):
            return text_tokens(name) + text_tokens(value) + 2
    return value_tokens(dict(fields))
