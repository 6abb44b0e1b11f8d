"""Ways through proxies: in TLS, through SOCKS, and what proxies and services refuse on them."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter, open_connection
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from alhena.errors import ModelError, NetworkError, StreamCutError
from alhena.http import Timeouts
from alhena.models.retry import RetryClass, manner_of
from tests.http_client.test_proxy import tunnel
from tests.http_client.test_transport import greet
from tests.models.asking import (
    Answer,
    api,
    asked,
    chunks,
    event,
    joined,
    listening,
    read_request,
    response,
    texts,
)
from tests.support.certificates import certificate

HOST, IPV4, IPV6 = 3, 1, 4
FAST = Timeouts(connect=0.3, idle=0.3)


async def relay(reader: StreamReader, writer: StreamWriter, port: int) -> None:
    await joined((reader, writer), await open_connection("127.0.0.1", port))


class Socks:
    """A SOCKS 5 proxy that sends everything to one port, and notes what it was asked."""

    def __init__(self, port: int, *, user: bytes = b"", status: int = 0, kind: int = IPV4) -> None:
        self.asked: list[tuple[int, bytes, int]] = []
        self._port = port
        self._user = user
        self._status = status
        self._bound = {
            IPV4: b"\x01\x00\x00\x00\x00",
            HOST: b"\x03\x05proxy",
            IPV6: b"\x04" + bytes(16),
        }[kind]

    async def __call__(self, reader: StreamReader, writer: StreamWriter) -> None:
        version, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        assert version == 5
        wanted = 2 if self._user else 0
        writer.write(bytes([5, wanted if wanted in methods else 255]))
        if wanted == 2 and wanted in methods:
            _version, size = await reader.readexactly(2)
            user = await reader.readexactly(size)
            (size,) = await reader.readexactly(1)
            user += b":" + await reader.readexactly(size)
            writer.write(bytes([1, user != self._user]))
        version, command, _zero, kind = await reader.readexactly(4)
        assert (version, command) == (5, 1)
        size = {IPV4: 4, IPV6: 16}.get(kind) or (await reader.readexactly(1))[0]
        host = await reader.readexactly(size)
        self.asked.append((kind, host, int.from_bytes(await reader.readexactly(2), "big")))
        reply = bytes([5, self._status, 0]) + self._bound + b"\0\0"
        for byte in reply:  # one by one: it is put together again
            writer.write(bytes([byte]))
            await writer.drain()
        if not self._status:
            await relay(reader, writer, self._port)


async def keep_answering(reader: StreamReader, writer: StreamWriter) -> None:
    while True:
        line, _headers, _body = await read_request(reader)
        writer.write(response(event(line.split()[1].partition("/v1")[0] or "plain path")))


async def test_plain_requests_go_through_a_proxy_that_is_asked_in_tls(tmp_path: Path):
    public, context = certificate(tmp_path)
    async with listening(keep_answering, context) as proxy:
        generator = api(
            "http://gemini.example",
            HTTP_PROXY=f"https://localhost:{proxy}",
            SSL_CERT_FILE=str(public),
        )
        assert texts(await chunks(generator)) == ["http://gemini.example"]
        assert texts(await chunks(generator)) == ["http://gemini.example"]
        await generator.aclose()
        wary = api("http://gemini.example", HTTP_PROXY=f"https://localhost:{proxy}")
        with pytest.raises(NetworkError, match=r"through the proxy localhost.*not trusted"):
            await chunks(wary)
        await wary.aclose()


async def test_encrypted_requests_are_tunnelled_through_a_proxy_that_is_asked_in_tls(
    tmp_path: Path,
):
    public, context = certificate(tmp_path)
    async with listening(greet, context) as port, listening(tunnel, context) as proxy:
        generator = api(
            f"https://localhost:{port}",
            HTTPS_PROXY=f"https://localhost:{proxy}",
            SSL_CERT_FILE=str(public),
        )
        assert texts(await chunks(generator, asked("x" * 1_000_000))) == ["secure"]
        assert texts(await chunks(generator)) == ["secure"]
        await generator.aclose()


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("gemini.example", (HOST, b"gemini.example")),
        ("192.0.2.7", (IPV4, bytes([192, 0, 2, 7]))),
        ("[2001:db8::1]", (IPV6, bytes.fromhex("20010db8000000000000000000000001"))),
    ],
)
@pytest.mark.parametrize("kind", [IPV4, HOST, IPV6])
async def test_requests_go_through_a_socks_proxy_that_resolves_names(
    host: str, told: tuple[int, bytes], kind: int
):
    async with listening(keep_answering) as port:
        socks = Socks(port, kind=kind)
        async with listening(socks) as proxy:
            generator = api(f"http://{host}:8080", ALL_PROXY=f"socks5h://127.0.0.1:{proxy}")
            assert texts(await chunks(generator)) == ["plain path"]
            assert texts(await chunks(generator)) == ["plain path"]
            await generator.aclose()
    assert socks.asked == [(*told, 8080)]  # one tunnel for both


async def test_encrypted_requests_go_through_a_socks_proxy_that_wants_a_password(tmp_path: Path):
    public, context = certificate(tmp_path)
    async with listening(greet, context) as port:
        socks = Socks(port, user="m\u00fcller:p@ss".encode())
        async with listening(socks) as proxy:
            url = f"https://localhost:{port}"
            named = f"socks5://m%C3%BCller:p%40ss@127.0.0.1:{proxy}"
            generator = api(url, ALL_PROXY=named, SSL_CERT_FILE=str(public))
            assert texts(await chunks(generator)) == ["secure"]
            await generator.aclose()
            for address in ("127.0.0.1", "m:hush@127.0.0.1"):
                refused = api(
                    url, ALL_PROXY=f"socks5://{address}:{proxy}", SSL_CERT_FILE=str(public)
                )
                with pytest.raises(NetworkError, match="refused") as caught:
                    await chunks(refused)
                await refused.aclose()
                assert manner_of(caught.value) is RetryClass.NEVER
                assert "hush" not in str(caught.value)


@pytest.mark.parametrize(("status", "words"), [(2, "rules"), (5, "refused"), (77, "77")])
async def test_what_a_socks_proxy_refuses_is_told_in_words(status: int, words: str):
    async with listening(Socks(0, status=status)) as proxy:
        generator = api("http://gemini.example", ALL_PROXY=f"socks5://127.0.0.1:{proxy}")
        with pytest.raises(NetworkError, match=f"127.0.0.1:{proxy} refused.*{words}"):
            await chunks(generator)
        await generator.aclose()


async def _says_http(reader: StreamReader, writer: StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()
    await reader.read()


async def _hangs_up(reader: StreamReader, _writer: StreamWriter) -> None:
    await reader.read(10)


async def _is_silent(reader: StreamReader, _writer: StreamWriter) -> None:
    await reader.read()


async def _opens_and_says_more(reader: StreamReader, writer: StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 Fine\r\n\r\n" + response(event("not of the service")))
    await writer.drain()
    await reader.read()


async def _opens_by_socks_and_says_more(reader: StreamReader, writer: StreamWriter) -> None:
    await reader.readexactly(3)
    writer.write(b"\x05\x00")
    await reader.read(100)
    writer.write(b"\x05\x00\x00\x01" + bytes(6) + response(event("not of the service")))
    await writer.drain()
    await reader.read()


@pytest.mark.parametrize(
    ("url", "scheme", "answer", "words"),
    [
        ("http://gemini.example", "socks5", _says_http, "does not speak SOCKS 5"),
        ("http://gemini.example", "socks5", _hangs_up, "broke the connection"),
        ("http://gemini.example", "socks5", _is_silent, r"within 0\.3 s"),
        ("http://gemini.example", "socks5", _opens_by_socks_and_says_more, "after its answer"),
        ("https://gemini.example", "http", _hangs_up, "closed the connection"),
        ("https://gemini.example", "http", _is_silent, r"within 0\.3 s"),
        ("https://gemini.example", "http", _opens_and_says_more, "after its answer"),
        ("https://gemini.example", "https", _is_silent, r"within 0\.3 s"),
        ("http://gemini.example", "http", _hangs_up, r"without an answer \(.*e through the proxy"),
    ],
)
async def test_a_proxy_that_opens_no_way_is_named(
    url: str, scheme: str, answer: Answer, words: str
):
    async with listening(answer) as proxy:
        address = f"{scheme}://me:hush@127.0.0.1:{proxy}"
        generator = api(url, timeouts=FAST, ALL_PROXY=address)
        with pytest.raises(NetworkError, match=words) as caught:
            await chunks(generator)
        await generator.aclose()
    assert f"127.0.0.1:{proxy}" in str(caught.value)
    assert "NO_PROXY" in str(caught.value)
    assert "hush" not in str(caught.value)
    assert "not of the service" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "manner"),
    [("403 Forbidden", RetryClass.NEVER), ("502 Bad Gateway", RetryClass.BACKOFF)],
)
async def test_a_tunnel_is_asked_for_again_only_where_that_may_help(
    status: str, manner: RetryClass
):
    async def proxy(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(b"why", status=status))
        await writer.drain()

    async with listening(proxy) as port:
        generator = api("https://gemini.example", ALL_PROXY=f"http://127.0.0.1:{port}")
        with pytest.raises(NetworkError, match=status) as caught:
            await chunks(generator)
        await generator.aclose()
    assert manner_of(caught.value) is manner


@asynccontextmanager
async def ways(
    kind: str, answer: Answer, context: ssl.SSLContext
) -> AsyncIterator[tuple[str, str]]:
    """A service behind a proxy: its address, and that of the proxy."""
    if kind == "plain":
        async with listening(answer) as proxy:
            yield "http://gemini.example", f"http://127.0.0.1:{proxy}"
    elif kind == "tunnel":
        async with listening(answer, context) as port, listening(tunnel) as proxy:
            yield f"https://localhost:{port}", f"http://127.0.0.1:{proxy}"
    else:
        async with listening(answer) as port, listening(Socks(port)) as proxy:
            yield "http://gemini.example", f"socks5://127.0.0.1:{proxy}"


@pytest.mark.parametrize("kind", ["plain", "tunnel", "socks"])
async def test_what_comes_behind_an_answer_through_a_proxy_is_thrown_away(
    kind: str, tmp_path: Path
):
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(event("mine")) + response(event("stale")))
        await writer.drain()
        await reader.read()

    public, context = certificate(tmp_path)
    async with ways(kind, answer, context) as (url, proxy):
        generator = api(url, ALL_PROXY=proxy, SSL_CERT_FILE=str(public))
        said = [texts(await chunks(generator)) for _ in range(3)]
        await generator.aclose()
    assert said == [["mine"], ["mine"], ["mine"]]


@pytest.mark.parametrize("kind", ["plain", "tunnel", "socks"])
async def test_a_cut_and_silence_through_a_proxy_are_what_they_are_without(
    kind: str, tmp_path: Path
):
    first = True

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal first
        await read_request(reader)
        if first:
            first = False
            writer.write(response(event("one", None), content_length="9999"))
            await writer.drain()
        else:
            await reader.read()

    public, context = certificate(tmp_path)
    async with ways(kind, answer, context) as (url, proxy):
        generator = api(
            url, timeouts=Timeouts(connect=5, idle=0.3), ALL_PROXY=proxy, SSL_CERT_FILE=str(public)
        )
        kinds: list[type[ModelError]] = []
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                await chunks(generator)
            kinds.append(type(caught.value))
        await generator.aclose()
    assert kinds == [StreamCutError, NetworkError]


async def test_who_gives_up_while_a_tunnel_is_being_opened_leaves_nothing_behind():
    gone = asyncio.Event()
    asked_for = asyncio.Event()

    async def proxy(reader: StreamReader, _writer: StreamWriter) -> None:
        await read_request(reader)
        asked_for.set()
        await reader.read()
        gone.set()

    async with listening(proxy) as port:
        generator = api("https://gemini.example", ALL_PROXY=f"http://127.0.0.1:{port}")
        asking = asyncio.create_task(chunks(generator))
        await asked_for.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await gone.wait()
        await generator.aclose()
