"""Finding all processes of a command."""

import os
import resource
import subprocess
import sys
import threading

import pytest

from alhena.system.child import Marks, command_line, descendants, marking

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has the limit")


def own_limit() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_RTTIME)


def test_a_mark_goes_with_all_that_is_started_and_stays_off_this_process() -> None:
    before = own_limit()
    marks = Marks()
    first, second = marks.next(), marks.next()
    script = "env -i setsid sleep 60 & setsid sh -c 'sleep 61 & sleep 62' & echo; wait"
    with marking(first) as marked:
        child = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE)
    assert marked
    assert own_limit() == before
    assert str(first).startswith(marks.prefix)
    assert child.stdout is not None
    child.stdout.readline()
    sleeps = {"sleep 60", "sleep 61", "sleep 62"}
    found: tuple[int, ...] = ()
    while not sleeps <= set(map(command_line, found)):  # each is found before it runs its program
        found = descendants(None, first)
    assert child.pid in found
    assert descendants(None, second) == ()
    for pid in found:
        os.kill(pid, 9)
    child.wait()
    child.stdout.close()


def test_what_another_thread_starts_meanwhile_has_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = Marks().next()
    limit = resource.setrlimit
    started, ending = threading.Event(), threading.Event()
    found: list[int] = []

    def start() -> None:
        with subprocess.Popen(["sleep", "60"]) as other:
            found.append(other.pid)
            started.set()
            ending.wait()
            other.kill()

    thread = threading.Thread(target=start)

    def limit_and_start(kind: int, limits: tuple[int, int]) -> None:
        limit(kind, limits)
        if limits[0] == mark:
            thread.start()
            started.wait()

    monkeypatch.setattr(resource, "setrlimit", limit_and_start)
    try:
        with marking(mark) as marked:
            assert marked
            assert set(descendants(None, mark)) == {os.getpid(), *found}
        assert descendants(None, mark) == ()
    finally:
        ending.set()
        thread.join()


def test_nothing_is_marked_without_a_mark() -> None:
    with marking(0) as marked:
        assert not marked
        assert own_limit()[0] == resource.RLIM_INFINITY


def test_what_fails_to_start_leaves_no_mark_behind() -> None:
    before = own_limit()
    with pytest.raises(FileNotFoundError), marking(Marks().next()):
        subprocess.Popen(["/no/such/program"])
    assert own_limit() == before
