from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import ConfigError
from alhena.http.addresses import (
    Endpoint,
    is_header_value,
    is_loopback,
    parse_endpoint,
    parse_headers,
    parse_proxy,
)
from alhena.models.service import model_path, parse_version, user_agent
from tests.support.each import for_each

T = TypeVar("T")


@pytest.mark.parametrize(
    ("url", "endpoint", "authority"),
    [
        ("https://a.example", Endpoint("https", "a.example", 443), "a.example"),
        ("  HTTPS://A.Example/  ", Endpoint("https", "a.example", 443), "a.example"),
        ("http://a.example:80", Endpoint("http", "a.example", 80), "a.example"),
        ("https://a.example:8443//", Endpoint("https", "a.example", 8443), "a.example:8443"),
        ("http://[::1]:8/p/q/", Endpoint("http", "::1", 8, "/p/q"), "[::1]:8"),
        ("https://b\u00fccher.example", Endpoint("https", "xn--bcher-kva.example", 443), None),
        ("http://a/\u00e9%20;x=1", Endpoint("http", "a", 80, "/%C3%A9%20;x=1"), "a"),
    ],
)
def test_a_base_url_is_taken_apart(url: str, endpoint: Endpoint, authority: str | None):
    parsed = parse_endpoint(url, "SOME_URL")
    assert msgspec.structs.replace(parsed, source=endpoint.source) == endpoint
    assert parsed.source == "SOME_URL"
    assert parsed.authority == (authority or endpoint.host)


@for_each(
    "url",
    [
        "gemini",
        "ftp://a.example",
        "https://",
        "https:///path",
        "https://a.example:99999",
        "https://a.example:x",
        "https://a.example?key=1",
        "https://a.example#x",
        "https://a b.example",
        "https://a.example/\r\nHost: evil",
        "https://a\\b",
        "https://[::1",
        "https://a.example/\udcff",
        "https://" + "a" * 300,
        "https://a..example",
        "https://.a.example",
        "",
    ],
)
def test_an_address_that_cannot_be_used_is_told_by_the_name_of_its_source(url: str):
    with pytest.raises(ConfigError, match="SOME_URL") as caught:
        parse_endpoint(url, "SOME_URL")
    assert caught.value.exit_code == 52
    assert str(caught.value).isprintable()


def test_the_host_of_a_proxy_may_have_any_letters():
    assert parse_proxy("http://b\u00fccher.example:1").host == "xn--bcher-kva.example"


def test_a_password_in_an_address_is_refused_and_not_repeated():
    with pytest.raises(ConfigError, match="password") as caught:
        parse_endpoint("https://me:hush@a.example", "SOME_URL")
    assert "hush" not in str(caught.value)


def outcome(parse: Callable[[str, str], T], text: str) -> tuple[T | None, str]:
    """Result of parsing, or the error message."""
    try:
        return parse(text, "SOURCE"), ""
    except ConfigError as error:
        return None, str(error)


@given(st.text())
def test_any_address_parses_or_is_a_configuration_error(url: str):
    endpoint, refusal = outcome(parse_endpoint, url)
    assert refusal.isprintable()
    if endpoint is not None:
        assert is_header_value(endpoint.authority)
        assert is_header_value(endpoint.prefix)


@given(st.text())
def test_any_model_name_is_one_path_segment(model: str):
    path = model_path(model)
    url = urlsplit(f"http://a/v1beta/{path}:generateContent?alt=sse")
    assert url.path.count("/") == 3
    assert url.path.endswith(":generateContent")
    assert (url.query, url.fragment) == ("alt=sse", "")
    assert is_header_value(path)
    assert is_header_value(user_agent(model))


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("", {}),
        ("X-A: 1", {"x-a": "1"}),
        (" X-A : 1 , x-b:2,", {"x-a": "1", "x-b": "2"}),
        ("X-A: 1, 2, X-B: http://c:3/d, e", {"x-a": "1, 2", "x-b": "http://c:3/d, e"}),
        ("X-A: 1, X-A: 2", {"x-a": "2"}),
        ("X-A:", {"x-a": ""}),
    ],
)
def test_headers_are_split_where_a_name_follows(text: str, headers: dict[str, str]):
    assert parse_headers(text, "H") == headers


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_any_header_text_parses_to_sendable_headers_or_is_refused(text: str):
    headers, refusal = outcome(parse_headers, text)
    assert refusal.isprintable()
    assert all(is_header_value(value) for value in (headers or {}).values())


@pytest.mark.parametrize("version", ["", "1", "v1/../v2", "v1?x", "v1 beta", "v1\n"])
def test_a_version_is_one_plain_segment(version: str):
    with pytest.raises(ConfigError, match="SOME_VERSION"):
        parse_version(version, "SOME_VERSION")


def test_only_this_machine_is_loopback():
    assert [is_loopback(h) for h in ("localhost", "127.0.0.1", "127.9.9.9", "::1")] == [True] * 4
    assert not any(is_loopback(h) for h in ("127.evil.example", "10.0.0.1", "localhost.example"))
