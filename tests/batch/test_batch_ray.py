"""`alhena batch --engine ray`: the actors of a run, and whole runs on clusters that lose nodes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.batch.engine import RunConfig, Shared
from alhena.batch.mirror import create_files, open_mirror, publish
from alhena.batch.overview import counts, retry_failed
from alhena.batch.ray_nodes import SharedLimiter, Writer
from alhena.batch.results import TaskResult
from alhena.batch.store import open_store
from alhena.batch.tasks import Task
from alhena.wire.response import UsageMetadata
from tests.batch.answering import write_tasks
from tests.batch.objects import ObjectServer
from tests.support.command import alhena

MODEL = "gemini-2.5-flash"
TASKS = int(os.environ.get("TASKS", "0"))
OWN = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc")
LAST = ("--kill-child", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def run_of(directory: Path, count: int = 3, **shared: Any) -> tuple[Path, bytes]:
    """A new run; its directory, and its configuration."""
    config = msgspec.json.encode(
        RunConfig(
            out=str(directory / "r.jsonl"),
            cwd=str(directory),
            engine="ray",
            shared=Shared(**shared),
        )
    )
    tasks = [Task(id=f"t{n}", prompt=f"task {n}") for n in range(count)]
    create_files(directory, tasks, config)
    return directory, config


def result(name: str, status: Any = "done") -> bytes:
    kind = None if status == "done" else "api_error"
    return msgspec.json.encode(TaskResult(id=name, status=status, kind=kind, answer="x"))


class Clock:
    """A clock that the test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.requirement("RUN-04")
def test_one_attempt_at_a_time_has_a_task(tmp_path: Path):
    directory, _ = run_of(tmp_path)
    clock = Clock()
    writer = Writer(directory, 30, clock)
    assert writer.claim("k", 1, "a") == 0
    assert writer.claim("k", 1, "b") is None, "another process with the same number"
    assert writer.claim("k", 2, "b") == pytest.approx(30, abs=0.1)
    clock.now += 20
    assert writer.renew("k", 1)
    clock.now += 20
    assert writer.claim("k", 2, "b") == pytest.approx(10, abs=0.1)
    writer.release("k", 1, "lost")
    assert writer.claim("k", 2, "b") == pytest.approx(10, abs=0.1), "it may be at work yet"
    clock.now += 11
    assert writer.claim("k", 2, "b") == 0
    assert not writer.renew("k", 1)
    assert not writer.finish("k", 1, result("t0"))
    writer.release("k", 2, "dead")
    assert writer.claim("k", 3, "c") == 0
    assert writer.finish("k", 3, result("t0"))
    assert writer.finish("k", 3, result("t0")), "a call that comes twice"
    assert writer.claim("k", 4, "d") == result("t0")


@pytest.mark.requirement("RUN-04")
def test_a_later_writer_refuses_the_earlier_and_waits_for_its_leases(tmp_path: Path):
    directory, _ = run_of(tmp_path)
    first = Writer(directory, 30)
    assert first.claim("k", 1, "a") == first.claim("free", 1, "a") == 0
    first.release("free", 1, "free")
    second = Writer(directory, 30)
    assert not first.renew("k", 1)
    assert not first.finish("k", 1, result("t0"))
    assert first.claim("other", 1, "a") is None
    assert second.claim("free", 2, "b") == 0
    assert second.claim("k", 2, "b") == pytest.approx(30, abs=0.1)
    assert second.claim("k", 1, "a") == 0, "the same process goes on under the second"
    assert second.finish("k", 1, result("t0"))


@pytest.mark.requirement("RUN-04")
def test_money_reservations_and_waits_outlive_the_limiter(tmp_path: Path):
    directory, config = run_of(tmp_path, total_cost=0.01, rpm=3)
    usage = UsageMetadata(prompt_token_count=1_000, candidates_token_count=1_000)
    first = SharedLimiter(directory, config)
    assert first.admit(1, "a", MODEL, 1_000) == first.admit(1, "a", MODEL, 1_000) == (0, None)
    assert first.admit(2, "b", MODEL, 1_000) == (0, None)
    first.charge(1, "a", MODEL, usage, 5.0)
    first.delay("gemini-2.5-pro", 50)
    second = SharedLimiter(directory, config)
    assert first.admit(9, "a", MODEL, 1)[1] is not None
    assert second.look(7.0) == first.look(7.0)
    first.charge(2, "b", MODEL, usage, 1.0)
    second.charge(1, "a", MODEL, usage, 5.0)  # a call that comes twice
    taken = second.usage("a")
    assert (taken["requests"], taken["input_tokens"], taken["duration"]) == (1, 1_000, 10.0)
    wait, _ = second.admit(3, "a", "gemini-2.5-pro", 1_000)
    assert wait == pytest.approx(50, abs=1)
    assert second.admit(3, "a", MODEL, 1_000) == (0, None)
    assert second.admit(4, "a", MODEL, 1_000)[0] == pytest.approx(60, abs=1)
    for number in (2, 3):
        second.charge(number, "b", MODEL, UsageMetadata(candidates_token_count=3_000), 1.0)
    _, refusal = second.admit(5, "a", MODEL, 1_000)
    assert refusal is not None
    assert "limit of $0.01 for all tasks" in refusal[0]


@pytest.mark.requirement("RUN-04")
def test_a_run_is_looked_at_retried_and_cancelled_by_its_files(project: Path):
    run = project / "r.run"
    directory, _ = run_of(run)
    writer = Writer(directory, 30)
    for task, status in (
        (Task(id="t1", prompt="x"), "done"),
        (Task(id="t0", prompt="x"), "failed"),
    ):
        writer.claim(task.key, 1, "a")
        writer.finish(task.key, 1, result(task.id, status))
    ran = alhena("batch", "status", "r.run")
    assert ran.code == 0, ran.err
    found = ran.json
    assert [found[name] for name in ("waiting", "done", "failed")] == [1, 1, 1]
    assert alhena("batch", "show", "r.run", "t1").json["result"]["answer"] == "x"
    queue = open_mirror(run)
    assert retry_failed(queue) == 1
    publish(queue)
    queue.close()
    queue = open_mirror(run)
    assert counts(queue).waiting == 2
    queue.close()
    assert Writer(directory, 30).claim(Task(id="t0", prompt="x").key, 2, "b") == 0
    assert alhena("batch", "cancel", "r.run").code == 0
    lines = [json.loads(line) for line in (run / "r.jsonl").read_text().splitlines()]
    assert [(each["id"], each["status"]) for each in lines] == [
        ("t1", "done"),
        ("t0", "cancelled"),
        ("t2", "cancelled"),
    ]
    assert "stays the same" in alhena("batch", "resume", "r.run", "--engine", "local").err


def on_ray(scenario: str, project: Path) -> Any:
    """The outcome of a scenario of `tests.batch.on_ray`."""
    pytest.importorskip("ray", reason="Ray is not installed")
    if shutil.which("unshare") is None or subprocess.run([*OWN, "true"], check=False).returncode:
        pytest.skip("no network and processes of its own can be had here")
    command = [*OWN, *LAST, sys.executable, "-m", "tests.batch.on_ray", scenario, str(project)]
    root = Path(__file__).parents[2]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def once(found: Any) -> bool:
    """True if no result and no mark of a task is there twice, and each answer is its own."""
    for each in found["results"]:
        assert each["answer"] == f"answer to task {each['id'][1:]}"
    names = [each["id"] for each in found["results"]]
    return len(set(names)) == len(names) and len(set(found["marks"])) == len(found["marks"])


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("RUN-04")
def test_whatever_a_cluster_loses_each_task_ends_once(project: Path):
    """A worktree outlives its worker but not its node."""
    found, workers = on_ray("losses", project)
    assert found["code"] == 1, found["err"]
    assert found["calls"] == {"task 0": [0, 1, 1, 2, 0, 1, 2], "task 1": [0, 1, 2, 3, 4]}
    patches = {each["id"]: added(each["patch"]) for each in found["results"]}
    assert patches == {"t0": ["0", "1"], "t1": ["0", "1", "2", "3", "4"]}
    kinds = {each["id"]: (each["kind"], each["attempts"]) for each in found["results"]}
    assert kinds == {"t0": (None, 3), "t1": ("worker_lost", 5)}
    assert (len(found["trees"].splitlines()), found["left"]) == (1, [])
    assert (workers["code"], len(workers["results"])) == (0, 10), workers["err"]
    assert once(workers)
    assert max(each["attempts"] for each in workers["results"]) > 1


@pytest.mark.slow
@pytest.mark.timeout(max(300, 3 * TASKS))
@pytest.mark.requirement("RUN-04")
@pytest.mark.skipif(TASKS == 0, reason="part of `make soak-batch`: TASKS is not set")
def test_random_kills_leave_the_results_of_an_undisturbed_run(project: Path):
    found = on_ray("random_kills", project)
    assert found["code"] == 0, found["err"]
    assert len(found["results"]) == TASKS
    assert once(found)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("RUN-04")
def test_a_run_in_an_object_store_is_resumed_and_taken_over_and_a_lost_cluster_ends_the_command(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    found, lost = on_ray("resumes", project)
    assert found["code"] == 0, found["err"]
    assert len(found["results"]) == found["status"]["done"] == 8
    assert once(found)
    code, err = found["second"]
    assert (code, "another process has taken over the run" in err) == (1, True), err
    monkeypatch.chdir(project / "cluster")
    assert lost["code"] == 1, lost["err"]
    assert "the Ray cluster is lost" in lost["err"]
    assert f"alhena batch resume {project / 'cluster' / 'r.jsonl.run'}" in lost["err"]
    assert once(lost)
    status = alhena("batch", "status", "r.jsonl.run").json
    assert status["waiting"] + status["done"] == 12
    assert alhena("batch", "cancel", "r.jsonl.run").code == 0
    lines = Path("r.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["id"] for line in lines) == sorted(f"t{n}" for n in range(12))


def test_only_a_place_that_creates_files_once_has_a_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed")
    write_tasks(project / "tasks.jsonl", 1)
    new = ("batch", "tasks.jsonl", "--out", "r.jsonl", "--engine", "ray", "--run-dir")
    refused = alhena(*new, "ftp://host/run")
    assert (refused.code, "two nodes could create the same file" in refused.err) == (52, True)
    for conditional in (True, False):
        with ObjectServer(conditional=conditional) as store:
            s3fs.S3FileSystem.clear_instance_cache()
            for name, value in store.environ.items():
                monkeypatch.setenv(name, value)
            if conditional:
                objects = open_store("s3://runs/one")
                assert objects.create("a/b", b"x")
                assert not objects.create("a/b", b"y")
                assert objects.create("a/b", b"x"), "a request that comes twice"
                assert (objects.read("a/b"), objects.read("a/c")) == (b"x", None)
                assert (objects.names("a"), objects.names("c")) == (["b"], [])
                objects.remove("a/b")
                assert objects.names("a") == []
                local = alhena(*new[:4], "--run-dir", "s3://runs/two")
                assert "is for --engine ray" in local.err
            else:
                refused = alhena(*new, "s3://runs/one")
                assert refused.code == 42, refused.err
                assert "the store replaces objects instead of refusing to" in refused.err


def added(patch: str) -> list[str]:
    """The lines that a patch adds."""
    lines = [line for line in patch.splitlines() if not line.startswith("+++")]
    return [line[1:] for line in lines if line.startswith("+")]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("RUN-04")
def test_without_an_address_the_command_starts_a_cluster_which_keeps_its_limits(project: Path):
    found = on_ray("own_cluster", project)
    assert found["code"] == 53, found["err"]
    assert "reached the limit of $0.002 for all tasks" in found["err"]
    assert 0 < len(found["results"]) < 3
    assert once(found)
