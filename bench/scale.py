"""`make bench-scale`: many tasks and many workers, on one machine. TASKS (1,000,000) are queued,
some of them run, all get results, and are reported; RAY_TASKS (4,000) run on RAY_WORKERS (200) with
a model that answers in 50 ms, where there is only loopback and no other process:

    unshare -rnpf --mount-proc sh -c 'ip link set lo up; make bench-scale'
"""

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from bench.batch import QUEUE
from bench.measure import ALHENA, environment, measured, row
from bench.server import BenchServer, candidate, event

TASKS = int(os.environ.get("TASKS", "1000000"))
RAY_TASKS = int(os.environ.get("RAY_TASKS", "4000"))
RAY_WORKERS = int(os.environ.get("RAY_WORKERS", "200"))
LATENCY_S = 0.05
SMALL, FIRST, LAST = 500, 50, 350
"""Tasks of a small queue, and those between which the tasks a second are measured."""
SECONDS, MEGABYTES, SHARE = 25, 300, 0.8
ALIKE = 0.2
"""Share of the speed of a short queue: other work on the machine changes between the two."""
Sample = tuple[float, float, float]
"""The clock, CPU seconds of the processes that are seen, and those of the machine."""

RESULTS = """
import json
from pathlib import Path
import msgspec
from alhena.batch.queue import Queue
from alhena.batch.results import TaskResult

def result(n, name):
    status = "done" if n % 50 else "failed"
    failed = {"kind": "api_error", "error": f"request {n} failed"}
    done = {"answer": "x" * 200} if n % 50 else failed
    usage = {"requests": 1, "input_tokens": 100, "output_tokens": 10}
    made = TaskResult(id=name, status=status, usage=usage, cost_usd=n % 97 / 1000,
                      duration_s=n % 89 / 10, **done)
    return n, msgspec.json.encode(made), status, n

queue = Queue(Path("queue.run"))
with queue.transaction() as db:
    tasks = db.execute("SELECT n, id FROM tasks ORDER BY n").fetchall()
    change = "UPDATE tasks SET state = 'ended', place = ?, result = ?, status = ? WHERE n = ?"
    db.executemany(change, (result(*task) for task in tasks))
queue.close()
print(json.dumps(None))
"""
REPORT = """
import json, resource, time
from pathlib import Path
from alhena.batch.queue import Queue
from alhena.batch.reports.page import write_page
from alhena.batch.reports.report import report_of
from alhena.batch.results import ResultsFile
from alhena.models.prices import Prices
from alhena.telemetry.records import Redaction

queue = Queue(Path("queue.run"))
begun = time.perf_counter()
for _ in range(2):  # the second time it is compared with the queue
    results = ResultsFile(Path("all.jsonl"), "full")
    results.open(queue)
    while found := tuple(queue.results_after(results.place)):
        results.append(found)
    results.close()
written = time.perf_counter() - begun
write_page(queue, report_of(queue), Path("report.html"), Prices({}), Redaction({}))
print(json.dumps([written, time.perf_counter() - begun - written,
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                  Path("report.html").stat().st_size / 1e6]))
"""


def run(home: Path, cwd: Path) -> None:
    _write_tasks(cwd / "queue.jsonl", TASKS)
    seconds, megabytes = measured(QUEUE, home, cwd)
    share = TASKS / 1_000_000
    limit = max(1.0, SECONDS * share)
    queued = f"{TASKS:,} tasks queued"
    row(queued, f"{seconds:.1f} s", "-", None, f"<= {limit:.0f} s", ok=seconds <= limit)
    ok = megabytes <= MEGABYTES
    row(f"{queued}, memory", f"{megabytes:.0f} MB", "-", None, f"<= {MEGABYTES} MB", ok=ok)
    _measure_start(home, cwd)
    measured(RESULTS, home, cwd)
    written, reported, megabytes, size = measured(REPORT, home, cwd)
    row(f"{TASKS:,} results written, and compared", f"{written:.1f} s", "-", None, "-", ok=True)
    row(f"{TASKS:,} results reported", f"{reported:.1f} s", f"{size:.1f} MB", None, "-", ok=True)
    ok = megabytes <= MEGABYTES
    name = f"{TASKS:,} results, memory"
    row(name, f"{megabytes:.0f} MB", "-", None, f"<= {MEGABYTES} MB", ok=ok)
    names = [name for _, name in socket.if_nameindex()]
    if not RAY_TASKS or find_spec("ray") is None or names != ["lo"]:
        row("tasks on Ray", "not measured", "needs Ray, and only loopback", None, "-", ok=True)
        return
    _measure_ray(home, cwd)


def _measure_start(home: Path, cwd: Path) -> None:
    """Tasks a second of a long queue, beside those of a short one."""
    with BenchServer(lambda _index: event(candidate({"text": "hi"}))) as server:
        env = environment(home, GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=server.url)
        _write_tasks(cwd / "small.jsonl", SMALL)
        new = ("small.jsonl", "--out", "small.out.jsonl", "-m", "gemini-3.8-flash")
        small = _rate(new, cwd, env, server)
        begun = len(server.first_bytes)
        long = _rate(("resume", "queue.run", "-m", "gemini-3.8-flash"), cwd, env, server, begun)
    name = f"tasks a second, of {TASKS:,}"
    ok = long >= ALIKE * small
    row(name, f"{long:.1f}", f"of {SMALL} {small:.1f}", long / small, f">= {ALIKE} x", ok=ok)


def _rate(
    arguments: tuple[str, ...], cwd: Path, env: dict[str, str], server: BenchServer, begun: int = 0
) -> float:
    """Requests a second of a run that is interrupted in the middle."""
    run = subprocess.Popen(
        [*ALHENA, "batch", *arguments], cwd=cwd, env=env, stderr=subprocess.DEVNULL
    )
    while len(server.first_bytes) < begun + LAST and run.poll() is None:
        time.sleep(0.05)
    run.send_signal(signal.SIGTERM)
    run.wait()
    times = server.first_bytes[begun:]
    return (LAST - FIRST) / (times[LAST - 1] - times[FIRST - 1])


def _measure_ray(home: Path, cwd: Path) -> None:
    """Tasks a second once all workers are at work, beside what the model and the CPUs that other
    programs leave allow."""
    first, last = RAY_TASKS // 2, RAY_TASKS - RAY_WORKERS
    samples: dict[int, Sample] = {}
    memory: list[float] = []

    def answer(index: int) -> bytes:
        if index in (first, last):
            samples[index] = _sample()
        if index == last:
            memory.append(_memory_of_workers())
        return _late(index)

    with BenchServer(answer) as server:
        _run_ray(home, cwd, server.url)
    (begun, own_begun, all_begun), (end, own_end, all_end) = samples[first], samples[last]
    done, seconds, own = last - first, end - begun, own_end - own_begun
    rate, each = done / seconds, own / done
    cpus = (os.cpu_count() or 1) - max(0.0, all_end - all_begun - own) / seconds
    bounds = {
        "the model": RAY_WORKERS / LATENCY_S,
        f"{cpus:.1f} CPUs, {each * 1000:.0f} ms a task": cpus / max(each, 1e-6),
    }
    bottleneck, bound = min(bounds.items(), key=lambda found: found[1])
    name = f"{RAY_TASKS:,} tasks on {RAY_WORKERS} Ray workers"
    shown = f"at most {bound:.0f}: {bottleneck}"
    ok = rate >= SHARE * bound
    row(name, f"{rate:.1f}/s", shown, rate / bound, f">= {SHARE} x", ok=ok)
    row("memory of a Ray worker", f"{memory[0]:.0f} MB", "its own", None, "-", ok=True)


def _run_ray(home: Path, cwd: Path, url: str) -> None:
    _write_tasks(cwd / "tasks.jsonl", RAY_TASKS)
    env = environment(home, GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=url)
    env["RAY_OVERRIDE_RESOURCES"] = json.dumps({"CPU": RAY_WORKERS / 4})
    options = ("--engine", "ray", "--concurrency", str(RAY_WORKERS), "-m", "gemini-3.8-flash")
    command = [*ALHENA, "batch", "tasks.jsonl", "--out", "r.jsonl", *options]
    subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, check=True)
    found = len((cwd / "r.jsonl").read_bytes().splitlines())
    if found != RAY_TASKS:
        raise SystemExit(f"{found} of {RAY_TASKS} tasks have a result")


def _write_tasks(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            file.write(json.dumps({"id": f"t{n}", "prompt": "hi"}) + "\n")


def _sample() -> Sample:
    tick = os.sysconf("SC_CLK_TCK")
    own = sum(sum(map(int, _fields(path)[11:15])) for path in Path("/proc").glob("[0-9]*/stat"))
    user, nice, system = map(int, Path("/proc/stat").read_text(encoding="ascii").split()[1:4])
    return time.perf_counter(), own / tick, (user + nice + system) / tick


def _fields(path: Path) -> list[str]:
    """The fields of a process after its name; zeros for one that has ended."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ["0"] * 20


def _memory_of_workers() -> float:
    """Megabytes of private memory of a process of Ray that runs tasks, on average."""
    sizes: list[float] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.read_bytes().startswith(b"ray::run_task"):
            lines = (path.parent / "smaps_rollup").read_text(encoding="ascii").splitlines()
            sizes.append(sum(int(each.split()[1]) for each in lines if "Private_" in each) / 1024)
    return sum(sizes) / max(1, len(sizes))


def _late(_index: int) -> bytes:
    time.sleep(LATENCY_S)
    return event(candidate({"text": "hi"}))


def main() -> None:
    """Measures in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="alhena-scale-") as folder:
        home, cwd = Path(folder, "home"), Path(folder, "work")
        home.mkdir()
        cwd.mkdir()
        run(home, cwd)


if __name__ == "__main__":
    main()
