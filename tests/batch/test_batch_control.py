"""`alhena batch` told early what is wrong, and reached while it runs by commands of other processes."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.batch.control import FOLDER
from alhena.batch.engine import RunConfig
from alhena.batch.queue import Queue
from alhena.batch.tasks import QueuedTask
from alhena.frontends.cli.batch_control import show_status
from tests.batch.answering import (
    AnsweringServer,
    echo,
    ended,
    results,
    started,
    write_tasks,
)
from tests.support.command import ALHENA, alhena, keyed, message_lines
from tests.support.patience import PATIENCE_S

RUN = "r.jsonl.run"


def status() -> dict[str, Any]:
    return json.loads(alhena("batch", "status", RUN, "--json").out)


@pytest.mark.requirement("RUN-01")
def test_everything_that_would_fail_is_told_before_anything_starts(project: Path):
    tasks: list[dict[str, Any]] = [
        {"prompt": "x", "limits": {"cots": 0.01, "turns": "many"}, "cwd": "nowhere"},
        {"prompt": "x", "output_schema": {"type": "objekt"}, "model": "foo:bar"},
        {"prompt": "x", "repo": ".", "env": {"A=B": "x"}},
        {"promt": "x", "model": "openai:"},
        {"prompt": "x", "output_schema": {"type": "object"}, "limits": {"cost": 1}},
        {"prompt": " ", "id": "a\tb"},
    ]
    (project / "tasks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in tasks))
    with AnsweringServer(echo) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", **keyed(server))
    assert ran.code == 42
    told = [line.split(": ") for line in message_lines(ran.err)[:-1]]
    assert [(place.removeprefix("tasks.jsonl:"), field) for place, field, *_ in told] == [
        *(("1", "limits.cots"), ("1", "limits.turns"), ("1", "cwd")),
        *(("2", "model"), ("2", "output_schema")),
        *(("3", "repo"), ("3", "env")),
        *(("4", "promt"), ("4", "prompt"), ("4", "model")),
        *(("6", "prompt"), ("6", "id")),
    ]
    assert told[-2][2] == "is empty"
    assert "did you mean cost?" in ran.err
    assert server.asked == []
    assert not list(project.glob("r.*"))


def test_what_no_task_could_do_without_is_missed_before_a_run_directory_is_made(project: Path):
    write_tasks(project / "tasks.jsonl", 2)
    command = ("batch", "tasks.jsonl", "--out", "r.jsonl")
    with AnsweringServer(echo) as server:
        for options, code, word in (
            (("-m", "foo:bar"), 42, "foo"),
            (("--policy", "nope.toml"), 52, "nope.toml"),
            (("-m", "anthropic:claude-x"), 41, "ANTHROPIC_API_KEY"),
            (("-m", "mystery", "--total-cost", "1"), 53, "model.prices"),
            (("-m", "mystery", "--total-cost", "1", "--dry-run"), 53, "model.prices"),
        ):
            ran = alhena(*command, *options, **keyed(server))
            assert (ran.code, word in ran.err) == (code, True), ran.err
        assert server.asked == []
    assert not list(project.glob("r.*"))


def test_a_dry_run_estimates_and_starts_nothing(project: Path):
    tasks = [
        {"id": "short", "prompt": "x", "model": "gemini-2.5-pro", "limits": {"cost": 0.5}},
        {"id": "long", "prompt": "word " * 8000, "model": "gemini-2.5-pro"},
    ]
    (project / "tasks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in tasks))
    options = ("--out", "r.jsonl", "--dry-run", "--max-cost", "2")
    with AnsweringServer(echo) as server:
        ran = alhena("batch", "tasks.jsonl", *options, **keyed(server))
        assert server.asked == []
    assert ran.code == 0, ran.err
    short, long = ran.out.splitlines()[:2]
    counted = [int(line.split()[1].replace(",", "")) for line in (short, long)]
    assert 9_900 < counted[1] - counted[0] < 10_100, "the prompts differ by 40,000 characters"
    assert counted[0] > 1_000, "instructions and tools are counted"
    costs = [float(line.split()[3].lstrip("$")) for line in (short, long)]
    assert costs[1] == pytest.approx(counted[1] * 1.25e-6, rel=0.1)  # dollars a token
    assert "2 with gemini-2.5-pro" in ran.out
    assert "gemini-2.5-pro ended on 2026-12-01. Choose another model" in ran.out
    assert "stop the run at $2.50" in ran.out
    assert not list(project.glob("r.*"))


@pytest.mark.requirement("RUN-02")
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_is_paused_changed_cancelled_in_part_and_resumed_by_other_processes(
    project: Path, workers: str
):
    write_tasks(project / "tasks.jsonl", 9)
    with AnsweringServer(echo, held_from=3) as server:
        options = ("--out", "r.jsonl", "--concurrency", "2", "--workers", workers)
        process = started(server, "tasks.jsonl", *options)
        assert server.reached(4, process)
        asked = len(server.asked)
        running = server.asked[-1].replace("task ", "t")
        assert alhena("batch", "resume", RUN, **keyed(server)).code == 42, "it is not paused"
        assert alhena("batch", "pause", RUN).code == 0
        assert alhena("batch", "cancel", RUN, running, "t8", "t8").out == "Cancelled 2 tasks.\n"
        assert alhena("batch", "cancel", RUN, "t99").code == 2
        limits = alhena("batch", "limits", RUN, "--concurrency", "1", "--total-cost", "5").out
        assert limits.split()[:2] == ["concurrency", "1"]
        watch = subprocess.Popen(
            [ALHENA, "batch", "status", RUN, "--watch", "--json"], stdout=subprocess.PIPE, text=True
        )
        tail = subprocess.Popen(
            [ALHENA, "batch", "tail", RUN, "t7"], stdout=subprocess.PIPE, text=True
        )
        assert watch.stdout is not None
        lines = [json.loads(watch.stdout.readline())]
        server.go_on.set()
        while (found := status())["running"]:
            assert process.poll() is None
        assert found["waiting"] == 9 - asked - 1
        assert (found["paused"], found["cancelled"], found["process"]) == (True, 2, process.pid)
        assert len(server.asked) == asked, "a paused run starts nothing"
        refused = alhena("batch", "resume", RUN, "--model", "gemini-9")
        assert (refused.code, "takes only --concurrency" in refused.err) == (2, True)
        again = alhena("batch", "resume", RUN, "--rpm", "600")
        assert (again.code, "continues" in again.out) == (0, True), again.err
        assert status()["limits"]["rpm"] == 600
        code, _ = ended(process)
    assert code == 1
    found = {each["id"]: each for each in results(project / "r.jsonl")}
    assert len(found) == 9
    cancelled = [name for name, each in found.items() if each["status"] == "cancelled"]
    assert cancelled == [running, "t8"]
    assert found[running]["attempts"] == 1
    lines += [json.loads(line) for line in watch.communicate(timeout=PATIENCE_S)[0].splitlines()]
    assert lines[0]["paused"]
    assert (lines[-1]["done"], lines[-1]["waiting"]) == (7, 0)
    steps = tail.communicate(timeout=PATIENCE_S)[0].splitlines()
    assert steps[:2] == ["attempt 1", "prompt · task 7"]
    assert "answer to task 7" in steps[2]
    assert (steps[-1], tail.returncode) == ("done", 0)
    assert not list((project / RUN / FOLDER).iterdir())
    assert alhena("batch", "tail", RUN, running).out == "cancelled\n"


def test_a_status_that_is_watched_has_the_last_numbers_of_a_run_that_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    config = msgspec.json.encode(RunConfig(out="r.jsonl", cwd="/"))
    queue = Queue.create(tmp_path, [QueuedTask(id="a", prompt="x")], config)

    def end_run(_directory: Path) -> None:
        for claim in queue.claim("me", 1, 1, 60):
            queue.finish(claim.token, "done", None, b"{}")

    monkeypatch.setattr("alhena.batch.store.lock_holder", end_run)
    assert show_status([str(tmp_path), "--watch", "--json"]) == 0
    queue.close()
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["done"], found["waiting"]) == (1, 0)


@pytest.mark.requirement("RUN-02")
def test_a_run_that_no_process_carries_out_is_changed_on_the_spot(project: Path):
    write_tasks(project / "tasks.jsonl", 4)
    with AnsweringServer(echo, held_from=2) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", "--concurrency", "1")
        assert server.reached(2, process)
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 130
        paused = alhena("batch", "pause", RUN)
        assert (paused.code, "no process" in paused.err) == (42, True)
        assert alhena("batch", "cancel", RUN, "t2").code == 0
        assert alhena("batch", "limits", RUN, "--rpm", "1000", "--tpm", "none").code == 0
        found = status()
        assert (found["cancelled"], found["limits"]["rpm"], found["process"]) == (1, 1000, None)
        assert "process    none\n" in alhena("batch", "status", RUN).out
        server.go_on.set()
        assert alhena("batch", "resume", RUN, **keyed(server)).code == 1
    states = {each["id"]: each["status"] for each in results(project / "r.jsonl")}
    assert states == {"t0": "done", "t1": "done", "t2": "cancelled", "t3": "done"}


@pytest.mark.parametrize("verb", ["resume", "retry-failed"])
def test_a_dry_run_of_a_run_that_was_begun_is_refused_and_asks_nothing(project: Path, verb: str):
    write_tasks(project / "tasks.jsonl", 2)
    with AnsweringServer(echo) as server:
        assert alhena("batch", "tasks.jsonl", "--out", "r.jsonl", **keyed(server)).code == 0
        (project / "r.jsonl").unlink()
        asked = len(server.asked)
        ran = alhena("batch", verb, RUN, "--dry-run", **keyed(server))
        assert (ran.code, "--dry-run is for a new run" in ran.err) == (2, True)
        assert len(server.asked) == asked
    assert not (project / "r.jsonl").exists()


def test_a_run_directory_whose_lock_cannot_be_opened_is_an_error_with_its_reason(project: Path):
    write_tasks(project / "tasks.jsonl", 1)
    with AnsweringServer(echo) as server:
        assert alhena("batch", "tasks.jsonl", "--out", "r.jsonl", **keyed(server)).code == 0
        lock = project / RUN / "lock"
        lock.unlink()
        lock.symlink_to("lock")  # as on a read-only file system, opening it is an OSError
        ran = alhena("batch", "retry-failed", RUN, **keyed(server))
    assert (ran.code, f"{RUN} cannot be used" in ran.err, "defect" in ran.err) == (1, True, False)


def test_an_error_of_the_head_gives_back_what_runs_and_is_told_alone(project: Path):
    write_tasks(project / "tasks.jsonl", 4)
    with AnsweringServer(echo, held_from=1) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl")
        assert server.reached(3, process)
        (project / RUN / FOLDER).write_text("no folder")
        code, err = ended(process)
        assert (code, "Traceback" in err, "unhandled" in err) == (1, False, False), err
        assert "cannot be used" in err.splitlines()[-1]
        assert status()["waiting"] == 4
        (project / RUN / FOLDER).unlink()
        server.go_on.set()
        assert alhena("batch", "resume", RUN, **keyed(server)).code == 0


def test_an_order_that_cannot_be_read_is_refused_and_the_run_continues(project: Path):
    write_tasks(project / "tasks.jsonl", 3)
    with AnsweringServer(echo, held_from=2) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", "--concurrency", "1")
        assert server.reached(2, process)
        folder = project / RUN / FOLDER
        folder.mkdir(exist_ok=True)
        (folder / "00000000000000000001").write_text('{"limits": {"rpm": -1}}')
        assert alhena("batch", "limits", RUN, "--rpm", "500").code == 0
        assert status()["limits"]["rpm"] == 500
        server.go_on.set()
        assert ended(process)[0] == 0
    assert [path.name for path in (project / RUN / "refused").iterdir()] == ["0" * 19 + "1"]
