"""Token counts without asking anybody: of texts, of media by their kind and length, and of a whole
conversation.

The weights: a quarter of a token for an ASCII character, TOKENS_LETTER for one of another alphabet,
TOKENS_WIDE for any other one, whatever the length of the text. Media are guessed high: an image of
a screen, a document of a hundred pages; of sound a second takes 32 tokens, of video 263, as the
Gemini API documents it. What is known is better than an estimate: see `masking.Gauge`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from alhena.wire.content import Blob, Content, FileData, FunctionResponse, Part, encode_value
from alhena.wire.errors import EncodeError
from alhena.wire.request import GenerateContentConfig

IMAGE = 3_000
DOCUMENT = 25_800
SOUND_SECOND = 32
VIDEO_SECOND = 263
SOUND_BYTES = 4_000
"""Bytes in a second of compressed sound (32 kbit/s, speech)."""
WAVE_BYTES = 32_000
"""Bytes in a second of sound that is not compressed (speech)."""
VIDEO_BYTES = 125_000
"""Bytes in a second of video (1 Mbit/s)."""
LINKED_SECONDS = 600
"""Seconds of sound or video of which only the address is known."""


def blob_tokens(blob: Blob) -> float:
    """Tokens of inline media."""
    mime, size = blob.mime_type.lower(), len(blob.data) * 3 / 4
    match mime.partition("/")[0]:
        case "image":
            return IMAGE
        case "audio":
            rate = WAVE_BYTES if mime.endswith("wav") else SOUND_BYTES
            return size / rate * SOUND_SECOND
        case "video":
            return size / VIDEO_BYTES * VIDEO_SECOND
        case _ if mime == "application/pdf":
            return DOCUMENT
        case _:
            return size / 4


def file_tokens(file: FileData) -> float:
    """Tokens of a file that only its address is known of. No type is a video: services take
    addresses of videos without one."""
    match (file.mime_type or "video/*").lower().partition("/")[0]:
        case "image":
            return IMAGE
        case "audio":
            return LINKED_SECONDS * SOUND_SECOND
        case "video":
            return LINKED_SECONDS * VIDEO_SECOND
        case _:
            return DOCUMENT


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
        tokens += blob_tokens(part.inline_data)
    elif part.file_data is not None:
        tokens += file_tokens(part.file_data)
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
