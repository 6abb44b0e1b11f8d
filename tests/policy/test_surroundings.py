"""What decisions learn of directories, and where commands run."""

import subprocess
from pathlib import Path

import pytest

from alhena.policy.decide import decide
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyRule
from alhena.policy.surroundings import DirectorySurroundings
from tests.policy.support import ALLOW, ASK, SHELL, rules, run, shell_rule

PREFIXES = rules(shell_rule("allow", commandPrefix=["git status", "git -C", "npm test", "ls"]))


def git(*arguments: str, cwd: Path) -> None:
    subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True)


def at(cwd: Path, command: str, *, trusted: bool = False, **args: str) -> Decision:
    return said(PREFIXES, cwd, command, trusted=trusted, **args)


def said(
    given: tuple[PolicyRule, ...], cwd: Path, command: str, *, trusted: bool = False, **args: str
) -> Decision:
    call = PolicyCall(names=(SHELL,), args={"command": command, **args})
    surroundings = DirectorySurroundings(cwd, trusted=trusted)
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
    assert said(rules(shell_rule("allow", commandPrefix="cd")), project, "cd src").outcome is ALLOW
    deny = rules(shell_rule("deny", 900, commandPrefix="cd"))
    assert said((*deny, *PREFIXES), project, "cd src && ls").outcome.value == "deny"


def test_git_in_another_repository_is_asked_about(project: Path) -> None:
    other = project / "vendor"
    other.mkdir()
    git("init", "-q", cwd=other)
    bare = project / "bare"
    git("init", "-q", "--bare", str(bare), cwd=project)
    for directory in ("vendor", "bare"):
        for decision in (
            at(project, f"cd {directory} && git status"),
            at(project, "git status", directory=directory),
            at(project, f"git -C {directory} status"),
        ):
            assert decision.outcome is ASK
            assert "another repository" in decision.reason
    assert at(project, "git -C src status").outcome is ALLOW
    assert at(project, "git -C .. status").outcome is ASK
    assert at(project, "git -C $X status").outcome is ASK


@pytest.mark.parametrize(
    "setting",
    [
        ("core.fsmonitor", "evil"),
        ("core.hooksPath", "x"),
        ("core.pager", "x"),
        ("diff.external", "x"),
        ("diff.any.textconv", "x"),
        ("filter.lfs.clean", "x"),
        ("alias.st", "!x"),
        ("include.path", "x"),
        ("includeIf.gitdir:/.path", "x"),
        ("gpg.ssh.program", "x"),
        ("merge.x.driver", "x"),
        ("credential.https://a.b.helper", "x"),
    ],
)
def test_a_repository_whose_settings_run_programs_is_asked_about_unless_trusted(
    project: Path, setting: tuple[str, str]
) -> None:
    assert at(project, "git status").outcome is ALLOW
    git("config", *setting, cwd=project)
    decision = at(project, "git status")
    assert decision.outcome is ASK
    assert setting[0].partition(".")[0].lower() in decision.reason
    assert at(project, "git status", trusted=True).outcome is ALLOW
    assert at(project, "ls").outcome is ALLOW


def test_a_worktree_that_git_made_counts_and_a_pointer_that_came_along_does_not(
    project: Path, tmp_path: Path
) -> None:
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x",
        cwd=project)  # fmt: skip
    tree = tmp_path / "tree"
    git("worktree", "add", "-q", str(tree), cwd=project)
    assert at(tree, "git status").outcome is ALLOW
    fake = tmp_path / "fake"
    fake.mkdir()
    (fake / ".git").write_text(f"gitdir: {project}/.git\n", encoding="utf-8")
    assert at(fake, "git status").outcome is ASK


def test_without_surroundings_only_what_stays_below_is_allowed() -> None:
    assert run(PREFIXES, "cd src && ls").outcome is ALLOW
    assert run(PREFIXES, "git status").outcome is ALLOW
    for command in ("cd .. && ls", "cd /x && ls", "cd src && git status", "git -C src status"):
        assert run(PREFIXES, command).outcome is ASK, command
