"""run_shell_command inside a sandbox: what the model sees, what lives on, what can be ended."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from alhena.config.settings import Settings
from alhena.system.child import descendants
from alhena.system.processes import ProcessGroups
from alhena.system.sandbox.layout import Mechanism
from alhena.system.sandbox.sandbox import Sandbox
from alhena.system.workspace import Workspace
from alhena.tools.builtin.background import ReadBackgroundOutput
from alhena.tools.builtin.run_shell_command import RunShellCommand, ShellEnvironment, ShellLimits
from alhena.tools.catalogue import ModelTools, ToolHost, builtin_tools
from alhena.tools.contract import (
    ExecutionContext,
    ToolErrorType,
    ToolResult,
)
from alhena.tools.output_store import OutputStore
from tests.system.sandboxing import mechanisms, open_test_sandbox
from tests.tools.files import built, call, run, text_of


@pytest.fixture(params=mechanisms())
def sandbox(request: pytest.FixtureRequest, project: Path) -> Sandbox:
    mechanism: Mechanism = request.param
    (project / "src").mkdir()
    return open_test_sandbox(mechanism, network=False)


@pytest.fixture
async def groups(sandbox: Sandbox) -> AsyncIterator[ProcessGroups]:
    kept = ProcessGroups()
    kept.when_ended(sandbox.close)
    yield kept
    await kept.close()


@pytest.fixture
def shell(project: Path, groups: ProcessGroups, sandbox: Sandbox) -> RunShellCommand:
    environ = os.environ | {"MY_API_KEY": "SECRET"}
    return RunShellCommand(
        Workspace(project),
        groups=groups,
        environment=ShellEnvironment(environ, sandbox=sandbox),
        limits=ShellLimits(inactivity=0, output=100_000),
    )


def data_of(result: ToolResult) -> dict[str, Any]:
    assert result.data is not None
    return result.data


async def until_gone(pgid: int) -> None:
    while descendants(pgid):
        await asyncio.sleep(0.01)


@pytest.mark.requirement("CLI-04")
async def test_a_command_runs_as_usual_and_without_secrets(
    shell: RunShellCommand, sandbox: Sandbox
):
    result = await run(shell, "echo out; echo err >&2; echo $MY_API_KEY$SANDBOX; exit 3")
    assert (
        f"Output: out\nerr\nalhena-{sandbox.mechanism}\nError: (none)\nExit Code: 3\n"
        in text_of(result)
    )
    assert "Background PIDs: (none)" in text_of(result)
    assert data_of(result)["environment_removed"] == ["MY_API_KEY"]


@pytest.mark.requirement("CLI-04")
async def test_the_model_is_told_when_the_sandbox_seems_to_be_why(
    shell: RunShellCommand, sandbox: Sandbox
):
    result = await run(shell, "echo owned > ~/file")
    assert f"Error: The sandbox ({sandbox.name}) probably refused this: " in text_of(result)
    assert "Exit Code: 1" in text_of(result)
    assert "tools.sandbox" in text_of(result)
    assert not (Path.home() / "file").exists()
    assert "probably refused" not in text_of(await run(shell, "echo owned > ~/file; true"))
    assert "probably refused" not in text_of(await run(shell, "exit 1"))


async def test_what_the_sandbox_permits_is_part_of_the_description(sandbox: Sandbox, project: Path):
    host = ToolHost(
        workspace=Workspace(project),
        environ={},
        settings=Settings(),
        outputs=OutputStore(project / "outputs", "s1", threshold=0),
        groups=None,
        sandbox=sandbox,
        models=cast("ModelTools", None),
    )
    tools = {tool.name: tool for tool in builtin_tools(host)}
    said = tools["run_shell_command"].declaration().description
    assert said.endswith(sandbox.description)
    assert f"Only {project} and $TMPDIR can be written" in said
    assert "There is no network." in said
    assert "sandbox" not in RunShellCommand(Workspace(project)).description


async def test_a_command_that_leaves_nothing_running_is_not_waited_for(
    shell: RunShellCommand, groups: ProcessGroups
):
    assert data_of(await run(shell, "sleep 0.01 & wait"))["background_pids"] == []
    assert groups.pgids == ()


@pytest.mark.requirement("CLI-04")
async def test_a_background_command_goes_on_and_is_ended_by_its_number(
    shell: RunShellCommand, groups: ProcessGroups, project: Path
):
    result = await run(shell, "touch src/begun; sleep 60", is_background=True, delay_ms=0)
    pid = data_of(result)["pid"]
    while not (project / "src/begun").exists():
        await asyncio.sleep(0.01)
    assert groups.pgids == (pid,)
    await call(ReadBackgroundOutput(groups), pid=pid, kill=True)
    await until_gone(pid)
    assert groups.pgids == ()


@pytest.mark.requirement("CLI-04")
@pytest.mark.parametrize("start", ["sleep 60 &", "setsid sleep 60 &", "(setsid sleep 60 &) &"])
async def test_nothing_outlives_the_session(
    shell: RunShellCommand, groups: ProcessGroups, sandbox: Sandbox, project: Path, start: str
):
    if "setsid" in start and sandbox.mechanism is Mechanism.LANDLOCK:
        pytest.skip("without a process list of its own, a session of its own is left alone")
    result = await run(shell, f"exec 3> src/held; flock 3; {start}")
    assert groups.pgids == (data_of(result)["pgid"],)
    assert await asyncio.to_thread(is_locked, project / "src/held")
    await groups.close()
    assert not await asyncio.to_thread(is_locked, project / "src/held")
    assert sorted(path.name for path in project.iterdir()) == ["src"]


def is_locked(path: Path) -> bool:
    """True if a process still has the lock of the command."""
    import fcntl

    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.requirement("CLI-04")
async def test_cancelling_ends_everything_inside(shell: RunShellCommand, project: Path):
    pids: list[int] = []
    context = ExecutionContext(project, report_pid=pids.append)
    command = "exec 3> src/held; flock 3; touch src/begun; sleep 60 & sleep 60"
    running = asyncio.ensure_future(built(shell, command=command).execute(context))
    while not (project / "src/begun").exists():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert descendants(pids[0]) == ()
    assert not is_locked(project / "src/held")


async def test_the_limit_on_output_ends_everything_inside(shell: RunShellCommand, project: Path):
    result = await run(shell, "exec 3> src/held; flock 3; yes")
    assert data_of(result)["stopped"] == "output"
    assert not is_locked(project / "src/held")


async def test_a_sandbox_that_cannot_protect_starts_nothing(shell: RunShellCommand, project: Path):
    (project / ".vscode").symlink_to("src")
    result = await run(shell, "touch src/started")
    assert result.error is not None
    assert result.error.type is ToolErrorType.SHELL_EXECUTE_ERROR
    assert ".vscode is a symbolic link" in result.error.message
    assert not (project / "src/started").exists()
