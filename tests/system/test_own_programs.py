"""Programs of our own run nothing that the folder names in which they work."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from alhena.agent.subagents.worktree import make_worktree, open_worktree, patch_since, run_git
from alhena.frontends.shared.worktree import enter_worktree
from alhena.session.checkpoints.repository import Repository
from alhena.system.own_programs import (
    begin_browser,
    find_program,
    python_command,
    repository_command,
)
from tests.support.each import for_each


def git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def trap(tmp_path: Path, mark: Path) -> Path:
    """A program that notes that it ran, and then does what a filter does."""
    path = tmp_path / "trap"
    path.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{mark}'\nexec cat\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    (project / "a.txt").write_text("old\n", encoding="utf-8")
    (project / ".gitattributes").write_text(
        "*.txt filter=f diff=f merge=f\n*.lfs filter=lfs\n", encoding="utf-8"
    )
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    return project


KEYS = (
    *("filter.f.clean", "filter.f.smudge", "filter.f.process", "diff.f.command"),
    *("diff.f.textconv", "diff.external", "merge.f.driver", "core.fsmonitor", "core.sshCommand"),
    *("core.editor", "core.pager", "core.askPass", "core.alternateRefsCommand", "gpg.program"),
    *("credential.helper", "gc.recentObjectsHook", "sequence.editor", "pager.status"),
    *("pager.branch", "hook.x.command", "trailer.x.command", "interactive.diffFilter"),
    *("alias.status", "alias.worktree", "filter.a=b.clean", "filter.a=b.smudge"),
)


def poison(folder: Path, trap: Path) -> None:
    """Has every key of a repository, and every hook of it, run a program."""
    for key in KEYS:
        git(folder, "config", key, f"!{trap}" if key.startswith("alias") else str(trap))
    git(folder, "config", "filter.f.required", "true")
    hooks = folder / "own-hooks"
    for directory in (hooks, folder / ".git" / "hooks"):
        directory.mkdir(exist_ok=True)
        for name in (
            *("post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"),
            *("pre-commit", "fsmonitor-watchman"),
        ):
            shutil.copy(trap, directory / name)
    git(folder, "config", "core.hooksPath", str(hooks))
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("* filter=a=b\n", encoding="utf-8")


def as_included(folder: Path, condition: str) -> None:
    """Moves what is poisoned to a file that counts only in certain worktrees."""
    config = folder / ".git" / "config"
    text = config.read_text(encoding="utf-8")
    head, _, rest = text.partition("[filter")
    (folder / ".git" / "more").write_text(f"[filter{rest}", encoding="utf-8")
    config.write_text(f'{head}[includeIf "{condition}"]\n\tpath = more\n', encoding="utf-8")


def use_everything(folder: Path, place: Path) -> str:
    tree = make_worktree(folder, os.environ, place)
    (tree.top / "a.txt").write_text("new\n", encoding="utf-8")
    (tree.top / "b.txt").write_text("more\n", encoding="utf-8")
    patch = tree.make_patch()
    run_git(folder, os.environ, "status", "--porcelain", "--ignore-submodules")
    tree.remove()
    enter_worktree("one", os.environ)
    return patch


@for_each(
    "condition", ["", "gitdir:**/worktrees/**", "onbranch:worktree-*", "gitdir:/", "gitdir:**"]
)
def test_nothing_that_a_repository_names_runs_for_a_worktree(
    condition: str, repository: Path, trap: Path, mark: Path, tmp_path: Path
):
    poison(repository, trap)
    if condition:
        as_included(repository, condition)
    mark.unlink(missing_ok=True)
    patch = use_everything(repository, tmp_path / "place")
    assert "+new" in patch
    assert "b.txt" in patch
    assert not mark.exists(), mark.read_text(encoding="utf-8")
    assert (repository / ".worktrees" / "one" / "a.txt").read_text(encoding="utf-8") == "old\n"


def test_the_trap_runs_without_the_care(repository: Path, trap: Path, mark: Path, tmp_path: Path):
    poison(repository, trap)
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert "trap" in mark.read_text(encoding="utf-8")


def test_a_repository_within_is_not_looked_into(
    repository: Path, trap: Path, mark: Path, tmp_path: Path
):
    tree = make_worktree(repository, os.environ, tmp_path / "place")
    inner = tree.top / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "a.txt").write_text("x\n", encoding="utf-8")
    (inner / ".gitattributes").write_text("*.txt filter=f\n", encoding="utf-8")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "first")
    tree.make_patch()
    poison(inner, trap)
    (inner / "a.txt").write_text("y\n", encoding="utf-8")
    mark.unlink(missing_ok=True)
    (tree.top / "c.txt").write_text("more\n", encoding="utf-8")
    assert "c.txt" in tree.make_patch()
    git(inner, "config", "--remove-section", "hook.x")
    before = git(inner, "rev-parse", "HEAD").strip()
    assert f"+Subproject commit {before}" in patch_since(tree.base, tree.top, os.environ)
    assert not mark.exists(), mark.read_text(encoding="utf-8")
    tree.remove()


def test_a_filter_of_the_user_runs_though_the_repository_names_another(
    repository: Path, trap: Path, mark: Path, tmp_path: Path
):
    git(repository, "config", "--global", "filter.f.smudge", "sed s/old/mine/")
    git(repository, "config", "--global", "filter.f.clean", "sed s/mine/old/")
    poison(repository, trap)
    (repository / ".git" / "info" / "attributes").unlink()
    git(repository, "config", "--unset", "filter.f.process")
    mark.unlink(missing_ok=True)
    tree = make_worktree(repository, os.environ, tmp_path / "place")
    assert (tree.top / "a.txt").read_text(encoding="utf-8") == "mine\n"
    assert tree.make_patch() == ""
    assert not mark.exists()
    tree.remove()


def test_an_agent_gets_its_worktree_so_too(repository: Path, trap: Path, mark: Path):
    poison(repository, trap)
    mark.unlink(missing_ok=True)

    async def work() -> None:
        async with open_worktree(repository, os.environ) as tree:
            await tree.patch()

    asyncio.run(work())
    assert not mark.exists()


def test_checkpoints_run_nothing_of_the_project(
    repository: Path, trap: Path, mark: Path, tmp_path: Path
):
    poison(repository, trap)
    mark.unlink(missing_ok=True)
    (repository / "a.txt").write_text("new\n", encoding="utf-8")
    kept = Repository(tmp_path / "kept", repository, os.environ)
    with kept.hold_lock():
        kept.snapshot()
    assert not mark.exists()


@for_each("entry", [".", "", "bin", "{project}/bin", "./bin", "../project/bin"])
def test_no_program_of_the_folder_is_git(entry: str, repository: Path, mark: Path, trap: Path):
    for folder in (repository, repository / "bin"):
        folder.mkdir(exist_ok=True)
        shutil.copy(trap, folder / "git")
        shutil.copy(trap, folder / "rg")
        shutil.copy(trap, folder / "bash")
    path = f"{entry.format(project=repository)}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": path}
    run_git(repository, environ, "status")
    command = repository_command(repository, environ, ("status",))
    assert all(map(os.path.isabs, command.env["PATH"].split(os.pathsep)))
    assert not Path(command.argv[0]).is_relative_to(repository)
    for name in ("git", "bash"):
        found = find_program(name, environ, (repository,))
        assert found is not None
        assert not Path(found).is_relative_to(repository)
    assert not mark.exists()


def test_this_python_imports_nothing_from_the_folder(project: Path, mark: Path):
    for name in ("tempfile", "json", "ssl", "sitecustomize", "usercustomize", "msgspec", "alhena"):
        (project / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((".", "", "sub"))}
    command = python_command("alhena", "--version", environ=environ)
    subprocess.run(command.argv, env=command.env, check=True, capture_output=True)
    assert "PYTHONPATH" not in command.env
    assert not mark.exists(), mark.read_text()
    assert command.argv[0] == sys.executable


def test_the_browser_is_none_of_the_folder(
    project: Path, trap: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("xdg-open", "firefox", "w3m", "lynx", "www-browser", "open"):
        shutil.copy(trap, project / name)
    (project / "webbrowser.py").write_text(f"open({str(mark)!r}, 'a')\n", encoding="utf-8")
    monkeypatch.setenv("PATH", os.pathsep.join((".", "", str(project))))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("BROWSER", raising=False)
    assert not begin_browser("http://127.0.0.1:9/")
    assert not mark.exists()
