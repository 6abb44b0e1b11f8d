import asyncio
from pathlib import Path
from typing import Any

import pytest

from alhena import tool
from alhena.agent.limits import BusyError, TurnLimitError
from alhena.errors import InputError, InterruptedRunError, ServerFaultError
from alhena.events import (
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    WarningEvent,
)
from alhena.policy.model import ApprovalMode
from tests.agent.kit import agent, conforming, events_of
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


async def test_past_the_turn_limit_every_call_is_answered_and_the_session_goes_on():
    turns = [[chunk(call("list_directory", {"path": "."}), finish="STOP")] for _ in range(2)]
    generator = ScriptedGenerator(*turns, [text("fresh")])
    async with agent(generator, max_turns=2) as running:
        events, error = await events_of(running, "loop")
        assert isinstance(error, TurnLimitError)
        assert events[-1].reason == "turn_limit"
        assert await running.ask("again") == "fresh"
    assert len(generator.requests) == 3
    assert conforming(generator)


async def test_a_failure_behind_tool_results_keeps_what_happened():
    generator = ScriptedGenerator(
        [chunk(call("list_directory", {"path": "."}, id="1"), finish="STOP")],
        [ServerFaultError("down", status=503)],
        [text("up")],
    )
    async with agent(generator) as running:
        _, error = await events_of(running, "one")
        assert isinstance(error, ServerFaultError)
        assert await running.ask("two") == "up"
    roles = [content["role"] for content in generator.seen(2)]
    assert roles == ["user", "model", "user", "model", "user", "model", "user"]
    assert conforming(generator)


async def test_an_interrupted_tool_is_stopped_and_its_call_answered(project: Path):
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits for ever."""
        started.set()
        await asyncio.Event().wait()
        return "never"

    generator = ScriptedGenerator(
        [chunk(call("wait", {}, id="1"), call("wait", {}, id="2"), finish="STOP")], [text("on")]
    )
    async with agent(generator, tools=[wait]) as running:
        reading = asyncio.ensure_future(events_of(running, "go"))
        await started.wait()
        assert running.interrupt() is True
        assert running.interrupt() is False
        events, error = await reading
        assert isinstance(error, InterruptedRunError)
        assert events[-1].reason == "interrupted"
        ended = [event for event in events if isinstance(event, ToolCallResponseEvent)]
        assert sorted((event.call_id, event.status) for event in ended) == [
            ("1", "cancelled"),
            ("2", "cancelled"),
        ]
        assert await running.ask("next") == "on"
    assert conforming(generator)
    assert "[Operation Cancelled]" in str(generator.seen(1)[4])


async def test_leaving_the_iteration_stops_the_run():
    started, stopped = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    generator = ScriptedGenerator([chunk(call("wait", {}), finish="STOP")], [text("on")])
    async with agent(generator, tools=[wait]) as running:
        iteration = running.run("go")
        async for event in iteration:
            if isinstance(event, ToolCallRequestEvent):
                break
        await started.wait()
        await iteration.aclose()
        assert stopped.is_set()
        assert await running.ask("next") == "on"
    assert conforming(generator)


async def test_of_two_prompts_that_wait_for_the_end_of_a_run_that_was_left_one_is_refused():
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits for ever, and ends slowly."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.2)
        return "never"

    generator = ScriptedGenerator([chunk(call("wait", {}), finish="STOP")], [text("on")])
    async with agent(generator, tools=[wait]) as running:
        left = asyncio.ensure_future(running.ask("go"))
        await started.wait()
        left.cancel()
        await asyncio.sleep(0)  # it is being ended
        asked = [running.ask(prompt) for prompt in ("next", "another")]
        answer, refusal = await asyncio.gather(*asked, return_exceptions=True)
    assert answer == "on"
    assert isinstance(refusal, BusyError)


async def test_a_run_that_was_left_does_not_stand_in_the_way_of_the_next_prompt():
    generator = ScriptedGenerator(
        [chunk(call("list_directory", {"path": "."}), finish="STOP")], [text("on")], [text("off")]
    )
    async with agent(generator) as running:
        async for event in running.run("go"):
            if isinstance(event, ToolCallRequestEvent):
                break
        assert await running.ask("next") == "on"
    assert conforming(generator)


@pytest.mark.parametrize("pause", range(6))
@pytest.mark.parametrize("times", [2, 5])
async def test_however_often_a_run_is_cancelled_every_call_is_answered(times: int, pause: int):
    started = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Takes its time to stop."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
        return "never"

    generator = ScriptedGenerator(
        [chunk(call("stubborn", {}, id="1"), finish="STOP")], [text("on")]
    )
    async with agent(generator, tools=[stubborn]) as running:
        asking = asyncio.ensure_future(running.ask("go"))
        await started.wait()
        for _ in range(times):
            asking.cancel()
            for _ in range(pause):
                await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await running.ask("next") == "on"
    assert conforming(generator)
    assert "[Operation Cancelled]" in str(generator.seen(1)[4])


@pytest.mark.parametrize("prompt", ["", " \n", 5, None, ["a"], b"x"])
async def test_what_is_no_prompt_is_refused(prompt: Any):
    async with agent(ScriptedGenerator()) as running:
        with pytest.raises(InputError):
            await running.ask(prompt)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "TOO_MANY_TOOL_CALLS", "SAFETY"])
async def test_calls_of_a_turn_that_the_service_withdraws_are_not_carried_out(
    project: Path, reason: str
):
    part = call("write_file", {"file_path": "x", "content": "y"})
    generator = ScriptedGenerator([chunk(part, finish=reason)], [text("on")])
    async with agent(generator, approval_mode=ApprovalMode.YOLO) as running:
        _, error = await events_of(running, "go")
        assert error is not None
        assert await running.ask("next") == "on"
    assert not (project / "x").exists()
    assert conforming(generator)


@pytest.mark.parametrize(
    "reason",
    ["MAX_TOKENS", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "OTHER"],
)
async def test_a_warning_tells_of_an_answer_that_was_cut(reason: str):
    generator = ScriptedGenerator([text("as far as", finish=reason)])
    async with agent(generator) as running:
        events, error = await events_of(running, "go")
    assert error is None
    (warning,) = [event.message for event in events if isinstance(event, WarningEvent)]
    assert f"({reason})" in warning
    assert events[-1] == RunFinishedEvent(
        reason="done",
        text="as far as",
        turns=1,
        duration_ms=events[-1].duration_ms,
        finish_reason=reason,
    )


async def test_an_open_agent_cannot_be_opened_again():
    async with agent(ScriptedGenerator()) as running:
        with pytest.raises(BusyError):
            async with running:
                pass
        assert running.session_id


async def test_an_agent_takes_one_prompt_at_a_time_and_only_while_open():
    generator = ScriptedGenerator([text("a")])
    running = agent(generator)
    with pytest.raises(BusyError):
        await running.ask("closed")
    async with running:
        iteration = running.run("one")
        assert isinstance(await anext(iteration), RunStartedEvent)
        with pytest.raises(BusyError):
            await anext(running.run("two"))
        await iteration.aclose()
