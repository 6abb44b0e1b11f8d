"""A process that waits for what may never come, and a search that goes on without it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alhena.system.processes import IDLE_S, Idle
from alhena.system.search.files import Query, SearchBackend
from alhena.system.search.finders import GitGrepSearch, RipgrepSearch
from tests.support.patience import PATIENCE_S

told = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell")


@told
def test_a_process_that_waits_is_known_before_it_was_silent_for_long(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    command = ["cat", str(tmp_path / "pipe")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as waiting:
        idle = Idle(waiting.pid)
        held = os.open(tmp_path / "pipe", os.O_WRONLY)  # when it has opened the other end
        while Path(f"/proc/{waiting.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            pass
        seen = [idle.seen(now) for now in (10.0, 10.0 + IDLE_S / 2, 10.1 + IDLE_S)]
        os.close(held)
    assert seen == [False, False, True]
    assert not Idle(os.getpid()).seen(10.0)
    assert not Idle(waiting.pid).seen(10.0)


_POLLING = """
import sys, threading, time
def look():
    while True:
        time.sleep(0.001)
        for _ in range(20_000):
            pass
for _ in range(3): threading.Thread(target=look, daemon=True).start()
open(sys.argv[1])
"""


def _tells_where_threads_sleep() -> bool:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as reading:
        end = time.monotonic() + 2
        while not (place := _place(reading.pid)).endswith("pipe_read"):
            if time.monotonic() > end:
                break
        reading.kill()
    return place.endswith("pipe_read")


def _place(pid: int) -> str:
    place = Path(f"/proc/{pid}/wchan")
    return place.read_text().strip("\0\n") if place.exists() else ""


@told
def test_threads_that_look_for_work_hide_no_thread_that_waits_at_a_fifo(tmp_path: Path):
    if not _tells_where_threads_sleep():
        pytest.skip("the kernel does not say where a thread sleeps")
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-c", _POLLING, str(tmp_path / "pipe")]
    with subprocess.Popen(command) as working:
        idle = Idle(working.pid)
        end = time.monotonic() + PATIENCE_S
        while not (seen := idle.seen(time.monotonic())) and time.monotonic() < end:
            time.sleep(0.02)
        working.kill()
    assert seen


@told
def test_a_process_that_reads_from_one_it_has_started_is_at_work():
    command = ["sh", "-c", 'sh -c "while :; do :; done" | cat']
    with subprocess.Popen(command, start_new_session=True) as working:
        idle = Idle(working.pid)
        time.sleep(0.1)
        seen = [idle.seen(1.0 + step) for step in (0.0, IDLE_S / 2, IDLE_S * 2)]
        os.killpg(working.pid, signal.SIGKILL)
    assert seen == [False, False, False]


@told
@pytest.mark.parametrize("held", [False, True], ids=["nobody writes", "somebody holds it open"])
@pytest.mark.parametrize("program", ["rg", "git"])
@pytest.mark.parametrize("name", [".gitignore", "deep/.gitignore"])
async def test_a_fifo_in_the_place_of_rules_keeps_no_search_waiting(
    project: Path, program: str, name: str, held: bool
):
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program}")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / "deep").mkdir()
    for file in ("a.txt", "deep/b.txt"):
        (project / file).write_text("needle\n", encoding="utf-8")
    os.mkfifo(project / name)
    writing = os.open(project / name, os.O_RDWR) if held else None
    kinds: dict[str, type[RipgrepSearch | GitGrepSearch]] = {
        "rg": RipgrepSearch,
        "git": GitGrepSearch,
    }
    backend: SearchBackend = kinds[program](found, time_limit=PATIENCE_S)
    result = await backend.search(Query(pattern="needle", path=project, root=project))
    if writing is not None:
        os.close(writing)
    assert [str(match.path.relative_to(project)) for match in result.matches] == [
        "a.txt",
        "deep/b.txt",
    ]
    assert any("is a FIFO" in note for note in result.notes)
