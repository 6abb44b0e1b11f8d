"""The connection that is opened while the rest loads."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

import pytest

from alhena.errors import NetworkError
from alhena.http import early
from alhena.http.addresses import parse_endpoint
from alhena.http.early import prepare_connection
from tests.http_client.test_proxy import tunnel
from tests.models.asking import (
    Answer,
    api,
    asked,
    chunks,
    event,
    listening,
    read_request,
    response,
    texts,
)
from tests.support.certificates import certificate
from tests.support.command import alhena
from tests.support.ports import reserved_port
from tests.support.server import ScriptedServer, sse, text

pytestmark = pytest.mark.requirement("COST-05")


class Counted:
    """Answers requests, and counts the connections and the bytes that come before each request."""

    def __init__(self, *, closes: bool = False, size: int = 0) -> None:
        self.connections = 0
        self.requests: list[int] = []
        self.opened = asyncio.Event()
        self._closes = closes
        self._size = size

    async def __call__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        self.opened.set()
        if self._closes and self.connections == 1:
            writer.close()
            await writer.wait_closed()
            return
        while True:
            _line, _headers, body = await read_request(reader)
            self.requests.append(len(body))
            pieces = event("x" * self._size, None) if self._size else b""
            writer.write(response(pieces + event("done")))


async def prepare(url: str, **environ: str) -> None:
    """Has a connection opened and waits until that has ended."""
    prepare_connection(parse_endpoint(url, "url"), environ)
    for attempt in early._attempts.values():
        done: Future[object] = Future()
        attempt.when_done(done.set_result)
        await asyncio.wrap_future(done)


@pytest.fixture(autouse=True)
def close_earlier() -> Iterator[None]:
    """Connections that commands of other tests have left in this process."""
    early.close_unused()
    yield
    early.close_unused()


@pytest.mark.parametrize("secure", [False, True])
async def test_the_first_request_uses_the_connection_and_nothing_is_sent_before(
    tmp_path: Path, secure: bool
):
    public, context = certificate(tmp_path)
    server = Counted(size=3_000_000)
    async with listening(server, context if secure else None) as port:
        url = f"{'https' if secure else 'http'}://localhost:{port}"
        trust = {"SSL_CERT_FILE": str(public)}
        await prepare(url, **trust)
        await server.opened.wait()
        assert server.requests == []
        generator = api(url, **trust)
        for _ in range(2):
            first, last = texts(await chunks(generator, asked("y" * 3_000_000)))
            assert (len(first), last) == (3_000_000, "done")
        await generator.aclose()
    assert server.connections == 1
    assert all(size > 3_000_000 for size in server.requests)


async def test_the_handshake_is_not_waited_for_twice(tmp_path: Path):
    """A request that comes while the connection is being opened takes it over."""
    public, context = certificate(tmp_path)
    server = Counted()
    async with listening(server, context) as port:
        url = f"https://localhost:{port}"
        trust = {"SSL_CERT_FILE": str(public)}
        prepare_connection(parse_endpoint(url, "url"), trust)
        generator = api(url, **trust)
        assert texts(await chunks(generator)) == ["done"]
        await generator.aclose()
    assert server.connections == 1


@pytest.mark.parametrize("secure", [False, True])
async def test_one_that_has_ended_meanwhile_is_replaced(tmp_path: Path, secure: bool):
    public, context = certificate(tmp_path)
    server = Counted(closes=True)
    async with listening(server, context if secure else None) as port:
        url = f"{'https' if secure else 'http'}://localhost:{port}"
        trust = {"SSL_CERT_FILE": str(public)}
        await prepare(url, **trust)
        await server.opened.wait()
        generator = api(url, **trust)
        assert texts(await chunks(generator)) == ["done"]
        await generator.aclose()
    assert server.connections == 2


async def test_failures_are_those_of_the_request(tmp_path: Path):
    _public, context = certificate(tmp_path)
    with reserved_port() as port:
        await prepare(f"http://127.0.0.1:{port}")
        with pytest.raises(NetworkError, match="connection refused"):
            await chunks(api(f"http://127.0.0.1:{port}"))
    async with listening(Counted(), context) as port:
        url = f"https://localhost:{port}"
        await prepare(url)
        generator = api(url)
        with pytest.raises(NetworkError, match="certificate"):
            await chunks(generator)
        await generator.aclose()


@pytest.mark.parametrize("secure", [False, True])
async def test_the_connection_to_a_proxy_is_opened(tmp_path: Path, secure: bool):
    public, context = certificate(tmp_path)
    server, seen = Counted(), list[int]()

    def counting(answer: Answer) -> Answer:
        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            seen.append(1)
            await answer(reader, writer)

        return serve

    async with listening(server, context if secure else None) as port:
        through: Callable[[StreamReader, StreamWriter], object] = tunnel if secure else server
        async with listening(counting(through)) as proxy:
            scheme = "https" if secure else "http"
            around = {
                f"{scheme.upper()}_PROXY": f"http://127.0.0.1:{proxy}",
                "SSL_CERT_FILE": str(public),
            }
            url = f"{scheme}://localhost:{port}"
            await prepare(url, **around)
            generator = api(url, **around)
            assert texts(await chunks(generator)) == ["done"]
            await generator.aclose()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("arguments", "opened"),
    [
        (("-p", "hi"), True),
        (("-p", "hi", "-m", "demo"), False),
        (("--help",), False),
        (("--version",), False),
        (("tools", "list"), False),
        (("settings", "path"), False),
    ],
)
def test_the_command_opens_one_only_for_a_prompt(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], opened: bool
):
    begun: list[object] = []

    class Noted(Thread):
        def start(self) -> None:
            begun.append(self)
            super().start()

    monkeypatch.setattr(early, "Thread", Noted)
    with ScriptedServer() as server:
        server.reply(sse(text("hello")))
        ran = alhena(*arguments, GEMINI_API_KEY="k", GOOGLE_GEMINI_BASE_URL=server.url)
        assert (server.connections, len(server.requests)) == ((1, 1) if opened else (0, 0))
    assert ran.code == 0 or not opened
    assert len(begun) == opened


def test_without_a_key_nothing_is_opened(monkeypatch: pytest.MonkeyPatch):
    begun: list[object] = []
    monkeypatch.setattr(early, "Thread", lambda **given: begun.append(given))
    assert alhena("-p", "hi").code == 41
    assert begun == []
