"""The bytes of one response read with h11: its head, then its body.

Imported when a request is on its way: h11 takes long to import.
"""

import h11

from alhena.http import MAX_HEAD_BYTES, MOST_INTERIM, MalformedResponseError, ResponseHead

_START = 32


class ResponseReader:
    """Reads the response to one request of `method`.

    `start` is how the answer begins, without the interim ones before it, counted in `interim`.
    """

    def __init__(self, method: str) -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        # How a response is framed depends on the method of its request alone.
        self._http.send(h11.Request(method=method, target="/", headers=[("host", "")]))
        self._http.send(h11.EndOfMessage())
        self.start = b""
        self.interim = 0

    def feed(self, data: bytes) -> None:
        """Takes in bytes that arrived; b"" is the end of the connection."""
        if len(self.start) < _START:
            self.start += data[:_START]
        self._http.receive_data(data)

    def head(self) -> ResponseHead | None:
        """The head of the answer, if it has arrived. Raises MalformedResponseError."""
        while (event := self._event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                return ResponseHead(event.status_code, tuple(event.headers), event.reason)
            self.interim += 1
            if self.interim > MOST_INTERIM:
                raise MalformedResponseError("too many interim responses")
            self.start = self._http.trailing_data[0][:_START]
        return None

    def body(self) -> tuple[bytes, bool]:
        """The available bytes of the body, and True if it ends with them.

        Raises MalformedResponseError; an error after some bytes is raised by the next call, so that
        those bytes are not lost.
        """
        if self._http.their_state is h11.ERROR:
            raise MalformedResponseError("the body is malformed")
        pieces: list[bytes] = []
        while self._http.their_state is h11.SEND_BODY:
            try:
                event = self._event()
            except MalformedResponseError:
                if not pieces:
                    raise
                return b"".join(pieces), False
            if isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            elif event is h11.NEED_DATA:
                return b"".join(pieces), False
        return b"".join(pieces), True

    @property
    def begun(self) -> bool:
        """True when something has arrived."""
        return bool(self.start or self.interim)

    @property
    def complete(self) -> bool:
        """True when the response has ended, and the connection can be used again."""
        ended = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return ended and not self.surplus

    @property
    def surplus(self) -> bool:
        """True when data followed the response, or the head of the answer to a CONNECT."""
        return bool(self._http.trailing_data[0])

    def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise MalformedResponseError(str(error)) from error
