import asyncio
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.subagents import builtin_agents
from alhena.events import (
    ApiRequestEvent,
    ContentEvent,
    ThoughtEvent,
    ToolCallRequestEvent,
    ToolOutputEvent,
)
from alhena.models.errors import QuotaError
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.scheduler.states import CallStatus
from alhena.tools.contract import MUTATOR_KINDS, ExecutionContext, ToolErrorType, ToolResult
from tests.agent.delegating import Office, complete_task_call, turn, worker
from tests.scheduler.kit import SmallTool, request, response_of
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call

REPORT = {
    "summary_of_findings": "It is in a.py.",
    "exploration_trace": ["listed", "read"],
    "relevant_locations": [
        {"file_path": "/p/a.py", "reasoning": "defines it", "key_symbols": ["f"]}
    ],
}


@pytest.mark.requirement("AGENT-01", "TOOLS-20")
async def test_the_investigators_structured_report_is_the_answer_to_the_call(project: Path):
    (project / "a.py").write_text("def f(): ...\n", encoding="utf-8")
    office = Office(
        ScriptedGenerator(
            turn({"text": "Looking"}, call("read_file", {"absolute_path": "a.py"}, id="1")),
            complete_task_call(REPORT, id="1"),
        )
    )
    answer = await office.delegate("Where is f?", agent="codebase_investigator")
    assert answer.status is CallStatus.SUCCESS
    output = response_of(answer)["output"]
    head, _, body = output.partition("\nResult:\n")
    assert head == "Subagent 'codebase_investigator' finished.\nTermination Reason: GOAL"
    assert '"summary_of_findings": "It is in a.py."' in body
    assert answer.response.data is not None
    assert answer.response.data["result"] == REPORT
    assert answer.response.data["turns"] == 2
    assert office.generator.seen(0) == [{"role": "user", "parts": [{"text": "Where is f?"}]}]
    assert office.told(1)[0]["response"] == {"output": "def f(): ...\n"}
    assert office.conforming()


@pytest.mark.requirement("AGENT-02")
async def test_an_agent_has_its_own_prompt_and_only_its_tools_and_never_delegation(project: Path):
    office = Office(
        ScriptedGenerator(
            turn(
                call("delegate_to_agent", {"agent_name": "worker", "objective": "x"}, id="1"),
                call("write_file", {"file_path": "x", "content": "y"}, id="2"),
            ),
            complete_task_call(),
            turn(call("delegate_to_agent", {"agent_name": "worker", "objective": "x"}, id="1")),
            complete_task_call(),
        ),
        agents=(worker(tools=("read_file", "delegate_to_agent")), worker(name="all")),
        mode=ApprovalMode.YOLO,
    )
    await office.delegate()
    assert office.declared(0) == ("read_file", "complete_task")
    system: Any = office.generator.requests[0].config.system_instruction
    assert system.parts[0].text.startswith("You are the worker.\n\n# Rules")
    assert str(project) in system.parts[0].text
    answers = [answer["response"]["error"] for answer in office.told(1)]
    assert answers[0].startswith('Tool "delegate_to_agent" not found')
    assert answers[1].startswith('Tool "write_file" not found')
    assert not (project / "x").exists()
    await office.delegate(agent="all")
    assert "run_shell_command" in office.declared(2)
    assert "delegate_to_agent" not in office.declared(2)
    assert "not found" in office.told(3)[0]["response"]["error"]


@pytest.mark.requirement("AGENT-04")
async def test_what_the_policy_denies_the_session_it_denies_the_agent(project: Path):
    deny = PolicyRule(
        decision=PolicyOutcome.DENY,
        priority=500,
        tool_names=("read_file",),
        args_pattern="secret",
        deny_message="Not that one.",
    )
    (project / "secret").write_text("x", encoding="utf-8")
    (project / "open").write_text("y", encoding="utf-8")
    office = Office(
        ScriptedGenerator(
            turn(
                call("read_file", {"absolute_path": "secret"}, id="1"),
                call("read_file", {"absolute_path": "open"}, id="2"),
            ),
            complete_task_call(),
        ),
        agents=(worker(),),
        policy=(deny,),
    )
    await office.delegate()
    assert [answer["response"] for answer in office.told(1)] == [
        {"error": "Tool execution denied by policy. Not that one."},
        {"output": "y"},
    ]


@pytest.mark.requirement("AGENT-04")
async def test_a_person_is_asked_about_each_action_of_the_agent(project: Path):
    asked: list[ConfirmationRequest] = []

    def approve(request: ConfirmationRequest) -> bool | Answer:
        asked.append(request)
        return request.args["file_path"] == "yes" or Answer.no("leave it")

    def write(name: str) -> dict[str, Any]:
        return call("write_file", {"file_path": name, "content": "z"}, id=name)

    office = Office(
        ScriptedGenerator(turn(write("yes"), write("no")), complete_task_call()),
        agents=(worker(),),
        approve=approve,
    )
    await office.delegate()
    assert [request.call_id for request in asked] == ["d1/yes", "d1/no"]
    assert (project / "yes").read_text(encoding="utf-8") == "z"
    assert not (project / "no").exists()
    assert "did not allow" in office.told(1)[1]["response"]["error"]


async def test_nobody_to_ask_means_not_even_declared(project: Path):
    office = Office(ScriptedGenerator(complete_task_call()), agents=(worker(),))
    await office.delegate()
    assert "write_file" not in office.declared(0)
    assert "read_file" in office.declared(0)


async def test_a_mode_that_changes_meanwhile_holds_for_the_agent_at_once(project: Path):
    switched: list[Any] = []

    async def plan(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        switched.append(office.bench.authority.modes.switch(ApprovalMode.PLAN))
        return ToolResult(llm_content="planning")

    office = Office(
        ScriptedGenerator(
            turn(
                call("switch", {}, id="1"),
                call("write_file", {"file_path": "x", "content": "y"}, id="2"),
            ),
            complete_task_call(),
        ),
        agents=(worker(),),
        mode=ApprovalMode.YOLO,
        tools=(SmallTool("switch", plan),),
    )
    await office.delegate()
    assert switched == [None]
    assert "Plan mode only reads" in office.told(1)[1]["response"]["error"]
    assert not (project / "x").exists()


async def test_events_name_their_parent_and_what_the_agent_says_is_not_the_answer(project: Path):
    thought = {"text": "**Looking around** at it", "thought": True}
    office = Office(
        ScriptedGenerator(
            turn(thought, {"text": "I say."}, call("list_directory", {"path": "."}, id="d1")),
            complete_task_call(id="2"),
        ),
        agents=(worker(),),
    )
    await office.delegate()
    assert not [e for e in office.events if isinstance(e, ContentEvent | ThoughtEvent)]
    assert len([e for e in office.events if isinstance(e, ApiRequestEvent)]) == 2
    called = [e for e in office.events if isinstance(e, ToolCallRequestEvent)]
    assert [(e.call_id, e.parent_call_id) for e in called] == [("d1/d1", "d1"), ("d1/2", "d1")]
    assert [(e.call_id, e.parent_call_id, e.status) for e in office.responses()] == [
        ("d1/d1", "d1", "success"),
        ("d1/2", "d1", "success"),
        ("d1", None, "success"),
    ]
    live = [e.text for e in office.events if isinstance(e, ToolOutputEvent)]
    assert live[0] == "Looking around\n"
    assert live[1].startswith("list_directory ")


async def test_cancelling_the_call_stops_the_agents_tools(project: Path):
    started = asyncio.Event()
    stopped: list[str] = []

    async def hang(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("hang")
        raise AssertionError("nothing sets this event")

    office = Office(
        ScriptedGenerator(turn(call("hang", {}, id="1"))),
        agents=(worker(),),
        mode=ApprovalMode.YOLO,
        tools=(SmallTool("hang", hang),),
    )
    running = asyncio.ensure_future(office.delegate())
    await started.wait()
    office.scheduler.cancel_all("enough")
    answer = await running
    assert answer.status is CallStatus.CANCELLED
    assert stopped == ["hang"]
    assert [(e.call_id, e.status) for e in office.responses()] == [
        ("d1/1", "cancelled"),
        ("d1", "cancelled"),
    ]
    assert len(office.generator.requests) == 1


async def test_a_model_that_fails_fails_the_call_and_nothing_else(project: Path):
    office = Office(
        ScriptedGenerator([QuotaError("the quota is used up.", status=429)]), agents=(worker(),)
    )
    answer = await office.delegate()
    assert answer.status is CallStatus.ERROR
    assert response_of(answer)["error"] == "Subagent 'worker' failed: the quota is used up."


async def test_a_result_of_the_wrong_form_can_be_mended(project: Path):
    office = Office(
        ScriptedGenerator(
            complete_task_call({"summary_of_findings": "x"}, id="1"),
            complete_task_call(REPORT, id="2"),
        )
    )
    answer = await office.delegate(agent="codebase_investigator")
    assert "exploration_trace" in office.told(1)[0]["response"]["error"]
    assert answer.response.data is not None
    assert answer.response.data["result"] == REPORT


async def test_only_the_first_result_counts_and_an_empty_one_is_none(project: Path):
    wrong = [{}, {"result": " "}, {"result": 7}]
    office = Office(
        ScriptedGenerator(
            *(turn(call("complete_task", args, id="1")) for args in wrong),
            turn(
                call("complete_task", {"result": "first"}, id="2"),
                call("complete_task", {"result": "second"}, id="3"),
            ),
        ),
        agents=(worker(),),
    )
    answer = await office.delegate()
    assert answer.response.data is not None
    assert answer.response.data["result"] == "first"
    missing, empty, number = (office.told(n)[0]["response"]["error"] for n in (1, 2, 3))
    assert "result" in missing
    assert empty == (
        'Missing required "result" argument. You must provide your findings when calling '
        "complete_task."
    )
    assert "7" in number
    statuses = [e.status for e in office.responses() if e.name == "complete_task"]
    assert statuses == ["error"] * 3 + ["success", "error"]
    assert office.conforming()


async def test_a_tool_of_the_agent_cannot_take_the_place_of_the_one_that_ends_it(project: Path):
    own = SmallTool("complete_task")
    office = Office(
        ScriptedGenerator(complete_task_call("mine")), agents=(worker(own_tools=(own,), tools=()),)
    )
    answer = await office.delegate()
    assert answer.response.data is not None
    assert answer.response.data["result"] == "mine"
    assert office.declared(0) == ("complete_task",)
    assert office.conforming()


@pytest.mark.requirement("TOOLS-20")
def test_the_built_in_agents_only_read_but_for_the_generalist(project: Path):
    office = Office(ScriptedGenerator())
    assert {agent.name for agent in builtin_agents()} == {
        "codebase_investigator",
        "introspection_agent",
        "generalist",
    }
    for agent in builtin_agents()[:2]:
        assert len(agent.system_prompt) > 200
        for name in agent.tools:
            tool = office.bench.registry.get(name)
            assert tool is None or tool.kind not in MUTATOR_KINDS


@pytest.mark.requirement("AGENT-01")
@pytest.mark.parametrize("key", ["objective", "query", "prompt"])
async def test_an_agent_can_be_called_by_its_own_name(project: Path, key: str):
    office = Office(ScriptedGenerator(complete_task_call(REPORT, id="1")))
    (answer,) = await office.scheduler.schedule(
        [request("d1", "codebase_investigator", **{key: "Where is f?"})]
    )
    assert answer.status is CallStatus.SUCCESS
    assert office.generator.seen(0) == [{"role": "user", "parts": [{"text": "Where is f?"}]}]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("codebase_investigator", {"query": "Where?"}),
        ("delegate_to_agent", {"agent_name": "codebase_investigator", "objective": "Where?"}),
    ],
)
async def test_a_rule_that_names_an_agent_holds_for_both_ways_to_call_it(
    project: Path, name: str, args: dict[str, Any]
):
    deny = PolicyRule(
        decision=PolicyOutcome.DENY, priority=500, tool_names=("codebase_investigator",)
    )
    office = Office(ScriptedGenerator(), policy=(deny,))
    (answer,) = await office.scheduler.schedule(request("d1", name, **args))
    assert answer.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert not office.generator.requests


async def test_an_agent_that_is_not_there_cannot_be_called_by_its_name(project: Path):
    office = Office(ScriptedGenerator())
    (answer,) = await office.scheduler.schedule(request("d1", "nobody", query="Where?"))
    assert answer.response.error_type is ToolErrorType.TOOL_NOT_REGISTERED
