"""A process that waits for what may never come, and a search that goes on without it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from alhena.system.idleness import IDLE_S, Idle
from alhena.system.search import Query, SearchBackend
from alhena.system.search_finders import GitGrepSearch, RipgrepSearch

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


@told
@pytest.mark.parametrize("program", ["rg", "git"])
@pytest.mark.parametrize("name", [".gitignore", "deep/.gitignore"])
async def test_a_fifo_in_the_place_of_rules_keeps_no_search_waiting(
    project: Path, program: str, name: str
):
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"there is no {program}")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / "deep").mkdir()
    for file in ("a.txt", "deep/b.txt"):
        (project / file).write_text("needle\n", encoding="utf-8")
    os.mkfifo(project / name)
    kinds: dict[str, type[RipgrepSearch | GitGrepSearch]] = {
        "rg": RipgrepSearch,
        "git": GitGrepSearch,
    }
    backend: SearchBackend = kinds[program](found, time_limit=8.0)
    result = await backend.search(Query(pattern="needle", path=project, root=project))
    assert [str(match.path.relative_to(project)) for match in result.matches] == [
        "a.txt",
        "deep/b.txt",
    ]
    assert any("is a FIFO" in note for note in result.notes)
