"""`python -m tests.batch.on_ray SCENARIO PROJECT`, where it sees no other network and no other process:
runs `alhena batch` on a Ray cluster that loses something, and prints what came of it as JSON."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ |= {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "t" * 64,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "3",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
    "GEMINI_API_KEY": "k",
}

from ray.cluster_utils import Cluster

from tests.batch.answering import (
    ALHENA,
    AnsweringServer,
    prompt_of,
    results,
    write_tasks,
)
from tests.batch.objects import ObjectServer
from tests.batch.test_batch_worktrees import git, repository
from tests.support.server import call

TASKS, KILLS = int(os.environ.get("TASKS", "60")), int(os.environ.get("KILLS", "6"))
FLAGS = (
    "--engine",
    "ray",
    "--concurrency",
    "2",
    "--lease",
    "12",
    "--approval-mode",
    "yolo",
    "--skip-trust",
)

BARE = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
"""A node without the processes that nothing here asks: each takes a second of the processor."""


def calls_of(contents: list[dict[str, Any]]) -> int:
    """The number of calls that have been answered."""
    return sum("functionResponse" in part for each in contents for part in each["parts"])


def answer(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A call that leaves a mark, then the answer, which tells of no attempt."""
    if not calls_of(contents):
        command = f"echo {prompt_of(contents)} >> marks.txt"
        return [call("run_shell_command", {"command": command})]
    return [{"text": f"answer to {prompt_of(contents)}"}]


class Run:
    """A project and a server."""

    def __init__(self, project: Path, temporary: str, server: AnsweringServer) -> None:
        project.mkdir(exist_ok=True)
        self.project = project
        self.server = server
        os.environ["GOOGLE_GEMINI_BASE_URL"] = self.server.url
        self._temporary = temporary

    def beside(self, name: str) -> "Run":
        """A further run, in a folder of the project, with the same server."""
        self.server.asked.clear()
        self.server.answer = answer
        return Run(self.project / name, self._temporary, self.server)

    def start_cluster(self, cpus: int = 1) -> Any:
        node = {**BARE, "num_cpus": cpus, "temp_dir": self._temporary}
        return Cluster(initialize_head=True, head_node_args=node)

    def more(self, count: int, process: "subprocess.Popen[str]") -> None:
        """Waits for further requests, or the end of the command."""
        self.server.reached(len(self.server.asked) + count, process)

    def folder(self, name: str) -> dict[str, str]:
        """The environment of a node with a folder of its own for temporary files."""
        (self.project / name).mkdir()
        return {"TMPDIR": str(self.project / name)}

    def batch(self, tasks: int, *arguments: str, **fields: Any) -> "subprocess.Popen[str]":
        """The command with so many tasks."""
        write_tasks(self.project / "tasks.jsonl", tasks, **fields)
        return self.start("tasks.jsonl", "--out", "r.jsonl", *FLAGS, *arguments)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [ALHENA, "batch", *arguments],
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def ended(self, process: "subprocess.Popen[str]") -> dict[str, Any]:
        _, err = process.communicate()
        marks = self.project / "marks.txt"
        return {
            "code": process.returncode,
            "err": err,
            "results": results(self.project / "r.jsonl"),
            "marks": marks.read_text().splitlines() if marks.exists() else [],
            "asked": self.server.asked,
        }


def lost_workers(run: Run, head: Any) -> dict[str, Any]:
    """A task's process, the actor and a node are killed, one after the other."""
    node = head.add_node(**BARE, num_cpus=1)
    process = run.batch(10, "--address", head.address)
    run.server.reached(4, process)
    kill("ray::run_task")
    run.server.reached(7, process)
    kill("ray::Mailbox")
    run.server.reached(12, process)
    head.remove_node(node, allow_graceful=False)
    return run.ended(process)


def lost_cluster(run: Run, head: Any) -> dict[str, Any]:
    """The cluster ends while tasks are at work."""
    process = run.batch(12, "--address", head.address)
    run.server.reached(9, process)
    head.remove_node(head.head_node, allow_graceful=False)
    return run.ended(process)


def own_cluster(run: Run) -> dict[str, Any]:
    """The command starts a cluster on its machine, and has no money for all tasks."""
    money = ("-m", "gemini-2.5-flash", "--concurrency", "1", "--total-cost", "0.002")
    return run.ended(run.batch(3, *money))


def refusals(run: Run, head: Any) -> dict[str, Any]:
    """Commands that cannot use the cluster, each for another reason, all at once."""
    tasks = write_tasks(run.project / "tasks.jsonl", 1)
    closed = socket.create_server(("127.0.0.1", 0))
    metadata = (b"CLUSTER_METADATA", b"cluster")
    client = import_module("ray._raylet").GcsClient(address=head.address)
    kept = client.internal_kv_get(*metadata)
    home = {"HOME": str(run.project), "RAY_AUTH_TOKEN": ""}
    asked: dict[str, tuple[dict[str, str], str]] = {
        "wrong token": ({"RAY_AUTH_TOKEN": "x" * 64}, head.address),
        "no token": (home, head.address),
        "no cluster": ({}, "127.0.0.1:1"),
        "silence": ({}, f"127.0.0.1:{closed.getsockname()[1]}"),
        "client": ({}, f"ray://{head.address}"),
    }

    def start(name: str, environ: dict[str, str], address: str) -> "subprocess.Popen[str]":
        out = f"{name.replace(' ', '-')}.jsonl"
        with other_variables(environ):
            return run.start(str(tasks), "--out", out, *FLAGS, "--address", address)

    started = {name: start(name, *each) for name, each in asked.items()}
    found = {
        name: (process.communicate()[1], process.returncode) for name, process in started.items()
    }
    other = json.dumps({"ray_version": "1.0.0", "python_version": "3.0.0"}).encode()
    client.internal_kv_put(metadata[0], other, True, metadata[1])
    process = start("versions", {}, head.address)
    found["versions"] = (process.communicate()[1], process.returncode)
    client.internal_kv_put(metadata[0], kept, True, metadata[1])
    closed.close()
    return found


@contextmanager
def other_variables(environ: dict[str, str]) -> Generator[None]:
    """Other variables for the processes that a block starts."""
    before = dict(os.environ)
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def lost_trees(run: Run, head: Any) -> dict[str, Any]:
    """The process of the first task is killed, then its node is lost, each with work in its
    worktree; the second task kills its process in each attempt."""
    code = repository(run.project / "code")
    first = head.add_node(**BARE, num_cpus=1, env_vars=run.folder("first"))
    calls: dict[str, list[int]] = {"task 0": [], "task 1": []}
    reached, lost = threading.Event(), threading.Event()

    def step(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        words, known = prompt_of(contents), calls_of(contents)
        calls[words].append(known)
        if calls[words] == [0, 1] and words == "task 0":
            kill("ray::run_task")
        if calls[words] == [0, 1, 1, 2] and words == "task 0":
            reached.set()
            lost.wait()
        if words == "task 0" and known == 2:
            return [{"text": f"answer to {words}"}]
        command = f"echo {known} >> made.txt" + ("; kill -9 $PPID" if words == "task 1" else "")
        return [call("run_shell_command", {"command": command})]

    run.server.answer = step
    flags = ("--worktree", "--concurrency", "1", "--address", head.address)
    process = run.batch(2, *flags, cwd="code")
    reached.wait()
    head.remove_node(first, allow_graceful=False)
    kill("ray::run_task")
    head.add_node(**BARE, num_cpus=1, env_vars=run.folder("second"))
    lost.set()
    found = run.ended(process)
    left = [str(path) for path in run.project.glob("second/alhena-*")]
    return {**found, "calls": calls, "trees": git(code, "worktree", "list"), "left": left}


def resumes(run: Run) -> list[dict[str, Any]]:
    """The run is in an object store. The command is killed, a second one resumes, which a third
    one, on the same run, takes over. Then the cluster is lost with another run."""
    place = "s3://runs/of/one"
    with ObjectServer() as store:

        def held(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
            if len(run.server.asked) > 8:
                store.awaited("/runs/of/one/epochs/writer-000005")
            return answer(contents)

        run.server.answer = held
        os.environ |= store.environ
        head = run.start_cluster()
        process = run.batch(8, "--address", head.address, "--run-dir", place)
        run.server.reached(5, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        process = run.start("resume", place)
        run.more(3, process)
        found = run.ended(run.start("resume", place))
        _, err = process.communicate()
        status = run.start("status", place, "--json").communicate()[0]
        found |= {"second": (process.returncode, err), "status": json.loads(status)}
        return [found, lost_cluster(run.beside("cluster"), head)]


def losses(run: Run) -> list[dict[str, Any]]:
    """A cluster without processors of its own loses nodes and processes, in two runs."""
    head = run.start_cluster(0)
    refused = refusals(run.beside("refused"), head)
    found = lost_trees(run, head)
    return [found, lost_workers(run.beside("workers"), head), refused]


def random_kills(run: Run) -> dict[str, Any]:
    """Processes of tasks, the actor, nodes and the command are killed at random moments."""
    seed = int(os.environ.get("SEED", random.randrange(10**6)))
    print(f"SEED={seed}", file=sys.stderr)
    chance = random.Random(seed)
    head = run.start_cluster()
    node = head.add_node(**BARE, num_cpus=1)
    process = run.batch(TASKS, "--concurrency", "8", "--address", head.address)
    for _ in range(KILLS):
        run.more(chance.randrange(1, max(2, 4 * TASKS // (KILLS + 1))), process)
        victim = chance.choice(["run_task", "run_task", "Mailbox", "node", ""])
        if victim == "node":
            head.remove_node(node, allow_graceful=False)
            node = head.add_node(**BARE, num_cpus=1)
        elif victim:
            kill(f"ray::{victim}")
        elif process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            process = run.start("resume", "r.jsonl.run")
    return run.ended(process)


def kill(title: str) -> None:
    """Kills a process of this title, if there is one."""
    pids = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if title.encode() in read(path) and str(os.getpid()) != path.parent.name
    ]
    if pids:
        os.kill(random.choice(pids), signal.SIGKILL)


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def main(scenario: str, project: str) -> None:
    stdout, sys.stdout = sys.stdout, sys.stderr
    temporary = tempfile.mkdtemp(prefix="ray-")
    os.environ["TMPDIR"] = temporary
    Path(temporary, "ray").mkdir()
    try:
        with AnsweringServer(answer) as server:
            run = Run(Path(project), temporary, server)
            found = globals()[scenario](run)
            json.dump(found, stdout)
            stdout.flush()
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
