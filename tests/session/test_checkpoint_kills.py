"""`kill -9` during snapshots and restores: each file is old or new, and repeating it completes it."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.session.repositories import back as restored
from tests.session.repositories import save_snapshot

FILES = 40
LINES = 300


def fill(project: Path, word: str) -> None:
    for number in range(FILES):
        path = project / f"d{number % 7}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{word} {number}\n" * LINES, encoding="utf-8")


def words(project: Path) -> list[str]:
    """The word of each file, which has to be one of its versions and not a mix."""
    found: list[str] = []
    for number in range(FILES):
        lines = (project / f"d{number % 7}" / f"{number}.txt").read_text().splitlines()
        assert len(lines) == LINES
        assert len(set(lines)) == 1
        found.append(lines[0].split()[0])
    return found


def kill_during(
    work: Callable[[], object], after_s: float, begun: Callable[[], bool] = lambda: True
) -> None:
    """Does something in a process of its own and kills that so much later than it has begun."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    while not (begun() or os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG)):
        time.sleep(0.001)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.parametrize("seed", range(2))
def test_files_are_old_or_new_when_putting_them_back_is_killed(project: Path, seed: int):
    chance = random.Random(seed)
    fill(project, "old")
    snapshot = save_snapshot(project)
    seen: set[str] = set()

    def putting_back() -> None:
        restored(project, snapshot)

    def has_begun() -> bool:
        return any(path.read_text().startswith("old") for path in project.glob("*/*.txt"))

    for count in range(4):
        fill(project, "new")
        if count:
            kill_during(putting_back, chance.uniform(0.02, 0.25))
        else:
            kill_during(putting_back, chance.uniform(0, 0.05), has_begun)
        found = words(project)
        seen.update(found)
        assert set(found) <= {"old", "new"}
        restored(project, snapshot)
        assert set(words(project)) == {"old"}
        assert not list(project.rglob("*.old"))
    assert "old" in seen


@pytest.mark.parametrize("seed", range(2))
def test_a_snapshot_that_is_killed_spoils_none_before_or_after_it(project: Path, seed: int):
    chance = random.Random(100 + seed)
    fill(project, "first")
    snapshot = save_snapshot(project)
    for count in range(4):
        fill(project, f"{count}")
        kill_during(lambda: save_snapshot(project), chance.uniform(0, 0.12))
        later = save_snapshot(project)
        fill(project, "other")
        restored(project, later)
        assert set(words(project)) == {f"{count}"}
    restored(project, snapshot)
    assert set(words(project)) == {"first"}
