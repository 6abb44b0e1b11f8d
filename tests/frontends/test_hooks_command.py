import json
import os
import pty
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import ALHENA, alhena
from tests.support.patience import PATIENCE_S


def configure(
    place: Path, *entries: dict[str, Any], event: str = "BeforeTool", **more: Any
) -> Path:
    path = place / ".gemini" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    groups = [{"matcher": "write_file", "hooks": list(entries)}]
    path.write_text(json.dumps({"hooks": {event: groups}, **more}), encoding="utf-8")
    return path


@pytest.mark.requirement("HOOK-04")
def test_hooks_are_listed_with_their_place_and_state(home: Path, project: Path):
    users = configure(home, {"command": "a", "name": "one"}, {"command": "b"},
                      hooksConfig={"disabled": ["one"]})  # fmt: skip
    projects = configure(project, {"command": "c"})
    ran = alhena("hooks", "list", "--json", "--skip-trust")
    assert [(each["name"], each["source"], each["state"], each["place"]) for each in ran.json] == [
        ("c", "project", "untrusted", f"{projects}: hooks.BeforeTool[0].hooks[0]"),
        ("one", "user", "disabled", f"{users}: hooks.BeforeTool[0].hooks[0]"),
        ("b", "user", "enabled", f"{users}: hooks.BeforeTool[0].hooks[1]"),
    ]
    shown = alhena("hooks", "list", "--skip-trust").out
    assert "BeforeTool[write_file] one: disabled (hooksConfig.disabled names it)" in shown
    apart = alhena("hooks", "list")
    assert "c:" not in apart.out
    assert "is not read: the folder is not trusted" in apart.err


def test_without_hooks_the_list_says_so():
    ran = alhena("hooks", "list")
    assert (ran.code, ran.out) == (0, "No hooks. Add one with the setting hooks.\n")


def test_what_is_wrong_is_told_and_acts_on_no_terminal(home: Path):
    configure(home, {"command": "x", "name": "\x1b[2J", "timeout": -1}, {"command": "\x1b]0;t\x07"})
    ran = alhena("hooks", "list")
    assert "timeout is wrong: it has to be a number of at least 1" in ran.err
    assert "\x1b" not in ran.out + ran.err


def test_an_event_can_be_tried(home: Path, project: Path):
    answer = json.dumps({"decision": "deny", "reason": "read only"})
    configure(home, {"command": f"cat >seen; echo {shlex.quote(answer)}", "name": "guard"})
    ran = alhena("hooks", "test", "BeforeTool", "--json", "--input", '{"tool_input": {"x": 1}}')
    assert ran.code == 0
    (hook,) = ran.json["hooks"]
    assert (hook["name"], hook["exitCode"], hook["outcome"]) == ("guard", 0, "block")
    assert hook["input"]["tool_input"] == {"x": 1}
    assert json.loads((project / "seen").read_text(encoding="utf-8")) == hook["input"]
    assert ran.json["verdict"] == {"block": "read only"}
    shown = alhena("hooks", "test", "BeforeTool").out
    assert "guard (user): block" in shown
    assert "exit code 0" in shown
    assert '"block":"read only"' in shown


def test_an_event_is_tried_for_the_tool_that_is_named(home: Path):
    configure(home, {"command": "echo heard"})
    other = alhena("hooks", "test", "BeforeTool", "--tool", "read_file")
    assert other.out == "No hook runs for this BeforeTool.\n"
    assert "heard" in alhena("hooks", "test", "BeforeTool", "--tool", "WriteFileTool").out


def test_a_hook_that_fails_when_it_is_tried_is_an_exit_code(home: Path):
    configure(home, {"command": "echo bad >&2; exit 1"})
    ran = alhena("hooks", "test", "BeforeTool")
    assert ran.code == 1
    assert "failed: it exited with code 1: bad" in ran.out


@pytest.mark.parametrize(
    "event",
    [
        *("BeforeTool", "AfterTool", "BeforeAgent", "AfterAgent", "Notification", "SessionStart"),
        *("SessionEnd", "PreCompress", "BeforeModel", "AfterModel", "BeforeToolSelection"),
    ],
)
def test_every_event_has_a_sample(home: Path, project: Path, event: str):
    path = configure(home, {"command": "cat >seen"}, event=event)
    path.write_text(path.read_text("utf-8").replace("write_file", ""), encoding="utf-8")
    ran = alhena("hooks", "test", event, "--json")
    assert ran.code == 0, ran.err
    seen = json.loads((project / "seen").read_text(encoding="utf-8"))
    assert seen["hook_event_name"] == event
    assert len(seen) > 5


def test_a_hook_is_turned_off_and_on_and_the_file_keeps_its_comments(home: Path):
    path = configure(home, {"command": "a", "name": "one"})
    text = path.read_text(encoding="utf-8").replace("{", "{ // mine\n", 1)
    path.write_text(text, encoding="utf-8")
    assert alhena("hooks", "disable", "one").code == 0
    assert "// mine" in path.read_text(encoding="utf-8")
    (entry,) = alhena("hooks", "list", "--json").json
    assert entry["state"] == "disabled"
    assert alhena("hooks", "disable", "one").code == 0  # a second time changes nothing
    assert alhena("hooks", "enable", "a").code == 0  # by its command, too
    (entry,) = alhena("hooks", "list", "--json").json
    assert entry["state"] == "enabled"
    ran = alhena("hooks", "enable", "one")
    assert (ran.code, "no hook 'one' is disabled" in ran.err) == (2, True)
    ran = alhena("hooks", "disable", "none")
    assert (ran.code, "There are: one." in ran.err) == (2, True)


def test_a_comment_that_would_be_lost_keeps_the_file_as_it_is(home: Path):
    path = configure(
        home, {"command": "a", "name": "one"}, {"command": "b"}, hooksConfig={"disabled": ["b"]}
    )
    text = path.read_text(encoding="utf-8").replace('["b"]', '["b" /* slow */]')
    path.write_text(text, encoding="utf-8")
    ran = alhena("hooks", "disable", "one")
    assert ran.code == 52, ran.err
    assert "a comment" in ran.err
    assert path.read_text(encoding="utf-8") == text


def test_hooks_of_a_project_are_trusted_as_they_are(project: Path):
    configure(project, {"command": "bash go.sh", "env": {"A": "1"}})
    (project / "go.sh").write_text("echo gone", encoding="utf-8")
    refused = alhena("hooks", "trust", "--skip-trust")
    assert refused.code == 2
    assert "BeforeTool of write_file\n    bash go.sh\n    with A=1\n" in refused.out
    assert "need your approval" in refused.err
    assert alhena("hooks", "test", "BeforeTool", "--skip-trust").out.startswith("No hook runs")
    assert "1 of 1 may run." in alhena("hooks", "trust", "--yes", "--skip-trust").out
    assert "gone" in alhena("hooks", "test", "BeforeTool", "--skip-trust").out
    assert "No hook of this project needs" in alhena("hooks", "trust", "--skip-trust").out
    (project / "go.sh").write_text("echo else", encoding="utf-8")
    ran = alhena("hooks", "test", "BeforeTool", "--skip-trust")
    assert ran.out.startswith("No hook runs")
    assert "untrusted hooks of this project: 1" in ran.err


def test_a_person_is_asked_about_each_hook(project: Path):
    configure(project, {"command": "first"}, {"command": "second"})
    controller, terminal = pty.openpty()
    asked = subprocess.Popen(
        [ALHENA, "hooks", "trust", "--skip-trust"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    os.write(controller, b"n\ny\n")
    shown = b""
    try:
        while piece := os.read(controller, 4096):
            shown += piece
    except OSError:  # the terminal is closed with its last holder
        pass
    os.close(controller)
    assert asked.wait(timeout=PATIENCE_S) == 0, shown
    assert b"1 of 2 may run." in shown
    states = {each["name"]: each["state"] for each in
              alhena("hooks", "list", "--json", "--skip-trust").json}  # fmt: skip
    assert states == {"first": "untrusted", "second": "enabled"}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("test", "Nothing"), "there is no event 'Nothing'"),
        (("test", "BeforeTool", "--input", "[]"), "--input is not a JSON object"),
        (("test", "BeforeTool", "--input", "{"), "--input is not a JSON object"),
        (("list", "more"), "unrecognized arguments"),
        (("disable",), "required: NAME"),
    ],
)
def test_wrong_arguments_are_said(arguments: tuple[str, ...], what: str):
    ran = alhena("hooks", *arguments)
    assert ran.code == 2
    assert what in ran.err
    assert alhena("hooks", "--help").code == 0


def test_a_run_with_hooks_tells_what_they_say_in_its_warnings(home: Path):
    configure(home, {"command": "echo good morning", "name": "greeter"}, event="SessionStart")
    path = home / ".gemini" / "settings.json"
    path.write_text(path.read_text("utf-8").replace("write_file", "startup"), encoding="utf-8")
    ran = alhena("-m", "demo", "-o", "json", "-p", "What is in this folder?")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    assert "the SessionStart hook greeter says: good morning" in ran.json["warnings"]


@pytest.mark.parametrize(
    ("event", "command", "status", "told"),
    [
        ("BeforeAgent", "echo no >&2; exit 2", "blocked", "Agent execution blocked: no"),
        ("BeforeModel", "echo no >&2; exit 2", "blocked", "Agent execution blocked: no"),
        (
            "BeforeAgent",
            'echo \'{"continue": false, "stopReason": "enough"}\'',
            "success",
            "stopped by hook: enough",
        ),
    ],
)
def test_a_run_that_a_hook_blocks_or_stops_ends_with_0_and_says_so(
    home: Path, event: str, command: str, status: str, told: str
):
    configure(home, {"command": command}, event=event)
    ran = alhena("-m", "demo", "-o", "json", "-p", "hello")
    assert (ran.code, ran.err) == (0, "")
    assert (ran.json["status"], ran.json["response"]) == (status, "")
    assert any(told in warning for warning in ran.json["warnings"])
    assert "error" not in ran.json
    ran = alhena("-m", "demo", "-o", "stream-json", "-p", "hello")
    assert ran.code == 0
    *_, last = map(json.loads, ran.out.splitlines())
    assert (last["type"], last["status"]) == ("result", status)


def test_a_blocking_after_agent_hook_says_on_stderr_why_the_run_goes_on(home: Path):
    again = "if grep -q '\"stop_hook_active\":false'; then echo say more >&2; exit 2; fi"
    configure(home, {"command": again}, event="AfterAgent")
    ran = alhena("-m", "demo", "-p", "hello")
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if "AfterAgent" in line]
    assert line.endswith(": say more")
