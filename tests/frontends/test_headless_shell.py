"""Shell commands that run unattended, and those that do not, through the real command."""

import subprocess
from pathlib import Path

import pytest

from tests.config.places import write
from tests.support.command import Ran, alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

QUICK_START = """
[[rule]]
toolName = "run_shell_command"
commandPrefix = "git status"
decision = "allow"
priority = 100
"""


def git(*arguments: str, cwd: Path) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def clone(project: Path, tmp_path: Path) -> Path:
    """The project is a fresh clone."""
    origin = tmp_path / "origin"
    git("init", "-q", str(origin), cwd=tmp_path)
    write(origin / "README.md", "read me\n")
    git("add", ".", cwd=origin)
    git("commit", "-q", "-m", "x", cwd=origin)
    git("clone", "-q", str(origin), ".", cwd=project)
    return project


def ran(server: ScriptedServer, *commands: str, arguments: tuple[str, ...] = ()) -> Ran:
    """A headless run whose model wants these commands, one after the other."""
    for command in commands:
        part = call("run_shell_command", {"command": command})
        server.reply(sse(chunk(part, finish="STOP")))
    server.reply(sse(text("done")))
    return alhena("-p", "go", "-o", "stream-json", *arguments, **keyed(server))


def results(done: Ran) -> list[tuple[str, str]]:
    assert done.code == 0, done.err
    return [
        (each["status"], str(each.get("output") or each["error"]["message"]))
        for each in done.of_type("tool_result")
    ]


@pytest.mark.requirement("POL-02")
def test_a_policy_that_allows_git_status_works_in_a_fresh_clone_that_nobody_trusts(
    server: ScriptedServer, home: Path, clone: Path
) -> None:
    write(home / ".gemini/policies/my-rules.toml", QUICK_START)
    write(clone / "new.txt", "x")
    ((status, output),) = results(ran(server, "git status"))
    assert status == "success"
    assert "new.txt" in output


def test_git_in_a_clone_that_names_programs_is_denied_with_the_way_to_trust_it(
    server: ScriptedServer, home: Path, clone: Path
) -> None:
    write(home / ".gemini/policies/my-rules.toml", QUICK_START)
    git("config", "core.fsmonitor", "touch ran; false", cwd=clone)
    ((status, output),) = results(ran(server, "git status"))
    assert status == "error"
    assert "core.fsmonitor" in output
    assert "alhena trust" in output
    assert not (clone / "ran").exists()
    assert alhena("trust").code == 0
    server.requests.clear()
    assert results(ran(server, "git status"))[0][0] == "success"
    assert (clone / "ran").exists()
