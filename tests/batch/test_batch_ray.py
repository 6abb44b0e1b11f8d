"""`alhena batch --engine ray`: the queue of a run and its files, and whole runs on clusters that lose
nodes."""

import io
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest

from alhena.batch.engine import RunConfig, SharedLimits
from alhena.batch.errors import QueueError
from alhena.batch.limits import Limiter
from alhena.batch.overview import counts, retry_failed
from alhena.batch.queue import Claim, Queue
from alhena.batch.ray.driver import Driver, DriverOrder
from alhena.batch.ray.engine import AttemptCalls
from alhena.batch.ray.nodes import RemoteCall, RemoteRun, run_task
from alhena.batch.results import TaskResult
from alhena.batch.run import config_of
from alhena.batch.store import open_store
from alhena.batch.stored_queue import EndKind, create_files, open_stored_queue, write_changes
from alhena.batch.tasks import QueuedTask, key_of
from alhena.models.prices import Prices
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
            shared=SharedLimits(**shared),
        )
    )
    tasks = [QueuedTask(id=f"t{n}", prompt=f"task {n}") for n in range(count)]
    create_files(directory, tasks, config)
    return directory, config


def result(name: str, status: Any = "done") -> bytes:
    kind = None if status == "done" else "api_error"
    return msgspec.json.encode(TaskResult(id=name, status=status, kind=kind, answer="x"))


class Head:
    """The queue of a run, and its answers to attempts."""

    def __init__(self, directory: Path) -> None:
        self.queue = open_stored_queue(directory)
        self.claims: dict[int, Claim] = {}
        config = config_of(self.queue)
        self.limiter = Limiter(self.queue, config.shared, Prices({}), time.monotonic)
        self.desk = AttemptCalls(self.queue, self.limiter, config.lease)
        self.queue.take_over(config.lease)

    def claim(self, most: int = 1) -> Any:
        """Tokens of the tasks that are claimed, by their ids."""
        claims = self.queue.claim("", most, 100, 1e9)
        self.claims.update((each.token, each) for each in claims)
        return {each.task.id: each.token for each in claims}

    def end(self, token: int, how: EndKind) -> None:
        self.queue.end_attempt(self.claims[token], how)

    def begin(self, task: str, holder: str = "node 1") -> int:
        """The token under which an attempt at the only task that may be claimed has begun."""
        claims = self.claim()
        assert list(claims) == [task]
        assert self.ask("begin", claims[task], holder) is not None
        return claims[task]

    def ask(self, method: str, *arguments: Any) -> Any:
        call = RemoteCall(1, method, msgspec.Raw(msgspec.json.encode(arguments)))
        (answer,) = self.desk.answer([call])
        return msgspec.json.decode(answer.value)

    def finish(self, token: int, name: str, status: str = "done") -> bool:
        return self.write_result(token, name, status)["kept"]

    def write_result(self, token: int, name: str, status: str = "done") -> Any:
        data = msgspec.Raw(result(name, status))
        return self.ask("finish", token, status, None, data, [], f"node of {token}")

    def renew(self, token: int) -> bool:
        return token in self.ask("renew", [token])[0]


class Clock:
    """The monotonic clock, which the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("alhena.batch.queue.time.monotonic", lambda: self.now)


@pytest.mark.requirement("RUN-04")
def test_one_attempt_at_a_time_has_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    head = Head(run_of(tmp_path, 1)[0])
    first = head.begin("t0")
    assert head.ask("begin", first, "node 1") is not None, "a call that comes twice"
    assert head.ask("begin", first, "node 2") is None, "another process with the same claim"
    clock.now += 20
    assert head.renew(first)
    clock.now += 20
    head.end(first, "lost")
    clock.now += 9
    assert head.claim() == {}, "it may be at work yet"
    clock.now += 2
    second = head.begin("t0")
    assert not head.renew(first)
    assert not head.finish(first, "t0")
    head.end(second, "dead")
    third = head.begin("t0")
    assert not head.finish(second, "t0")
    assert head.finish(third, "t0")
    assert head.finish(third, "t0"), "a call that comes twice"
    assert head.claim() == {}
    assert head.queue.rows("SELECT attempts, crashes FROM tasks") == [(3, 2)]
    head.queue.close()


@pytest.mark.requirement("RUN-04")
def test_a_process_gets_the_next_task_with_the_answer_to_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """So it costs no call and no scheduling. The lease of the next task has begun."""
    clock = Clock(monkeypatch)
    head = Head(run_of(tmp_path, 3)[0])
    head.desk = AttemptCalls(
        head.queue,
        head.limiter,
        30,
        lambda _token: next(iter(head.queue.claim("", 1, 9, 1e9)), None),
    )
    first = head.begin("t0")
    head.ask("admit", 1, MODEL, 10, [])
    usage = UsageMetadata(prompt_token_count=7)
    data = msgspec.Raw(result("t0"))
    finish = ("finish", first, "done", None, data, [(1, first, MODEL, usage)], "node 1")
    found = head.ask(*finish)
    assert head.ask(*finish) == found, "a call that comes twice"
    (ended,) = head.queue.results_after(0)
    assert json.loads(ended.result)["usage"]["input_tokens"] == 7, "the charge came with it"
    claim = found["successor"]["claim"]
    assert (found["kept"], claim["task"]["id"], claim["attempt"]) == (True, "t1", 1)
    assert found["successor"]["taken"]["attempts"] == 1
    clock.now += 20
    assert head.renew(claim["token"])
    clock.now += 31
    late = head.ask("finish", claim["token"], "done", None, data, [], "node 1")
    assert late == {"kept": False, "successor": None}, "a process that lost its task gets none"
    assert sorted(head.claim(9)) == ["t1", "t2"]
    head.queue.close()


@pytest.mark.requirement("RUN-04")
def test_a_process_that_dies_after_its_lease_counts_as_one_that_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = Clock(monkeypatch)
    directory, _ = run_of(tmp_path, 1)
    head = Head(directory)
    first = head.begin("t0")
    clock.now += 31
    second = head.begin("t0")
    head.end(first, "lost")
    assert head.renew(second)
    head.queue.close()
    again = open_stored_queue(directory)
    assert again.rows("SELECT attempts, crashes FROM tasks") == [(2, 1)]
    again.close()


@pytest.mark.requirement("RUN-04")
def test_a_later_head_refuses_the_earlier_and_waits_for_its_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = Clock(monkeypatch)
    directory, _ = run_of(tmp_path, 2)
    first = Head(directory)
    free, held = first.begin("t0"), first.begin("t1")
    first.ask("release", free, None, [])
    late = open_stored_queue(
        directory
    )  # it has read the files before the first one writes a result
    second = Head(directory)
    for method, arguments in (
        ("renew", ([held],)),
        ("finish", (held, "done", None, msgspec.Raw(result("t1")), [], "node")),
        ("begin", (held, "node 1")),
        ("admit", (1, MODEL, 10, [])),
    ):
        with pytest.raises(QueueError, match="another process has taken over the run"):
            first.ask(method, *arguments)
    assert second.finish(second.begin("t0"), "t0")
    assert second.claim() == {}
    clock.now += 31
    token = second.begin("t1", "node 2")
    assert second.finish(token, "t1")
    late.take_over(30)
    clock.now += 31
    taken = {each.task.id: each.token for each in late.claim("", 2, 9, 30)}
    assert late.begin(taken["t1"], "node 3", 30) is None, "it has a result"
    assert late.begin(taken["t0"], "node 3", 30) is None
    assert [each.id for each in late.results_after(0)] == ["t1", "t0"]
    for queue in (first.queue, second.queue, late):
        queue.close()


@pytest.mark.requirement("RUN-04")
def test_money_reservations_waits_and_what_tasks_took_outlive_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = Clock(monkeypatch)
    directory, _ = run_of(tmp_path, total_cost=0.01, rpm=3)
    usage = UsageMetadata(prompt_token_count=1_000, candidates_token_count=1_000)
    first = Head(directory)
    a, b = first.begin("t0"), first.begin("t1")
    admit = ("admit", 1, MODEL, 1_000, [])
    assert first.ask(*admit) == first.ask(*admit) == [0, None]
    charge = (1, a, MODEL, usage)
    assert first.ask("admit", 2, MODEL, 1_000, [charge]) == [0, None]
    clock.now += 5
    first.ask("charge", [charge])
    first.ask("release", a, None, [charge])
    clock.now += 1
    first.ask("delay", "gemini-2.5-pro", 50)
    first.ask("charge", [(2, b, MODEL, usage)])
    second = Head(directory)
    assert second.queue.fact("spent") == first.queue.fact("spent")
    again = second.claim()
    taken = second.ask("begin", again["t0"], "node 2")
    names = ("attempts", "requests", "input_tokens", "duration")
    assert [taken[name] for name in names] == [2, 1, 1_000, 5]
    clock.now += 31
    again |= second.claim(2)
    taken = second.ask("begin", again["t1"], "node 2")
    assert [taken[name] for name in names[:3]] == [2, 1, 1_000], "its head was lost at work"
    clock.now -= 31
    assert second.ask("admit", 3, "gemini-2.5-pro", 1_000, [])[0] == pytest.approx(50, abs=1)
    assert second.ask("admit", 3, MODEL, 1_000, []) == [0, None]
    assert second.ask("admit", 4, MODEL, 1_000, [])[0] == pytest.approx(60, abs=1)
    charge = (3, again["t1"], MODEL, UsageMetadata(candidates_token_count=3_000))
    refusal = second.ask("admit", 5, MODEL, 1_000, [charge])[1]
    assert refusal is not None
    assert "limit of $0.01 for all tasks" in refusal[0]
    first.queue.close()
    second.queue.close()


@pytest.mark.requirement("RUN-04")
def test_a_run_is_looked_at_retried_and_cancelled_by_its_files(project: Path):
    run = project / "r.run"
    directory, _ = run_of(run)
    head = Head(directory)
    claims = head.claim(2)
    for name, status in (("t1", "done"), ("t0", "failed")):
        head.ask("begin", claims[name], "node 1")
        assert head.finish(claims[name], name, status)
    head.queue.close()
    ran = alhena("batch", "status", "r.run", "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert [found[name] for name in ("waiting", "done", "failed")] == [1, 1, 1]
    assert alhena("batch", "show", "r.run", "t1").json["result"]["answer"] == "x"
    queue = open_stored_queue(run)
    assert retry_failed(queue) == 1
    write_changes(queue)
    queue.close()
    queue = open_stored_queue(run)
    assert counts(queue).waiting == 2
    queue.close()
    head = Head(directory)
    assert sorted(head.claim(9)) == ["t0", "t2"]
    head.queue.close()
    assert alhena("batch", "cancel", "r.run").code == 0
    lines = [json.loads(line) for line in (run / "r.jsonl").read_text().splitlines()]
    assert [(each["id"], each["status"]) for each in lines] == [
        ("t1", "done"),
        ("t0", "cancelled"),
        ("t2", "cancelled"),
    ]
    assert "stays the same" in alhena("batch", "resume", "r.run", "--engine", "local").err


@pytest.mark.requirement("RUN-04")
def test_a_run_of_an_earlier_version_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its limiter was another process, which counted its own epochs."""
    clock = Clock(monkeypatch)
    directory, _ = run_of(tmp_path, total_cost=0.01)
    store = open_store(directory)
    keys = [key_of(f"t{n}") for n in range(3)]
    for name in ("writer-000001", "limiter-000001", "limiter-000002", "limiter-000003"):
        store.create(f"epochs/{name}", b"x")
    for name in ("0.0001", "0.0001.free", "1.0001", "1.0001.lost", "2.0001", "2.0001.dead"):
        number, _, rest = name.partition(".")
        store.create(f"claims/{keys[int(number)]}.{rest}", b"" if "." in rest else b"node 1")
    taken = {"requests": 4, "input_tokens": 40, "cached_tokens": 0, "output_tokens": 4}
    tasks = {key: {**taken, "thought_tokens": 0, "cost": 0.001, "elapsed": 9.0} for key in keys}
    state = {"spent": 0.003, "elapsed": 7.0, "requests": [], "delays": {}, "tasks": tasks}
    store.create("limits/000003-000000007", json.dumps(state).encode())
    for number in range(2):
        head = Head(directory)
        assert (head.queue.fact("spent"), head.queue.fact("elapsed")) == (0.003, 7.0)
        if number:
            clock.now += 31
        claims = head.claim(9)
        assert sorted(claims) == (["t0", "t1", "t2"] if number else ["t0", "t2"])
        head.queue.close()
    assert len(store.names("limits")) == 1


@pytest.mark.parametrize("stored", [True, False])
def test_a_run_of_an_unknown_format_is_refused_with_the_version_that_made_it(
    project: Path, *, stored: bool
):
    directory = project / "r.run"
    if stored:
        run_of(directory)
        (directory / "run.json").write_text('{"id":"x","version":7,"made_by":"9.1"}')
    else:
        directory.mkdir()
        with closing(Queue.create(directory, [QueuedTask(id="t", prompt="hi")], b"{}")) as queue:
            queue.note("version", 7)
            queue.note("made_by", "9.1")
    for command in ("status", "resume", "report"):
        ran = alhena("batch", command, "r.run")
        assert (ran.code, "another format (7). Use alhena 9.1." in ran.err) == (42, True), ran.err


def test_a_node_says_what_it_does_not_have(project: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setenv("TMPDIR", str(project))
    directory, config = run_of(project / "run")
    (project / "gone").mkdir()
    tasks = [QueuedTask(id="t", prompt="hi", cwd=str(project / "gone"))]
    create_files(project / "other", tasks, config)
    queue = open_stored_queue(project / "other")
    (claim,) = queue.claim("", 1, 1, 30)
    queue.close()
    (project / "gone").rmdir()
    asked = {
        "does not see": RemoteRun(project / "nowhere", None, config),
        "has alhena": RemoteRun(directory, None, config, version="0"),
        "gone, the directory of the task 't'": RemoteRun(project / "other", None, config),
    }
    for words, remote in asked.items():
        fatal = run_task(remote, msgspec.json.encode(claim))
        assert fatal is not None
        code, message, remedy = fatal
        assert (code, words in message, bool(remedy)) == (52, True, True), message


class RayOfTwoNodes:
    """Ray, as the driver uses it: its mailbox has a call at the second look; then it is stopped."""

    def __init__(self) -> None:
        self.driver: Driver | None = None
        self.exceptions: Any = None
        self.exchange = self.util = self.scheduling_strategies = self
        self.started: list[int] = []
        self._runs = 0

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": name, "Alive": True} for name in "ab"]

    def remote(self, made: Any = None, *_arguments: Any) -> Any:
        """The callable; or a call of the mailbox or of a task."""
        if callable(made):
            return self
        self._runs += isinstance(made, RemoteRun)
        return "calls" if isinstance(made, list) else self if made is None else self._runs

    def options(self, **_how: Any) -> Any:
        return self

    def __getattr__(self, _name: str) -> Any:
        return lambda *_arguments, **_how: self

    def wait(self, refs: list[Any], timeout: float) -> tuple[list[Any]]:
        self.started.append(self._runs)
        if len(self.started) == 2:
            return (["calls"],)
        if len(self.started) == 3:
            assert self.driver is not None
            self.driver.obey(DriverOrder(stop=True))
            return (refs,)
        return ([],)

    def cancel(self, _ref: Any) -> None: ...

    def get(self, ref: Any) -> Any:
        return [(1, "begin", b"[]")] if ref == "calls" else None


def test_each_node_starts_one_process_until_the_first_one_works(tmp_path: Path):
    """A process takes a second of a processor to start, and a node may not be able to work."""
    directory, config = run_of(tmp_path, 5)
    head = Head(directory)
    claims = head.claim(5)
    head.queue.close()
    reports = io.BytesIO()
    ray = RayOfTwoNodes()
    driver = ray.driver = Driver(ray, open_store(directory), config, reports)
    orders: SimpleQueue[DriverOrder] = SimpleQueue()
    for name, token in claims.items():
        task = QueuedTask(id=name, prompt="x")
        orders.put(DriverOrder(claim=Claim(task=task, token=token, attempt=1)))
    driver.serve(orders)
    assert ray.started == [2, 2, 5]
    ended = [json.loads(line).get("token") for line in reports.getvalue().splitlines()]
    assert sorted(filter(None, ended)) == sorted(claims.values())


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
@pytest.mark.timeout(900)
@pytest.mark.requirement("RUN-04")
def test_whatever_a_cluster_loses_each_task_ends_once(project: Path):
    """A worktree outlives its worker but not its node. Before, commands that cannot use the cluster
    say why."""
    found, workers, refused = on_ray("losses", project)
    words = {
        "wrong token": "refuses the token",
        "no token": "no token",
        "no cluster": "no Ray cluster answers at 127.0.0.1:1",
        "silence": "is no Ray cluster",
        "client": "--address cannot be ray://",
        "versions": "has Ray 1.0.0 with Python 3.0.0",
    }
    assert {
        name: (words[name] in err, code) for name, (err, code) in refused.items()
    } == dict.fromkeys(words, (True, 52)), refused
    assert found["code"] == 1, found["err"]
    assert found["calls"] == {"task 0": [0, 1, 1, 2, 0, 1, 2], "task 1": [0, 1, 2, 3, 4]}
    kinds = {each["id"]: each["kind"] for each in found["results"]}
    assert kinds == {"t0": None, "t1": "worker_lost"}
    least = {"t0": 3, "t1": 5}
    made = {"t0": ["0", "1"], "t1": ["0", "1", "2", "3", "4"]}
    for each in found["results"]:
        # A slow machine may lose a lease before the attempt has asked the model, or while its
        # command runs, which does not run again.
        name, more = each["id"], each["attempts"] - least[each["id"]]
        patch = added(each["patch"])
        assert patch == made[name] or (more > 0 and set(patch) < set(made[name])), each
        assert more >= 0
    assert (len(found["trees"].splitlines()), found["left"]) == (1, [])
    assert (workers["code"], len(workers["results"])) == (0, 10), workers["err"]
    assert once(workers)
    assert max(each["attempts"] for each in workers["results"]) > 1


@pytest.mark.slow
@pytest.mark.timeout(max(900, 3 * TASKS))
@pytest.mark.requirement("RUN-04")
@pytest.mark.skipif(TASKS == 0, reason="part of `make soak-batch`: TASKS is not set")
def test_random_kills_leave_the_results_of_an_undisturbed_run(project: Path):
    found = on_ray("random_kills", project)
    assert found["code"] == 0, found["err"]
    assert len(found["results"]) == TASKS
    assert once(found)


@pytest.mark.slow
@pytest.mark.timeout(900)
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
    status = alhena("batch", "status", "r.jsonl.run", "--json").json
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
@pytest.mark.timeout(900)
@pytest.mark.requirement("RUN-04")
def test_without_an_address_the_command_starts_a_cluster_which_keeps_its_limits(project: Path):
    found = on_ray("own_cluster", project)
    assert found["code"] == 53, found["err"]
    assert "reached the limit of $0.002 for all tasks" in found["err"]
    assert 0 < len(found["results"]) < 3
    assert once(found)
