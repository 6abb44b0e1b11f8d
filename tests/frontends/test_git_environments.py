"""Runs inside hooks and aliases of git, which name a repository and an index by variables."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.config.environment import ProjectEnvironment, without_repository
from alhena.library.agent import Agent
from alhena.system.own_programs import git_command
from alhena.testing import Call, TestModel
from tests.batch.answering import AnsweringServer, echo, results, write_tasks
from tests.support.command import ALHENA, alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

SOURCES = Path(__file__).parents[2] / "src" / "alhena"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always")
SAVE = "GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c "


def git(folder: Path, *words: str, **environ: str) -> str:
    return subprocess.run(
        ["git", *IDENTITY, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
    ).stdout


@pytest.fixture
def repository(project: Path) -> Path:
    """A repository with a commit, a change that is staged and one that is not."""
    git(project, "init", "-q", "-b", "main")
    (project / "a.txt").write_text("old\n", encoding="utf-8")
    (project / "b.txt").write_text("old\n", encoding="utf-8")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    (project / "a.txt").write_text("staged\n", encoding="utf-8")
    git(project, "add", "a.txt")
    (project / "b.txt").write_text("not staged\n", encoding="utf-8")
    return project


def in_hook(folder: Path, script: str) -> Path:
    """`git commit -a` with a pre-commit hook: git has an index of its own for it."""
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    hook.chmod(0o755)
    git(folder, "commit", "-q", "-a", "-m", "second")
    return folder


def in_hook_of_worktree(folder: Path, script: str) -> Path:
    """The same hook, for a commit in a worktree: git names the repository too."""
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    hook.chmod(0o755)
    other = folder.parent / "other"
    git(folder, "worktree", "add", "-q", "-b", "other", str(other))
    (other / "b.txt").write_text("elsewhere\n", encoding="utf-8")
    git(other, "commit", "-q", "-a", "-m", "second")
    return other


def in_alias(folder: Path, script: str) -> Path:
    """An alias of a git that was told its repository: git hands the names and settings on."""
    names = ("--git-dir", str(folder / ".git"), "--work-tree", str(folder), "--literal-pathspecs")
    git(folder, *names, "-c", f"alias.x=!sh -c {shlex.quote(script)}", "x")
    return folder


def in_rebase(folder: Path, script: str) -> Path:
    """`git rebase --exec`."""
    git(folder, "stash", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    git(folder, "rebase", "-q", "--exec", script, "HEAD~1")
    git(folder, "stash", "pop", "-q", "--index")
    return folder


FORMS = [in_hook, in_hook_of_worktree, in_alias, in_rebase]
Form = Callable[[Path, str], Path]


def write(folder: Path, server: ScriptedServer, *options: str) -> str:
    """A script that runs the command, which writes a file and commits it."""
    save = f"{SAVE} git add -A && {SAVE} git -c core.hooksPath=/dev/null commit -qm made"
    server.reply(
        sse(chunk(call("write_file", {"file_path": "c.txt", "content": "new\n"}), finish="STOP")),
        sse(chunk(call("run_shell_command", {"command": save}), finish="STOP")),
        sse(text("Done.")),
    )
    words = [ALHENA, *options, "-y", "--skip-trust", "-p", "go"]
    kept = [f"{name}={value}" for name, value in keyed(server).items()]
    return f"{shlex.join(['env', *kept, *words])} </dev/null >{folder.parent}/out 2>&1"


@pytest.mark.requirement("WORLD-01")
@pytest.mark.parametrize("form", FORMS)
def test_a_worktree_of_a_session_is_not_that_of_the_git_around(
    server: ScriptedServer, repository: Path, form: Form
):
    place = form(repository, write(repository, server, "-w", "review"))
    assert (repository.parent / "out").read_text(encoding="utf-8") == "Done.\n"
    tree = repository / ".worktrees" / "review"
    assert (tree / "a.txt").read_text(encoding="utf-8") == "old\n"
    assert git(tree, "log", "--format=%s", "-1", "--name-only") == "made\n\nc.txt\n"
    assert git(tree, "status", "--porcelain") == ""
    assert not (place / "c.txt").exists()
    if form in {in_hook, in_hook_of_worktree}:
        listed = git(place, "show", "--format=%s", "--name-only", "HEAD").split()
        assert listed[0] == "second"
        assert "b.txt" in listed, "the commit of the person has what it was to have"
        assert git(place, "status", "--porcelain") == ""
    else:
        assert git(place, "status", "--porcelain") == "M  a.txt\n M b.txt\n"


def variables_of(form: Form, folder: Path) -> dict[str, str]:
    """The variables that git sets for what it runs."""
    dump = "import json, os; print(json.dumps(dict(os.environ)))"
    kept = folder.parent / "variables"
    form(folder, f"{shlex.join([sys.executable, '-c', dump])} >{kept}")
    found = json.loads(kept.read_text(encoding="utf-8"))
    hook = folder / ".git" / "hooks" / "pre-commit"
    hook.unlink(missing_ok=True)
    return {
        name: found[name] for name in found if name.startswith("GIT_") if name not in os.environ
    }


def state_of(folder: Path) -> tuple[str, ...]:
    parts = (("status", "--porcelain"), ("log", "--all", "--format=%H"), ("ls-files", "--stage"))
    return tuple(git(folder, *words) for words in parts)


@pytest.mark.requirement("WORLD-01")
@pytest.mark.parametrize("form", FORMS)
def test_tasks_extensions_and_agents_leave_the_repository_around_alone(
    repository: Path, home: Path, form: Form
):
    variables = variables_of(form, repository)
    assert variables
    before = state_of(repository)

    def add(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if "functionResponse" in contents[-1]["parts"][0]:
            return echo(contents)
        return [call("run_shell_command", {"command": "echo new > d.txt; git add d.txt"})]

    out = repository.parent / "r.jsonl"
    write_tasks(repository.parent / "tasks.jsonl", 1, cwd=str(repository))
    options = ("--approval-mode", "yolo", "--skip-trust", "--worktree", "--out", str(out))
    with AnsweringServer(add) as server:
        tasks = str(repository.parent / "tasks.jsonl")
        ran = alhena("batch", tasks, *options, **keyed(server), **variables)
    assert ran.code == 0, ran.err
    (found,) = results(out)
    assert "d.txt" in found["patch"]
    assert "a.txt" not in found["patch"]
    assert state_of(repository) == before

    source = repository.parent / "extension"
    source.mkdir()
    git(source, "init", "-q")
    manifest = {"name": "greeter", "version": "1.0.0"}
    (source / "gemini-extension.json").write_text(json.dumps(manifest), encoding="utf-8")
    git(source, "add", ".")
    git(source, "commit", "-q", "-m", "first")
    done = alhena("extensions", "install", f"file://{source}", "--consent", **variables)
    assert done.code == 0, done.err
    assert (home / ".gemini" / "extensions" / "greeter" / "gemini-extension.json").exists()
    assert state_of(repository) == before


HELPER = """
name = "helper"
description = "Helps."
isolation = "worktree"
tools = ["*"]

[prompts]
system_prompt = "Help."
"""


@pytest.mark.requirement("WORLD-01")
async def test_an_agent_in_a_worktree_commits_there_inside_a_hook(
    repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
):
    file = home / ".gemini" / "agents" / "helper.toml"
    file.parent.mkdir(parents=True)
    file.write_text(HELPER, encoding="utf-8")
    before = state_of(repository)
    commands = (
        f"echo new > d.txt; {SAVE} git add d.txt; {SAVE} git commit -qm second; git status -s"
    )
    model = TestModel(
        Call("helper", query="Change it."),
        Call("run_shell_command", command=commands),
        Call("complete_task", result="Changed."),
        "Done.",
    )
    with monkeypatch.context() as patch:
        patch.setenv("GIT_DIR", str(repository / ".git"))
        patch.setenv("GIT_INDEX_FILE", str(repository / ".git" / "index"))
        async with Agent(model, cwd=repository, approve="always") as agent:
            await agent.ask("Go.")
    output = model.requests[3]["contents"][-1]["parts"][0]["functionResponse"]["response"]["output"]
    assert "diff --git a/d.txt b/d.txt" in output
    assert "a.txt" not in output
    assert state_of(repository) == before


def test_no_variable_of_a_repository_reaches_a_git_of_ours(project: Path):
    named = git(project, "rev-parse", "--local-env-vars").split()
    around = dict.fromkeys(named, "x") | {"GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}
    around |= {"GIT_QUARANTINE_PATH": "x", "GIT_LITERAL_PATHSPECS": "1", "GIT_NAMESPACE": "x"}
    kept = {"PATH": os.environ["PATH"], "GIT_AUTHOR_NAME": "me", "GIT_SSH_COMMAND": "ssh -v"}
    command = git_command(("status",), {**kept, **around})
    assert around.keys().isdisjoint(command.env)
    assert kept.items() <= command.env.items()
    chosen = git_command(("status",), {**kept, **around}, {"GIT_DIR": "/elsewhere"})
    assert chosen.env["GIT_DIR"] == "/elsewhere"


def test_variables_of_a_project_keep_apart_from_the_persons_own():
    environ = ProjectEnvironment({"GIT_DIR": "x", "A": "1"}, {"GIT_INDEX_FILE": "y", "B": "2"})
    plain = without_repository(environ)
    assert plain == {"A": "1", "B": "2"}
    assert isinstance(plain, ProjectEnvironment)
    assert plain.own == {"A": "1"}


CALLERS = {
    "git_command": {"extensions/installation.py", "session/checkpoints/git.py"},
    "repository_command": {
        "agent/subagents/worktree.py",
        "frontends/terminal/completion/file_index.py",
        "frontends/terminal/looks/footer.py",
        "system/tracked_files.py",
    },
    "run_git": {"batch/tasks.py", "batch/worktree.py", "frontends/shared/worktree.py"},
}
"""The modules that make git commands, besides those of the function itself."""


@pytest.mark.requirement("WORLD-01")
def test_git_is_started_by_one_function():
    found: dict[str, set[str]] = {name: set() for name in CALLERS}
    own: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        source = path.read_text(encoding="utf-8")
        for imported in re.findall(r"^ *from \S+ import (\([^)]*\)|.*)", source, re.MULTILINE):
            for each in found.keys() & set(re.findall(r"\w+", imported)):
                found[each].add(name)
        if re.search(r"""\w*(find_program|which|Popen|run|exec)\([\s\[(]*["']git["']""", source):
            own.add(name)
    assert found == CALLERS
    assert own == {"system/own_programs.py"}
