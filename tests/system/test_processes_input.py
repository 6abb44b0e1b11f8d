"""Standard input of a child."""

import os
from pathlib import Path

import pytest

from alhena.system.errors import ProcessStartError
from alhena.system.processes import ProcessCommand, run_process
from tests.support.disk import descriptors

BIG = b"0123456789abcdef" * (1 << 18)


async def read(script: str, stdin: bytes) -> bytes:
    found = bytearray()
    command = ProcessCommand(
        argv=("sh", "-c", script),
        cwd=str(Path.cwd()),
        env={"PATH": os.environ["PATH"]},
        stdin=stdin,
    )
    ending = await run_process(command, found.extend)
    assert ending.exit_code == 0
    return bytes(found)


@pytest.mark.parametrize("stdin", [b"", b"a\0\xff\n", BIG])
async def test_a_child_reads_what_it_is_given_and_then_the_end(stdin: bytes) -> None:
    assert await read("cat", stdin) == stdin


async def test_a_child_that_reads_little_or_nothing_holds_nobody_up() -> None:
    assert await read("head -c 3", BIG) == b"012"
    assert await read("true", BIG) == b""
    assert await read("exec <&-; echo done", BIG) == b"done\n"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
async def test_the_input_is_closed_behind_the_child_also_when_it_does_not_start() -> None:
    await read("cat", b"warm")
    before = descriptors()
    await read("cat", b"x")
    with pytest.raises(ProcessStartError, match="Could not start"):
        await run_process(
            ProcessCommand(argv=("/no/such/program",), cwd="/", env={}, stdin=b"x"),
            lambda _data: None,
        )
    assert descriptors() <= before
