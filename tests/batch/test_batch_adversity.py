"""Runs with a service that refuses, workers that die of their tasks, and disks that are full."""

import os
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.batch.answering import (
    USAGE,
    AnsweringServer,
    echo,
    ended,
    prompt_of,
    results,
    started,
    write_tasks,
)
from tests.batch.test_batch_worktrees import git, repository
from tests.support.command import alhena, keyed
from tests.support.disk import with_own_mounts
from tests.support.patience import PATIENCE_S
from tests.support.server import Reply, call, chunk, json_reply, sse

MODEL = ("-m", "gemini-2.5-flash")
BOTH = pytest.mark.parametrize("workers", ["0", "2"])
KILL = "kill -9 $PPID"


def from_queue(project: Path, query: str) -> list[Any]:
    """Rows of the run's queue."""
    path = project / "r.jsonl.run" / "queue.sqlite"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def awaited(project: Path, query: str) -> list[Any]:
    """Rows of the run's queue, as soon as there are any."""
    for _ in range(int(PATIENCE_S / 0.02)):
        if found := from_queue(project, query):
            return found
        threading.Event().wait(0.02)
    raise AssertionError(query)


@pytest.mark.requirement("RUN-02")
@pytest.mark.parametrize(
    ("workers", "how"), [("0", "RetryInfo"), ("2", "retry-after"), ("2", "x-ratelimit")]
)
def test_until_a_service_s_delay_is_over_no_worker_asks(project: Path, workers: str, how: str):
    """Four requests are under way when the answer to one, a 429 or not, makes all wait for a
    second; no other is sent before."""
    all_there = threading.Barrier(4)
    refused = threading.Lock()
    early: list[str] = []

    def answer(contents: list[dict[str, Any]]) -> Any:
        if len(server.asked) <= 4:
            all_there.wait()
            if refused.acquire(blocking=False):
                return wait_a_second(how, contents)
            awaited(project, "SELECT until FROM delays")
        elif time.monotonic() < awaited(project, "SELECT until FROM delays")[0][0]:
            early.append(prompt_of(contents))
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 8)
    options = ("--workers", workers, "--concurrency", "4")
    with AnsweringServer(answer) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *options, **keyed(server))
    assert ran.code == 0, ran.err
    assert (early, len(server.asked)) == ([], 8 if how == "x-ratelimit" else 9)


def wait_a_second(how: str, contents: list[dict[str, Any]]) -> Reply:
    """A refusal, or an answer that says that it was the last one for now."""
    if how == "x-ratelimit":
        headers = {f"{how}-remaining-requests": "0", f"{how}-reset-requests": "1s"}
        return sse(chunk(*echo(contents), finish="STOP", usage=USAGE), headers=headers)
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}
    details, headers = ([retry], {}) if how == "RetryInfo" else ([], {how: "1"})
    fault = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}
    return json_reply({"error": {**fault, "details": details}}, 429, headers=headers)


@pytest.mark.requirement("RUN-02")
@BOTH
def test_a_minute_s_tokens_are_not_exceeded_by_the_tasks_together(project: Path, workers: str):
    """Two tasks take nearly all; the third holds its place without asking."""
    usage = {"promptTokenCount": 40_000, "candidatesTokenCount": 2_000, "totalTokenCount": 42_000}

    def answer(contents: list[dict[str, Any]]) -> Any:
        return sse(chunk(*echo(contents), finish="STOP", usage=usage))

    write_tasks(project / "tasks.jsonl", 4)
    options = ("--workers", workers, "--concurrency", "1", "--tpm", "86000")
    with AnsweringServer(answer) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options)
        awaited(
            project,
            "SELECT 1 FROM tasks GROUP BY 1 HAVING sum(state = 'ended') = 2"
            " AND sum(state = 'running') = 1",
        )
        process.send_signal(signal.SIGTERM)
        code, err = ended(process)
        assert (code, len(server.asked)) == (130, 2), err
        ran = alhena("batch", "resume", "r.jsonl.run", "--tpm", "1000000", **keyed(server))
    assert ran.code == 0, ran.err
    assert "tpm is 1000000 now, it was 86000." in ran.err
    assert len(server.asked) == len(results(project / "r.jsonl")) == 4


@pytest.mark.requirement("RUN-02")
@BOTH
def test_money_is_exceeded_by_no_more_than_the_requests_under_way(project: Path, workers: str):
    each = 0.0003 + 0.00025
    limit = 8 * each
    write_tasks(project / "tasks.jsonl", 20)
    options = ("--workers", workers, "--concurrency", "4", "--total-cost", str(limit))
    with AnsweringServer(echo) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options, *MODEL)
        code, err = ended(process)
        assert code == 53, err
        assert f"reached the limit of ${limit:g} for all tasks" in err
        assert len(server.asked) * each <= limit + 4 * each
        resumed = ("batch", "resume", "r.jsonl.run", "--total-cost", "1")
        ran = alhena(*resumed, **keyed(server))
    assert ran.code == 0, ran.err
    status = alhena("batch", "status", "r.jsonl.run", "--json").json
    assert (status["done"], status["cost"]) == (20, pytest.approx(20 * each))


@pytest.mark.requirement("RUN-02")
@BOTH
def test_a_minute_s_requests_are_not_exceeded_by_a_resume(project: Path, workers: str):
    """Three of five tasks may ask; the others hold their places without asking."""
    write_tasks(project / "tasks.jsonl", 5)
    options = ("--workers", workers, "--concurrency", "6", "--rpm", "3")
    with AnsweringServer(echo) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options)
        for argv in (("resume", "r.jsonl.run"), None):
            awaited(
                project,
                "SELECT 1 FROM tasks GROUP BY 1 HAVING sum(state = 'ended') = 3"
                " AND sum(state = 'running') = 2",
            )
            process.send_signal(signal.SIGTERM)
            code, err = ended(process)
            assert (code, len(server.asked)) == (130, 3), err
            if argv is not None:
                process = started(server, *argv)
        ran = alhena("batch", "resume", "r.jsonl.run", "--rpm", "5", **keyed(server))
    assert ran.code == 0, ran.err
    assert "rpm is 5 now, it was 3." in ran.err
    assert len(server.asked) == len(results(project / "r.jsonl")) == 5


@pytest.mark.requirement("RUN-03")
def test_a_task_that_kills_its_workers_fails_alone(project: Path):
    """Its neighbours, which are at work whenever it kills, end well; what it did is its patch."""
    folder = repository(project / "code")
    killed = 0
    over = threading.Event()
    all_there = threading.Barrier(6)

    def answer(contents: list[dict[str, Any]]) -> Any:
        nonlocal killed
        if len(server.asked) <= 6:
            all_there.wait()
        if prompt_of(contents) == "task 1":
            killed += 1
            if killed == 5:
                over.set()
            return [call("run_shell_command", {"command": f"echo {killed} >> made.txt; {KILL}"})]
        if killed < 2:
            over.wait()  # they live until their worker dies
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 6, cwd="code")
    options = (
        "--workers",
        "2",
        "--concurrency",
        "6",
        "--approval-mode",
        "yolo",
        "--skip-trust",
        "--worktree",
    )
    with AnsweringServer(answer) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *options)
        code, err = ended(process)
    assert code == 1, err
    found = {each["id"]: each for each in results(project / "r.jsonl")}
    lost = found.pop("t1")
    assert (lost["status"], lost["kind"], lost["attempts"]) == ("failed", "worker_lost", 5)
    assert "+5" in lost["patch"].splitlines()
    assert [found[f"t{n}"]["answer"] for n in (0, 2, 3, 4, 5)] == [
        f"answer to task {n}" for n in (0, 2, 3, 4, 5)
    ]
    assert len(git(folder, "worktree", "list").splitlines()) == 1


@pytest.mark.requirement("RUN-03")
def test_a_task_that_kills_the_command_fails_after_as_many_resumes(project: Path):
    def answer(contents: list[dict[str, Any]]) -> Any:
        if prompt_of(contents) == "task 0":
            return [call("run_shell_command", {"command": KILL})]
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 2)
    options = ("--approval-mode", "yolo", "--skip-trust", "--concurrency", "1")
    with AnsweringServer(answer) as server:
        codes = [ended(started(server, "tasks.jsonl", "--out", "r.jsonl", *options))[0]]
        while codes[-1] == -signal.SIGKILL:
            codes.append(ended(started(server, "resume", "r.jsonl.run"))[0])
    assert codes == [-signal.SIGKILL] * 5 + [1]
    found = {each["id"]: each["kind"] or each["answer"] for each in results(project / "r.jsonl")}
    assert found == {"t0": "worker_lost", "t1": "answer to task 1"}


@pytest.mark.requirement("RUN-03")
def test_limits_of_a_task_count_over_its_attempts(project: Path):
    """The command is killed with the second request under way; the second attempt may ask once."""

    def answer(_contents: list[dict[str, Any]]) -> Any:
        if len(server.asked) in (2, 4):
            os.killpg(process.pid, signal.SIGKILL)
            return sse(chunk(finish="STOP"), hold=threading.Event())  # workers end soon after
        return [call("write_file", {"file_path": "a.txt", "content": str(len(server.asked))})]

    limits = {
        "turn_limit": ("--max-turns", "2"),
        "token_limit": ("--max-tokens", "2200"),
        "cost_limit": ("--max-cost", "0.001"),
        "time_limit": ("--max-seconds", "1000"),
    }
    write_tasks(project / "tasks.jsonl", 1)
    for kind, flags in limits.items():
        workers = "0" if kind in ("turn_limit", "time_limit") else "2"
        options = ("--workers", workers, *flags, "--approval-mode", "yolo", "--skip-trust", *MODEL)
        run = ("--out", f"{kind}.jsonl", "--run-dir", "r.jsonl.run")
        with AnsweringServer(answer) as server:
            process = started(server, "tasks.jsonl", *run, *options)
            assert ended(process)[0] == -signal.SIGKILL
            if kind == "time_limit":
                with closing(sqlite3.connect(project / "r.jsonl.run" / "queue.sqlite")) as db, db:
                    db.execute("UPDATE tasks SET elapsed = 1001")
            process = started(server, "resume", "r.jsonl.run")
            code, err = ended(process)
        (found,) = results(project / f"{kind}.jsonl")
        asked = 2 if kind == "time_limit" else 3
        assert (code, found["kind"], len(server.asked)) == (1, kind, asked), err
        shutil.rmtree(project / "r.jsonl.run")


FULL = """
import json, os, subprocess, sys
from pathlib import Path
from tests.batch.answering import ALHENA, AnsweringServer, keyed, prompt_of, write_tasks
from tests.support.server import call

project, small, workers = Path(sys.argv[1]), Path(sys.argv[1], sys.argv[2]), sys.argv[3]
small.mkdir(parents=True, exist_ok=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", small], check=True)
write_tasks(project / "tasks.jsonl", 20)

def answer(contents):
    if "functionResponse" not in contents[-1]["parts"][0]:
        return [call("run_shell_command", {"command": "seq 1 3000"})]
    return [{"text": f"answer to {prompt_of(contents)}"}]

def ran(*argv):
    return subprocess.run([ALHENA, "batch", *argv], cwd=project, capture_output=True, text=True,
                          env={**os.environ, **keyed(server)})

with AnsweringServer(answer) as server:
    full = ran("tasks.jsonl", "--out", "r.jsonl", "--approval-mode", "yolo", "--skip-trust", "--workers", workers)
    subprocess.run(["mount", "-o", "remount,size=100m", small], check=True)
    resumed = ran("resume", "r.jsonl.run")
lines = [json.loads(line) for line in (project / "r.jsonl").read_text().splitlines()]
print(json.dumps([full.returncode, full.stderr, resumed.returncode, resumed.stderr, lines]))
"""


@pytest.mark.requirement("RUN-03")
@pytest.mark.parametrize(("place", "workers"), [("r.jsonl.run", "2"), ("r.jsonl.run/tasks", "0")])
def test_a_full_disk_ends_the_run_and_a_resume_finishes_it(project: Path, place: str, workers: str):
    """The queue, or else the journals have no room."""
    code, err, resumed, told, lines = with_own_mounts(FULL, project, place, workers)
    assert code == 1, err
    assert "disk" in err.splitlines()[-1] or "space" in err.splitlines()[-1]
    assert f"alhena batch resume {project / 'r.jsonl.run'}" in err
    assert resumed == 0, told
    assert sorted(each["id"] for each in lines) == sorted(f"t{n}" for n in range(20))
    assert {each["status"] for each in lines} == {"done"}
