"""The cost of a checkpoint before a call in a large tree, and of restoring it."""

import asyncio
import subprocess
import threading
import time
from pathlib import Path

from alhena.agent.checkpointing import Checkpoints
from alhena.events import Event
from alhena.tools.contract import ToolLocation
from alhena.wire.content import ToolCallRequestInfo
from bench.measure import environment, median_ms, row, wall

FILES = 10_000
ROUNDS = 15


def run(home: Path, cwd: Path) -> None:
    """Prints the figures."""
    project = cwd / "large"
    for number in range(FILES):
        path = project / f"d{number % 200}" / f"module_{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {number}\n" * 50, encoding="utf-8")
    env = environment(home)
    for arguments in (("init", "-q"), ("add", ".")):
        subprocess.run(["git", *arguments], cwd=project, env=env, check=True)
    asyncio.run(_measured(Checkpoints(project, env, "bench", _ignore), project, env))


async def _measured(checkpoints: Checkpoints, project: Path, env: dict[str, str]) -> None:
    request = ToolCallRequestInfo(call_id="c", name="write_file", args={"content": "x" * 2_000})
    edit = project / "d1" / "module_1.py"
    places = (ToolLocation(path=str(edit)),)
    start = time.perf_counter()
    await checkpoints.keep(request, places)
    first = time.perf_counter() - start
    edited: list[float] = []
    same: list[float] = []
    status: list[float] = []
    for number in range(ROUNDS):
        edit.write_text(f"VALUE = -{number}\n", encoding="utf-8")
        for times in (edited, same):
            start = time.perf_counter()
            await checkpoints.keep(request, places)
            times.append(time.perf_counter() - start)
        status.append(_status(project, env))
    found = checkpoints.files.all()
    start = time.perf_counter()
    await checkpoints.restore(*found[1], threading.Event())
    back = time.perf_counter() - start
    plain = median_ms(status)
    beside = f"git status {plain:.0f} ms"
    for name, value in (("after one edit", median_ms(edited)), ("with no change", median_ms(same))):
        row(
            f"checkpoint {name}, {FILES:,} files",
            f"{value:.0f} ms",
            beside,
            value / plain,
            "<= 100 ms",
            ok=value <= 100,
        )
    row(
        f"the first checkpoint, {FILES:,} files",
        f"{first * 1000:.0f} ms",
        beside,
        first * 1000 / plain,
        "<= 5000 ms",
        ok=first <= 5,
    )
    row(
        f"going back by one edit, {FILES:,} files",
        f"{back * 1000:.0f} ms",
        beside,
        back * 1000 / plain,
        "<= 300 ms",
        ok=back <= 0.3,
    )


def _status(project: Path, env: dict[str, str]) -> float:
    """Seconds of a plain `git status`."""
    return wall(["git", "status", "-s"], project, env)


def _ignore(_event: Event) -> None:
    """Ignores events."""


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        home, cwd = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        cwd.mkdir()
        run(home, cwd)
