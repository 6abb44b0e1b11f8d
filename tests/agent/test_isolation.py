from typing import Any

import pytest

from alhena.agent.toolset.approval import serialize_approver
from alhena.policy.model import Decision, PolicyOutcome
from alhena.scheduler.question import ConfirmationRequest
from alhena.tools.contract import (
    AskUserConfirmation,
    Question,
    ToolConfirmationOutcome,
)
from alhena.tools.registry import ToolOrigin, ToolRegistry, select_tools
from tests.scheduler.kit import SmallTool


@pytest.fixture
def session() -> ToolRegistry:
    registry = ToolRegistry(
        [SmallTool(name) for name in ("read_file", "write_file", "delegate_to_agent", "ask_user")]
    )
    registry.register(SmallTool("search"), origin=ToolOrigin.MCP, server="docs")
    registry.register(SmallTool("docs__glob"), origin=ToolOrigin.MCP, server="docs")
    registry.register(SmallTool("push"), origin=ToolOrigin.MCP, server="git")
    return registry


@pytest.mark.requirement("AGENT-02")
@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ((), ()),
        (("read_file",), ("read_file",)),
        (("ReadFileTool", "nothing"), ("read_file",)),
        (("*",), ("read_file", "write_file", "search", "docs__glob", "push")),
        (("search", "glob", "push"), ()),
        (("docs__search",), ("search",)),
        (("mcp_docs_glob",), ("docs__glob",)),
        (("docs__*",), ("search", "docs__glob")),
        (("docs__se*", "docs__search__*", "mcp_docs_se*", "do*"), ()),
        (("mcp_git_*",), ("push",)),
        (("mcp_*",), ("search", "docs__glob", "push")),
        (("delegate_to_agent", "invoke_agent", "ask_user"), ()),
        (("read_*",), ()),
    ],
)
def test_an_agent_has_the_tools_it_names_and_never_those_that_steer_the_session(
    session: ToolRegistry, patterns: tuple[str, ...], names: tuple[str, ...]
):
    own = SmallTool("complete_task")
    registry = select_tools(session, patterns, own)
    assert sorted(registry.names) == sorted((*names, "complete_task"))
    assert registry.get("complete_task") is own
    for name in names:
        there, here = session.find(name), registry.find(name)
        assert there == here


@pytest.mark.requirement("AGENT-02")
def test_the_registry_of_an_agent_is_its_own(session: ToolRegistry):
    session.exclude(["write_file"])
    registry = select_tools(session, ("*",))
    assert registry.get("write_file") is None
    registry.unregister("read_file")
    registry.register(SmallTool("extra"))
    assert session.get("read_file") is not None
    assert session.get("extra") is None


def asking(details: Any, name: str = "x") -> ConfirmationRequest:
    return ConfirmationRequest(
        call_id=name,
        name=name,
        tool_name=name,
        args={},
        details=details,
        decision=Decision(outcome=PolicyOutcome.ASK_USER, reason=""),
    )


async def test_questions_of_the_tool_that_asks_are_not_asked_about_first():
    def approve(request: ConfirmationRequest) -> bool:
        raise AssertionError("asked whether to ask")

    question = Question(question="Which?", header="h", type="text")
    serial: Any = serialize_approver(approve)
    answer = await serial(asking(AskUserConfirmation(title="t", questions=(question,))))
    assert answer is ToolConfirmationOutcome.PROCEED_ONCE
