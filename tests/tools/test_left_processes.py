"""Processes that are on their own: left running by a command, or gone from its session."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alhena.system.child import command_line, descendants
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.builtin.background import ReadBackgroundOutput
from alhena.tools.builtin.run_shell_command import RunShellCommand
from alhena.tools.contract import ToolErrorType
from tests.tools.files import call, failure_type, listing, text_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux has /proc")

DAEMON = r"""
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in sys.argv else signal.SIG_DFL)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.environ.clear()
for descriptor in range(3):
    os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
with open("daemon", "w") as file:
    file.write(str(os.getpid()))
os.rename("daemon", "pid")
os.execve("/bin/sh", ["a-daemon", "-c", "trap '' HUP; while :; do sleep 1; done"], {})
"""
SETSID = "setsid bash -c 'echo $$ >new; mv new pid; exec sleep 60' & while ! [ -s pid ]; do :; done"


@pytest.fixture
def shell(project: Path, groups: ProcessGroups) -> RunShellCommand:
    (project / "daemon.py").write_text(DAEMON, encoding="utf-8")
    return RunShellCommand(Workspace(project), groups=groups)


def pid_in(project: Path) -> int:
    return int((project / "pid").read_text(encoding="utf-8"))


def daemon(project: Path, words: str = "") -> str:
    wait = f"while ! [ -s {project}/pid ]; do sleep 0.01; done"
    return f"{sys.executable} daemon.py {words}; {wait}"


def alive(pid: int) -> bool:
    return pid in descendants(os.getsid(pid)) if os.path.exists(f"/proc/{pid}") else False


async def await_program(pid: int, program: str) -> None:
    """Waits until a process has become the program that it is to run."""
    while command_line(pid) != program:
        await asyncio.sleep(0.01)


@pytest.mark.requirement("TOOLS-16")
@pytest.mark.parametrize("words", ["", "deaf"])
async def test_a_daemon_is_told_of_listed_and_ended_with_the_session(
    shell: RunShellCommand, groups: ProcessGroups, project: Path, words: str
) -> None:
    command = daemon(project, words)
    result = await call(shell, command=command)
    pid = pid_in(project)
    assert os.getsid(pid) != (result.data or {})["pgid"]
    assert pid in (result.data or {})["background_pids"]
    assert f"\nBackground PIDs: {pid}" in text_of(result)
    lines = (await listing(groups)).split("\n")
    assert lines[0].startswith(f"- [PID {pid}] Running: `a-daemon -c trap '' HUP")
    assert lines[0].endswith(f"(left running by `{command}`)")
    await groups.close()
    assert not alive(pid)
    assert await listing(groups) == "No background processes found."


@pytest.mark.requirement("TOOLS-16")
async def test_setsid_does_not_outlive_the_session(
    shell: RunShellCommand, groups: ProcessGroups, project: Path
) -> None:
    await call(shell, command=SETSID)
    pid = pid_in(project)
    await await_program(pid, "sleep 60")
    assert await listing(groups) == (
        f"- [PID {pid}] Running: `sleep 60` (left running by `{SETSID}`)"
    )
    await groups.close()
    assert not alive(pid)


@pytest.mark.requirement("TOOLS-16")
async def test_what_is_asked_to_outlive_the_session_does(
    shell: RunShellCommand, groups: ProcessGroups, project: Path
) -> None:
    result = await call(shell, command=f"prlimit --rttime=unlimited {SETSID}")
    pid = pid_in(project)
    assert (result.data or {})["background_pids"] == []
    assert await listing(groups) == "No background processes found."
    await groups.close()
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_what_other_programs_start_meanwhile_is_not_touched(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    others = ProcessGroups()
    other = RunShellCommand(shell.workspace, groups=others)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        await call(shell, command="sleep 61 & true")
        theirs = await call(other, command="setsid sleep 62 & true")
        (pid,) = (theirs.data or {})["background_pids"]
        await groups.close()
        assert stranger.poll() is None
        assert alive(pid)
        stranger.kill()
    await others.close()
    assert not alive(pid)


@pytest.mark.requirement("TOOLS-16")
async def test_what_leaves_the_group_of_a_background_command_belongs_to_it(
    shell: RunShellCommand, groups: ProcessGroups, project: Path
) -> None:
    command = f"echo ready; {SETSID}; sleep 60"
    started = await call(shell, command=command, is_background=True, delay_ms=0)
    owner = (started.data or {})["pid"]
    while not (project / "pid").exists():
        await asyncio.sleep(0.01)
    pid = pid_in(project)
    await await_program(pid, "sleep 60")
    assert await listing(groups) == (
        f"- [PID {owner}] Running: `{command}`\n"
        f"- [PID {pid}] Running: `sleep 60` (left the group of PID {owner})"
    )
    told = await call(ReadBackgroundOutput(groups), pid=pid)
    assert text_of(told).endswith(f"\nOutput: what it writes to that of PID {owner} is read there.")
    ended = await call(ReadBackgroundOutput(groups), pid=owner, kill=True)
    assert text_of(ended) == f"[PID {owner}] Exited (signal 15): `{command}`\nOutput:\nready"
    assert not alive(pid)
    assert await listing(groups) == f"- [PID {owner}] Exited (signal 15): `{command}`"


@pytest.mark.requirement("TOOLS-16")
async def test_one_process_that_was_left_is_ended_by_its_number(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    result = await call(shell, command="sleep 60 & setsid sh -c \"trap '' TERM; sleep 61\" & true")
    one, other = (result.data or {})["background_pids"][:2]
    await await_program(one, "sleep 60")
    told = await call(ReadBackgroundOutput(groups), pid=one)
    assert text_of(told).startswith(f"[PID {one}] Running: `sleep 60` (left running by `")
    assert "\nOutput: not kept; " in text_of(told)
    for pid in (other, one):
        ended = await call(ReadBackgroundOutput(groups), pid=pid, kill=True)
        assert text_of(ended).startswith(f"[PID {pid}] Exited: ")
        assert not alive(pid)
    again = await call(ReadBackgroundOutput(groups), pid=one, kill=True)
    assert failure_type(again) == ToolErrorType.EXECUTION_FAILED


async def test_a_command_that_ignores_the_request_to_end_is_killed(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    command = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
    started = await call(shell, command=command, is_background=True, delay_ms=0)
    pid = (started.data or {})["pid"]
    while not text_of(await call(ReadBackgroundOutput(groups), pid=pid)).endswith("\ndeaf"):
        await asyncio.sleep(0.01)
    ended = await call(ReadBackgroundOutput(groups), pid=pid, kill=True)
    assert text_of(ended) == f"[PID {pid}] Exited (signal 9): `{command}`\nOutput:\ndeaf"
    assert descendants(pid) == ()
    again = await call(ReadBackgroundOutput(groups), pid=pid, kill=True)
    assert text_of(again) == text_of(ended)


SESSION = """
import asyncio, sys
from pathlib import Path
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.builtin.run_shell_command import RunShellCommand
from alhena.tools.contract import ExecutionContext

async def main():
    tool = RunShellCommand(Workspace("."), groups=ProcessGroups())
    await tool.build({"command": sys.argv[1]}).execute(ExecutionContext(Path.cwd()))

asyncio.run(main())
"""


@pytest.mark.requirement("TOOLS-16")
@pytest.mark.parametrize("words", ["", "deaf"])
def test_a_session_that_is_killed_leaves_no_daemon(project: Path, words: str) -> None:
    (project / "daemon.py").write_text(DAEMON, encoding="utf-8")
    command = daemon(project, words) + "; sleep 60"
    with subprocess.Popen([sys.executable, "-c", SESSION, command]) as session:
        while not (project / "pid").exists():
            time.sleep(0.01)
        pid = pid_in(project)
        assert alive(pid)
        session.kill()
    while alive(pid):
        time.sleep(0.01)


@pytest.mark.requirement("TOOLS-16")
async def test_nothing_is_too_short_to_be_followed(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    for _ in range(20):
        await call(shell, command="setsid sleep 61 >/dev/null 2>&1 & disown; exit")
    programs = [process.program for process in groups.left]
    assert len(programs) == 20
    assert set(programs) <= {"sleep 61", "setsid sleep 61"}
    pids = [process.pid for process in groups.left]
    await groups.close()
    assert not any(map(alive, pids))
