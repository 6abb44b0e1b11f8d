"""Messages about records: failures, resumption and location."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from alhena.config.home import claim_project_temp, project_temp
from alhena.session.store import open_store
from tests.support.command import ALHENA, Ran, alhena, keyed
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text


def run_within_space(blocks: int, server: ScriptedServer, *words: str) -> Ran:
    """A run that may write files of so many KiB: beyond that they have no space left."""
    ran = subprocess.run(
        ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", ALHENA, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | keyed(server),
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def test_a_new_session_that_cannot_be_recorded_is_one_warning_that_promises_nothing(
    server: ScriptedServer, project: Path
):
    temp = project_temp(os.environ, project)
    claim_project_temp(temp, project)
    server.reply(sse(text("fine")))
    ran = run_within_space(0, server, "-p", "go")
    assert (ran.code, ran.out) == (0, "fine\n")
    path = temp / "sessions"
    (said,) = ran.err.splitlines()
    assert said.startswith("alhena: warning: this session is not recorded: No space left to write ")
    assert said.endswith(".jsonl (EFBIG).")
    assert str(path) in said
    assert not list(path.iterdir())


def test_a_home_in_which_nothing_can_be_made_is_told_in_words(server: ScriptedServer, home: Path):
    (home / ".gemini").mkdir()
    (home / ".gemini" / "tmp").write_text("a file", encoding="utf-8")
    server.reply(sse(text("fine")))
    ran = alhena("-p", "go", **keyed(server))
    assert (ran.code, ran.out) == (0, "fine\n")
    assert "Errno" not in ran.err
    assert "this session is not recorded: " in ran.err
    assert str(home / ".gemini" / "tmp" / "project") in ran.err


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_disk_that_fills_up_is_said_once_and_in_words(
    server: ScriptedServer, project: Path, form: str
):
    for number in range(9):
        part = call("glob", {"pattern": f"*{number}"}, id=f"c{number}")
        server.reply(sse(chunk(part, finish="STOP")))
    ran = run_within_space(4, server, "-p", "go", "-o", form)
    assert ran.code == 1
    assert len(server.requests) < 9
    assert ran.err.count("the session cannot be recorded: No space left to write file: ") == 1
    said = json.loads(ran.err)["error"]["message"] if form == "json" else ran.err.rstrip("\n")
    assert "\n" not in said
    (item,) = open_store(project_temp(os.environ, project)).summaries()
    end = f"(EFBIG). What was recorded before is kept. When that is mended: alhena --resume {item.session_id}."
    assert said.endswith(end)


def test_where_only_empty_files_are_a_new_session_begins_and_that_is_said(
    server: ScriptedServer, project: Path
):
    temp = project_temp(os.environ, project)
    claim_project_temp(temp, project)
    (temp / "sessions").mkdir()
    for session_id in ("killed", "killed-2"):
        open_store(temp).path(session_id).write_bytes(b"")
    server.reply(sse(text("fine")))
    ran = alhena("--resume", "-p", "go", **keyed(server))
    assert (ran.code, ran.out) == (0, "fine\n")
    assert "No previous sessions found for this project." in ran.err
    server.reply(sse(text("again")))
    assert alhena("--resume", "-p", "go", **keyed(server)).out == "again\n"
    assert "fine" in str(server.requests[-1].json["contents"])


@pytest.mark.parametrize("name", ["out.md", "out.json", "out.html"])
def test_an_export_is_as_private_as_the_session(server: ScriptedServer, project: Path, name: str):
    server.reply(sse(text("a secret")))
    alhena("-p", "go", **keyed(server))
    before = os.umask(0)
    try:
        assert alhena("sessions", "export", "latest", "--output", name).code == 0
    finally:
        os.umask(before)
    assert (project / name).stat().st_mode & 0o777 == 0o600
    assert "a secret" in (project / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["link", "fifo", "file"])
def test_an_export_replaces_nothing(server: ScriptedServer, project: Path, kind: str):
    server.reply(sse(text("fine")))
    alhena("-p", "go", **keyed(server))
    out = project / "out.md"
    match kind:
        case "link":
            out.symlink_to(project / "elsewhere")
        case "fifo":
            os.mkfifo(out)
        case _:
            out.write_text("mine", encoding="utf-8")
    assert alhena("sessions", "export", "latest", "--output", "out.md").code == 42
    assert not (project / "elsewhere").exists()
