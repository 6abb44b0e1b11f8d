"""The page in a real browser: what a person sees and does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alhena.models.prices import Prices
from alhena.telemetry.records import Redaction
from alhena.tracing.page import as_page
from alhena.tracing.timeline import read_timeline
from tests.support.command import alhena
from tests.tracing.browser import CHROMIUM, Browser
from tests.tracing.kit import long_journal, place, record_journal

pytestmark = [
    pytest.mark.requirement("VIEW-01"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)"),
]
ROWS = "[...document.querySelectorAll('.row')]"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def labels(browser: Browser) -> list[str]:
    return browser.run(f"{ROWS}.map((row) => row.querySelector('button').innerText)")


def details(browser: Browser) -> str:
    return browser.run(
        "document.querySelector('#details').hidden ? '' : document.querySelector('#details').innerText"
    )


def test_calls_open_by_click_and_by_keyboard_and_are_found(project: Path, browser: Browser):
    place(record_journal(), project)
    assert alhena("trace", "--html", "t.html").code == 0
    browser.open(project / "t.html")
    assert browser.run("document.documentElement.lang") == "en"
    assert browser.run("document.querySelector('h1').innerText") == "Look <b>around</b>."
    assert any("Read" in each for each in labels(browser))

    at = next(n for n, each in enumerate(labels(browser), 1) if each.startswith("Edit"))
    browser.click(f".row:nth-child({at}) button")
    shown = details(browser)
    assert all(each in shown for each in ("auto-edit.toml", "-hello <script>", "old_string"))
    browser.press("Escape")
    assert details(browser) == ""

    browser.run(f"{ROWS}[0].querySelector('button').focus()")
    for _ in range(2):
        browser.press("Tab")
    browser.press("Enter")
    assert details(browser).startswith("Read")
    assert "[redacted]" in details(browser)
    browser.press("Escape")
    focused = browser.run("document.activeElement.innerText")
    assert focused.startswith("Read")

    browser.click("#search")
    browser.type("CURL")
    (only,) = labels(browser)
    assert only.startswith("Shell")
    assert browser.run("document.querySelector('#found').innerText") == "1 found"
    assert browser.problems == []


def test_the_timeline_zooms_and_has_a_lane_for_each_subagent(project: Path, browser: Browser):
    place(record_journal(), project)
    assert alhena("trace", "--html", "t.html").code == 0
    browser.open(project / "t.html")
    width = "document.querySelector('.retry .bar').getBoundingClientRect().width"
    before = browser.run(width)
    browser.run("document.querySelector('[name=zoom]').focus()")
    browser.run(
        "zoom.value = 50; zoom.dispatchEvent(new Event('input'))".replace("zoom.", "byId('zoom').")
    )
    assert browser.run(width) > 5 * before
    names = browser.run(
        "[...document.querySelectorAll('.lane button')].map((each) => each.innerText)"
    )
    assert names == ["main", "generalist"]
    browser.click(".lane:last-child button")
    assert [each.split("\n")[0] for each in labels(browser)] == [
        "gemini-2.5-flash",
        "List",
        "gemini-2.5-flash",
        "Report",
    ]
    assert browser.run("document.querySelectorAll('#usage path').length") == 2
    assert browser.problems == []


def test_both_colour_schemes_are_readable(project: Path, browser: Browser):
    place(record_journal(), project)
    assert alhena("trace", "--html", "t.html").code == 0
    seen: list[Any] = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.send("Emulation.setEmulatedMedia", features=features)
        browser.open(project / "t.html")
        style = "getComputedStyle(document.body)"
        seen.append(browser.run(f"[{style}.backgroundColor, {style}.color]"))
    assert seen == [
        ["rgb(255, 255, 255)", "rgb(28, 30, 33)"],
        ["rgb(22, 24, 28)", "rgb(228, 230, 234)"],
    ]


def test_of_many_calls_only_those_in_sight_are_in_the_document(tmp_path: Path, browser: Browser):
    journal = long_journal(tmp_path / "s.jsonl", 10_000)
    timeline = read_timeline(journal, Prices({}))
    page = as_page(timeline, Redaction({}), journal_size=journal.stat().st_size)
    (tmp_path / "t.html").write_bytes(page)
    browser.open(tmp_path / "t.html")
    assert 20 < browser.run(f"{ROWS}.length") < 100
    browser.run("byId('list').scrollTop = byId('list').scrollHeight")
    browser.drawn()
    assert "module_9999" in browser.run(f"{ROWS}.at(-1).dataset.place; textOf(shown.at(-1))")
    browser.run(f"{ROWS}.at(-1).querySelector('button').click()")
    assert "module_9999" in details(browser)
    browser.click("#search")
    browser.type("module_4321.py")
    assert browser.run("byId('found').innerText") == "1 found"
    assert browser.problems == []


def test_an_export_opens_with_the_conversation(project: Path, browser: Browser):
    place(record_journal(), project)
    assert alhena("sessions", "export", "s", "--output", "c.html").code == 0
    browser.open(project / "c.html")
    said = browser.run("byId('conversation').textContent")
    places = [
        said.index(each)
        for each in (
            "Look <b>around</b>.",
            "Now a change.",
            "Agent generalist",
            "All is <b>done</b>.",
        )
    ]
    assert places == sorted(places)
    browser.run("document.querySelector('summary').focus()")
    browser.press("Enter")
    assert browser.run("document.querySelector('summary').parentElement.open")
    assert "reading.toml" in browser.run("document.querySelector('details').textContent")
    browser.click("#show-timeline")
    assert any("Read" in each for each in labels(browser))
    assert browser.problems == []


HOSTILE = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    "<!--<script>{{data}}\u2028\u202e]]>"
)


def test_what_was_said_cannot_act(tmp_path: Path, browser: Browser):
    journal = long_journal(tmp_path / "s.jsonl", 3, HOSTILE)
    for view in ("timeline", "conversation"):
        page = as_page(read_timeline(journal, Prices({})), Redaction({}), view=view)
        (tmp_path / f"{view}.html").write_bytes(page)
        browser.open(tmp_path / f"{view}.html")
        if view == "timeline":
            browser.run("open(2, false)")
        assert "window.hacked = 1" in browser.run("document.body.textContent")
        assert browser.run("typeof window.hacked") == "undefined"
        assert browser.run("document.querySelectorAll('script').length") == 2
        assert browser.run("document.querySelectorAll('img').length") == 0
        assert browser.problems == []
