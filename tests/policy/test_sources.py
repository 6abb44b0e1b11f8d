"""The places policies come from."""

import os
from pathlib import Path

import pytest

from alhena.policy.engine import PolicyEngine
from alhena.policy.gather import load_policies
from alhena.policy.load import LoadedPolicies
from alhena.policy.model import PolicyCall, PolicyContext, PolicyOutcome, Tier


def write(path: Path, decision: str, tool: str = "read_file", priority: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'[[rule]]\ntoolName = "{tool}"\ndecision = "{decision}"\npriority = {priority}\n',
        encoding="utf-8",
    )
    path.parent.chmod(0o755)
    path.chmod(0o644)
    return path


def outcome(loaded: LoadedPolicies) -> PolicyOutcome:
    call = PolicyCall(names=("read_file",), args={})
    return PolicyEngine(loaded.rules).decide(call, PolicyContext()).outcome


@pytest.mark.requirement("POL-03")
def test_administrators_override_users_and_users_override_defaults(project: Path) -> None:
    user, admin = project / "user", project / "admin"
    me = os.getuid()
    assert outcome(load_policies(user, (), admin, me)) is PolicyOutcome.ALLOW
    write(user / "a.toml", "deny", priority=999)
    assert outcome(load_policies(user, (), admin, me)) is PolicyOutcome.DENY
    write(admin / "a.toml", "ask_user", priority=0)
    loaded = load_policies(user, (), admin, me)
    assert outcome(loaded) is PolicyOutcome.ASK_USER
    assert loaded.problems == ()


@pytest.mark.requirement("POL-03")
def test_named_files_and_directories_add_to_the_users_own(project: Path) -> None:
    write(project / "user" / "a.toml", "allow", "a")
    write(project / "more" / "b.toml", "allow", "b")
    file = write(project / "c.policy", "allow", "c")
    loaded = load_policies(project / "user", (project / "more", file), project / "none")
    own = [r for r in loaded.rules if r.tier >= Tier.USER]
    assert [r.tool_names for r in own] == [("a",), ("b",), ("c",)]
    missing = load_policies(None, (project / "nothing",), project / "none")
    assert str(project / "nothing") in str(missing.problems[0])


def test_a_place_others_can_write_to_does_not_speak_for_the_administrator(project: Path) -> None:
    admin = project / "admin"
    me = os.getuid()
    good = write(admin / "good.toml", "deny")
    loose = write(admin / "loose.toml", "allow", priority=900)
    loose.chmod(0o666)
    loaded = load_policies(None, (), admin, me)
    assert outcome(loaded) is PolicyOutcome.DENY
    (problem,) = loaded.problems
    assert problem.file == str(loose)
    admin.chmod(0o775)
    skipped = load_policies(None, (), admin, me)
    assert outcome(skipped) is PolicyOutcome.ALLOW
    assert [p.file for p in skipped.problems] == [str(admin)]
    admin.chmod(0o755)
    foreign = load_policies(None, (), admin, me + 1)
    assert [p.file for p in foreign.problems] == [str(admin)]
    assert f"owned by user {me}" in foreign.problems[0].message
    good.unlink()
    good.symlink_to(project / "gone")
    assert "cannot be read" in load_policies(None, (), admin, me).problems[0].message


def test_an_administrators_place_that_is_no_directory_is_a_problem(project: Path) -> None:
    file = write(project / "policies", "deny")
    assert "Not a directory" in load_policies(None, (), file).problems[0].message
