"""Limits of a session count its subagents, and end the run that started them."""

from pathlib import Path
from typing import Any

import pytest

from alhena.agent.limits import CostLimitError, TokenLimitError, TurnLimitError
from alhena.config.settings import settings_of
from alhena.errors import AlhenaError, NetworkError
from alhena.events import RunFinishedEvent
from alhena.policy.model import ApprovalMode
from alhena.tools.builtin.ask_user import Answers
from alhena.tools.contract import Question
from tests.agent.delegating import complete_task_call, worker
from tests.agent.kit import conforming, events_of, turn
from tests.support.agents import scripted_agent
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, text


def delegate(count: int = 1) -> Script:
    return turn(
        *(
            call("delegate_to_agent", {"agent_name": "worker", "objective": f"look {n}"})
            for n in range(count)
        )
    )


def look(n: int) -> Script:
    return turn(call("list_directory", {"path": ".", "n": n}))


def running(generator: ScriptedGenerator, **options: Any) -> Any:
    agents = options.pop("agents", (worker(),))
    yolo = ApprovalMode.YOLO
    return scripted_agent(generator, agents=agents, approval_mode=yolo, **options)


@pytest.mark.parametrize("agents", [1, 2, 3])
@pytest.mark.parametrize("turns", [1, 2, 3, 5])
@pytest.mark.parametrize("key", ["max_turns", "maxSessionTurns"])
async def test_no_request_of_a_subagent_leaves_past_the_limit_of_turns(
    project: Path, key: str, turns: int, agents: int
):
    generator = ScriptedGenerator(delegate(agents), *(look(n) for n in range(20)))
    given: dict[str, Any] = {key: turns}
    if key == "maxSessionTurns":
        given = {"settings": settings_of({"model": given}, "test")}
    async with running(generator, **given) as session:
        events, error = await events_of(session, "go")
        assert isinstance(error, TurnLimitError)
        assert (error.kind, error.exit_code) == ("turn_limit", 53)
        assert len(generator.requests) == turns
        answers = [part.function_response for part in session.history[-1].parts]
        assert len(answers) == agents
        assert None not in answers
    assert isinstance(events[-1], RunFinishedEvent)
    assert (events[-1].reason, events[-1].turns) == ("turn_limit", turns)
    assert conforming(generator)


async def test_an_agent_past_the_limit_says_what_it_found(project: Path):
    generator = ScriptedGenerator(
        delegate(), turn({"text": "It is in b.py."}, call("list_directory", {"path": "."}))
    )
    async with running(generator, max_turns=2) as session:
        await events_of(session, "go")
        (answer,) = (part.function_response for part in session.history[-1].parts)
    assert answer is not None
    assert answer.response == {
        "error": "Subagent 'worker' did not complete its task.\n"
        "Termination Reason: SESSION_LIMIT\n"
        "The run reached the limit of 2 turns for one prompt.\n"
        "What it said last:\nIt is in b.py."
    }


async def test_an_agent_that_ends_with_the_last_turn_leaves_none_for_the_run(project: Path):
    generator = ScriptedGenerator(delegate(), complete_task_call("found"), [text("late")])
    async with running(generator, max_turns=2) as session:
        _, error = await events_of(session, "go")
    assert isinstance(error, TurnLimitError)
    assert len(generator.requests) == 2


async def test_the_last_turn_in_which_an_agent_reports_counts_too(project: Path):
    generator = ScriptedGenerator(delegate(), look(1), complete_task_call("late"))
    async with running(generator, max_turns=2, agents=(worker(max_turns=1),)) as session:
        _, error = await events_of(session, "go")
    assert isinstance(error, TurnLimitError)
    assert len(generator.requests) == 2


async def test_turns_within_the_limit_are_not_refused_and_the_next_prompt_has_its_own(
    project: Path,
):
    once = (delegate(), look(1), complete_task_call("found"), [text("Done.")])
    generator = ScriptedGenerator(*once, *once)
    async with running(generator, max_turns=4) as session:
        assert await session.ask("go") == "Done."
        assert await session.ask("again") == "Done."


@pytest.mark.parametrize("choice", ["Stop", "Continue", None])
async def test_agents_side_by_side_are_asked_about_once(project: Path, choice: str | None):
    asked: list[Question] = []

    async def ask(questions: tuple[Question, ...]) -> Answers | None:
        asked.extend(questions)
        return {0: choice} if choice and len(asked) == 1 else None

    generator = ScriptedGenerator(delegate(3), *(look(n) for n in range(20)))
    async with running(generator, max_turns=3, ask=ask) as session:
        _, error = await events_of(session, "go")
    assert isinstance(error, TurnLimitError)
    goes_on = choice == "Continue"
    assert (len(asked), len(generator.requests)) == ((2, 6) if goes_on else (1, 3))


@pytest.mark.parametrize(
    ("limit", "kind"), [({"max_cost": 1.0}, CostLimitError), ({"max_tokens": 1}, TokenLimitError)]
)
async def test_a_budget_that_ends_an_agent_ends_its_run(
    project: Path, limit: dict[str, Any], kind: type[AlhenaError]
):
    """Also where only the agent's model has no price."""
    generator = ScriptedGenerator(delegate(), look(1), [text("late")])
    agents = (worker(model="m-without-price"),)
    model = "gemini-2.5-pro"
    async with running(generator, model=model, agents=agents, **limit) as session:
        events, error = await events_of(session, "go")
    assert isinstance(error, kind)
    assert len(generator.requests) == 1
    assert isinstance(events[-1], RunFinishedEvent)
    assert events[-1].reason == error.kind
    assert conforming(generator)


async def test_a_prompt_that_continues_has_had_the_turns_of_its_subagents(project: Path):
    generator = ScriptedGenerator(
        delegate(), look(1), complete_task_call("found"), [NetworkError("gone")]
    )
    async with running(generator, record=True) as session:
        _, error = await events_of(session, "go")
        assert isinstance(error, NetworkError)
    again = ScriptedGenerator([text("Done.")])
    async with running(again, record=True, resume="latest", proceeds=True, max_turns=3) as session:
        _, error = await events_of(session, "go")
    assert isinstance(error, TurnLimitError)
    async with running(again, record=True, resume="latest", proceeds=True, max_turns=4) as session:
        assert await session.ask("go") == "Done."
