"""Another model answers when the session's own cannot (WIRE-18)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from alhena import tool
from alhena.agent.runner import SessionRunner
from alhena.agent.toolset.model_access import FallbackConsent, fallback_mode
from alhena.config.settings import GeneralSettings, ModelSection, Settings
from alhena.errors import NetworkError
from alhena.events import (
    ApiRequestEvent,
    ModelFallbackEvent,
    RetryEvent,
    RunFinishedEvent,
    RunStartedEvent,
)
from alhena.models.catalogue import FLASH, FLASH_LITE, PRO
from alhena.models.errors import CapacityError, DailyQuotaError
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.policy.model import ApprovalMode
from alhena.tools.contract import Question
from alhena.wire.conformance.check import check_request
from alhena.wire.content import SIGNATURE_SENTINEL
from alhena.wire.errors import Severity
from tests.agent.kit import events_of, of
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

DAILY = DailyQuotaError("the daily quota is used up.", status=429)
CROWDED = CapacityError("no room.", status=503)
STEP = [chunk(call("note", {"key": "a"}, id="c1", thoughtSignature="c2ln"), finish="STOP")]
Ask = Callable[[tuple[Question, ...]], Awaitable[dict[int, str] | None]]


@tool
def note(key: str) -> str:
    """Keeps a key."""
    return f"kept {key}"


class Answering:
    """A person who answers every question alike, or none."""

    def __init__(self, answer: str | None) -> None:
        self.questions: list[Question] = []
        self._answer = answer

    async def __call__(self, questions: tuple[Question, ...]) -> dict[int, str] | None:
        self.questions += questions
        return None if self._answer is None else {0: self._answer}


def running(
    script: ScriptedGenerator,
    model: str = PRO,
    mode: Any = "always",
    ask: Ask | None = None,
) -> SessionRunner:
    async def pause(_seconds: float) -> None:
        return

    generator = RetryingGenerator(script, RetryPolicy(), sleep=pause, chance=lambda: 0)
    settings = {
        "generator": generator,
        "approval_mode": ApprovalMode.YOLO,
        "settings": Settings(model=ModelSection(fallback=mode), general=GeneralSettings()),
        "ask": ask,
    }
    return scripted_agent(model=model, tools=[note], **settings)


def sent_to(script: ScriptedGenerator) -> list[str]:
    return [request.model for request in script.requests]


def conforming(script: ScriptedGenerator, *, signed: bool) -> bool:
    last = script.requests[-1]
    found = check_request(last, needs_signatures=signed)
    return not any(item.level is Severity.ERROR for item in found)


@pytest.mark.requirement("WIRE-18", "CHAT-02")
async def test_a_pending_tool_response_reaches_the_model_that_takes_over():
    script = ScriptedGenerator(STEP, [DAILY], [text("done")], [text("again")])
    async with running(script) as agent:
        events, error = await events_of(agent, "go")
        assert error is None
        assert sent_to(script) == [PRO, PRO, FLASH]
        before, after = script.seen(1), script.seen(2)
        assert after[-1] == before[-1]
        assert after[-1]["parts"][0]["functionResponse"]["id"] == "c1"
        assert before[-2]["parts"][0]["thoughtSignature"] == "c2ln"
        assert after[-2]["parts"][0]["thoughtSignature"] == SIGNATURE_SENTINEL
        assert conforming(script, signed=True)
        (told,) = of(events, ModelFallbackEvent)
        assert (told.instead_of, told.model) == (PRO, FLASH)
        assert told.error_type == "daily_quota"
        assert [e.model for e in of(events, ApiRequestEvent)] == sent_to(script)
        assert of(events, RunFinishedEvent)[0].text == "done"

        assert agent.model == FLASH
        events, _ = await events_of(agent, "more")
        assert of(events, RunStartedEvent)[0].model == FLASH
        assert sent_to(script)[-1] == FLASH


async def test_a_model_that_wants_signatures_gets_its_own_thinking_and_the_sentinel():
    script = ScriptedGenerator(STEP, [DAILY], [text("done")])
    async with running(script, "gemini-2.5-flash-lite") as agent:
        _, error = await events_of(agent, "go")
    assert error is None
    assert sent_to(script)[-1] == FLASH_LITE
    assert script.seen(2)[-2]["parts"][0]["thoughtSignature"] == SIGNATURE_SENTINEL
    assert conforming(script, signed=True)


async def test_thinking_settings_follow_the_model_also_past_a_change_of_the_approval_mode():
    script = ScriptedGenerator([DAILY], [text("one")], [text("two")])
    async with running(script, "gemini-2.5-flash-lite") as agent:
        await events_of(agent, "go")
        agent.toolset.authority.modes.switch(ApprovalMode.DEFAULT)
        await events_of(agent, "go on")
    budgets = [
        request.config.generation_config.thinking_config
        for request in script.requests
        if request.config.generation_config is not None
    ]
    assert [bool(each and each.thinking_budget) for each in budgets] == [True, False, False]
    assert [each and each.include_thoughts for each in budgets] == [True, True, True]
    assert sent_to(script)[1:] == [FLASH_LITE, FLASH_LITE]


async def test_without_anybody_to_ask_no_other_model_answers():
    script = ScriptedGenerator([DAILY])
    async with running(script, mode="ask") as agent:
        events, error = await events_of(agent, "go")
    assert isinstance(error, DailyQuotaError)
    assert not of(events, ModelFallbackEvent)
    assert sent_to(script) == [PRO]


@pytest.mark.parametrize(
    ("answer", "models"),
    [
        (f"Continue with {FLASH}", [PRO, FLASH]),
        ("Stop", [PRO]),
        ("something else", [PRO]),
        (None, [PRO]),
    ],
)
async def test_a_person_decides_where_there_is_one(answer: str | None, models: list[str]):
    person = Answering(answer)
    script = ScriptedGenerator([DAILY], [text("done")])
    async with running(script, mode="ask", ask=person) as agent:
        events, error = await events_of(agent, "go")
    assert sent_to(script) == models
    assert (error is None) == (len(models) == 2)
    assert [event.asked for event in of(events, ModelFallbackEvent)] == [True] * (len(models) - 1)
    assert "daily quota" in person.questions[0].question


async def test_never_means_never():
    person = Answering(f"Continue with {FLASH}")
    script = ScriptedGenerator([DAILY])
    async with running(script, mode="never", ask=person) as agent:
        _, error = await events_of(agent, "go")
    assert isinstance(error, DailyQuotaError)
    assert not person.questions


async def test_a_model_without_room_is_asked_twice_more_before_another_one_is():
    script = ScriptedGenerator(*[[CROWDED]] * 3, [text("done")])
    async with running(script) as agent:
        events, error = await events_of(agent, "go")
    assert error is None
    assert [event.delay_s for event in of(events, RetryEvent)] == [1, 3]
    assert sent_to(script) == [PRO] * 3 + [FLASH]


async def test_a_model_without_room_that_nobody_can_replace_is_waited_for():
    script = ScriptedGenerator(*[[CROWDED]] * 4, [text("done")])
    async with running(script, mode="ask") as agent:
        events, error = await events_of(agent, "go")
    assert error is None
    assert [event.delay_s for event in of(events, RetryEvent)] == [1, 3, 5, 10]


async def test_text_of_the_model_that_failed_is_void():
    script = ScriptedGenerator([chunk({"text": "half"}), DAILY], [text("whole")])
    async with running(script) as agent:
        events, _ = await events_of(agent, "go")
    assert of(events, ModelFallbackEvent)[0].retract
    assert of(events, RunFinishedEvent)[0].text == "whole"


async def test_the_chain_ends_with_the_error_of_its_last_model():
    script = ScriptedGenerator([DAILY], [DailyQuotaError("flash is used up too.", status=429)])
    async with running(script) as agent:
        _, error = await events_of(agent, "go")
    assert str(error) == "flash is used up too."
    assert len(sent_to(script)) == 2


async def test_a_network_that_is_down_is_no_reason_for_another_model():
    script = ScriptedGenerator(*[[NetworkError("down")]] * 10)
    async with running(script) as agent:
        events, error = await events_of(agent, "go")
    assert isinstance(error, NetworkError)
    assert not of(events, ModelFallbackEvent)


@pytest.mark.parametrize(
    ("model", "given", "mode"),
    [
        ("auto", "ask", "always"),
        ("auto-gemini-3", "ask", "always"),
        ("auto", "never", "never"),
        (PRO, "ask", "ask"),
        ("autonomous-model", "ask", "ask"),
    ],
)
def test_who_leaves_the_choice_to_us_leaves_the_change_to_us(model: str, given: Any, mode: str):
    assert fallback_mode(given, model) == mode


async def test_who_agreed_for_a_model_is_not_asked_for_it_again():
    person = Answering("Continue with flash")
    consent = FallbackConsent(person)
    both = await asyncio.gather(*(consent.obtain("pro", "flash", "why.") for _ in range(2)))
    assert both == [True, True]
    assert len(person.questions) == 1
    assert not await consent.obtain("pro", "lite", "why.")
    assert not await FallbackConsent(None).obtain("pro", "flash", "why.")


@pytest.mark.requirement("WIRE-18")
async def test_a_long_wait_for_room_is_no_reason_to_wait_when_another_model_can_answer():
    far = CapacityError("no room.", status=503, retry_after_s=200)
    script = ScriptedGenerator([far], [text("ok")])
    async with running(script) as agent:
        events, error = await events_of(agent, "go")
    assert error is None
    assert not [event for event in events if isinstance(event, RetryEvent)]
    assert [request.model for request in script.requests] == [
        PRO,
        FLASH,
    ]


async def test_another_model_has_all_its_attempts():
    cut = [chunk({"text": "half"})]
    script = ScriptedGenerator(cut, cut, cut, [DAILY], cut, cut, cut, [text("ok")])
    async with running(script) as agent:
        events, error = await events_of(agent, "go")
    assert error is None
    assert len([event for event in events if isinstance(event, RetryEvent)]) == 6
