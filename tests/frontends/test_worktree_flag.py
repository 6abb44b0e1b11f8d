"""`--worktree NAME`: a run in a git worktree of its own."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.command import ALHENA, PATIENCE_S, Ran, alhena, keyed
from tests.support.each import for_each
from tests.support.server import ScriptedServer, call, chunk, sse, text
from tests.support.slow_git import path_to_slow_git


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


def test_two_runs_that_start_at_once_work_in_the_worktree_that_one_makes(
    server: ScriptedServer, repository: Path, tmp_path: Path
):
    path = path_to_slow_git(tmp_path / "bin")
    server.reply(*(sse(text("Done.")) for _ in range(2)))
    words = [ALHENA, "--worktree", "fix-1", "--skip-trust", "-p", "go"]
    env = {**os.environ, **keyed(server), "PATH": path}
    both = [
        subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    errors = [each.communicate(timeout=PATIENCE_S)[1] for each in both]
    assert [each.returncode for each in both] == [0, 0], errors
    assert git(repository / ".worktrees" / "fix-1", "branch", "--show-current") == (
        "worktree-fix-1\n"
    )


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


def submodule(project: Path) -> Path:
    """A repository with a submodule, in which this is the working directory."""
    library, around = project / "library", project / "around"
    for folder in (library, around):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        (folder / "a.txt").write_text("old\n", encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "first")
    git(
        around,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(library),
        "sub",
    )
    git(around, "commit", "-q", "-m", "second")
    return around / "sub"


def bare(project: Path, name: str) -> Path:
    folder = project / "first"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("old\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(project, "clone", "-q", "--bare", str(folder), name)
    return project / name


@pytest.mark.requirement("WORLD-01")
def test_in_a_submodule_the_worktree_is_one_of_the_submodule(
    server: ScriptedServer, project: Path, monkeypatch: pytest.MonkeyPatch
):
    place = submodule(project)
    monkeypatch.chdir(place)
    assert edited(server).code == 0
    tree = place / ".worktrees" / "fix-1"
    assert (tree / "a.txt").read_text(encoding="utf-8") == "new\n"
    assert git(place.parent, "status", "--porcelain") == ""
    assert (place / "a.txt").read_text(encoding="utf-8") == "old\n"
    monkeypatch.chdir(tree)
    assert edited(server).code == 0, "from a worktree the same one is meant"
    assert not (tree / ".worktrees").exists()
    assert not list(place.parent.glob(".git/modules/*/.worktrees"))


@pytest.mark.requirement("WORLD-01")
def test_submodules_that_are_empty_in_a_worktree_are_named(
    server: ScriptedServer, project: Path, monkeypatch: pytest.MonkeyPatch
):
    around = submodule(project).parent
    monkeypatch.chdir(around)
    ran = edited(server)
    assert ran.code == 0
    assert "submodules are empty in this worktree: sub." in ran.err
    assert "git submodule update --init --recursive" in ran.err
    monkeypatch.chdir(around)
    ran = edited(server, "-o", "json")
    assert any("submodules are empty" in each for each in ran.json["warnings"])
    git(around / ".worktrees" / "fix-1", "-c", "protocol.file.allow=always", "submodule", "--quiet",
        "update", "--init")  # fmt: skip
    monkeypatch.chdir(around)
    assert "submodules" not in edited(server).err


@pytest.mark.requirement("WORLD-01")
@pytest.mark.parametrize("kind", ["bare", "beside", "worktree"])
def test_a_bare_repository_has_worktrees_too(
    server: ScriptedServer, project: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    store = bare(project, "store.git" if kind == "bare" else ".bare")
    main = store if kind == "bare" else project
    if kind != "bare":
        (project / ".git").write_text("gitdir: ./.bare\n", encoding="utf-8")
    place = main
    if kind == "worktree":
        git(project, "worktree", "add", "-q", "-b", "other", "other")
        place = project / "other"
    monkeypatch.chdir(place)
    ran = edited(server)
    assert ran.code == 0, ran.err
    tree = main / ".worktrees" / "fix-1"
    assert (tree / "a.txt").read_text(encoding="utf-8") == "new\n"
    assert git(tree, "branch", "--show-current") == "worktree-fix-1\n"
    monkeypatch.chdir(place)
    assert edited(server).code == 0, "it is entered again"


def test_a_link_to_a_bare_repository_elsewhere_is_not_followed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store = bare(elsewhere, "store.git")
    (project / ".git").write_text(f"gitdir: {store}\n", encoding="utf-8")
    monkeypatch.chdir(project)
    ran = alhena("-w", "x", "-p", "go", "-m", "demo")
    assert ran.code == 42
    assert "elsewhere" in ran.err
    assert not (store / ".worktrees").exists()


@pytest.mark.requirement("WORLD-01")
def test_what_fails_leaves_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch):
    tree = git(repository, "rev-parse", "HEAD:src/a.txt").strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    monkeypatch.chdir(repository)
    ran = alhena("-w", "x", "-p", "go", "-m", "demo")
    assert ran.code == 42
    assert "cannot be made" in ran.err
    assert not (repository / ".worktrees").exists()
    assert git(repository, "branch", "--list").split() == ["*", "main"]
