"""`alhena --checkpointing`, `alhena sessions checkpoints` and `restore`, as commands are used."""

import os
from pathlib import Path

import pytest

from alhena.config.home import project_checkpoints, project_temp
from alhena.session.checkpoints.git import content_name
from alhena.session.store import open_store
from tests.support.command import Ran, alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text


def edit_file(server: ScriptedServer, *arguments: str, content: str = "new") -> Ran:
    args = {"file_path": "a.txt", "content": content}
    write = call("write_file", args, id=f"c-{content}")
    server.reply(sse(chunk(write, finish="STOP")), sse(text("done")))
    return alhena("-y", "--skip-trust", "-p", f"make it {content}", *arguments, **keyed(server))


@pytest.mark.requirement("CHAT-07")
def test_a_command_puts_files_and_conversation_back(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("old", encoding="utf-8")
    assert edit_file(server, "--checkpointing").code == 0
    (listed,) = alhena("sessions", "checkpoints", "--json").json["checkpoints"]
    assert listed["toolCall"] == {
        "name": "write_file",
        "args": {"file_path": "a.txt", "content": "new"},
    }
    assert listed["paths"] == ["a.txt"]
    assert listed["name"] in alhena("sessions", "checkpoints").out
    restored = alhena("sessions", "restore", listed["name"], "--json").json
    assert restored["written"] == ["a.txt"]
    assert restored["conversation"] is True
    assert (project / "a.txt").read_text() == "old"
    server.reply(sse(text("where were we")))
    assert alhena("--resume", "-p", "and now?", **keyed(server)).out == "where were we\n"
    sent = server.requests[-1].json["contents"]
    assert "This call was undone" in str(sent[-3])
    assert "done" not in [part.get("text") for content in sent for part in content["parts"]]
    back = alhena("sessions", "restore", restored["kept"])
    assert back.code == 0
    assert "Put back: a.txt" in back.out
    assert (project / "a.txt").read_text() == "new"


def test_without_the_flag_or_the_setting_there_are_none(server: ScriptedServer, project: Path):
    assert edit_file(server).code == 0
    assert alhena("sessions", "checkpoints").out == "This project has no checkpoints.\n"
    assert alhena("sessions", "checkpoints", "--json").json == {"checkpoints": []}
    refused = alhena("sessions", "restore", "latest")
    assert refused.code == 42
    assert "there is no checkpoint 'latest'" in refused.err


def test_the_setting_makes_them(server: ScriptedServer, project: Path, home: Path):
    settings = home / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"general": {"checkpointing": {"enabled": true}}}', encoding="utf-8")
    edit_file(server, content="one")
    edit_file(server, content="two")
    assert len(alhena("sessions", "checkpoints", "--json").json["checkpoints"]) == 2
    assert alhena("sessions", "restore", "1").code == 0
    assert not (project / "a.txt").exists()


def test_a_session_that_is_in_use_keeps_its_files_and_its_conversation(
    server: ScriptedServer, project: Path
):
    edit_file(server, "--checkpointing")
    store = open_store(project_temp(os.environ, project))
    held = store.resume("latest", "test")
    try:
        refused = alhena("sessions", "restore", "latest")
    finally:
        held.journal.close()
    assert refused.code == 42
    assert "open in another terminal" in refused.err
    assert (project / "a.txt").read_text() == "new"


def test_checkpoints_go_with_their_session(server: ScriptedServer, project: Path):
    edit_file(server, "--checkpointing", content="one")
    edit_file(server, "--checkpointing", content="two")
    assert alhena("sessions", "delete", "1").code == 0
    (left,) = alhena("sessions", "checkpoints", "--json").json["checkpoints"]
    assert left["toolCall"]["args"]["content"] == "two"


def test_the_files_come_back_when_the_session_is_gone(server: ScriptedServer, project: Path):
    edit_file(server, "--checkpointing")
    Path(open_store(project_temp(os.environ, project)).find("latest").path).unlink()
    restored = alhena("sessions", "restore", "latest", "--json").json
    assert restored["removed"] == ["a.txt"]
    assert restored["conversation"] is False
    told = alhena("sessions", "restore", "1").out
    assert "The conversation could not be restored" in told


def test_numbers_are_those_of_the_list_when_a_checkpoint_is_damaged(
    server: ScriptedServer, project: Path
):
    edit_file(server, "--checkpointing", content="one")
    edit_file(server, "--checkpointing", content="two")
    directory = project_checkpoints(project_temp(os.environ, project))
    bad = directory / "2020-01-01T00-00-00_000Z-a.txt-write_file.json"
    bad.write_text("{", encoding="utf-8")
    os.utime(bad, (1, 1))
    last = directory / "zz.json"
    last.write_text("[", encoding="utf-8")
    os.utime(last, (4e9, 4e9))
    listed = alhena("sessions", "checkpoints", "--json").json["checkpoints"]
    assert len(listed) == 2
    assert alhena("sessions", "restore", "2", "--json").json["name"] == listed[1]["name"]
    assert (project / "a.txt").read_text() == "one"
    latest = alhena("sessions", "restore", "latest", "--json").json["name"]
    assert latest not in ("zz", listed[0]["name"], listed[1]["name"])
    assert (project / "a.txt").read_text() == "two"


def test_names_that_are_no_utf_8_are_told(server: ScriptedServer, project: Path):
    odd = project / os.fsdecode(b"odd\xff.txt")
    odd.write_text("old", encoding="utf-8")
    edit_file(server, "--checkpointing")
    odd.unlink()
    restored = alhena("sessions", "restore", "1", "--json")
    assert (restored.code, restored.json["written"]) == (0, ["odd\\xff.txt"])
    odd.write_text("new", encoding="utf-8")
    told = alhena("sessions", "restore", "1")
    assert told.code == 0
    assert "Put back: odd\\xff.txt\n" in told.out
    odd.unlink()
    odd.mkdir()
    (odd / "x").write_text("in the way", encoding="utf-8")
    os.symlink("/", project / "l")
    assert alhena("sessions", "restore", "1", "--json").code == 0
    assert odd.read_text() == "old"


def test_cut_lists_say_how_many_more_there_are(server: ScriptedServer, project: Path):
    edit_file(server, "--checkpointing")
    for number in range(25):
        (project / f"{number}.txt").write_text("x", encoding="utf-8")
    assert "Removed: 6 more of 26\n" in alhena("sessions", "restore", "1").out


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_file_that_had_to_be_left_is_named_and_the_exit_code_says_so(
    server: ScriptedServer, project: Path, home: Path, form: tuple[str, ...]
):
    (project / "a.txt").write_text("old", encoding="utf-8")
    assert edit_file(server, "--checkpointing").code == 0
    (project / "b.txt").write_text("since", encoding="utf-8")
    name = content_name(b"old")
    (damaged,) = home.glob(f".gemini/history/*/.git/objects/{name[:2]}/{name[2:]}")
    damaged.chmod(0o644)
    damaged.write_bytes(b"junk")
    restored = alhena("sessions", "restore", "1", *form)
    assert restored.code == 1
    assert (project / "a.txt").read_text() == "new"
    assert not (project / "b.txt").exists()
    kept = alhena("sessions", "checkpoints", "--json").json["checkpoints"][-1]["name"]
    assert kept.endswith("-restore")
    why = "its content in the checkpoint is damaged"
    if form:
        assert restored.json["left"] == {"a.txt": why}
        assert restored.json["kept"] == kept
    else:
        assert f"Left as it is: a.txt ({why})\n" in restored.out
        assert f"The files before this restore are kept in: {kept}\n" in restored.out
    server.reply(sse(text("where were we")))
    alhena("--resume", "-p", "and now?", **keyed(server))
    assert "This call was undone" in str(server.requests[-1].json["contents"])
