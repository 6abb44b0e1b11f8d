"""Hosts that a guarded fetch may reach."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.system.web.fetch import GuardedFetcher
from alhena.system.web.url import (
    BlockedAddressError,
    FetchError,
    UrlError,
    address_problem,
    host_problem,
    parse_web_url,
    raw_form,
    resolve_redirect,
)
from tests.support.each import for_each

EVIL_HOSTS = [
    "localhost", "LOCALHOST", "localhost.", "ip6-localhost", "IP6-LOOPBACK", "localhost6", "a.localhost", "printer.local", "db.internal",
    "metadata.google.internal", "metadata", "metadata.goog", "instance-data", "x.home.arpa",
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1",
    "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.01", "00000177.0.0.1", "0", "0.0.0.0",
    "0x", "1.2.3.0x4", "256.256.256.256", "10.0.0.1", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16",
    "192.0.0.192", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1",
    "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[::ffff:a00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2002:a00:1::1]", "[2001:0:1:2:3:4:5:6]",
    "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]",
    "[100::1]", "[2a00::5efe:a00:1]", "[2a00::200:5efe:a00:1]", "[::ffff:0:127.0.0.1]",
    "①②⑦.⓪.⓪.①", "１２７.0.0.1", "127。0。0。1", "ⓛocalhost", "ﬁle.ⓛocal",
]  # fmt: skip


@pytest.mark.parametrize("host", EVIL_HOSTS)
async def test_a_host_that_is_not_public_is_refused_however_it_is_spelled(host: str) -> None:
    async def never(*_args: object) -> list[str]:
        raise AssertionError("looked up")

    fetcher = GuardedFetcher(lambda: pytest.fail("tls"), lambda _url: False, resolve=never)
    for scheme in ("http", "https"):
        with pytest.raises((BlockedAddressError, UrlError)):
            await fetcher.fetch(parse_web_url(f"{scheme}://{host}/"))
        with pytest.raises((BlockedAddressError, UrlError)):
            await fetcher.refuse_local(parse_web_url(f"{scheme}://{host}:8080/x"))


async def test_every_address_of_a_name_counts_whichever_comes_first() -> None:
    for addresses in (["8.8.8.8", "127.0.0.1"], ["2606:4700::1111", "::1"], ["::ffff:10.0.0.1"]):

        async def resolve(_host: str, _port: int, given: list[str] = addresses) -> list[str]:
            return given

        fetcher = GuardedFetcher(lambda: pytest.fail("tls"), lambda _url: False, resolve=resolve)
        with pytest.raises(BlockedAddressError, match="leads to a place that is not public"):
            await fetcher.refuse_local(parse_web_url("http://in-the-hosts-file.example/"))


def test_an_address_that_stands_for_another_is_refused_in_a_sentence() -> None:
    assert address_problem("::ffff:127.0.0.1") == (
        "::ffff:7f00:1 contains 127.0.0.1, a loopback address"
    )
    assert address_problem("64:ff9b::a9fe:a9fe") == (
        "64:ff9b::a9fe:a9fe contains 169.254.169.254, a link-local address"
    )


@pytest.mark.parametrize(
    "host", ["example.com", "8.8.8.8", "1.1.1.1.", "2606:4700::1111", "64:ff9b::808:808",
             "::ffff:8.8.8.8", "localhost.example.com", "127.0.0.1.example.com", "0x7f.example"],
)  # fmt: skip
def test_a_public_host_is_not_refused(host: str) -> None:
    assert host_problem(host) is None


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_the_standard_library_calls_not_global_is_refused(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    known = isinstance(address, ipaddress.IPv6Address) and (
        address.ipv4_mapped is not None or address in ipaddress.ip_network("64:ff9b::/96")
    )
    if not known and (not address.is_global or address.is_multicast or address.is_reserved):
        assert address_problem(str(address)) is not None
    if isinstance(address, ipaddress.IPv4Address):
        for inner in (f"::ffff:{address}", f"64:ff9b::{address}"):
            assert (address_problem(inner) is None) == (address_problem(str(address)) is None)
        assert address_problem(str(ipaddress.IPv6Address(b"\x20\x02" + address.packed + bytes(10))))


@given(st.text())
def test_no_other_text_is_an_address(text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        assert address_problem(text) is not None


@given(st.text(max_size=60))
def test_parsing_a_url_gives_a_url_or_says_why_not(text: str) -> None:
    messages: list[str] = []
    for candidate in (text, f"http://{text}", f"https://host.example/{text}"):
        try:
            url = parse_web_url(candidate)
        except UrlError as error:
            messages.append(error.message)
            continue
        assert str(url).isascii()
        assert str(url).isprintable()
        assert " " not in str(url)
        assert parse_web_url(str(url)) == url
    assert "\n" not in "".join(messages)


@for_each("text", ["http://", "http:///path", "http://a b/", "http://a\\@b/", "http://a\tb/", "http://[::1",
     "http://a..b/", "http://%31%32%37.0.0.1/", "http://a%2fb/", "http://host:0/",
     "http://host:99999/", "http://host:x/", "//host/", "http://" + "a" * 300 + "/",
     "http://h/" + "a" * 9000, "http://[fe80::1%25eth0]/x y"])  # fmt: skip
def test_a_malformed_url_is_said_to_be_one(text: str) -> None:
    with pytest.raises(UrlError, match=r"Malformed URL|Unsupported protocol"):
        parse_web_url(text)


@pytest.mark.parametrize("text", ["ftp://h/", "file:///etc/passwd", "gopher://h:70/", "ws://h/"])
def test_other_schemes_are_unsupported(text: str) -> None:
    with pytest.raises(UrlError, match=r"Unsupported protocol in URL: .*Only http and https"):
        parse_web_url(text)


def test_credentials_are_refused_and_not_repeated() -> None:
    for text in ("https://user:s3cret@h.example/", "ftp://user:s3cret@h/", "http://:s3cret@h:x/"):
        with pytest.raises(FetchError) as caught:
            parse_web_url(text)
        assert "s3cret" not in str(caught.value)
    with pytest.raises(UrlError):
        resolve_redirect(parse_web_url("https://h.example/"), "//user@other.example/")


def test_what_names_the_same_page_has_one_form() -> None:
    forms = ["HTTP://Example.COM", "http://example.com:80/", "http://example.com#top"]
    assert {parse_web_url(form).key for form in forms} == {"http://example.com"}
    assert str(parse_web_url("https://münchen.example/ä?q=ü%20x")) == (
        "https://xn--mnchen-3ya.example/%C3%A4?q=%C3%BC%20x"
    )


@pytest.mark.requirement("TOOLS-17")
def test_a_github_page_of_a_file_is_read_as_the_file() -> None:
    page = parse_web_url("https://github.com/o/r/blob/main/docs/a%20b.md?plain=1#L3")
    assert str(raw_form(page)) == "https://raw.githubusercontent.com/o/r/main/docs/a%20b.md"
    for other in ("https://github.com/o/r", "https://github.example/o/r/blob/main/x"):
        assert str(raw_form(parse_web_url(other))) == other
