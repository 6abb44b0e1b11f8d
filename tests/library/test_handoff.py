"""Subagents with models of their own, whose answer may end the run."""

from dataclasses import dataclass
from typing import Any

import pytest

from alhena import Agent, Limits, ModelSettings, Subagent
from alhena.agent.limits import TurnLimitError
from alhena.events import ContentEvent
from alhena.testing import Call, TestModel
from tests.support.server import ScriptedServer, sse

ALONE: dict[str, Any] = {"isolated": True, "builtin_tools": ()}
DELEGATES = Call("delegate_to_agent", agent_name="clerk", objective="Refund order 7.")


@dataclass
class Refund:
    order: int


def clerk(**more: Any) -> Subagent:
    more = {"output": Refund, "handoff": True} | more
    return Subagent(name="clerk", description="Refunds.", instructions="Refund.", **more)


def finish_task(order: Any) -> Call:
    return Call("complete_task", result={"order": order})


async def test_the_answer_of_a_subagent_ends_the_run_with_its_value():
    model = TestModel(["I ask the clerk.", DELEGATES], finish_task("none"), finish_task(7), "later")
    async with Agent(model, agents=[clerk()], **ALONE) as agent:
        events: list[Any] = []
        run = agent.run("It broke.")
        async for event in run:
            events.append(event)
        result = await run
        assert result.handed_over == Refund(7)
        assert result.stop_reason == "done"
        assert result.text == result.output == '{\n  "order": 7\n}'
        assert (result.usage.requests, len(model.requests)) == (3, 3)
        assert [each.text for each in events if isinstance(each, ContentEvent)][-1] == result.text
        assert [each.role for each in agent.history[-3:]] == ["model", "user", "model"]
        assert (await agent.run("And now?")).handed_over is None
    typed = Agent(TestModel(DELEGATES, finish_task(8)), agents=[clerk()], **ALONE)
    assert await typed.ask("x", output=Refund) == Refund(8)


async def test_without_handoff_the_model_goes_on_and_limits_are_shared():
    model = TestModel(DELEGATES, finish_task(7), "It is refunded.")
    agent = Agent(model, agents=[clerk(handoff=False)], **ALONE)
    result = await agent.run("It broke.")
    assert (result.output, result.handed_over) == ("It is refunded.", None)
    short = Agent(
        TestModel(DELEGATES, finish_task(7)), agents=[clerk()], limits=Limits(turns=1), **ALONE
    )
    with pytest.raises(TurnLimitError):
        await short.run("It broke.")


async def test_a_subagent_has_a_model_and_settings_of_its_own(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    own = TestModel(finish_task(7))
    boss = TestModel(DELEGATES, "never")
    settings = ModelSettings(temperature=0.1, top_k=2)
    agent = Agent(boss, agents=[clerk(model=own, model_settings=settings)], **ALONE)
    assert (await agent.run("x")).handed_over == Refund(7)
    assert (len(boss.requests), len(own.requests)) == (1, 1)
    generation = own.requests[0]["generationConfig"]
    assert (generation["temperature"], generation["topK"]) == (0.1, 2)

    function = {"name": "complete_task", "arguments": '{"result": {"order": 9}}'}
    call = {"index": 0, "id": "1", "type": "function", "function": function}
    choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    server.reply(sse({"id": "1", "choices": [choice]}))
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    afar = Agent(TestModel(DELEGATES), agents=[clerk(model="ollama:qwen3")], **ALONE)
    assert (await afar.run("x")).handed_over == Refund(9)
    assert server.requests[0].json["model"] == "qwen3"
    with pytest.raises(TypeError, match="model"):
        clerk(model=5)
