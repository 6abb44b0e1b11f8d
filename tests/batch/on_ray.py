"""`python -m tests.batch.on_ray SCENARIO PROJECT`, where it sees no other network and no other process:
runs `alhena batch` on a Ray cluster that loses something, and prints what came of it as JSON."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
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
from tests.support.server import call

FLAGS = ("--engine", "ray", "--concurrency", "2", "--lease", "3", "--approval-mode", "yolo")


def answer(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A call that leaves a mark, then the answer, which tells of no attempt."""
    if not any("functionResponse" in part for each in contents for part in each["parts"]):
        command = f"echo {prompt_of(contents)} >> marks.txt"
        return [call("run_shell_command", {"command": command})]
    return [{"text": f"answer to {prompt_of(contents)}"}]


class Run:
    """A project of `tasks` and a server; `reached(n)` waits for n requests."""

    def __init__(self, project: Path, tasks: int, temporary: str) -> None:
        self.project = project
        self.server = AnsweringServer(self._answer)
        write_tasks(project / "tasks.jsonl", tasks)
        os.environ["GOOGLE_GEMINI_BASE_URL"] = self.server.url
        self._temporary = temporary
        self._counted = threading.Condition()
        self._count = 0

    def start_cluster(self) -> Any:
        node = {"num_cpus": 1, "include_dashboard": False, "temp_dir": self._temporary}
        return Cluster(initialize_head=True, head_node_args=node)

    def _answer(self, contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with self._counted:
            self._count += 1
            self._counted.notify_all()
        return answer(contents)

    def reached(self, count: int) -> None:
        with self._counted:
            self._counted.wait_for(lambda: self._count >= count)

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


def lost_workers(run: Run) -> dict[str, Any]:
    """A task's process, both actors and a node are killed, one after the other."""
    head = run.start_cluster()
    node = head.add_node(num_cpus=1)
    process = run.start("tasks.jsonl", "--out", "r.jsonl", *FLAGS, "--address", head.address)
    run.reached(4)
    kill("ray::run_task")
    run.reached(7)
    kill("ray::Writer")
    kill("ray::SharedLimiter")
    run.reached(12)
    head.remove_node(node, allow_graceful=False)
    return run.ended(process)


def lost_cluster(run: Run) -> dict[str, Any]:
    """The command is killed; while a second one goes on with its tasks, the cluster ends."""
    head = run.start_cluster()
    process = run.start("tasks.jsonl", "--out", "r.jsonl", *FLAGS, "--address", head.address)
    run.reached(4)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    process = run.start("resume", "r.jsonl.run")
    run.reached(9)
    head.remove_node(head.head_node, allow_graceful=False)
    return run.ended(process)


def own_cluster(run: Run) -> dict[str, Any]:
    """The command starts a cluster on its machine, and has no money for all tasks."""
    money = ("-m", "gemini-2.5-flash", "--concurrency", "1", "--total-cost", "0.002")
    return run.ended(run.start("tasks.jsonl", "--out", "r.jsonl", *FLAGS, *money))


TASKS = {"lost_workers": 10, "lost_cluster": 12, "own_cluster": 3}


def kill(title: str) -> None:
    """Kills a process of this title."""
    pids = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if title.encode() in read(path) and str(os.getpid()) != path.parent.name
    ]
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
    run = Run(Path(project), TASKS[scenario], temporary)
    try:
        with run.server:
            found = globals()[scenario](run)
            json.dump(found, stdout)
            stdout.flush()
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
