"""One GET over one connection."""

import asyncio

import h11

from alhena.system.web.body import Body
from alhena.system.web.errors import AnswerError
from alhena.system.web.url import WebUrl

MAX_HEAD_BYTES = 64 * 1024
MAX_INTERIM = 10
"""How many 1xx answers may come before the answer."""

_CHUNK = 1 << 16
_HEADERS = (
    ("user-agent", "Mozilla/5.0 (compatible; alhena web_fetch)"),
    ("accept", "text/markdown, text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.5"),
    ("accept-encoding", "gzip"),
    ("accept-language", "en, *;q=0.5"),
    ("connection", "close"),
)


class Head:
    """The head of an answer."""

    def __init__(self, response: h11.Response) -> None:
        self.status = response.status_code
        self._headers = response.headers

    def header(self, name: str) -> str:
        """The value of a header (lower-case name), "" when absent; the first when there are two."""
        wanted = name.encode("ascii")
        for key, value in self._headers:
            if key == wanted:
                return value.decode("latin-1")
        return ""


class Exchange:
    """A request for `url` on a connection that is open already. Methods raise AnswerError when the
    server breaks the protocol, OSError when the connection does."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: WebUrl
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._url = url
        self._place = url.authority
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)

    async def head(self) -> Head:
        """Sends the request and waits for the head of the answer."""
        request = h11.Request(
            method="GET",
            target=self._url.target,
            headers=[("host", self._url.authority), *_HEADERS],
        )
        self._writer.write(self._http.send(request) + self._http.send(h11.EndOfMessage()))
        await self._writer.drain()
        interim = 0
        while True:
            event = await self._event()
            if isinstance(event, h11.Response):
                return Head(event)
            if isinstance(event, h11.InformationalResponse):
                interim += 1
            if interim > MAX_INTERIM or not isinstance(event, h11.InformationalResponse):
                raise AnswerError(f"{self._place} does not answer in HTTP.")

    async def body(self, head: Head, limit: int) -> bytes:
        """The body, at most `limit` bytes after decompression."""
        body = Body(head.header("content-encoding"), limit, self._place)
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                body.feed(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return body.end()
            else:
                raise AnswerError(f"{self._place} broke off in the middle of its answer.")

    async def _event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    return event
                self._http.receive_data(await self._reader.read(_CHUNK))
        except h11.RemoteProtocolError as error:
            if self._http.their_state is h11.ERROR and self._reader.at_eof():
                raise AnswerError(
                    f"{self._place} closed the connection before its answer was complete."
                ) from error
            raise AnswerError(f"{self._place} does not answer in HTTP: {error}.") from error
