"""Long texts that are nearly JSON: bytes that are no UTF-8, NaN, halves of surrogate pairs.

They are mended where they stand, a slice at a time: what is done to the whole in one go holds up
all threads.
"""

import codecs
import re
from collections.abc import Iterator
from itertools import chain

SLICE = 64 * 1024
_ESCAPES, _WORDS = 24, 9
"""Bytes before the end of a slice in which may stand what has to stay together: halves of a pair,
and a word like -Infinity."""

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_TOKEN = re.compile(
    rb"(?P<pair>%b%b)|(?P<half>%b|%b)|\\.|(?P<quote>\")|(?P<constant>-?(?:NaN|Infinity)\b)"
    % (_HIGH, _LOW, _HIGH, _LOW),
    re.DOTALL,
)
_ODD = re.compile(rb"\\u[dD]|NaN|Infinity")
_WORD = re.compile(rb"[-A-Za-z]*\Z")
_HALF = re.compile(_HIGH)


def mended(data: bytes) -> bytes:
    """What a text says, in JSON if it is nearly that."""
    return b"".join(_pieces(data))


def _pieces(data: bytes) -> Iterator[bytes]:
    inside = False

    def put(found: re.Match[bytes]) -> bytes:
        nonlocal inside
        match found.lastgroup:
            case "quote":
                inside = not inside
            case "half":
                return rb"\ufffd"
            case "constant" if not inside:
                return b"null"
            case _:
                pass
        return found[0]

    rest = b""
    for piece in chain(_in_utf8(data), (b"",)):
        text = rest + piece
        cut = _cut(text) if piece else len(text)
        part, rest = text[:cut], text[cut:]
        if _ODD.search(part):
            yield _TOKEN.sub(put, part)
        else:
            plain = part.replace(b"\\\\", b"").replace(b'\\"', b"")
            inside ^= plain.count(b'"') % 2 == 1
            yield part


def _in_utf8(data: bytes) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for start in range(0, len(data), SLICE):
        yield decoder.decode(data[start : start + SLICE]).encode()
    yield decoder.decode(b"", final=True).encode()


def _cut(text: bytes) -> int:
    """Where what may go on in the next slice begins."""
    cut = text.find(b"\\", max(len(text) - _ESCAPES, 0))
    if cut < 0:
        word = _WORD.search(text, max(len(text) - _WORDS, 0))
        cut = len(text) if word is None else word.start()
    if _HALF.fullmatch(text[:cut][-6:]):
        cut -= 6
    before = text[:cut]
    return cut - (len(before) - len(before.rstrip(b"\\"))) % 2
