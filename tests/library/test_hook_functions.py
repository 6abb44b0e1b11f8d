"""Hooks as typed functions: each gets an object of its event and answers with its methods."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, cast

import pydantic
import pytest

from alhena import Agent, Content, Image, Part
from alhena.hooks import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeAgent,
    BeforeModel,
    BeforeTool,
    BeforeToolSelection,
    Notification,
    PreCompress,
    SessionEnd,
    SessionStart,
)
from alhena.testing import Call, TestModel

pytestmark = pytest.mark.requirement("LIB-12")
SECRET = re.compile(r"sk-\w+")


def lookup(name: str) -> str:
    """Looks up a key."""
    if name == "broken":
        raise ValueError("sk-222 is refused")
    return f"{name}: sk-111"


def agent(model: TestModel, **hooks: Any) -> Agent:
    return Agent(model, tools=[lookup], hooks=hooks, isolated=True, builtin_tools=())


def find_parts(model: TestModel, at: int = 1) -> list[dict[str, Any]]:
    """The parts of the last content of a request."""
    return model.requests[at]["contents"][-1]["parts"]


def redact(call: AfterTool) -> AfterTool | None:
    return call.replace(SECRET.sub("…", call.text))


async def test_a_result_is_replaced_before_the_model_and_people_see_it():
    model = TestModel([Call("lookup", name="a"), Call("lookup", name="broken")], "done")
    shown: list[Any] = []
    async for event in agent(model, AfterTool=redact).run("Go."):
        if event.__class__.__name__ == "ToolCallResponseEvent":
            shown.append(event)
    responses = [each["functionResponse"]["response"] for each in find_parts(model)]
    assert responses == [
        {"output": "a: …"},
        {"error": "lookup failed: ValueError: … is refused"},
    ]
    assert "sk-" not in str(shown)
    assert [each.status for each in shown] == ["success", "error"]


async def test_several_hooks_see_each_others_changes():
    seen: list[str] = []

    async def shout(call: AfterTool) -> AfterTool:
        seen.append(call.text)
        return call.replace({"text": call.text.upper()}).add_context("It was loud.")

    def add_one(call: BeforeTool) -> BeforeTool | None:
        return call.replace(args={"name": call.args["name"] + "1"})

    def add_two(call: BeforeTool) -> BeforeTool | None:
        return call.replace(args={"name": call.args["name"] + "2"})

    model = TestModel(Call("lookup", name="a"), "done")
    opened = agent(model, AfterTool=[redact, shout], BeforeTool=[add_one, add_two])
    await opened.run("Go.")
    assert seen[0].startswith("a12: …")
    said = str(find_parts(model))
    assert "A12: …" in said
    assert "It was loud." in said


async def test_media_may_take_the_place_of_a_result():
    png = bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154"
        "789c636060606000000005000157cfc7d50000000049454e44ae426082"
    )

    def draw(call: AfterTool) -> AfterTool:
        return call.replace(["A picture.", Image(png, "image/png")])

    model = TestModel(Call("lookup", name="a"), "done")
    await agent(model, AfterTool=draw).run("Go.")
    text, image = find_parts(model)
    assert text["functionResponse"]["response"] == {"output": "A picture."}
    assert image["inlineData"]["mimeType"] == "image/png"


async def test_a_request_has_other_contents_for_itself_only():
    def add(request: BeforeModel) -> BeforeModel:
        note = Content(role="user", parts=(Part(text="It is Monday."),))
        return request.replace(contents=(*request.contents, note))

    def shout(answer: AfterModel) -> AfterModel | None:
        return answer.replace(answer.text.upper()) if answer.text else None

    model = TestModel("yes")
    opened = agent(model, BeforeModel=[add, add], AfterModel=shout)
    result = await opened.run("Is it?")
    assert str(model.requests[0]["contents"]).count("It is Monday.") == 2
    assert "It is Monday." not in str(opened.history)
    assert result.text == "YES"


STOPS: list[tuple[str, Callable[..., Any]]] = []


def stop_agent(prompt: BeforeAgent) -> BeforeAgent:
    return prompt.stop("Enough.")


def stop_model(request: BeforeModel) -> BeforeModel:
    return request.stop("Enough.")


def stop_tool(call: BeforeTool) -> BeforeTool:
    return call.stop("Enough.")


def stop_after(call: AfterTool) -> AfterTool:
    return call.stop("Enough.")


@pytest.mark.parametrize("hook", [stop_agent, stop_model, stop_tool, stop_after])
async def test_stop_ends_the_run_as_blocked_with_its_words(hook: Any):
    event = next(iter(hook.__annotations__.values())).__name__
    result = await agent(TestModel(Call("lookup", name="a"), "no"), **{event: hook}).run("Go.")
    assert result.stop_reason == "blocked"
    assert "Enough." in result.warnings[-1]


async def test_block_prevents_a_call_and_the_model_reads_why():
    def guard(call: BeforeTool) -> BeforeTool | None:
        return call.block("Not that one.") if call.args["name"] == "b" else None

    model = TestModel([Call("lookup", name="a"), Call("lookup", name="b")], "done")
    await agent(model, BeforeTool=guard).run("Go.")
    responses = [each["functionResponse"]["response"] for each in find_parts(model)]
    assert "output" in responses[0]
    assert "Not that one." in responses[1]["error"]


async def test_every_event_has_its_class():
    seen: list[str] = []

    def note(given: Any) -> None:
        seen.append(type(given).__name__)
        with pytest.raises(AttributeError):
            given.session_id = "x"

    def hook_of(kind: type[Any]) -> Callable[[Any], None]:
        def hook(given: Any) -> None:
            note(given)

        hook.__annotations__["given"] = kind
        return hook

    kinds = (
        *(BeforeAgent, AfterAgent, BeforeModel, AfterModel, BeforeToolSelection),
        *(BeforeTool, AfterTool, PreCompress, SessionStart, SessionEnd, Notification),
    )
    hooks = {kind.__name__: hook_of(kind) for kind in kinds}
    result = await agent(TestModel(Call("lookup", name="a"), "done"), **hooks).run("Go.")
    assert result.text == "done"
    assert set(seen) == {
        *("SessionStart", "BeforeAgent", "BeforeModel", "BeforeToolSelection", "AfterModel"),
        *("BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"),
    }


def wrong_event(call: AfterTool) -> None:
    del call


def with_word(word: str, call: AfterTool) -> AfterTool:
    return call.replace(word)


def with_more(call: Any, *, word: str = "R") -> Any:
    return call.replace(word)


# A hint as `from __future__ import annotations` leaves it, with names for type checkers only.
with_more.__annotations__ = {"call": "hooks.AfterTool | None", "return": "Unknown"}


class Redactor:
    def __call__(self, call: "AfterTool | None") -> AfterTool | None:
        return call and call.replace("R")

    async def later(self, call: Annotated[AfterTool, "of any tool"]) -> AfterTool:
        return call.replace("R")

    @staticmethod
    def two_events(call: BeforeTool | AfterTool) -> AfterTool | None:
        return call.replace("R") if isinstance(call, AfterTool) else None


@pytest.mark.parametrize(
    "hook",
    [
        *(partial(with_word, "R"), partial(with_more, word="R"), with_more),
        *(Redactor(), Redactor().later, Redactor.two_events, partial(Redactor().later)),
    ],
)
async def test_a_hint_is_found_however_it_is_written(hook: Any):
    model = TestModel(Call("lookup", name="a"), "done")
    await agent(model, AfterTool=hook).run("Go.")
    assert find_parts(model)[0]["functionResponse"]["response"] == {"output": "R"}


def test_a_class_of_another_event_is_refused():
    with pytest.raises(TypeError, match=r"hooks\['BeforeTool'\] takes a BeforeTool"):
        agent(TestModel(), BeforeTool=wrong_event)


@pytest.mark.parametrize("function", [lambda: None, lambda _call, _more: None])
def test_a_hook_that_cannot_be_called_with_one_argument_is_refused(function: Any):
    for hook in (function, {"hooks": [{"function": function}]}):
        with pytest.raises(TypeError, match=r"<lambda>.* has to take one argument"):
            agent(TestModel(), BeforeTool=hook)


class Receipt(pydantic.BaseModel):
    file: PurePath


async def test_a_value_in_place_of_a_result_becomes_json_as_that_of_a_tool():
    def name_file(call: AfterTool) -> AfterTool:
        return call.replace({"paid": [Receipt(file=PurePath("a.txt")), PurePath("b")]})

    model = TestModel(Call("lookup", name="a"), "done")
    await agent(model, AfterTool=name_file).run("Go.")
    response = find_parts(model)[0]["functionResponse"]["response"]
    assert response == {"output": '{"paid":[{"file":"a.txt"},"b"]}'}


async def test_what_a_hook_cannot_put_in_place_is_said_where_it_is_wrong():
    def empty(call: BeforeModel) -> BeforeModel:
        return call.replace(contents=[])

    def text(call: BeforeTool) -> BeforeTool:
        return call.replace(args=cast("Any", "name=b"))

    result = await agent(TestModel("never"), BeforeModel=empty).run("Go.")
    assert result.stop_reason == "blocked"
    assert "contents are empty" in str(result.failed[0].exception)
    result = await agent(TestModel(Call("lookup", name="a"), "x"), BeforeTool=text).run("Go.")
    assert "not 'name=b'. Because it is one of the program, this blocks." in result.warnings[0]


async def test_a_hook_that_returns_something_else_blocks():
    def answer(call: BeforeTool) -> Any:
        return {"decision": call.tool_name}

    model = TestModel(Call("lookup", name="a"), "done")
    result = await agent(model, BeforeTool=answer).run("Go.")
    assert "it returned dict" in find_parts(model)[0]["functionResponse"]["response"]["error"]
    assert isinstance(result.failed[0].exception, TypeError)
