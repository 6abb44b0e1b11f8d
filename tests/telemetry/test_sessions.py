"""Telemetry of sessions in a program of one's own."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from alhena import tool
from alhena.config.settings import Settings, TelemetrySettings
from alhena.errors import NetworkError
from alhena.events import RunFinishedEvent, RunStartedEvent, ToolCallUpdateEvent, WarningEvent
from alhena.policy.model import ApprovalMode
from tests.agent.kit import agent, events_of
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text
from tests.telemetry.reading import Observed, differences


def watched(**telemetry: Any) -> dict[str, Any]:
    given = {"enabled": True, "outfile": "out.log"} | telemetry
    return {"settings": Settings(telemetry=TelemetrySettings(**given)), "skip_trust": True}


@pytest.mark.requirement("TEL-01", "TEL-02")
async def test_a_subagents_work_is_told_beside_the_sessions(project: Path):
    generator = ScriptedGenerator(
        [
            chunk(
                call(
                    "delegate_to_agent",
                    {"agent_name": "introspection_agent", "objective": "Look around."},
                    id="c1",
                ),
                finish="STOP",
            )
        ],
        [chunk(call("get_internal_docs", {}, id="s1"), finish="STOP")],
        [chunk(call("complete_task", {"result": "nothing here"}, id="s2"), finish="STOP")],
        [text("done")],
    )
    async with agent(generator, **watched(log_prompts=True)) as running:
        events, error = await events_of(running, "go")
    assert error is None
    assert isinstance(events[-1], RunFinishedEvent)
    found = Observed(project / "out.log")
    assert differences(found.logs) == []
    roles = [log["role"] for log in found.of("api_response")]
    assert roles == ["main", "subagent", "subagent", "main"]
    assert [log["role"] for log in found.of("api_request")] == roles
    assert "Look around." in found.of("api_request")[1]["request_text"]
    called = [log["function_name"] for log in found.of("tool_call")]
    assert called == ["get_internal_docs", "complete_task", "delegate_to_agent"]
    named = {"agent_id": "c1", "agent_name": "introspection_agent"}
    assert named.items() <= found.one("agent.start").items()
    ended = named | {"turn_count": 2, "terminate_reason": "GOAL"}
    assert ended.items() <= found.one("agent.finish").items()
    assert found.total("gemini_cli.agent.run.count", terminate_reason="GOAL") == 1
    (turns,) = found.points("gemini_cli.agent.turns")
    assert turns["value"]["sum"] == 2


async def test_modes_are_told_with_their_changes_and_durations(project: Path):
    async with agent(ScriptedGenerator(), **watched()) as running:
        running.toolset.authority.modes.switch(ApprovalMode.PLAN)
        running.toolset.authority.modes.switch(ApprovalMode.AUTO_EDIT)
    found = Observed(project / "out.log")
    assert differences(found.logs) == []
    switches = found.of("plan.approval_mode_switch")
    assert [(each["from_mode"], each["to_mode"]) for each in switches] == [
        ("default", "plan"),
        ("plan", "autoEdit"),
    ]
    durations = found.of("plan.approval_mode_duration")
    assert [each["mode"] for each in durations] == ["default", "plan", "autoEdit"]


async def test_prompts_of_one_session_have_an_id_each_and_sums_go_on(project: Path):
    async with agent(ScriptedGenerator([text("a")], [text("b")]), **watched()) as running:
        for prompt in ("one", "two"):
            await events_of(running, prompt)
    found = Observed(project / "out.log")
    first, second = (log["prompt_id"] for log in found.of("user_prompt"))
    assert first != second
    assert [log["prompt_id"] for log in found.of("api_response")] == [first, second]
    assert len(found.measured) == 2
    assert found.total("gemini_cli.api.request.count") == 2
    assert found.total("gemini_cli.session.count") == 1


async def test_a_run_that_is_left_is_told_to_its_end(project: Path):
    @tool
    async def wait_long() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return ""

    generator = ScriptedGenerator([chunk(call("wait_long", {}, id="c1"), finish="STOP")])
    async with agent(generator, tools=[wait_long], **watched()) as running:
        run = running.run("go")
        async for event in run:
            if isinstance(event, ToolCallUpdateEvent) and event.status == "executing":
                break
        await run.aclose()
        found = Observed(project / "out.log")
        assert found.one("tool_call")["error_type"] == "cancelled"
        assert len(found.measured) == 1
    assert len(Observed(project / "out.log").measured) == 1


async def test_a_model_that_cannot_be_reached_is_told(project: Path):
    generator = ScriptedGenerator([NetworkError("no route", remedy="Check the cable.")])
    async with agent(generator, **watched()) as running:
        _, error = await events_of(running, "go")
    assert isinstance(error, NetworkError)
    failed = Observed(project / "out.log").one("api_error")
    assert failed["error.message"] == "no route"
    assert "status_code" not in failed
    assert "auth_type" not in failed


async def test_a_file_that_cannot_be_opened_is_a_notice_and_nothing_else(project: Path):
    (project / "out.log").mkdir()
    async with agent(ScriptedGenerator([text("a")]), **watched()) as running:
        events, error = await events_of(running, "go")
    assert error is None
    assert isinstance(events[0], RunStartedEvent)
    (notice,) = (line for line in events[0].notices if "telemetry" in line)
    assert "Is a directory; nothing is recorded." in notice
    assert not any(isinstance(event, WarningEvent) for event in events)


async def test_an_id_that_cannot_be_kept_is_a_notice(project: Path, home: Path):
    (home / ".gemini" / "installation_id").mkdir(parents=True)
    async with agent(ScriptedGenerator([text("a")]), **watched()) as running:
        events, _ = await events_of(running, "go")
    assert isinstance(events[0], RunStartedEvent)
    assert any("id cannot be kept" in line for line in events[0].notices)
    assert Observed(project / "out.log").names[0] == "config"


async def test_facts_of_a_front_end_are_in_the_config_record(project: Path):
    facts = {"output_format": "json", "debug_mode": True}
    async with agent(ScriptedGenerator([text("a")]), facts=facts, **watched()) as running:
        await events_of(running, "go")
    config = Observed(project / "out.log").one("config")
    assert (config["output_format"], config["debug_mode"]) == ("json", True)


async def test_no_thread_is_left(project: Path):
    before = threading.active_count()
    async with agent(ScriptedGenerator(), **watched()):
        assert any(thread.name == "telemetry" for thread in threading.enumerate())
    assert not any(thread.name == "telemetry" for thread in threading.enumerate())
    assert threading.active_count() <= before + 1  # the one that waited for it
    assert Observed(project / "out.log").names == [*("config", "plan.approval_mode_duration")]
