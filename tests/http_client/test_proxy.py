import base64
from asyncio import StreamReader, StreamWriter, open_connection
from pathlib import Path

import pytest

from alhena.errors import ConfigError, NetworkError
from alhena.http.addresses import parse_endpoint, proxy_for
from tests.http_client.test_transport import greet
from tests.models.asking import (
    MODEL,
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
from tests.support.each import for_each

URL = "https://gemini.example"


@for_each(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1", "HTTPS_PROXY": "http://q:2"}, "http://p:1"),
        ({"https_proxy": "", "HTTPS_PROXY": "http://q:2"}, None),
        ({"HTTP_PROXY": "http://p:1"}, None),
        ({"ALL_PROXY": "p:1"}, "http://p:1"),
        ({"all_proxy": "socks5://p:1"}, "socks5://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ({"HTTPS_PROXY": "http://p:1", "no_proxy": "other, gemini.example"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*.EXAMPLE"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "gemini.example:443"}, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "gemini.example:8443"}, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "mini.example,,/,10.0.0.0/8"}, "http://p:1"),
    ],
)
def test_the_proxy_is_the_one_the_variables_name(environ: dict[str, str], proxy: str | None):
    assert proxy_for(parse_endpoint(URL, "url"), environ) == proxy


@pytest.mark.parametrize(
    ("url", "listed", "direct"),
    [
        ("http://10.1.2.3", "10.0.0.0/8", True),
        ("http://11.1.2.3", "10.0.0.0/8", False),
        ("http://[::1]:8080", "::1", True),
        ("http://[::1]:8080", "[::1]:8080", True),
        ("http://[::1]:8080", "[::1]:9", False),
        ("http://localhost:8080", "localhost", True),
        ("http://notlocalhost:8080", "localhost", False),
    ],
)
def test_addresses_and_networks_are_reached_directly(url: str, listed: str, direct: bool):
    environ = {"HTTP_PROXY": "http://p:1", "NO_PROXY": listed}
    assert (proxy_for(parse_endpoint(url, "url"), environ) is None) is direct


def test_a_cgi_client_cannot_name_the_proxy():
    environ = {"HTTP_PROXY": "http://evil", "REQUEST_METHOD": "GET"}
    assert proxy_for(parse_endpoint("http://gemini.example", "url"), environ) is None


@pytest.mark.requirement("WIRE-17")
async def test_plain_requests_go_through_the_proxy_on_one_connection():
    seen: list[tuple[str, dict[str, str]]] = []
    connections = 0

    async def proxy(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            line, headers, _body = await read_request(reader)
            seen.append((line, headers))
            writer.write(response(event("by proxy")))

    async with listening(proxy) as port:
        generator = api(
            "http://gemini.example/a%2Fb",
            HTTP_PROXY=f"http://user:p%40ss@127.0.0.1:{port}",
            NO_PROXY="localhost",
        )
        assert texts(await chunks(generator)) == ["by proxy"]
        assert texts(await chunks(generator, asked(model="a/b?c"))) == ["by proxy"]
        await generator.aclose()
    target = "POST http://gemini.example/a%2Fb/v1beta/models"
    ending = ":streamGenerateContent?alt=sse HTTP/1.1"
    assert [line for line, _ in seen] == [
        f"{target}/{MODEL}{ending}",
        f"{target}/a%2Fb%3Fc{ending}",
    ]
    headers = seen[0][1]
    assert headers["host"] == "gemini.example"
    sent = base64.b64decode(headers["proxy-authorization"].removeprefix("Basic "))
    assert sent == b"user:p@ss"
    assert connections == 1


async def tunnel(reader: StreamReader, writer: StreamWriter) -> None:
    line, _headers, _body = await read_request(reader)
    host, port = line.split()[1].split(":")
    far = await open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await joined((reader, writer), far)


@pytest.mark.requirement("WIRE-17")
async def test_encrypted_requests_are_tunnelled_and_verified(tmp_path: Path):
    public, context = certificate(tmp_path)
    async with listening(greet, context) as port, listening(tunnel) as proxy:
        url = f"https://localhost:{port}"
        proxied = {"https_proxy": f"http://127.0.0.1:{proxy}"}
        generator = api(url, SSL_CERT_FILE=str(public), **proxied)
        assert texts(await chunks(generator)) == ["secure"]
        await generator.aclose()
        wary = api(url, **proxied)
        with pytest.raises(NetworkError, match=f"localhost:{port}"):
            await chunks(wary)
        await wary.aclose()


async def test_a_proxy_that_refuses_is_named_without_its_password():
    async def proxy(reader: StreamReader, writer: StreamWriter) -> None:
        line, _headers, _body = await read_request(reader)
        status = "403 Forbidden" if line.startswith("CONNECT") else "407 Proxy Auth"
        writer.write(response(b"", status=status))

    async with listening(proxy) as port:
        address = f"http://user:hush@127.0.0.1:{port}"
        for url, code in (("https://gemini.example", "403"), ("http://gemini.example", "407")):
            generator = api(url, ALL_PROXY=address)
            with pytest.raises(NetworkError, match=code) as caught:
                await chunks(generator)
            await generator.aclose()
            assert f"127.0.0.1:{port}" in str(caught.value)
            assert "HTTPS_PROXY" in str(caught.value)
            assert "hush" not in str(caught.value)


async def test_a_proxy_that_is_not_there_is_named():
    async with listening(greet) as port:
        pass
    generator = api("http://gemini.example", HTTP_PROXY=f"http://127.0.0.1:{port}")
    with pytest.raises(NetworkError, match=f"127.0.0.1:{port}".replace(".", r"\.")):
        await chunks(generator)
    await generator.aclose()


@pytest.mark.parametrize(
    "address",
    [
        "http://u:hush@host:port",
        "gopher://u:hush@host",
        "http://u:hush@host:0",
        "http://u:hush@",
        "http://u:hush@a..b:1",
        "http://u:hush@[::1",
        "socks4://u:hush@host:1",
    ],
)
async def test_a_proxy_address_that_cannot_be_used_is_a_configuration_error(address: str):
    generator = api("http://gemini.example", HTTP_PROXY=address)
    with pytest.raises(ConfigError, match="proxy") as caught:
        await chunks(generator)
    assert "hush" not in str(caught.value)
