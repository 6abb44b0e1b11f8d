"""The arguments of `Agent`: functions, approvals, rules, hooks, isolation."""

from pathlib import Path
from typing import Any

import pydantic
import pytest

import alhena
from alhena import Agent, Answer, ConfigError, ConfirmationRequest, Rule, tool
from alhena.errors import ProgramError
from alhena.events import HookCallEvent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def calls(*parts: dict[str, Any]) -> ScriptedGenerator:
    return ScriptedGenerator([chunk(*parts, finish="STOP")], [text("done")])


def declared(generator: ScriptedGenerator) -> set[str]:
    found: Any = generator.requests[0].config.tools
    return {each.name for each in found[0].function_declarations} if found else set()


def answered(generator: ScriptedGenerator) -> list[Any]:
    return [part["functionResponse"]["response"] for part in generator.seen(1)[-1]["parts"]]


WRITE = call("write_file", {"file_path": "a.txt", "content": "x"}, id="w")


def half(number: int) -> int:
    """Halves a number."""
    return number // 2


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, number: int) -> int:
        """Adds a number."""
        self.total += number
        return self.total


@pytest.mark.requirement("LIB-01")
def test_the_public_names_are_these_and_load_by_themselves():
    names = """
        Agent AgentOptions AlhenaError Answer ApprovalMode Approver Audio BusyError ConfigError
        ConfirmationRequest Content Deferred DeniedCall Document FailedCall FileStore Hook
        HttpServer Image InProcessServer Kind LimitError Limits Model ModelSettings Outcome
        OutputError Part RemoteAgent Result Rule Run RunContext SQLiteStore Server StdioServer
        Store Subagent Task Tool ToolContext ToolError ToolResult Usage Video __version__
        call_tool errors evals events hooks models native otel run_many testing tool
    """
    assert dir(alhena) == names.split()
    for name in alhena.__all__:
        assert getattr(alhena, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        _ = alhena.Agnet  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]


async def test_plain_functions_and_bound_methods_are_tools(project: Path):
    counter = Counter()
    generator = calls(call("half", {"number": 8}), call("add", {"number": 3}))
    async with Agent(generator, tools=[half, counter.add], cwd=project) as agent:
        await agent.ask("go")
    assert answered(generator) == [{"output": "4"}, {"output": "3"}]
    assert counter.total == 3


class Order(pydantic.BaseModel):
    number: int
    city: str = ""


async def test_paths_and_models_of_pydantic_are_parameters_and_results(project: Path):
    def ship(orders: list[Order], to: Path) -> dict[str, Any]:
        """Ships orders."""
        return {"first": orders[0], "to": to / "x"}

    def where() -> Path:
        """A path."""
        return Path("/a")

    def order() -> Order:
        """An order."""
        return Order(number=7)

    generator = calls(
        call("ship", {"orders": [{"number": 1}], "to": "/tmp"}),
        call("where", {}),
        call("order", {}),
        call("ship", {"orders": [{"number": "x"}], "to": "/tmp"}),
    )
    async with Agent(generator, tools=[ship, where, order], cwd=project) as agent:
        await agent.ask("go")
    first, second, third, wrong = answered(generator)
    assert first == {"output": '{"first":{"number":1,"city":""},"to":"/tmp/x"}'}
    assert second == {"output": '"/a"'}
    assert third == {"output": '{"number":7,"city":""}'}
    assert "number" in wrong["error"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [((), {"half"}), (("read_file", "ls"), {"half", "read_file", "list_directory"})],
)
async def test_only_the_built_in_tools_that_are_named_are_declared(
    project: Path, names: tuple[str, ...], expected: set[str]
):
    generator = ScriptedGenerator([text("ok")])
    async with Agent(generator, tools=[half], builtin_tools=names, cwd=project) as agent:
        await agent.ask("go")
    assert declared(generator) == expected


async def test_always_approves_and_never_refuses(project: Path):
    for approve, written in (("never", False), ("always", True)):
        async with Agent(calls(WRITE), approve=approve, cwd=project) as agent:
            result = await agent.run("go")
        assert (project / "a.txt").exists() is written
        assert [each.call_id for each in result.denied] == ([] if written else ["w"])


async def test_an_approval_can_change_the_arguments_which_the_policy_sees_again(project: Path):
    async def approve(request: ConfirmationRequest) -> Answer:
        return Answer.yes({**request.args, "file_path": "b.txt"})

    async with Agent(calls(WRITE), approve=approve, cwd=project) as agent:
        await agent.ask("go")
    assert not (project / "a.txt").exists()
    assert (project / "b.txt").read_text() == "x"

    deny = Rule.deny("write_file", when=lambda args: args["file_path"] == "b.txt", message="Not b.")
    generator = calls(call("write_file", {"file_path": "c.txt", "content": "x"}, id="c"))
    async with Agent(generator, approve=approve, policy=[deny], cwd=project) as agent:
        result = await agent.run("go")
    assert not (project / "c.txt").exists()
    assert "Not b." in result.denied[0].reason


async def test_changed_arguments_that_do_not_fit_are_asked_about_again(project: Path):
    problems: list[str] = []

    def approve(request: ConfirmationRequest) -> Answer:
        problems.append(request.problem)
        return Answer.yes({"path": 5}) if len(problems) == 1 else Answer.no("as said")

    generator = calls(WRITE)
    async with Agent(generator, approve=approve, cwd=project) as agent:
        await agent.ask("go")
    assert problems[0] == ""
    assert "file_path" in problems[1]
    assert "as said" in str(answered(generator))


@pytest.mark.parametrize(
    ("approve", "said"),
    [
        (lambda _request: 1 / 0, "approve raised ZeroDivisionError: division by zero"),
        (lambda _request: "yes", "approve returned str instead of True, False or an Answer"),
    ],
)
async def test_an_approval_callback_that_fails_ends_the_run(project: Path, approve: Any, said: str):
    generator = calls(WRITE)
    async with Agent(generator, approve=approve, cwd=project) as agent:
        with pytest.raises(ProgramError, match=said):
            await agent.run("go")
    assert len(generator.requests) == 1
    assert not (project / "a.txt").exists()


@pytest.mark.requirement("LIB-05")
def test_rules_made_of_text_are_those_made_of_enums():
    rule = Rule.allow("run_shell_command", command_prefix="git log")
    assert rule == Rule(
        decision="allow",  # pyright: ignore[reportArgumentType]
        priority=500,
        tool_names=("run_shell_command",),
        command_prefixes=("git log",),
        source="the program",
    )
    assert Rule.ask("*").tool_names == ()
    for wrong in ({"priority": 1000}, {"command_prefix": ""}, {"mode": "yolo"}, {"paths": "x"}):
        with pytest.raises(TypeError):
            Rule.deny("x", **wrong)
    unknown: Any = {"command": "git push"}
    with pytest.raises(TypeError, match=r"no condition 'command'; it may have command_prefix, "):
        Rule.deny("run_shell_command", **unknown)


@pytest.mark.requirement("LIB-07")
async def test_rules_with_predicates_decide_by_the_arguments(project: Path):
    @tool
    def pay(amount: int) -> str:
        """Pays."""
        return f"paid {amount}"

    deny = Rule.deny("pay", when=lambda args: args["amount"] > 1000, message="Too much.")
    generator = calls(call("pay", {"amount": 10}), call("pay", {"amount": 5000}))
    async with Agent(generator, tools=[pay], policy=[deny], cwd=project) as agent:
        await agent.ask("go")
    assert [str(each) for each in answered(generator)] == [
        "{'output': 'paid 10'}",
        "{'error': 'Tool execution denied by policy. Too much.'}",
    ]


@pytest.mark.requirement("LIB-07")
async def test_a_predicate_that_raises_lets_nothing_run(project: Path):
    allow = Rule.allow("half", when=lambda args: args["nothing"])
    generator = calls(call("half", {"number": 8}))
    async with Agent(generator, tools=[half], policy=[allow], cwd=project) as agent:
        await agent.ask("go")
    assert "the policy could not be asked" in str(answered(generator))


@pytest.mark.requirement("LIB-07")
async def test_functions_are_hooks(project: Path):
    seen: list[tuple[str, Any]] = []

    async def before(given: dict[str, Any]) -> dict[str, Any] | None:
        seen.append((given["hook_event_name"], given["tool_input"]))
        if given["tool_input"]["number"] == 13:
            return {"decision": "deny", "reason": "unlucky"}
        return None

    def after(given: dict[str, Any]) -> None:
        seen.append((given["hook_event_name"], given["tool_name"]))

    generator = calls(call("half", {"number": 8}), call("half", {"number": 13}))
    hooks = {"BeforeTool": before, "AfterTool": [after]}
    async with Agent(generator, tools=[half], hooks=hooks, cwd=project) as agent:
        events = [event async for event in agent.run("go")]
    assert ("BeforeTool", {"number": 8}) in seen
    assert ("AfterTool", "half") in seen
    first, second = answered(generator)
    assert first == {"output": "4"}
    assert "unlucky" in str(second)
    kinds = {event.kind for event in events if isinstance(event, HookCallEvent)}
    assert kinds == {"function"}


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (lambda _given: 1 / 0, "it raised ZeroDivisionError"),
        (lambda _given: "no", "it returned str instead of a dict or None"),
    ],
)
@pytest.mark.requirement("LIB-07")
async def test_a_hook_function_that_fails_blocks(project: Path, hook: Any, said: str):
    generator = calls(call("half", {"number": 8}))
    async with Agent(generator, tools=[half], hooks={"BeforeTool": hook}, cwd=project) as agent:
        result = await agent.run("go")
    assert said in str(answered(generator))
    assert any(said in each for each in result.warnings)


@pytest.mark.requirement("LIB-07")
async def test_commands_and_groups_with_a_matcher_are_hooks_too(project: Path):
    group = {"matcher": "half", "hooks": [{"command": "echo blocked >&2; exit 2"}]}
    generator = calls(call("half", {"number": 8}))
    hooks = {"BeforeTool": group, "BeforeAgent": "touch began"}
    async with Agent(generator, tools=[half], hooks=hooks, cwd=project) as agent:
        await agent.ask("go")
    assert (project / "began").exists()
    assert "blocked" in str(answered(generator))


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({}, True),
        ({"approve": "never"}, False),
        ({"policy": [Rule.allow("careful")]}, False),
        ({"policy": [Rule.deny("careful")]}, False),
        ({"approval_mode": "yolo"}, False),
    ],
)
async def test_an_own_tool_that_nobody_could_approve_is_an_error(
    project: Path, more: dict[str, Any], refused: bool
):
    @tool(confirm=True)
    def careful() -> str:
        """Does something."""
        return "x"

    agent = Agent(ScriptedGenerator([text("ok")]), tools=[careful], cwd=project, **more)
    if not refused:
        assert await agent.ask("go") == "ok"
        return
    with pytest.raises(ConfigError, match="careful needs approval, and no person can be asked"):
        await agent.ask("go")


def furnished(home: Path, project: Path) -> None:
    """A home and a project full of things that an agent reads."""
    for base, word in ((home, "PERSON"), (project, "PROJECT")):
        place = base / ".gemini"
        (place / "policies").mkdir(parents=True, exist_ok=True)
        (place / "settings.json").write_text(
            '{"hooks": {"BeforeAgent": [{"hooks": [{"command": "touch $HOME/hooked"}]}]},'
            ' "context": {"fileName": ["GEMINI.md", "NOTES.md"]}, "model": {"name": "other"}}'
        )
        (place / "policies/p.toml").write_text(
            '[[rule]]\ntoolName = "half"\ndecision = "deny"\npriority = 900\n'
        )
        (place / "GEMINI.md").write_text(f"{word} memory")
        (base / "GEMINI.md").write_text(f"{word} memory")
        (base / ".env").write_text(f"GEMINI_MODEL={word}\n")
    (home / ".gemini/trustedFolders.json").write_text(f'{{"{project}": "TRUST_FOLDER"}}')


def snapshot(*places: Path) -> dict[Path, float]:
    return {path: path.stat().st_mtime for place in places for path in place.rglob("*")}


@pytest.mark.requirement("LIB-06")
async def test_an_isolated_agent_reads_and_writes_nothing_of_person_or_project(
    home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sent: list[str] = []
    for full in (False, True):
        if full:
            furnished(home, project)
        before = snapshot(home, project)
        generator = calls(call("half", {"number": 8}))
        agent = Agent(generator, tools=[half], isolated=True, cwd=project)
        async with agent:
            result = await agent.run("go")
        assert result.warnings == ()
        assert answered(generator) == [{"output": "4"}]
        sent.append(requests(generator))
        assert snapshot(home, project) == before
    assert sent[0] == sent[1]
    assert "PERSON" not in sent[1]
    assert "PROJECT" not in sent[1]


def requests(generator: ScriptedGenerator) -> str:
    """All that was sent, without what differs from run to run."""
    import re

    whole = "\n".join(
        f"{request.config} {generator.seen(index)}"
        for index, request in enumerate(generator.requests)
    )
    return re.sub(r"alhena-\w+|half-\w+|'id': '[^']*'|[0-9a-f]{64}", "…", whole)


@pytest.mark.requirement("LIB-06")
def test_an_isolated_agent_goes_on_with_its_history(project: Path):
    generator = ScriptedGenerator([text("one")], [text("two")])
    agent = Agent(generator, isolated=True, cwd=project)
    agent.ask_sync("first")
    agent.ask_sync("second")
    assert [part["text"] for part in generator.seen(1)[-1]["parts"]] == ["second"]
    assert "first" in str(generator.seen(1))


@pytest.mark.requirement("LIB-06")
async def test_an_administrators_policy_holds_for_isolated_agents(
    home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rules = tmp_path / "admin.toml"
    rules.write_text('[[rule]]\ntoolName = "half"\ndecision = "deny"\npriority = 900\n')
    system = tmp_path / "system.json"
    system.write_text(f'{{"adminPolicyPaths": ["{rules}"]}}')
    monkeypatch.setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", str(system))
    generator = ScriptedGenerator([text("ok")])
    async with Agent(generator, tools=[half], isolated=True, cwd=project) as agent:
        await agent.ask("go")
    assert "half" not in declared(generator)
