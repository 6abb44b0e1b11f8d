"""Budgets of a session: no request past a limit, and finished work stays."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.agent.limits import (
    CostLimitError,
    LimitError,
    TimeLimitError,
    TokenLimitError,
    read_limits,
)
from alhena.agent.limits.budget import BudgetedGenerator, Ledger
from alhena.config.settings import BudgetSettings, settings_of
from alhena.errors import ConfigError, NetworkError, ServerFaultError
from alhena.events import ApiResponseEvent, RunFinishedEvent, RunStartedEvent, ToolCallUpdateEvent
from alhena.models.prices import Prices
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.policy.model import ApprovalMode
from alhena.tools.builtin.ask_user import Answers
from alhena.tools.contract import Question
from alhena.values import FieldError, Limits
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import UsageMetadata
from tests.agent.kit import agent, conforming, events_of
from tests.support.agents import scripted_agent
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk

PRO = "gemini-2.5-pro"


def usage_script(
    *parts: dict[str, Any], prompt: int = 900, output: int = 100, **more: int
) -> Script:
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": output, **more}
    counts["totalTokenCount"] = prompt + output + more.get("thoughtsTokenCount", 0)
    return [chunk(*parts, finish="STOP") | {"usageMetadata": counts}]


def look(n: int, **counts: int) -> Script:
    return usage_script(call("list_directory", {"path": ".", "n": n}), **counts)


def text_with_usage(text: str, **counts: int) -> Script:
    return usage_script({"text": text}, **counts)


async def test_past_the_token_limit_nothing_is_asked_and_every_call_is_answered(project: Path):
    generator = ScriptedGenerator(*(look(n) for n in range(9)))
    async with agent(generator, max_tokens=3_000) as running:
        events, error = await events_of(running, "go")
        assert isinstance(error, TokenLimitError)
        assert (error.kind, error.exit_code) == ("token_limit", 53)
        assert events[-1].reason == "token_limit"
        assert len(generator.requests) == 3
        assert running.history[-1].parts[0].function_response is not None
        _, error = await events_of(running, "again")
        assert isinstance(error, TokenLimitError)
    assert len(generator.requests) == 3
    assert conforming(generator)


async def test_money_is_counted_by_the_table_with_thoughts_as_output(project: Path):
    turns = [look(n, prompt=10_000, output=500, thoughtsTokenCount=500) for n in range(9)]
    generator = ScriptedGenerator(*turns)
    async with agent(generator, model=PRO, max_cost=0.05) as running:
        _, error = await events_of(running, "go")
        spending = running.toolset.spending
    assert isinstance(error, CostLimitError)
    assert "$0.05" in error.message
    each = (10_000 * 1.25 + 1_000 * 10) / 1e6
    assert len(generator.requests) == 3
    assert spending.cost() == pytest.approx(3 * each)


async def test_a_limit_of_cost_for_a_model_without_a_price_is_an_error_at_the_start():
    generator = ScriptedGenerator()
    with pytest.raises(ConfigError, match="price of m is not known") as caught:
        async with agent(generator, model="m", max_cost=1.0):
            pass
    assert caught.value.exit_code == 52
    assert "model.prices" in str(caught.value)
    own = settings_of(
        {"model": {"prices": {"m": {"input": 1, "output": 1}}, "budget": {"maxCost": 1}}}, "test"
    )
    async with agent(
        ScriptedGenerator(text_with_usage("fine")), model="m", settings=own
    ) as running:
        assert await running.ask("go") == "fine"


@pytest.mark.parametrize("name", ["max_tokens", "max_seconds", "max_cost"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
async def test_a_limit_that_is_none_is_refused(name: str, value: Any):
    with pytest.raises((ConfigError, FieldError), match=name.removeprefix("max_")):
        async with agent(ScriptedGenerator(), model=PRO, **{name: value}):
            pass


async def test_a_price_that_is_none_is_an_error_at_the_start():
    bad = settings_of({"model": {"prices": {"m": {"input": -1, "output": 1}}}}, "test")
    with pytest.raises(ConfigError, match="price of m"):
        async with agent(ScriptedGenerator(), settings=bad):
            pass


async def test_what_tools_ask_of_the_model_is_on_the_same_account(project: Path):
    generator = ScriptedGenerator(
        usage_script(call("google_web_search", {"query": "x"})),
        text_with_usage("found", prompt=5_000),
        text_with_usage("done"),
    )
    async with agent(generator, max_tokens=4_000, approval_mode=ApprovalMode.YOLO) as running:
        _, error = await events_of(running, "go")
    assert isinstance(error, TokenLimitError)
    assert len(generator.requests) == 2


async def test_a_subagent_spends_from_the_same_account_and_ends_with_it(project: Path):
    objective = {"agent_name": "codebase_investigator", "objective": "look"}
    generator = ScriptedGenerator(
        usage_script(call("delegate_to_agent", objective)), *(look(n) for n in range(9))
    )
    async with agent(generator, max_tokens=3_500, approval_mode=ApprovalMode.YOLO) as running:
        events, error = await events_of(running, "go")
    assert isinstance(error, TokenLimitError)
    assert len(generator.requests) == 4
    roles = [event.role for event in events if isinstance(event, ApiResponseEvent)]
    assert roles == ["main", "subagent", "subagent", "subagent"]
    assert conforming(generator)


async def test_every_attempt_is_a_request_and_one_that_breaks_off_is_paid(project: Path):
    broken: Script = [*look(1), NetworkError("gone")]
    inner = ScriptedGenerator(broken, broken, broken, text_with_usage("late"))

    async def at_once(_seconds: float) -> None:
        pass

    retrying = RetryingGenerator(inner, RetryPolicy(), sleep=at_once)
    settings = {"generator": retrying, "max_tokens": 2_000}
    async with scripted_agent(**settings) as running:
        _, error = await events_of(running, "go")
    assert isinstance(error, TokenLimitError)
    assert len(inner.requests) == 2


@pytest.mark.parametrize("answers", [["Continue", "Continue", "Stop"], [None], ["Stop"]])
async def test_a_person_may_go_on_for_as_much_again(project: Path, answers: list[str | None]):
    asked: list[Question] = []

    async def ask(questions: tuple[Question, ...]) -> Answers | None:
        answer = answers[len(asked)]
        asked.extend(questions)
        return None if answer is None else {0: answer}

    generator = ScriptedGenerator(*(look(n) for n in range(20)))
    async with agent(generator, max_tokens=2_000, ask=ask) as running:
        _, error = await events_of(running, "go")
    assert isinstance(error, TokenLimitError)
    assert len(generator.requests) == 2 * len(answers)
    assert asked[0].question.startswith("The run reached the limit of 2,000 tokens")
    assert len(asked) == len(answers)


async def test_the_turn_limits_ask_too(project: Path):
    asked: list[Question] = []

    async def ask(questions: tuple[Question, ...]) -> Answers | None:
        asked.extend(questions)
        return {0: "Continue"}

    session = settings_of({"model": {"maxSessionTurns": 4}}, "test")
    generator = ScriptedGenerator(*(look(n) for n in range(5)), text_with_usage("done"))
    async with agent(generator, max_turns=3, settings=session, ask=ask) as running:
        assert await running.ask("go") == "done"
    assert len(asked) == 2


def ledger(clock: list[float], ask: Any = None, **limits: Any) -> Ledger:
    return Ledger(
        read_limits(Limits(), BudgetSettings(**limits)), Prices({}), ask, lambda: clock[0]
    )


STARTED = RunStartedEvent(session_id="s", model="m", cwd="/")
FINISHED = RunFinishedEvent(reason="done", text="", turns=1, duration_ms=1.0)


def update(call_id: str, status: str) -> ToolCallUpdateEvent:
    return ToolCallUpdateEvent(call_id=call_id, name="t", status=status)


async def test_time_is_that_of_a_run_without_the_time_people_take():
    clock = [0.0]
    account = ledger(clock, max_seconds=10)
    clock[0] = 100.0
    await account.admit("m")  # between runs no time passes
    account.feed(STARTED)
    clock[0] += 6
    account.feed(update("a", "awaiting_approval"))
    account.feed(update("b", "awaiting_approval"))
    clock[0] += 50
    account.feed(update("a", "scheduled"))
    clock[0] += 50
    account.feed(update("b", "cancelled"))
    assert account.seconds == 6
    await account.admit("m")
    clock[0] += 4
    with pytest.raises(TimeLimitError, match="10 seconds"):
        await account.admit("m")
    account.feed(FINISHED)
    account.feed(STARTED)
    await account.admit("m")


async def test_those_that_wait_side_by_side_are_asked_about_once():
    clock, asked = [0.0], 0

    async def ask(_questions: tuple[Question, ...]) -> Answers | None:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return {0: "Stop"}

    account = ledger(clock, ask, max_tokens=10)
    account.charge("m", UsageMetadata(total_token_count=11))
    tried = await asyncio.gather(*(account.admit("m") for _ in range(5)), return_exceptions=True)
    assert asked == 1
    assert all(isinstance(error, TokenLimitError) for error in tried)
    account.feed(STARTED)
    with pytest.raises(TokenLimitError):
        await account.admit("m")
    assert asked == 2


async def test_another_model_without_a_price_is_not_asked():
    account = ledger([0.0], max_cost=1)
    account.require_price(PRO)
    await account.admit(PRO)
    with pytest.raises(CostLimitError, match="request to m, whose price"):
        await account.admit("m")


async def test_what_fails_without_a_count_costs_nothing_and_counting_tokens_neither():
    inner = ScriptedGenerator([ServerFaultError("down", status=503)])
    account = ledger([0.0], max_tokens=10)
    generator = BudgetedGenerator(inner, account)
    request = GenerateContentRequest(model="m", contents=())
    with pytest.raises(ServerFaultError):
        await generator.generate(request)
    assert await generator.count_tokens((), model="m") == 0
    assert account.tokens == 0
    account.charge("m", UsageMetadata(total_token_count=10))
    assert await generator.count_tokens((), model="m") == 0
    for ask in (generator.generate(request), generator.embed((), model="m")):
        with pytest.raises(LimitError):
            await ask
    assert len(inner.requests) == 1


@given(st.lists(st.integers(1, 400), max_size=30), st.integers(1, 2_000))
def test_no_request_leaves_once_the_limit_is_reached(takes: list[int], limit: int):
    async def play() -> None:
        account = ledger([0.0], max_tokens=limit)
        spent = 0
        for tokens in takes:
            try:
                await account.admit("m")
            except TokenLimitError:
                assert spent >= limit
                return
            assert spent < limit
            account.charge("m", UsageMetadata(total_token_count=tokens))
            spent += tokens

    asyncio.run(play())
