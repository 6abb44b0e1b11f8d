"""Whatever a model gives these tools: text or a typed failure, never an exception."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena.tools.builtin.ask_user import Answers, AskUser
from alhena.tools.builtin.get_internal_docs import GetInternalDocs
from alhena.tools.builtin.google_web_search import GoogleWebSearch
from alhena.tools.builtin.plan_mode import EnterPlanMode, ExitPlanMode
from alhena.tools.builtin.save_memory import SaveMemory
from alhena.tools.builtin.subagents import AgentSummary, DelegateToAgent
from alhena.tools.builtin.write_todos import WriteTodos
from alhena.tools.contract import (
    ExecutionContext,
    Question,
    Tool,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.wire.json_values import scrub
from tests.tools.test_plan_mode_tools import Modes
from tests.tools.web import ScriptedModel, response


async def ask(questions: tuple[Question, ...]) -> Answers | None:
    return dict(enumerate(question.header for question in questions))


async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
    return ToolResult(llm_content=f"{name}: {objective}")


def tools(directory: Path) -> dict[str, Tool]:
    made: list[Tool] = [
        SaveMemory(directory / "GEMINI.md"),
        WriteTodos(),
        AskUser(ask),
        EnterPlanMode(Modes(planning=False)),
        ExitPlanMode(Modes(planning=True), directory / "plans"),
        GetInternalDocs(),
        DelegateToAgent((AgentSummary("a", "Works."),), run),
        GoogleWebSearch(ScriptedModel(response("An answer."))),
    ]
    return {tool.name: tool for tool in made}


NAMES = sorted(tools(Path("/nowhere")))
TEXT = st.text() | st.text(alphabet="\ud800\x00\n/.-#@ a") | st.sampled_from(["", "a", "../x.md"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that look like what a schema asks for."""
    kind = schema.get("type")
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if kind == "object":
        properties = {key: fitting(value) for key, value in schema["properties"].items()}
        required = schema.get("required", ())
        needed = {key: value for key, value in properties.items() if key in required}
        others = {key: value for key, value in properties.items() if key not in required}
        return st.fixed_dictionaries(needed, optional=others)
    if kind == "array":
        return st.lists(fitting(schema["items"]), max_size=5)
    return st.booleans() if kind == "boolean" else TEXT


async def through(tool: Tool, params: dict[str, Any]) -> ToolResult | ToolFailure:
    built = tool.build(params)
    if isinstance(built, ToolFailure):
        return built
    context = ExecutionContext(Path.cwd())
    scrub(built.describe())
    msgspec.json.encode([scrub(place.path) for place in built.locations()])
    await built.confirmation(context)
    return await built.execute(context)


def check(came: ToolResult | ToolFailure) -> None:
    """It is a result, or a failure with its own type."""
    failure = came.error if isinstance(came, ToolResult) else came
    if failure is None:
        assert isinstance(came, ToolResult)
        assert came.llm_content
    else:
        assert failure.message
        assert isinstance(failure.type, ToolErrorType)
        assert failure.type is not ToolErrorType.UNHANDLED_EXCEPTION


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_arguments_give_a_result_or_a_typed_failure(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as directory:
        tool = tools(Path(directory))[name]
        given_params = data.draw(
            fitting(tool.parameter_schema) | st.dictionaries(TEXT, JSON, max_size=4)
        )
        came = asyncio.run(through(tool, given_params))
    check(came)
