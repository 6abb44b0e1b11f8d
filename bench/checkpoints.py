"""The time that checkpoints add to a prompt in a large folder, and their cost in the background."""

import asyncio
import resource
import subprocess
import threading
import time
from collections.abc import Awaitable
from pathlib import Path

from alhena.agent.checkpointing import Checkpoints
from alhena.events import Event
from alhena.tools.contract import ToolLocation
from alhena.wire.content import ToolCallRequestInfo
from bench.measure import environment, median_ms, row

FILES = 50_000
ROUNDS = 15
THINKING_S = 0.3
"""Time between prompts, and until a model answers."""


def run(home: Path, cwd: Path) -> None:
    """Prints the figures."""
    for tracked in (True, False):
        project = cwd / ("tracked" if tracked else "plain")
        for number in range(FILES):
            path = project / f"d{number % 50}" / f"e{number % 1000}" / f"module_{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"VALUE = {number}\n" * 50, encoding="utf-8")
        env = environment(home)
        for arguments in (("init", "-q"), ("add", ".")) if tracked else ():
            subprocess.run(["git", *arguments], cwd=project, env=env, check=True)
        asyncio.run(_measure(project, env, "with git" if tracked else "without git"))


async def _measure(project: Path, env: dict[str, str], kind: str) -> None:
    checkpoints = Checkpoints(project, env, "bench", _ignore, patient=False)
    where = f"{FILES:,} files {kind}"
    cpu, start = _cpu_s(), time.perf_counter()
    checkpoints.background.begin()
    edits = list[float]()
    for count in range(ROUNDS):
        edits.append(await _seconds(_edit(checkpoints, project, count)))
        await asyncio.sleep(THINKING_S)
    _prompt(f"edits during the first snapshot, {where}", edits)
    await _all_done(checkpoints)
    _background(f"the first snapshot, {where}", time.perf_counter() - start, _cpu_s() - cpu)
    size = await asyncio.to_thread(_size, Path(env["HOME"], ".gemini", "history"))
    row(f"disk of its snapshots, {where}", f"{size / 1e6:.0f} MB", "", None, "none", ok=True)
    edits, commands, later = list[float](), list[float](), list[float]()
    cpu = _cpu_s()
    for count in range(ROUNDS):
        for times, prompt in ((edits, _edit), (commands, _command)):
            start = time.perf_counter()
            checkpoints.background.begin()
            await asyncio.sleep(THINKING_S)
            times.append(await _seconds(prompt(checkpoints, project, count)))
            await _all_done(checkpoints)
            later.append(time.perf_counter() - start)
    _prompt(f"edits, {where}", edits)
    _prompt(f"runs a command, {where}", commands)
    cpu = (_cpu_s() - cpu) / len(later)
    _background(f"the snapshots of a prompt, {where}", median_ms(later) / 1000, cpu)
    for name in ("a command", "an edit"):
        await checkpoints.ready()
        turn = checkpoints.last_turn()
        assert turn is not None
        undone = await _seconds(checkpoints.undo(turn, threading.Event()))
        row(f"/undo of {name}, {where}", f"{undone * 1000:.0f} ms", "", None, "none", ok=True)
    await checkpoints.close()


def _prompt(name: str, times: list[float]) -> None:
    value = median_ms(times)
    worst = f"the slowest {max(times) * 1000:.1f} ms"
    row(
        f"added to a prompt that {name}",
        f"{value:.1f} ms",
        worst,
        value / 5,
        "<= 5 ms",
        ok=value <= 5,
    )


def _background(name: str, seconds: float, cpu_s: float) -> None:
    row(
        f"{name}, in the background",
        f"{seconds:.1f} s",
        f"{cpu_s:.1f} s CPU",
        None,
        "none",
        ok=True,
    )


async def _edit(checkpoints: Checkpoints, project: Path, count: int) -> None:
    path = project / "d1" / "e1" / "module_1.py"
    places = (ToolLocation(path=str(path)),)
    await checkpoints.keep(_request("write_file", f"e{count}{time.time_ns()}"), places, edits=True)
    path.write_text(f"VALUE = -{count}\n" * 50, encoding="utf-8")
    await checkpoints.turn_over()


async def _command(checkpoints: Checkpoints, project: Path, count: int) -> None:
    request = _request("run_shell_command", f"c{count}{time.time_ns()}")
    await checkpoints.keep(request, (), edits=False)
    (project / "d2" / "e2" / "module_2.py").write_text(f"VALUE = -{count}\n", encoding="utf-8")
    await checkpoints.turn_over()


def _request(name: str, identity: str) -> ToolCallRequestInfo:
    return ToolCallRequestInfo(call_id=identity, name=name, args={}, prompt_id=identity)


async def _all_done(checkpoints: Checkpoints) -> None:
    """Waits for all snapshots, those too that no checkpoint needs."""
    await checkpoints.background.plan().wait(600)


async def _seconds(work: Awaitable[object]) -> float:
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.glob("**/*"))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _ignore(_event: Event) -> None:
    """Ignores events."""


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        home, cwd = Path(folder, "home"), Path(folder, "project")
        home.mkdir()
        cwd.mkdir()
        run(home, cwd)
