"""Delegation with the rehearsal as the model: what agents of fixed rules report."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena import Agent, tool
from alhena.agent.definitions import builtin_agents
from alhena.agent.delegation import _LAST_CHANCE
from alhena.agent.options import AgentSettings
from alhena.events import ToolCallResponseEvent
from alhena.models.rehearsal.generator import RehearsalGenerator
from alhena.models.rehearsal.report import NOTICE
from alhena.policy.model import ApprovalMode
from alhena.scheduler.states import CompletedToolCall, Status
from alhena.tools.confirmation import Question
from alhena.tools.schema import problem_with
from alhena.wire.content import (
    MODEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    Tool,
)
from alhena.wire.response import GenerateContentResponse
from tests.agent.delegating import Office, worker
from tests.rehearsal.folder_tools import declaration
from tests.support.command import alhena

SCHEMAS = {agent.name: agent.result_schema for agent in builtin_agents()}
NUDGE = "Agent stopped calling tools but did not call 'complete_task'." + _LAST_CHANCE


class Watched(RehearsalGenerator):
    """A rehearsal that keeps its requests."""

    def __init__(self) -> None:
        self.requests: list[GenerateContentRequest] = []

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        self.requests.append(request)
        async for response in super().stream(request):
            yield response


def office(**options: Any) -> Office:
    generator: Any = Watched()
    return Office(generator, **options)


@pytest.fixture
def lyra(project: Path) -> Path:
    (project / "README.md").write_text("# Lyra\n\nLyra counts stars.\n", encoding="utf-8")
    (project / "src").mkdir()
    (project / "src" / "stars.py").write_text(
        "class Sky:\n    pass\n\n\ndef count_stars(sky):\n    return len(sky)\n", encoding="utf-8"
    )
    (project / "src" / "use.py").write_text(
        "from stars import count_stars\nprint(count_stars(''))\n", encoding="utf-8"
    )
    return project


async def nobody(_questions: tuple[Question, ...]) -> None:
    """Dismisses every question."""


def result_of(done: CompletedToolCall) -> Any:
    assert done.status is Status.SUCCESS, done.response.error
    assert done.response.data is not None
    assert done.response.data["termination_reason"] == "GOAL"
    return done.response.data["result"]


@pytest.mark.requirement("AGENT-01")
def test_a_delegated_task_is_reported_from_the_files_by_the_command(lyra: Path) -> None:
    ran = alhena(
        *("tools", "call", "delegate_to_agent"),
        json.dumps({"agent_name": "codebase_investigator", "objective": "Why have count_stars?"}),
        "--json",
        GEMINI_MODEL="rehearsal",
    )
    assert (ran.code, ran.json["status"], ran.json["error"]) == (0, "success", None)
    head, _, body = ran.json["llmContent"].partition("\nResult:\n")
    assert head.endswith("Termination Reason: GOAL")
    report = json.loads(body)
    assert "src/stars.py:5: def count_stars(sky):" in report["summary_of_findings"]
    assert "Lyra counts stars." in report["summary_of_findings"]
    places = {each["file_path"]: each for each in report["relevant_locations"]}
    assert places[str(lyra / "src" / "stars.py")]["key_symbols"] == ["count_stars"]
    assert "2 lines match" in places[str(lyra / "src" / "use.py")]["reasoning"]


async def test_a_session_delegates_and_tells_what_came_back(lyra: Path) -> None:
    args = json.dumps({"agent_name": "codebase_investigator", "objective": "outline src/stars.py"})
    answered: list[ToolCallResponseEvent] = []
    async with Agent(model="rehearsal") as agent:
        async for event in agent.run(f"use delegate_to_agent with {args}"):
            if isinstance(event, ToolCallResponseEvent):
                answered.append(event)
        told = [part.text for part in agent.history[-1].parts]
    outcomes = {event.name: event.status for event in answered}
    assert outcomes == dict.fromkeys(outcomes, "success")
    assert set(outcomes) == {"read_file", "list_directory", "complete_task", "delegate_to_agent"}
    text = "".join(filter(None, told))
    assert '"reasoning": "read: 6 lines"' in text
    assert str(lyra / "src" / "stars.py") in text


async def test_only_a_programs_own_tools_are_given_as_examples_of_calls(project: Path) -> None:
    @tool(confirm=False)
    def lookup(name: str) -> str:
        """Look somebody up."""
        return name

    settings = AgentSettings(approval_mode=ApprovalMode.YOLO, ask=nobody)
    async with Agent(
        model="rehearsal", tools=[lookup], approve=lambda _request: True, settings=settings
    ) as agent:
        answer = await agent.ask("hello")
    assert [line for line in answer.splitlines() if line.startswith("- call ")] == [
        "- call lookup with name=…"
    ]


async def test_every_request_of_a_rehearsed_agent_keeps_the_rules(lyra: Path) -> None:
    desk = office()
    result = result_of(await desk.delegate("Explain this project.", "codebase_investigator"))
    assert result["summary_of_findings"].startswith(NOTICE)
    assert "Lyra counts stars." in result["summary_of_findings"]
    assert result["exploration_trace"][0].startswith("list_directory(path='.'): Directory listing")
    assert str(lyra / "README.md") in {each["file_path"] for each in result["relevant_locations"]}
    assert desk.conforming()
    assert len(desk.generator.requests) == 3


async def test_the_introspection_agent_answers_from_the_documentation(project: Path) -> None:
    desk = office()
    result = result_of(await desk.delegate("What is the denyMessage?", "introspection_agent"))
    assert "From policy.md, “Policies”:" in result
    assert "`denyMessage` | what the model is told" in result
    names = {"get_internal_docs", "complete_task"}
    assert {event.name for event in desk.responses()} == names | {"delegate_to_agent"}
    nothing = result_of(await desk.delegate("Xylophone?", "introspection_agent"))
    assert "No section of the documentation shares a word" in nothing
    assert "- headless.md: Running unattended, What may run" in nothing


async def test_at_the_turn_limit_what_was_found_is_handed_over(lyra: Path) -> None:
    desk = office(agents=(worker(tools=("list_directory", "glob", "read_file"), max_turns=1),))
    result = result_of(await desk.delegate("list src; describe this folder"))
    assert "This was the last turn; not everything was done. Still to call: read_file." in result
    assert len(desk.generator.requests) == 2


@pytest.mark.parametrize(
    "form",
    [
        {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        {"type": "string", "enum": ["yes", "no"]},
        {"type": "integer"},
    ],
)
async def test_a_result_that_rules_cannot_give_is_not_made_up(
    lyra: Path, form: dict[str, Any]
) -> None:
    desk = office(agents=(worker(tools=("read_file",), result_schema=form),))
    done = await desk.delegate("read README.md")
    assert done.status is Status.ERROR
    assert "asks for a result of a form that these rules cannot give" in (done.response.error or "")
    assert "Lyra counts stars." in (done.response.error or "")


async def test_a_result_takes_the_form_that_is_asked_for(lyra: Path) -> None:
    text = {"type": "string"}
    form = {
        "type": "object",
        "properties": {
            "answer": text,
            "files": {"type": "array", "items": text},
            "sure": {"type": "boolean"},
        },
        "required": ["answer", "files"],
    }
    desk = office(agents=(worker(tools=("read_file", "list_directory"), result_schema=form),))
    result = result_of(await desk.delegate("read README.md and src/use.py"))
    assert set(result) == {"answer", "files"}
    assert "`src/use.py` has 2 lines" in result["answer"]
    assert result["files"] == [str(lyra / "README.md"), str(lyra / "src" / "use.py")]


def asked(
    *contents: Content,
    schema: dict[str, Any] | None = None,
    tools: tuple[str, ...] = ("read_file",),
) -> GenerateContentRequest:
    """A request of an agent whose result has this schema."""
    complete = FunctionDeclaration(
        name="complete_task",
        description="x",
        parameters_json_schema={
            "type": "object",
            "properties": {"result": schema or {"type": "string"}},
            "required": ["result"],
        },
    )
    return GenerateContentRequest(
        model="rehearsal",
        contents=tuple(map(EncodedContent, contents)),
        config=GenerateContentConfig(
            tools=(Tool(function_declarations=(*map(declaration, tools), complete)),)
        ),
    )


async def calls_of(request: GenerateContentRequest) -> list[FunctionCall]:
    answer = await RehearsalGenerator().generate(request)
    return [part.function_call for part in answer.parts if part.function_call]


async def test_a_nudge_is_no_request_of_its_own(project: Path) -> None:
    objective = text_content(USER, "read README.md")
    opening = (text_content(USER, "Today is Monday."), text_content(MODEL, "Got it."))
    for before in ((), opening):
        for between in ((), (text_content(MODEL, f"{NOTICE}\n\nIt is short."),)):
            request = asked(*before, objective, *between, text_content(USER, NUDGE))
            (made,) = await calls_of(request)
            assert made.name == "complete_task"
            result = (made.args or {})["result"]
            assert "Still to call: read_file." in result
            assert "No rule covers" not in result


async def test_an_objective_about_complete_task_is_an_objective(project: Path) -> None:
    words = "Where is `complete_task` called?"
    request = asked(
        text_content(USER, "Today is Monday."),
        text_content(MODEL, "Got it."),
        text_content(USER, words),
        tools=("search_file_content", "read_file"),
    )
    made = await calls_of(request)
    assert ("search_file_content", "complete_task") in [
        (each.name, (each.args or {}).get("pattern")) for each in made
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"output": "submitted"}, "The result is handed over."),
        ({"error": "no"}, "I could not hand the result over: `complete_task` answered: no"),
    ],
)
async def test_after_the_result_there_is_nothing_left_to_do(
    body: dict[str, Any], said: str
) -> None:
    made = FunctionCall(id="1", name="complete_task", args={"result": "x"})
    response = FunctionResponse(id="1", name="complete_task", response=body)
    request = asked(
        text_content(USER, "read none"),
        Content(role=MODEL, parts=(Part(function_call=made),)),
        Content(role=USER, parts=(Part(function_response=response),)),
    )
    answer = await RehearsalGenerator().generate(request)
    assert said in "".join(part.text or "" for part in answer.parts)
    assert not [part for part in answer.parts if part.function_call]


OBJECTIVES = st.one_of(
    st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=150),
    st.lists(
        st.sampled_from(
            [
                "Where is `count_stars` defined", "find README.md", "src/stars.py", "read nothing.py",
                "explain this project", "How does Sky work", "list src", "grep (", "call glob with x",
                "run `ls`", 'replace "a" with "b" in README.md', "use complete_task with done",
            ]
        ),
        min_size=1,
        max_size=15,
    ).map("; ".join),
).filter(str.strip)  # fmt: skip


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(OBJECTIVES, st.sampled_from(sorted(SCHEMAS)))
async def test_any_objective_ends_in_one_report_of_the_agents_form(
    lyra: Path, objective: str, agent: str
) -> None:
    desk = office()
    result = result_of(await desk.delegate(objective, agent))
    wrapped = {"type": "object", "properties": {"result": SCHEMAS[agent]}, "required": ["result"]}
    assert problem_with(wrapped, {"result": result}) is None
    assert NOTICE in json.dumps(result)
    handed = [event for event in desk.responses() if event.name == "complete_task"]
    assert [event.status for event in handed] == ["success"]
    assert desk.conforming()
