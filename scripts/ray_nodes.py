"""`python -m scripts.ray_nodes several|job|objects|refused|versions`: runs recipes of docs/batch.md
on a Ray cluster of two nodes, and prints what was typed and answered.

Each node is a set of namespaces with an address, processes, temporary files and shared memory of
its own; a stand-in for the model answers at the gateway between them. All of it ends with this
program. `job` needs `ray[default]`, `--bin DIR` names the programs of another environment;
`objects` hides the project from the worker, and keeps the run in an object store; `refused` shows
what commands say that cannot use the cluster, `versions` what one says where the worker has another
version of alhena.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.batch.answering import AnsweringServer, echo, write_tasks
from tests.batch.objects import ObjectServer

GATEWAY, ADDRESSES = "10.77.0.1", {"head": "10.77.0.2", "worker": "10.77.0.3"}
INSIDE = "--inside"
TASKS = 24
SPACES = ("--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
HIDDEN = ("/tmp/ray", "/dev/shm")
"""Folders of which each node has its own."""


def run(*command: str) -> None:
    subprocess.run(command, check=True)


class Node:
    """A machine of the cluster: processes that share namespaces."""

    def __init__(self, name: str, environ: dict[str, str], hidden: tuple[str, ...]) -> None:
        self.name = name
        self._environ = environ
        self._keeper = subprocess.Popen(["unshare", *SPACES, "sleep", "infinity"])
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.01)
        self._enter = ("nsenter", "-t", found[0], "-n", "-m", "-u", "-p")
        self._connect(found[0])
        for path in hidden:
            Path(path).mkdir(exist_ok=True)
            run(*self._enter, "mount", "-t", "tmpfs", "node", path)

    def _connect(self, pid: str) -> None:
        """Gives the node its address, beside the gateway's."""
        link = f"to-{self.name}"
        run(
            "ip",
            "link",
            "add",
            link,
            "master",
            "nodes",
            "type",
            "veth",
            "peer",
            "eth0",
            "netns",
            pid,
        )
        run("ip", "link", "set", link, "up")
        for command in (
            f"hostname {self.name}",
            "ip link set lo up",
            f"ip address add {ADDRESSES[self.name]}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {GATEWAY}",
        ):
            run(*self._enter, *command.split())

    def begin(self, command: str, cwd: Path) -> "subprocess.Popen[bytes]":
        """Starts a command as a person would, and prints it."""
        print(f"{self.name}$ {command}", flush=True)
        words = [*self._enter, f"--wdns={cwd}", *shlex.split(command)]
        return subprocess.Popen(words, env=self._environ, stderr=subprocess.STDOUT)

    def type(self, command: str, cwd: Path) -> int:
        """Runs a command; it and its exit code are printed with what it writes."""
        began = time.monotonic()
        code = self.begin(command, cwd).wait()
        print(f"[exit {code}, {time.monotonic() - began:.1f} s]\n", flush=True)
        return code

    def end(self) -> None:
        """Ends all processes of the node."""
        self._keeper.kill()
        self._keeper.wait()


def _answer(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    time.sleep(2)
    return echo(contents)


def carry_out(recipe: str, programs: str, project: Path) -> int:
    """Makes the nodes, follows the recipe; the exit code of its last command."""
    for command in (
        "ip link set lo up",
        "ip link add nodes type bridge",
        f"ip address add {GATEWAY}/24 dev nodes",
        "ip link set nodes up",
    ):
        run(*command.split())
    with AnsweringServer(_answer, host=GATEWAY) as model, ObjectServer(host=GATEWAY) as objects:
        environ = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(project),
            "TMPDIR": HIDDEN[0],
            "NO_COLOR": "1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "t" * 64,
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",  # by default other work on this machine goes before
            "GEMINI_API_KEY": "k",
            "GOOGLE_GEMINI_BASE_URL": model.url,
            **objects.environ,
        }
        project.mkdir()
        apart = (str(project.parent),) if recipe == "objects" else ()
        head = Node("head", environ, HIDDEN)
        other = {"PYTHONPATH": str(copy_package(project.parent))} if recipe == "versions" else {}
        worker = Node("worker", environ | other, (*HIDDEN, *apart))
        try:
            return follow(recipe, head, worker, project)
        finally:
            head.end()
            worker.end()


def copy_package(folder: Path) -> Path:
    """A folder with a copy of the package that has another version."""
    copy = folder / "other" / "alhena"
    shutil.copytree(Path(__file__).parents[1] / "src" / "alhena", copy)
    (copy / "version.py").write_text('__version__ = "9.9"\n', encoding="utf-8")
    return copy.parent


def follow(recipe: str, head: Node, worker: Node, project: Path) -> int:
    """Types the commands of a recipe."""
    write_tasks(project / "tasks.jsonl", TASKS, cwd="/srv")
    address = f"{ADDRESSES['head']}:6379"
    head.type("ray start --head --port 6379 --num-cpus 1", project)
    worker.type(f"ray start --address {address} --num-cpus 1", Path("/"))
    batch = "alhena batch tasks.jsonl --out results.jsonl --engine ray --address"
    if recipe == "several":
        code = worker.type(f"{batch} {address} --run-dir {project}/run", project)
        return code or head.type(f"alhena batch status {project}/run", project)
    if recipe == "objects":
        run_dir = "s3://runs/one"
        at_work = head.begin(f"{batch} auto --concurrency 2 --run-dir {run_dir}", project)
        time.sleep(15)
        for order in ("pause", "limits", "resume", "cancel", "tail", "status --watch"):
            more = {"limits": " --concurrency 1 --rpm 60", "cancel": " t23", "tail": " t22"}
            command = f"alhena batch {order} {run_dir}{more.get(order, '')}"
            worker.type(command, Path("/"))
        return at_work.wait()
    if recipe == "refused":
        return refuse(batch, address, head, project)
    if recipe == "versions":
        return 0 if head.type(f"{batch} auto", project) == 52 else 1
    out = batch.replace("results.jsonl", f"{project}/results.jsonl")
    submit = "ray job submit --address http://127.0.0.1:8265 --working-dir ."
    code = head.type(f"{submit} -- {out} auto", project)
    return code or head.type("alhena batch tail results.jsonl.run t1", project)


def refuse(batch: str, address: str, head: Node, project: Path) -> int:
    """Types commands that cannot use the cluster; 0 if each says so with exit code 52."""
    own = f"{HIDDEN[0]}/own"
    asked = (
        f"env -u RAY_AUTH_TOKEN {batch} auto",
        f"env RAY_AUTH_TOKEN={'x' * 64} {batch} auto",
        f"{batch} {ADDRESSES['head']}:6380",
        f"{batch} ray://{address}",
        f"{batch} auto --run-dir {own}",
        f"{batch.replace('tasks.', 'own.')} auto",
    )
    head.type(f"mkdir {own}", project)
    text = (project / "tasks.jsonl").read_text(encoding="utf-8").replace("/srv", own)
    (project / "own.jsonl").write_text(text, encoding="utf-8")
    codes: list[int] = []
    for command in asked:
        codes.append(head.type(command, project))
        shutil.rmtree(project / "results.jsonl.run", ignore_errors=True)
    return 0 if set(codes) == {52} else 1


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts.ray_nodes", description=__doc__)
    parser.add_argument("recipe", choices=["several", "job", "objects", "refused", "versions"])
    parser.add_argument("--bin", default=str(Path(sys.executable).parent), metavar="DIR")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    found = parser.parse_args(argv)
    if not found.inside:
        again = [sys.executable, "-m", "scripts.ray_nodes", *argv, INSIDE]
        own = ("unshare", "--user", "--map-root-user", *SPACES, *again)
        return subprocess.run(own, check=False).returncode
    folder = Path(tempfile.mkdtemp(prefix="ray-nodes-"))
    try:
        return carry_out(found.recipe, found.bin, folder / "work")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
