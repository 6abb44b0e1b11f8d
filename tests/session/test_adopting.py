"""Adopting a folder's sessions keeps the new folder's own."""

import errno
import os
from pathlib import Path

import pytest

from alhena.config.home import claimed_project_temp, project_history, project_temp
from alhena.frontends.terminal.entry import PromptHistory
from alhena.session.adopting import adopt, find_missing_projects
from alhena.session.records import SessionError
from alhena.session.store import project_store
from alhena.session.tags import project_tags
from tests.agent.kit import agent, events_of, warnings
from tests.agent.test_checkpoints import checkpointed, turn
from tests.agent.test_checkpoints import write as writes
from tests.session.kit import header_of, turns, write
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


@pytest.fixture
def gone(tmp_path: Path) -> Path:
    """A folder that is there no more, and of which a session is kept."""
    path = tmp_path / "a" / "app"
    with_session(claimed_project_temp(os.environ, path), path)
    return path


@pytest.fixture
def here(gone: Path, tmp_path: Path) -> Path:
    path = tmp_path / "b" / "app"
    path.mkdir(parents=True)
    assert claimed_project_temp(os.environ, path).name == "app-1"
    return path


@pytest.fixture
def third(tmp_path: Path) -> Path:
    path = tmp_path / "c" / "app"
    path.mkdir(parents=True)
    return path


def with_session(temp: Path, project: Path) -> Path:
    (temp / "sessions").mkdir(exist_ok=True)
    return write(temp / "sessions" / "s.jsonl", header_of(project), *turns(1)[1:])


def prompts(project: Path) -> list[str]:
    return list(PromptHistory(os.environ, project, pytest.fail).load_history_strings())


def typed(project: Path, prompt: str) -> None:
    PromptHistory(os.environ, project, pytest.fail).store_string(prompt)


@pytest.mark.requirement("WORLD-03")
def test_a_folder_that_was_used_adopts_beside_what_it_has(here: Path, gone: Path, third: Path):
    temp = project_temp(os.environ, here)
    journal = write(temp_folder(temp, "sessions") / "new.jsonl", header_of(here), *turns(1)[1:])
    project_tags(temp).save("mine", journal)
    (temp_folder(temp, "chats") / "session-1.json").write_bytes(b"{}")
    (temp_folder(temp, "tool-outputs/session-new") / "out.txt").write_text("long")
    shown = temp / "tool-outputs" / "session-new" / "out.txt"
    (temp_folder(temp, "memory") / "MEMORY.md").write_text("new")
    old = project_temp(os.environ, gone)
    (temp_folder(old, "memory") / "MEMORY.md").write_text("old")
    (temp_folder(old, "chats") / "session-0.json").write_bytes(b"{}")
    adopt(os.environ, here, str(gone))
    merged = project_temp(os.environ, here)
    assert merged.name == "app"
    store = project_store(os.environ, here)
    assert {item.session_id for item in store.summaries()} == {"s", "new"}
    assert store.list_sessions().foreign == ()
    assert [tag.name for tag in project_tags(merged).all()] == ["mine"]
    assert sorted(os.listdir(merged / "chats")) == ["session-0.json", "session-1.json"]
    assert (merged / "memory" / "MEMORY.md").read_text().split() == ["old", "new"]
    assert shown.read_text() == "long"  # by the path that the session knows
    assert project_store(os.environ, third).summaries() == ()


def temp_folder(temp: Path, name: str) -> Path:
    (temp / name).mkdir(parents=True, exist_ok=True)
    return temp / name


@pytest.mark.parametrize("name", ["sessions/s.jsonl", "tags/same.jsonl", "chats/session-1.json"])
def test_two_of_one_name_are_named_and_everything_stays(here: Path, gone: Path, name: str):
    new, old = project_temp(os.environ, here), project_temp(os.environ, gone)
    for temp in (new, old):
        (temp_folder(temp, name.split("/", 1)[0]) / name.rpartition("/")[2]).write_text("{}")
    typed(here, "hello")
    with pytest.raises(SessionError, match=f"both folders have a {name}") as refused:
        adopt(os.environ, here, str(gone))
    assert "/chat delete NAME" in str(refused.value)
    assert project_temp(os.environ, here) == new
    assert prompts(here) == ["hello"]
    (new / name).unlink()
    adopt(os.environ, here, str(gone))
    assert project_temp(os.environ, here) == old


@pytest.mark.requirement("WORLD-03")
async def test_checkpoints_of_both_places_can_be_restored(
    gone: Path, third: Path, monkeypatch: pytest.MonkeyPatch
):
    """The files of each are in the repository that is left."""
    monkeypatch.chdir(third)
    adopt(os.environ, third, str(gone))
    moved = third.rename(third.with_name("web"))
    for place, name in ((moved, "y"), (moved, "x")):
        monkeypatch.chdir(place)
        (place / f"{name}.txt").write_text("before")
        generator = ScriptedGenerator(turn(writes(f"{name}.txt", name, "c1")), [text("Done.")])
        async with checkpointed(generator, cwd=place) as running:
            await running.ask(f"make {name}")
    last = moved.rename(moved.with_name("site"))
    monkeypatch.chdir(last)
    generator = ScriptedGenerator(turn(writes("z.txt", "z", "c1")), [text("Done.")])
    async with checkpointed(generator, cwd=last) as running:
        await running.ask("make z")
    assert alhena("sessions", "adopt", str(moved)).code == 0
    listed = alhena("sessions", "checkpoints")
    assert "(3)" in listed.out
    for number, name, content in (("3", "z.txt", None), ("2", "x.txt", "before"),
                                  ("1", "y.txt", "before")):  # fmt: skip
        restored = alhena("sessions", "restore", number)
        assert restored.code == 0, restored.err
        assert ((last / name).read_text() if (last / name).exists() else None) == content


def test_what_was_typed_goes_along_and_nothing_is_left_to_a_namesake(
    here: Path, gone: Path, third: Path
):
    typed(gone, "in the old folder")
    own = project_temp(os.environ, here)
    typed(here, "in the new folder")
    (own / "tool-outputs").mkdir()
    history = project_history(os.environ, own)
    history.mkdir(parents=True)
    (history / "objects").write_bytes(b"of here")
    adopt(os.environ, here, str(gone))
    assert prompts(here) == ["in the new folder", "in the old folder"]
    assert (project_history(os.environ, project_temp(os.environ, here)) / "objects").exists()
    temp = claimed_project_temp(os.environ, third)
    assert temp.name == "app-2"
    assert os.listdir(temp) == [".project_root"]
    assert prompts(third) == []
    assert not project_history(os.environ, temp).exists()
    assert not history.exists()
    # What was not taken along stands under a name that no project is given.
    assert (own.with_name("app-1.1") / ".project_root").exists()
    assert history.with_name("app-1.1").is_dir()
    assert find_missing_projects(os.environ) == ()


def test_prompts_that_cannot_be_taken_along_keep_everything_as_it_is(here: Path, gone: Path):
    os.mkfifo(project_temp(os.environ, here) / "prompt_history.jsonl")
    with pytest.raises(SessionError, match=r"prompt_history\.jsonl"):
        adopt(os.environ, here, str(gone))
    assert project_temp(os.environ, here).name == "app-1"
    assert find_missing_projects(os.environ) == (str(gone),)


def test_where_there_are_no_links_everything_stays_as_it_is(
    here: Path, gone: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_paths: object, **_options: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    typed(here, "hello")
    monkeypatch.setattr(os, "symlink", refused)
    with pytest.raises(SessionError):
        adopt(os.environ, here, str(gone))
    assert prompts(here) == ["hello"]
    assert project_temp(os.environ, here).name == "app-1"
    assert find_missing_projects(os.environ) == (str(gone),)


@pytest.mark.parametrize("linked", [True, False])
def test_what_was_broken_off_is_done_the_next_time(here: Path, gone: Path, linked: bool):
    own = project_temp(os.environ, here)
    own.rename(own.with_name("app-1.1"))
    if linked:
        own.symlink_to("app")
    adopt(os.environ, here, str(gone))
    assert project_temp(os.environ, here).name == "app"
    assert len(project_store(os.environ, here).summaries()) == 1


def test_a_folder_that_moves_again_and_again_keeps_everything(
    here: Path, gone: Path, tmp_path: Path
):
    """Each time to a name of its own, with a directory of its own there already."""
    adopt(os.environ, here, str(gone))
    before = here
    for name in ("web", "app", "web", "site"):
        new = tmp_path / f"in-{len(list(tmp_path.iterdir()))}" / name
        new.parent.mkdir()
        before.rename(new)
        claimed_project_temp(os.environ, new)
        typed(new, f"in {new}")
        adopt(os.environ, new, str(before))
        before = new
    assert project_temp(os.environ, before).name == "app"
    assert len(project_store(os.environ, before).summaries()) == 1
    assert len(prompts(before)) == 4


async def test_a_session_that_has_said_nothing_yet_goes_on_in_what_was_adopted(
    here: Path, gone: Path
):
    async with agent(ScriptedGenerator([text("Yes.")]), cwd=here) as running:
        adopt(os.environ, here, str(gone))
        events, error = await events_of(running, "said after it")
        assert error is None
        assert warnings(events) == []
        mine = running.session_id
    found = project_store(os.environ, here).summaries()
    assert {item.session_id for item in found} == {"s", mine}


async def test_so_do_its_checkpoints(here: Path, gone: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(here)
    generator = ScriptedGenerator(turn(writes("x.txt", "x", "c1")), [text("Done.")])
    async with checkpointed(generator, cwd=here) as running:
        assert running.checkpoints.list() == ()
        adopt(os.environ, here, str(gone))
        await running.ask("make it")
    assert (here / "x.txt").exists()
    restored = alhena("sessions", "restore", "latest")
    assert restored.code == 0, restored.err
    assert not (here / "x.txt").exists()


def test_a_directory_that_a_person_has_moved_to_another_disk_is_adopted(
    here: Path, gone: Path, tmp_path: Path
):
    temp = project_temp(os.environ, gone)
    temp.rename(tmp_path / "elsewhere")
    temp.symlink_to(tmp_path / "elsewhere")
    assert find_missing_projects(os.environ) == (str(gone),)
    adopt(os.environ, here, str(gone))
    assert project_temp(os.environ, here) == temp
    assert len(project_store(os.environ, here).summaries()) == 1


@pytest.mark.requirement("WORLD-03")
@pytest.mark.parametrize("what", ["the folder", "the folder above"])
def test_a_folder_that_moved_and_left_a_link_is_adopted(
    gone: Path, third: Path, tmp_path: Path, what: str
):
    if what == "the folder":
        gone.parent.mkdir()
        gone.symlink_to(third)
    else:
        gone.parent.symlink_to(third.parent)
    assert find_missing_projects(os.environ) == (str(gone),)
    adopt(os.environ, third, str(gone))
    assert project_temp(os.environ, third).name == "app"
    assert (project_temp(os.environ, third) / "sessions" / "s.jsonl").exists()


def test_a_link_to_another_folder_is_none_that_moved_here(gone: Path, third: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    gone.parent.mkdir()
    gone.symlink_to(other)
    with pytest.raises(SessionError, match="is still there"):
        adopt(os.environ, third, str(gone))


def test_a_folder_does_not_adopt_itself(third: Path):
    with_session(claimed_project_temp(os.environ, third), third)
    with pytest.raises(SessionError, match="is still there"):
        adopt(os.environ, third, str(third))
