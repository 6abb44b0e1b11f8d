"""The order of checkpoints: the order in which they were made, whatever the clock or a copy says."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alhena.session.checkpoints.records import Checkpoint, CheckpointFiles, checkpoint_label

REFERENCE = "2025-06-22T10-00-00_000Z-a.txt-write_file"


def files(directory: Path, *labels: str) -> tuple[CheckpointFiles, list[str]]:
    found = CheckpointFiles(directory)
    return found, [found.write(label, Checkpoint()) for label in labels]


def test_a_name_has_the_time_the_file_and_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_500_000_000_123_456_789)
    label = checkpoint_label("write_file", ("some/odd name\n?.txt",))
    _, (name,) = files(tmp_path, label)
    assert name == "2017-07-14T02-40-00_123Z-odd_name_.txt-write_file"


def test_long_names_of_files_and_tools_are_cut(tmp_path: Path):
    for tool, path in (("write_file", "長" * 80), ("t" * 300, "x" * 250)):
        found, (name,) = files(tmp_path, checkpoint_label(tool, (path,)))
        assert name in found.names()


def test_one_of_the_reference_is_ordered_by_its_time_and_a_name_without_time_comes_first(
    tmp_path: Path,
):
    for name in (REFERENCE, "zzz", "2025-99-99T10-00-00_000Z-odd"):
        (tmp_path / f"{name}.json").write_text("{}", encoding="utf-8")
    found, (name,) = files(tmp_path, "new")
    assert found.names() == ("2025-99-99T10-00-00_000Z-odd", "zzz", REFERENCE, name)


def test_noting_an_end_leaves_it_where_it_is(tmp_path: Path):
    found, names = files(tmp_path, "b", "a")
    found.amend(names[0], after="t")
    assert found.names() == tuple(names)
    assert found.read(names[0]).after == "t"


def test_the_oldest_of_too_many_and_those_that_are_too_old_go(tmp_path: Path):
    found, names = files(tmp_path, *"abcdef")
    for number, name in enumerate(names):
        when = 1_000 * (number + 1)
        os.utime(found.directory / f"{name}.json", (when, when))
    assert found.prune(6_000, keep=4, max_age_s=3_500) == 2
    assert found.names() == tuple(names[-4:])
    assert found.prune(6_000, keep=4, max_age_s=2_500) == 1
    assert found.names() == tuple(names[-3:])


def test_two_sessions_that_write_at_the_same_moment_replace_nothing(tmp_path: Path):
    def write(files: CheckpointFiles) -> list[str]:
        return [files.write("a", Checkpoint(), synced=False) for _ in range(50)]

    with ThreadPoolExecutor(2) as pool:
        names = [*pool.map(write, (CheckpointFiles(tmp_path), CheckpointFiles(tmp_path)))]
    every = [name for each in names for name in each]
    assert len(set(every)) == 100
    assert len(CheckpointFiles(tmp_path).all()) == 100
