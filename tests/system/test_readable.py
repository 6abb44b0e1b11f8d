"""HTML becomes text that a model can read, in a process that a page cannot keep."""

import asyncio
import os
from pathlib import Path

import pytest

from alhena.system.web.fetch import WebPage
from alhena.system.web.readable import ReadableText, readable
from alhena.system.web.url import AnswerError, parse_web_url

BASE = parse_web_url("https://h.example/d/page.html")


PAGE = """<!doctype html><head><title>T &amp;
        U</title><style>p{}</style><script>evil()</script></head>
        <body><nav><a href=/n>Nav</a></nav><h1>Head</h1><p>Some <b>bold</b>
        <a href="../rel?x=1">link</a>, <a href="javascript:x()">js</a> and <code>x = 1</code>.
        <p hidden>secret</p><noscript>ns</noscript><template>tt</template><!-- c -->
        <ul><li>one<li>two<ol><li>deep<li>er</ol></ul>
        <pre>def f():
    return 1
</pre><table><tr><th>a<th>b<tr><td>1<td>2</table><img alt="a cat" src=c.png>
        line<br>break<p>"""


async def text_of(html: str, **options: float) -> ReadableText:
    return await readable(WebPage(BASE, "text/html", html), **options)


@pytest.mark.requirement("TOOLS-17")
async def test_a_page_keeps_its_structure_and_loses_what_nobody_reads() -> None:
    found = await text_of(PAGE + "filler " * 40)
    assert found.title == "T & U"
    assert not found.cut
    assert found.text.removesuffix("\n\n" + ("filler " * 40).strip()) == (
        "# Head\n\nSome bold link <https://h.example/rel?x=1>, js and `x = 1`.\n\n"
        "- one\n- two\n  1. deep\n  2. er\n\n```\ndef f():\n    return 1\n```\n\n"
        "a | b\n1 | 2\n\n[image: a cat] line\nbreak"
    )


async def test_a_page_that_is_navigation_only_is_shown() -> None:
    assert (await text_of("<nav><ul><li><a href='/a'>A</a></ul></nav>")).text == (
        "- A <https://h.example/a>"
    )


async def test_text_that_is_not_html_stays_as_it_is() -> None:
    page = WebPage(BASE, "text/plain", "<b>1</b>\n")
    assert await readable(page) == ReadableText("<b>1</b>\n")
    assert await readable(page, max_chars=3) == ReadableText("<b>", cut=True)


async def test_more_than_is_wanted_is_cut() -> None:
    found = await text_of("<p>abc " * 1000, max_chars=100)
    assert 90 < len(found.text) <= 100
    assert found.cut


@pytest.mark.parametrize(
    "html",
    ["", "\0", "\ud800<p>x", "<" * 10_000, "<ul>" * 300 + "x", "<b><i>" * 500 + "x", "</ul></li>x",
     "<a href='http://[x'>l</a>", "<p><a href='" + "x" * 100_000, "<li>x</pre></ol>"],
)  # fmt: skip
async def test_odd_pages_have_a_text(html: str) -> None:
    assert isinstance((await text_of(html)).text, str)


async def test_a_page_made_to_take_for_ever_is_given_up() -> None:
    with pytest.raises(AnswerError, match=r"https://h\.example/d/page\.html .*convert"):
        await text_of("<div>" * 2_000_000, limit=0.5)


async def test_cancelling_ends_the_converter(tmp_path: Path) -> None:
    def children() -> set[str]:
        found: set[str] = set()
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    stat = Path(f"/proc/{entry}/stat").read_text(encoding="ascii", errors="replace")
                except OSError:
                    continue
                if stat.rpartition(")")[2].split()[1] == str(os.getpid()):
                    found.add(entry)
        return found

    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    before = children()
    converting = asyncio.create_task(text_of("<div>" * 2_000_000))
    while children() <= before:
        await asyncio.sleep(0)
    converting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await converting
    assert children() <= before


async def test_nothing_is_imported_from_the_working_directory(project: Path) -> None:
    for name in ("selectolax.py", "json.py", "alhena.py"):
        (project / name).write_text("raise SystemExit('hijacked')", encoding="utf-8")
    assert (await text_of("<p>fine")).text == "fine"
