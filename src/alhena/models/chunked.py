"""A response body that comes in chunks (RFC 9112, 7.1), told apart without events for each.

h11 reads the head of a response, and every body of another kind. Of a streamed answer each piece
is a chunk, and reading those is most of what h11 would do for it.
"""

import re

import h11

# No two neighbours of this pattern take the same bytes, and none gives back what it took: a line is
# looked at once, however it is made.
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,20})[ \t]*+(?:;[^\x00-\x08\x0a-\x1f\x7f]*+)?")
_PLAIN_SIZE = re.compile(rb"([0-9A-Fa-f]{1,20})\r\n")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\x00\n\r]*")
_END = b"\r\n"
_LONGEST = 16 * 1024
"""Bytes of a line with a size, and of all trailers."""


class ChunkedBody:
    """Takes bytes as they arrive, gives those of the body.

    `done` says that the body has come to its end; `rest` is what arrived behind that.
    """

    def __init__(self) -> None:
        self.done = False
        self.rest = b""
        self._pieces: list[bytes] = []
        self._left: int = 0  # bytes of the chunk that are still to come
        self._held = b""  # the beginning of a line
        self._closing = False  # the end of a line has to come: the chunk is whole
        self._trailers = -1  # bytes of trailers, once the last chunk has come
        self._fault = ""

    def feed(self, data: bytes) -> None:
        """Takes what arrived; b"" says that the connection has ended."""
        if self._is_one_chunk(data) or self._fault:
            return
        if self.done:
            self.rest += data
            return
        if not data:
            self._fault = "the connection ended before the body"
            return
        if self._held:
            data, self._held = self._held + data, b""
        at, end = 0, len(data)
        while at < end and not self.done and not self._fault:
            if self._left:
                stop = min(at + self._left, end)
                self._pieces.append(data[at:stop])
                self._left -= stop - at
                self._closing = not self._left
                at = stop
                continue
            line = data.find(_END, at)
            if line < 0:
                self._hold(data[at:])
                return
            self._line(data, at, line)
            at = line + 2
        self.rest = data[at:]

    def take(self) -> bytes:
        """The bytes of the body that were not taken yet. Raises RemoteProtocolError for a body
        that is malformed or cut, once what came before has been taken."""
        if not self._pieces:
            if self._fault:
                raise h11.RemoteProtocolError(self._fault)
            return b""
        taken = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        return taken

    def _is_one_chunk(self, data: bytes) -> bool:
        """Takes what is one chunk and nothing else, as the pieces of a streamed answer mostly are;
        the rest of this class does the same in more steps."""
        if self._left or self._held or self._closing or self._trailers >= 0 or self._fault:
            return False
        size = _PLAIN_SIZE.match(data)
        if size is None:
            return False
        start, end = size.end(), len(data) - 2
        if start >= end or end - start != int(size[1], 16) or not data.endswith(_END):
            return False
        self._pieces.append(data[start:end])
        return True

    def _hold(self, start: bytes) -> None:
        """Keeps the beginning of a line whose end has not come."""
        if self._closing and start != _END[:1]:
            self._fault = "a chunk is longer than it says"
        elif b"\n" in start:
            self._fault = "a line between chunks ends otherwise than with CR and LF"
        elif len(start) + max(self._trailers, 0) > _LONGEST:
            self._fault = "a line between chunks is too long"
        self._held = start

    def _line(self, data: bytes, start: int, end: int) -> None:
        """Takes the line in `data[start:end]`: the end of a chunk, a size, or a trailer."""
        if self._closing:
            self._closing = False
            if start != end:
                self._fault = "a chunk is longer than it says"
        elif self._trailers < 0:
            size = _SIZE.fullmatch(data, start, end) if end - start <= _LONGEST else None
            if size is None:
                self._fault = "a chunk does not say its size"
                return
            self._left = int(size[1], 16)
            if not self._left:
                self._trailers = 0
        elif start == end:
            self.done = True
        else:
            self._trailers += end - start
            if self._trailers > _LONGEST or not _TRAILER.fullmatch(data, start, end):
                self._fault = "the trailers are malformed, or too long"
