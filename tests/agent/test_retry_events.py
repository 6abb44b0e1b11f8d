"""Whose attempts they are: the session's own, a subagent's, a tool's."""

from pathlib import Path
from typing import Any

import pytest

from alhena.agent.runner import SessionRunner
from alhena.agent.toolset.model_access import SessionModel
from alhena.config.settings import ModelSection, Settings
from alhena.errors import ServerFaultError
from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    Event,
    ModelFallbackEvent,
    RetryEvent,
    RunFinishedEvent,
    ToolCallResponseEvent,
)
from alhena.models.catalogue import FLASH, PRO
from alhena.models.errors import DailyQuotaError, UnusableAnswerError
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.policy.model import ApprovalMode
from alhena.wire.content import text_content
from alhena.wire.errors import ConformanceError
from alhena.wire.request import FunctionDeclaration, ToolDeclarations
from tests.agent.kit import events_of, of
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

DOWN = ServerFaultError("down", status=503)
DAILY = DailyQuotaError("used up.", status=429)


def retrying(script: ScriptedGenerator) -> RetryingGenerator:
    async def pause(_seconds: float) -> None:
        return

    return RetryingGenerator(script, RetryPolicy(), sleep=pause, chance=lambda: 0)


def running(script: ScriptedGenerator) -> SessionRunner:
    settings = {
        "generator": retrying(script),
        "approval_mode": ApprovalMode.YOLO,
        "settings": Settings(model=ModelSection(fallback="always")),
    }
    return scripted_agent(model=PRO, **settings)


def delegation_turn() -> list[dict[str, Any]]:
    args = {"agent_name": "codebase_investigator", "objective": "Find it."}
    return [chunk({"text": "Asking. "}, call("delegate_to_agent", args, id="d"), finish="STOP")]


def report_turn() -> list[dict[str, Any]]:
    report = {"summary_of_findings": "x", "exploration_trace": [], "relevant_locations": []}
    return [chunk(call("complete_task", {"result": report}, id="r"), finish="STOP")]


async def test_attempts_of_a_subagent_are_its_own_and_take_nothing_back(project: Path):
    half = [chunk({"text": "half"}), DOWN]
    script = ScriptedGenerator(delegation_turn(), half, report_turn(), [text("Found.")])
    async with running(script) as agent:
        events, error = await events_of(agent, "go")
    assert error is None
    (retry,) = of(events, RetryEvent)
    assert (retry.role, retry.retract) == ("subagent", False)
    assert retry.prompt_id.startswith("codebase_investigator-")
    assert of(events, ToolCallResponseEvent)[-1].status == "success"
    assert of(events, RunFinishedEvent)[0].text == "Found."


async def test_a_subagent_falls_back_by_itself_with_settings_of_its_own():
    script = ScriptedGenerator(delegation_turn(), [DAILY], report_turn(), [text("Found.")])
    async with running(script) as agent:
        events, error = await events_of(agent, "go")
        assert error is None
        assert agent.model == PRO
    (fallback,) = of(events, ModelFallbackEvent)
    assert (fallback.role, fallback.model) == ("subagent", FLASH)
    models = [request.model for request in script.requests]
    assert models == [PRO] * 2 + [FLASH, PRO]
    before, after = (script.requests[index].config.generation_config for index in (1, 2))
    assert before is not None
    assert after is not None
    assert (before.temperature, after.temperature) == (0.1, None)
    assert script.seen(1) == script.seen(2)


async def test_a_question_of_a_tools_is_asked_again_and_accounted_once():
    script = ScriptedGenerator([DOWN], [text("yes")])
    events: list[Event] = []
    model = SessionModel(lambda: (retrying(script), FLASH), events.append)
    assert await model.ask("well?") == "yes"
    (retry,) = of(events, RetryEvent)
    assert (retry.role, retry.model, retry.delay_s) == ("utility_tool", FLASH, 5)
    assert len(of(events, ApiRequestEvent)) == 1
    assert not of(events, ApiErrorEvent)


@pytest.mark.requirement("WIRE-18")
@pytest.mark.parametrize(
    "bad",
    [
        [chunk(finish="STOP")],
        [chunk({"text": "hm", "thought": True}, finish="STOP")],
        [chunk({"text": "x"}, finish="MALFORMED_FUNCTION_CALL")],
        [chunk(finish="MAX_TOKENS")],
    ],
)
async def test_an_empty_or_malformed_answer_to_a_tool_is_asked_for_again_a_few_times(bad: Any):
    script = ScriptedGenerator(bad, [text("yes")])
    events: list[Event] = []
    model = SessionModel(lambda: (retrying(script), FLASH), events.append)
    assert await model.ask("well?") == "yes"
    (retry,) = of(events, RetryEvent)
    assert (retry.role, retry.attempt, retry.max_attempts) == ("utility_tool", 2, 4)
    assert len(of(events, ApiRequestEvent)) == 2
    script = ScriptedGenerator(*[bad] * 4)
    model = SessionModel(lambda: (retrying(script), FLASH), events.append)
    with pytest.raises(UnusableAnswerError, match="Tried 4 times"):
        await model.generate((text_content("user", "well?"),))
    assert len(script.requests) == 4


async def test_a_withheld_answer_to_a_tool_is_not_asked_for_again_and_is_no_text():
    script = ScriptedGenerator([chunk(finish="SAFETY")], [chunk(finish="SAFETY")])
    model = SessionModel(lambda: (retrying(script), FLASH), lambda _event: None)
    response = await model.generate((text_content("user", "well?"),))
    assert response.finish_reason == "SAFETY"
    with pytest.raises(UnusableAnswerError, match="withheld"):
        await model.ask("well?")
    assert len(script.requests) == 2


async def test_a_question_of_a_tools_that_breaks_rules_is_not_sent():
    script = ScriptedGenerator([text("yes")])
    model = SessionModel(lambda: (retrying(script), FLASH), lambda _event: None)
    with pytest.raises(ConformanceError):
        await model.generate(())
    declared = ToolDeclarations(function_declarations=(FunctionDeclaration(name="no name"),))
    with pytest.raises(ConformanceError):
        await model.generate((text_content("user", "x"),), tools=(declared,))
    assert script.requests == []


async def test_each_attempt_of_the_session_is_accounted():
    script = ScriptedGenerator([DOWN], [text("yes")])
    async with running(script) as agent:
        events, _ = await events_of(agent, "go")
    assert len(of(events, ApiRequestEvent)) == 2
    assert [event.status for event in of(events, ApiErrorEvent)] == [503]
