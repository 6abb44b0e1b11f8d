"""A response's body: decompressed within limits, then decoded."""

import codecs
import re
from typing import Protocol

from alhena.system.encoding import decode_text
from alhena.system.web.errors import AnswerError

RATIO = 200
"""How many times its own size compressed data may become, beyond the first megabyte."""

_FREE = 1 << 20
_GZIP = b"\x1f\x8b"
_META = re.compile(
    rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE
)
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"})
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""What pages that name the one really hold, as browsers read them."""


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class Body:
    """Collects a body of at most `limit` bytes, counted after decompression.

    `coding` is the Content-Encoding. Methods raise AnswerError, `place` names the server in it.
    """

    def __init__(self, coding: str, limit: int, place: str) -> None:
        self._data = bytearray()
        self._limit = limit
        self._place = place
        self._received = 0
        self._inflater: _Inflater | None = None
        coding = coding.strip().lower()
        if coding in {"gzip", "x-gzip"}:
            self._inflater = _gunzip()
        elif coding not in {"", "identity"}:
            raise AnswerError(
                f"{place} sent the encoding {coding[:40]!r}, which was not asked for."
            )

    def feed(self, data: bytes) -> None:
        """Takes the next bytes as they were sent."""
        self._received += len(data)
        if self._inflater is None:
            self._data += data
        else:
            self._inflate(data)
        if len(self._data) > self._limit:
            raise AnswerError(f"{self._place} sent more than {self._limit >> 20} MB.")

    def end(self) -> bytes:
        """All of it."""
        if self._inflater is not None and self._received and not self._inflater.eof:
            raise AnswerError(f"the compressed answer of {self._place} ended before its end.")
        return bytes(self._data)

    def _inflate(self, data: bytes) -> None:
        import zlib

        inflater = self._inflater
        while data and inflater is not None and len(self._data) <= self._limit:
            if inflater.eof:
                if not data.startswith(_GZIP[: len(data)]):
                    return  # padding after the last member
                inflater = self._inflater = _gunzip()
            room = min(self._limit + 1 - len(self._data), _FREE)
            try:
                self._data += inflater.decompress(data, room)
            except zlib.error as error:
                raise AnswerError(f"the compressed answer of {self._place} is damaged.") from error
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            read = self._received - len(data)
            if len(self._data) > _FREE and len(self._data) > RATIO * read:
                raise AnswerError(
                    f"{self._place} sent data that decompresses to more than {RATIO} times its "
                    "size."
                )


def _gunzip() -> _Inflater:
    import zlib

    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)


def decoded(data: bytes, charset: str, *, markup: bool) -> str:
    """A body as text: by its byte order mark, the header's charset, a page's own, else detected."""
    if not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        named = _codec(charset)
        if named is None and markup and (meta := _META.search(data[:1024])):
            named = _codec(meta[1].decode("ascii"))
            # A page whose charset could be read in ASCII is not in UTF-16.
            named = "utf-8" if named and named.startswith("utf-16") else named
        if named is not None:
            return data.decode(named, "replace")
    return decode_text(data).shown


def _codec(charset: str) -> str | None:
    try:
        name = codecs.lookup(charset.strip().strip("\"'")).name
        b"  ".decode(name, "replace")  # refuses what is no encoding of text
    except (LookupError, ValueError):
        return None
    return None if name.replace("-", "_") in _NO_CHARSETS else _WIDER.get(name, name)
