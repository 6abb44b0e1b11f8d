"""Folders in which a terminal takes checkpoints without a setting."""

import subprocess
from pathlib import Path

import pytest

from alhena.frontends.shared import current_settings
from alhena.frontends.shared.current_settings import is_small_folder


@pytest.mark.parametrize(("count", "small"), [(0, True), (3, True), (4, False)])
@pytest.mark.parametrize("tracked", [False, True])
def test_a_folder_is_small_by_the_files_that_a_snapshot_has(
    project: Path, monkeypatch: pytest.MonkeyPatch, tracked: bool, count: int, small: bool
):
    monkeypatch.setattr(current_settings, "MAX_SNAPSHOT_FILES", 4)
    (project / "below").mkdir()
    for at in range(count):
        (project / "below" / f"{at}.txt").write_text("x", encoding="utf-8")
    if tracked:
        (project / ".gitignore").write_text("ignored/\n", encoding="utf-8")
        for words in (("init", "-q"), ("add", ".")):
            subprocess.run(("git", *words), cwd=project, check=True)
        (project / "ignored").mkdir()
        for at in range(20):
            (project / "ignored" / str(at)).write_text("x", encoding="utf-8")
    assert is_small_folder(project) is small
