"""MCP servers of a single agent, with real processes."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, Rule
from alhena.agent.subagents import AgentDefinition
from alhena.agent.subagents.files import parse_agents
from alhena.events import WarningEvent
from alhena.testing import Call, TestModel
from tests.agent.test_agent_files import define
from tests.config.places import user
from tests.mcp.kit import SERVED, odd, tool
from tests.support.command import alhena

ASK = Call("helper", query="Go.")
DONE = Call("complete_task", result="7")


def server(folder: Path, name: str = "own", **script: Any) -> dict[str, Any]:
    """A server with one tool, which writes what it hears to `heard`."""
    given = {"tools": [tool("measure")], "heard": str(folder / "heard"), **script}
    return odd(folder, given, name)


def agent_file(folder: Path, entry: dict[str, Any], *, name: str = "helper.md") -> Path:
    """An agent with this server, in the form that the ending of its name says."""
    if name.endswith(".md"):
        head = {"name": "helper", "description": "Helps.", "tools": ["read_file"]}
        text = json.dumps({**head, "mcpServers": {"own": entry}})
        return define(folder / ".gemini" / "agents", name, f"---\n{text}\n---\nYou help.")
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in entry.items())
    return define(
        folder / ".gemini" / "agents",
        name,
        f'name = "helper"\ndescription = "Helps."\ntools = ["read_file"]\n\n'
        f'[prompts]\nsystem_prompt = "You help."\n\n[mcp_servers.own]\n{lines}\n',
    )


def names(request: dict[str, Any]) -> list[str]:
    return [each["name"] for each in request["tools"][0]["functionDeclarations"]]


def response_text(request: dict[str, Any]) -> str:
    return json.dumps(request["contents"][-1])


def heard(folder: Path) -> int:
    """The number of starts of the server."""
    path = folder / "heard"
    return path.read_text(encoding="utf-8").count('"initialize"') if path.exists() else 0


async def run_for_warnings(project: Path, model: TestModel, **given: Any) -> list[str]:
    """Runs a prompt; the warnings."""
    async with Agent(model, cwd=project, **given) as agent:
        run = agent.run("Go.")
        told = [each.message async for each in run if isinstance(each, WarningEvent)]
        return [*agent.warnings, *told]


@pytest.mark.requirement("AGENT-02")
@pytest.mark.parametrize("name", ["helper.md", "helper.toml"])
async def test_a_server_of_an_agent_is_there_for_its_task_alone(
    home: Path, project: Path, tmp_path: Path, name: str
):
    agent_file(home, server(tmp_path, does={"measure": {"do": "pid"}}), name=name)
    model = TestModel(ASK, Call("measure"), DONE, Call("measure"), "No.", ASK, DONE, "Seven.")
    async with Agent(model, cwd=project, policy=[Rule.allow("*", mcp_name="own")]) as agent:
        assert await agent.ask("Go.") == "No."
        sent = model.requests
        assert "measure" not in names(sent[0])
        assert names(sent[1]) == ["read_file", "measure", "complete_task"]
        pid = int(re.search(r'"output": "(\d+)"', response_text(sent[2]))[1])
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert "not found" in response_text(sent[4])
        assert heard(tmp_path) == 1
        await agent.ask("Again.")
    assert heard(tmp_path) == 2


@pytest.mark.requirement("AGENT-04")
@pytest.mark.requirement("AGENT-02")
async def test_its_tools_are_asked_about_and_decided_on_as_those_of_other_servers(
    home: Path, project: Path, tmp_path: Path
):
    agent_file(home, server(tmp_path) | {"trust": False})
    questions: list[Any] = []

    def approve(request: Any) -> bool:
        questions.append(request)
        return True

    model = TestModel(ASK, Call("measure"), DONE, "Seven.")
    await run_for_warnings(project, model, approve=approve)
    assert [each.details.server_name for each in questions] == ["own"]
    for rules, answer in (
        ([], "error"),
        ([Rule.allow("*", mcp_name="own")], "output"),
        ([Rule.deny("measure", subagent="helper"), Rule.allow("*", mcp_name="own")], "error"),
    ):
        model = TestModel(ASK, Call("measure"), DONE, "Seven.")
        await run_for_warnings(project, model, policy=rules)
        assert f'"{answer}"' in response_text(model.requests[2]), rules


async def test_its_own_server_hides_one_of_the_session_with_its_name_or_tool(
    home: Path, project: Path, tmp_path: Path
):
    theirs = {name: server(tmp_path, name, does={"measure": {"do": "error"}}) for name in "ab"}
    own = server(tmp_path, "own", does={"measure": {"do": "pid"}})
    user(home, {"mcpServers": {"own": theirs["a"], "other": theirs["b"]}})
    path = agent_file(home, own)
    path.write_text(path.read_text(encoding="utf-8").replace('["read_file"]', '["*"]'))
    model = TestModel(ASK, Call("measure"), DONE, "Seven.")
    await run_for_warnings(project, model, policy=[Rule.allow("*", mcp_name="*")])
    assert re.search(r'"output": "\d+"', response_text(model.requests[2]))


async def test_of_a_project_nothing_starts_unless_accepted_as_it_is(
    home: Path, project: Path, tmp_path: Path
):
    script = project / "server.py"
    script.write_text(
        f"import runpy, sys\nsys.argv[1:] = [{str(tmp_path / 'own.script.json')!r}]\n"
        f"runpy.run_path({str(SERVED / 'odd.py')!r}, run_name='__main__')\n",
        encoding="utf-8",
    )
    entry = server(tmp_path) | {"args": ["server.py"], "trust": True}
    agent_file(project, entry)

    async def answer() -> str:
        model = TestModel(ASK, Call("measure"), DONE, "Seven.")
        told = await run_for_warnings(project, model)
        return response_text(model.requests[1]) + " ".join(told)

    assert "not found" in await answer()
    told = alhena("trust", ".").out
    assert f"MCP server own: {sys.executable} server.py" in told
    assert "not found" not in await answer()
    assert heard(tmp_path) == 1
    script.write_text(script.read_text(encoding="utf-8") + "# changed", encoding="utf-8")
    assert "alhena trust accepts it" in await answer()
    assert heard(tmp_path) == 1
    assert "helper: " in alhena("trust", ".").out
    assert "not found" not in await answer()
    assert heard(tmp_path) == 2
    assert alhena("agents", "show", "helper", "--json").json["mcp_servers"]


async def test_a_project_cannot_trust_the_server_of_its_agent(
    home: Path, project: Path, tmp_path: Path
):
    agent_file(project, server(tmp_path) | {"trust": True})
    alhena("trust", ".")
    of_settings = server(tmp_path, "theirs") | {"trust": True}
    user(home, {"mcpServers": {"own": of_settings}, "mcp": {"allowed": ["own"]}})
    model = TestModel(ASK, Call("measure"), DONE, "Seven.")
    await run_for_warnings(project, model)
    assert '"error"' in response_text(model.requests[2])
    agent_file(home, server(tmp_path) | {"trust": True}, name="mine.md")
    (project / ".gemini" / "agents" / "helper.md").unlink()
    model = TestModel(ASK, Call("measure"), DONE, "Seven.")
    await run_for_warnings(project, model)
    assert '"output"' in response_text(model.requests[2])


async def test_one_that_cannot_start_is_a_warning_and_the_agent_works(home: Path, project: Path):
    agent_file(home, {"command": "/no/such/program"})
    model = TestModel(ASK, DONE, "Seven.")
    warnings = await run_for_warnings(project, model)
    assert any("agent helper: MCP server 'own':" in each for each in warnings)
    assert "Termination Reason: GOAL" in response_text(model.requests[2])


@pytest.mark.parametrize(
    ("entry", "told"),
    [({"args": []}, "mcp_servers.own: names neither command"), ({"command": [3]}, "mcp_servers")],
)
def test_a_broken_entry_is_named(home: Path, project: Path, entry: dict[str, Any], told: str):
    path = agent_file(home, entry)
    ran = alhena("agents", "validate", str(path))
    assert ran.code != 0
    assert told in ran.err


def test_the_keys_of_the_reference_mean_those_of_the_settings(home: Path, project: Path):
    auth = {"type": "oauth", "client_id": "me"}
    path = agent_file(home, {"http_url": "http://127.0.0.1:9", "include_tools": [], "auth": auth})
    definition = parse_agents(path, path.read_text(encoding="utf-8"))[0][0]
    assert isinstance(definition, AgentDefinition)
    assert definition.mcp_servers["own"] == {
        "httpUrl": "http://127.0.0.1:9",
        "includeTools": [],
        "oauth": {"enabled": True, "clientId": "me"},
    }


def test_an_extension_shows_the_servers_of_its_agents_before_it_is_installed(
    home: Path, project: Path, tmp_path: Path
):
    source = tmp_path / "source"
    define(source, "gemini-extension.json", '{"name": "demo", "version": "1.0.0"}')
    agent_file(source, {"command": "python3", "args": ["${extensionPath}/s.py"]})
    (source / ".gemini" / "agents").rename(source / "agents")
    ran = alhena("extensions", "install", str(source))
    assert "MCP server of the agent helper: own: python3" in ran.out
