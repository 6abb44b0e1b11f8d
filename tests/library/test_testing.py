"""The model for tests of programs."""

from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, Usage
from alhena.errors import ProgramError
from alhena.testing import Call, TestModel


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def test_it_gives_its_answers_in_turn_and_keeps_the_requests(project: Path):
    def last(request: dict[str, Any]) -> str:
        results = [
            part["functionResponse"]["response"] for part in request["contents"][-1]["parts"]
        ]
        return f"They are {results}."

    model = TestModel([Call("add", a=1, b=2), Call("add", a=3, b=4)], last)
    async with Agent(model, tools=[add], cwd=project) as agent:
        result = await agent.run("Add.")
    assert result.output == "They are [{'output': '3'}, {'output': '7'}]."
    assert result.usage.requests == 2
    assert result.usage.input_tokens > 0
    assert result.usage + Usage(requests=1) != result.usage
    assert "Add." in str(model.requests[0]["contents"])
    assert model.requests[0]["tools"]
    assert repr(model) == "TestModel(2 answers, 2 requests)"
    assert agent.model == "test"


async def test_it_raises_what_it_was_given_and_says_when_it_is_spent(project: Path):
    model = TestModel(ProgramError("as told"))
    async with Agent(model, cwd=project) as agent:
        with pytest.raises(ProgramError, match="as told"):
            await agent.ask("go")
        with pytest.raises(ProgramError, match="no answer left: it was made with 1"):
            await agent.ask("go")


async def test_it_refuses_what_is_no_answer(project: Path):
    async with Agent(TestModel([5]), cwd=project) as agent:  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match="text or a Call, not int"):
            await agent.ask("go")


async def test_many_agents_share_one_model(project: Path):
    model = TestModel(*(str(number) for number in range(20)))
    agents = [Agent(model, cwd=project) for _ in range(20)]
    answers = [await agent.ask("go") for agent in agents]
    assert answers == [str(number) for number in range(20)]
