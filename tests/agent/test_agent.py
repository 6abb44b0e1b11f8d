import asyncio
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, ToolConfirmationOutcome, tool
from alhena.agent.errors import BusyError, TurnLimitError
from alhena.agent.options import AgentSettings
from alhena.errors import AlhenaError, InputError, InterruptedRunError
from alhena.events import (
    Event,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
)
from alhena.models.errors import ServerFaultError
from alhena.policy.model import ApprovalMode
from alhena.scheduler.confirm import ConfirmationRequest
from alhena.tools.contract import Kind
from alhena.wire.conformance import check_request
from alhena.wire.violation import Level
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def agent(generator: ScriptedGenerator, **options: Any) -> Agent:
    """An agent over a script. Options of AgentSettings and of Agent alike."""
    names = ("approve", "tools", "policy", "cwd", "model")
    own = {name: options.pop(name) for name in names if name in options}
    return Agent(**own, settings=AgentSettings(generator=generator, **options))


async def events_of(running: Agent, prompt: str) -> tuple[list[Event], AlhenaError | None]:
    found: list[Event] = []
    try:
        async for event in running.run(prompt):
            found.append(event)
    except AlhenaError as error:
        return found, error
    return found, None


def kinds(events: list[Event]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in events]


def conforming(generator: ScriptedGenerator) -> bool:
    found = (item for request in generator.requests for item in check_request(request))
    return not any(item.level is Level.ERROR for item in found)


@pytest.mark.requirement("CHAT-05")
async def test_a_session_starts_with_the_environment_and_its_acknowledgement(project: Path):
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("x", encoding="utf-8")
    generator = ScriptedGenerator([text("hello")], [text("again")])
    async with agent(generator) as running:
        assert await running.ask("hi") == "hello"
        assert await running.ask("more") == "again"
    context, acknowledgement, prompt = generator.seen(0)
    assert context["role"] == "user"
    assert str(project) in context["parts"][0]["text"]
    assert "a.py" in context["parts"][0]["text"]
    assert acknowledgement == {
        "role": "model",
        "parts": [{"text": "Got it. Thanks for the context!"}],
    }
    assert prompt == {"role": "user", "parts": [{"text": "hi"}]}
    assert generator.seen(1)[:3] == [context, acknowledgement, prompt]
    assert [content["parts"][0]["text"] for content in generator.seen(1)[3:]] == ["hello", "more"]
    assert conforming(generator)


@pytest.mark.requirement("CHAT-01", "WIRE-15")
async def test_calls_run_and_their_results_are_what_the_model_sees_next(project: Path):
    (project / "a.txt").write_text("alpha", encoding="utf-8")
    generator = ScriptedGenerator(
        [
            chunk(
                {"text": "Reading"},
                call("read_file", {"absolute_path": "a.txt"}, id="1"),
                call("nope", {}, id="2"),
                call("list_directory", {"path": 7}, id="3"),
                finish="STOP",
            )
        ],
        [text("It says alpha.")],
    )
    async with agent(generator) as running:
        events, error = await events_of(running, "read")
    assert error is None
    assert kinds(events)[:2] == ["init", "user_message"]
    requests = [event for event in events if isinstance(event, ToolCallRequestEvent)]
    responses = [event for event in events if isinstance(event, ToolCallResponseEvent)]
    assert [event.call_id for event in requests] == ["1", "2", "3"]
    assert sorted(event.call_id for event in responses) == ["1", "2", "3"]
    results = [part["functionResponse"] for part in generator.seen(1)[-1]["parts"]]
    assert [(result["id"], result["name"]) for result in results] == [
        ("1", "read_file"),
        ("2", "nope"),
        ("3", "list_directory"),
    ]
    assert results[0]["response"] == {"output": "alpha"}
    assert 'Tool "nope" not found' in results[1]["response"]["error"]
    assert "path" in results[2]["response"]["error"]
    assert events[-1] == RunFinishedEvent(
        reason="done", text="It says alpha.", turns=2, duration_ms=events[-1].duration_ms
    )
    assert conforming(generator)


async def test_what_needs_approval_is_denied_without_a_callback_and_not_declared(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("write_file", {"file_path": "x", "content": "y"}), finish="STOP")],
        [text("no")],
    )
    async with agent(generator) as running:
        events, _ = await events_of(running, "write")
    assert "write_file" not in generator.requests[0].config.function_names()
    assert 'Tool "write_file" not found' in str(generator.seen(1)[-1])
    assert not (project / "x").exists()
    denied = [event for event in events if isinstance(event, ToolCallResponseEvent)]
    assert [event.decision for event in denied] == ["reject"]


@pytest.mark.parametrize(
    ("answer", "written"),
    [
        (True, True),
        (ToolConfirmationOutcome.PROCEED_ONCE, True),
        (False, False),
        (ToolConfirmationOutcome.CANCEL, False),
        ("yes", False),
        (RuntimeError("the callback broke"), False),
    ],
)
async def test_the_approval_callback_decides_and_silence_is_never_consent(
    project: Path, answer: object, written: bool
):
    asked: list[ConfirmationRequest] = []

    def approve(request: ConfirmationRequest) -> Any:
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    generator = ScriptedGenerator(
        [chunk(call("write_file", {"file_path": "x", "content": "y"}), finish="STOP")],
        [text("done")],
    )
    async with agent(generator, approve=approve) as running:
        await running.ask("write")
    assert [request.tool_name for request in asked] == ["write_file"]
    assert asked[0].decision.reason
    assert (project / "x").exists() is written
    assert ("error" in generator.seen(1)[-1]["parts"][0]["functionResponse"]["response"]) is (
        not written
    )


async def test_always_holds_for_the_rest_of_the_session_and_for_that_command_only(project: Path):
    asked: list[str] = []

    async def approve(request: ConfirmationRequest) -> ToolConfirmationOutcome:
        asked.append(request.args["command"])
        return ToolConfirmationOutcome.PROCEED_ALWAYS

    def shell(command: str) -> list[dict[str, Any]]:
        return [chunk(call("run_shell_command", {"command": command}), finish="STOP")]

    generator = ScriptedGenerator(
        shell("touch one"), shell("touch one"), shell("touch two"), [text("done")]
    )
    async with agent(generator, approve=approve) as running:
        await running.ask("go")
    assert asked == ["touch one", "touch two"]
    assert (project / "two").exists()


async def test_python_functions_are_tools_behind_the_same_gate():
    ran: list[str] = []

    @tool
    def asks(word: str) -> str:
        """Says a word."""
        ran.append(word)
        return word.upper()

    @tool(confirm=False, kind=Kind.READ)
    async def free(count: int) -> list[int]:
        """Counts."""
        return list(range(count))

    calls = chunk(call("asks", {"word": "a"}), call("free", {"count": 2}), finish="STOP")
    generator = ScriptedGenerator([calls], [text("done")])
    async with agent(generator, tools=[asks, free]) as running:
        await running.ask("go")
    results = [part["functionResponse"] for part in generator.seen(1)[-1]["parts"]]
    assert "error" in results[0]["response"]
    assert results[1]["response"] == {"output": "[0,1]"}
    assert ran == []
    generator = ScriptedGenerator([calls], [text("done")])
    async with agent(generator, tools=[asks, free], approve=lambda _: True) as running:
        await running.ask("go")
    results = [part["functionResponse"] for part in generator.seen(1)[-1]["parts"]]
    assert results[0]["response"] == {"output": "A"}
    assert ran == ["a"]


async def test_plan_mode_changes_nothing_even_with_an_eager_callback(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("write_file", {"file_path": "x", "content": "y"}), finish="STOP")],
        [text("planned")],
    )
    async with agent(generator, approve=lambda _: True, approval_mode=ApprovalMode.PLAN) as running:
        await running.ask("write")
    assert not (project / "x").exists()
    instruction = generator.requests[0].config.system_instruction
    assert instruction is not None
    assert "Plan mode" in str(instruction.parts[0].text)


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


async def test_a_failed_prompt_leaves_no_trace_and_the_error_comes_last():
    generator = ScriptedGenerator(
        [chunk({"text": "half"}), ServerFaultError("down", status=503)], [text("up")]
    )
    async with agent(generator) as running:
        events, error = await events_of(running, "one")
        assert isinstance(error, ServerFaultError)
        assert kinds(events)[-3:] == ["api_error", "error", "result"]
        assert await running.ask("two") == "up"
    assert [content["parts"][0]["text"] for content in generator.seen(1)[2:]] == ["two"]


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

    @tool(confirm=False)
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

    @tool(confirm=False)
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

    @tool(confirm=False)
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


async def test_a_history_can_be_carried_into_another_session():
    first = ScriptedGenerator([text("one")])
    async with agent(first) as running:
        await running.ask("hi")
        history = running.history
    second = ScriptedGenerator([text("two")])
    async with agent(second, history=history) as running:
        await running.ask("more")
    assert second.seen(0)[:-1] == [*first.seen(0), {"role": "model", "parts": [{"text": "one"}]}]
