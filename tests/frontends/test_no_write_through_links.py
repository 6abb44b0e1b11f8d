"""Files of fixed names in a folder are written through no link."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from alhena.config.home import path_within
from alhena.errors import InputError
from tests.config.places import user
from tests.frontends.test_worktree_flag import git
from tests.support.command import Ran, alhena, keyed
from tests.support.each import for_each
from tests.support.server import ScriptedServer, sse, text

LINKED = "is a symbolic link; nothing was written"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "settings.json").write_text("{}", encoding="utf-8")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def link(project: Path, name: str, target: Path) -> None:
    place = project / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def unlink(project: Path, name: str) -> None:
    (project / name).unlink()


def skill(folder: Path) -> str:
    made = folder / "s"
    made.mkdir(exist_ok=True)
    (made / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\nx\n", encoding="utf-8")
    return str(made)


WRITES = [
    (".gemini", ("mcp", "add", "-s", "project", "a", "true")),
    (".gemini/settings.json", ("mcp", "add", "-s", "project", "a", "true")),
    (".gemini", ("agents", "new", "mine", "--scope", "workspace")),
    (".gemini/agents", ("agents", "new", "mine", "--scope", "workspace")),
    (".gemini", ("skills", "install", "{skill}", "--scope", "workspace", "--consent")),
    (".gemini/skills", ("skills", "install", "{skill}", "--scope", "workspace", "--consent")),
    (".gemini/skills", ("skills", "link", "{skill}", "--scope", "workspace", "--consent")),
]


@for_each("write", WRITES)
def test_a_command_for_the_workspace_follows_no_link(
    write: tuple[str, tuple[str, ...]], project: Path, victim: Path, tmp_path: Path
):
    name, words = write
    shutil.rmtree(project)
    project.mkdir()
    os.chdir(project)
    (tmp_path / "skills").mkdir(exist_ok=True)
    (victim / "file").write_text("mine", encoding="utf-8")
    target = victim / "settings.json" if name.endswith(".json") else victim
    before = contents(victim)
    link(project, name, target)
    ran = alhena(*(word.format(skill=skill(tmp_path / "skills")) for word in words))
    assert ran.code != 0, ran.out
    assert LINKED in ran.err
    assert contents(victim) == before
    unlink(project, name)


def repository(project: Path) -> None:
    if not (project / ".git").exists():
        git(project, "init", "-q", "-b", "main")
        (project / "a.txt").write_text("old\n", encoding="utf-8")
        git(project, "add", "a.txt")
        git(project, "commit", "-q", "-m", "first")


def in_worktree() -> Ran:
    return alhena("-w", "one", "-p", "hi", "-m", "demo")


@for_each("name", [".worktrees", ".worktrees/one", ".git/info", ".git/info/exclude"])
def test_a_worktree_is_made_through_no_link(
    name: str, project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(project)
    repository(project)
    subprocess.run(["rm", "-rf", project / name], check=True)
    target = victim / "settings.json" if name.endswith("exclude") else victim
    link(project, name, target)
    before = contents(victim)
    ran = in_worktree()
    assert ran.code == 42
    assert LINKED in ran.err
    assert contents(victim) == before
    unlink(project, name)


def test_a_worktree_that_the_folder_brought_along_is_not_entered(project: Path):
    repository(project)
    brought = project / ".worktrees" / "one"
    brought.mkdir(parents=True)
    git(brought, "init", "-q")
    ran = in_worktree()
    assert ran.code == 42
    assert "is not a worktree of this repository" in ran.err


@for_each("form", ["file", "commondir", "link"])
def test_a_folder_whose_git_leads_to_another_repository_gets_no_worktree(
    form: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other, here = tmp_path / f"other-{form}", tmp_path / f"here-{form}"
    for folder in (other, here):
        folder.mkdir()
    repository(other)
    match form:
        case "file":
            (here / ".git").write_text(f"gitdir: {other / '.git'}\n", encoding="utf-8")
        case "link":
            (here / ".git").symlink_to(other / ".git")
        case _:
            repository(here)
            (here / ".git" / "commondir").write_text(f"{other / '.git'}\n", encoding="utf-8")
    before = contents(other)
    monkeypatch.chdir(here)
    ran = in_worktree()
    assert ran.code == 42, ran.err
    assert "does not name" in ran.err
    assert contents(other) == before


def test_a_linked_worktree_and_a_submodule_may_have_more(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    repository(project)
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"))
    monkeypatch.chdir(tmp_path / "linked")
    assert in_worktree().code == 0
    allowed = ("-c", "protocol.file.allow=always")
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q")
    git(top, *allowed, "submodule", "--quiet", "add", str(project), "part")
    monkeypatch.chdir(top / "part")
    assert in_worktree().code == 0


def test_telemetry_writes_through_no_link_of_the_folder(
    server: ScriptedServer, project: Path, home: Path, victim: Path
):
    user(home, {"telemetry": {"enabled": True, "outfile": ".gemini/telemetry.log"}})
    link(project, ".gemini/telemetry.log", victim / "settings.json")
    server.reply(sse(text("Done.")))
    ran = alhena("-p", "hi", **keyed(server))
    assert ran.code == 0
    assert "a symbolic link or a file is in its path; nothing is recorded" in ran.err
    assert (victim / "settings.json").read_text(encoding="utf-8") == "{}"
    unlink(project, ".gemini/telemetry.log")
    server.reply(sse(text("Done.")))
    assert alhena("-p", "hi", **keyed(server)).code == 0
    assert (project / ".gemini" / "telemetry.log").stat().st_size


def test_only_what_is_below_the_folder_is_judged(tmp_path: Path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "way").symlink_to(real)
    assert path_within(tmp_path / "way", ".gemini/settings.json") == real / ".gemini/settings.json"
    os.symlink("nowhere", real / ".gemini")
    with pytest.raises(InputError, match="is a symbolic link"):
        path_within(tmp_path / "way", ".gemini/settings.json")
    assert json.dumps(str(real))
