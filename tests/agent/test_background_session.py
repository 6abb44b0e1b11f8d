"""A whole session with commands in the background, as the model sees it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from alhena.config.settings import settings_of
from alhena.policy.model import ApprovalMode
from alhena.system.child import descendants
from tests.mcp.kit import odd, tool
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk
from tests.support.steady import skip_when


def asks(name: str, **args: Any) -> dict[str, Any]:
    return call(name, args)


def settings(generator: ScriptedGenerator, **environ: str) -> dict[str, Any]:
    return {
        "generator": generator,
        "approval_mode": ApprovalMode.YOLO,
        "environ": {"HOME": str(Path.home()), "PATH": os.environ["PATH"], **environ},
    }


def answers(generator: ScriptedGenerator) -> list[str]:
    """Responses of the tools, in order."""
    parts = [part for content in generator.seen(-1) for part in content["parts"]]
    responses = [
        part["functionResponse"]["response"] for part in parts if "functionResponse" in part
    ]
    return [str(response.get("output", response.get("error"))) for response in responses]


@pytest.mark.requirement("TOOLS-16")
async def test_the_model_lists_reads_and_ends_what_it_started(project: Path) -> None:
    alone = "setsid sh -c 'echo $$ >{0}; exec sleep {0}' >/dev/null 2>&1 &"
    own = f"{alone} until [ -s {{0}} ]; do :; done"
    command = f"echo $$ >pid; {own.format(63)}; echo up; : >up; sleep 64"
    left = f"{own.format(65)}; echo left"
    generator = ScriptedGenerator(
        [chunk(asks("run_shell_command", command=command, is_background=True, delay_ms=60_000))],
        [chunk(asks("run_shell_command", command=left))],
        [chunk(asks("list_background_processes"))],
        [chunk({"text": "done"}, finish="STOP")],
    )
    async with scripted_agent(
        model="gemini-2.5-flash", cwd=project, **settings(generator)
    ) as agent:
        await asyncio.gather(agent.ask("go"), skip_when(60, (project / "up").exists))
        started, _, listed = answers(generator)
        pid = int((project / "pid").read_text(encoding="utf-8"))
        assert f"Background PIDs: {pid}" in started
        lines = listed.split("\n")
        assert lines[0] == f"- [PID {pid}] Running: `{command}`"
        assert lines[1].endswith(f"sleep 63` (left the group of PID {pid})")
        assert lines[2].endswith(f"sleep 65` (left running by `{left}`)")
        others = [int(line.split("PID ")[1].split("]")[0]) for line in lines[1:]]
        generator.turns += [
            [chunk(asks("read_background_output", pid=pid, kill=True))],
            [chunk(asks("list_background_processes"))],
            [chunk({"text": "done"}, finish="STOP")],
        ]
        await agent.ask("end it")
        ended, listed = answers(generator)[-2:]
        assert ended == f"[PID {pid}] Exited (signal 15): `{command}`\nOutput:\nup"
        assert [line.split(" ", 4)[3] for line in listed.split("\n")] == ["Exited", "Running:"]
    assert not any(descendants(number) for number in (pid, *others))


async def test_what_runs_ends_with_the_session_though_the_program_cancels_all_that_it_awaits(
    project: Path,
) -> None:
    sleep = asks("run_shell_command", command="exec sleep 60", is_background=True)
    generator = ScriptedGenerator([chunk(sleep)], [chunk({"text": "done"}, finish="STOP")])
    options = settings(generator)
    entries = {"odd": odd(project, {"tools": [tool("one")]})}
    options["settings"] = settings_of({"mcpServers": entries}, "test")
    running: tuple[int, ...] = ()
    with anyio.CancelScope() as scope:
        async with scripted_agent(model="gemini-2.5-flash", cwd=project, **options) as agent:
            await agent.ask("go")
            assert agent.toolset.host.groups is not None
            running = agent.toolset.host.groups.members
            scope.cancel()
    assert len(running) == 2
    assert not any(map(descendants, running))


@pytest.mark.requirement("TOOLS-12")
async def test_the_opening_tree_follows_the_given_environment(
    project: Path, tmp_path: Path
) -> None:
    for name in ("kept.txt", "left.out"):
        (project / name).touch()
    (project / ".git").mkdir()
    rules = tmp_path / "settings" / "git" / "ignore"
    rules.parent.mkdir(parents=True)
    rules.write_text("*.out\n", encoding="utf-8")
    shown: list[str] = []
    for environ in ({}, {"XDG_CONFIG_HOME": str(tmp_path / "settings")}):
        generator = ScriptedGenerator([chunk({"text": "done"}, finish="STOP")])
        options = settings(generator, **environ)
        async with scripted_agent(model="gemini-2.5-flash", cwd=project, **options) as agent:
            await agent.ask("go")
        shown.append("".join(part["text"] for part in generator.seen(0)[0]["parts"]))
    assert ["left.out" in text for text in shown] == [True, False]
    assert all("kept.txt" in text for text in shown)
