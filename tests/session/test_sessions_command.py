"""`alhena --resume` and `alhena sessions`, as the command is used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alhena.config.home import project_temp
from alhena.session.store import open_store
from tests.support.command import ALHENA, Ran, alhena, keyed
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text


def prompts(server: ScriptedServer, *words: str, **more: str) -> list[Ran]:
    """One run after the other, each with its answer."""
    ran: list[Ran] = []
    for each in words:
        server.reply(sse(text(f"answer to {each}")))
        ran.append(alhena("-p", each, **keyed(server), **more))
    return ran


def journal(project: Path, name: str = "latest") -> Path:
    return Path(open_store(project_temp(os.environ, project)).find(name).path)


@pytest.mark.requirement("CHAT-07")
def test_a_run_goes_on_with_the_latest_session_or_with_the_one_that_is_named(
    server: ScriptedServer, project: Path
):
    prompts(server, "first", "other")
    listed = alhena("sessions", "list", "--json").json["sessions"]
    assert [item["title"] for item in listed] == ["first", "other"]
    server.reply(sse(text("one")), sse(text("two")), sse(text("three")))
    assert alhena("--resume", "-p", "more", **keyed(server)).out == "one\n"
    assert alhena("-r", "1", "-p", "more", **keyed(server)).out == "two\n"
    assert alhena("-r", "latest", "-p", "again", **keyed(server)).out == "three\n"
    sent = [
        [part["text"] for content in request.json["contents"][2:] for part in content["parts"]]
        for request in server.requests[2:]
    ]
    assert sent == [
        ["other", "answer to other", "more"],
        ["first", "answer to first", "more"],
        ["first", "answer to first", "more", "two", "again"],
    ]
    assert len(alhena("sessions", "list", "--json").json["sessions"]) == 2


def test_the_latest_of_none_is_a_new_session_with_a_word_on_stderr(server: ScriptedServer):
    (ran,) = prompts(server, "hi", GEMINI_MODEL="m")
    assert ran.err == ""
    server.reply(sse(text("yes")))
    elsewhere = Path("elsewhere")
    elsewhere.mkdir()
    os.chdir(elsewhere)
    ran = alhena("--resume", "-p", "hi", **keyed(server))
    assert (ran.code, ran.out) == (0, "yes\n")
    assert "No previous sessions found for this project." in ran.err


@pytest.mark.parametrize("name", ["7", "no-such-id", "0"])
def test_a_session_that_is_not_there_ends_the_run_with_42(server: ScriptedServer, name: str):
    prompts(server, "hi")
    ran = alhena("--resume", name, "-p", "more", **keyed(server))
    assert ran.code == 42
    assert f"no session is called '{name}'" in ran.err
    assert "alhena sessions list" in ran.err
    assert len(server.requests) == 1


def test_what_was_damaged_is_said_and_kept(server: ScriptedServer, project: Path):
    prompts(server, "first")
    path = journal(project)
    with path.open("ab") as file:
        file.write(b'{"type":"contents","at"')
    server.reply(sse(text("fine")))
    ran = alhena("--resume", "-p", "more", **keyed(server))
    assert (ran.code, ran.out) == (0, "fine\n")
    assert "23 bytes of its end were moved to" in ran.err
    (aside,) = path.parent.glob("*.damaged-1")
    assert aside.read_bytes() == b'{"type":"contents","at"'


def test_a_disk_that_is_full_ends_the_run_and_says_how_to_go_on(
    server: ScriptedServer, project: Path
):
    calls = [
        sse(chunk(call("glob", {"pattern": "*"}, id=f"c{n}"), finish="STOP")) for n in range(9)
    ]
    server.reply(*calls, sse(text("fine")))
    ran = subprocess.run(
        ["bash", "-c", 'ulimit -f 3; exec "$@"', "bash", ALHENA, "-p", "go"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | keyed(server),
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 1
    assert b"the session cannot be recorded" in ran.stderr
    assert b"EFBIG" in ran.stderr
    assert len(server.requests) < 9
    asked = len(server.requests)
    alhena("--resume", journal(project).stem, "-p", "more", **keyed(server))
    sent = server.requests[asked].json["contents"]  # what was recorded before stands
    assert sent[2] == {"role": "user", "parts": [{"text": "go"}]}
    assert sent[-1] == {"role": "user", "parts": [{"text": "more"}]}


def test_a_home_that_cannot_be_written_is_a_warning(server: ScriptedServer, home: Path):
    (home / ".gemini").mkdir()
    (home / ".gemini" / "tmp").write_text("a file", encoding="utf-8")
    (ran,) = prompts(server, "hi")
    assert (ran.code, ran.out) == (0, "answer to hi\n")
    assert "this session is not recorded" in ran.err


@pytest.mark.requirement("CHAT-07")
def test_sessions_are_listed_shown_and_deleted(server: ScriptedServer, project: Path):
    assert alhena("sessions", "list").out == "This project has no sessions.\n"
    prompts(server, "first\nline", "\x1b[31mred")
    ran = alhena("--list-sessions")
    heading, newest, oldest = ran.out.splitlines()
    assert heading == "Sessions of this project (2):"
    assert newest.startswith("  2. ")
    assert oldest.startswith("  1. first line (just now) [")
    assert "\x1b" not in ran.out
    shown = alhena("sessions", "show", "1")
    assert "answer to first" in shown.out
    known = alhena("sessions", "show", "latest", "--json").json
    assert (known["prompts"], known["contents"], known["damagedBytes"]) == (1, 2, 0)
    path = Path(known["path"])
    outputs = path.parent.parent / "tool-outputs" / f"session-{path.stem}"
    outputs.mkdir(parents=True)
    assert alhena("sessions", "delete", "latest").out.startswith(f"Deleted session {path.stem}")
    assert not path.exists()
    assert not outputs.exists()
    assert alhena("--delete-session", "1").code == 0
    assert alhena("sessions", "list", "--json").json == {
        "sessions": [],
        "foreign": [],
    }


def test_an_export_is_markdown_json_or_a_page(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("```\n<script>alert(1)</script>\n", encoding="utf-8")
    server.reply(
        sse(chunk(call("read_file", {"absolute_path": "a.txt"}, id="c1"), finish="STOP")),
        sse(text("It is **odd**.")),
    )
    alhena("-p", "read <a.txt>", **keyed(server))
    markdown = alhena("sessions", "export", "latest").out
    assert markdown.startswith("# read &lt;a.txt&gt;\n")
    assert "\n## User\n\nread &lt;a.txt>\n" in markdown
    assert "\n````\n```\n<script>" in markdown
    assert "\n## Model\n\nIt is **odd**.\n" in markdown
    assert "set up" not in markdown  # what the environment said is no part of it
    document = alhena("sessions", "export", "1", "--format", "json").json
    assert document["session"]["title"] == "read <a.txt>"
    roles = [item["content"]["role"] for item in document["contents"]]
    assert roles == ["user", "model", "user", "model"]
    assert alhena("sessions", "export", "1", "--output", "page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "\\u003cscript>alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "default-src 'none'" in page
    again = alhena("sessions", "export", "1", "--output", "page.html")
    assert again.code == 42
    assert "not there yet" in again.err


def test_a_hook_is_told_where_the_record_is(server: ScriptedServer, home: Path, project: Path):
    command = (
        "import json, shutil, sys; told = json.load(sys.stdin); "
        "json.dump(told, open('../seen.json', 'w')); "
        "shutil.copy(told['transcript_path'], '../seen.jsonl')"
    )
    hook = {"type": "command", "command": f'{sys.executable} -c "{command}"'}
    settings = {"hooks": {"BeforeAgent": [{"hooks": [hook]}]}}
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    server.reply(
        sse(chunk(call("glob", {"pattern": "*"}, id="c1"), finish="STOP")), sse(text("done"))
    )
    assert alhena("-p", "go", **keyed(server)).out == "done\n"
    told = json.loads(Path("../seen.json").read_text(encoding="utf-8"))
    assert told["transcript_path"] == str(journal(project))
    assert '"type":"prompt"' in Path("../seen.jsonl").read_text(encoding="utf-8")


def test_two_ways_of_asking_for_the_list_contradict_each_other():
    ran = alhena("--list-sessions", "--delete-session", "1")
    assert ran.code == 2
    assert "contradicts" in ran.err
