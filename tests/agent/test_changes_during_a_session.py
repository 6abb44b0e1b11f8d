"""Servers and commands that change during a session are held back like those changed before."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.runner import SessionRunner
from alhena.agent.toolset.mcp import ServerControl
from alhena.config.effective_settings import open_place
from alhena.events import RunStartedEvent
from alhena.frontends.shared.folder_trust import accept
from alhena.mcp.server import ServerState
from alhena.policy.model import ApprovalMode
from tests.agent.kit import agent, events_of, turn
from tests.agent.serving import ALLOW_ALL, answers, declared, turns
from tests.config.places import user, workspace, write
from tests.mcp.kit import SERVED, tool
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

PYTHON = {"command": sys.executable, "args": ["srv.py"]}
CHANGED = "held back: it has changed since it was accepted; changed: the file {}; alhena trust"


def server(project: Path, word: str) -> None:
    """The program of a server, which writes this word into the file `begun` at each start."""
    does = {"tools": [tool("pay"), tool("fall")], "does": {"fall": {"do": "crash"}}}
    write(project / ".odd", does)
    write(
        project / "srv.py",
        "import os, sys\n"
        f"with open('begun', 'a') as file: file.write('{word} ')\n"
        f"os.execv(sys.executable, [sys.executable, {str(SERVED / 'odd.py')!r}, '.odd'])\n",
    )


def read_starts(project: Path) -> str:
    return (project / "begun").read_text(encoding="utf-8").strip()


def accept_pending(project: Path) -> None:
    place = open_place(project, os.environ)
    accept(place, place.pending)


@pytest.fixture
def folder(home: Path, project: Path) -> Path:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    server(project, "good")
    return project


def open_session(generator: ScriptedGenerator, folder: Path, **options: Any) -> SessionRunner:
    return agent(generator, cwd=folder, policy=ALLOW_ALL, **options)


def control_of(running: SessionRunner) -> ServerControl:
    control = running.toolset.server_control
    assert control is not None
    return control


def how(running: SessionRunner) -> tuple[ServerState, str]:
    (report,) = control_of(running).reports
    return report.state, report.why


async def refresh(running: SessionRunner) -> None:
    await control_of(running).refresh()


async def turned_off_and_on(running: SessionRunner) -> None:
    control = control_of(running)
    (report,) = control.reports
    for enabled in (False, True):
        await control.turn(report.name, enabled=enabled, lasting=False)


@pytest.mark.parametrize("again", [refresh, turned_off_and_on])
@pytest.mark.parametrize(
    "settings",
    [
        {"mcpServers": {"s": PYTHON}},
        {"mcp": {"serverCommand": f"'{sys.executable}' srv.py"}},
    ],
    ids=["mcpServers", "mcp.serverCommand"],
)
async def test_a_server_whose_program_has_changed_is_not_started_again_until_it_is_accepted(
    folder: Path, settings: dict[str, Any], again: Callable[[SessionRunner], Any]
) -> None:
    workspace(folder, settings)
    accept_pending(folder)
    async with open_session(turns(), folder) as running:
        await events_of(running, "go")
        assert how(running) == (ServerState.CONNECTED, "")
        server(folder, "other")
        await again(running)
        state, why = how(running)
        assert state is ServerState.DISCONNECTED
        assert why.startswith(CHANGED.format("srv.py"))
        assert read_starts(folder) == "good"
        accept_pending(folder)
        assert open_place(folder, os.environ).pending == ()
        await again(running)
        assert how(running) == (ServerState.CONNECTED, "")
        assert read_starts(folder) == "good other"


async def test_a_call_does_not_bring_back_a_server_that_is_another(folder: Path) -> None:
    workspace(folder, {"mcpServers": {"s": PYTHON}})
    accept_pending(folder)
    generator = ScriptedGenerator(
        [text("hello")], turn(call("fall", {})), turn(call("pay", {})), [text("done")]
    )
    async with open_session(generator, folder) as running:
        await events_of(running, "go")
        assert "pay" in declared(generator)
        server(folder, "other")
        events, _ = await events_of(running, "on")
        said = running.toolset.warnings
    fallen, refused = answers(events)
    assert fallen.status == refused.status == "error"
    assert "held back: it has changed since it was accepted" in str(refused.parts)
    assert len([each for each in said if "MCP server 's': held back" in each]) == 1
    assert read_starts(folder) == "good"


async def test_the_users_own_server_and_what_is_trusted_for_one_run_are_compared_with_nothing(
    folder: Path, home: Path
) -> None:
    file = home / ".gemini" / "trusted_commands.json"
    workspace(folder, {"mcpServers": {"s": PYTHON}})
    assert open_place(folder, os.environ, skip_trust=True).acceptance is None
    async with open_session(turns(), folder, skip_trust=True) as running:
        await events_of(running, "go")
        server(folder, "other")
        await refresh(running)
        assert how(running) == (ServerState.CONNECTED, "")
    assert read_starts(folder) == "good other"
    workspace(folder, {"tools": {"exclude": ["glob"]}})
    user(home, {"mcpServers": {"s": PYTHON}})
    assert open_place(folder, os.environ).acceptance is None
    workspace(folder, {"tools": {"callCommand": "x"}})
    accept_pending(folder)
    acceptance = open_place(folder, os.environ).acceptance
    assert acceptance is not None
    write(file, "no document")
    assert acceptance.server("s") == ""
    why = acceptance.command("tools.callCommand")
    assert why.startswith(f"held back: it cannot be told whether it was accepted: {file}: what was")


@pytest.fixture
def discovered(folder: Path) -> Path:
    write(folder / "list.json", [{"name": "shout", "description": "Says it."}])
    write(folder / "call.py", "print('good')")
    commands = {"discoveryCommand": "cat list.json", "callCommand": f"'{sys.executable}' call.py"}
    workspace(folder, {"tools": commands})
    accept_pending(folder)
    return folder


async def test_each_run_of_the_call_command_is_of_what_was_accepted(discovered: Path) -> None:
    calls = [turn(call("discovered_tool_shout", {})), [text("done")]]
    generator = ScriptedGenerator(*calls, *calls, *calls)
    running = agent(generator, cwd=discovered, approval_mode=ApprovalMode.YOLO)
    said: list[str] = []
    async with running:
        for program in ("print('good')", "open('begun', 'w')", "print('good')"):
            write(discovered / "call.py", program)
            events, error = await events_of(running, "go")
            assert error is None
            (answer,) = answers(events)
            response = answer.parts[0].function_response
            assert response is not None
            said.append(str(next(iter(response.response.values()))))
            assert (answer.status == "success") is ("print" in program)
    assert (said[0], said[2]) == ("good\n", "good\n")
    assert said[1].startswith("shout is not run: tools.callCommand is " + CHANGED.format("call.py"))
    assert not (discovered / "begun").exists()


async def test_the_listing_command_is_compared_once_more_when_it_is_run(discovered: Path) -> None:
    generator = ScriptedGenerator([text("done")])
    async with agent(generator, cwd=discovered) as running:
        tools = json.dumps([{"name": "whisper", "description": "Says it."}])
        write(discovered / "list.json", tools)
        events, _ = await events_of(running, "go")
    (started,) = (each for each in events if isinstance(each, RunStartedEvent))
    assert not [each for each in declared(generator) if each.startswith("discovered_tool_")]
    told = (
        "tools.discoveryCommand: "
        + CHANGED.format("list.json")
        + " --status shows it, alhena trust accepts it."
    )
    assert told in started.notices


async def test_nothing_is_listed_that_could_not_be_called(discovered: Path) -> None:
    write(discovered / "list.py", "open('listed', 'w')")
    commands = {
        "discoveryCommand": f"'{sys.executable}' list.py",
        "callCommand": f"'{sys.executable}' call.py",
    }
    workspace(discovered, {"tools": commands})
    accept_pending(discovered)
    async with agent(ScriptedGenerator([text("done")]), cwd=discovered) as running:
        write(discovered / "call.py", "print('other')")
        events, _ = await events_of(running, "go")
    (started,) = (each for each in events if isinstance(each, RunStartedEvent))
    left_out = "tools.discoveryCommand: its tools are left out, for tools.callCommand is "
    assert (
        left_out + CHANGED.format("call.py") + " --status shows it, alhena trust accepts it."
        in started.notices
    )
    async with agent(ScriptedGenerator([text("done")]), cwd=discovered) as running:
        events, _ = await events_of(running, "go")
    (started,) = (each for each in events if isinstance(each, RunStartedEvent))
    (notice,) = started.notices
    assert notice.startswith("held back of this workspace, not started: tools.callCommand (it has")
    assert not (discovered / "listed").exists()
