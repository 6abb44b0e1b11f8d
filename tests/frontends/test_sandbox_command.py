"""The sandbox from the command line: which one is taken, what it keeps, how it is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Ran, alhena, message_lines
from tests.system.sandboxing import needs_bwrap

COMMAND = "echo in=$SANDBOX; echo x > ~/outside; mkdir -p .gemini; echo x > .gemini/settings.json"


def called(*flags: str, command: str = COMMAND, **environ: str) -> Ran:
    arguments = json.dumps({"command": command})
    line = (
        "tools",
        "call",
        "run_shell_command",
        arguments,
        "--json",
        "--approval-mode",
        "yolo",
        "--skip-trust",
    )
    return alhena(*line, *flags, **environ)


def settings(home: Path, **tools: Any) -> None:
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text(json.dumps({"tools": tools}), encoding="utf-8")


def kept_in(ran: Ran, project: Path, home: Path) -> bool:
    """True if the call ran in a sandbox, by its output and by the files."""
    assert ran.code == 0, ran.err
    kept = "in=alhena-bwrap\n" in ran.json["llmContent"]
    assert (home / "outside").exists() is not kept
    assert (project / ".gemini").exists() is not kept
    return kept


@needs_bwrap
@pytest.mark.requirement("CLI-04")
@pytest.mark.parametrize("flag", ["-s", "--sandbox"])
def test_the_flag_sandboxes_a_call(project: Path, home: Path, flag: str):
    ran = called(flag)
    assert kept_in(ran, project, home)
    assert "probably refused this" in ran.json["llmContent"]
    assert list(project.iterdir()) == []


@needs_bwrap
@pytest.mark.requirement("CLI-04")
def test_the_setting_sandboxes_a_call(project: Path, home: Path):
    settings(home, sandbox={"command": "bwrap", "profile": "read-only"})
    assert kept_in(called(), project, home)


@needs_bwrap
def test_the_environment_wins_over_the_flag(project: Path, home: Path):
    assert kept_in(called("--no-sandbox", GEMINI_SANDBOX="bwrap"), project, home)


@pytest.mark.parametrize(
    ("flags", "environ"),
    [((), {}), (("--no-sandbox",), {}), (("-s",), {"GEMINI_SANDBOX": "false"})],
)
def test_without_a_wish_there_is_none(
    project: Path, home: Path, flags: tuple[str, ...], environ: dict[str, str]
):
    if flags:
        settings(home, sandbox=True)
    assert not kept_in(called(*flags, **environ), project, home)


def test_inside_a_sandbox_no_other_is_opened_and_that_is_said(project: Path, home: Path):
    ran = called("-s", SANDBOX="a-container")
    assert not kept_in(ran, project, home)
    assert "in=a-container" in ran.json["llmContent"]
    assert "sandbox: SANDBOX is set" in ran.err


@pytest.mark.requirement("CLI-04")
@pytest.mark.parametrize("value", ["docker", "podman", "bubblewarp"])
def test_a_sandbox_that_cannot_be_had_ends_with_44_and_nothing_runs(
    project: Path, home: Path, value: str
):
    ran = called(GEMINI_SANDBOX=value)
    assert (ran.code, ran.out) == (44, "")
    assert ran.err.startswith("alhena: GEMINI_SANDBOX: ")
    assert len(message_lines(ran.err)) == 1
    assert list(project.iterdir()) == []
    assert list(home.iterdir()) == []


@pytest.mark.requirement("CLI-04")
def test_a_run_ends_with_44_before_the_model_is_asked():
    ran = alhena("-p", "hi", "-m", "demo", "-o", "json", "-s", GEMINI_SANDBOX="lxc")
    assert ran.code == 44
    assert ran.json["error"]["type"] == "sandbox"
    assert ran.json["error"]["code"] == 44
    assert ran.json["stats"]["tools"]["totalCalls"] == 0


@needs_bwrap
@pytest.mark.requirement("CLI-04")
def test_a_run_obeys_the_flag(project: Path, home: Path):
    prompt = "Run `echo in=$SANDBOX; echo x > ~/outside; echo x > inside`"
    ran = alhena("-p", prompt, "-m", "demo", "-y", "--skip-trust", "-s")
    assert ran.code == 0
    assert "in=alhena-bwrap" in ran.out
    assert not (home / "outside").exists()
    assert [path.name for path in project.iterdir()] == ["inside"]


def test_listing_tools_tries_no_sandbox_out():
    assert alhena("tools", "list", "--json", "-s", GEMINI_SANDBOX="docker").code == 0
