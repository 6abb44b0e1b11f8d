"""The user's own ignore rules are those of the environment that a session was given."""

from pathlib import Path

import pytest

from alhena.system.workspace import Workspace
from alhena.tools.builtin.list_directory import Glob, ListDirectory
from tests.tools.files import call, text_of


@pytest.fixture
def environ(tmp_path: Path, project: Path) -> dict[str, str]:
    for name in ("kept.txt", "left.out"):
        (project / name).touch()
    (project / ".git").mkdir()
    rules = tmp_path / "settings" / "git" / "ignore"
    rules.parent.mkdir(parents=True)
    rules.write_text("*.out\n", encoding="utf-8")
    return {"XDG_CONFIG_HOME": str(tmp_path / "settings"), "HOME": str(tmp_path)}


@pytest.mark.requirement("TOOLS-12")
async def test_list_directory_follows_the_given_environment(
    project: Path, environ: dict[str, str]
) -> None:
    workspace = Workspace(project)
    assert "left.out" in text_of(await call(ListDirectory(workspace), path="."))
    text = text_of(await call(ListDirectory(workspace, environ=environ), path="."))
    assert "left.out" not in text
    assert "kept.txt" in text


@pytest.mark.requirement("TOOLS-13")
async def test_glob_follows_the_given_environment(project: Path, environ: dict[str, str]) -> None:
    workspace = Workspace(project)
    assert "left.out" in text_of(await call(Glob(workspace), pattern="*"))
    text = text_of(await call(Glob(workspace, environ=environ), pattern="*"))
    assert "left.out" not in text
    assert "kept.txt" in text
