"""Every public name in use, checked by pyright in strict mode: `make lint` reads this file."""

import logging
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, assert_type, cast

import pytest

import alhena
from alhena import (
    Agent,
    AgentOptions,
    AlhenaError,
    Answer,
    ApprovalMode,
    Approver,
    Audio,
    BusyError,
    ConfigError,
    ConfirmationRequest,
    Content,
    DeniedCall,
    Document,
    FailedCall,
    Hook,
    HttpServer,
    Image,
    InProcessServer,
    Kind,
    LimitError,
    Limits,
    Model,
    Outcome,
    OutputError,
    Part,
    RemoteAgent,
    Result,
    Rule,
    Run,
    RunContext,
    Server,
    StdioServer,
    Subagent,
    Task,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    Usage,
    Video,
    call_tool,
    events,
    hooks,
    models,
    otel,
    run_many,
    testing,
    tool,
)

pytestmark = pytest.mark.requirement("LIB-01")


@dataclass
class City:
    name: str
    inhabitants: int


class Where(TypedDict):
    city: str


@dataclass
class Database:
    cities: dict[str, City]


@tool(kind=Kind.READ, timeout=10)
def find(where: Where, context: ToolContext[Database]) -> City:
    """Finds a city."""
    assert_type(context.deps, Database)
    context.progress(0.5)
    return context.deps.cities[where["city"]]


@tool(confirm=True)
async def draw(name: Annotated[str, "The city."], context: ToolContext) -> Image:
    """Draws a city."""
    context.progress(f"{name} in {context.cwd}")
    return Image(b"png", "image/png")


def approve(request: ConfirmationRequest) -> Answer:
    return Answer.no("not here") if request.tool_name == "pay" else Answer.yes()


def before_tool(given: dict[str, Any]) -> dict[str, Any] | None:
    return None if given["tool_name"] == "find" else {"decision": "deny"}


class Mine:
    """A model of a program's own."""

    async def generate(
        self, request: models.GenerateContentRequest
    ) -> models.GenerateContentResponse:
        content = Content(role="model", parts=(Part(text=request.model),))
        return models.GenerateContentResponse(candidates=(models.Candidate(content=content),))

    async def stream(
        self, request: models.GenerateContentRequest
    ) -> AsyncIterator[models.GenerateContentResponse]:
        yield await self.generate(request)

    async def count_tokens(self, contents: Sequence[Any], *, model: str) -> int:
        return len(contents) + len(model)

    async def embed(self, contents: Sequence[Any], *, model: str) -> models.EmbedContentResponse:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Nothing to close."""


def after_tool(call: hooks.AfterTool) -> hooks.AfterTool | None:
    assert_type(call.args, dict[str, Any])
    return call.replace(call.text.upper()) if call.tool_name == "find" else None


def before_model(request: hooks.BeforeModel) -> hooks.BeforeModel:
    return request.replace(contents=assert_type(request.contents, tuple[Content, ...])[-1:])


def instructions(context: RunContext[Database]) -> str:
    return f"{len(assert_type(context.deps, Database).cities)} cities, {context.prompt}"


def on_tool_error(call: FailedCall) -> str | None:
    return None if isinstance(call.exception, ToolError) else call.name


def every_argument(folder: Path) -> Agent[Database]:
    """An agent with every argument; it is not opened."""
    model: Model = Mine()
    approver: Approver = approve
    hook: Hook = before_tool
    servers: dict[str, Server] = {
        "files": StdioServer("npx", ["server"], {"KEY": "x"}, str(folder)),
        "web": HttpServer("https://example.com/mcp", {"X-Key": "x"}),
    }
    found: Tool = find
    return Agent(
        model,
        instructions=instructions,
        environment=False,
        on_tool_error=on_tool_error,
        tools=[found, draw],
        builtin_tools=["read_file"],
        approve=approver,
        approval_mode=ApprovalMode.AUTO_EDIT,
        policy=[
            Rule.allow("run_shell_command", command_prefix=["git log", "ls"]),
            Rule.deny("pay", when=lambda args: args["amount"] > 1000, message="Too much."),
            Rule.ask("*", priority=1, paths=["src/**"]),
            folder / "rules.toml",
        ],
        agents=[
            Subagent(
                name="helper",
                description="Helps.",
                instructions="Help.",
                tools=[find, "read_file"],
                output=City,
                limits=Limits(turns=3),
            )
        ],
        servers=servers,
        hooks={"BeforeTool": hook, "AfterTool": [after_tool, "echo"], "BeforeModel": before_model},
        limits=Limits(turns=5, tokens=1000, seconds=1.5, cost=0.1),
        cwd=folder,
        isolated=True,
        history=(Content(role="user", parts=(Part(text="Hi"),)),),
        deps=Database({}),
        options=AgentOptions(record=False),
    )


def test_every_argument_has_the_type_that_is_told(project: Path):
    (project / "rules.toml").write_text("")
    assert_type(every_argument(project), Agent[Database])
    assert_type(Agent(), Agent[None])


async def test_what_a_run_gives_has_the_type_of_its_output(project: Path):
    model = testing.TestModel("hello", "text", *[testing.Call("final_answer", value=1)] * 2)
    async with Agent(model, cwd=project, isolated=True, builtin_tools=()) as agent:
        run = agent.run("Hi.")
        assert_type(run, Run[str])
        async for event in run:
            if isinstance(event, events.ContentEvent):
                assert_type(event.text, str)
        result = await run
        assert_type(result, Result[str])
        assert_type(result.denied, tuple[DeniedCall, ...])
        assert_type(result.failed, tuple[FailedCall, ...])
        assert_type(result.usage + agent.usage, Usage)
        assert_type(await agent.ask("Hi."), str)
    assert result.text == "hello"
    assert agent.session_id
    assert_type(agent.history_json(), bytes)


def farewell(word: str) -> int:
    """Says goodbye."""
    return len(word)


def outputs(agent: Agent) -> None:
    """Checked by pyright alone."""
    assert_type(agent.ask_sync("x", output=City), City)
    assert_type(agent.ask_sync("x", output=list[City]), list[City])
    assert_type(agent.run_sync("x", output=int), Result[int])
    assert_type(agent.run("x", output=dict[str, float]), Run[dict[str, float]])
    named: Literal["a", "b"] | None = agent.ask_sync("x", output=Literal["a", "b"])
    assert named
    assert_type(agent.ask_sync([Part(text="x"), "y"]), str)
    assert_type(agent.ask_sync(Image.from_path("a.png")), str)
    media = [Document(b"x", "text/plain"), Audio.from_url("https://a.b/c.mp3"), Video(b"x")]
    assert_type(agent.ask_sync([*media, "y"]), str)
    assert_type(agent.run_sync("x", output=[City, farewell]), Result[City | int])
    assert_type(agent.ask_sync("x", output={"type": "object"}), Any)
    assert_type(agent.run("x", output=City).partial(), AsyncIterator[City])
    assert_type(agent.stream_sync("x", output=City), Iterator[events.Event])
    typed = Task("x", output=City)
    tasks: list[Task[object]] = [typed, Task("y")]  # as mypy joins them
    assert_type(run_many(tasks, agent=lambda: agent), AsyncGenerator[Outcome[object], None])
    assert_type(alhena.errors.ModelError("x").message, str)
    assert_type(find({"city": "Bern"}, cast("ToolContext[Database]", None)), City)


async def test_tools_models_servers_and_many_runs(project: Path):
    done = await call_tool(find, {"where": {"city": "Bern"}}, deps=Database({"Bern": City("B", 1)}))
    assert_type(done, ToolResult)
    assert done.error is None
    assert InProcessServer(type("S", (), {"run": None})()).server
    model = testing.TestModel("one", "two")
    outcomes = [
        outcome.result
        async for outcome in run_many(
            ["a", "b"], agent=lambda: Agent(model, cwd=project, isolated=True), concurrency=1
        )
    ]
    assert [result and result.text for result in outcomes] == ["one", "two"]
    async with (
        models.Gemini("gemini-2.5-flash", api_key="x") as gemini,
        models.OpenAICompatible("llama", base_url="http://localhost:1/v1") as local,
        models.Anthropic("claude", api_key="x") as claude,
    ):
        shared: list[Model] = [gemini, local, claude]
        assert [type(each).__name__ for each in shared]
    with testing.record(project / "a.jsonl"):
        assert await Agent(testing.TestModel("x"), cwd=project, isolated=True).ask("y") == "x"
    with testing.replay(project / "a.jsonl"), testing.no_real_requests():
        assert await Agent(testing.TestModel(), cwd=project, isolated=True).ask("y") == "x"


def test_a_remote_agent_is_named_by_its_card():
    remote = RemoteAgent(name="helper", card="https://agents.example/card.json")
    assert_type(remote.name, str)
    assert remote.name == "helper"


def test_the_errors_are_one_family(caplog: pytest.LogCaptureFixture):
    for kind in (BusyError, ConfigError, LimitError, OutputError):
        assert issubclass(kind, AlhenaError)
    assert logging.getLogger("alhena").name == "alhena"
    assert alhena.__version__
    otel.instrument()
    otel.uninstrument()
    assert not caplog.records


def test_the_page_for_programs_names_every_public_name_and_every_event():
    page = Path(alhena.__file__).parents[2] / "docs" / "embedding.md"
    told = page.read_text(encoding="utf-8")
    kinds = [name for name in vars(events) if name.endswith("Event") and name != "Event"]
    names = [name for name in alhena.__all__ if name != "__version__"]
    assert len(kinds) > 20
    assert [name for name in (*names, *kinds) if f"`{name}`" not in told] == []


WITHOUT_PYDANTIC = """
import sys
from dataclasses import dataclass
from alhena import Agent
from alhena.testing import Call, TestModel

@dataclass
class City:
    name: str

def people(city: City) -> int:
    "The number of people in a city."
    return len(city.name)

model = TestModel(Call("people", city={"name": "Bern"}), Call("final_answer", name="B"))
agent = Agent(model, tools=[people], isolated=True)
print(agent.ask_sync("Go.", output=City), sorted({"pydantic", "httpx2", "mcp"} & {*sys.modules}))
"""


def test_pydantic_is_not_imported_unless_a_type_of_the_program_needs_it(project: Path):
    command = [sys.executable, "-c", WITHOUT_PYDANTIC]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "City(name='B') []"
