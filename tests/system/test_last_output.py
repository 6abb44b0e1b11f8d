"""The last output of a process reaches its reader, for every order of events."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from alhena.mcp.stdio import ServedProcess, end_served_process, start_served_process
from alhena.system.processes import ProcessCommand, ProcessGroups, run_in_background
from alhena.tools.shell_output import CapturedOutput
from tests.support.patience import PATIENCE_S


@pytest.fixture
async def groups(project: Path) -> AsyncIterator[ProcessGroups]:
    found = ProcessGroups()
    yield found
    await found.close()


def command(script: str) -> ProcessCommand:
    env = {"PATH": os.environ["PATH"]}
    return ProcessCommand(
        argv=("sh", "-c", script), cwd=str(Path.cwd()), env=env, label="some command"
    )


def wait_unheard(pid: int) -> None:
    """Returns when a process has ended, of which the loop has not heard then."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def open_served_process(
    groups: ProcessGroups, written: bytearray, errors: bytearray
) -> ServedProcess:
    script = command("echo an answer; echo no licence >&2; exit 3")
    return start_served_process(script, groups, written.extend, errors.extend)


async def test_another_that_starts_takes_nothing_from_one_that_has_just_ended(
    groups: ProcessGroups,
) -> None:
    written, errors = bytearray(), bytearray()
    child = open_served_process(groups, written, errors)
    wait_unheard(child.pid)
    other = start_served_process(command("exec sleep 60"), groups, written.extend, errors.extend)
    async with asyncio.timeout(PATIENCE_S):
        await child.exited
    groups.unwatch(child.pid)
    assert (bytes(written), bytes(errors)) == (b"an answer\n", b"no licence\n")
    assert child.reap() == 3
    assert groups.pgids == (other.pid,)


@pytest.mark.parametrize("ends", ["swept", "ended", "all are ended"])
async def test_what_was_left_in_the_pipe_is_read_before_it_is_closed(
    groups: ProcessGroups, ends: str
) -> None:
    written, errors = bytearray(), bytearray()
    child = open_served_process(groups, written, errors)
    child.pause()
    async with asyncio.timeout(PATIENCE_S):
        await child.exited
        assert not written
        if ends == "swept":
            groups.unwatch(child.pid)
        elif ends == "ended":
            await end_served_process(child, groups, 0.5)
        else:
            await groups.close()
    assert (bytes(written), bytes(errors)) == (b"an answer\n", b"no licence\n")
    assert child.output_ended


async def test_a_background_command_says_its_last_and_how_it_ended(groups: ProcessGroups) -> None:
    output = CapturedOutput(None, "call", prefix="", size=1_000)
    fifo = Path("gate")
    os.mkfifo(fifo)
    script = command("read line <gate; echo $line; exit 4")
    background = await run_in_background(script, output, groups=groups, delay=0)
    fifo.write_text("the last word\n", encoding="utf-8")
    wait_unheard(background.pid)
    other = start_served_process(
        command("exec sleep 60"), groups, bytearray().extend, bytearray().extend
    )
    assert background.running or background.exit_code == 4
    async with asyncio.timeout(PATIENCE_S):
        while background.running:
            await asyncio.sleep(0.01)
    groups.unwatch(background.pid)
    assert background.exit_code == 4
    assert output.capture.finish_capture().head == "the last word\n"
    assert groups.pgids == (other.pid,)
