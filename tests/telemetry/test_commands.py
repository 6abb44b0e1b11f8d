"""The real command, with telemetry to a file."""

import json
import re
import stat
from pathlib import Path

import pytest

from alhena.telemetry.records import DETAILS
from tests.support.command import alhena
from tests.support.server import ScriptedServer, call, json_reply
from tests.telemetry.reading import differences
from tests.telemetry.running import KEY, answer, calls, configure, observed, watched


@pytest.mark.requirement("TEL-01", "TEL-02")
def test_a_run_is_told_with_the_attributes_of_the_reference(
    server: ScriptedServer, project: Path, home: Path
):
    (project / "a.py").write_text("print(1)\n", encoding="utf-8")
    server.reply(
        calls(
            call("read_file", {"file_path": "a.py"}, id="c1"),
            call("write_file", {"file_path": "b.py", "content": "x = 1\ny = 2\n"}, id="c2"),
            call(
                "replace",
                {"file_path": "a.py", "old_string": "print(1)", "new_string": "print(2)\nexit()"},
                id="c3",
            ),
        ),
        calls(
            call("run_shell_command", {"command": "seq 1 20000"}, id="c4"),
            call("nope", {}, id="c5"),
            call("read_file", {"absolute_path": "missing.txt"}, id="c6"),
            call("read_file", {"offset": "x"}, id="c7"),
        ),
        answer(),
    )
    ran = alhena("-y", "--skip-trust", "-p", "do it", **watched(server))
    assert ran.code == 0, ran.err
    found = observed(project)
    assert differences(found.logs) == []
    assert found.names[:4] == ["config", "user_prompt", "api_request", "api_response"]
    by_call = {(log["function_name"], log["success"]): log for log in found.of("tool_call")}
    assert len(found.of("tool_call")) == 7
    read = by_call["read_file", True]
    assert json.loads(read["function_args"]) == {"file_path": "a.py"}
    assert read["decision"] == "auto_accept"
    assert read["tool_type"] == "native"
    assert read["prompt_id"] == found.one("user_prompt")["prompt_id"]
    edit = json.loads(by_call["replace", True]["metadata"])
    assert edit == {
        "model_added_lines": 2,
        "model_removed_lines": 1,
        "model_added_chars": 14,
        "model_removed_chars": 8,
        "user_added_lines": 0,
        "user_removed_lines": 0,
        "user_added_chars": 0,
        "user_removed_chars": 0,
    }
    unknown = by_call["nope", False]
    assert unknown["error_type"] == unknown["error.type"] == "tool_not_registered"
    assert unknown["error"] == unknown["error.message"]
    assert "decision" not in unknown
    failed = [log for log in found.of("tool_call") if log["function_name"] == "read_file"][1:]
    assert [log["error_type"] for log in failed] == ["invalid_tool_params", "file_not_found"]
    truncated = found.one("tool_output_truncated")
    assert truncated["original_content_length"] > truncated["threshold"] == 40_000
    files = [(log["tool_name"], log["operation"]) for log in found.of("file_operation")]
    assert files == [("read_file", "read"), ("write_file", "create"), ("replace", "update")]
    assert found.of("file_operation")[1]["lines"] == 3
    assert {log["programming_language"] for log in found.of("file_operation")} == {"python"}
    kept = (home / ".gemini" / "installation_id").read_text(encoding="utf-8")
    assert {log["installation.id"] for log in found.logs} == {kept}
    assert len({log["session.id"] for log in found.logs}) == 1
    assert {log["auth_type"] for log in found.logs} == {"gemini-api-key"}
    stamps = [log["event.timestamp"] for log in found.logs]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", item) for item in stamps)
    assert stamps == sorted(stamps)


@pytest.mark.requirement("TEL-02")
def test_tokens_requests_and_calls_add_up_to_metrics(server: ScriptedServer, project: Path):
    server.reply(calls(call("glob", {"pattern": "*"}, id="c1")), answer())
    assert alhena("-p", "go", **watched(server)).code == 0
    found = observed(project)
    assert len(found.measured) == 1
    kinds = ("input", "output", "thought", "cache", "tool")
    used = {kind: found.total("gemini_cli.token.usage", type=kind) for kind in kinds}
    assert used == {"input": 22, "output": 10, "thought": 8, "cache": 4, "tool": 6}
    model = found.of("api_response")[0]["model"]
    assert found.total("gemini_cli.api.request.count", model=model, status_code=200) == 2
    assert found.total("gemini_cli.tool.call.count", function_name="glob", success=True) == 1
    assert found.total("gemini_cli.session.count") == 1
    (latency,) = found.points("gemini_cli.tool.call.latency")
    taken = found.one("tool_call")["duration_ms"]
    assert (latency["value"]["count"], latency["value"]["sum"]) == (1, taken)
    (latency,) = found.points("gemini_cli.api.request.latency")
    both = [log["duration_ms"] for log in found.of("api_response")]
    assert latency["value"]["sum"] == sum(both)
    assert (latency["value"]["min"], latency["value"]["max"]) == (min(both), max(both))
    assert sum(latency["value"]["buckets"]["counts"]) == 2


@pytest.mark.requirement("TEL-01")
def test_a_call_that_the_policy_denies_is_told_as_rejected(server: ScriptedServer, project: Path):
    denied = call("run_shell_command", {"command": "touch made"}, id="c1")
    server.reply(calls(denied), answer())
    assert alhena("-p", "go", **watched(server)).code == 0
    log = observed(project).one("tool_call")
    assert (log["success"], log["decision"]) == (False, "reject")
    assert log["error_type"] == "policy_violation"


@pytest.mark.requirement("TEL-02")
def test_nothing_is_written_unless_it_was_asked_for(
    server: ScriptedServer, project: Path, home: Path
):
    server.reply(answer(), answer())
    given = watched(server) | {"GEMINI_TELEMETRY_ENABLED": ""}
    assert alhena("-p", "go", **given).code == 0
    configure(home, enabled=True, outfile="telemetry/out.log")
    off = watched(server) | {"GEMINI_TELEMETRY_ENABLED": "false"}
    assert alhena("-p", "go", **off).code == 0
    assert list(project.iterdir()) == []
    assert not (home / ".gemini" / "installation_id").exists()


def test_the_environment_wins_over_the_settings(server: ScriptedServer, project: Path, home: Path):
    configure(home, enabled=False, outfile="elsewhere.log", logPrompts=False)
    server.reply(answer())
    more = {"GEMINI_TELEMETRY_LOG_PROMPTS": "true"}
    assert alhena("-p", "a prompt of mine", **watched(server, **more)).code == 0
    assert not (project / "elsewhere.log").exists()
    assert observed(project).one("user_prompt")["prompt"] == "a prompt of mine"


def test_a_trusted_workspace_records_into_a_file_of_its_own(server: ScriptedServer, project: Path):
    text = json.dumps({"telemetry": {"enabled": True, "outfile": "telemetry/out.log"}})
    (project / ".gemini").mkdir()
    (project / ".gemini" / "settings.json").write_text(text, encoding="utf-8")
    server.reply(answer(), answer())
    access = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": server.url}
    assert alhena("-p", "hi", **access).code == 0
    assert not (project / "telemetry").exists()
    assert alhena("trust").code == 0
    ran = alhena("-p", "hi", **access)
    assert (ran.code, ran.err) == (0, "")
    assert "gemini_cli.api_response" in (project / "telemetry" / "out.log").read_text()


def test_the_settings_alone_are_enough(server: ScriptedServer, project: Path, home: Path):
    configure(home, enabled=True, target="local", outfile=str(project / "telemetry" / "out.log"))
    server.reply(answer())
    given = {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": server.url}
    assert alhena("-p", "go", **given).code == 0
    last = (DETAILS, "plan.approval_mode_duration")
    told = ["config", "user_prompt", "api_request", "api_response", *last]
    assert observed(project).names == told


PRIVATE = "the-words-of-a-person"


@pytest.mark.parametrize(("told", "prompts"), [(None, True), ("false", False), ("true", True)])
def test_a_file_has_prompts_and_arguments_unless_they_are_not_wanted(
    server: ScriptedServer, project: Path, told: str | None, prompts: bool
):
    server.reply(calls(call("glob", {"pattern": "argued*"}, id="c1")), answer("an-answer-given"))
    more = {} if told is None else {"GEMINI_TELEMETRY_LOG_PROMPTS": told}
    assert alhena("-p", PRIVATE, **watched(server, **more)).code == 0
    found = observed(project)
    assert (PRIVATE in found.text) is prompts
    assert ("an-answer-given" in found.text) is prompts
    assert ("argued*" in found.text) is prompts
    assert found.one("user_prompt")["prompt_length"] == len(PRIVATE)
    assert found.one("config")["log_user_prompts_enabled"] is prompts
    assert differences(found.logs) == []
    if prompts:
        sent = json.loads(found.of("api_request")[0]["request_text"])
        assert sent == server.requests[0].json["contents"]
        got = json.loads(found.of("api_response")[-1]["response_text"])
        assert got[0]["candidates"][0]["content"]["parts"] == [{"text": "an-answer-given"}]


@pytest.mark.requirement("TEL-02")
def test_no_credential_is_written(server: ScriptedServer, project: Path):
    token = "ghp_" + "a1B2" * 9
    (project / "notes.txt").write_text(f"{KEY}\n{token}\n", encoding="utf-8")
    server.reply(
        calls(
            call("read_file", {"file_path": "notes.txt"}, id="c1"),
            call(
                "run_shell_command", {"command": f"echo {KEY} {token}", "password": "pw"}, id="c2"
            ),
        ),
        json_reply({"error": {"message": f"no such key: {KEY}"}}, status=400),
    )
    more = {"GEMINI_TELEMETRY_LOG_PROMPTS": "true"}
    alhena("-y", "--skip-trust", "-p", f"use {KEY} and {token}", **watched(server, **more))
    found = observed(project)
    assert "[redacted]" in found.one("user_prompt")["prompt"]
    assert KEY not in found.text
    assert token not in found.text
    assert "api_error" in found.names


def test_the_file_is_the_users_own_and_grows(server: ScriptedServer, project: Path):
    server.reply(answer(), answer())
    for _ in range(2):
        assert alhena("-p", "go", **watched(server)).code == 0
    path = project / "telemetry" / "out.log"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert observed(project).names.count("config") == 2


def test_runs_of_hooks_are_told(server: ScriptedServer, project: Path, home: Path):
    (home / ".gemini").mkdir()
    command = 'cat >/dev/null; echo \'{"decision": "allow"}\'; echo seen >&2'
    hooks = {"BeforeAgent": [{"hooks": [{"type": "command", "command": command}]}]}
    settings = home / ".gemini" / "settings.json"
    settings.write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    server.reply(answer())
    ran = alhena("-p", "go", **watched(server))
    assert ran.code == 0
    found = observed(project)
    assert differences(found.logs) == []
    log = found.one("hook_call")
    assert (log["hook_event_name"], log["hook_type"]) == ("BeforeAgent", "command")
    assert (log["success"], log["exit_code"]) == (True, 0)
    assert (log["hook_name"], log["stderr"]) == (command, "seen\n")
    assert json.loads(log["hook_output"]) == {"decision": "allow"}
    given = json.loads(log["hook_input"])
    assert (given["prompt"], given["session_id"]) == ("go", log["session.id"])
    named = {"hook_event_name": "BeforeAgent", "hook_name": "cat", "success": True}
    assert found.total("gemini_cli.hook_call.count", **named) == 1
