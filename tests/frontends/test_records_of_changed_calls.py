"""Stream-json, telemetry and the journal of a call that hooks changed or put another in place of."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import alhena
from tests.support.server import ScriptedServer, call
from tests.telemetry.running import answer, calls, observed, watched

CHANGES = {"hookSpecificOutput": {"tool_input": {"content": "hooked"}}}
READS = {
    "hookSpecificOutput": {
        "tailToolCallRequest": {"name": "read_file", "args": {"absolute_path": "note.txt"}}
    }
}
PROPOSED = {"file_path": "x", "content": "model"}
RAN = {"file_path": "x", "content": "hooked"}


def hook(home: Path, **said: Any) -> None:
    """Hooks of the user for write_file: each says this at its event."""
    hooks = {
        event: [
            {
                "matcher": "write_file",
                "hooks": [{"type": "command", "command": f"echo {shlex.quote(json.dumps(value))}"}],
            }
        ]
        for event, value in said.items()
    }
    (home / ".gemini").mkdir(exist_ok=True)
    settings = {"hooks": hooks}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def journalled(home: Path) -> list[dict[str, Any]]:
    """The records of the only session."""
    (path,) = (home / ".gemini").rglob("*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.requirement("HOOK-01", "TEL-01", "CLI-01")
def test_arguments_that_a_hook_changed_are_recorded_with_the_proposed_ones_beside_them(
    server: ScriptedServer, project: Path, home: Path
):
    hook(home, BeforeTool=CHANGES)
    server.reply(calls(call("write_file", PROPOSED, id="w")), answer())
    ran = alhena("-y", "--skip-trust", "-p", "go", "-o", "stream-json", **watched(server))
    assert ran.code == 0, ran.err
    assert (project / "x").read_text(encoding="utf-8") == "hooked"
    (use,), (result,) = ran.of_type("tool_use"), ran.of_type("tool_result")
    assert use["parameters"] == PROPOSED
    assert (result["parameters"], result["proposed_parameters"]) == (RAN, PROPOSED)
    log = observed(project).one("tool_call")
    assert json.loads(log["function_args"]) == RAN
    assert json.loads(log["proposed_function_args"]) == PROPOSED
    (event,) = (
        each["event"]
        for each in journalled(home)
        if each["type"] == "event" and each["event"]["type"] == "tool_call_response"
    )
    assert (event["args"], event["proposed_args"]) == (RAN, PROPOSED)


@pytest.mark.requirement("HOOK-02", "TEL-01", "CLI-01")
def test_a_call_in_the_place_of_another_has_records_of_its_own_and_answers_the_first(
    server: ScriptedServer, project: Path, home: Path
):
    (project / "note.txt").write_text("the note", encoding="utf-8")
    hook(home, AfterTool=READS)
    server.reply(calls(call("write_file", PROPOSED, id="w")), answer(), answer())
    ran = alhena("-y", "--skip-trust", "-p", "go", "-o", "stream-json", **watched(server))
    assert ran.code == 0, ran.err
    first, second = ran.of_type("tool_use")
    assert (first["tool_name"], first["tool_id"]) == ("write_file", "w")
    assert (second["tool_name"], second["replaces"]) == ("read_file", "w")
    assert second["parameters"] == {"absolute_path": "note.txt"}
    results = {line["tool_id"]: line for line in ran.of_type("tool_result")}
    assert set(results) == {"w", second["tool_id"]}
    assert "+model" in results["w"]["output"]
    assert ran.lines[-1]["stats"]["tool_calls"] == 2
    found = observed(project)
    logs = {log["function_name"]: log for log in found.of("tool_call")}
    assert json.loads(logs["write_file"]["function_args"]) == PROPOSED
    assert json.loads(logs["write_file"]["metadata"])["model_added_lines"] == 1
    assert json.loads(logs["read_file"]["function_args"]) == {"absolute_path": "note.txt"}
    assert [log["operation"] for log in found.of("file_operation")] == ["create", "read"]
    answered = [each for each in journalled(home) if each["type"] == "answered"]
    assert [each["callId"] for each in answered] == ["w"]
    again = alhena("-y", "--skip-trust", "-r", "latest", "-p", "more", **watched(server))
    assert again.code == 0, again.err
    (response,) = (
        part["functionResponse"]
        for content in server.requests[-1].json["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    )
    assert response == {"id": "w", "name": "write_file", "response": {"output": "the note"}}


@pytest.mark.requirement("HOOK-01", "CLI-01")
def test_a_call_that_is_denied_as_a_hook_changed_it_is_listed_with_what_was_denied(
    server: ScriptedServer, project: Path, home: Path
):
    (project / "rules.toml").write_text(
        '[[rule]]\ntoolName = "write_file"\nargsPattern = "hooked"\ndecision = "deny"\n'
        "priority = 500\n",
        encoding="utf-8",
    )
    hook(home, BeforeTool=CHANGES)
    server.reply(calls(call("write_file", PROPOSED, id="w")), answer())
    ran = alhena(
        "-y", "--skip-trust", "--policy", "rules.toml", "-p", "go", "-o", "json", **watched(server)
    )
    assert ran.code == 0, ran.err
    assert not (project / "x").exists()
    (denied,) = ran.json["denied"]
    assert denied["parameters"] == RAN
