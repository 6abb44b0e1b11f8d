"""Temporary files: gone with the next write when their writer was killed, never while it lives."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

from alhena.system.files import is_temporary, read_whole, temporary_name
from alhena.system.replacement import remove_leftovers, replace_file
from alhena.system.search import FileSearch, Query
from alhena.system.walk import walk
from alhena.system.workspace import Workspace
from alhena.tools.builtin.list_directory import ListDirectory
from tests.tools.files import call, text_of

KILLED = """
import os, signal, threading
from pathlib import Path
from alhena.system.files import read_whole
from alhena.system.replacement import replace_file

class Killing(threading.Event):
    def is_set(self):
        if any(p.stat().st_size for p in Path(".").glob(".alhena-*.tmp")):
            os.kill(os.getpid(), signal.SIGKILL)
        return False

path = Path("a.txt").resolve()
_, before = read_whole(path, 9_999_999)
replace_file(path, b"x" * 3_000_000, expected=before, limit=9_999_999, cancellation=Killing())
"""


def kill_run(project: Path) -> Path:
    (project / "a.txt").write_bytes(b"old")
    ran = subprocess.run([sys.executable, "-c", KILLED], cwd=project, check=False)
    assert ran.returncode == -9
    (left,) = project.glob(".alhena-*.tmp")
    return left


def age_path(path: Path, seconds: float = 3_600) -> Path:
    when = path.stat().st_mtime - seconds
    os.utime(path, (when, when))
    return path


def write(project: Path, content: bytes) -> None:
    path = project / "a.txt"
    _, before = read_whole(path, 9_999_999)
    replace_file(path, content, expected=before, limit=9_999_999)


def test_the_next_write_removes_what_a_killed_one_left(project: Path) -> None:
    left = kill_run(project)
    write(project, b"new")
    assert left.exists()  # too young to be sure of
    age_path(left)
    write(project, b"newer")
    assert os.listdir(project) == ["a.txt"]
    assert (project / "a.txt").read_bytes() == b"newer"


def test_a_file_whose_writer_lives_stays_however_old(project: Path) -> None:
    left = age_path(kill_run(project))
    with left.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write(project, b"new")
        assert left.exists()
    write(project, b"newer")
    assert not left.exists()


def test_a_file_is_locked_from_its_making_until_it_has_its_place(project: Path) -> None:
    (project / "a.txt").write_bytes(b"old")
    looks = 0

    class Looking(threading.Event):
        """Plays another writer, to whom every file is old, at each step of the write."""

        def is_set(self) -> bool:
            nonlocal looks
            for path in project.glob(".alhena-*.tmp"):
                looks += 1
                os.utime(path, (1, 1))
                descriptor = os.open(project, os.O_RDONLY)
                try:
                    remove_leftovers(descriptor)
                finally:
                    os.close(descriptor)
                assert path.exists()
            return False

    path = project / "a.txt"
    _, before = read_whole(path, 99)
    replace_file(path, b"x" * 3_000_000, expected=before, limit=99, cancellation=Looking())
    assert looks > 3
    assert path.read_bytes() == b"x" * 3_000_000


def test_only_ones_own_temporary_files_are_removed(project: Path) -> None:
    outside = age_path(_touch_path(project.parent / "outside"))
    names = [".alhena-x.tmp", ".alhena-0123456789abcdef.old", "alhena-0123456789abcdef.tmp"]
    kept = [age_path(_touch_path(project / name)) for name in names]
    (project / temporary_name()).symlink_to(outside)
    (project / temporary_name()).mkdir()
    os.mkfifo(project / temporary_name())
    before = sorted(os.listdir(project))
    descriptor = os.open(project, os.O_RDONLY)
    try:
        remove_leftovers(descriptor)
    finally:
        os.close(descriptor)
    assert sorted(os.listdir(project)) == before
    assert outside.exists()
    assert not any(is_temporary(path.name) for path in kept)


async def test_files_on_their_way_are_not_listed_nor_searched(project: Path) -> None:
    for name in (temporary_name(), "a.txt"):
        (project / name).write_text("needle", encoding="utf-8")
    assert [entry.name for entry in walk(project)] == ["a.txt"]
    listed = text_of(await call(ListDirectory(Workspace(project)), path="."))
    assert listed.split("\n")[1:] == ["a.txt (6 bytes)"]
    query = Query(pattern="needle", path=project, root=project, no_ignore=True)
    found = await FileSearch().search(query)
    assert [match.path.name for match in found.matches] == ["a.txt"]


def _touch_path(path: Path) -> Path:
    path.touch()
    return path
