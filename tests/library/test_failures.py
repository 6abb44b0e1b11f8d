"""Functions of a program that raise: seen in the log, in the result, in spans, by on_tool_error."""

import asyncio
import inspect
import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast, get_type_hints

import pytest

import alhena
from alhena import (
    Agent,
    AlhenaError,
    ConfigError,
    FailedCall,
    LimitError,
    Limits,
    OutputError,
    Rule,
    StdioServer,
    Subagent,
    ToolError,
    call_tool,
    otel,
    tool,
)
from alhena.errors import ModelError, ProgramError
from alhena.testing import Call, TestModel
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.requirement("LIB-12")


def fetch(number: int) -> str:
    """Fetches an order."""
    raise KeyError(f"no order {number}")


def find(number: int) -> str:
    """Finds an order."""
    raise ToolError(f"There is no order {number}. Ask for its number.")


@tool(confirm=lambda args: 1 // args["number"] > 5)
def pay(number: int) -> str:
    """Pays an order."""
    return "paid"


class Never:
    """Awaited, it is False."""

    def __await__(self) -> Generator[Any, None, bool]:
        yield from ()
        return False


def agent(model: TestModel, **given: Any) -> Agent[Any]:
    return Agent(model, **{"isolated": True, "builtin_tools": ()} | given)


def answers(model: TestModel) -> list[dict[str, Any]]:
    """The responses to the calls of the first turn."""
    parts = [part for each in model.requests[1]["contents"] for part in each["parts"]]
    return [each["functionResponse"]["response"] for each in parts if "functionResponse" in each]


async def test_a_tool_that_raises_is_logged_with_its_traceback_and_in_the_result(
    caplog: pytest.LogCaptureFixture,
):
    model = TestModel([Call("fetch", number=1), Call("find", number=2)], "Sorry.")
    result = await agent(model, tools=[fetch, find]).run("Where is it?")
    (failed,) = result.failed
    assert (failed.name, failed.args) == ("fetch", {"number": 1})
    assert isinstance(failed.exception, KeyError)
    assert failed.call_id.startswith("fetch-")
    (record,) = [each for each in caplog.records if each.name == "alhena.tools"]
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert "in fetch" in caplog.text
    told = "There is no order 2. Ask for its number."
    assert answers(model) == [{"error": "fetch failed: KeyError: 'no order 1'"}, {"error": told}]
    assert (await agent(TestModel("fine"), tools=[fetch]).run("Hi.")).failed == ()


def test_nothing_is_printed_unless_the_program_sets_up_logging(project: Path):
    program = """
import logging, sys
from alhena import Agent
from alhena.testing import Call, TestModel
if sys.argv[1:]:
    logging.basicConfig()
def fetch() -> str:
    "Fetches."
    raise KeyError("no order")
agent = Agent(TestModel(Call("fetch"), "Sorry."), tools=[fetch], isolated=True)
assert agent.run_sync("Go.").failed
"""
    quiet, logged = (
        subprocess.run(
            [sys.executable, "-c", program, *given],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        for given in ((), ("logging",))
    )
    assert quiet.stdout + quiet.stderr == ""
    assert logged.stderr.startswith("WARNING:alhena.tools:fetch failed: KeyError: 'no order'")


async def test_on_tool_error_says_what_the_model_reads_or_ends_the_run():
    def apologise(call: FailedCall) -> str | None:
        return f"{call.name} is down." if call.args["number"] == 1 else None

    model = TestModel([Call("fetch", number=1), Call("fetch", number=2)], "Sorry.")
    await agent(model, tools=[fetch], on_tool_error=apologise).run("Go.")
    usual = "fetch failed: KeyError: 'no order 2'"
    assert answers(model) == [{"error": "fetch is down."}, {"error": usual}]

    class RefusedError(Exception):
        pass

    def refuse(call: FailedCall) -> str:
        raise RefusedError(call.name) from call.exception

    model = TestModel(Call("fetch", number=1), "never asked")
    with pytest.raises(RefusedError, match="fetch"):
        await agent(model, tools=[fetch], on_tool_error=refuse).run("Go.")
    assert len(model.requests) == 1
    wrong: Any = len
    with pytest.raises(ProgramError, match="on_tool_error returned int"):
        await agent(
            TestModel(Call("fetch", number=1)), tools=[fetch], on_tool_error=lambda _: wrong("x")
        ).run("Go.")


def broken_hook(_given: dict[str, Any]) -> None:
    raise LookupError("no table")


async def wait_for_cancelled() -> str:
    """Waits for work that another part of the program cancelled."""
    work = asyncio.ensure_future(asyncio.Event().wait())
    work.cancel()
    await work
    return "never"


async def test_a_tool_whose_work_is_cancelled_by_others_is_a_failed_call():
    model = TestModel(Call("wait_for_cancelled"), "Sorry.")
    result = await agent(model, tools=[wait_for_cancelled]).run("Go.")
    (failed,) = result.failed
    assert (failed.name, result.output) == ("wait_for_cancelled", "Sorry.")
    assert "something it awaited was cancelled" in answers(model)[0]["error"]


@pytest.mark.parametrize("event", ["BeforeTool", "BeforeModel"])
async def test_a_hook_whose_work_is_cancelled_by_others_blocks_and_is_seen(event: str):
    async def hook(_given: dict[str, Any]) -> None:
        await wait_for_cancelled()

    model = TestModel(Call("find", number=1), "Sorry.")
    result = await agent(model, tools=[find], hooks={event: hook}).run("Go.")
    assert ["cancelled" in str(each.exception) for each in result.failed] == [True]
    assert "something it awaited was cancelled" in result.warnings[0]
    assert result.stop_reason == ("done" if event == "BeforeTool" else "blocked")


async def test_a_hook_that_hangs_takes_no_thread_from_the_loop_and_no_exit_ends_it():
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    release = threading.Event()

    def hang(_given: dict[str, Any]) -> None:
        release.wait(PATIENCE_S)

    def leave(_given: dict[str, Any]) -> None:
        sys.exit(3)

    asked = asyncio.create_task(agent(TestModel("one"), hooks={"BeforeAgent": hang}).ask("Go."))
    try:
        async with asyncio.timeout(PATIENCE_S / 2):
            while not any(each.name == "alhena-function" for each in threading.enumerate()):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(int)
            result = await agent(TestModel("one"), hooks={"BeforeAgent": leave}).run("Go.")
    finally:
        release.set()
    assert await asked == "one"
    assert result.stop_reason == "blocked"
    assert "SystemExit" in result.warnings[0]


@pytest.mark.parametrize(
    ("given", "call", "kind"),
    [
        ({"tools": [pay], "approve": "always"}, Call("pay", number=0), ZeroDivisionError),
        (
            {"tools": [pay], "policy": [Rule.deny("pay", when=lambda args: args["amount"] > 1)]},
            Call("pay", number=1),
            KeyError,
        ),
        (
            {
                "tools": [pay],
                "policy": [Rule.allow("pay", when=cast("Any", lambda _args: Never()))],
            },
            Call("pay", number=1),
            TypeError,
        ),
        (
            {"tools": [pay], "hooks": {"BeforeTool": broken_hook}},
            Call("pay", number=1),
            LookupError,
        ),
    ],
    ids=["confirm", "when", "async when", "hook"],
)
async def test_a_predicate_or_a_hook_that_raises_runs_nothing_and_is_seen(
    given: dict[str, Any], call: Call, kind: type[Exception], caplog: pytest.LogCaptureFixture
):
    model = TestModel(call, "Sorry.")
    result = await agent(model, **given, on_tool_error=lambda _call: "Not now.").run("Pay.")
    assert [type(each.exception) for each in result.failed] == [kind]
    assert result.failed[0].name == "pay"
    assert "Not now." in answers(model)[0]["error"]
    assert [each.name for each in caplog.records if each.exc_info] == ["alhena.tools"]


async def test_the_span_of_a_call_has_the_exception_also_in_a_subagent():
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    helper = Subagent(name="helper", description="Helps.", instructions="Help.", tools=[fetch])
    model = TestModel(
        Call("delegate_to_agent", agent_name="helper", objective="Fetch."),
        Call("fetch", number=3),
        Call("complete_task", result="No."),
        "Sorry.",
    )
    otel.instrument(tracer_provider=provider)
    try:
        result = await agent(model, agents=[helper], builtin_tools=["delegate_to_agent"]).run("Go.")
    finally:
        otel.uninstrument()
    assert [each.name for each in result.failed] == ["fetch"]
    (span,) = [each for each in spans.get_finished_spans() if each.name == "execute_tool fetch"]
    (event,) = [each for each in span.events if each.name == "exception"]
    told: Any = event.attributes
    assert told["exception.type"] == "KeyError"
    assert "in fetch" in told["exception.stacktrace"]


async def test_call_tool_gives_what_a_tool_raised():
    done = await call_tool(fetch, {"number": 1})
    assert done.error is not None
    assert isinstance(done.error.exception, KeyError)
    told = await call_tool(find, {"number": 1})
    assert told.error is not None
    assert told.error.exception is None


def misspelt(_given: dict[str, Any]) -> dict[str, Any]:
    return {"decison": "deny"}


def misspelt_inside(_given: dict[str, Any]) -> dict[str, Any]:
    return {"hookSpecificOutput": {"toolInput": {"number": 2}}}


@pytest.mark.parametrize(("hook", "key"), [(misspelt, "decison"), (misspelt_inside, "toolInput")])
async def test_a_misspelt_key_of_a_hook_ends_the_run(hook: Any, key: str):
    model = TestModel(Call("pay", number=1), "never asked")
    with pytest.raises(ProgramError, match=f"unknown key '.*{key}'"):
        await agent(model, tools=[pay], hooks={"BeforeTool": hook}, approve="always").run("Go.")
    assert len(model.requests) == 1


HELPER: dict[str, Any] = {"name": "helper", "description": "d", "instructions": "i"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policy": [Rule.deny("pey")], "tools": [pay], "approve": "always"}, "no tool 'pey'"),
        ({"agents": [Subagent(**HELPER, tools=["nope"])]}, "'helper': there is no tool 'nope'"),
        (
            {"agents": [Subagent(**HELPER, tools=["delegate_to_agent"])]},
            "cannot have the tool 'delegate_to_agent'",
        ),
        ({"agents": [Subagent(**HELPER, model="foo:x")]}, "no service has the prefix 'foo:'"),
        ({"servers": {"files": StdioServer("server")}}, "tools of the server files need approval"),
    ],
    ids=["rule", "subagent", "steering", "model", "server"],
)
async def test_what_names_nothing_or_can_never_run_is_an_error_at_entry(
    given: dict[str, Any], said: str
):
    with pytest.raises(ConfigError, match=said):
        await agent(TestModel("never asked"), **given).ask("Hi.")


async def test_a_subagent_whose_model_fails_is_a_failed_call(caplog: pytest.LogCaptureFixture):
    def refuse(_request: dict[str, Any]) -> str:
        raise ModelError("the service is down.")

    for more, read in (
        ({}, "the service is down"),
        ({"on_tool_error": lambda _: "Later."}, "Later."),
    ):
        model = TestModel(Call("helper", objective="x"), "done")
        helper = Subagent(**HELPER, model=TestModel(refuse))
        result = await agent(model, agents=[helper], **more).run("Go.")
        (failed,) = result.failed
        assert (failed.name, type(failed.exception)) == ("helper", ModelError)
        assert read in answers(model)[0]["error"]
    assert "helper failed: ModelError: the service is down." in caplog.text


async def test_rules_that_name_what_is_there_are_taken(project: Path):
    rules = [Rule.ask("read_file"), Rule.allow("pay"), Rule.deny("*", priority=1)]
    model = TestModel(Call("pay", number=1), "done")
    assert await agent(model, tools=[pay], policy=rules, cwd=project).ask("Go.") == "done"
    assert answers(model) == [{"output": "paid"}]


def test_errors_pickle_with_their_attributes():
    error = pickle.loads(pickle.dumps(OutputError("text", ("a", "b"))))
    assert (error.text, error.reasons, error.remedy) == (
        "text",
        ("a", "b"),
        "Allow more corrections=, or ask for less.",
    )
    assert str(pickle.loads(pickle.dumps(ConfigError("x.", remedy="y.")))) == "x. y."
    limits = Limits(turns=1)
    with pytest.raises(LimitError) as caught:
        agent(TestModel(Call("fetch", number=1)), tools=[fetch], limits=limits).ask_sync("Go.")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert isinstance(again, AlhenaError)
    assert again.result.failed[0].name == "fetch"


class RefusedError(Exception):
    def __init__(self, *, status: int) -> None:
        super().__init__(f"refused: {status}")


def refuse(number: int) -> str:
    """Raises an error that pickle cannot make again, as those of many HTTP clients are."""
    raise RefusedError(status=number)


def test_results_pickle_whatever_their_tools_raised():
    calls = [Call("refuse", number=3), Call("fetch", number=1)]
    result = agent(TestModel(calls, "done"), tools=[refuse, fetch]).run_sync("Go.")
    again = pickle.loads(pickle.dumps(result))
    assert again.output == "done"
    by_name = {each.name: each.exception for each in again.failed}
    assert repr(by_name["refuse"]) == "RuntimeError('RefusedError: refused: 3')"
    assert type(by_name["fetch"]) is type(result.failed[-1].exception)


def test_remedies_name_what_a_program_gives():
    limits = Limits(turns=1)
    with pytest.raises(LimitError, match=r"Limits\(turns=…\)") as caught:
        agent(TestModel(Call("fetch", number=1)), tools=[fetch], limits=limits).ask_sync("Go.")
    assert "--" not in str(caught.value)


def test_the_hints_of_every_public_name_can_be_read():
    from alhena import events, hooks, models, testing

    modules: list[Any] = [alhena, events, hooks, models, otel, testing]
    for module in modules:
        for name in module.__all__:
            found = getattr(module, name)
            functions = [found] if inspect.isroutine(found) else []
            if inspect.isclass(found):
                get_type_hints(found)
                functions = [each for _, each in inspect.getmembers(found, inspect.isfunction)]
            for each in functions:
                if not each.__name__.startswith("_") or each.__name__ == "__init__":
                    assert isinstance(get_type_hints(each), dict), (module, name)


def test_help_shows_the_public_names_and_arguments():
    assert (alhena.Rule.__name__, alhena.Model.__name__) == ("Rule", "Model")
    for each in (Agent.ask, Agent.ask_sync, Agent.run_sync, Agent.stream_sync):
        assert {"output", "check", "corrections", "deps"} <= set(inspect.signature(each).parameters)
    import re

    for name in alhena.__all__:
        assert not re.search(r"\b[A-Z]{3,}-\d\d\b", inspect.getdoc(getattr(alhena, name)) or "")
