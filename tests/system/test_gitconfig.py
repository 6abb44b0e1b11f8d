"""Malformed entries in git's own files affect nothing else."""

from pathlib import Path

import pytest

from alhena.system.errors import MissingFileError
from alhena.system.files import open_real, open_regular, read_small_text
from alhena.system.ignore import IgnoreRules

CONFIGS = [
    b"[core]\n\texcludesFile = a\0b\n",
    b'[core]\n\texcludesFile = "\\0"\n[include]\n\tpath = x\0\n',
    b"[include]\n\tpath = ~/\0\n[core]\n\texcludesFile = \0\n",
    b"\0" * 5_000,
    b"[core]\n\texcludesFile = \xff\xfe\0\n",
]


@pytest.fixture
def files(project: Path) -> Path:
    for name, content in {".gitignore": "*.log\n", "a.log": "x", "a.txt": "x"}.items():
        (project / name).write_text(content, encoding="utf-8")
    return project


@pytest.mark.parametrize("config", CONFIGS)
def test_a_nul_in_the_configuration_of_git_leaves_the_other_rules(files: Path, config: bytes):
    (files / ".git").mkdir()
    (files / ".git" / "config").write_bytes(config)
    rules = IgnoreRules(files)
    assert rules.is_ignored(files / "a.log", is_dir=False)
    assert not rules.is_ignored(files / "a.txt", is_dir=False)


@pytest.mark.parametrize(
    "pointer", [b"gitdir: a\0b\n", b"gitdir: \0", b"\0", b"gitdir: \xff\0\xfe"]
)
def test_a_nul_in_a_git_file_leaves_the_other_rules(files: Path, pointer: bytes):
    (files / ".git").write_bytes(pointer)
    rules = IgnoreRules(files)
    assert rules.is_ignored(files / "a.log", is_dir=False)
    assert not rules.is_ignored(files / "a.txt", is_dir=False)


@pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800"])
def test_a_path_that_no_file_can_have_is_a_missing_file(tmp_path: Path, name: str):
    for opened in (open_regular, open_real):
        with pytest.raises(MissingFileError, match="no file can be called"):
            opened(tmp_path / name)
        with pytest.raises(MissingFileError, match="no file can be called"):
            opened(tmp_path / name / "below")
    warnings: list[str] = []
    assert read_small_text(tmp_path / name, warnings) == ""
    assert warnings == []
