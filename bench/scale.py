"""`make bench-scale`: many tasks and many workers, on one machine. TASKS (1,000,000) are queued,
get results, and are reported; RAY_TASKS (2,000) run on RAY_WORKERS (200) with a model that answers
in 50 ms, where there is only loopback:

    unshare -rn sh -c 'ip link set lo up; make bench-scale'
"""

import json
import os
import shutil
import socket
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from bench.batch import QUEUE
from bench.measure import ALHENA, environment, measured, row, wall
from bench.server import BenchServer, candidate, event

TASKS = int(os.environ.get("TASKS", "1000000"))
RAY_TASKS = int(os.environ.get("RAY_TASKS", "2000"))
RAY_WORKERS = int(os.environ.get("RAY_WORKERS", "200"))
LATENCY_S = 0.05
FEW = 20
"""Tasks of a run whose seconds are those of the start."""
SECONDS, MEGABYTES, SHARE = 25, 300, 0.8

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
    with (cwd / "queue.jsonl").open("w", encoding="utf-8") as file:
        for n in range(TASKS):
            file.write(json.dumps({"id": f"t{n}", "prompt": "hi"}) + "\n")
    seconds, megabytes = measured(QUEUE, home, cwd)
    share = TASKS / 1_000_000
    limit = max(1.0, SECONDS * share)
    queued = f"{TASKS:,} tasks queued"
    row(queued, f"{seconds:.1f} s", "-", None, f"<= {limit:.0f} s", ok=seconds <= limit)
    ok = megabytes <= MEGABYTES
    row(f"{queued}, memory", f"{megabytes:.0f} MB", "-", None, f"<= {MEGABYTES} MB", ok=ok)
    measured(RESULTS, home, cwd)
    written, reported, megabytes, size = measured(REPORT, home, cwd)
    row(f"{TASKS:,} results written, and compared", f"{written:.1f} s", "-", None, "-", ok=True)
    row(f"{TASKS:,} results reported", f"{reported:.1f} s", f"{size:.1f} MB", None, "-", ok=True)
    ok = megabytes <= MEGABYTES
    name = f"{TASKS:,} results, memory"
    row(name, f"{megabytes:.0f} MB", "-", None, f"<= {MEGABYTES} MB", ok=ok)
    if find_spec("ray") is None or [name for _, name in socket.if_nameindex()] != ["lo"]:
        row("tasks on Ray", "not measured", "needs Ray, and only loopback", None, "-", ok=True)
        return
    with BenchServer(_late) as server:
        _measure_ray(home, cwd, server.url)


def _measure_ray(home: Path, cwd: Path, url: str) -> None:
    """Tasks a second, beside what the model and the CPUs of this machine allow."""
    few, few_cpu = _ray_run(home, cwd, url, FEW)
    many, many_cpu = _ray_run(home, cwd, url, RAY_TASKS)
    more = RAY_TASKS - FEW
    rate = more / (many - few)
    cpu = (many_cpu - few_cpu) / more
    bounds = {
        "the model": RAY_WORKERS / LATENCY_S,
        f"{os.cpu_count()} CPUs, {cpu * 1000:.0f} ms a task": (os.cpu_count() or 1)
        / max(cpu, 1e-6),
    }
    bottleneck, bound = min(bounds.items(), key=lambda each: each[1])
    name = f"{RAY_TASKS:,} tasks on {RAY_WORKERS} Ray workers"
    shown = f"at most {bound:.0f}: {bottleneck}"
    ok = rate >= SHARE * bound
    row(name, f"{rate:.1f}/s", shown, rate / bound, f">= {SHARE} x", ok=ok)


def _ray_run(home: Path, cwd: Path, url: str, count: int) -> tuple[float, float]:
    """Seconds of a run on a cluster of its own, and CPU seconds of all processes of the machine."""
    lines = (json.dumps({"id": f"t{n}", "prompt": "hi"}) + "\n" for n in range(count))
    (cwd / "tasks.jsonl").write_text("".join(lines), encoding="utf-8")
    shutil.rmtree(cwd / "r.jsonl.run", ignore_errors=True)
    (cwd / "r.jsonl").unlink(missing_ok=True)
    env = environment(home, GEMINI_API_KEY="x", GOOGLE_GEMINI_BASE_URL=url)
    env["RAY_OVERRIDE_RESOURCES"] = json.dumps({"CPU": RAY_WORKERS / 4})
    options = ("--engine", "ray", "--concurrency", str(RAY_WORKERS), "-m", "gemini-3.8-flash")
    before = _busy_seconds()
    seconds = wall([*ALHENA, "batch", "tasks.jsonl", "--out", "r.jsonl", *options], cwd, env)
    found = len((cwd / "r.jsonl").read_bytes().splitlines())
    if found != count:
        raise SystemExit(f"{found} of {count} tasks have a result")
    return seconds, _busy_seconds() - before


def _busy_seconds() -> float:
    """Seconds in which the CPUs of this machine worked."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system = map(int, first[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


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
