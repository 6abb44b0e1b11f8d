import asyncio
import contextvars
import dataclasses
import datetime as dt
import enum
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.events import ToolOutputEvent
from alhena.policy.model import PolicyOutcome
from alhena.scheduler.states import CallStatus
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.tools.function import ToolContext, tool
from alhena.wire.content import Blob, Part
from tests.scheduler.kit import Stage, deciding, request, response_of
from tests.support.media import PNG_TEXT
from tests.support.patience import PATIENCE_S

PNG = Part(inline_data=Blob(mime_type="image/png", data=PNG_TEXT))


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Shape(msgspec.Struct):
    """An outline."""

    corners: list[Point]
    color: Color = Color.RED


@pytest.mark.requirement("TOOLS-01")
def test_a_function_is_a_tool_by_its_name_docstring_and_hints():
    @tool
    def convert_units(amount: float, unit: str = "m") -> str:
        """Converts a length.

        Longer words about it.

        Args:
            amount: How much.
            unit (str): The unit to convert to,
                by its symbol.

        Returns:
            The length as text.
        """
        return f"{amount} {unit}"

    assert convert_units.name == "convert_units"
    assert convert_units.display_name == "convert_units"
    assert convert_units.kind is Kind.OTHER
    assert (convert_units.is_output_markdown, convert_units.can_update_output) == (False, False)
    declaration = convert_units.declaration()
    assert declaration.description == "Converts a length.\n\nLonger words about it."
    assert declaration.parameters_json_schema == {
        "type": "object",
        "properties": {
            "amount": {"type": "number", "description": "How much."},
            "unit": {
                "type": "string",
                "description": "The unit to convert to, by its symbol.",
                "default": "m",
            },
        },
        "required": ["amount"],
    }
    assert convert_units(2.0) == "2.0 m"


def test_name_kind_and_confirmation_can_be_given():
    @tool(name="look-up", kind=Kind.SEARCH)
    def _search(query: str) -> str:
        """Looks it up."""
        return query

    assert (_search.name, _search.kind) == ("look-up", Kind.SEARCH)


async def run(decorated: Any, **args: Any) -> dict[str, Any]:
    stage = Stage(decorated)
    (done,) = await stage.run(request("c0", decorated.name, **args))
    return response_of(done)


@pytest.mark.parametrize(
    ("value", "output"),
    [
        ("text", "text"),
        (None, "(no output)"),
        (3, "3"),
        ([1, "a"], '[1,"a"]'),
        ({"a": Point(1, 2.5)}, '{"a":{"x":1,"y":2.5}}'),
        (Color.BLUE, '"blue"'),
        (True, "true"),
        ("", ""),
        (PNG, "Binary content of type image/png was processed."),
        (["see", PNG], "see"),
        (ToolResult(llm_content="own"), "own"),
    ],
)
async def test_what_a_function_returns_is_what_the_model_sees(value, output):
    @tool
    def give() -> Any:
        """Gives it."""
        return value

    assert await run(give) == {"output": output}


@pytest.mark.requirement("TOOLS-03")
async def test_pictures_a_function_returns_reach_the_model():
    @tool
    async def draw() -> list[Any]:
        """Draws it."""
        return ["see", PNG, {"n": 1}]

    (done,) = await Stage(draw).run("draw")
    first, *media = done.response.response_parts
    assert first.function_response is not None
    assert first.function_response.response == {"output": 'see\n{"n":1}'}
    assert media == [PNG]
    assert done.response.result_display == 'see\n(image/png)\n{"n":1}'


async def test_arguments_arrive_as_the_hinted_types():
    seen: list[Any] = []

    @tool
    async def take(shape: Shape, level: Level, where: Point | None = None, n: int = 7) -> None:
        """Takes it."""
        seen.extend([shape, level, where, n])

    args = {"shape": {"corners": [{"x": 1}], "color": "blue"}, "level": 2.0, "where": None}
    assert await run(take, **args) == {"output": "(no output)"}
    assert seen == [Shape([Point(1)], Color.BLUE), Level.HIGH, None, 7]


@pytest.mark.requirement("TOOLS-05")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "params must have required property 'level', got nothing"),
        ({"level": 9}, "params/level must be equal to one of the allowed values: 1, 2, got"),
        ({"level": 1, "other": 2}, "params must NOT have additional properties: 'other'"),
    ],
)
async def test_arguments_that_do_not_fit_are_named(args, message):
    @tool
    def take(level: Level) -> None:
        """Takes it."""
        raise AssertionError

    failure = take.build(args)
    assert isinstance(failure, ToolFailure)
    assert failure.type is ToolErrorType.INVALID_TOOL_PARAMS
    assert failure.message.startswith(message)


async def test_what_no_schema_says_is_found_by_the_conversion():
    @tool
    def take(day: dt.date) -> None:
        """Takes it."""

    failure = take.build({"day": "2024-02-31"})
    assert isinstance(failure, ToolFailure)
    assert failure.message.startswith("params/day")


@pytest.mark.parametrize("stop", [ValueError("no\nway"), SystemExit(3), StopIteration()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_that_raises_is_a_failure_and_never_ends_the_program(stop, is_async):
    def fails() -> None:
        """Fails."""
        raise stop

    async def fails_too() -> None:
        """Fails."""
        raise stop

    (done,) = await Stage(tool(fails_too if is_async else fails)).run(
        "fails_too" if is_async else "fails"
    )
    assert done.status is CallStatus.ERROR
    assert done.response.error_type is ToolErrorType.EXECUTION_FAILED
    if isinstance(stop, ValueError):
        assert response_of(done)["error"].endswith(" failed: ValueError: no way")


async def test_a_result_without_a_json_form_is_a_failure():
    @tool
    def give() -> Any:
        """Gives it."""
        return object()

    assert (await run(give))["error"].startswith(
        "give returned object, which cannot be put to a model: "
    )


async def test_a_context_is_injected_and_hidden_from_the_model():
    threads: list[int] = []

    @tool
    def watch(folder: str, ctx: ToolContext) -> str:
        """Watches it."""
        ctx.progress("looking\n")
        threads.append(threading.get_ident())
        return f"{folder} in {ctx.cwd.name}"

    assert list(watch.parameter_schema["properties"]) == ["folder"]
    assert watch.can_update_output
    stage = Stage(watch)
    (done,) = await stage.run(request("c0", "watch", folder="src"))
    assert response_of(done) == {"output": "src in project"}
    assert [event.text for event in stage.events if isinstance(event, ToolOutputEvent)]
    assert threads != [threading.get_ident()]


async def test_functions_that_block_run_beside_each_other_with_the_callers_context_variables():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")
    meeting = threading.Barrier(2, timeout=PATIENCE_S)

    @tool(kind=Kind.READ)
    def meet() -> str:
        """Meets the other one."""
        meeting.wait()
        return variable.get()

    done = await Stage(meet).run("meet", "meet")
    assert [response_of(call) for call in done] == [{"output": "mine"}] * 2


async def test_a_blocked_function_does_not_keep_a_cancelled_call_from_ending():
    entered, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool
    def block(ctx: ToolContext) -> str:
        """Blocks."""
        loop.call_soon_threadsafe(entered.set)
        release.wait()
        return str(ctx.cancelled)

    stage = Stage(block)
    running = asyncio.create_task(stage.run("block"))
    await entered.wait()
    stage.scheduler.cancel_all()
    (done,) = await running
    assert done.status is CallStatus.CANCELLED
    release.set()


async def test_a_sync_function_that_returns_a_coroutine_is_awaited():
    class Later:
        async def __call__(self, n: int) -> int:
            """Adds one."""
            return n + 1

    later = tool(name="later")(Later().__call__)
    assert await run(later, n=1) == {"output": "2"}


@pytest.mark.requirement("TOOLS-02")
async def test_a_call_describes_itself_and_what_there_is_to_approve():
    @tool(confirm=True)
    def send(to: str, count: int = 1) -> None:
        """Sends it."""

    @tool
    def quiet() -> None:
        """Does nothing."""

    @tool(confirm=lambda args: f"Mail {args['to']}?")
    def mail(to: str) -> None:
        """Mails."""

    context = ExecutionContext(Path.cwd())
    call = send.build({"to": "x", "count": 2})
    assert not isinstance(call, ToolFailure)
    assert call.describe() == 'send(to="x", count=2)'
    assert call.params == {"to": "x", "count": 2}
    assert call.locations() == ()
    details = await call.confirmation(context)
    assert (details.title, details.prompt) == ("Run send?", 'send(to="x", count=2)')
    assert await quiet.build({}).confirmation(context) is None
    assert (await mail.build({"to": "Ann"}).confirmation(context)).prompt == "Mail Ann?"


async def test_a_policy_that_asks_is_followed_for_functions_too():
    ran: list[str] = []

    @tool
    def act() -> None:
        """Acts."""
        ran.append("act")

    stage = Stage(act, decide=deciding(act=PolicyOutcome.ASK_USER), approver=lambda asked: False)
    (done,) = await stage.run("act")
    assert (done.status, ran) == (CallStatus.CANCELLED, [])
