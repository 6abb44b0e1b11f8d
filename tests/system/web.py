"""A loopback server that says what a test wants, and a fetcher for which it is the internet."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from alhena.system.web.fetch import FetchLimits, GuardedFetcher, WebPage
from alhena.system.web.url import parse_web_url

PUBLIC = "93.184.216.34"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def plain(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer; text/plain unless a header says otherwise."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
    if not any(header.lower().startswith("content-type") for header in headers):
        lines.append("content-type: text/plain")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    return plain(b"", f"location: {location}", status=f"{status} Found")


class Web:
    """The internet of a test: answers by path, names by `hosts`, every public address is here.

    `requests` are the heads that arrived, `asked` the names looked up, `connected` the addresses
    that connections went to.
    """

    def __init__(self, hosts: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self.port = 0
        self.requests: list[str] = []
        self.asked: list[str] = []
        self.connected: list[str] = []
        self.answers: dict[str, bytes | Answer] = {}
        self.gone = asyncio.Event()
        self._hosts = {name: list(answers) for name, answers in hosts.items()}

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        answers = self._hosts[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def place(self, address: str, port: int) -> tuple[str, int]:
        self.connected.append(address)
        return "127.0.0.1", self.port

    def fetcher(
        self,
        *,
        limits: FetchLimits | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        proxied: bool = False,
    ) -> GuardedFetcher:
        return GuardedFetcher(
            tls, lambda _url: proxied, resolve=self.resolve, place=self.place, limits=limits
        )

    async def fetch(self, url: str, **options: FetchLimits) -> WebPage:
        return await self.fetcher(**options).fetch(parse_web_url(url))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.read(1)
            if head == b"\x16":  # a TLS handshake that nobody here can read
                writer.write(plain(b"", status="400 Bad Request"))
                return
            head += await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.decode())
            answer = self.answers[head.split()[1].decode()]
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.gone.set()
        finally:
            writer.close()


@asynccontextmanager
async def web(
    hosts: Mapping[str, Sequence[Sequence[str]]] | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Web]:
    """A running internet; `hosts` maps names to the answers of successive look-ups."""
    net = Web(hosts or {"site.example": [[PUBLIC]]})
    server = await asyncio.start_server(net.serve, "127.0.0.1", 0, ssl=tls)
    net.port = server.sockets[0].getsockname()[1]
    try:
        yield net
    finally:
        server.close()
        await server.wait_closed()
