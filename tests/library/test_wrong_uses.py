# pyright: basic, reportArgumentType=false, reportCallIssue=false
"""Wrong uses of the library: each raises in the program, and names what is wrong."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena import (
    Agent,
    AgentOptions,
    AlhenaError,
    Answer,
    ConfigError,
    HttpServer,
    Image,
    InProcessServer,
    Limits,
    ModelSettings,
    Rule,
    StdioServer,
    Subagent,
    call_tool,
    run_many,
    tool,
)
from alhena.errors import InputError, ProgramError
from alhena.models import Gemini, RetryPolicy
from alhena.models.errors import CredentialsError
from alhena.testing import TestModel
from tests.support.each import for_each
from tests.support.server import ScriptedServer


def half(number: int) -> int:
    """Halves a number."""
    return number // 2


def no_words(number: int) -> int:
    return number


async def never(_given: Any) -> Any:
    """Awaited, it is False."""
    return False


class Counter:
    """Counts."""


def agent(**given: Any) -> Callable[[], object]:
    return lambda: Agent(**{"model": "demo"} | given)


def run(*given: Any, **more: Any) -> Callable[[], object]:
    return lambda: Agent("demo").run(*given, **more)


def subagent(**given: Any) -> Callable[[], object]:
    whole = {"name": "n", "description": "d", "instructions": "i"} | given
    return lambda: Agent("demo", agents=[Subagent(**whole)])


async def many(tasks: Any) -> list[Any]:
    return [each async for each in run_many(tasks, agent=lambda: Agent("demo"))]


def call(*given: Any) -> Callable[[], object]:
    return lambda: asyncio.run(call_tool(*given))


USES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (agent(model=5), TypeError, "model has to be a name or a model, not int"),
    (agent(model=TestModel), TypeError, "not the class TestModel"),
    (agent(tool=[half]), TypeError, "unexpected keyword argument 'tool'"),
    (agent(tools=5), TypeError, "tools has to be a sequence, such as [5]"),
    (agent(tools="read_file"), TypeError, "tools has to be a sequence"),
    (agent(tools=[None]), TypeError, "tools: None is neither a tool nor a function"),
    (agent(tools=[Counter]), TypeError, "is neither a tool nor a function"),
    (agent(tools=[lambda x: x]), TypeError, "a tool cannot be named"),
    (agent(tools=[half, half]), ConfigError, "tools: there are two of the name 'half'"),
    (agent(model=""), TypeError, "model is empty"),
    (agent(on_tool_error=5), TypeError, "on_tool_error has to be a function, not 5"),
    (agent(on_tool_error=many), TypeError, "on_tool_error has to be a function that is not async"),
    (agent(environment="no"), TypeError, "Agent.environment cannot be 'no'"),
    (agent(tools=[no_words]), TypeError, "no_words() has no docstring"),
    (agent(builtin_tools=["reed_file"]), ConfigError, "there is no built-in tool 'reed_file'"),
    (agent(builtin_tools="read_file"), TypeError, "builtin_tools has to be a sequence"),
    (agent(builtin_tools=[5]), ConfigError, "there is no built-in tool 5"),
    (
        agent(approve=5),
        TypeError,
        "approve has to be callable, 'always', 'never' or 'defer', not 5",
    ),
    (agent(approve="yes"), TypeError, "approve has to be callable"),
    (agent(approval_mode="sometimes"), ConfigError, "approval_mode cannot be 'sometimes'"),
    (agent(approval_mode=5), ConfigError, "approval_mode cannot be 5"),
    (agent(policy="x.toml"), TypeError, "policy has to be a sequence"),
    (agent(policy=Path("x.toml")), TypeError, "policy has to be a sequence"),
    (agent(policy=[5]), TypeError, "policy[0] has to be a Rule or a path, not 5"),
    (agent(agents=5), TypeError, "agents has to be a sequence"),
    (agent(agents=[5]), TypeError, "agents: 5 is no Subagent"),
    (agent(servers=[1]), TypeError, "servers has to be a mapping"),
    (agent(servers={"a": "cmd"}), TypeError, "servers['a'] has to be a StdioServer"),
    (agent(hooks=5), TypeError, "hooks has to be a mapping of events, not int"),
    (agent(hooks=[half]), TypeError, "hooks has to be a mapping of events, not list"),
    (agent(hooks={"hooks": {}}), ConfigError, "hooks.hooks is no event"),
    (agent(hooks={"BeforeTol": half}), ConfigError, "hooks.BeforeTol is no event"),
    (agent(hooks={"BeforeTool": 5}), TypeError, "hooks['BeforeTool'] has to be a function"),
    (agent(hooks={"BeforeTool": None}), TypeError, "hooks['BeforeTool'] has to be a function"),
    (agent(hooks={"BeforeTool": [{"hooks": 5}]}), ConfigError, "hooks.BeforeTool[0].hooks"),
    (agent(limits=5), TypeError, "limits has to be Limits(…), not 5"),
    (agent(limits={"turns": 1}), TypeError, "limits has to be Limits(…)"),
    (agent(cwd=5), TypeError, "cwd has to be a path, not 5"),
    (agent(isolated="yes"), TypeError, "isolated cannot be 'yes'"),
    (agent(isolated=True, resume="latest"), ConfigError, "resume and isolated exclude each other"),
    (agent(resume=5), TypeError, "resume cannot be 5"),
    (agent(instructions=5), TypeError, "instructions cannot be 5"),
    (agent(history=[{"role": "user"}]), TypeError, "history[0] has to be a Content, not dict"),
    (agent(history=b"{"), ConfigError, "history is no JSON of a conversation"),
    (agent(history=b"[5]"), ConfigError, "history is no JSON of a conversation"),
    (agent(history="x"), TypeError, "history has to be a sequence"),
    (agent(options={"record": False}), TypeError, "options has to be AgentOptions(…)"),
    (agent(options=AgentOptions(settings={})), TypeError, "AgentOptions.settings has to be"),
    (agent(options=AgentOptions(environ=5)), TypeError, "AgentOptions.environ has to be"),
    (lambda: AgentOptions(allowed_tools="x"), TypeError, "AgentOptions.allowed_tools cannot be"),
    (lambda: AgentOptions(record="no"), TypeError, "AgentOptions.record cannot be 'no'"),
    (lambda: Limits(turns="x"), TypeError, "Limits.turns cannot be 'x'"),
    (lambda: ModelSettings(thinking="much"), TypeError, "it is one of 'off', 'minimal', 'low',"),
    (lambda: RetryPolicy(max_attempts=0), TypeError, "RetryPolicy.max_attempts cannot be 0"),
    (lambda: RetryPolicy(max_wait_s=-1), TypeError, "RetryPolicy cannot be below 0"),
    (lambda: Limits(turns=-2), TypeError, "Limits.turns cannot be -2"),
    (lambda: Limits(seconds=-1), TypeError, "Limits.seconds cannot be -1"),
    (lambda: Limits(cost="1"), TypeError, "Limits.cost cannot be '1'"),
    (lambda: Rule.allow(""), TypeError, "is empty"),
    (lambda: Rule.allow("x", prio=5), TypeError, "'prio'"),
    (lambda: Rule.allow("x", priority=5000), TypeError, "Rule.priority cannot be 5000"),
    (lambda: Rule.allow("x", command_regex="("), TypeError, "is not a regular expression"),
    (lambda: Rule.allow("x", modes=["nope"]), TypeError, "Rule.modes cannot be"),
    (lambda: Rule.deny("x", when=5), TypeError, "Rule.when has to be a function"),
    (lambda: Rule.allow("x", when=never), TypeError, "Rule.when has to be a function that is not"),
    (lambda: Rule.deny("x", message=5), TypeError, "Rule.deny_message cannot be 5"),
    (lambda: StdioServer(" "), ConfigError, "StdioServer.command is empty"),
    (lambda: StdioServer("x", "y"), TypeError, "StdioServer.args cannot be 'y'"),
    (lambda: StdioServer("x", env={"A": 5}), TypeError, "StdioServer.env has to be a mapping"),
    (lambda: HttpServer("localhost:80"), ConfigError, "HttpServer.url cannot be"),
    (lambda: HttpServer("http://x", headers=5), TypeError, "HttpServer.headers has to be"),
    (lambda: InProcessServer(5), TypeError, "InProcessServer takes a server of the MCP SDK"),
    (lambda: Answer.yes("x"), TypeError, "Answer.yes takes the arguments as a dict"),
    (lambda: Answer.no(5), TypeError, "Answer.no takes the reason as text"),
    (lambda: Image("x", "image/png"), TypeError, "Image.data has to be bytes, not str"),
    (lambda: Image(b"x", "png"), TypeError, "Image.mime_type has to be"),
    (subagent(name="a b"), ConfigError, "Subagent 'a b': that is no name"),
    (subagent(name="codebase_investigator"), ConfigError, "two of the name"),
    (subagent(instructions=""), ConfigError, "its instructions is empty"),
    (subagent(tools="read_file"), TypeError, "tools has to be a sequence"),
    (subagent(tools=[5]), TypeError, "tools: 5 is neither a tool nor a function"),
    (subagent(model=5), TypeError, "Subagent.model cannot be"),
    (subagent(output=complex), TypeError, "complex"),
    (subagent(limits=Limits(cost=1)), ConfigError, "limits of tokens and cost"),
    (run(5), TypeError, "prompt has to be text, Parts and media, not 5"),
    (run(None), TypeError, "prompt has to be text"),
    (run(["x", 5]), TypeError, "prompt has to be text, Parts and media, not int"),
    (run(" "), InputError, "the prompt is empty"),
    (run([]), InputError, "the prompt is empty"),
    (run("x", output=5), TypeError, "output cannot be 5"),
    (run("x", output=complex), TypeError, "output cannot be"),
    (run("x", output=int, check=5), TypeError, "check has to be a function, not 5"),
    (run("x", output=int, check=never), TypeError, "check has to be a function that is not async"),
    (run("x", check=len), TypeError, "check needs output="),
    (run("x", output=int, corrections=-1), TypeError, "corrections has to be a number from 0"),
    (run("x", out=int), TypeError, "unexpected keyword argument 'out'"),
    (lambda: tool(half, name="a b"), TypeError, "a tool cannot be named 'a b'"),
    (lambda: tool(nmae="x")(half), TypeError, "nmae"),
    (lambda: tool(timeout=0)(half), TypeError, "timeout has to be a number of seconds above 0"),
    (lambda: tool(timeout="x")(half), TypeError, "timeout has to be a number of seconds above 0"),
    (lambda: tool(confirm="yes")(half), TypeError, "confirm has to be True, False or a function"),
    (lambda: tool(kind="nonsense")(half), ValueError, "nonsense"),
    (lambda: asyncio.run(many("hey")), TypeError, "tasks has to be a sequence of prompts"),
    (call(5, {}), TypeError, "tool: 5 is neither a tool nor a function"),
    (call(half, 5), TypeError, "args has to be a mapping of arguments, not 5"),
]


@pytest.mark.requirement("LIB-05")
@for_each(("use", "error", "said"), USES)
def test_a_wrong_use_is_refused_by_name(
    use: Callable[[], object], error: type[Exception], said: str
):
    with pytest.raises(error) as caught:
        use()
    assert said in str(caught.value)


@pytest.mark.requirement("LIB-05")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cwd": "/no/such/folder"}, "the directory /no/such/folder does not exist"),
        ({"cwd": __file__}, "test_wrong_uses.py is no directory"),
        ({"resume": "no such"}, "there are no sessions of this project"),
        ({"policy": ["/no/such/rules.toml"]}, "/no/such/rules.toml"),
    ],
    ids=["cwd", "file", "resume", "policy"],
)
async def test_what_is_not_there_is_an_error_when_the_agent_is_opened(
    given: dict[str, Any], said: str, project: Path
):
    with pytest.raises(AlhenaError) as caught:
        async with Agent("demo", **{"cwd": project} | given):
            pass
    assert said in str(caught.value)


@pytest.mark.parametrize("empty", [b"", None, "", ()])
async def test_an_empty_history_is_an_empty_conversation(empty: Any):
    opened = Agent(TestModel("yes"), history=empty, isolated=True, builtin_tools=())
    assert await opened.ask("Is it?") == "yes"
    assert len(opened.history) == 2


async def test_a_closed_model_refuses(server: ScriptedServer):
    async with Gemini("gemini-2.5-flash", api_key="x", base_url=server.url) as model:
        pass
    with pytest.raises(
        ProgramError, match=r"are closed\. Use the model inside of its `async with`"
    ):
        await Agent(model, isolated=True).ask("Hi.")
    assert server.requests == []


async def test_the_remedy_for_absent_credentials_is_one_for_programs(project: Path):
    with pytest.raises(CredentialsError, match=r"Set GEMINI_API_KEY, or pass a model") as caught:
        await Agent("gemini-2.5-flash", cwd=project).ask("x")
    assert "--" not in str(caught.value)
