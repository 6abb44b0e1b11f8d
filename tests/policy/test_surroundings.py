"""Facts about directories in decisions, and working directories of commands."""

import os
import subprocess
from pathlib import Path

import pytest

from alhena.policy.engine import decide
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyRule
from alhena.policy.surroundings import Surroundings
from tests.policy.support import ALLOW, ASK, SHELL, rules, run, shell_rule

PREFIXES = rules(
    shell_rule("allow", commandPrefix=["git status", "git diff", "git -C", "npm test", "ls"])
)
READING = rules(shell_rule("allow", commandClass="read-only"))


def git(*arguments: str, cwd: Path) -> None:
    subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True)


def at(cwd: Path, command: str, **args: str) -> Decision:
    return decide_in_directory(PREFIXES, cwd, command, trusted=True, **args)


def decide_in_directory(
    given: tuple[PolicyRule, ...], cwd: Path, command: str, *, trusted: bool = False, **args: str
) -> Decision:
    call = PolicyCall(names=(SHELL,), args={"command": command, **args})
    surroundings = Surroundings(cwd, trusted=trusted)
    return decide(call, given, PolicyContext(surroundings=surroundings))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    git("init", "-q", cwd=top)
    return top


def test_a_change_of_directory_within_the_workspace_needs_no_rule(project: Path) -> None:
    for command in (
        "cd src && npm test",
        "cd src; ls",
        "cd src && git status",
        "cd src && npm test && cd .. && ls",
        "(cd src && ls); git status",
        f"cd {project}/src && ls",
        "true && ls",
        "ls || exit 1",
    ):
        assert at(project, command).outcome is ALLOW, command
    assert at(project, "git status", directory="src").outcome is ALLOW


def test_options_name_no_directory_in_a_workspace_that_is_the_root() -> None:
    for command in ("grep -n x etc/hostname", "wc -l etc/hostname", "head -n 3 etc/hostname"):
        assert decide_in_directory(READING, Path("/"), command).outcome is ALLOW, command
    for command in ("grep -rn x .", "cat /proc/self/environ", "cat dev/zero"):
        assert decide_in_directory(READING, Path("/"), command).outcome is ASK, command


def test_a_change_of_directory_out_of_the_workspace_is_asked_about(project: Path) -> None:
    (project / "out").symlink_to("/")
    for command in (
        "cd .. && ls",
        "cd / && ls",
        "cd src/../.. && ls",
        "cd out && ls",
        "cd && ls",
        "cd - && ls",
        "cd ~ && ls",
        "cd $X && ls",
        "cd s* && ls",
        "cd -P src && ls",
        "cd nowhere; cd ..; ls",
    ):
        assert at(project, command).outcome is ASK, command


def test_a_line_of_nothing_but_changes_of_directory_is_decided_by_the_rules(project: Path) -> None:
    assert at(project, "cd src").outcome is ASK
    assert (
        decide_in_directory(
            rules(shell_rule("allow", commandPrefix="cd")), project, "cd src"
        ).outcome
        is ALLOW
    )
    deny = rules(shell_rule("deny", 900, commandPrefix="cd"))
    assert decide_in_directory((*deny, *PREFIXES), project, "cd src && ls").outcome.value == "deny"


def test_git_in_another_repository_that_names_programs_is_asked_about(project: Path) -> None:
    other = project / "vendor"
    other.mkdir()
    git("init", "-q", cwd=other)
    bare = project / "bare"
    git("init", "-q", "--bare", str(bare), cwd=project)
    for directory in (other, bare):
        ways = (
            lambda name=directory.name: at(project, f"cd {name} && git status"),
            lambda name=directory.name: at(project, "git status", directory=name),
            lambda name=directory.name: at(project, f"git -C {name} status"),
        )
        assert {way().outcome for way in ways} == {ALLOW}, "it names nothing"
        git("config", "core.fsmonitor", "./evil", cwd=directory)
        for way in ways:
            assert way().outcome is ASK
            assert "another repository" in way().reason
    assert at(project, "git -C src status").outcome is ALLOW
    assert at(project, "git -C .. status").outcome is ASK
    assert at(project, "git -C $X status").outcome is ASK


def plant_trick(project: Path, trick: str) -> str:
    """Plants a trick that makes git run `./evil`; returns the command that triggers it."""
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    evil = project / "evil"
    evil.write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    evil.chmod(0o755)
    (project / "a.txt").write_text("x\n", encoding="utf-8")
    git("add", "a.txt", cwd=project)
    git(*identity, "commit", "-q", "-m", "x", cwd=project)
    match trick:
        case "a setting":
            git("config", "core.fsmonitor", str(evil), cwd=project)
        case "a directory that settings are shared with":
            (project / "shared").mkdir()
            for name in ("config", "objects", "refs"):
                (project / ".git" / name).rename(project / "shared" / name)
            (project / ".git/commondir").write_text("../shared\n", encoding="utf-8")
            git("config", "core.fsmonitor", str(evil), cwd=project)
        case "a repository within":
            inner = project / "vendor"
            inner.mkdir()
            git("init", "-q", cwd=inner)
            git(*identity, "commit", "-q", "--allow-empty", "-m", "x", cwd=inner)
            git("add", "vendor", cwd=project)
            git("config", "core.fsmonitor", str(evil), cwd=inner)
        case "a hook":
            hooks = project / ".git/hooks"
            hooks.mkdir(exist_ok=True)
            evil.rename(hooks / "post-index-change")
            os.utime(project / "a.txt", (1, 1))
            return "git diff"
        case _:
            raise ValueError(trick)
    return "git status"


@pytest.mark.parametrize(
    "trick",
    [
        "a setting",
        "a directory that settings are shared with",
        "a repository within",
        "a hook",
    ],
)
def test_git_in_a_repository_that_nobody_vouched_for_is_asked_about(
    project: Path, trick: str
) -> None:
    command = plant_trick(project, trick)
    assert not list(project.rglob("ran"))
    git(*command.split()[1:], cwd=project)
    assert list(project.rglob("ran")), "git does run it"
    for given in (PREFIXES, READING):
        decision = decide_in_directory(given, project, command)
        assert decision.outcome is ASK
        assert "the folder is not trusted" in decision.reason
        assert decision.reason.endswith("alhena trust")
        assert decide_in_directory(given, project, command, trusted=True).outcome is ALLOW
        assert decide_in_directory(given, project, "ls").outcome is ALLOW


def test_every_way_to_git_is_asked_about_in_a_repository_that_nobody_vouched_for(
    project: Path,
) -> None:
    git("config", "core.fsmonitor", "./evil", cwd=project)
    given = rules(
        shell_rule(
            "allow",
            commandPrefix=["git", "timeout 60 git", "env A=1 git", "/usr/bin/git", "git-status"],
        ),
        shell_rule("allow", 50, commandClass="read-only"),
    )
    for command in (
        "git log -3",
        "git -C src status",
        "cd src && git diff",
        "/usr/bin/git status",
        "timeout 60 git status",
        "env A=1 git status",
        "git-status",
        "git rev-parse HEAD",
        "ls && git branch | head",
    ):
        decision = decide_in_directory(given, project, command)
        assert decision.outcome is ASK, command
        assert "the folder is not trusted" in decision.reason, command
        assert decide_in_directory(given, project, command, trusted=True).outcome is ALLOW, command
    for command in ("git --version", "git version", "git -v"):
        assert decide_in_directory(given, project, command).outcome is ALLOW, command


def test_where_there_is_no_repository_git_has_nothing_to_run(tmp_path: Path) -> None:
    for command in ("git status", "ls && git status 2>/dev/null | head -3", "cd . && git log"):
        assert decide_in_directory(READING, tmp_path, command).outcome is ALLOW, command
    given = (*READING, *rules(shell_rule("allow", commandPrefix=["tar", "echo", "git init"],
                                         allowRedirection=True)))  # fmt: skip
    for command in (
        "tar -xf a.tar && git status",
        "git init && git status",
        "echo 'gitdir: x' > .git; git status",
    ):
        decision = decide_in_directory(given, tmp_path, command)
        assert decision.outcome is ASK, command
        assert "may make or change one" in decision.reason, command
        assert decision.reason.endswith("alhena trust"), command
        assert decide_in_directory(given, tmp_path, command, trusted=True).outcome is ALLOW, command


def test_a_directory_that_git_takes_for_a_repository_itself_is_one(tmp_path: Path) -> None:
    """Its parts may stand where its `commondir` says, and HEAD be a link that leads nowhere."""
    store = tmp_path / "store"
    git("init", "-q", "--bare", str(store), cwd=tmp_path)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "HEAD").symlink_to("refs/heads/main")
    (bare / "commondir").write_text("../store\n", encoding="utf-8")
    git("rev-parse", "--git-dir", cwd=bare)
    git("config", "core.fsmonitor", "./evil", cwd=store)
    assert Surroundings(bare).repository(str(bare)) == str(bare)
    assert decide_in_directory(READING, bare, "git status").outcome is ASK
    assert decide_in_directory(READING, tmp_path, "git -C bare status", trusted=True).outcome is ASK


def test_without_surroundings_only_what_stays_below_is_allowed() -> None:
    assert run(PREFIXES, "cd src && ls").outcome is ALLOW
    assert run(PREFIXES, "git status").outcome is ALLOW
    for command in ("cd .. && ls", "cd /x && ls", "cd src && git status", "git -C src status"):
        assert run(PREFIXES, command).outcome is ASK, command
