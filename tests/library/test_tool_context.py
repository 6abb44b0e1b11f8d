"""Tools of a program: their context, timeout, results; and `call_tool`."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, Image, Part, ToolContext, ToolResult, call_tool, tool
from alhena.errors import ProgramError
from alhena.events import ToolOutputEvent
from alhena.testing import Call, TestModel
from tests.support.media import PNG_TEXT, png
from tests.support.patience import PATIENCE_S

PNG = png()


@tool
def whoami(context: ToolContext[str]) -> str:
    """Says who is asking."""
    return f"{context.deps} in {context.cwd.name}"


@tool
async def translate(text: str, context: ToolContext) -> str:
    """Translates a text."""
    context.progress(0.5)
    return f"{context.call_id != ''} {await context.ask_model(f'Translate {text}')}"


@tool
def translate_in_thread(text: str, context: ToolContext) -> str:
    """Translates a text."""
    return context.ask_model(f"Translate {text}")


def outputs(model: TestModel) -> list[Any]:
    return [
        part["functionResponse"]["response"]
        for content in model.requests[-1]["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]


@pytest.mark.requirement("LIB-04")
async def test_tools_find_what_the_program_gave_the_agent_or_the_run(project: Path):
    model = TestModel(Call("whoami"), "x", Call("whoami"), "y")
    async with Agent(model, tools=[whoami], deps="Ann", builtin_tools=(), cwd=project) as agent:
        await agent.ask("go")
        await agent.run("go", deps="Bob")
    assert outputs(model) == [{"output": "Ann in project"}, {"output": "Bob in project"}]
    declared = model.requests[0]["tools"][0]["functionDeclarations"][0]
    assert declared["parametersJsonSchema"]["properties"] == {}


@pytest.mark.parametrize("asking", [translate, translate_in_thread])
async def test_a_tool_asks_the_model_of_its_agent_and_shows_progress(project: Path, asking: Any):
    model = TestModel(Call(asking.name, text="Haus"), "house", "done")
    shown: list[str] = []
    async with Agent(model, tools=[asking], builtin_tools=(), cwd=project) as agent:
        async for event in agent.run("go"):
            if isinstance(event, ToolOutputEvent):
                shown.append(event.text)
        assert agent.usage.requests == 3
    assert model.requests[1]["contents"][0]["parts"][0]["text"] == "Translate Haus"
    assert outputs(model)[0]["output"].endswith("house")
    assert shown == (["50%"] if asking is translate else [])


async def test_a_tool_that_takes_too_long_fails_and_its_thread_can_see_it(project: Path):
    seen = threading.Event()

    @tool(timeout=0.05, description="Sleeps.")
    def sleep(context: ToolContext) -> str:
        while not context.cancelled:
            pass
        seen.set()
        return ""

    @tool(timeout=0.05)
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return ""

    model = TestModel([Call("sleep"), Call("wait")], "done")
    async with Agent(model, tools=[sleep, wait], builtin_tools=(), cwd=project) as agent:
        await agent.ask("go")
    assert [each["error"] for each in outputs(model)] == [
        "sleep failed: TimeoutError: it took longer than 0.05 s",
        "wait failed: TimeoutError: it took longer than 0.05 s",
    ]
    assert seen.wait(PATIENCE_S)


@pytest.mark.requirement("LIB-04")
async def test_images_reach_the_model_from_tools_and_prompts(project: Path):
    @tool
    def draw() -> list[str | Image]:
        """Draws."""
        return ["see", Image(PNG, "image/png")]

    model = TestModel(Call("draw"), "done")
    async with Agent(model, tools=[draw], builtin_tools=(), cwd=project) as agent:
        await agent.ask(["look", Image(PNG, "image/png")])
    blob = {"mimeType": "image/png", "data": PNG_TEXT}
    assert {"inlineData": blob} in model.requests[0]["contents"][-1]["parts"]
    assert str(blob) in str(model.requests[1]["contents"][-1])


@pytest.mark.requirement("LIB-04")
async def test_a_result_that_cannot_be_put_to_a_model_ends_the_run(project: Path):
    def give() -> Any:
        """Gives something."""
        return object()

    model = TestModel(Call("give"), "never")
    async with Agent(model, tools=[give], builtin_tools=(), cwd=project) as agent:
        with pytest.raises(ProgramError, match="give returned object, which cannot be put"):
            await agent.ask("go")
    assert len(model.requests) == 1


@pytest.mark.parametrize("returned", [complex, list[complex], Callable[..., Any], Agent])
def test_a_return_hint_that_cannot_be_put_to_a_model_is_refused_at_once(returned: Any):
    def give() -> Any:
        """Gives something."""

    give.__annotations__["return"] = returned
    with pytest.raises(TypeError, match=r"give\(\) returns .*cannot be put to a model"):
        tool(give)


@pytest.mark.parametrize(
    "returned", [None, str, Part, Image, ToolResult, list[Part | str], dict[str, Any], object]
)
def test_return_hints_that_can_are_taken(returned: Any):
    def give() -> Any:
        """Gives something."""

    give.__annotations__["return"] = returned
    assert tool(give).name == "give"


async def test_call_tool_checks_builds_and_runs():
    assert (await call_tool(whoami, {}, deps="Ann")).error is None
    wrong = await call_tool(translate, {"text": 5})
    assert wrong.error is not None
    assert wrong.error.message.startswith("params/text must be string")
    alone = await call_tool(translate, {"text": "a"})
    assert alone.error is not None
    assert "ask_model needs an agent" in alone.error.message
    with pytest.raises(TypeError, match="tool: 5 is neither a tool nor a function"):
        await call_tool(5, {})  # pyright: ignore[reportArgumentType]


async def test_a_confirmation_that_raises_lets_nothing_run(project: Path):
    ran: list[int] = []

    def ask(args: dict[str, Any]) -> bool | str:
        if args["amount"] > 10:
            raise RuntimeError("no")
        return args["amount"] > 5 and f"Pay {args['amount']}?"

    @tool(confirm=ask)
    def pay(amount: int) -> None:
        """Pays."""
        ran.append(amount)

    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.details.prompt)
        return True

    amounts = (1, 7, 50)
    model = TestModel(*(Call("pay", amount=amount) for amount in amounts), "done")
    async with Agent(model, tools=[pay], approve=approve, builtin_tools=(), cwd=project) as agent:
        await agent.ask("go")
    assert (ran, asked) == ([1, 7], ["Pay 7?"])
    assert "error" in outputs(model)[-1]
