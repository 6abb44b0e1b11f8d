"""A model that goes in circles: told so once, then ended, and what is left of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from alhena import tool
from alhena.agent.limits import LoopError
from alhena.config.settings import settings_of
from alhena.errors import InterruptedRunError
from alhena.events import (
    ApiErrorEvent,
    ApiRequestEvent,
    LoopCheckEvent,
    LoopDetectedEvent,
    ToolCallResponseEvent,
)
from alhena.models.catalogue import FLASH, PRO
from alhena.scheduler.states import CallStatus
from alhena.tools.builtin.ask_user import Answers
from alhena.tools.contract import Question
from tests.agent.delegating import Office, complete_task_call, turn, worker
from tests.agent.kit import agent, conforming, events_of
from tests.scheduler.kit import response_of
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk, text

LOOK: Script = [chunk(call("list_directory", {"path": "."}), finish="STOP")]
CHANT = "I will now look at the file again to be sure of it. "


def loop_notices(events: list[Any]) -> list[tuple[str, str]]:
    return [(e.kind, e.action) for e in events if isinstance(e, LoopDetectedEvent)]


async def test_a_loop_is_told_to_the_model_beside_the_results_and_it_may_go_on(project: Path):
    generator = ScriptedGenerator(*[LOOK] * 5, [text("I see.")])
    async with agent(generator) as running:
        events, error = await events_of(running, "go")
    assert error is None
    assert loop_notices(events) == [("consecutive_identical_tool_calls", "corrected")]
    parts = generator.seen(5)[-1]["parts"]
    assert "functionResponse" in parts[0]
    assert parts[1]["text"].startswith("System: you seem to be going in circles: `list_directory`")
    assert all("circles" not in json.dumps(generator.seen(n)) for n in range(5))
    assert conforming(generator)


async def test_a_second_loop_ends_the_run_and_the_session_goes_on(project: Path):
    generator = ScriptedGenerator(*[LOOK] * 10, [text("fresh")])
    async with agent(generator) as running:
        events, error = await events_of(running, "go")
        assert isinstance(error, LoopError)
        assert (error.kind, error.exit_code) == ("loop_detected", 1)
        assert events[-1].reason == "loop_detected"
        assert events[-2].error_type == "loop_detected"
        assert [action for _, action in loop_notices(events)] == ["corrected", "ended"]
        assert await running.ask("again") == "fresh"
    assert conforming(generator)
    assert len([e for e in events if isinstance(e, ToolCallResponseEvent)]) == 10


async def test_each_prompt_is_warned_anew(project: Path):
    generator = ScriptedGenerator(*[LOOK] * 6, [text("one")], *[LOOK] * 6, [text("two")])
    async with agent(generator) as running:
        assert await running.ask("a") == "one"
        events, error = await events_of(running, "b")
    assert error is None
    assert [action for _, action in loop_notices(events)] == ["corrected"]


async def test_paging_through_a_big_file_never_trips_it(project: Path):
    (project / "big.txt").write_text("the same line\n" * 10_000, encoding="utf-8")
    pages: list[Script] = [
        [
            chunk(
                call("read_file", {"absolute_path": "big.txt", "offset": n * 50, "limit": 50}),
                finish="STOP",
            )
        ]
        for n in range(200)
    ]
    generator = ScriptedGenerator(*pages, [text("read")])
    async with agent(generator, max_turns=-1) as running:
        events, error = await events_of(running, "read it")
    assert error is None
    assert loop_notices(events) == []
    assert len(generator.requests) == 201


async def test_guesses_at_an_edit_that_all_fail_alike_are_stopped(project: Path):
    (project / "a.txt").write_text("text\n", encoding="utf-8")

    @tool
    async def guess(word: str) -> str:
        """Guesses."""
        raise ValueError("0 occurrences found")

    script: list[Script] = [
        [chunk(call("guess", {"word": f"w{n}"}), finish="STOP")] for n in range(20)
    ]
    generator = ScriptedGenerator(*script)
    async with agent(generator, tools=[guess]) as running:
        events, error = await events_of(running, "go")
    assert isinstance(error, LoopError)
    assert loop_notices(events) == [
        ("repeated_tool_error", "corrected"),
        ("repeated_tool_error", "ended"),
    ]


@pytest.mark.parametrize("answer", ["Continue", "Stop", None])
async def test_a_person_decides_whether_a_loop_goes_on(project: Path, answer: str | None):
    asked: list[Question] = []

    async def ask(questions: tuple[Question, ...]) -> Answers | None:
        asked.extend(questions)
        return None if answer is None else {0: answer}

    generator = ScriptedGenerator(*[LOOK] * 30, [text("at last")])
    async with agent(generator, ask=ask) as running:
        events, error = await events_of(running, "go")
    assert len(asked) == 1
    assert "`list_directory` was called again and again" in asked[0].question
    if answer == "Continue":
        assert error is None
        assert loop_notices(events)[-1][1] == "ignored"
        assert len(generator.requests) == 31
    else:
        assert isinstance(error, LoopError)
        assert len(generator.requests) == 10
    assert conforming(generator)


@pytest.mark.parametrize("chants", [False, True])
async def test_who_interrupts_the_question_leaves_every_call_answered(project: Path, chants: bool):
    asked = asyncio.Event()

    async def ask(_questions: tuple[Question, ...]) -> Answers | None:
        asked.set()
        await asyncio.Event().wait()
        return None

    chant: Script = [chunk({"text": CHANT * 100})]
    loops = [chant, chant] if chants else [LOOK] * 10
    generator = ScriptedGenerator(*loops, [text("fresh")])
    async with agent(generator, ask=ask) as running:
        reading = asyncio.ensure_future(events_of(running, "go"))
        await asked.wait()
        running.interrupt()
        _, error = await reading
        assert isinstance(error, InterruptedRunError)
        assert await running.ask("again") == "fresh"
    assert conforming(generator)


async def test_it_can_be_turned_off(project: Path):
    generator = ScriptedGenerator(*[LOOK] * 40, [text(CHANT * 100)])
    off = settings_of({"model": {"disableLoopDetection": True}}, "test")
    async with agent(generator, settings=off) as running:
        events, error = await events_of(running, "go")
    assert error is None
    assert loop_notices(events) == []


async def test_an_answer_that_chants_is_broken_off_and_the_model_told(project: Path):
    pieces = [chunk({"text": CHANT * 5}) for _ in range(40)]
    generator = ScriptedGenerator([chunk({"text": "Right. "}), *pieces], [text("Done.")])
    async with agent(generator) as running:
        events, error = await events_of(running, "go")
        said = running.history
    assert error is None
    assert generator.closed_early == 1
    assert loop_notices(events) == [("chanting_identical_sentences", "corrected")]
    assert events[-1].text == "Done."
    assert not any(isinstance(event, ApiErrorEvent) for event in events)
    kept = "".join(part.text or "" for part in said[-3].parts)
    assert kept.startswith("Right. ")
    assert kept.endswith("[The answer was broken off here: it repeated itself.]")
    assert kept.count(CHANT) < 3
    assert 'going in circles: "…' in (said[-2].parts[0].text or "")
    assert conforming(generator)


async def test_a_second_chant_ends_the_run_with_a_history_that_holds(project: Path):
    chant: Script = [chunk({"text": CHANT * 100}, finish="STOP")]
    generator = ScriptedGenerator(chant, chant, [text("fresh")])
    async with agent(generator) as running:
        _, error = await events_of(running, "go")
        assert isinstance(error, LoopError)
        assert await running.ask("again") == "fresh"
    assert conforming(generator)


async def test_a_chant_behind_tool_results_keeps_them(project: Path):
    generator = ScriptedGenerator(LOOK, [chunk({"text": CHANT * 100})], [text("Done.")])
    async with agent(generator) as running:
        assert await running.ask("go") == "Done."
    roles = [content["role"] for content in generator.seen(2)]
    assert roles == ["user", "model", "user", "model", "user", "model", "user"]
    assert conforming(generator)


def verdict(confidence: Any, analysis: str = "It reads the same.") -> Script:
    told_so = {
        "unproductive_state_analysis": analysis,
        "unproductive_state_confidence": confidence,
    }
    return [text(json.dumps(told_so))]


def steps(count: int, start: int = 0) -> list[Script]:
    """Turns that no comparison finds to be a loop."""
    return [
        [chunk(call("list_directory", {"path": ".", "n": n}, id=f"c{n}"), finish="STOP")]
        for n in range(start, start + count)
    ]


CHECKED = settings_of({"model": {"loopCheckTurns": 30}}, "test")


async def test_a_model_is_asked_after_thirty_turns_and_the_surer_it_is_the_sooner_again(
    project: Path,
):
    generator = ScriptedGenerator(
        *steps(30), verdict(0.0), *steps(15, 30), verdict(0.8), *steps(7, 45), verdict("?"),
        *steps(14, 52), [text("done")]
    )  # fmt: skip
    async with agent(generator, settings=CHECKED, model="m", max_turns=-1) as running:
        events, error = await events_of(running, "go")
    assert error is None
    checks = [event for event in events if isinstance(event, LoopCheckEvent)]
    assert [(check.model, check.confidence) for check in checks] == [("m", 0.0), ("m", 0.8)]
    roles = [event.role for event in events if isinstance(event, ApiRequestEvent)]
    assert [at for at, role in enumerate(roles) if role == "utility_loop_detector"] == [30, 46, 54]
    request = generator.requests[30]
    assert len(request.contents) <= 22
    assert request.config.tools is None
    assert request.config.generation_config is not None
    assert request.config.generation_config.response_mime_type == "application/json"
    assert "judge only this" in generator.seen(30)[-1]["parts"][0]["text"]
    assert conforming(generator)


async def test_a_quick_model_is_asked_first_and_both_have_to_be_sure(project: Path):
    generator = ScriptedGenerator(
        *steps(30), verdict(0.95), verdict(0.5), *steps(6, 30), verdict(1.0),
        verdict(0.92, "It reads\nthe same files."), *steps(5, 36), verdict(1.0), verdict(1.0)
    )  # fmt: skip
    async with agent(generator, settings=CHECKED, model=PRO, max_turns=-1) as running:
        events, error = await events_of(running, "go")
    assert isinstance(error, LoopError)
    assert [request.model for request in generator.requests[30:32]] == [
        FLASH,
        PRO,
    ]
    assert loop_notices(events) == [
        ("llm_detected_loop", "corrected"),
        ("llm_detected_loop", "ended"),
    ]
    sent = json.dumps([generator.seen(n)[-1] for n in range(len(generator.requests))])
    assert "in circles: It reads the same files." in sent


async def test_nobody_is_asked_unless_the_settings_say_so(project: Path):
    generator = ScriptedGenerator(*steps(80), [text("done")])
    async with agent(generator, max_turns=-1) as running:
        assert await running.ask("go") == "done"
    assert len(generator.requests) == 81


async def test_a_subagent_has_its_own_warning_and_its_own_end(project: Path):
    look = turn(call("list_directory", {"path": "."}))
    office = Office(
        ScriptedGenerator(*[look] * 10, complete_task_call("What I have.")), agents=(worker(),)
    )
    answer = await office.delegate()
    assert answer.status is CallStatus.SUCCESS
    assert response_of(answer)["output"].endswith("What I have.")
    loops = [event for event in office.events if isinstance(event, LoopDetectedEvent)]
    assert [(loop.action, loop.role) for loop in loops] == [
        ("corrected", "subagent"),
        ("ended", "subagent"),
    ]
    assert "going in circles" in json.dumps(office.generator.seen(5)[-1])
    assert "went in circles" in json.dumps(office.generator.seen(10)[-1])
    assert office.conforming()


async def test_a_subagent_that_chants_to_the_end_fails_with_the_reason(project: Path):
    chant = [chunk({"text": CHANT * 100})]
    office = Office(ScriptedGenerator(chant, chant, chant), agents=(worker(),))
    answer = await office.delegate()
    assert answer.status is CallStatus.ERROR
    assert "Termination Reason: LOOP_DETECTED" in response_of(answer)["error"]
    assert office.conforming()
