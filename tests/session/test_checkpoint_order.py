"""The order of checkpoints: that in which they were made, whatever the clock or a copy says."""

import os
import shutil
from pathlib import Path

from alhena.session.checkpoints.records import Checkpoint, CheckpointFiles


def files(directory: Path, *names: str) -> CheckpointFiles:
    found = CheckpointFiles(directory)
    for name in names:
        found.write(name, Checkpoint(message_id=name))
    return found


def since(found: CheckpointFiles, name: str, seconds: float) -> None:
    os.utime(found.directory / f"{name}.json", (seconds, seconds))


def test_a_clock_that_goes_back_changes_nothing(tmp_path: Path):
    found = files(tmp_path, "z", "y")
    since(found, "y", 1_000)
    files(tmp_path, "x")
    since(found, "x", 500)
    assert found.names() == ("z", "y", "x")
    assert [name for name, _ in CheckpointFiles(tmp_path).all()] == ["z", "y", "x"]
    assert found.find("latest", found.all) == "x"
    assert found.find("2", found.all) == "y"


def test_neither_does_a_copy_without_times(tmp_path: Path):
    found = files(tmp_path / "old", "c", "b", "a")
    (tmp_path / "new").mkdir()
    for name in ("a", "c", "b"):
        shutil.copyfile(found.directory / f"{name}.json", tmp_path / "new" / f"{name}.json")
    assert CheckpointFiles(tmp_path / "new").names() == ("c", "b", "a")


def test_those_without_a_number_come_before_by_their_times(tmp_path: Path):
    for name in ("old", "older"):
        (tmp_path / f"{name}.json").write_text("{}", encoding="utf-8")
    found = files(tmp_path, "new")
    since(found, "old", 5e9)
    since(found, "older", 4e9)
    assert found.names() == ("older", "old", "new")


def test_a_number_that_can_be_none_is_none(tmp_path: Path):
    for name, number in (("a", "-1"), ("b", "1e99"), ("c", '"7"'), ("d", f"{1 << 60}")):
        (tmp_path / f"{name}.json").write_text(f'{{"number": {number}}}', encoding="utf-8")
    (tmp_path / "e.json").write_text("{", encoding="utf-8")
    (tmp_path / "f.json").write_text(f'{{"number": {1 << 53}}}', encoding="utf-8")
    found = files(tmp_path, "new")
    assert found.names()[-2:] == ("f", "new")
    assert [name for name, _ in found.all()] == ["f", "new"]


def test_noting_an_end_leaves_it_where_it_is(tmp_path: Path):
    found = files(tmp_path, "b", "a")
    found.note_end("b", {"": "t"})
    assert found.names() == ("b", "a")
    assert CheckpointFiles(tmp_path).names() == ("b", "a")


def test_what_is_written_over_is_read_again(tmp_path: Path):
    found = files(tmp_path, "a", "b")
    assert found.names() == ("a", "b")
    (tmp_path / "a.json").unlink()
    files(tmp_path, "a")
    assert found.names() == ("b", "a")


def test_the_oldest_of_too_many_go_whatever_the_clock_said(tmp_path: Path):
    found = files(tmp_path, "a", "b", "c")
    for name, when in (("a", 30), ("b", 20), ("c", 10)):
        since(found, name, when)
    assert found.prune(30, keep=1) == 2
    assert found.names() == ("c",)
