import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from alhena.system.errors import FileError, NotRegularFileError, WriteFailureError
from alhena.system.files import exclusive


def test_only_one_holds_it_and_nothing_is_left_behind(project: Path) -> None:
    path = project / "lock"
    with exclusive(path):
        assert path.exists()
        raises = pytest.raises(WriteFailureError, match="holds the lock")
        with raises, exclusive(path, patience_s=0):
            raise AssertionError("two hold one lock")
    assert os.listdir(project) == []


def test_threads_take_turns(project: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(20):
            with exclusive(project / "lock"):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert max(most) == 1


def test_who_waits_can_be_cancelled(project: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    raises = pytest.raises(WriteFailureError, match="Cancelled")
    lock = project / "lock"
    with exclusive(lock), raises, exclusive(lock, cancellation=cancelled):
        raise AssertionError("two hold one lock")


def test_a_lock_whose_holder_was_killed_is_free(project: Path) -> None:
    path = project / "lock"
    code = (
        "import sys, pathlib\nfrom alhena.system.files import exclusive\n"
        "with exclusive(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.communicate()
    assert path.exists()
    with exclusive(path, patience_s=0):
        assert path.exists()
    assert not path.exists()


def test_what_is_no_lock_file_is_refused(project: Path) -> None:
    os.mkfifo(project / "fifo")
    with pytest.raises(NotRegularFileError), exclusive(project / "fifo"):
        raise AssertionError("a FIFO was locked")
    (project / "target").touch()
    (project / "link").symlink_to("target")
    for name in ("link", "missing/lock"):
        with pytest.raises(FileError), exclusive(project / name):
            raise AssertionError(name)
    assert (project / "target").exists()


def test_an_error_inside_releases_it(project: Path) -> None:
    with pytest.raises(ValueError, match="inside"), exclusive(project / "lock"):
        raise ValueError("inside")
    with exclusive(project / "lock", patience_s=0):
        descriptor = os.open(project / "lock", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
