"""Answers as values of a type."""

import json
from dataclasses import dataclass
from datetime import date
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from alhena import Agent, LimitError, Limits, OutputError, tool
from alhena.events import ToolCallRequestEvent, ToolCallResponseEvent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


@dataclass
class City:
    name: str
    people: int


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Box(msgspec.Struct):
    size: Size
    items: list[City]


class Point(NamedTuple):
    x: int
    y: int


class Options(TypedDict):
    name: str
    limit: NotRequired[int]


class Order(pydantic.BaseModel):
    number: int
    city: str = ""


@dataclass
class Node:
    name: str
    below: "list[Node]"


@dataclass
class Shelf:
    place: Path
    orders: list[Order]


@tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    return {"Bern": 134_000}[city]


BERN = {"name": "Bern", "people": 134_000}
VALUES: list[tuple[Any, Any, Any]] = [
    (City, BERN, City("Bern", 134_000)),
    (Box, {"size": "large", "items": [BERN]}, Box(Size.LARGE, [City("Bern", 134_000)])),
    (Point, {"value": [1, 2]}, Point(1, 2)),
    (Options, {"name": "a"}, {"name": "a"}),
    (Order, {"number": 1}, Order(number=1)),
    (list[Order], {"value": [{"number": 1}]}, [Order(number=1)]),
    (Path, {"value": "/a/b"}, Path("/a/b")),
    (Shelf, {"place": "a", "orders": [{"number": 1}]}, Shelf(Path("a"), [Order(number=1)])),
    (list[City], {"value": [BERN]}, [City("Bern", 134_000)]),
    (dict[str, City], {"b": BERN}, {"b": City("Bern", 134_000)}),
    (int, {"value": 5}, 5),
    (bool, {"value": True}, True),
    (float, {"value": 1}, 1.0),
    (Literal["yes", "no"], {"value": "no"}, "no"),
    (Size, {"value": "small"}, Size.SMALL),
    (int | None, {"value": None}, None),
    (date, {"value": "2026-01-31"}, date(2026, 1, 31)),
    (Annotated[int, msgspec.Meta(ge=1)], {"value": 3}, 3),
    (Node, {"name": "a", "below": [{"name": "b", "below": []}]}, Node("a", [Node("b", [])])),
]


@pytest.mark.requirement("LIB-02")
@pytest.mark.parametrize(("kind", "given", "value"), VALUES, ids=lambda each: str(each)[:40])
async def test_without_tools_the_answer_is_json_of_the_type(
    project: Path, kind: Any, given: Any, value: Any
):
    generator = ScriptedGenerator([text(json.dumps(given))])
    async with Agent(generator, builtin_tools=(), cwd=project) as agent:
        result = await agent.run("go", output=kind)
    assert result.output == value
    assert type(result.output) is type(value)
    config: Any = generator.requests[0].config.generation_config
    assert config.response_mime_type == "application/json"
    assert config.response_json_schema["type"] == "object"


@pytest.mark.requirement("LIB-02")
@pytest.mark.parametrize(("kind", "given", "value"), VALUES, ids=lambda each: str(each)[:40])
async def test_with_tools_the_answer_is_a_call_of_its_own(
    project: Path, kind: Any, given: Any, value: Any
):
    generator = ScriptedGenerator(
        [chunk(call("population", {"city": "Bern"}), finish="STOP")],
        [chunk(call("final_answer", given, id="f"), finish="STOP")],
        [text("hello again")],
    )
    async with Agent(generator, tools=[population], cwd=project) as agent:
        events: list[Any] = []
        run = agent.run("go", output=kind)
        async for event in run:
            events.append(event)
        assert (await run).output == value
        assert await agent.ask("and now?") == "hello again"
    tools: list[Any] = [request.config.tools for request in generator.requests]
    names = [[each.name for each in found[0].function_declarations] for found in tools]
    assert names[0][-1] == names[1][-1] == "final_answer"
    assert "final_answer" not in names[2]
    contents = generator.seen(2)
    assert [each["role"] for each in contents[-4:]] == ["model", "user", "model", "user"]
    asked = [each.call_id for each in events if isinstance(each, ToolCallRequestEvent)]
    assert asked == [each.call_id for each in events if isinstance(each, ToolCallResponseEvent)]


@pytest.mark.requirement("LIB-02")
async def test_the_model_is_told_once_what_is_wrong(project: Path):
    generator = ScriptedGenerator([text('{"name": "Bern"}')], [text(json.dumps(BERN))])
    async with Agent(generator, builtin_tools=(), cwd=project) as agent:
        value = await agent.ask("go", output=City)
    assert value == City("Bern", 134_000)
    assert "required field 'people' is missing" in str(generator.seen(1)[-1])


@pytest.mark.requirement("LIB-02")
async def test_a_check_can_refuse_a_value(project: Path):
    def large(city: City) -> City:
        if city.people < 1_000_000:
            raise ValueError("Not a large city.")
        return city

    generator = ScriptedGenerator(
        [chunk(call("final_answer", BERN), finish="STOP")],
        [chunk(call("final_answer", BERN | {"people": 2_000_000}), finish="STOP")],
    )
    async with Agent(generator, tools=[population], cwd=project) as agent:
        value = await agent.ask("go", output=City, check=large)
    assert value.people == 2_000_000
    assert "Not a large city." in str(generator.seen(1)[-1])


@pytest.mark.requirement("LIB-02")
@pytest.mark.parametrize("corrections", [0, 1, 2])
async def test_after_the_last_correction_it_is_an_error(project: Path, corrections: int):
    turns = [[chunk(call("final_answer", {"name": 5}), finish="STOP")] for _ in range(4)]
    generator = ScriptedGenerator(*turns)
    async with Agent(generator, tools=[population], cwd=project) as agent:
        with pytest.raises(OutputError) as caught:
            await agent.run("go", output=City, corrections=corrections)
        assert len(generator.requests) == corrections + 1
        assert caught.value.text == '{"name": 5}'
        assert len(caught.value.reasons) == corrections + 1
        generator.turns[:] = [[text("fine")]]
        assert await agent.ask("hello") == "fine"


@pytest.mark.requirement("LIB-02")
@pytest.mark.parametrize("answer", ["Bern has 134,000 people.", '{"name": "Bern", "people": "?"}'])
async def test_text_in_place_of_the_call_is_a_wrong_answer(project: Path, answer: str):
    generator = ScriptedGenerator(
        [text(answer)], [chunk(call("final_answer", BERN), finish="STOP")]
    )
    async with Agent(generator, tools=[population], cwd=project) as agent:
        assert (await agent.ask("go", output=City)).name == "Bern"
    assert "final_answer" in str(generator.seen(1)[-1])


BOLD = json.dumps(BERN)
DRESSED: list[tuple[Any, str, Any]] = [
    (City, f"```json\n{BOLD}\n```", City("Bern", 134_000)),
    (
        City,
        f"Here it is:\r\n\r\n~~~\r\n{json.dumps(BERN, indent=2)}\r\n~~~\r\nAnything else?",
        None,
    ),
    (City, f"The city you asked for:\n{BOLD}", None),
    (City, f"\ufeff{BOLD}", None),
    (City, f'<think>Is it {{"name": "Chur", "people": 1}}?</think>\n\n{BOLD}', None),
    (City, f'Is it {{"name": "Chur", "people": 1}}?\n</think>\n{BOLD}', None),
    (City, f'{{"tool": "population"}} gave {BOLD}.', None),
    (City, f"{BOLD}\n{BOLD}", None),
    (int, "5", 5),
    (int, "The number is:\n\n5", 5),
    (list[City], f"[{BOLD}]", [City("Bern", 134_000)]),
    (list[City], f'```\n{{"value": [{BOLD}]}}\n```', [City("Bern", 134_000)]),
    (City | None, BOLD, City("Bern", 134_000)),
    (Size, "small", Size.SMALL),
    (Literal["yes", "no"], "<think>no?</think>yes", "yes"),
    (date, "`2026-01-31`".strip("`"), date(2026, 1, 31)),
]


@pytest.mark.requirement("LIB-02")
@pytest.mark.parametrize("tools", [(), (population,)], ids=["text", "tools"])
@pytest.mark.parametrize(("kind", "answer", "value"), DRESSED, ids=lambda each: str(each)[:30])
async def test_the_only_value_that_fits_is_read_whatever_is_around_it(
    project: Path, tools: Any, kind: Any, answer: str, value: Any
):
    generator = ScriptedGenerator([text(answer)])
    async with Agent(generator, builtin_tools=(), tools=tools, cwd=project) as agent:
        assert await agent.ask("go", output=kind) == (value or City("Bern", 134_000))


@pytest.mark.requirement("LIB-02")
@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        (City, f'{BOLD} or {{"name": "Chur", "people": 1}}'),
        (City, f'```\n{BOLD}\n```\nor\n```\n{{"name": "Chur", "people": 1}}\n```'),
        (City, f"<think>perhaps {BOLD}"),
        (int, "5\n6"),
        (list[int], "As the source says [1], nobody knows."),
        (Path, "Let me look that up."),
    ],
)
@pytest.mark.parametrize("tools", [(), (population,)], ids=["text", "tools"])
async def test_several_values_or_none_are_asked_for_again(
    project: Path, tools: Any, kind: Any, answer: str
):
    generator = ScriptedGenerator([text(answer)])
    async with Agent(generator, builtin_tools=(), tools=tools, cwd=project) as agent:
        with pytest.raises(OutputError) as caught:
            await agent.ask("go", output=kind, corrections=0)
    assert caught.value.text == answer


async def test_other_calls_of_the_turn_run_before_the_run_ends(project: Path):
    ran: list[str] = []

    def note(word: str) -> str:
        """Notes a word."""
        ran.append(word)
        return "noted"

    generator = ScriptedGenerator(
        [chunk(call("final_answer", BERN), call("note", {"word": "x"}), finish="STOP")]
    )
    async with Agent(generator, tools=[note], cwd=project) as agent:
        result = await agent.run("go", output=City)
    assert ran == ["x"]
    assert result.output == City("Bern", 134_000)
    responses = [part for part in result.new_contents[-2].parts if part.function_response]
    assert len(responses) == 2


async def test_a_limit_holds_for_corrections(project: Path):
    generator = ScriptedGenerator(*([text("no")] for _ in range(5)))
    async with Agent(generator, cwd=project, limits=Limits(turns=2)) as agent:
        with pytest.raises(LimitError):
            await agent.run("go", output=City, corrections=9)


def test_it_works_in_synchronous_code(project: Path):
    generator = ScriptedGenerator([text('{"value": 7}')])
    assert Agent(generator, builtin_tools=(), cwd=project).ask_sync("go", output=int) + 1 == 8


def final_answer(reason: str) -> str:
    """Has the name that is taken."""
    return reason


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"output": 5}, "output cannot be 5"),
        ({"output": lambda: 1}, "goes into a list, as output="),
        ({"output": partial(print)}, "goes into a list, as output="),
        ({"output": [final_answer, int]}, "two of the name 'final_answer'"),
        ({"output": object}, "output cannot be <class 'object'>: type <class 'object'> is not"),
        ({"output": int, "check": 5}, "check has to be a function, not 5"),
        ({"output": int, "corrections": "1"}, "corrections has to be a number"),
        ({"output": int, "corrections": -1}, "corrections has to be a number"),
    ],
)
def test_what_is_no_type_is_refused_at_the_call(given: dict[str, Any], said: str):
    with pytest.raises(TypeError, match=said):
        Agent("demo").run("go", **given)
