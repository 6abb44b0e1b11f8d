"""`alhena batch`: its own cost of a task beside a plain loop of the library, and a long queue."""

import json
import resource
import shutil
from pathlib import Path

from bench.measure import ALHENA, environment, measured, row, wall
from bench.server import BenchServer, candidate, event

FEW, MANY = 8, 208
"""The cost of a task is the difference of two runs, without their start."""
ROUNDS = 3
QUEUED = 50_000

PLAIN = """
import asyncio, json, sys, time
from alhena import Agent, run_many
from alhena.models import Gemini

async def main():
    async with Gemini("gemini-2.5-flash", api_key="x", base_url=sys.argv[1]) as model:
        async def took(count):
            begun = time.process_time()
            async for outcome in run_many(["hi"] * count, agent=lambda: Agent(model)):
                assert outcome.error is None
            return time.process_time() - begun
        await took(8)
        print(json.dumps(await took(200) * 1000 / 200))

asyncio.run(main())
"""
QUEUE = """
import json, resource, sys, time
from pathlib import Path
from alhena.batch.engine import RunConfig
from alhena.batch.run import new_run
from alhena.batch.tasks import read_tasks

cwd = Path.cwd()
begun = time.perf_counter()
with new_run(cwd / "queue.run", read_tasks("queue.jsonl", None, cwd), RunConfig(out="r", cwd=".")):
    seconds = time.perf_counter() - begun
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def run(home: Path, cwd: Path) -> None:
    _write(cwd / "queue.jsonl", QUEUED)
    seconds, megabytes = measured(QUEUE, home, cwd)
    row("50,000 tasks queued", f"{seconds:.2f} s", "-", None, "<= 5 s", ok=seconds <= 5)
    held = f"{megabytes:.0f} MB"
    row("50,000 tasks queued, memory", held, "-", None, "<= 150 MB", ok=megabytes <= 150)
    with BenchServer(lambda _index: event(candidate({"text": "hi"}))) as server:
        plain = min(float(measured(PLAIN, home, cwd, server.url)) for _ in range(ROUNDS))
        for workers, limit in ((0, 12), (1, 60), (2, 60)):
            times = [_each(home, cwd, server.url, workers) for _ in range(ROUNDS)]
            added = min(times) - plain
            name = f"batch, --workers {workers}: CPU added to a task"
            shown = f"plain loop {plain:.1f} ms"
            ratio = min(times) / plain
            row(name, f"{added:.1f} ms", shown, ratio, f"<= {limit} ms", ok=added <= limit)


def _each(home: Path, cwd: Path, url: str, workers: int) -> float:
    """Milliseconds of CPU time a task, in all processes."""
    env = environment(home, GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=url)
    times: list[float] = []
    for count in (FEW, MANY):
        _write(cwd / "tasks.jsonl", count)
        shutil.rmtree(cwd / "r.jsonl.run", ignore_errors=True)
        options = ("--workers", str(workers), "-m", "gemini-2.5-flash")
        before = _spent()
        wall([*ALHENA, "batch", "tasks.jsonl", "--out", "r.jsonl", *options], cwd, env)
        times.append(_spent() - before)
        found = len((cwd / "r.jsonl").read_bytes().splitlines())
        if found != count:
            raise SystemExit(f"{found} of {count} tasks have a result")
        (cwd / "r.jsonl").unlink()
    return (times[1] - times[0]) * 1000 / (MANY - FEW)


def _spent() -> float:
    """CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(path: Path, count: int) -> None:
    lines = (json.dumps({"id": f"t{n}", "prompt": "hi"}) + "\n" for n in range(count))
    path.write_text("".join(lines), encoding="utf-8")
