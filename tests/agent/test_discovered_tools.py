"""Tools that a command of the settings brings: listed before the first prompt, run by another."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.config.settings import (
    EnvironmentRedaction,
    SecuritySettings,
    Settings,
    ToolSettings,
)
from alhena.events import (
    RunStartedEvent,
    ToolCallResponseEvent,
    ToolCallUpdateEvent,
    ToolOutputEvent,
)
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from tests.agent.kit import agent, conforming, events_of
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text
from tests.support.steady import skip

TOOLS = [
    {
        "name": "shout",
        "description": "Says it loudly.",
        "parameters": {
            "type": "OBJECT",
            "properties": {"what": {"type": "STRING"}, "how": {"type": "STRING"}},
            "required": ["what"],
        },
    }
]
CALLED = """
import json, os, sys, time
name, given = sys.argv[1], json.load(sys.stdin)
how = given.get("how")
if how == "secret":
    print(json.dumps(dict(os.environ)))
elif how == "long":
    print("x" * 200_000)
elif how == "hang":
    print("begun", flush=True)
    open("begun", "w").close()
    time.sleep(600)
elif how == "kill":
    os.kill(os.getpid(), 9)
else:
    print(name, given["what"].upper())
    if how:
        print("careful", file=sys.stderr)
    sys.exit(3 if how == "fail" else 0)
"""


def settings_of(project: Path, tools: Any = TOOLS) -> Settings:
    """Settings with two programs in the project."""
    (project / "list.json").write_text(json.dumps(tools), encoding="utf-8")
    (project / "call.py").write_text(CALLED, encoding="utf-8")
    return Settings(
        tools=ToolSettings(
            discovery_command="cat list.json", call_command=f"'{sys.executable}' call.py"
        )
    )


async def results(
    project: Path,
    *calls: dict[str, Any],
    called: str = "discovered_tool_shout",
    **options: Any,
) -> tuple[list[ToolCallResponseEvent], ScriptedGenerator]:
    generator = ScriptedGenerator(
        [
            chunk(
                *(call(called, each, id=str(n)) for n, each in enumerate(calls)),
                finish="STOP",
            )
        ],
        [text("done")],
    )
    if "settings" not in options:
        options["settings"] = settings_of(project)
    options = {
        "approval_mode": ApprovalMode.YOLO,
        "cwd": project,
        "skip_trust": True,
    } | options
    async with agent(generator, **options) as running:
        events, error = await events_of(running, "go")
    assert error is None
    assert conforming(generator)
    responses = (each for each in events if isinstance(each, ToolCallResponseEvent))
    return sorted(responses, key=lambda each: each.call_id), generator


def output_of(response: ToolCallResponseEvent) -> str:
    given = response.parts[0].function_response
    assert given is not None
    return str(given.response.get("output", given.response.get("error")))


@pytest.mark.requirement("TOOLS-07")
async def test_a_listed_tool_is_declared_and_run_in_its_own_process(project: Path):
    (response,), generator = await results(project, {"what": "hello"})
    assert response.status == "success"
    assert output_of(response) == "shout HELLO\n"
    config = generator.requests[0].config
    assert config is not None
    assert config.tools
    declared = {each.name: each for each in config.tools[0].function_declarations or ()}
    schema = declared["discovered_tool_shout"].parameters_json_schema
    assert schema == {
        "type": "object",
        "properties": {"what": {"type": "string"}, "how": {"type": "string"}},
        "required": ["what"],
    }
    assert "Says it loudly." in declared["discovered_tool_shout"].description


@pytest.mark.requirement("WIRE-02")
async def test_built_in_and_discovered_tools_are_declared_together_in_one_element(project: Path):
    _, generator = await results(project, {"what": "a"})
    for request in generator.requests:
        (element,) = request.config.tools
        declared = [each.name for each in element.function_declarations]
        assert {"read_file", "glob", "run_shell_command"} < set(declared)
        assert declared[-1] == "discovered_tool_shout"
    (first, *_, last) = generator.requests
    assert first.config.tools == last.config.tools


@pytest.mark.requirement("TOOLS-07")
async def test_stderr_is_told_and_only_the_exit_code_makes_a_failure(project: Path):
    (warned, failed, killed), _ = await results(
        project,
        {"what": "a", "how": "warn"},
        {"what": "b", "how": "fail"},
        {"what": "c", "how": "kill"},
    )
    assert warned.status == "success"
    assert output_of(warned) == "shout A\n\n\nDiagnostics (stderr):\ncareful"
    assert failed.status == "error"
    assert failed.error_type == "discovered_tool_execution_error"
    assert output_of(failed) == (
        "Stdout: shout B\nStderr: careful\nError: (none)\nExit Code: 3\nSignal: (none)"
    )
    assert output_of(killed).endswith("Exit Code: (none)\nSignal: 9")


@pytest.mark.requirement("TOOLS-07", "TOOLS-23")
async def test_the_commands_see_no_secrets_but_those_that_the_settings_allow(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    names = ("GEMINI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "MY_TOKEN", "PLAIN", "BLOCKED")
    for name in names:
        monkeypatch.setenv(name, name.lower())
    monkeypatch.setenv("HARMLESS_NAME", "ghp_" + "a" * 36)
    rules = EnvironmentRedaction(allowed=("MY_TOKEN",), blocked=("BLOCKED",))
    settings = msgspec.structs.replace(
        settings_of(project),
        tools=ToolSettings(
            discovery_command="bash -c 'env > listed.txt; cat list.json'",
            call_command=f"'{sys.executable}' call.py",
        ),
        security=SecuritySettings(environment_variable_redaction=rules),
    )
    (response,), _ = await results(project, {"what": "a", "how": "secret"}, settings=settings)
    listed = (project / "listed.txt").read_text(encoding="utf-8").splitlines()
    seen = [dict(line.split("=", 1) for line in listed), json.loads(output_of(response))]
    for variables in seen:
        assert {*names, "HARMLESS_NAME"}.intersection(variables) == {"MY_TOKEN", "PLAIN"}
        assert "PATH" in variables


async def test_bad_parameters_do_not_reach_the_command(project: Path):
    (wrong,), _ = await results(project, {"what": 3})
    assert wrong.error_type == "invalid_tool_params"


@pytest.mark.requirement("TOOLS-07")
async def test_the_whole_of_a_long_output_is_kept(project: Path):
    (response,), _ = await results(project, {"what": "a", "how": "long"})
    told = output_of(response)
    assert len(told) < 45_000
    assert "discovered_tool" in told
    kept = list(Path(os.environ["HOME"]).rglob("*discovered_tool*"))
    assert [path.read_text(encoding="utf-8").strip() for path in kept] == ["x" * 200_000]


async def test_a_discovered_tool_needs_approval_as_any_other(project: Path):
    (response,), _ = await results(project, {"what": "a"}, approval_mode=ApprovalMode.DEFAULT)
    assert response.error_type == "policy_violation"
    rule = PolicyRule(
        decision=PolicyOutcome.ALLOW, priority=500, tool_names=("discovered_tool_shout",)
    )
    (response,), _ = await results(
        project, {"what": "a"}, approval_mode=ApprovalMode.DEFAULT, policy=(rule,)
    )
    assert response.status == "success"


async def test_a_tool_that_is_called_like_a_built_in_one_has_none_of_its_rights(project: Path):
    settings = settings_of(project, [{"name": "read_file"}])
    generator = ScriptedGenerator(
        [chunk(call("discovered_tool_read_file", {}, id="1"), finish="STOP")], [text("done")]
    )
    async with agent(generator, settings=settings, cwd=project, skip_trust=True) as running:
        events, _ = await events_of(running, "go")
    (response,) = (each for each in events if isinstance(each, ToolCallResponseEvent))
    assert response.error_type == "policy_violation"


async def test_a_cancelled_call_ends_the_process(project: Path):
    generator = ScriptedGenerator(
        [chunk(call("discovered_tool_shout", {"what": "a", "how": "hang"}, id="1"), finish="STOP")]
    )
    pids: list[int] = []
    async with agent(
        generator,
        settings=settings_of(project),
        approval_mode=ApprovalMode.YOLO,
        cwd=project,
        skip_trust=True,
    ) as running:
        run = running.run("go")

        async def until_it_runs() -> None:
            async for event in run:
                if isinstance(event, ToolCallUpdateEvent) and event.pid:
                    pids.append(event.pid)
                if isinstance(event, ToolOutputEvent) and "begun" in event.text:
                    return

        await until_it_runs()
        await run.aclose()
    (pid,) = set(pids)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.requirement("TOOLS-07")
async def test_a_call_that_says_nothing_for_the_time_of_the_settings_is_ended(project: Path):
    settings = settings_of(project)
    shell = msgspec.structs.replace(settings.tools.shell, inactivity_timeout=60)
    tools = msgspec.structs.replace(settings.tools, shell=shell)
    settings = msgspec.structs.replace(settings, tools=tools)
    calling = asyncio.create_task(results(project, {"what": "a", "how": "hang"}, settings=settings))
    while not calling.done():
        await asyncio.sleep(0.01)
        if (project / "begun").exists():
            skip(60)
    (response,), _ = await calling
    assert response.status == "error"
    assert "begun" in output_of(response)
    assert "without output" in output_of(response)


@pytest.mark.requirement("TOOLS-07")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sh -c 'echo oops >&2; exit 4'", "it ended with 4: oops"),
        ("no-such-program-anywhere", "Could not start no-such-program-anywhere"),
        ("'open", "its quotes do not match"),
        ("echo not json", "its output is not JSON"),
        ("head -c 11000000 /dev/zero", "it printed more than 10 MB"),
        ("sh -c 'kill -9 $$'", "it ended with signal 9"),
    ],
)
async def test_a_discovery_that_fails_is_told_and_the_session_goes_on(
    project: Path, command: str, said: str
):
    settings = settings_of(project)
    settings = msgspec.structs.replace(
        settings, tools=msgspec.structs.replace(settings.tools, discovery_command=command)
    )
    generator = ScriptedGenerator([text("fine")])
    async with agent(generator, settings=settings, cwd=project, skip_trust=True) as running:
        events, error = await events_of(running, "go")
    assert error is None
    (started,) = (each for each in events if isinstance(each, RunStartedEvent))
    assert said in " ".join(started.notices)
    assert not any(name.startswith("discovered_tool") for name in started.tools)


def test_the_commands_list_and_call_them(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings_of(project)
    home = tmp_path / "h"
    (home / ".gemini").mkdir(parents=True)
    (home / ".gemini" / "settings.json").write_text(
        json.dumps(
            {
                "tools": {
                    "discoveryCommand": "cat list.json",
                    "callCommand": f"'{sys.executable}' call.py",
                }
            }
        ),
        encoding="utf-8",
    )
    monkeypatch.chdir(project)
    listed = alhena("tools", "list", "--skip-trust", HOME=str(home))
    assert "discovered_tool_shout" in listed.out
    words = ("tools", "call", "--skip-trust", "--approval-mode", "yolo", "discovered_tool_shout")
    called = alhena(*words, '{"what": "hi"}', HOME=str(home))
    assert called.out == "shout HI\n\n"
    assert called.code == 0


async def test_in_a_folder_nobody_trusts_nothing_of_it_is_run(project: Path):
    settings = settings_of(project)
    settings = msgspec.structs.replace(
        settings, tools=msgspec.structs.replace(settings.tools, discovery_command="touch ran")
    )
    generator = ScriptedGenerator([text("fine")])
    async with agent(generator, settings=settings, cwd=project) as running:
        events, _ = await events_of(running, "go")
    (started,) = (each for each in events if isinstance(each, RunStartedEvent))
    assert "is not trusted" in " ".join(started.notices)
    assert not (project / "ran").exists()


async def test_a_command_that_is_not_set_is_said_and_nothing_is_listed(project: Path):
    tools = ToolSettings(discovery_command="touch listed")
    generator = ScriptedGenerator([text("fine")])
    settings = Settings(tools=tools)
    async with agent(generator, settings=settings, cwd=project, skip_trust=True) as running:
        events, _ = await events_of(running, "go")
    (started,) = (each for each in events if isinstance(each, RunStartedEvent))
    assert started.notices == (
        "tools.discoveryCommand: its tools are left out, for tools.callCommand is not set.",
    )
    assert not (project / "listed").exists()


async def answered_as(project: Path, name: str, tools: Any = TOOLS, **options: Any) -> str:
    """The text that answers a call by this name."""
    settings = settings_of(project, tools)
    changes = options.pop("tools_settings", {})
    settings = msgspec.structs.replace(
        settings, tools=msgspec.structs.replace(settings.tools, **changes)
    )
    (response,), _ = await results(
        project, {"what": "hello"}, settings=settings, called=name, **options
    )
    return output_of(response)


NAMES = ("shout", "discovered_tool_shout")


@pytest.mark.parametrize("called", NAMES)
@pytest.mark.parametrize("named", NAMES)
async def test_a_discovered_tool_is_called_and_refused_by_both_its_names(
    project: Path, called: str, named: str
):
    assert await answered_as(project, called) == "shout HELLO\n"
    rule = PolicyRule(decision=PolicyOutcome.DENY, priority=100, tool_names=(named,))
    assert "HELLO" not in await answered_as(project, called, policy=[rule])
    assert "HELLO" not in await answered_as(project, called, tools_settings={"exclude": (named,)})
    asks = {"confirmation_required": (named,)}
    assert "HELLO" not in await answered_as(project, called, tools_settings=asks)
    group = {"matcher": named, "hooks": [{"command": "echo no >&2; exit 2"}]}
    hooks = {"hooks": {"BeforeTool": [group]}}
    assert "blocked: no" in await answered_as(project, called, hooks=hooks)
    mode: dict[str, Any] = {"approval_mode": ApprovalMode.DEFAULT}
    assert "HELLO" not in await answered_as(project, called, **mode)
    allow = {"allowed": (named,)}
    assert "HELLO" in await answered_as(project, called, tools_settings=allow, **mode)


@pytest.mark.parametrize("name", ["ls", "read_file", "github__delete", "mcp_github_delete"])
async def test_an_authors_name_that_another_tool_has_or_may_have_is_not_taken(
    project: Path, name: str
):
    tools = [{"name": name, "description": "Odd.", "parameters": TOOLS[0]["parameters"]}]
    assert "HELLO" not in await answered_as(project, name, tools)
    assert "HELLO" in await answered_as(project, f"discovered_tool_{name}", tools)
    allow = PolicyRule(decision=PolicyOutcome.ALLOW, priority=100, tool_names=(name,))
    server = PolicyRule(decision=PolicyOutcome.ALLOW, priority=100, mcp_name="github")
    said = await answered_as(
        project,
        f"discovered_tool_{name}",
        tools,
        policy=[allow, server],
        approval_mode=ApprovalMode.DEFAULT,
    )
    assert "HELLO" not in said


@pytest.mark.parametrize("called", NAMES)
@pytest.mark.parametrize("named", NAMES)
def test_the_decision_on_each_name_is_explained(project: Path, called: str, named: str):
    rule = f'[[rule]]\ntoolName = "{named}"\ndecision = "deny"\npriority = 500\n'
    (project / "deny.toml").write_text(rule, encoding="utf-8")
    ran = alhena("policy", "explain", "--policy", "deny.toml", "--tool", called)
    assert ran.out.startswith("deny:")
