from pathlib import Path
from typing import Any

import pytest

from alhena.tools.builtin.subagents import AgentSummary, DelegateToAgent
from alhena.tools.contract import ExecutionContext, ToolFailure, ToolResult
from tests.tools.files import call, failure_type, text_of

AGENTS = (AgentSummary("finder", "Finds things."), AgentSummary("writer", "Writes things."))


def delegating(given: list[Any]) -> DelegateToAgent:
    async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
        given.append((name, objective, context.call_id))
        return ToolResult(llm_content="report")

    return DelegateToAgent(AGENTS, run)


@pytest.mark.requirement("TOOLS-20")
@pytest.mark.parametrize("parameter", ["objective", "prompt"])
async def test_the_task_goes_to_the_agent_that_was_named(parameter: str) -> None:
    given: list[Any] = []
    built = delegating(given).build({"agent_name": "finder", parameter: "Find\nit."})
    assert not isinstance(built, ToolFailure)
    assert built.describe() == "finder: Find it."
    result = await built.execute(ExecutionContext(Path.cwd(), call_id="c1"))
    assert text_of(result) == "report"
    assert given == [("finder", "Find\nit.", "c1")]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"agent_name": "nobody", "objective": "x"}, 'allowed values: "finder", "writer"'),
        ({"agent_name": "finder", "objective": " "}, "must be non-empty"),
        ({"agent_name": "finder"}, "'objective'"),
        ({"objective": "x"}, "'agent_name'"),
    ],
)
async def test_a_task_that_nobody_can_do_is_refused(params: Any, said: str) -> None:
    given: list[Any] = []
    result = await call(delegating(given), **params)
    assert failure_type(result) == "invalid_tool_params"
    assert said in text_of(result)
    assert given == []


async def test_without_agents_every_task_is_refused() -> None:
    async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
        raise AssertionError("there is no agent")

    tool = DelegateToAgent((), run)
    assert "There are none." in tool.description
    result = await call(tool, agent_name="finder", objective="x")
    assert text_of(result) == "Subagent 'finder' not found."


def test_the_model_is_told_which_agents_there_are() -> None:
    declaration = delegating([]).declaration()
    assert "- finder: Finds things.\n- writer: Writes things." in declaration.description
    schema: Any = declaration.parameters_json_schema
    assert schema["properties"]["agent_name"]["enum"] == ["finder", "writer"]
