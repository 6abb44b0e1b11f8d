"""Tasks in worktrees and copies of their folders, and the patches they leave."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from alhena.batch.queue import Queue
from alhena.batch.tasks import QueuedTask
from tests.batch.answering import (
    AnsweringServer,
    echo,
    ended,
    prompt_of,
    results,
    started,
    write_tasks,
)
from tests.support.command import alhena, keyed
from tests.support.server import call
from tests.support.slow_git import path_to_held_git, path_to_slow_git

TREES = int(os.environ.get("TREES", "6"))
YOLO = ("--approval-mode", "yolo", "--skip-trust", "--worktree")
SCRIPT = (
    r"printf 'caf\351 new\n' > legacy.txt; printf '\0\1\377' > new.bin; echo x >> ignored.log; "
    "git mv keep.txt kept.txt 2>/dev/null || mv keep.txt kept.txt; echo {name} > made.txt; {commit}"
)


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    argv = ["git", *identity, *arguments]
    done = subprocess.run(argv, cwd=folder, input=stdin, capture_output=True, check=True)
    return done.stdout.decode()


def folder_of_files(folder: Path) -> Path:
    folder.mkdir()
    (folder / "legacy.txt").write_bytes(b"caf\xe9\n")
    (folder / "keep.txt").write_text("kept\n" * 20)
    (folder / ".gitignore").write_text("*.log\n")
    (folder / ".gitattributes").write_text("*.txt diff\n")
    return folder


def repository(folder: Path) -> Path:
    folder_of_files(folder)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def changing(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if "functionResponse" in contents[-1]["parts"][0]:
        return echo(contents)
    name = prompt_of(contents).replace(" ", "-")
    commit = "git -c user.name=t -c user.email=t@x commit -qam second" if name == "task-1" else ":"
    script = SCRIPT.replace("{name}", name).replace("{commit}", commit)
    return [call("run_shell_command", {"command": script})]


def bare(folder: Path) -> Path:
    """A folder with a bare repository in it, and a file that leads there."""
    repository(folder.with_name("source"))
    folder.mkdir()
    git(folder, "clone", "-q", "--bare", str(folder.with_name("source")), ".bare")
    (folder / ".git").write_text("gitdir: ./.bare\n", encoding="utf-8")
    return folder


KINDS = {
    "repository": (repository, {"cwd": "code"}),
    "copy": (folder_of_files, {"cwd": "code"}),
    "around a bare repository": (bare, {"cwd": "code"}),
    "a bare repository": (bare, {"repo": "code/.bare"}),
    "within a bare repository": (bare, {"cwd": "code/.bare/refs"}),
}


@pytest.mark.requirement("WORLD-01")
@pytest.mark.requirement("RUN-05")
@pytest.mark.parametrize("kind", KINDS)
def test_each_task_has_files_of_its_own_and_leaves_a_patch(project: Path, kind: str):
    made, where = KINDS[kind]
    folder = made(project / "code")
    branches = git(folder, "branch") if kind != "copy" else ""
    write_tasks(project / "tasks.jsonl", 3, **where)
    with AnsweringServer(changing) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *YOLO, **keyed(server))
    assert ran.code == 0, ran.err
    if made is not bare:
        assert (folder / "legacy.txt").read_bytes() == b"caf\xe9\n"
    assert not (folder / "made.txt").exists()
    found = results(project / "r.jsonl")
    assert len(found) == 3
    for each in found:
        fresh = repository(project / f"fresh-{each['id']}")
        git(fresh, "apply", "--index", stdin=each["patch"].encode())
        assert (fresh / "legacy.txt").read_bytes() == b"caf\xe9 new\n"
        assert (fresh / "new.bin").read_bytes() == b"\0\1\xff"
        assert (fresh / "kept.txt").exists()
        assert not (fresh / "keep.txt").exists()
        assert (fresh / "made.txt").read_text() == f"task-{each['id'][1:]}\n"
        assert "ignored.log" not in each["patch"]
    if kind != "copy":
        assert len(git(folder, "worktree", "list").splitlines()) == 1
        assert git(folder, "branch") == branches
    assert not list((project / "r.jsonl.run" / "tasks").glob("*/tree"))


@pytest.mark.requirement("WORLD-01")
def test_no_worktree_is_left_where_some_end_while_others_are_made(project: Path):
    folder = repository(project / "code")
    write_tasks(project / "tasks.jsonl", 6, cwd="code")
    path = path_to_slow_git(project / "bin")
    with AnsweringServer(changing) as server:
        two = ("--concurrency", "2")
        slow = {**keyed(server), "PATH": path}
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *two, *YOLO, **slow)
    assert ran.code == 0, ran.err
    assert [each["status"] for each in results(project / "r.jsonl")] == ["done"] * 6
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def test_a_worktree_outlives_the_command_and_goes_on_with_its_task(project: Path):
    folder = repository(project / "code")
    write_tasks(project / "tasks.jsonl", 1, cwd="code")
    with AnsweringServer(changing, held_from=2) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *YOLO)
        assert server.reached(2, process)
        os.killpg(process.pid, signal.SIGKILL)
        ended(process)
        (tree,) = (project / "r.jsonl.run" / "tasks").glob("*/tree/code")
        index = git(tree, "rev-parse", "--path-format=absolute", "--git-path", "index").strip()
        Path(f"{index}.lock").touch()  # as a git that was killed leaves it
        server.go_on.set()
        ran = alhena("batch", "resume", "r.jsonl.run", **keyed(server))
    assert ran.code == 0, ran.err
    (found,) = results(project / "r.jsonl")
    assert "made.txt" in found["patch"]
    assert server.asked == ["task 0"] * 3
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def test_a_worktree_that_was_being_made_when_its_worker_died_is_made_again(project: Path):
    folder = repository(project / "code")
    tree = project / "r.jsonl.run" / "tasks" / QueuedTask(id="t0", prompt="x").key / "tree" / "code"
    git(folder, "worktree", "add", "--lock", "--detach", str(tree))
    shutil.rmtree(tree)
    write_tasks(project / "tasks.jsonl", 1, cwd="code")
    with AnsweringServer(changing) as server:
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *YOLO, **keyed(server))
    assert ran.code == 0, results(project / "r.jsonl")
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def test_the_form_of_swebench_has_three_keys(project: Path):
    folder = repository(project / "code")
    write_tasks(project / "tasks.jsonl", 1, repo=f"code#{git(folder, 'rev-parse', 'HEAD').strip()}")
    with AnsweringServer(changing) as server:
        options = (
            "--format",
            "swebench",
            "--approval-mode",
            "yolo",
            "--skip-trust",
            "-m",
            "gemini-2.5-flash",
        )
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *options, **keyed(server))
    assert ran.code == 0, ran.err
    (line,) = (project / "r.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert list(found) == ["instance_id", "model_name_or_path", "model_patch"]
    assert (found["instance_id"], found["model_name_or_path"]) == ("t0", "gemini-2.5-flash")
    git(repository(project / "fresh"), "apply", stdin=found["model_patch"].encode())


def test_cancel_leaves_no_worktree(project: Path):
    folder = repository(project / "code")
    write_tasks(project / "tasks.jsonl", 2, cwd="code")
    with AnsweringServer(echo, held_from=1) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *YOLO)
        assert server.reached(1, process)
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 130
        server.go_on.set()
        assert alhena("batch", "cancel", "r.jsonl.run").code == 0
    assert [each["status"] for each in results(project / "r.jsonl")] == ["cancelled"] * 2
    assert len(git(folder, "worktree", "list").splitlines()) == 1


def await_file(path: Path, process: "subprocess.Popen[str]") -> None:
    while not path.exists():
        assert process.poll() is None
        time.sleep(0.02)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_cancel_leaves_no_worktree_that_is_being_made(
    project: Path, monkeypatch: pytest.MonkeyPatch, workers: str
):
    folder = repository(project / "code")
    write_tasks(project / "tasks.jsonl", 1, cwd="code")
    monkeypatch.setenv("PATH", path_to_held_git(project / "bin", "worktree add"))
    with AnsweringServer(echo) as server:
        options = ("--out", "r.jsonl", *YOLO, "--workers", workers)
        process = started(server, "tasks.jsonl", *options)
        await_file(project / "bin" / "reached", process)
        assert alhena("batch", "cancel", "r.jsonl.run").code == 0
        for lock in (project / "r.jsonl.run" / "workers").glob("*.lock") if workers == "1" else ():
            while Path("/proc", lock.read_text()).exists():  # it is killed, its git is not
                time.sleep(0.02)
        (project / "bin" / "go-on").touch()
        assert ended(process)[0] == 1
    assert [each["status"] for each in results(project / "r.jsonl")] == ["cancelled"]
    assert len(git(folder, "worktree", "list").splitlines()) == 1
    assert not list((project / "r.jsonl.run" / "tasks").glob("*/tree*"))


def test_a_task_interrupted_while_its_patch_is_made_is_given_back(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    repository(project / "code")
    write_tasks(project / "tasks.jsonl", 1, cwd="code")
    monkeypatch.setenv("PATH", path_to_held_git(project / "bin", "diff --cached"))
    with AnsweringServer(changing) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *YOLO)
        await_file(project / "bin" / "reached", process)
        process.send_signal(signal.SIGTERM)
        (project / "bin" / "go-on").touch()
        assert ended(process)[0] == 130
    queue = Queue(project / "r.jsonl.run")
    assert queue.rows("SELECT state FROM tasks") == [("waiting",)]
    queue.close()


def journals_of(run: Path, session_id: str) -> str:
    """The records of the attempts at a task, for the message of a failure."""
    key = session_id.rpartition("-")[0]
    paths = sorted(run.rglob(f"{key}*.jsonl"))
    return "\n".join(f"{path.name}\n{path.read_text()}" for path in paths)


@pytest.mark.slow
@pytest.mark.timeout(max(120, 3 * TREES))
@pytest.mark.requirement("RUN-05")
def test_tasks_of_a_real_repository_leave_their_patches_after_everything_was_killed(project: Path):
    """Everything is killed when half of the requests are answered."""
    git(project, "clone", "-q", "--depth", "1", Path(__file__).parents[2].as_uri(), "code")
    git(project, "clone", "-q", str(project / "code"), "fresh")

    def answer(contents: list[dict[str, Any]]) -> Any:
        said = contents[-1]["parts"][0].get("functionResponse")
        undone = ("whether it took effect is unknown", "This call was not started")
        if said is not None and not any(words in str(said) for words in undone):
            return echo(contents)
        again = (
            'rm -f "$(git rev-parse --git-path index.lock)"; git reset -q --hard; git clean -qfd'
        )
        words = prompt_of(contents)
        command = f"echo {words} | tee made.txt >> README.md; git mv LICENSE licence; rm Makefile"
        return [call("run_shell_command", {"command": f"{again}; {command}"})]

    write_tasks(project / "tasks.jsonl", TREES, cwd="code")
    with AnsweringServer(answer) as server:
        process = started(server, "tasks.jsonl", "--out", "r.jsonl", *YOLO, "--workers", "2")
        assert server.reached(TREES, process)
        os.killpg(process.pid, signal.SIGKILL)
        ended(process)
        ran = alhena("batch", "resume", "r.jsonl.run", **keyed(server))
    found = results(project / "r.jsonl")
    assert ran.code == 0, [each["error"] for each in found if each["error"]]
    assert sorted(each["id"] for each in found) == sorted(f"t{n}" for n in range(TREES))
    fresh = project / "fresh"
    for each in found:
        assert each["patch"], journals_of(project / "r.jsonl.run", each["session_id"])
        git(fresh, "apply", "--index", stdin=each["patch"].encode())
        changes = git(fresh, "diff", "--cached", "--name-status", "-M").split()
        expected = "D Makefile M README.md A made.txt R100 LICENSE licence"
        assert sorted(changes) == sorted(expected.split())
        words = f"task {each['id'][1:]}\n"
        assert (fresh / "made.txt").read_text() == words
        assert (fresh / "README.md").read_text().endswith(words)
        git(fresh, "reset", "-q", "--hard")
    assert len(git(project / "code", "worktree", "list").splitlines()) == 1
    assert not list((project / "r.jsonl.run" / "tasks").glob("*/tree*"))
