"""Settings and files that an embedding program's agent reads from its working directory."""

import os
from pathlib import Path
from typing import Any

import pytest

from alhena.agent.toolset.authority import SessionMode
from alhena.config.settings import Settings, settings_of
from alhena.errors import ConfigError
from alhena.events import RunStartedEvent
from alhena.policy.model import ApprovalMode
from tests.agent.kit import events_of
from tests.config.places import user, workspace, write
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def calling(command: str) -> ScriptedGenerator:
    args = {"command": command}
    return ScriptedGenerator(
        [chunk(call("run_shell_command", args, id="1"), finish="STOP")], [text("ok")]
    )


async def notices_of_run(settings: dict[str, Any]) -> tuple[str, ...]:
    async with scripted_agent(**settings) as agent:
        events, _ = await events_of(agent, "hi")
        (started,) = [event for event in events if isinstance(event, RunStartedEvent)]
    return started.notices


async def test_without_settings_of_the_program_those_of_the_place_hold(
    home: Path, project: Path
) -> None:
    user(home, {"tools": {"exclude": ["glob"]}})
    workspace(project, {"tools": {"exclude": ["write_file"], "allowed": ["run_shell_command"]}})
    for trusted in (True, False):
        generator = ScriptedGenerator([text("hi")])
        notices = await notices_of_run({"generator": generator, "skip_trust": trusted})
        declared = set(generator.requests[0].config.function_names())
        assert not declared & ({"glob", "write_file"} if trusted else {"glob"})
        assert any("tools.allowed" in line for line in notices) is trusted
        assert any("is not trusted" in line for line in notices) is not trusted


async def test_a_server_of_a_workspace_that_nobody_accepted_is_not_started(
    home: Path, project: Path
) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    workspace(project, {"mcpServers": {"s": {"command": "touch", "args": ["started"]}}})
    generator = ScriptedGenerator([text("hi")])
    async with scripted_agent(generator=generator) as agent:
        events, _ = await events_of(agent, "hi")
        (started,) = [event for event in events if isinstance(event, RunStartedEvent)]
        assert any("held back of this workspace" in line for line in started.notices)
        servers = agent.toolset.servers
        assert servers is not None
        (report,) = servers.reports()
        assert report.why.startswith("it is not accepted yet; alhena trust")
    assert not (project / "started").exists()


async def test_settings_of_the_program_are_all_there_are(home: Path, project: Path) -> None:
    user(home, "{ no JSON")
    workspace(project, {"tools": {"exclude": ["read_file"]}})
    generator = ScriptedGenerator([text("hi")])
    given = {
        "generator": generator,
        "settings": Settings(),
        "warnings": ("mine",),
        "skip_trust": True,
    }
    assert await notices_of_run(given) == ("mine",)
    assert "read_file" in generator.requests[0].config.function_names()


@pytest.mark.parametrize(("environ", "seen"), [(None, "<1>"), ({**os.environ}, "<>")])
async def test_the_variables_of_a_file_are_for_who_gave_no_environment(
    home: Path, project: Path, environ: dict[str, str] | None, seen: str
) -> None:
    write(home / ".gemini" / ".env", "A_NUMBER=1\n")
    generator = calling('echo "<$A_NUMBER>"')
    if environ is not None:
        environ = environ | {"HOME": str(home)}
    given = {
        "generator": generator,
        "environ": environ,
        "skip_trust": True,
        "approval_mode": ApprovalMode.YOLO,
    }
    async with scripted_agent(**given) as agent:
        await agent.ask("go")
    (part,) = generator.seen(1)[-1]["parts"]
    assert seen in part["functionResponse"]["response"]["output"]


async def test_yolo_mode_is_off_where_the_settings_say_so() -> None:
    settings = settings_of({"security": {"disableYoloMode": True}}, "test")
    given = {
        "generator": ScriptedGenerator(),
        "settings": settings,
        "approval_mode": ApprovalMode.YOLO,
    }
    with pytest.raises(ConfigError, match="disableYoloMode"):
        async with scripted_agent(**given):
            pass
    generator = ScriptedGenerator([text("hi")])
    async with scripted_agent(generator, settings=settings) as agent:
        modes = agent.toolset.authority.modes
        for mode in (ApprovalMode.YOLO, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO):
            modes.switch(mode)
            assert modes.mode is not ApprovalMode.YOLO
        modes.enter_plan_mode()
        modes.leave_plan_mode("yolo")
        assert modes.mode is ApprovalMode.DEFAULT


def test_a_mode_that_is_not_allowed_becomes_the_default_and_listeners_hear_of_it() -> None:
    modes, heard = SessionMode(ApprovalMode.AUTO_EDIT), list[ApprovalMode]()
    modes.subscribe(lambda: heard.append(modes.mode))
    modes.switch(ApprovalMode.YOLO)
    modes.allows_yolo = False
    modes.switch(ApprovalMode.AUTO_EDIT)
    modes.switch(ApprovalMode.YOLO)
    assert heard == [ApprovalMode.YOLO, ApprovalMode.AUTO_EDIT, ApprovalMode.DEFAULT]
