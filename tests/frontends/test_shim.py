"""`alhena shim gemini`: the command for scripts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.memory.kit import put
from tests.support.command import alhena
from tests.support.patience import PATIENCE_S


@pytest.mark.requirement("TODAY-07")
def test_the_command_runs_alhena_without_it_on_the_path_and_imports_nothing_from_there(
    home: Path, project: Path
):
    done = alhena("shim", "gemini", "--dir", "bin dir")
    assert (done.code, done.err) == (0, "")
    assert str(project / "bin dir") in done.out
    put(project, "alhena.py", "raise SystemExit('foreign')")
    put(project, "json.py", "raise SystemExit('foreign')")
    ran = subprocess.run(
        [project / "bin dir" / "gemini", "-m", "demo", "-o", "json", "-p", "hello  world"],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(ran.stdout)["status"] == "success"


@pytest.mark.requirement("TODAY-07")
@pytest.mark.parametrize("kind", ["file", "link", "dangling", "folder"])
def test_nothing_that_exists_is_replaced(tmp_path: Path, kind: str):
    there, other = tmp_path / "gemini", put(tmp_path, "other", "theirs")
    match kind:
        case "file":
            there.write_text("theirs", encoding="utf-8")
        case "link":
            there.symlink_to(other)
        case "dangling":
            there.symlink_to(tmp_path / "none")
        case _:
            there.mkdir()
    done = alhena("shim", "gemini", "--dir", str(tmp_path))
    assert done.code == 42
    assert "it was left alone" in done.err
    assert other.read_text(encoding="utf-8") == "theirs"
    assert kind in ("dangling", "folder") or there.read_text(encoding="utf-8") == "theirs"
    assert not (tmp_path / "none").exists()


@pytest.mark.requirement("TODAY-07")
def test_without_a_folder_it_goes_to_the_home_which_is_printed(home: Path):
    for _ in range(2):  # it is there already, as it would be written
        done = alhena("shim", "gemini", PATH="/usr/bin")
        assert done.code == 0
        assert f"add its folder to PATH: {home / '.local' / 'bin'}" in done.out
    assert os.access(home / ".local" / "bin" / "gemini", os.X_OK)


def test_without_a_home_and_a_folder_of_its_own_a_folder_has_to_be_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    done = alhena("shim", "gemini", HOME="")
    assert (done.code, "--dir" in done.err) == (2, True)


@pytest.mark.parametrize("words", [["codex"], []])
def test_other_names_are_refused(words: list[str]):
    assert alhena("shim", *words).code == 2
