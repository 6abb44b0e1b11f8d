"""The input of a run and its output while it works: instructions by function, the environment,
media, partial outputs, events for synchronous code."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from alhena import (
    Agent,
    AgentOptions,
    Audio,
    Document,
    Image,
    LimitError,
    Limits,
    OutputError,
    RunContext,
    ToolContext,
    Video,
)
from alhena.errors import InterruptedRunError, ProgramError
from alhena.events import ContentEvent, RunFinishedEvent
from alhena.testing import Call, TestModel
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk

pytestmark = pytest.mark.requirement("LIB-14")

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154"
    "789c636060606000000005000157cfc7d50000000049454e44ae426082"
)


@dataclass
class User:
    name: str


def agent(model: Any, **given: Any) -> Agent[Any]:
    return Agent(model, **{"isolated": True, "builtin_tools": ()} | given)


def instruction(model: TestModel, at: int) -> str:
    return model.requests[at]["systemInstruction"]["parts"][0]["text"]


async def test_instructions_may_be_a_function_of_each_run(project: Path):
    def greet(context: RunContext[User]) -> str:
        return f"Help {context.deps.name} with {context.prompt} in {context.cwd.name}."

    async def later(context: RunContext[User]) -> str:
        return f"{context.model} helps."

    model = TestModel("one", "two", "three")
    async with agent(model, instructions=greet, deps=User("Ada"), cwd=project) as opened:
        await opened.run("sums")
        await opened.run("words", deps=User("Bo"))
    assert instruction(model, 0) == f"Help Ada with sums in {project.name}."
    assert instruction(model, 1) == f"Help Bo with words in {project.name}."
    await agent(model, instructions=later).run("Hi.")
    assert instruction(model, 2) == "test helps."


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(lambda _context: 5, "returned int instead of a text"), (lambda _: 1 // 0, "raised ZeroDiv")],
)
async def test_instructions_that_fail_end_the_run(wrong: Any, said: str):
    model = TestModel("never asked")
    with pytest.raises(ProgramError, match=f"instructions {said}"):
        await agent(model, instructions=wrong).run("Hi.")
    assert model.requests == []


async def test_an_isolated_agent_sends_nothing_that_the_program_did_not_give():
    model = TestModel("one", "two", "three")
    await agent(model).run("Hi.")
    assert model.requests[0]["contents"] == [{"role": "user", "parts": [{"text": "Hi."}]}]
    assert "systemInstruction" not in model.requests[0]
    assert "tools" not in model.requests[0]
    await agent(model, environment=True).run("Hi.")
    assert len(model.requests[1]["contents"]) == 3


async def test_the_environment_is_left_out_where_the_program_wants_it(project: Path):
    model = TestModel("one", "two")
    options = AgentOptions(record=False)
    await Agent(model, environment=False, cwd=project, options=options).run("Hi.")
    assert [len(each["contents"]) for each in model.requests] == [1]
    await Agent(model, cwd=project, options=options).run("Hi.")
    assert project.name in str(model.requests[1]["contents"][0])


async def test_media_are_a_prompt_alone_and_among_texts(tmp_path: Path):
    files = {
        "a.png": PNG,
        "b.pdf": b"%PDF-1.4\nxref\nstartxref\n9\n%%EOF\n",
        "c.wav": b"RIFF\x04\x00\x00\x00WAVE",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    image = Image.from_path(tmp_path / "a.png")
    assert (image.data, image.mime_type) == (PNG, "image/png")
    document = Document.from_path(tmp_path / "b.pdf")
    model = TestModel("one", "two")
    opened = agent(model)
    await opened.run(image)
    video = Video.from_url("https://example.com/tour.mp4")
    await opened.run([document, "Compare", video])
    first, second = (each["contents"][-1]["parts"] for each in model.requests)
    assert [list(part) for part in first] == [["inlineData"]]
    assert second[0]["inlineData"]["mimeType"] == "application/pdf"
    assert second[1] == {"text": "Compare"}
    assert second[2]["fileData"] == {
        "fileUri": "https://example.com/tour.mp4",
        "mimeType": "video/mp4",
    }
    assert Audio.from_path(tmp_path / "c.wav").mime_type == "audio/wav"
    assert Audio(b"x", "audio/mpeg").part.inline_data is not None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Image(PNG, "application/pdf"), "Image.mime_type has to be image/"),
        (Image, "Image has to have data or a url"),
        (lambda: Document(b"x"), "cannot be told by its name or data"),
        (lambda: Video.from_url("ftp://x/y.mp4"), "the url has to begin with https://"),
    ],
)
def test_what_is_no_medium_of_its_kind_is_refused(make: Any, said: str):
    with pytest.raises(TypeError, match=said):
        make()


async def test_tools_return_media():
    def record() -> list[str | Audio]:
        """Records."""
        return ["A call.", Audio(b"RIFF\x04\x00\x00\x00WAVE", "audio/wav")]

    model = TestModel(Call("record"), "done")
    await agent(model, tools=[record]).run("Go.")
    assert "A call." in str(model.requests[1]["contents"][-1])


@dataclass
class City:
    name: str
    people: int
    tags: list[str]


class Trip(TypedDict):
    city: City
    days: int


class Box(msgspec.Struct):
    size: Literal["small", "large"]
    city: City | None = None


class Order(pydantic.BaseModel):
    number: int
    note: str


class Named(pydantic.BaseModel):
    first: str = pydantic.Field(validation_alias="firstName")
    place: int = pydantic.Field(alias="Place")


@pydantic.dataclasses.dataclass
class Row:
    size: int = pydantic.Field(alias="Size")
    name: str = ""


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Left(msgspec.Struct, tag="left"):
    size: int


class Right(msgspec.Struct, tag="right"):
    size: int


class Point(NamedTuple):
    x: int
    y: int


def pieces(value: Any, size: int = 6) -> list[dict[str, Any]]:
    text = json.dumps(value)
    cuts = range(0, len(text), size)
    return [chunk({"text": text[at : at + size]}) for at in cuts] + [chunk(finish="STOP")]


BERN = {"name": 'B\u00e4rn "x"', "people": 134_000, "tags": ["a", "old town"]}
GROWING: list[tuple[Any, Any, list[Any]]] = [
    (
        City,
        BERN,
        [
            City(None, None, None),  # type: ignore[arg-type]
            City('Bärn "x"', None, None),  # type: ignore[arg-type]
            City('Bärn "x"', 134_000, ["a"]),
        ],
    ),
    (Trip, {"city": BERN, "days": 3}, [{"city": City("Bä", None, None)}]),  # type: ignore[arg-type]
    (Box, {"size": "large", "city": BERN}, [Box("large", None)]),
    (Order, {"number": 12, "note": "as soon as"}, [Order.model_construct(number=12, note="")]),
    (
        Named,
        {"firstName": "Ada", "Place": 12},
        [
            Named.model_construct(first="Ad", place=None),
            Named.model_construct(first="A", place=None),
        ],
    ),
    (Row, {"Size": 12, "name": "abc"}, [Row(Size=12, name="a")]),
    (Numbers, {"value": [1, 22, 3]}, [Numbers([1]), Numbers([1, 22])]),
    (Left | Right, {"value": {"type": "right", "size": 12}}, [Right(None)]),  # type: ignore[arg-type]
    (list[City], {"value": [BERN, BERN]}, [[City('Bärn "x"', 134_000, ["a", "old town"])]]),
    (dict[str, int], {"a": 1, "bcdefg": 2}, [{"a": 1}]),
    (Point, {"value": [123, 456]}, [Point(123, None)]),  # type: ignore[arg-type]
    (int, {"value": 12345678}, []),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "long words"}, [{"a": ""}]),
]


@pytest.mark.parametrize(("kind", "data", "some"), GROWING, ids=lambda each: str(each)[:30])
async def test_partial_gives_growing_values_and_then_the_output(
    kind: Any, data: Any, some: list[Any]
):
    model = ScriptedGenerator(pieces(data), pieces(data, 1))
    opened = agent(model)
    run = opened.run("Go.", output=kind)
    values = [value async for value in run.partial()]
    assert values[-1] == (await run).output
    slow = [value async for value in opened.run("Go.", output=kind).partial()]
    assert slow[-1] == values[-1]
    for each in some:
        assert each in slow
    assert len(slow) >= len(values) > len(some)


async def test_what_has_not_changed_keeps_its_value_so_that_long_lists_grow_fast():
    cities = [BERN | {"people": n} for n in range(20)]
    model = ScriptedGenerator(pieces({"value": cities}))
    values = [each async for each in agent(model).run("Go.", output=list[City]).partial()]
    assert [each.people for each in values[-1]] == list(range(20))
    later = [each for each in values[:-1] if len(each) > 1]  # the last one was read as a whole
    assert len(later) > 100
    assert len({id(each[0]) for each in later}) == 1


async def test_partial_of_text_is_the_text_so_far_and_errors_are_raised():
    model = ScriptedGenerator([chunk({"text": "Hello "}), chunk({"text": "Bern."}, finish="STOP")])
    assert [each async for each in agent(model).run("Go.").partial()] == ["Hello ", "Hello Bern."]
    wrong = ScriptedGenerator(*[pieces({"name": 5})] * 2)
    with pytest.raises(OutputError):
        [each async for each in agent(wrong).run("Go.", output=City).partial()]


async def test_stream_text_gives_the_texts_of_all_turns_in_pieces_and_errors_are_raised():
    def lookup() -> str:
        """Looks it up."""
        return "Bern"

    call = {"functionCall": {"name": "lookup", "args": {}}}
    first = [chunk({"text": "I look "}), chunk({"text": "it up."}, call, finish="STOP")]
    model = ScriptedGenerator(first, [chunk({"text": "Bern."}, finish="STOP")])
    texts = [each async for each in agent(model, tools=[lookup]).run("Go.").stream_text()]
    assert texts == ["I look ", "it up.", "Bern."]
    limited = agent(TestModel(Call("lookup"), "x"), tools=[lookup], limits=Limits(turns=1))
    with pytest.raises(LimitError):
        [each async for each in limited.run("Go.").stream_text()]


class Hanging(ScriptedGenerator):
    """A model that never ends its answer."""

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        try:
            async for piece in super().stream(request):
                yield piece
                await asyncio.Event().wait()
        finally:
            self.closed_early += 1


async def test_leaving_partial_or_stream_text_ends_the_run():
    model = Hanging(pieces(BERN), [chunk({"text": "Hello "})])
    async with agent(model) as opened:
        values: AsyncIterator[Any] = opened.run("Go.", output=City).partial()
        assert await anext(values) == City(None, None, None)  # type: ignore[arg-type]
        await values.aclose()  # type: ignore[attr-defined]
        closed = model.closed_early
        assert closed
        texts: AsyncIterator[str] = opened.run("Go.").stream_text()
        assert await anext(texts) == "Hello "
        await texts.aclose()  # type: ignore[attr-defined]
    assert model.closed_early > closed


async def test_a_run_that_is_left_and_forgotten_logs_no_error(
    project: Path, caplog: pytest.LogCaptureFixture
):
    async def leave() -> None:
        async for _event in Agent(TestModel("one"), cwd=project).run("Go."):
            break

    await leave()
    while len(asyncio.all_tasks()) > 1:
        gc.collect()
        await asyncio.sleep(0)
    gc.collect()
    assert [each for each in caplog.records if each.name == "asyncio"] == []


def test_synchronous_code_gets_the_events():
    model = TestModel("one", "two", "three")
    events = list(agent(model).stream_sync("Hi."))
    assert isinstance(events[-1], RunFinishedEvent)
    assert [each.text for each in events if isinstance(each, ContentEvent)] == ["one"]
    with agent(model) as opened:
        for _event in opened.stream_sync("Hi."):
            break
        assert opened.ask_sync("And now?") in ("two", "three")
        with pytest.raises(TypeError):
            opened.stream_sync(5)  # type: ignore[arg-type]


def test_an_iteration_that_is_closed_stops_the_run_and_its_tools():
    ended: list[bool] = []

    async def wait() -> None:
        """Waits."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with agent(TestModel(Call("wait"), "done"), tools=[wait]) as opened:
        events: Iterator[Any] = opened.stream_sync("Go.")
        for event in events:
            if getattr(event, "status", "") == "executing":
                break
        events.close()  # type: ignore[attr-defined]
        assert ended == [True]


class Refund(TypedDict):
    amount: int


def escalate(reason: str, context: ToolContext[User]) -> str:
    """Hands the case over to a person.

    Args:
        reason: why.
    """
    if len(reason) < 5:
        raise ValueError("Say more.")
    return f"{reason} for {context.deps.name}"


async def wait_days(days: int) -> dict[str, int]:
    """Waits some days."""
    return {"days": days}


async def test_one_of_several_outputs_ends_the_run():
    model = TestModel(Call("escalate", reason="x"), Call("escalate", reason="angry"))
    opened = agent(model, deps=User("Ada"))
    result = await opened.run("Go.", output=[Refund, escalate, wait_days])
    assert result.output == "angry for Ada"
    (declared,) = model.requests[0]["tools"]
    named = {each["name"]: each for each in declared["functionDeclarations"]}
    assert named.keys() == {"final_answer", "escalate", "wait_days"}
    assert "Hands the case over" in named["escalate"]["description"]
    assert "context" not in str(named["escalate"])
    assert "Say more." in str(model.requests[1])
    other = TestModel(Call("final_answer", amount=5), Call("wait_days", days=2))
    assert await agent(other).ask("Go.", output=[Refund, escalate]) == {"amount": 5}
    assert await agent(other).ask("Go.", output=[wait_days]) == {"days": 2}
    assert await agent(TestModel('{"value": 7}')).ask("Go.", output=[Refund, int]) == 7


async def test_functions_as_outputs_are_checked_and_their_failures_are_the_programs():
    def broken() -> str:
        """Breaks."""
        raise KeyError("x")

    with pytest.raises(ProgramError, match="output function broken raised KeyError"):
        await agent(TestModel(Call("broken"))).run("Go.", output=[broken])
    with pytest.raises(TypeError, match="there is a tool 'escalate'"):
        agent(TestModel(), tools=[escalate]).run("Go.", output=[Refund, escalate])
    with pytest.raises(TypeError, match="at least one"):
        agent(TestModel()).run("Go.", output=[])
    text = TestModel("I would say 5.", "Yes, 5.")
    with pytest.raises(OutputError):
        await agent(text).run("Go.", output=[Refund, escalate])


async def test_a_function_that_is_interrupted_leaves_every_call_with_its_response():
    async def hang(word: str) -> str:
        """Hangs."""
        opened.interrupt()
        await asyncio.sleep(60)
        return word

    model = TestModel(Call("hang", word="x"), "again")
    async with agent(model) as opened:
        with pytest.raises(InterruptedRunError):
            await opened.run("Go.", output=[hang])
        assert await opened.ask("And now?") == "again"
    parts = [part for each in model.requests[1]["contents"] for part in each["parts"]]
    assert sum("functionCall" in part for part in parts) == 1
    assert sum("functionResponse" in part for part in parts) == 1
