"""Names that mean another address a moment later: requests of a sign-in go where was looked."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from alhena.mcp.oauth.requests import OAuthHttp
from alhena.mcp.oauth.tokens import SignInError
from tests.mcp.oauth_kit import sign
from tests.mcp.oauth_server import OAuthServer
from tests.support.certificates import certificate

PUBLIC, OTHER = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
SERVER = f"https://{PUBLIC}/mcp"


class Names:
    """Name resolution with scripted answers; the last one repeats."""

    def __init__(self, *answers: Sequence[str] | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(f"{host}:{port}")
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if found is None:
            raise OSError("no such name")
        return found


class Body(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{}"


class Wire(httpx2.AsyncBaseTransport):
    """Answers each request, and keeps it. `dead` are hosts that nothing listens at."""

    def __init__(self, *dead: str, location: str = "") -> None:
        self.sent: list[httpx2.Request] = []
        self._dead = dead
        self._location = location

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        if request.url.host in self._dead:
            raise httpx2.ConnectError("refused")
        if self._location and request.url.path == "/from":
            return httpx2.Response(302, headers={"Location": self._location}, stream=Body())
        return httpx2.Response(200, stream=Body())


@asynccontextmanager
async def guard(
    names: Names, wire: httpx2.AsyncBaseTransport, server: str = SERVER
) -> AsyncIterator[OAuthHttp]:
    class Nobody(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise AssertionError(f"{request.url} was asked by its name")

    async with (
        httpx2.AsyncClient(transport=Nobody()) as client,
        httpx2.AsyncClient(transport=wire) as direct,
    ):
        yield OAuthHttp(client, server, direct=direct, resolve=names)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.requirement("MCP-07")
async def test_a_name_is_looked_up_once_and_the_request_goes_to_that_address() -> None:
    names, wire = Names([PUBLIC], ["10.0.0.1"]), Wire()
    async with guard(names, wire) as http:
        await http.send(httpx2.Request("POST", "https://auth.example/token?a=1", content=b"x=1"))
    assert names.asked == ["auth.example:443"]
    (sent,) = wire.sent
    assert str(sent.url) == f"https://{PUBLIC}/token?a=1"
    assert sent.headers["host"] == "auth.example"
    assert sent.extensions["sni_hostname"] == "auth.example"
    assert sent.content == b"x=1"


@pytest.mark.parametrize("found", [["10.0.0.1"], [PUBLIC, "127.0.0.1"], ["::1"], ["fe80::1%lo"]])
async def test_one_that_leads_into_the_local_network_is_not_asked(found: list[str]) -> None:
    wire = Wire()
    async with guard(Names(found), wire) as http:
        with pytest.raises(SignInError, match=r"names https://auth\.example for signing in"):
            await http.send(httpx2.Request("GET", "https://auth.example/"))
    assert wire.sent == []


@pytest.mark.parametrize("found", [None, []])
async def test_one_that_means_nothing_now_is_not_asked_by_what_it_means_then(
    found: list[str] | None,
) -> None:
    wire = Wire()
    async with guard(Names(found, ["10.0.0.1"]), wire) as http:
        with pytest.raises(SignInError, match="its name is not known"):
            await http.send(httpx2.Request("GET", "https://auth.example/"))
    assert wire.sent == []


async def test_the_next_address_is_taken_where_one_is_dead() -> None:
    wire = Wire(OTHER)
    async with guard(Names([OTHER, PUBLIC]), wire) as http:
        answer = await http.send(httpx2.Request("GET", "https://auth.example:8443/x"))
    assert answer.status_code == 200
    assert [str(sent.url) for sent in wire.sent] == [
        f"https://[{OTHER}]:8443/x",
        f"https://{PUBLIC}:8443/x",
    ]
    assert {sent.headers["host"] for sent in wire.sent} == {"auth.example:8443"}


@pytest.mark.parametrize(
    "location", ["/to", "https://auth.example/to", "https://auth.example:443/to"]
)
async def test_a_redirect_within_the_origin_is_looked_at_anew(location: str) -> None:
    wire = Wire(location=location)
    async with guard(Names([PUBLIC]), wire) as http:
        answer = await http.send(httpx2.Request("GET", "https://auth.example/from"))
    assert answer.status_code == 200
    assert str(wire.sent[-1].url) == f"https://{PUBLIC}/to"
    wire = Wire(location=location)
    async with guard(Names([PUBLIC], ["10.0.0.1"]), wire) as http:
        with pytest.raises(SignInError, match="for signing in"):
            await http.send(httpx2.Request("GET", "https://auth.example/from"))
    assert len(wire.sent) == 1


@pytest.mark.parametrize("location", ["https://other.example/", f"https://{PUBLIC}/to"])
async def test_a_redirect_elsewhere_is_not_followed(location: str) -> None:
    wire = Wire(location=location)
    async with guard(Names([PUBLIC]), wire) as http:
        answer = await http.send(httpx2.Request("GET", "https://auth.example/from"))
    assert answer.status_code == 302
    assert len(wire.sent) == 1


@pytest.mark.parametrize("location", ["https://auth.example:x/", "//"])
async def test_a_redirect_to_nowhere_is_told(location: str) -> None:
    async with guard(Names([PUBLIC]), Wire(location=location)) as http:
        with pytest.raises(SignInError):
            await http.send(httpx2.Request("GET", "https://auth.example/from"))


async def test_a_server_is_where_it_was_reached_whatever_its_name_means_later() -> None:
    near = Names(["10.0.0.1"])
    async with guard(near, Wire(), "https://mcp.example/mcp") as http:
        http.record_address(PUBLIC)
        with pytest.raises(SignInError, match="for signing in"):
            await http.send(httpx2.Request("GET", "https://auth.example/"))


async def test_a_sign_in_takes_note_of_where_the_server_was_reached(
    guarded: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    monkeypatch.setattr(OAuthHttp, "record_address", lambda _http, address: reached.append(address))
    await sign(guarded)
    assert reached == ["127.0.0.1"]


@pytest.mark.parametrize(("proxy", "asked"), [("https_proxy", True), ("http_proxy", False)])
async def test_behind_a_proxy_that_looks_up_the_name(
    proxy: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(proxy, "http://proxy.example:3128")
    by_name, direct = Wire(), Wire()
    async with (
        httpx2.AsyncClient(transport=by_name) as client,
        httpx2.AsyncClient(transport=direct) as other,
    ):
        http = OAuthHttp(client, SERVER, direct=other, resolve=Names([PUBLIC]))
        await http.send(httpx2.Request("GET", "https://auth.example/"))
        monkeypatch.setenv("no_proxy", "auth.example")
        await http.send(httpx2.Request("GET", "https://auth.example/"))
    assert (len(by_name.sent), len(direct.sent)) == ((1, 1) if asked else (0, 2))


async def test_the_certificate_has_to_be_that_of_the_name(tmp_path: Path) -> None:
    """Over real TLS: the connection goes to an address, the certificate is for a name."""
    authority, context = certificate(tmp_path, "auth.example")
    shown: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: shown.append(name)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    trusting = ssl.create_default_context(cafile=str(authority))

    class Here(httpx2.AsyncHTTPTransport):
        """The public internet is this machine."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            assert request.url.host == PUBLIC
            request.url = request.url.copy_with(host="127.0.0.1", port=port)
            return await super().handle_async_request(request)

    async with server, guard(Names([PUBLIC]), Here(verify=trusting)) as http:
        answered = await http.send(httpx2.Request("GET", "https://auth.example/"))
        assert answered.status_code == 200
        assert shown == ["auth.example"]
        with pytest.raises(SignInError, match="cannot be reached"):
            await http.send(httpx2.Request("GET", "https://evil.example/"))
