"""`alhena batch`: its own cost of a task beside a plain loop of the library, a long queue, and
tasks a second. Ray, which listens on every interface, is measured where there is only loopback:
`unshare -rn sh -c 'ip link set lo up; .venv/bin/python -m bench batch'`."""

import json
import resource
import shutil
import socket
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from bench.measure import ALHENA, environment, measured, row, wall
from bench.server import BenchServer, candidate, event

FEW, MANY = 8, 208
"""The cost of a task is the difference of two runs, without their start."""
ROUNDS = 3
QUEUED = 50_000
WARM, STEADY = 80, 160
"""Tasks on Ray: while processes start, and those that are measured."""
LATENCY_S = 0.2
"""So long the server of the throughput takes to answer."""

PLAIN = """
import asyncio, json, sys, time
from alhena import Agent, run_many
from alhena.models import Gemini

async def main():
    async with Gemini("gemini-3.8-flash", api_key="x", base_url=sys.argv[1]) as model:
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

WORK = """
import json, os, time
from pathlib import Path
from alhena.batch.queue import Queue
from alhena.batch.tasks import QueuedTask

count, result = 2_000, b'{"id":"t","status":"done","answer":"' + b"x" * 200 + b'"}'
Path("work.run").mkdir()
tasks = [QueuedTask(id=f"t{n}", prompt="hi") for n in range(count)]
queue = Queue.create(Path("work.run"), tasks, b"{}")
begun = time.perf_counter()
while claims := queue.claim("one", 8, 8, 30.0):
    for claim in claims:
        assert queue.finish(claim.token, "done", None, result)
seconds = time.perf_counter() - begun
queue.close()
begun = time.perf_counter()
with open("work.log", "ab", buffering=0) as log:
    for _ in range(count):
        log.write(result)
        os.fdatasync(log.fileno())
print(json.dumps([seconds, time.perf_counter() - begun]))
"""


def run(home: Path, cwd: Path) -> None:
    _write(cwd / "queue.jsonl", QUEUED)
    seconds, megabytes = measured(QUEUE, home, cwd)
    row("50,000 tasks queued", f"{seconds:.2f} s", "-", None, "<= 5 s", ok=seconds <= 5)
    held = f"{megabytes:.0f} MB"
    row("50,000 tasks queued, memory", held, "-", None, "<= 150 MB", ok=megabytes <= 150)
    seconds, log = min(_work(home, cwd) for _ in range(ROUNDS))
    name, shown = "2,000 tasks claimed and finished", f"as many lines, each synced {log:.2f} s"
    row(name, f"{seconds:.2f} s", shown, seconds / log, "<= 4 x", ok=seconds <= 4 * log)
    with BenchServer(lambda _index: event(candidate({"text": "hi"}))) as server:
        plain = min(float(measured(PLAIN, home, cwd, server.url)) for _ in range(ROUNDS))
        for workers, limit in ((0, 12), (1, 60), (2, 60)):
            times = [_each(home, cwd, server.url, workers) for _ in range(ROUNDS)]
            added = min(times) - plain
            name = f"batch, --workers {workers}: CPU added to a task"
            shown = f"plain loop {plain:.1f} ms"
            ratio = min(times) / plain
            row(name, f"{added:.1f} ms", shown, ratio, f"<= {limit} ms", ok=added <= limit)
        if find_spec("ray") and [name for _, name in socket.if_nameindex()] == ["lo"]:
            _measure_ray(home, cwd)
    with BenchServer(_late) as server:
        for workers in (0, 1, 2):
            for concurrency in (1, 8, 32):
                options = ("--workers", str(workers), "--concurrency", str(concurrency))
                many = FEW + min(200, 24 * concurrency)
                rate = 1 / _seconds(home, cwd, server.url, options, (FEW, many))[0]
                name = f"batch, {' '.join(options)}: tasks a second"
                bound = concurrency / LATENCY_S
                row(name, f"{rate:.1f}", f"at most {bound:.0f}", rate / bound, "-", ok=True)


def _work(home: Path, cwd: Path) -> tuple[float, float]:
    """Seconds to claim and finish tasks, and to append as many lines to a log."""
    shutil.rmtree(cwd / "work.run", ignore_errors=True)
    seconds, log = measured(WORK, home, cwd)
    return seconds, log


def _measure_ray(home: Path, cwd: Path) -> None:
    for concurrency in (2, 8, 32):
        shared = ("--concurrency", str(concurrency))
        options = (("--workers", "2"), ("--engine", "ray"))
        rounds = [[_steady(home, cwd, (*each, *shared)) for each in options] for _ in range(ROUNDS)]
        local, ray = (median(each) for each in zip(*rounds, strict=True))
        added, shown = ray - local, f"--workers 2 {local:.1f} ms"
        name = f"batch on Ray, {' '.join(shared)}: added to a task"
        row(name, f"{added:.1f} ms", shown, None, "<= 15 ms", ok=added <= 15)


def _steady(home: Path, cwd: Path, options: tuple[str, ...]) -> float:
    """Milliseconds a task, from request to request, once all processes have started."""
    asked: list[float] = []

    def answer(_index: int) -> bytes:
        asked.append(time.perf_counter())
        return event(candidate({"text": "hi"}))

    with BenchServer(answer) as server:
        _seconds_of(home, cwd, server.url, options, WARM + STEADY)
    return (asked[-1] - asked[WARM]) * 1000 / (len(asked) - 1 - WARM)


def _late(_index: int) -> bytes:
    time.sleep(LATENCY_S)
    return event(candidate({"text": "hi"}))


def _each(home: Path, cwd: Path, url: str, workers: int) -> float:
    """Milliseconds of CPU time a task, in all processes."""
    options = ("--workers", str(workers))
    return _seconds(home, cwd, url, options, (FEW, MANY))[1] * 1000


def _seconds(
    home: Path, cwd: Path, url: str, options: tuple[str, ...], counts: tuple[int, int]
) -> tuple[float, float]:
    """Seconds a task, as the clock says and of CPU time in all processes: the difference of two
    runs of so many tasks."""
    (few_wall, few_cpu), (many_wall, many_cpu) = (
        _seconds_of(home, cwd, url, options, count) for count in counts
    )
    more = counts[1] - counts[0]
    return (many_wall - few_wall) / more, (many_cpu - few_cpu) / more


def _seconds_of(
    home: Path, cwd: Path, url: str, options: tuple[str, ...], count: int
) -> tuple[float, float]:
    """Seconds of a run of so many tasks, as the clock says and of CPU time in all processes."""
    nice = {"RAY_worker_niceness": "0"}  # as the workers of the local engine
    env = environment(home, GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=url, **nice)
    _write(cwd / "tasks.jsonl", count)
    shutil.rmtree(cwd / "r.jsonl.run", ignore_errors=True)
    command = ("batch", "tasks.jsonl", "--out", "r.jsonl", "-m", "gemini-3.8-flash", *options)
    before = _spent()
    taken = wall([*ALHENA, *command], cwd, env)
    spent = _spent() - before
    found = len((cwd / "r.jsonl").read_bytes().splitlines())
    if found != count:
        raise SystemExit(f"{found} of {count} tasks have a result")
    (cwd / "r.jsonl").unlink()
    return taken, spent


def _spent() -> float:
    """CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write(path: Path, count: int) -> None:
    lines = (json.dumps({"id": f"t{n}", "prompt": "hi"}) + "\n" for n in range(count))
    path.write_text("".join(lines), encoding="utf-8")
