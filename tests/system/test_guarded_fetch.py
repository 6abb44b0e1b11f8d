"""Guarded fetches: hosts, redirects, refusals and results."""

import asyncio
import contextlib
import gzip
import ssl
import zlib
from collections.abc import Sequence

import pytest

from alhena.errors import ConfigError
from alhena.system.web.fetch import FetchLimits, GuardedFetcher
from alhena.system.web.url import (
    AnswerError,
    BlockedAddressError,
    FetchError,
    UnreachableError,
    parse_web_url,
)
from tests.system.web import PUBLIC, Web, plain, redirect, web

SITE = "http://site.example"


async def test_a_page_comes_from_the_address_that_was_checked() -> None:
    async with web() as net:
        net.answers["/a?b=c"] = plain("grüße".encode())
        page = await net.fetch(f"{SITE}/a?b=c")
        assert (page.text, page.mime, str(page.url)) == ("grüße", "text/plain", f"{SITE}/a?b=c")
        assert net.connected == [PUBLIC]
        assert net.asked == ["site.example"]
        assert "\r\nhost: site.example\r\n" in net.requests[0].lower()


async def test_a_name_that_first_is_public_and_then_private_is_looked_up_once() -> None:
    async with web({"rebind.example": [[PUBLIC], ["127.0.0.1"]]}) as net:
        net.answers["/"] = plain(b"public")
        assert (await net.fetch("http://rebind.example/")).text == "public"
        assert net.connected == [PUBLIC]
        with pytest.raises(BlockedAddressError, match="loopback"):
            await net.fetch("http://rebind.example/")
        assert net.connected == [PUBLIC]


@pytest.mark.parametrize("bad", ["10.0.0.1", "::1", "fe80::1%eth0", "::ffff:192.168.0.1", "bogus"])
async def test_one_address_that_is_not_public_is_enough_to_refuse_a_host(bad: str) -> None:
    async with web({"mixed.example": [[PUBLIC, bad]]}) as net:
        with pytest.raises(BlockedAddressError, match=r"not public.*run_shell_command"):
            await net.fetch("http://mixed.example/")
        assert net.connected == []


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    tried: list[str] = []

    async with web({"two.example": [["2606:4700::1", PUBLIC]]}) as net:
        net.answers["/"] = plain(b"second")

        def place(address: str, _port: int) -> tuple[str, int]:
            tried.append(address)
            return "127.0.0.1", 1 if ":" in address else net.port

        fetcher = GuardedFetcher(
            ssl.create_default_context, lambda _url: False, resolve=net.resolve, place=place
        )
        assert (await fetcher.fetch(parse_web_url("http://two.example/"))).text == "second"
    assert tried == ["2606:4700::1", PUBLIC]


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1/", "http://localhost:8080/", "//169.254.169.254/latest", "http://[::1]/",
     "http://inside.example/", "http://2130706433/", "file:///etc/passwd", "gopher://x/",
     "http://user:pw@site.example/", "http://metadata.google.internal/"],
)  # fmt: skip
async def test_a_redirect_to_anything_not_public_is_refused(location: str) -> None:
    async with web({"site.example": [[PUBLIC]], "inside.example": [["10.1.2.3"]]}) as net:
        net.answers["/"] = redirect(location)
        with pytest.raises(FetchError) as caught:
            await net.fetch(f"{SITE}/")
        assert "pw" not in str(caught.value)
        assert net.connected == [PUBLIC]


async def test_five_redirects_are_followed_and_a_sixth_is_not() -> None:
    async with web({"site.example": [[PUBLIC]], "other.example": [[PUBLIC]]}) as net:
        for hop in range(5):
            net.answers[f"/{hop}"] = redirect(f"/{hop + 1}", 301 + hop % 2)
        net.answers["/5"] = plain(b"arrived")
        page = await net.fetch(f"{SITE}/0")
        assert (page.text, str(page.url)) == ("arrived", f"{SITE}/5")
        net.answers["/5"] = redirect("//other.example/6")
        net.answers["/6"] = plain(b"too far")
        with pytest.raises(AnswerError, match="more than 5 redirects"):
            await net.fetch(f"{SITE}/0")
        assert (await net.fetch(f"{SITE}/1")).text == "too far"
        assert net.asked[-1] == "other.example"


async def test_a_redirect_address_in_raw_utf8_is_understood() -> None:
    async with web() as net:
        net.answers["/"] = redirect("/grüße")
        net.answers["/gr%C3%BC%C3%9Fe"] = plain(b"hello")
        assert (await net.fetch(f"{SITE}/")).text == "hello"


async def test_a_host_behind_a_proxy_is_not_fetched() -> None:
    async with web() as net:
        fetcher = net.fetcher(proxied=True)
        with pytest.raises(BlockedAddressError, match=r"proxy.*NO_PROXY"):
            await fetcher.fetch(parse_web_url(f"{SITE}/"))
        await fetcher.refuse_local(parse_web_url(f"{SITE}/"))
        with pytest.raises(BlockedAddressError):
            await fetcher.refuse_local(parse_web_url("http://10.0.0.1/"))
        assert net.asked == net.connected == []


async def test_a_name_unknown_here_is_not_called_local() -> None:
    async with web() as net:
        await net.fetcher().refuse_local(parse_web_url("http://unknown.example/"))
        with pytest.raises(UnreachableError, match=r"cannot find the host unknown\.example"):
            await net.fetch("http://unknown.example/")


async def test_compressed_text_is_read() -> None:
    async with web() as net:
        net.answers["/"] = plain(gzip.compress(b"one two"), "content-encoding: gzip")
        assert (await net.fetch(f"{SITE}/")).text == "one two"


async def test_a_bomb_is_stopped_by_its_size() -> None:
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(200)) + packer.flush()
    async with web() as net:
        net.answers["/"] = plain(bomb, "content-encoding: gzip")
        with pytest.raises(AnswerError, match="more than 10 MB"):
            await net.fetch(f"{SITE}/")


@pytest.mark.parametrize("length", ["", "content-length: 99999999999"])
async def test_more_than_the_limit_is_not_read(length: str) -> None:
    sent = 0

    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n{length}\r\n\r\n".encode())
        while True:
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()

    async with web() as net:
        net.answers["/"] = endless
        with pytest.raises(AnswerError, match="more than 1 MB"):
            await net.fetch(f"{SITE}/", limits=FetchLimits(size=1 << 20))
        await net.gone.wait()
    assert sent < 20 << 20


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (plain(b"short")[:-3], "gave no usable answer"),
        (plain(b"\x1f\x8bjunkjunkjunk", "content-encoding: gzip"), "gave no usable answer"),
        (b"", "gave no usable answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "gave no usable answer"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000, "gave no usable answer"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 50, "gave no usable answer"),
        (plain(b"no", status="404 Not Found"), "HTTP status 404"),
        (plain(b"", status="304 Not Modified"), "HTTP status 304"),
        (plain(b"%PDF", "content-type: application/pdf"), "type application/pdf, which is not tex"),
        (plain(b"x", "content-type: image/png"), "image/png, which is not text"),
        (plain(b"\x7fELF\0\0\1\2", "content-type: text/plain"), "binary data, not text"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_said_to_be_so(answer: bytes, message: str) -> None:
    async with web() as net:
        net.answers["/"] = answer
        with pytest.raises(AnswerError, match=message):
            await net.fetch(f"{SITE}/")


async def test_a_body_longer_than_its_length_is_cut_there() -> None:
    async with web() as net:
        net.answers["/"] = plain(b"right") + b"HTTP/1.1 200 OK\r\n\r\nsmuggled"
        assert (await net.fetch(f"{SITE}/")).text == "right"


@pytest.mark.parametrize("stage", ["head", "body"])
async def test_a_server_that_drips_is_given_up(stage: str) -> None:
    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        if stage == "body":
            writer.write(b"content-type: text/plain\r\n\r\n")
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0)

    async with web() as net:
        net.answers["/"] = drip
        limits = FetchLimits(total=0.3, size=1 << 40)
        with pytest.raises(FetchError):
            await net.fetch(f"{SITE}/", limits=limits)
        await net.gone.wait()


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with web() as net:
        net.answers["/"] = silent
        with pytest.raises(UnreachableError, match=r"did not answer completely within 0\.2 s"):
            await net.fetch(f"{SITE}/", limits=FetchLimits(total=0.2))


async def test_a_name_that_is_not_resolved_in_time_is_given_up() -> None:
    async def never(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return ()

    fetcher = GuardedFetcher(
        ssl.create_default_context,
        lambda _url: False,
        resolve=never,
        limits=FetchLimits(connect=0.1),
    )
    with pytest.raises(UnreachableError, match=r"cannot find the host site\.example within 0\.1 s"):
        await fetcher.fetch(parse_web_url(f"{SITE}/"))


async def test_cancelling_a_fetch_closes_its_connection() -> None:
    reached = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        reached.set()
        await reader.read()
        net.gone.set()

    async with web() as net:
        net.answers["/"] = hold
        fetching = asyncio.create_task(net.fetch(f"{SITE}/"))
        await reached.wait()
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await net.gone.wait()


async def test_https_to_a_server_without_tls_fails() -> None:
    async with web() as net:
        with pytest.raises(UnreachableError, match=r"no connection to site\.example"):
            await net.fetch("https://site.example/")


async def test_a_trust_store_that_cannot_be_read_is_a_fetch_error() -> None:
    def broken() -> ssl.SSLContext:
        raise ConfigError("SSL_CERT_FILE cannot be used.")

    async with web() as net:
        with pytest.raises(UnreachableError, match="SSL_CERT_FILE"):
            await net.fetcher(tls=broken).fetch(parse_web_url("https://site.example/"))


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("“é”".encode("cp1252"), "text/plain; charset=iso-8859-1", "“é”"),
        ("日本".encode("shift_jis"), 'text/plain; charset="Shift_JIS"', "日本"),
        ("é".encode("utf-16"), "text/plain; charset=latin-1", "é"),
        ("é".encode(), "text/plain; charset=no-such-thing", "é"),
        (b"caf\xe9", "text/plain", "café"),
        (b"a\xffb", "text/plain; charset=utf-8", "a\ufffdb"),
        ("<meta charset='windows-1251'>Да".encode("cp1251"), "text/html", None),
        (b"xn--a", "text/plain; charset=idna", "xn--a"),
        (b"6162", "text/plain; charset=hex", "6162"),
        ("Привет".encode("koi8-r"), "text/plain; charset=koi", "Привет"),
        ("ąę".encode("iso8859-2"), "text/plain; charset=iso88592", "ąę"),
        ("中文€".encode("gb18030"), "text/plain; charset=x-gbk", "中文€"),
        ("①髙".encode("cp932"), "text/plain; charset=x-sjis", "①髙"),
        ("똠".encode("cp949"), "text/plain; charset=ks_c_5601-1989", "똠"),
        ("שלום".encode("iso8859-8"), "text/plain; charset=logical", "שלום"),
        ("ğ".encode("cp1254"), "text/plain; charset=latin5", "ğ"),
        ("é".encode("utf-16-le"), "text/plain; charset=unicode", "é"),
        ("“é”".encode("mac-roman"), "text/plain; charset=macintosh", "“é”"),
        (b"a\xe9", "text/plain; charset=x-user-defined", "a\uf7e9"),
        ("中".encode("hz"), "text/plain; charset=hz-gb-2312", "中"),
        ("é".encode("cp437"), "text/plain; charset=cp437", "é"),
        ("<?xml version='1.0' encoding='windows-1251'?><p>Да".encode("cp1251"), "text/html", None),
    ],
)
async def test_text_is_decoded_as_it_was_meant(body: bytes, kind: str, text: str | None) -> None:
    async with web() as net:
        net.answers["/"] = plain(body, f"content-type: {kind}")
        found = (await net.fetch(f"{SITE}/")).text
        assert found == text or (text is None and found.endswith(">Да"))


async def test_an_answer_without_a_type_is_html_when_it_looks_like_it() -> None:
    async with web() as net:
        net.answers["/"] = b"HTTP/1.0 200 OK\r\n\r\n<!DOCTYPE html><p>x"
        assert (await net.fetch(f"{SITE}/")).is_html
        net.answers["/t"] = b"HTTP/1.0 200 OK\r\n\r\nwords"
        assert (await net.fetch(f"{SITE}/t")).mime == "text/plain"


async def test_no_page_leaves_a_fetcher_unusable() -> None:
    async with web() as net:
        fetcher = net.fetcher()
        for answer in (b"junk", plain(b"x", status="500 Oops"), plain(b"good")):
            net.answers["/"] = answer
            with contextlib.suppress(AnswerError):
                page = await fetcher.fetch(parse_web_url(f"{SITE}/"))
        assert page.text == "good"
        assert isinstance(net, Web)
