import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alhena.system.child import descendants
from alhena.system.processes import ProcessCommand, ProcessGroups, run_process
from alhena.system.watchdog import Watchdog
from tests.support.disk import descriptors

SESSION = """
import asyncio, os, sys
from pathlib import Path
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.builtin.run_shell_command import RunShellCommand
from alhena.tools.contract import ExecutionContext

async def main():
    tool = RunShellCommand(Workspace("."), groups=ProcessGroups())
    async def run(command, **params):
        context = ExecutionContext(Path.cwd(), report_pid=lambda pid: print(pid, flush=True))
        await tool.build({"command": command, **params}).execute(context)
    await run("true")
    await run("sleep 60 & set -m; (trap '' TERM HUP; sleep 61) & echo left behind")
    await run("trap '' TERM; sleep 60 & sleep 61; wait", is_background=True)
    await run("bash -c 'sleep 60' & (setsid sleep 0.01); echo $$ >working; sleep 61")

asyncio.run(main())
"""


def await_end(session: int) -> None:
    while descendants(session):
        time.sleep(0.01)


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"], start_new_session=True)


@pytest.mark.requirement("TOOLS-16")
def test_a_session_that_is_killed_leaves_none_of_its_processes(project: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SESSION], stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        pids = [int(session.stdout.readline()) for _ in range(4)]
        while not (project / "working").exists():
            time.sleep(0.01)
        while not all(len(descendants(pid)) >= 2 for pid in pids[1:]):
            time.sleep(0.01)
        session.kill()
    for pid in pids:
        await_end(pid)


def test_groups_that_have_ended_are_not_ended_again() -> None:
    one, two, three = sleeper(), sleeper(), sleeper()
    watchdog = Watchdog()
    for process in (one, two, three):
        watchdog.add(process.pid)
    watchdog.remove(two.pid)
    watchdog.remove(two.pid)
    watchdog.remove(1)
    del watchdog
    assert [one.wait(), three.wait()] == [-signal.SIGTERM, -signal.SIGTERM]
    assert two.poll() is None
    two.kill()
    two.wait()


def test_closing_ends_the_watching_and_kills_nothing() -> None:
    process = sleeper()
    before, others = descriptors(), children()
    watchdog = Watchdog()
    watchdog.add(process.pid)
    (guard,) = children() - others
    watchdog.close()
    watchdog.close()
    assert guard not in children()
    assert descriptors() <= before
    assert process.poll() is None
    process.kill()
    process.wait()


def test_a_watchdog_that_was_killed_is_replaced() -> None:
    one, two = sleeper(), sleeper()
    others = children()
    watchdog = Watchdog()
    watchdog.add(one.pid)
    (guard,) = children() - others
    os.kill(guard, signal.SIGKILL)
    os.waitid(os.P_PID, guard, os.WEXITED | os.WNOWAIT)
    watchdog.add(two.pid)
    del watchdog
    assert [one.wait(), two.wait()] == [-signal.SIGTERM, -signal.SIGTERM]


def test_a_watchdog_that_was_stopped_does_not_hold_the_end_up_for_long() -> None:
    watchdog = Watchdog()
    process = sleeper()
    others = children()
    watchdog.add(process.pid)
    (guard,) = children() - others
    os.kill(guard, signal.SIGSTOP)
    watchdog.close()
    assert guard not in children()
    process.kill()
    process.wait()


async def test_commands_are_watched_while_they_run_and_no_longer() -> None:
    seen: list[str] = []

    class Noting(ProcessGroups):
        def watch(self, pgid: int) -> None:
            seen.append("+")
            super().watch(pgid)

        def unwatch(self, pgid: int) -> None:
            seen.append("-")
            super().unwatch(pgid)

    groups = Noting()
    env = {"PATH": os.environ["PATH"]}
    for script in ("true", "exit 3", "sleep 60 & true"):
        command = ProcessCommand(argv=("bash", "-c", script), cwd="/", env=env)
        await run_process(command, lambda _data: None, groups=groups)
    assert seen == ["+", "-", "+", "-", "+"]
    await groups.close()
    assert seen[5:] == ["-"]


def children() -> set[int]:
    me = os.getpid()
    text = Path(f"/proc/{me}/task/{me}/children").read_text(encoding="ascii")
    return {int(pid) for pid in text.split()}
