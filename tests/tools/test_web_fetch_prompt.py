"""URLs are found in prompts as people and models write them; outside text stays marked."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.tools.builtin.web_fetch import HostRate, fair_shares, mark_untrusted, urls_in
from tests.support.each import for_each


@for_each(("prompt", "urls"), [
        ("Read https://a.example/x.", ["https://a.example/x"]),
        ("(see https://a.example/x_(y)), ok?", ["https://a.example/x_(y)"]),
        ("[text](https://a.example/x), and <https://b.example/>",
         ["https://a.example/x", "https://b.example/"]),
        ('"https://a.example/?q=1&r=2#frag"', ["https://a.example/?q=1&r=2"]),
        ("https://a.example,https://b.example;", ["https://a.example/", "https://b.example/"]),
        ("https://web.archive.org/web/2020/https://a.example/",
         ["https://web.archive.org/web/2020/https://a.example/"]),
        ("HTTPS://A.Example:443/ https://a.example https://a.example/#x", ["https://a.example/"]),
        ("**https://a.example/p** `https://b.example/q`",
         ["https://a.example/p", "https://b.example/q"]),
        ("参照：https://a.example/説明。", ["https://a.example/%E8%AA%AC%E6%98%8E"]),
        ("url=https://a.example/x\nnext", ["https://a.example/x"]),
        ("http://[2606:4700::1111]:8080/x]", ["http://[2606:4700::1111]:8080/x"]),
        ("nothing at a.example or //b.example/", []),
    ])  # fmt: skip
def test_urls_are_found_where_they_end(prompt: str, urls: list[str]) -> None:
    found, problems = urls_in(prompt)
    assert ([str(url) for url in found], problems) == (urls, [])


@pytest.mark.parametrize("prompt", ["a:// b", "://", "see ://x", "1://h", "http://a b://c"])
def test_what_looks_like_a_url_and_is_none_is_named(prompt: str) -> None:
    assert urls_in(prompt)[1]


@given(st.text())
def test_any_text_can_be_searched_for_urls(text: str) -> None:
    urls, problems = urls_in(f"{text} https://a.example/ {text}://{text}")
    assert [str(url) for url in urls].count("https://a.example/") == 1
    assert all("\n" not in problem for problem in problems)


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(0, 3000))
def test_shares_are_fair(lengths: list[int], budget: int) -> None:
    shares = fair_shares(lengths, budget)
    assert all(share <= length for share, length in zip(shares, lengths, strict=True))
    assert sum(shares) == min(sum(lengths), budget)
    cut = [s for s, length in zip(shares, lengths, strict=True) if s < length]
    assert not cut or max(shares) <= min(cut) + 1


@given(st.text() | st.from_regex(r"(<\s*/?\s*(untrusted_context|UNTRUSTED_context)\s*>|a)*"))
def test_marked_text_cannot_close_its_mark(text: str) -> None:
    marked = mark_untrusted(text)
    assert len(re.findall(r"<\s*/\s*untrusted_context\b", marked, re.IGNORECASE)) == 1
    assert marked.endswith("\n</untrusted_context>")


def test_a_host_may_be_asked_again_when_its_oldest_request_is_old_enough() -> None:
    now = 0.0
    rate = HostRate(2, 60.0, lambda: now)
    assert [rate.wait("a"), rate.wait("a"), rate.wait("b")] == [0, 0, 0]
    now = 20.0
    assert rate.wait("a") == 40.0
    now = 60.0
    assert [rate.wait("a"), rate.wait("a")] == [0, 0]
    for host in range(5000):
        now += 1
        assert rate.wait(str(host)) == 0


@pytest.mark.parametrize(
    "prompt",
    ["a" * 200_000 + "/://", "https://x/" + ")" * 200_000, "https://x/" + ")" * 9_000,
     "https://" * 30_000, "http://" + "a." * 100_000, "http://a/," * 20_000],
)  # fmt: skip
def test_no_prompt_takes_long_to_search(prompt: str) -> None:
    urls, problems = urls_in(prompt)
    assert urls or problems
