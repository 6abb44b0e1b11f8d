"""A command that failed counts as failed wherever people look, though the model gets its result."""

from pathlib import Path
from typing import Any

import pytest

from alhena.events import ToolCallRequestEvent, ToolCallResponseEvent
from alhena.frontends.acp.updates import CallUpdates
from alhena.telemetry.records import KnownCall, call_record
from alhena.tools.registry import ToolRegistry
from tests.frontends.terminal.kit import played
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

FAILING = {
    "exit 3": "exit code 3",
    "false": "exit code 1",
    "kill -9 $$": "killed by signal 9 (SIGKILL)",
    "kill -TERM $$": "killed by signal 15 (SIGTERM)",
}
SUCCEEDING = "echo 3; true"


def commands(server: ScriptedServer) -> None:
    every = [
        call("run_shell_command", {"command": command}, id=f"c{number}")
        for number, command in enumerate((*FAILING, SUCCEEDING))
    ]
    server.reply(sse(chunk(*every, finish="STOP")), sse(text("Done.")))


def test_documents_count_commands_that_failed(server: ScriptedServer, project: Path):
    commands(server)
    ran = alhena("-y", "--skip-trust", "-p", "x", "-o", "json", **keyed(server))
    assert ran.code == 0
    tools = ran.json["stats"]["tools"]
    assert (tools["totalSuccess"], tools["totalFail"]) == (1, len(FAILING))
    assert tools["byName"]["run_shell_command"]["fail"] == len(FAILING)
    parts = server.requests[1].json["contents"][-1]["parts"]
    assert all("output" in part["functionResponse"]["response"] for part in parts)
    commands(server)
    ran = alhena("-y", "--skip-trust", "-p", "x", "-o", "stream-json", **keyed(server))
    results = {line["tool_id"]: line for line in ran.of_type("tool_result")}
    for number, why in enumerate(FAILING.values()):
        assert results[f"c{number}"]["status"] == "error"
        assert results[f"c{number}"]["error"] == {"type": "command_failed", "message": why}
    assert results[f"c{len(FAILING)}"]["status"] == "success"
    traced = alhena("trace", "latest", "--json").json
    assert traced["totals"]["failedCalls"] == len(FAILING)
    steps = [step for step in traced["steps"] if step.get("callId")]
    assert [step["status"] for step in steps] == ["error"] * len(FAILING) + ["success"]


def ended(**display: Any) -> ToolCallResponseEvent:
    shown: dict[str, Any] = {"type": "terminal_output", "text": "out", **display}
    return ToolCallResponseEvent(
        call_id="1", name="run_shell_command", status="success", display=shown, duration_ms=5
    )


@pytest.mark.parametrize(
    ("display", "why"),
    [
        ({"exit_code": 2}, "exit code 2"),
        ({"exit_code": None, "signal": 9}, "killed by signal 9 (SIGKILL)"),
        ({"exit_code": 0}, ""),
        ({"exit_code": None, "signal": None}, ""),
    ],
)
def test_one_predicate_decides_for_every_front_end(display: dict[str, Any], why: str):
    event = ended(**display)
    request = ToolCallRequestEvent(call_id="1", name="run_shell_command", args={}, prompt_id="p")
    assert (event.outcome, event.command_failure) == ("error" if why else "success", why)
    view, told = played(request, event)
    assert view.totals.failed_calls == bool(why)
    assert told.startswith("✗" if why else "✓")
    updates = CallUpdates(ToolRegistry(), "/")
    (*_, last) = [update for each in (request, event) for update in updates.of(each)]
    assert last["status"] == ("failed" if why else "completed")
    assert (f"({why})" in str(last)) is bool(why)
    record = call_record(event, KnownCall(), with_args=False)
    assert record.attributes["success"] is not bool(why)
    assert record.attributes.get("error.type") == ("command_failed" if why else None)
