"""Servers that write without end what is no message: they wait, and what they say then arrives."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from alhena.mcp.screen import Pace
from alhena.mcp.stdio import BLANKS, ERRORS, HELD, LINE, Lines, stdio_transport
from alhena.system.processes import Command, ProcessGroups
from alhena.system.stdio_process import end_served, start_served
from tests.support.patience import PATIENCE_S

AFTER = """
import os
os.write({descriptor}, {data!r} * {times})
os.write(1, b'{{"jsonrpc":"2.0","method":"notifications/x"}}\\n')
os.read(0, 1)
"""


def command(script: str, folder: Path) -> Command:
    argv = (sys.executable, "-S", "-c", script)
    return Command(argv=argv, cwd=str(folder), env=dict(os.environ), label="a flood")


@pytest.mark.parametrize(
    ("descriptor", "data", "times"),
    [(1, b"\n", BLANKS + 20_000), (2, b"x" * (1 << 20), (ERRORS >> 20) + 8)],
    ids=["empty lines", "stderr"],
)
async def test_what_comes_behind_a_flood_arrives(
    project: Path, descriptor: int, data: bytes, times: int
) -> None:
    script = AFTER.format(descriptor=descriptor, data=data[:1], times=times * len(data))
    groups = ProcessGroups()
    try:
        async with (
            stdio_transport(command(script, project), groups, lambda _why: None) as (reading, _),
            asyncio.timeout(PATIENCE_S),
        ):
            found = await reading.receive()
            assert not isinstance(found, Exception)
            assert getattr(found.message, "method", "") == "notifications/x"
    finally:
        await groups.close()


async def test_a_child_whose_stderr_is_not_read_waits_until_it_is(project: Path) -> None:
    script = "import os\nos.write(1, b'a')\nos.read(0, 1)\nos.write(2, b'x' * (8 << 20))\n"
    written, errors = bytearray(), bytearray()
    groups = ProcessGroups()
    child = start_served(command(script, project), groups, written.extend, errors.extend)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not written:
                await asyncio.sleep(0.01)
            child.pause(errors=True)
            child.pause(errors=True)
            await child.write(b"b")
            for _ in range(10):
                await asyncio.sleep(0.01)
            assert not errors
            assert not child.exited.done()
            child.resume(errors=True)
            child.resume(errors=True)
            await child.exited
            while len(errors) < 8 << 20:
                await asyncio.sleep(0.01)
    finally:
        await end_served(child, groups, 0.5)
        await groups.close()


def test_short_lines_fill_what_is_held_as_long_ones_do_and_empty_ones_are_counted() -> None:
    lines = Lines()
    lines.feed(b"a\n\n \nb\n")
    assert (lines.held, lines.blank) == (2 * (LINE + 1), 2)
    lines.feed(b"x\n" * (HELD // LINE))
    assert lines.held > HELD
    while lines.take() is not None:
        pass
    assert lines.held == 0


def test_a_pace_counts_many_at_once_and_has_a_rate_of_its_own() -> None:
    now = 0.0
    pace = Pace(lambda: None, lambda: now, burst=100, rate=10.0)
    pace.came(100)
    assert pace.wait_s() == 0
    pace.came(50)
    assert pace.wait_s() == pytest.approx(5)
    now = 6.0
    assert pace.wait_s() == 0
