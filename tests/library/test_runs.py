"""`Agent` from the outside: awaited and iterated runs, results, usage, synchronous calls."""

import asyncio
import logging
import threading
from pathlib import Path
from typing import get_type_hints

import pytest

from alhena import Agent, AgentOptions, Limits, tool
from alhena.agent.limits import BusyError, TurnLimitError
from alhena.errors import InterruptedRunError
from alhena.events import RunFinishedEvent, RunStartedEvent
from alhena.wire.content import Part
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

USAGE = {
    "promptTokenCount": 100,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 5,
    "cachedContentTokenCount": 40,
}


@tool
def double(number: int) -> int:
    """Doubles a number."""
    return number * 2


def calling(*finals: str) -> ScriptedGenerator:
    turns = [[chunk(call("double", {"number": 4}), finish="STOP", usage=USAGE)]]
    return ScriptedGenerator(*turns, *([text(final)] for final in finals))


@pytest.mark.requirement("LIB-03")
async def test_an_awaited_run_gives_what_came_of_it(project: Path):
    async with Agent(calling("8"), tools=[double], cwd=project) as agent:
        result = await agent.run("double 4")
    assert (result.output, result.text, result.stop_reason) == ("8", "8", "done")
    assert result.session_id == agent.session_id
    assert [content.role for content in result.new_contents] == ["user", "model", "user", "model"]
    usage = result.usage
    assert (usage.requests, usage.tool_calls) == (2, 1)
    assert (usage.input_tokens, usage.cached_tokens) == (100, 40)
    assert (usage.output_tokens, usage.thought_tokens) == (20, 5)
    assert repr(result) == "Result(output='8', stop_reason='done')"


@pytest.mark.requirement("LIB-03")
async def test_usage_adds_up_over_runs_and_tells_the_price_where_it_is_known(project: Path):
    generator = ScriptedGenerator(*([[chunk({"text": "x"}, finish="STOP", usage=USAGE)]] * 2))
    generator.name = "gemini-2.5-flash"  # pyright: ignore[reportAttributeAccessIssue]
    async with Agent(generator, cwd=project) as agent:
        first, second = (await agent.run("a")).usage, (await agent.run("b")).usage
    assert first == second
    assert agent.usage.input_tokens == 200
    assert (first + second).cost_usd == pytest.approx(agent.usage.cost_usd)
    assert agent.usage.cost_usd is not None
    assert agent.usage.cost_usd > 0


@pytest.mark.requirement("LIB-03")
async def test_an_iterated_run_can_be_awaited_for_its_result(project: Path):
    async with Agent(calling("8"), tools=[double], cwd=project) as agent:
        run = agent.run("double 4")
        events = [event async for event in run]
        assert isinstance(events[0], RunStartedEvent)
        assert isinstance(events[-1], RunFinishedEvent)
        assert (await run).output == "8"


@pytest.mark.requirement("LIB-03")
async def test_a_run_that_is_left_has_stopped_when_its_block_ends(project: Path):
    told: list[str] = []
    began = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        try:
            began.set()
            await asyncio.sleep(60)
        finally:
            told.append("ended")
        return ""

    generator = ScriptedGenerator([chunk(call("wait", {}), finish="STOP")], [text("next")])
    async with Agent(generator, tools=[wait], cwd=project) as agent:
        async with agent.run("go") as run:
            async for event in run:
                if getattr(event, "status", "") == "executing":
                    await began.wait()
                    break
        assert told == ["ended"]
        assert (await run).stop_reason == "interrupted"
        assert await agent.ask("again") == "next"


async def test_an_agent_whose_cancelled_run_still_ends_is_busy_for_others(project: Path):
    began, ending, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        try:
            began.set()
            await asyncio.sleep(60)
        finally:
            ending.set()
            await go_on.wait()
        return ""

    generator = ScriptedGenerator([chunk(call("wait", {}), finish="STOP")], [text("next")])
    agent = Agent(generator, tools=[wait], cwd=project)
    first = asyncio.create_task(agent.ask("go"))
    await began.wait()
    first.cancel()
    await ending.wait()
    second = asyncio.create_task(agent.ask("and?"))
    for _ in range(5):  # it has found out that the run has ended, and waits for its tools
        await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    with pytest.raises(BusyError, match="at work on another prompt"):
        await second
    assert await agent.ask("again") == "next"


async def test_a_run_that_never_started_is_told_of(project: Path):
    async with Agent(ScriptedGenerator(), cwd=project) as agent:
        with pytest.warns(RuntimeWarning, match="never started"):
            agent.run("go")


@pytest.mark.requirement("LIB-03")
async def test_calls_that_were_denied_are_in_the_result(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("run_shell_command", {"command": "rm x"}, id="c1"), finish="STOP")],
        [text("No.")],
    )
    async with Agent(generator, cwd=project, approve=lambda _request: False) as agent:
        result = await agent.run("go")
    (denied,) = result.denied
    assert (denied.call_id, denied.name, denied.args) == (
        "c1",
        "run_shell_command",
        {"command": "rm x"},
    )
    assert denied.reason


@pytest.mark.requirement("LIB-03")
async def test_an_answer_that_the_service_cut_says_so(project: Path):
    async with Agent(ScriptedGenerator([text("Once", "MAX_TOKENS")]), cwd=project) as agent:
        result = await agent.run("tell")
    assert result.stop_reason == "cut"
    assert any("MAX_TOKENS" in each for each in result.warnings)


@pytest.mark.requirement("LIB-03")
async def test_the_error_of_a_limit_holds_the_result_until_then(project: Path):
    async with Agent(calling(), tools=[double], cwd=project, limits=Limits(turns=1)) as agent:
        with pytest.raises(TurnLimitError) as caught:
            await agent.run("double 4")
    result = caught.value.result
    assert result.stop_reason == "limit"
    assert result.usage.tool_calls == 1


async def test_an_interrupted_run_holds_its_result_too(project: Path):
    @tool
    async def stop() -> str:
        """Stops the run."""
        agent.interrupt()
        await asyncio.sleep(60)
        return ""

    generator = ScriptedGenerator([chunk(call("stop", {}), finish="STOP")])
    async with Agent(generator, tools=[stop], cwd=project) as agent:
        with pytest.raises(InterruptedRunError) as caught:
            await agent.run("go")
    assert caught.value.result.stop_reason == "interrupted"


@pytest.mark.requirement("LIB-03")
def test_synchronous_calls_open_the_agent_each_time_and_its_history_goes_on(project: Path):
    generator = ScriptedGenerator([text("one")], [text("two")])
    agent = Agent(generator, cwd=project)
    assert agent.ask_sync("first") == "one"
    session_id = agent.session_id
    assert agent.run_sync("second").output == "two"
    assert agent.session_id == session_id
    assert agent.usage.requests == 2
    said = [part["text"] for content in generator.seen(1) for part in content["parts"]]
    assert said[-3:] == ["first", "one", "second"]


@pytest.mark.requirement("LIB-03")
def test_an_agent_that_is_not_recorded_goes_on_too(project: Path):
    generator = ScriptedGenerator([text("one")], [text("two")])
    agent = Agent(generator, cwd=project, options=AgentOptions(record=False))
    agent.ask_sync("first")
    agent.ask_sync("second")
    said = [part["text"] for content in generator.seen(1) for part in content["parts"]]
    assert said[-3:] == ["first", "one", "second"]
    assert len(agent.history) == len(generator.seen(1)) + 1


@pytest.mark.requirement("LIB-03")
def test_with_keeps_one_session_open_for_synchronous_calls(project: Path):
    with Agent(ScriptedGenerator([text("one")], [text("two")]), cwd=project) as agent:
        assert agent.ask_sync("first") == "one"
        assert agent.run_sync("second").output == "two"
        assert threading.active_count() > 1
    assert not [thread for thread in threading.enumerate() if thread.name == "alhena"]


@pytest.mark.requirement("LIB-03")
async def test_synchronous_calls_work_where_a_loop_runs_already(project: Path):
    assert Agent(ScriptedGenerator([text("one")]), cwd=project).ask_sync("go") == "one"


@pytest.mark.requirement("LIB-03")
async def test_an_agent_without_a_block_is_opened_for_the_run(project: Path):
    agent = Agent(ScriptedGenerator([text("one")], [text("two")]), cwd=project)
    assert (await agent.run("go")).output == "one"
    assert [type(event) async for event in agent.run("on")][-1] is RunFinishedEvent
    assert len(agent.history) > 3


@pytest.mark.requirement("LIB-03")
async def test_a_synchronous_call_that_would_block_its_own_loop_is_refused(project: Path):
    async with Agent(ScriptedGenerator([text("one")]), cwd=project) as agent:
        with pytest.raises(BusyError, match=r"await agent\.run"):
            agent.run_sync("go")
        assert await asyncio.to_thread(agent.ask_sync, "go") == "one"


async def test_an_agent_belongs_to_the_loop_that_opened_it(project: Path):
    async with Agent(ScriptedGenerator([text("one")]), cwd=project) as agent:

        def elsewhere() -> None:
            asyncio.run(agent.ask("go"))

        with pytest.raises(BusyError, match="another event loop"):
            await asyncio.to_thread(elsewhere)


def test_outside_of_any_loop_of_asyncio_it_says_what_to_do():
    with pytest.raises(BusyError, match="asyncio"):
        Agent("demo").__aenter__().send(None)


def test_a_conversation_goes_to_json_and_back(project: Path):
    first = Agent(calling("8"), tools=[double], cwd=project)
    first.ask_sync("double 4")
    kept = first.history_json()
    generator = ScriptedGenerator([text("yes")])
    second = Agent(generator, tools=[double], cwd=project, history=kept)
    second.ask_sync("sure?")
    assert second.history[: len(first.history)] == first.history


async def test_texts_and_parts_reach_the_model_in_their_order(project: Path):
    generator = ScriptedGenerator([text("ok")])
    parts = [Part(text="before"), "the prompt", Part(text="after"), "more"]
    async with Agent(generator, cwd=project) as agent:
        await agent.ask(parts)
    said = [part["text"] for part in generator.seen(0)[-1]["parts"]]
    assert said == ["before", "the prompt", "after", "more"]


async def test_warnings_about_files_are_in_the_result_the_agent_and_the_log(
    project: Path, home: Path, caplog: pytest.LogCaptureFixture
):
    settings = home / ".gemini/settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"tools": {"coreTools": 5}}', encoding="utf-8")
    with caplog.at_level(logging.WARNING, "alhena"):
        async with Agent(ScriptedGenerator([text("ok")]), cwd=project) as agent:
            result = await agent.run("go")
    assert any("coreTools" in each for each in result.warnings)
    assert result.warnings == agent.warnings
    assert any("coreTools" in record.getMessage() for record in caplog.records)


def test_the_annotations_of_agent_can_be_read():
    hints = get_type_hints(Agent.__init__)
    assert hints["limits"] == Limits | None
