"""allowed-path: which paths a call may name."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.policy.checker import (
    CheckContext,
    CheckerError,
    CheckerVerdict,
    CheckInput,
    Environment,
    PolicyState,
    ToolCall,
    check_paths,
)
from alhena.policy.model import ApprovalMode, PolicyOutcome
from tests.policy.safety.kit import ALLOW, ASK, DENY

STATE = PolicyState(mode=ApprovalMode.AUTO_EDIT, decision=PolicyOutcome.ALLOW)


def verdict(
    cwd: Path, args: dict[str, Any], roots: tuple[Path, ...] = (), **config: Any
) -> CheckerVerdict:
    environment = Environment(cwd=str(cwd), workspaces=tuple(map(str, (cwd, *roots))))
    asked = CheckInput(
        tool_call=ToolCall(name="any", args=args),
        context=CheckContext(policy=STATE, environment=environment),
        config=config,
    )
    return check_paths(asked)


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "a/../../x", "~/x", "@/etc/passwd", "@../x", "~root/x", " /etc/passwd",
     "file:///etc/passwd", "FILE:/etc/passwd", "file://host/etc/passwd", "file:%2Fetc/passwd", "/",
     "@~/x", "..", os.path.join("/proc/self", "root", "etc"), "new/../../new"],
)  # fmt: skip
def test_a_path_outside_of_the_workspace_is_denied_in_the_documented_words(
    project: Path, path: str
) -> None:
    found = verdict(project, {"file_path": path})
    assert found.decision is DENY
    assert found.reason == (
        f'Path "{path}" in argument "file_path" is outside of the allowed workspace directories.'
    )


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize("path", ["a", "", ".", "a/../b", "./new/deep/file", "src/**/*.py", "ä b"])
def test_a_path_inside_is_allowed_whether_it_exists_or_not(project: Path, path: str) -> None:
    assert verdict(project, {"file_path": path}).decision is ALLOW
    assert verdict(project, {"file_path": str(project / path)}).decision is ALLOW


def test_a_directory_that_only_begins_like_the_workspace_is_outside(project: Path) -> None:
    assert verdict(project, {"path": f"{project}-other/x"}).decision is DENY


def test_every_directory_of_the_workspace_counts(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert verdict(project, {"path": str(other / "x")}).decision is DENY
    assert verdict(project, {"path": str(other / "x")}, (other,)).decision is ALLOW
    assert verdict(project, {"path": str(other / ".git" / "x")}, (other,)).decision is DENY


@pytest.mark.requirement("POL-10")
def test_links_count_where_they_lead(project: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (project / "near").mkdir()
    (project / "out").symlink_to(tmp_path / "far")
    (project / "in").symlink_to(project / "near")
    (project / "hole").symlink_to(tmp_path / "far" / "not" / "there")
    (project / "loop").symlink_to("loop")
    (project / "repo").mkdir()
    (project / "repo" / "hooks").symlink_to(project / ".git")
    for path, decision in {
        "out": DENY,
        "out/new/deep": DENY,
        "hole": DENY,
        "hole/x": DENY,
        "in/new/deep": ALLOW,
        "loop": ALLOW,  # leads nowhere
        "repo/hooks/config": DENY,
    }.items():
        assert verdict(project, {"path": path}).decision is decision, path


def test_both_readings_of_dots_behind_a_link_have_to_be_inside(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "far").mkdir()
    (project / "a" / "b").mkdir(parents=True)
    (project / "down").symlink_to(project / "a" / "b")
    (project / "secret").symlink_to(tmp_path / "far")
    # The system takes this for a/secret; a tool that normalises first, for the link beside `down`.
    assert verdict(project, {"path": "down/../secret"}).decision is DENY
    (project / "out").symlink_to(tmp_path / "far")
    assert verdict(project, {"path": "out/../x"}).decision is DENY


def test_a_workspace_that_is_reached_through_a_link_is_the_workspace(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(project)
    assert verdict(project, {"path": str(tmp_path / "link" / "x")}).decision is ALLOW


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize(
    ("path", "decision"),
    [
        (".git/config", DENY),
        (".git", DENY),
        ("sub/.GIT/hooks/pre-commit", DENY),
        (".g\u200cit/config", DENY),
        (".git./config", DENY),
        (".gemini/settings.json", DENY),
        ("a/.Gemini/x", DENY),
        (".vscode/tasks.json", ASK),
        (".VSCode", ASK),
        (".env", DENY),
        ("deep/er/.env", DENY),
        ("node_modules/a/index.js", DENY),
        ("deep/er/node_modules", DENY),
        (".env.local", DENY),
        ("deep/.env.production", DENY),
        (".env.example", ALLOW),
        (".gitignore", ALLOW),
        (".github/x", ALLOW),
        ("git/.gitx", ALLOW),
        ("a/.git/../b", ALLOW),
    ],
)
def test_what_programs_are_configured_by_is_protected(
    project: Path, path: str, decision: Any
) -> None:
    assert verdict(project, {"file_path": path}).decision is decision


def test_a_denial_is_found_behind_a_question_and_behind_what_is_allowed(project: Path) -> None:
    found = verdict(project, {"paths": ["a", ".vscode/x", "b"]})
    assert (found.decision, found.reason) == (
        ASK,
        'Path ".vscode/x" in argument "paths" lies in .vscode, which needs approval.',
    )
    assert verdict(project, {"paths": ["a", ".vscode/x", ".git/x"]}).decision is DENY
    assert verdict(project, {"path": ".vscode/.git/x"}).decision is DENY


@pytest.mark.requirement("POL-10")
@pytest.mark.parametrize(
    "args",
    [
        {"file_path": "/x"},
        {"dirPath": "/x"},
        {"targetDirectory": "/x"},
        {"FILENAME": "/x"},
        {"source": "/x"},
        {"destination": "/x"},
        {"paths": ["a", "/x"]},
        {"paths": [["a", ["/x"]]]},
        {"options": {"path": "/x"}},
        {"edits": [{"n": 1}, {"file_path": "/x"}]},
        {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": {"j": {"path": "/x"}}}}}}}}}}},
    ],
)
def test_paths_are_known_by_the_names_of_their_arguments_at_any_depth(
    project: Path, args: dict[str, Any]
) -> None:
    assert verdict(project, args).decision is DENY


def test_other_arguments_are_no_paths_unless_they_are_named(project: Path) -> None:
    args = {"content": "/x", "to": {"url": "/y"}, "many": [{"at": "/z"}]}
    assert verdict(project, args).decision is ALLOW
    for name, shown in (("content", "/x"), ("to.url", "/y"), ("many.at", "/z")):
        found = verdict(project, args, included_args=[name])
        assert (found.decision, f'"{shown}" in argument "{name}"' in str(found.reason)) == (
            DENY,
            True,
        )


def test_an_excluded_argument_is_no_path_and_nothing_else_is_excluded_with_it(
    project: Path,
) -> None:
    args = {"profile": "/x", "in": {"profile": "/y"}}
    assert verdict(project, args, excluded_args=["profile"]).decision is DENY
    assert verdict(project, args, excluded_args=["profile", "in.profile"]).decision is ALLOW
    both = {"excluded_args": ["profile"], "included_args": ["profile"]}
    assert verdict(project, {"profile": "/x"}, **both).decision is DENY


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "file:a%00", "~a\0", "~\ud800"])
def test_a_path_that_can_name_no_file_is_denied(project: Path, path: str) -> None:
    found = verdict(project, {"path": path})
    assert (found.decision, "can name no file" in str(found.reason)) == (DENY, True)


def test_without_directories_or_with_a_bad_configuration_it_has_no_answer(project: Path) -> None:
    asked = CheckInput(
        tool_call=ToolCall(name="any", args={}), context=CheckContext(policy=STATE), config={}
    )
    with pytest.raises(CheckerError, match="which directories"):
        check_paths(asked)
    with pytest.raises(CheckerError, match="include_args"):
        verdict(project, {}, include_args=["x"])


def test_deep_arguments_do_not_exhaust_the_stack(project: Path) -> None:
    args: dict[str, Any] = {"path": "/x"}
    for _ in range(20_000):
        args = {"a": [args]}
    assert verdict(project, args).decision is DENY


NAMES = st.sampled_from(
    ["..", ".", "a", "out", "in", "~", "@", ".git", "", "file:", "/", "b c", ".vscode", "\u200d"]
)


@given(st.lists(NAMES, max_size=6).map("/".join))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_allowed_leads_into_the_workspace_for_the_system(
    project: Path, tmp_path: Path, path: str
) -> None:
    (tmp_path / "far").mkdir(exist_ok=True)
    (project / "a").mkdir(exist_ok=True)
    for name, target in (("out", tmp_path / "far"), ("in", project / "a")):
        if not os.path.lexists(project / name):
            (project / name).symlink_to(target)
    if verdict(project, {"path": path}).decision is DENY:
        return
    for written in (os.path.join(project, path), os.path.normpath(os.path.join(project, path))):
        real = os.path.realpath(written)
        assert os.path.commonpath([real, project]) == str(project)
        assert not {".git", ".gemini"} & set(Path(real).relative_to(project).parts)
