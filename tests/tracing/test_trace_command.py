"""`alhena trace` on a session that the real command recorded."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from alhena.config.home import project_temp
from alhena.session.records import line_of
from alhena.session.store import open_store
from tests.session.kit import HEADER
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text
from tests.tracing.kit import SECRET, data_of, exported_page, long_journal, place, record_journal

pytestmark = pytest.mark.requirement("VIEW-01")


def test_the_timeline_tells_times_tokens_cost_retries_and_decisions_with_their_rule(project: Path):
    place(record_journal(), project)
    ran = alhena("trace")
    assert (ran.code, ran.err) == (0, "")
    head, _, body = ran.out.partition("\n\n")
    assert head.startswith("Session s  Look <b>around</b>.\n")
    assert " in 7 requests" in head
    assert " in 6 calls (1 failed)" in head
    assert "waiting for a person 0 ms · 1 retry" in head
    assert "tokens 6,000 in (0 cached), 600 out · cost $0.0033" in head
    lines = [line[21:] for line in body.splitlines()[1:]]
    names = [line.split(" · ")[0].strip() for line in lines]
    assert names == [
        "prompt",
        "model gemini-2.5-flash",
        "Read a.txt",
        "Shell curl example.com",
        "error gemini-2.5-flash",
        "retry gemini-2.5-flash",
        "model gemini-2.5-flash",
        "Edit a.txt",
        "model gemini-2.5-flash",
        "Agent generalist: List it.",
        "[generalist] model gemini-2.5-flash",
        "[generalist] List .",
        "[generalist] model gemini-2.5-flash",
        "[generalist] Report There is a.txt.",
        "model gemini-2.5-flash",
    ]
    assert lines[1].endswith("1,000 tokens in, 100 out · $0.00055")
    assert "allowed by the default policy (reading.toml:" in lines[2]
    assert "error · denied (approval required by the default policy" in lines[3]
    assert "curl uses the network" in lines[3]
    assert "HTTP 429" in lines[4]
    assert "attempt 2 of 10" in lines[5]
    assert "(reading.toml:" in lines[11]


def test_json_has_every_step_and_its_totals(project: Path):
    place(record_journal(), project, "abc-1")
    place(record_journal(), project, "other")
    told = alhena("trace", "abc", "--json").json
    assert told["session"]["sessionId"] == "abc-1"
    assert told["lanes"] == ["main", "generalist"]
    totals = told["totals"]
    assert (totals["requests"], totals["calls"], totals["retries"]) == (7, 6, 1)
    steps = {each.get("callId", n): each for n, each in enumerate(told["steps"])}
    edit, inner, outer = steps["e1"], steps["d1/l1"], steps["d1"]
    assert edit["args"] == {"file_path": "a.txt", "old_string": "hello", "new_string": "goodbye"}
    assert "+goodbye <script>" in edit["diff"]
    assert (edit["decision"], edit["rule"][:19]) == ("allowed", "default (auto-edit.")
    assert (inner["lane"], outer["ownLane"]) == (1, 1)
    assert "a.txt" in inner["result"]
    assert outer["at"] <= inner["at"] <= outer["at"] + outer["took"]
    delegated = sum(each["took"] for each in told["steps"] if each["kind"] == "tool")
    assert totals["toolTime"] == pytest.approx(delegated - outer["took"], abs=0.2)


def test_secrets_are_in_no_form_of_it(project: Path):
    own = "own-credential-123"
    data = record_journal().replace(b"List it.", own.encode())
    place(data, project)
    alhena("trace", "--html", "page.html", GEMINI_API_KEY=own)
    alhena("sessions", "export", "s", "--output", "talk.html", GEMINI_API_KEY=own)
    forms = [
        alhena("trace", GEMINI_API_KEY=own).out,
        alhena("trace", "--json", GEMINI_API_KEY=own).out,
        Path("page.html").read_text(encoding="utf-8"),
        Path("talk.html").read_text(encoding="utf-8"),
    ]
    assert SECRET.encode() in data
    for form in forms:
        assert SECRET not in form
        assert own not in form
        assert "[redacted]" in form
    # JSON is for programs that read the session again.
    assert SECRET in alhena("sessions", "export", "s", "--format", "json").out


def test_a_credential_of_the_session_is_redacted_even_where_it_would_be_cut(project: Path):
    own = "credential-" + "z" * 40
    for filler in (100, 5_000):
        journal = long_journal(project / "j.jsonl", 1_300, "y" * filler + own)
        place(journal.read_bytes(), project)
        for arguments in (("--json",), ("--html", f"{filler}.html")):
            ran = alhena("trace", *arguments, GEMINI_API_KEY=own)
            shown = ran.out if "--json" in arguments else Path(f"{filler}.html").read_text()
            assert "credential-z" not in shown


def test_a_session_that_is_not_there_and_one_that_cannot_be_read(project: Path):
    assert alhena("trace").code == 42
    path = place(record_journal(), project)
    gone = alhena("trace", "nobody")
    assert (gone.code, "nobody" in gone.err) == (42, True)
    path.write_bytes(b"\0\0\0" + path.read_bytes())
    assert alhena("trace", "s").code == 42
    header = msgspec.structs.replace(HEADER, session_id="s", version=99, project=str(project))
    path.write_bytes(line_of(header, 0)[0])
    newer = alhena("trace", "s")
    assert newer.code == 1
    assert "was written by a later version" in newer.err


def test_a_damaged_session_is_shown_as_far_as_it_goes_and_says_so(project: Path):
    path = place(record_journal(), project)
    data = path.read_bytes()
    at = data.index(b'"callId":"e1"')
    path.write_bytes(data[:at] + b"?" + data[at:])
    ran = alhena("trace", "--html", "page.html")
    assert ran.code == 0
    assert "the journal is damaged from line" in ran.err
    page = data_of(Path("page.html").read_bytes())
    assert "damaged" in page["problems"][0]
    assert page["steps"][-1]["name"] == "Edit"
    assert page["steps"][-1]["status"] == "no result was recorded"
    told = alhena("trace", "--json").json
    assert "damaged" in told["problems"][0]


def test_a_page_is_private_loads_nothing_and_replaces_only_another_page(project: Path):
    place(record_journal(), project)
    ran = alhena("trace", "s", "--html", "page.html")
    assert (ran.code, ran.out) == (0, "Written to page.html.\n")
    page = Path("page.html")
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not any(word in text for word in ("src=", "href=", "@import", "url("))
    assert alhena("trace", "s", "--html", "page.html").code == 0
    Path("mine.html").write_text("mine", encoding="utf-8")
    assert alhena("trace", "s", "--html", "mine.html").code == 42
    assert Path("mine.html").read_text(encoding="utf-8") == "mine"


class Tags(HTMLParser):
    """The names of the elements of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)


def test_no_text_of_a_session_becomes_part_of_the_page(project: Path):
    hostile = "</script><script>alert(1)</script><img src=x>{{data}}<!--"
    harmless = long_journal(project / "j.jsonl", 2, "x")
    place(harmless.read_bytes().replace(b"Read everything.", b"hello"), project, "a")
    alhena("trace", "a", "--html", "a.html")
    said = json.dumps(hostile)[1:-1].encode()
    attacked = long_journal(project / "j.jsonl", 2, hostile)
    place(attacked.read_bytes().replace(b"Read everything.", said), project, "b")
    alhena("trace", "b", "--html", "b.html")
    one, two = (Path(name).read_text(encoding="utf-8") for name in ("a.html", "b.html"))
    assert Tags(two).found == Tags(one).found
    data = data_of(two.encode())
    assert data["session"]["title"] == hostile
    assert [each["result"] for each in data["steps"] if "result" in each] == [hostile] * 2


def test_an_old_session_shows_what_it_has(project: Path):
    mine = re.compile(rb',"(?:reason|rule)":"[^"]*"|,"parts":\[\{"functionResponse".*?\}\}\}\]')
    lines = [
        mine.sub(b"", line) if b'"type":"tool_call_response"' in line else line
        for line in record_journal().splitlines()
    ]
    place(b"\n".join(lines), project)
    ran = alhena("trace", "--json")
    assert ran.err == ""
    steps = {each.get("callId"): each for each in ran.json["steps"]}
    assert steps["s1"]["decision"] == "denied"
    assert "rule" not in steps["s1"]
    assert steps["d1/l1"]["result"] == "Listed 1 item(s)."


def test_what_a_later_version_adds_is_counted(project: Path):
    newer = record_journal().replace(b'"event":{"type":"api_error"', b'"event":{"type":"brand_new"')
    place(newer, project)
    ran = alhena("trace")
    assert ran.code == 0
    assert "1 record cannot be read by this version" in ran.err


def test_equal_texts_of_a_conversation_stand_in_their_order(server: ScriptedServer, project: Path):
    again = {"command": "echo again"}
    for _ in range(3):
        server.reply(
            sse(chunk({"text": "Same."}, call("run_shell_command", again, id="c"), finish="STOP")),
            sse(text("Same.")),
        )
    for number in range(3):
        options = ("-r", "latest") if number else ()
        assert alhena("-y", "--skip-trust", "-p", "again", *options, **keyed(server)).code == 0
    store = open_store(project_temp(os.environ, project))
    data = data_of(exported_page(Path(store.find("latest").path)))
    shown = [data["steps"][at] for at in data["talk"] if isinstance(at, int)]
    assert [step["kind"] for step in shown] == ["prompt", "model", "tool", "model"] * 3
    assert len({id(step) for step in shown}) == len(shown)
    assert [step["at"] for step in shown] == sorted(step["at"] for step in shown)
