import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from alhena.system.child import descendants, watch_exit_in_thread
from alhena.system.errors import ProcessStartError
from alhena.system.processes import (
    CommandLimits,
    ProcessCommand,
    ProcessEnding,
    ProcessGroups,
    ReachedLimit,
    run_process,
)
from alhena.system.pseudo_terminal import PseudoTerminal
from tests.support.disk import descriptors
from tests.support.steady import skip

FORK_TREE = """
f() { if [ $1 -gt 0 ]; then f $(($1 - 1)) & f $(($1 - 1)) & fi; trap '' TERM; sleep 60; }
f 5 & echo ready; wait
"""
IGNORES_TERM = "trap '' TERM; echo ready; while :; do sleep 1; done"


def bash(script: str, **options: object) -> ProcessCommand:
    env = {"PATH": os.environ["PATH"]}
    return ProcessCommand(argv=("bash", "-c", script), cwd=str(Path.cwd()), env=env, **options)


class Output:
    """A sink that keeps everything and tells when some text has come."""

    def __init__(self, expected: bytes = b"") -> None:
        self.data = b""
        self.expected = expected
        self.seen = asyncio.Event()

    def __call__(self, data: bytes) -> None:
        self.data += data
        if self.expected and self.expected in self.data:
            self.seen.set()


async def outcome(script: str, **options: object) -> tuple[bytes, ProcessEnding]:
    output = Output()
    ending = await run_process(bash(script), output, **options)
    return output.data, ending


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_stdout_and_stderr_arrive_joined_in_the_order_written() -> None:
    data, ending = await outcome("echo one; echo two >&2; echo three; exit 3")
    assert data == b"one\ntwo\nthree\n"
    assert (ending.exit_code, ending.signal, ending.stopped) == (3, None, None)
    assert ending.background == ()


async def test_stderr_can_be_left_out() -> None:
    output = Output()
    await run_process(bash("echo one; echo two >&2", merge_stderr=False), output)
    assert output.data == b"one\n"


async def test_a_child_leads_a_session_of_its_own_and_its_id_is_reported() -> None:
    pids: list[int] = []
    data, ending = await outcome("ps -o pid=,pgid=,sid= -p $$", started=pids.append)
    assert data.split() == [str(ending.pgid).encode()] * 3
    assert pids == [ending.pgid]


async def test_a_child_that_reads_its_stdin_meets_its_end_and_does_not_hang() -> None:
    data, ending = await outcome("read answer; echo status $?; cat; echo </dev/tty")
    assert data.startswith(b"status 1\n")
    assert b"/dev/tty" in data
    assert ending.exit_code == 1


async def test_an_end_by_signal_is_reported_as_the_signal() -> None:
    _, ending = await outcome("kill -KILL $$")
    assert (ending.exit_code, ending.signal) == (None, signal.SIGKILL)


async def test_all_output_of_a_fast_writer_arrives() -> None:
    data, ending = await outcome("head -c 3000000 /dev/zero")
    assert len(data) == 3_000_000
    assert ending.exit_code == 0


async def test_a_child_without_output_ends_with_none() -> None:
    assert (await outcome("true"))[0] == b""


async def test_a_background_child_that_holds_the_pipe_is_not_waited_for_and_is_reported() -> None:
    groups = ProcessGroups()
    data, ending = await outcome("sleep 60 & echo $!", groups=groups)
    assert [int(data)] == list(ending.background)
    assert descendants(ending.pgid) == ending.background
    assert groups.pgids == (ending.pgid,)
    await groups.close()
    assert descendants(ending.pgid) == ()
    assert groups.pgids == ()


async def test_a_background_child_that_never_stops_writing_does_not_hold_the_result() -> None:
    groups = ProcessGroups()
    _, ending = await outcome("yes & echo started", groups=groups)
    assert len(ending.background) == 1
    await groups.close()
    assert descendants(ending.pgid) == ()


async def test_groups_that_ended_by_themselves_are_forgotten(project: Path) -> None:
    groups = ProcessGroups()
    os.mkfifo(project / "gate")
    _, ending = await outcome("cat gate >/dev/null & true", groups=groups)
    assert groups.pgids == (ending.pgid,)
    (project / "gate").write_text("open", encoding="utf-8")
    while descendants(ending.pgid):
        await asyncio.sleep(0.01)
    assert groups.pgids == ()


async def test_closing_groups_ends_members_that_ignore_sigterm() -> None:
    groups = ProcessGroups()
    _, first = await outcome(f"({IGNORES_TERM}) >/dev/null & true", groups=groups)
    _, second = await outcome("sleep 60 & true", groups=groups)
    assert set(groups.pgids) == {first.pgid, second.pgid}
    await groups.close()
    assert descendants(first.pgid) == descendants(second.pgid) == ()


async def test_without_groups_nothing_outlives_the_child() -> None:
    _, ending = await outcome("sleep 60 & sleep 61 >/dev/null 2>&1 & true")
    assert len(ending.background) == 2
    assert descendants(ending.pgid) == ()


async def test_a_job_in_a_group_of_its_own_is_ended_with_its_session() -> None:
    script = "set -m; sleep 60 & set +m; ps -o pgid= -p $!"
    data, ending = await outcome(script)
    assert int(data) != ending.pgid
    assert descendants(ending.pgid) == ()


@pytest.mark.parametrize(
    "script",
    [
        "echo ready; sleep 60",
        IGNORES_TERM,
        f"({IGNORES_TERM}) & wait",
        "echo ready; yes > /dev/null",
        "yes ready",
        "echo ready; exec sleep 60 >/dev/null 2>&1",
        "set -m; (trap '' TERM HUP; echo ready; sleep 60) & wait",
        FORK_TREE,
    ],
)
async def test_cancelling_leaves_no_process_no_zombie_and_no_descriptor(script: str) -> None:
    before = descriptors()
    pids: list[int] = []
    output = Output(b"ready")
    task = asyncio.create_task(run_process(bash(script), output, started=pids.append))
    await output.seen.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert descendants(pids[0]) == ()
    with pytest.raises(ChildProcessError):
        os.waitpid(pids[0], os.WNOHANG)
    assert descriptors() <= before


async def test_a_second_cancellation_kills_at_once() -> None:
    pids: list[int] = []
    output = Output(b"ready")
    task = asyncio.create_task(run_process(bash(IGNORES_TERM), output, started=pids.append))
    await output.seen.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while descendants(pids[0]):
        await asyncio.sleep(0.01)
    while exists(pids[0]):  # reaped although nobody waits for it any more
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("steps", range(12))
async def test_cancelling_at_any_step_leaves_nothing(steps: int) -> None:
    before = descriptors()
    pids: list[int] = []
    script = "echo a; sleep 60 & echo b; true"
    task = asyncio.create_task(run_process(bash(script), Output(), started=pids.append))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert all(descendants(pid) == () for pid in pids)
    assert descriptors() <= before


async def test_silence_over_the_limit_ends_the_child_and_says_so() -> None:
    output = Output(b"before\n")
    command = bash("echo before; sleep 60")
    running = asyncio.create_task(run_process(command, output, limits=CommandLimits(inactivity=60)))
    await output.seen.wait()
    skip(60)
    ending = await running
    assert output.data == b"before\n"
    assert ending.stopped is ReachedLimit.INACTIVITY
    assert ending.signal == signal.SIGTERM
    assert descendants(ending.pgid) == ()


async def test_output_puts_the_inactivity_limit_off(project: Path) -> None:
    os.mkfifo(project / "gate")
    output = Output()
    command = bash("exec 3<>gate; while read -r word <&3 && [ $word != 7 ]; do echo $word; done")
    running = asyncio.create_task(run_process(command, output, limits=CommandLimits(inactivity=60)))
    for word in "1234567":
        await asyncio.to_thread((project / "gate").write_text, f"{word}\n", encoding="utf-8")
        while word != "7" and word.encode() not in output.data:
            await asyncio.sleep(0.01)
        skip(20)
    assert (await running).stopped is None
    assert output.data.split() == [b"1", b"2", b"3", b"4", b"5", b"6"]


async def test_a_command_that_waits_for_keys_it_cannot_get_is_stopped() -> None:
    script = "exec <>$(readlink /proc/$$/fd/1); echo begun; stty -icanon; read -n 1"
    command = bash(script, terminal=PseudoTerminal(24, 80))
    output = Output()
    ending = await run_process(command, output, limits=CommandLimits(keys=0.05))
    assert ending.stopped is ReachedLimit.KEYS
    assert output.data == b"begun\r\n"
    assert descendants(ending.pgid) == ()


async def test_the_total_limit_holds_while_output_flows() -> None:
    script = "while :; do echo x; sleep 0.01; done"
    _, ending = await outcome(script, limits=CommandLimits(total=0.2))
    assert ending.stopped is ReachedLimit.TOTAL
    assert descendants(ending.pgid) == ()


async def test_a_flood_is_stopped_at_the_output_limit() -> None:
    received = 0

    def count(data: bytes) -> None:
        nonlocal received
        received += len(data)

    ending = await run_process(bash("yes"), count, limits=CommandLimits(output=10_000_000))
    assert ending.stopped is ReachedLimit.OUTPUT
    assert received > 10_000_000
    assert descendants(ending.pgid) == ()


async def test_a_program_that_is_not_there_is_named() -> None:
    before = descriptors()
    missing = ProcessCommand(argv=("no-such-program",), cwd="/", env={"PATH": "/usr/bin"})
    with pytest.raises(ProcessStartError, match="Could not start no-such-program: No such file"):
        await run_process(missing, Output())
    assert descriptors() <= before


async def test_a_working_directory_that_is_not_there_is_named(project: Path) -> None:
    gone = ProcessCommand(argv=("true",), cwd=str(project / "gone"), env={"PATH": "/usr/bin:/bin"})
    with pytest.raises(ProcessStartError, match=r"Working directory is not there: .*gone"):
        await run_process(gone, Output())


async def test_arguments_the_system_refuses_are_an_error_and_no_crash() -> None:
    for argument in ("x" * 3_000_000, "nul\0byte", "\ud800"):
        with pytest.raises(ProcessStartError, match="Could not start bash"):
            await run_process(bash(argument), Output())


async def test_ten_children_at_once_do_not_mix() -> None:
    results = await asyncio.gather(*(outcome(f"echo {n}; exit {n}") for n in range(10)))
    assert [(data, ending.exit_code) for data, ending in results] == [
        (f"{n}\n".encode(), n) for n in range(10)
    ]


async def test_an_exit_is_noticed_without_pidfd() -> None:
    import subprocess

    ended = asyncio.Event()
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        watch_exit_in_thread(asyncio.get_running_loop(), process, ended.set)
        await ended.wait()
        assert process.wait() == 0
