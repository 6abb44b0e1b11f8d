"""Plan mode through a whole session: what the policy says and what the model is shown follow."""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.agent.runner import SessionRunner
from alhena.agent.toolset.authority import SessionMode
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.scheduler.question import Answer, Approver, ConfirmationRequest
from alhena.tools.contract import ExitPlanModeConfirmation
from alhena.wire.conformance.check import check_request
from alhena.wire.errors import Severity
from tests.agent.delegating import Office
from tests.agent.kit import answers, turn
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text


def planning_agent(
    generator: ScriptedGenerator, approve: Approver | None, mode: ApprovalMode
) -> SessionRunner:
    settings = {"generator": generator, "approval_mode": mode}
    return scripted_agent(approve=approve, **settings)


def declared_names(generator: ScriptedGenerator, index: int) -> set[str]:
    return set(generator.requests[index].config.function_names())


def system(generator: ScriptedGenerator, index: int) -> str:
    instruction: Any = generator.requests[index].config.system_instruction
    return instruction.parts[0].text


def prefix(generator: ScriptedGenerator, index: int) -> bytes:
    """All that goes before the conversation in a request, as it is sent."""
    config = generator.requests[index].config
    return msgspec.json.encode((config.system_instruction, config.tools))


WRITE = call("write_file", {"file_path": "x", "content": "y"}, id="w")


@pytest.mark.requirement("COST-02")
@pytest.mark.parametrize("mode", [ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO])
async def test_a_session_plans_and_then_works_in_the_mode_it_came_from(
    project: Path, home: Path, mode: ApprovalMode
):
    asked: list[ConfirmationRequest] = []

    def approve(request: ConfirmationRequest) -> bool:
        asked.append(request)
        return True

    generator = ScriptedGenerator(
        turn(call("enter_plan_mode", {"reason": "large"}, id="e")),
        turn(WRITE),
        turn(call("exit_plan_mode", {"plan": "# The plan"}, id="p")),
        turn(WRITE),
        [text("done")],
    )
    async with planning_agent(generator, approve, mode) as running:
        assert running._session is not None
        modes = running._session.bench.authority.modes
        assert await running.ask("go") == "done"
        assert modes.mode is mode
    assert declared_names(generator, 0) >= {"enter_plan_mode", "exit_plan_mode", "write_file"}
    assert "# Plan mode" not in system(generator, 0)
    assert len({prefix(generator, index) for index in range(5)}) == 1
    (entered,) = answers(generator, 1)
    assert entered["output"].startswith("Switching to Plan mode.\n\n# Plan mode\n")
    assert "`exit_plan_mode`" in entered["output"]
    assert "Plan mode only reads" in answers(generator, 2)[0]["error"]
    assert answers(generator, 3)[0]["output"].startswith("Plan approved.")
    assert "output" in answers(generator, 4)[0]
    assert (project / "x").exists()
    plan = next(each for each in asked if each.tool_name == "exit_plan_mode")
    assert isinstance(plan.details, ExitPlanModeConfirmation)
    assert (plan.details.plan, plan.details.next_mode) == ("# The plan", mode)
    kept = Path(plan.details.plan_path)
    assert kept.is_relative_to(home / ".gemini" / "tmp")
    assert kept.read_text(encoding="utf-8").startswith("# The plan")
    names = [each.tool_name for each in asked]
    assert names == {
        ApprovalMode.DEFAULT: ["enter_plan_mode", "exit_plan_mode", "write_file"],
        ApprovalMode.AUTO_EDIT: ["enter_plan_mode", "exit_plan_mode"],
        ApprovalMode.YOLO: ["exit_plan_mode"],
    }.get(mode)
    contents = [request.contents for request in generator.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(contents))
    found = [item for sent in generator.requests for item in check_request(sent)]
    assert not [item for item in found if item.level is Severity.ERROR]


async def test_a_plan_that_is_not_approved_leaves_everything_as_it_is(project: Path, home: Path):
    generator = ScriptedGenerator(
        turn(call("exit_plan_mode", {"plan": "# Bad"}, id="p"), WRITE), [text("ok")]
    )
    async with planning_agent(
        generator, lambda request: Answer.no("think again"), ApprovalMode.PLAN
    ) as running:
        assert running._session is not None
        modes = running._session.bench.authority.modes
        await running.ask("go")
        assert modes.planning
    assert "did not allow" in answers(generator, 1)[0]["error"]
    assert not list((home / ".gemini").rglob("plan-*.md"))
    assert not (project / "x").exists()


async def test_an_approved_plan_lets_later_calls_of_the_same_turn_run(project: Path):
    generator = ScriptedGenerator(
        turn(call("exit_plan_mode", {"plan": "# Good"}, id="p"), call("list_directory", {})),
        turn(WRITE),
        [text("ok")],
    )
    async with planning_agent(generator, lambda request: True, ApprovalMode.PLAN) as running:
        assert running._session is not None
        modes = running._session.bench.authority.modes
        await running.ask("go")
        assert modes.mode is ApprovalMode.DEFAULT
    assert (project / "x").exists()


@pytest.mark.parametrize("mode", list(ApprovalMode))
async def test_with_nobody_to_approve_a_plan_the_tools_are_not_there(
    project: Path, mode: ApprovalMode
):
    generator = ScriptedGenerator(
        turn(call("enter_plan_mode", {}, id="e"), call("exit_plan_mode", {"plan": "# P"}, id="p")),
        [text("ok")],
    )
    async with planning_agent(generator, None, mode) as running:
        assert running._session is not None
        modes = running._session.bench.authority.modes
        await running.ask("go")
        assert modes.mode is mode
    assert not declared_names(generator, 0) & {"enter_plan_mode", "exit_plan_mode"}
    assert all("not found" in answer["error"] for answer in answers(generator, 1))


def test_what_is_always_denied_stays_hidden_through_every_mode(project: Path):
    office = Office(
        ScriptedGenerator(),
        policy=(PolicyRule(decision=PolicyOutcome.DENY, priority=500, tool_names=("glob",)),),
        approve=lambda request: True,
    )
    bench = office.bench
    for mode in (ApprovalMode.PLAN, ApprovalMode.DEFAULT, ApprovalMode.PLAN, ApprovalMode.YOLO):
        bench.authority.modes.switch(mode)
        bench.hide_denied()
        assert "glob" not in bench.registry.names
        assert "read_file" in bench.registry.names
        assert "write_file" in bench.registry.names


def test_listeners_hear_of_changes_only():
    modes = SessionMode(ApprovalMode.AUTO_EDIT)
    heard: list[ApprovalMode] = []
    modes.subscribe(lambda: heard.append(modes.mode))
    modes.switch(ApprovalMode.AUTO_EDIT)
    modes.leave_plan_mode()
    modes.enter_plan_mode()
    modes.enter_plan_mode()
    assert modes.next_mode == "autoEdit"
    modes.leave_plan_mode()
    modes.switch(ApprovalMode.YOLO)
    assert heard == [ApprovalMode.PLAN, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO]


def last_texts(generator: ScriptedGenerator, index: int) -> list[str]:
    """The texts of the content that a request ends with."""
    content = generator.requests[index].contents[-1].content
    return [part.text or "" for part in content.parts]


@pytest.mark.requirement("COST-02")
@pytest.mark.parametrize("mode", [ApprovalMode.DEFAULT, ApprovalMode.YOLO])
async def test_a_person_who_switches_the_mode_changes_nothing_before_the_conversation(
    project: Path, mode: ApprovalMode
):
    order = [mode, ApprovalMode.PLAN, ApprovalMode.PLAN, mode, ApprovalMode.AUTO_EDIT]
    generator = ScriptedGenerator(*([text(f"answer {index}")] for index in range(len(order))))
    async with planning_agent(generator, lambda request: True, mode) as running:
        assert running._session is not None
        modes = running._session.bench.authority.modes
        for each in order:
            modes.switch(each)
            await running.ask("go")
    assert len({prefix(generator, index) for index in range(len(order))}) == 1
    notes = [last_texts(generator, index)[:-1] for index in range(len(order))]
    assert [len(each) for each in notes] == [0, 1, 0, 1, 0]
    assert notes[1][0].startswith("# Plan mode\n")
    assert notes[3] == ["Plan mode is off: work as before it."]
    contents = [request.contents for request in generator.requests]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(contents))


async def test_a_section_that_a_variable_takes_away_leaves_one_line_of_plan_mode(project: Path):
    generator = ScriptedGenerator([text("ok")])
    variables = {**os.environ, "GEMINI_PROMPT_PLANNINGWORKFLOW": "0"}
    running = scripted_agent(
        approve=lambda request: True,
        generator=generator,
        approval_mode=ApprovalMode.PLAN,
        environ=variables,
    )
    async with running:
        await running.ask("go")
    assert last_texts(generator, 0) == ["# Plan mode\nPlan mode is on.", "go"]
