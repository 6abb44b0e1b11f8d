"""Two programs that read the same content and both write: one of them does, the other is told."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from alhena.session.tags import create_file
from alhena.system.errors import WriteFailureError
from alhena.system.files import alone_in, alone_on, read_whole
from alhena.system.replacement import replace_file, temporary_in
from tests.system.test_replacement import CancelledAt

WRITER = """
import sys
from pathlib import Path
from alhena.system.errors import ChangedFileError
from alhena.system.files import read_whole
from alhena.system.replacement import replace_file

me, path = sys.argv[1], Path(sys.argv[2])
while line := sys.stdin.readline():
    before = read_whole(path, 10_000)[1] if path.exists() else None
    print("read", flush=True)
    sys.stdin.readline()
    try:
        replace_file(path, f"{line.strip()} {me}".encode(), expected=before, limit=10_000)
        print("written", flush=True)
    except ChangedFileError as error:
        print("changed", flush=True)
"""


@contextmanager
def writers(*paths: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    """A process for each path, named by its number; they end with the block."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(number), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for number, path in enumerate(paths)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.communicate()
            assert process.returncode == 0


def say(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def heard(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def rounds(paths: tuple[Path, Path], count: int) -> None:
    with writers(*paths) as both:
        for number in range(count):
            for process in both:
                say(process, str(number))
            assert [heard(process) for process in both] == ["read", "read"]
            for process in both:
                say(process, "now")
            told = [heard(process) for process in both]
            assert sorted(told) == ["changed", "written"], (number, told)
            winner = told.index("written")
            assert {path.read_text(encoding="utf-8") for path in paths} == {f"{number} {winner}"}


@pytest.mark.requirement("TOOLS-09", "TOOLS-10")
def test_of_two_programs_that_read_the_same_only_one_writes(project: Path) -> None:
    path = project / "a.txt"
    path.write_text("first", encoding="utf-8")
    rounds((path, path), 200)
    assert [entry.name for entry in project.iterdir()] == ["a.txt"]


@pytest.mark.requirement("TOOLS-09", "TOOLS-10")
def test_names_of_one_file_in_two_directories_do_not_get_around_that(project: Path) -> None:
    paths = (project / "one/a.txt", project / "two/b.txt")
    for path in paths:
        path.parent.mkdir()
    paths[0].write_text("first", encoding="utf-8")
    paths[1].hardlink_to(paths[0])
    rounds(paths, 200)
    assert paths[0].samefile(paths[1])
    assert sorted(entry.name for entry in project.rglob("*.*")) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("linked", [True, False])
def test_who_cannot_have_the_file_to_himself_leaves_it_alone(project: Path, linked: bool) -> None:
    path = project / "a.txt"
    path.write_bytes(b"old")
    if linked:
        (project / "sub").mkdir()
        (project / "sub/b.txt").hardlink_to(path)
    before = read_whole(path, 1000)[1]
    descriptors = [os.open(path if linked else project, os.O_RDONLY) for _ in range(2)]
    hold = alone_on if linked else alone_in
    with hold(descriptors[0], path):
        late = pytest.raises(WriteFailureError, match="Another program holds")
        with late, hold(descriptors[1], path, patience_s=0):
            raise AssertionError("two hold it")
        with pytest.raises(WriteFailureError, match="Cancelled before"):
            replace_file(path, b"new", expected=before, limit=1000, cancellation=CancelledAt(5))
        assert path.read_bytes() == b"old"
        assert not list(project.glob(".alhena-*"))
    replace_file(path, b"new", expected=before, limit=1000)
    assert path.read_bytes() == b"new"
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.parametrize("made", ["session", "temporary"])
def test_a_new_file_is_free_although_a_process_that_starts_has_a_copy_of_it(
    tmp_path: Path, made: str
):
    path = tmp_path / "new"
    if made == "session":
        with create_file(path, replace=False) as file:
            copy = os.dup(file.fileno())
            file.write(b"x")
    else:
        directory = os.open(tmp_path, os.O_RDONLY)
        with temporary_in(directory, 0o600) as (descriptor, name):
            copy = os.dup(descriptor)
            (tmp_path / name).rename(path)
        os.close(directory)
    with path.open("rb+") as again, alone_on(again.fileno(), path, patience_s=0):
        os.close(copy)


def test_two_that_find_a_folder_missing_both_write_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, both = os.mkdir, threading.Barrier(2)

    def make_together(name: str, *more: int, **where: int) -> None:
        if name == "new":
            both.wait()
        make(name, *more, **where)

    monkeypatch.setattr(os, "mkdir", make_together)
    top = tmp_path.resolve() / "new" / "below"
    with ThreadPoolExecutor(2) as threads:
        writing = [
            threads.submit(replace_file, top / name, b"x", expected=None, limit=9)
            for name in ("a", "b")
        ]
        assert [each.result() for each in writing] == [0, 0]
    assert sorted(os.listdir(top)) == ["a", "b"]
