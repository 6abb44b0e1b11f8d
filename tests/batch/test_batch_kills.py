"""Workers and the command are killed at random moments: each task ends exactly once."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from alhena.batch.errors import LostLeaseError
from alhena.batch.queue import Claim, Queue
from alhena.batch.tasks import QueuedTask
from alhena.batch.worker import Lease
from tests.batch.answering import AnsweringServer, ended, prompt_of, results, started, write_tasks
from tests.support.server import call

TASKS, KILLS = int(os.environ.get("TASKS", "40")), int(os.environ.get("KILLS", "4"))
LEASE = ("--lease", "2")


def answer(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A call that changes something, then the answer, which tells of no attempt."""
    if not any("functionResponse" in part for each in contents for part in each["parts"]):
        name = prompt_of(contents).replace(" ", "-")
        return [call("write_file", {"file_path": f"{name}.txt", "content": name})]
    return [{"text": f"answer to {prompt_of(contents)}"}]


@pytest.mark.requirement("RUN-03")
@pytest.mark.slow
def test_whatever_is_killed_each_task_ends_once(project: Path):
    seed = int(os.environ.get("SEED", random.randrange(10**6)))
    print(f"SEED={seed}")
    chance = random.Random(seed)
    write_tasks(project / "tasks.jsonl", TASKS)
    flags = (
        "--workers",
        "2",
        "--concurrency",
        "8",
        "--approval-mode",
        "yolo",
        "--skip-trust",
        *LEASE,
    )
    with AnsweringServer(answer) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *flags)
        for number in range(KILLS):
            more = chance.randrange(1, max(2, 2 * TASKS // (KILLS + 1)))
            server.reached(len(server.asked) + more, process)
            workers = _children(process)
            if number % 3 == 2 or not workers:
                process.send_signal(signal.SIGKILL)
                ended(process)
                process = started(server, "resume", "r.jsonl.run")
            else:
                victim = chance.choice(workers)
                os.kill(victim, chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))
        code, err = ended(process)
    for pid in _stopped(project):
        os.kill(pid, signal.SIGKILL)
    assert code == 0, err
    found = results(project / "r.jsonl")
    assert sorted(each["id"] for each in found) == sorted(f"t{n}" for n in range(TASKS))
    assert {each["id"]: each["answer"] for each in found} == {
        f"t{n}": f"answer to task {n}" for n in range(TASKS)
    }


def test_a_worker_that_the_command_kills_at_its_end_counts_as_no_crash_of_its_task(project: Path):
    write_tasks(project / "tasks.jsonl", 1)
    with AnsweringServer(answer, held_from=1) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", "--workers", "1")
        assert server.reached(1, process)
        (worker,) = _children(process)
        os.kill(worker, signal.SIGSTOP)  # as slow as can be
        (project / "r.jsonl.run" / "control").write_text("no folder")
        code, err = ended(process)
        server.go_on.set()
    assert (code, "cannot be used" in err) == (1, True), err
    queue = Queue(project / "r.jsonl.run")
    assert queue.rows("SELECT state, crashes FROM tasks") == [("waiting", 0)]
    queue.close()


def _children(process: "subprocess.Popen[str]") -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    try:
        pids = [int(pid) for pid in path.read_text().split()]
    except OSError:
        return []
    return [pid for pid in pids if b"alhena.batch.worker" in _command(pid)]


def _stopped(project: Path) -> list[int]:
    """Workers of this run that were stopped and never woke up."""
    mark = os.fsencode(str(project / "r.jsonl.run"))
    found = (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())
    return [pid for pid in found if mark in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_lease_that_was_over_is_not_renewed():
    claim = Claim(task=QueuedTask(id="a", prompt="x"), token=1, attempt=1)
    lease = Lease(claim, time.monotonic() - 1)
    lease.renew(time.monotonic() + 100)
    with pytest.raises(LostLeaseError):
        lease.require()
    going = Lease(claim, time.monotonic() + 50)
    going.renew(time.monotonic() + 100)
    going.require()


@pytest.mark.requirement("RUN-03")
def test_a_task_is_another_workers_when_the_lease_of_its_claim_or_renewal_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now = 1000.0
    monkeypatch.setattr("alhena.batch.queue.time.monotonic", lambda: now)
    queue = Queue.create(tmp_path, [QueuedTask(id="a", prompt="x")], b"{}")
    (first,) = queue.claim("one", 1, 2, 7.0)
    now += 7.0
    assert queue.claim("two", 1, 2, 7.0) == []
    now += 0.1
    (second,) = queue.claim("two", 1, 2, 20.0)
    assert not queue.finish(first.token, "done", None, b"{}")
    assert queue.renew((first.token, second.token), 5.0) == ({second.token}, now)
    now += 5.0
    assert queue.claim("three", 1, 2, 7.0) == []
    now += 0.1
    assert queue.renew((second.token,), 5.0) == (set(), now)
    assert not queue.finish(second.token, "done", None, b"{}")
    (third,) = queue.claim("three", 1, 2, 7.0)
    assert (first.attempt, second.attempt, third.attempt) == (1, 2, 3)
    assert len({first.token, second.token, third.token}) == 3
    assert queue.finish(third.token, "done", None, b"{}")
    assert not queue.finish(third.token, "done", None, b"{}")
    queue.close()
