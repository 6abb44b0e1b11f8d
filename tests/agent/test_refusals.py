"""A person's no: without words it cancels the batch and ends the turn, with words the model goes on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from alhena.events import Event, RunFinishedEvent, ToolCallResponseEvent
from alhena.library.agent import Agent
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.scheduler.bus import MessageBus, ToolConfirmationRequest, ToolConfirmationResponse
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.tools.contract import Kind, ToolResult
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from tests.agent.delegating import Office, complete_task_call, worker
from tests.agent.kit import agent, answers, conforming, events_of, of, turn
from tests.scheduler.kit import SmallTool, request
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text


def write(name: str) -> dict[str, Any]:
    return call("write_file", {"file_path": name, "content": "x"}, id=name)


async def forever(params: dict[str, Any], context: object) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError("never")


def statuses(events: list[Event]) -> dict[str, str]:
    return {event.call_id: event.status for event in of(events, ToolCallResponseEvent)}


@pytest.mark.requirement("SCHED-05")
@pytest.mark.parametrize(
    "no", [Answer.no(), Answer.no("  "), Answer.no("all of it", stop=True), Outcome.CANCEL, False]
)
async def test_a_no_without_words_cancels_the_batch_and_ends_the_turn(project: Path, no: Any):
    generator = ScriptedGenerator(
        turn(
            call("forever", {}, id="f"),
            call("look", {}, id="m"),
            call("look", {}, id="n"),
            write("b"),
        ),
        [text("ok")],
    )
    asked: list[str] = []

    def approve(request: ConfirmationRequest) -> Any:
        asked.append(request.call_id)
        return no

    policy = [PolicyRule(decision=PolicyOutcome.ALLOW, priority=900, tool_names=("forever",))]
    tools = [SmallTool("forever", forever, kind=Kind.READ), SmallTool("look", kind=Kind.READ)]
    async with agent(generator, approve=approve, tools=tools, policy=policy) as running:
        events, error = await events_of(running, "go")
        assert error is None
        assert statuses(events) == dict.fromkeys(("f", "m", "n", "b"), "cancelled")
        (end,) = of(events, RunFinishedEvent)
        assert (end.reason, asked, len(generator.requests)) == ("cancelled", ["m"], 1)
        assert {e.decision for e in of(events, ToolCallResponseEvent)} <= {"reject", "auto_accept"}
        assert await running.ask("then only look") == "ok"
    assert conforming(generator)
    responses = [
        part["functionResponse"]["name"]
        for content in generator.seen(1)
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert responses == ["forever", "look", "look", "write_file"]
    assert not (project / "b").exists()


async def test_a_no_with_words_refuses_that_call_only_and_the_model_goes_on(project: Path):
    generator = ScriptedGenerator(turn(write("a"), write("b")), [text("ok")])

    def approve(request: ConfirmationRequest) -> Any:
        return request.args["file_path"] == "b" or Answer.no("use b")

    async with agent(generator, approve=approve) as running:
        assert await running.ask("go") == "ok"
    assert "use b" in answers(generator)[0]["error"]
    assert (project / "b").exists()


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        ({"confirmed": False}, 1),
        ({"confirmed": False, "outcome": "cancel"}, 1),
        ({"confirmed": False, "outcome": "cancel", "payload": {"reason": "no"}}, 2),
        ({"confirmed": False, "requires_user_confirmation": True, "reason": "nobody"}, 2),
    ],
)
async def test_a_no_over_the_bus_ends_the_turn_and_silence_only_the_call(
    project: Path, answer: dict[str, Any], requests: int
):
    bus = MessageBus()

    def confirm(message: ToolConfirmationRequest) -> None:
        bus.publish(ToolConfirmationResponse(correlation_id=message.correlation_id, **answer))

    bus.subscribe(ToolConfirmationRequest, confirm)
    generator = ScriptedGenerator(turn(write("a")), [text("ok")])
    async with agent(generator, bus=bus) as running:
        await events_of(running, "go")
    assert len(generator.requests) == requests
    assert not (project / "a").exists()


async def test_a_refused_call_of_a_subagent_ends_its_turn_and_the_batch_of_its_parent(
    project: Path,
):
    async def refuse(request: ConfirmationRequest) -> Answer:
        while len(office.generator.requests) < 2:
            await asyncio.sleep(0)
        return Answer.no()

    # The second subagent does not come to its question: only the first can be refused.
    office = Office(
        ScriptedGenerator(
            turn(write("a"), write("b")),
            turn(call("forever", {}, id="h"), write("c")),
            complete_task_call(),
        ),
        agents=(worker(),),
        approve=refuse,
        tools=(SmallTool("forever", forever, kind=Kind.READ),),
        policy=(PolicyRule(decision=PolicyOutcome.ALLOW, priority=900, tool_names=("forever",)),),
    )
    ended = await office.scheduler.schedule(
        [
            request("f", "forever"),
            request("d1", "delegate_to_agent", agent_name="worker", objective="go"),
            request("e1", "delegate_to_agent", agent_name="worker", objective="go"),
            request("w", "write_file", file_path="c", content="x"),
        ]
    )
    assert [str(each.status) for each in ended] == ["cancelled"] * 4
    assert [each.ends_turn for each in ended][:2] == [False, True]
    assert len(office.generator.requests) == 2
    assert not list(project.iterdir())


async def test_no_person_is_no_refusal_by_one(project: Path):
    generator = ScriptedGenerator(turn(write("a")), [text("ok")])
    async with Agent(generator, approve="never") as running:
        result = await running.run("go")
    assert (result.output, result.stop_reason) == ("ok", "done")


async def test_a_result_says_that_a_person_cancelled(project: Path):
    generator = ScriptedGenerator(turn(write("a")), [text("ok")])
    async with Agent(generator, approve=lambda request: Answer.no()) as running:
        result = await running.run("go")
    assert (result.text, result.stop_reason) == ("", "cancelled")
    assert [each.call_id for each in result.denied] == ["a"]
