"""`--worktree NAME`: a run in a git worktree of its own."""

import subprocess
from pathlib import Path

import pytest

from tests.support.command import Ran, alhena, keyed
from tests.support.each import for_each
from tests.support.server import ScriptedServer, call, chunk, sse, text


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    (project / "src").mkdir()
    (project / "src" / "a.txt").write_text("old\n", encoding="utf-8")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    return project


def edited(server: ScriptedServer, *arguments: str) -> Ran:
    args = {"file_path": "a.txt", "content": "new\n"}
    server.reply(sse(chunk(call("write_file", args), finish="STOP")), sse(text("Done.")))
    chosen = ("--worktree", "fix-1", "--approval-mode", "auto_edit", "--skip-trust")
    return alhena(*chosen, *arguments, "-p", "go", **keyed(server))


def test_a_run_works_on_a_branch_of_its_own_and_later_runs_there_too(
    server: ScriptedServer, repository: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(repository / "src")
    ran = edited(server, "-o", "json")
    assert (ran.code, ran.json["response"]) == (0, "Done.")
    tree = repository / ".worktrees" / "fix-1"
    assert (tree / "src" / "a.txt").read_text(encoding="utf-8") == "new\n"
    assert (repository / "src" / "a.txt").read_text(encoding="utf-8") == "old\n"
    assert git(tree, "branch", "--show-current") == "worktree-fix-1\n"
    assert git(repository, "status", "--porcelain") == ""
    monkeypatch.chdir(repository)
    (tree / "kept.txt").write_text("kept", encoding="utf-8")
    assert edited(server).out == "Done.\n"
    assert (tree / "kept.txt").exists()
    assert (tree / "a.txt").exists()
    monkeypatch.chdir(repository)
    git(repository, "worktree", "remove", "--force", str(tree))
    assert edited(server).code == 0, "its branch is checked out again"
    assert git(tree, "branch", "--show-current") == "worktree-fix-1\n"


@for_each("name", ["", "../x", "a/b", "a b", "-x", "a..b", "a.lock"])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str, repository: Path):
    ran = alhena(f"--worktree={name}", "-p", "go", "-m", "demo")
    assert ran.code == 2
    assert "cannot be the name of a worktree" in ran.err
    assert not (repository / ".worktrees").exists()


def test_without_a_repository_the_run_says_what_it_needs(project: Path):
    ran = alhena("-w", "x", "-p", "go", "-m", "demo")
    assert ran.code == 42
    assert "needs a git repository with a commit" in ran.err
    assert list(project.iterdir()) == []
