import asyncio
import os
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from alhena.system.child import descendants
from alhena.system.processes import MAX_ENDED, ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.builtin.background import ReadBackgroundOutput
from alhena.tools.builtin.run_shell_command import RunShellCommand, ShellLimits
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure, ToolResult
from alhena.tools.output_store import OutputStore
from alhena.tools.shell_output import CapturedOutput
from tests.support.disk import descriptors
from tests.support.steady import skip_when
from tests.tools.files import call, failure_type, listing, text_of


@pytest.fixture
def shell(project: Path, groups: ProcessGroups, store: OutputStore) -> RunShellCommand:
    return RunShellCommand(Workspace(project), groups=groups, outputs=store)


async def start(shell: RunShellCommand, command: str, **params: Any) -> int:
    """Starts a command in the background and gives its pid; it does not end at once."""
    result = await call(shell, command=command, is_background=True, **{"delay_ms": 0} | params)
    assert text_of(result).startswith("Command is running in background. PID: "), result
    return int((result.data or {})["pid"])


async def output(groups: ProcessGroups, pid: int, **params: Any) -> str:
    return text_of(await call(ReadBackgroundOutput(groups), pid=pid, **params))


async def await_reader(gate: Path) -> None:
    """Waits for one that reads from a FIFO, and lets it go on."""
    await asyncio.to_thread(gate.write_bytes, b"")


async def await_end(groups: ProcessGroups, pid: int) -> None:
    while any(each.running for each in groups.background if each.pid == pid):
        await asyncio.sleep(0.01)


@pytest.mark.requirement("TOOLS-16")
async def test_a_background_command_goes_on_after_the_call(
    shell: RunShellCommand, groups: ProcessGroups, project: Path
) -> None:
    os.mkfifo(project / "gate")
    command = "echo started; : >begun; read line <gate; echo got $line; sleep 60"
    starting = call(shell, command=command, is_background=True, delay_ms=60_000)
    result, _ = await asyncio.gather(starting, skip_when(60, (project / "begun").exists))
    pid = (result.data or {})["pid"]
    assert text_of(result) == (
        f"Command is running in background. PID: {pid}. Initial output:\n"
        "started\n"
        f"Command: {command}\n"
        "Directory: (root)\n"
        f"Background PIDs: {pid}\n"
        f"Process Group PGID: {pid}"
    )
    assert pid in descendants(pid)
    (project / "gate").write_text("word\n", encoding="utf-8")
    while "got word" not in await output(groups, pid):
        await asyncio.sleep(0.01)
    assert await output(groups, pid) == (
        f"[PID {pid}] Running: `{command}`\nOutput:\nstarted\ngot word"
    )


@pytest.mark.requirement("TOOLS-16")
async def test_background_commands_are_listed_with_what_became_of_them(
    shell: RunShellCommand, groups: ProcessGroups, project: Path
) -> None:
    assert await listing(groups) == "No background processes found."
    for number in "234":
        os.mkfifo(project / number)
    scripts = ("sleep 60", ": <2; exit 3", ": <3; kill -9 $$", ": <4")
    one, two, three, four = [await start(shell, script) for script in scripts]
    for number in "234":
        await await_reader(project / number)
    for pid in (two, three, four):
        await await_end(groups, pid)
    assert await listing(groups) == (
        f"- [PID {one}] Running: `sleep 60`\n"
        f"- [PID {two}] Exited (exit code 3): `{scripts[1]}`\n"
        f"- [PID {three}] Exited (signal 9): `{scripts[2]}`\n"
        f"- [PID {four}] Exited: `{scripts[3]}`"
    )


@pytest.mark.requirement("TOOLS-16")
async def test_a_command_that_ends_within_the_delay_is_reported_as_any_other(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    result = await call(shell, command="echo quick; exit 4", is_background=True, delay_ms=60_000)
    assert text_of(result).startswith(
        "Command: echo quick; exit 4\nDirectory: (root)\nOutput: quick\nError: (none)\nExit Code: 4\n"
    )
    assert "Exited (exit code 4)" in await listing(groups)


@pytest.mark.parametrize("target", ["{pid}", "-- -{pid}", "-9 {pid}"])
@pytest.mark.requirement("TOOLS-16")
async def test_the_model_ends_a_background_command_with_kill(
    shell: RunShellCommand, groups: ProcessGroups, target: str
) -> None:
    pid = await start(shell, "exec sleep 60")
    await call(shell, command="kill " + target.format(pid=pid))
    await await_end(groups, pid)
    number = 9 if "-9" in target else 15
    assert await listing(groups) == f"- [PID {pid}] Exited (signal {number}): `exec sleep 60`"
    assert descendants(pid) == ()


@pytest.mark.requirement("TOOLS-16")
async def test_background_commands_end_with_the_session(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    scripts = ("sleep 60", "trap '' TERM; while :; do sleep 1; done", "nohup sleep 60 & wait")
    pids = [await start(shell, script) for script in scripts]
    await groups.close()
    assert [descendants(pid) for pid in pids] == [(), (), ()]
    assert "Running" not in await listing(groups)


@pytest.mark.requirement("TOOLS-16")
async def test_processes_of_others_cannot_be_read(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    await call(shell, command="sleep 60 & true")
    for pid, kill in product((1, os.getpid(), os.getppid(), -1, 0, 10**30), (False, True)):
        result = await call(ReadBackgroundOutput(groups), pid=pid, kill=kill)
        assert text_of(result) == (
            f"Access denied. Background process ID {pid} not found in this session's history."
        )
        assert failure_type(result) == ToolErrorType.EXECUTION_FAILED


async def test_as_many_lines_are_read_as_are_asked_for(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    pid = await start(shell, "seq 1 1000; sleep 60")
    while not (await output(groups, pid)).endswith("\n1000"):
        await asyncio.sleep(0.01)
    first, heading, *lines = (await output(groups, pid)).split("\n")
    assert first == f"[PID {pid}] Running: `seq 1 1000; sleep 60`"
    assert heading == "Last 100 of 1,000 lines:"
    assert lines == [str(n) for n in range(901, 1001)]
    assert (await output(groups, pid, lines=2)).endswith("Last 2 of 1,000 lines:\n999\n1000")
    everything = (await output(groups, pid, lines=5000)).split("\n")
    assert everything[1:4] == ["Output:", "1", "2"]
    assert len(everything) == 1002


async def test_waiting_before_reading_ends_with_the_command(
    shell: RunShellCommand, groups: ProcessGroups, project: Path
) -> None:
    os.mkfifo(project / "gate")
    pid = await start(shell, ": <gate; printf 'last words'")
    await await_reader(project / "gate")
    text = await output(groups, pid, delay_ms=60_000)
    assert text.endswith("Output:\nlast words")


async def test_silence_and_binary_output_are_said(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    silent = await start(shell, "sleep 60")
    assert (await output(groups, silent)).endswith("\nOutput: (empty)")
    binary = await start(shell, "head -c 9000 /dev/urandom; sleep 60")
    while "9,000 bytes" not in await output(groups, binary):
        await asyncio.sleep(0.01)
    assert (await output(groups, binary)).endswith("\n[binary output, 9,000 bytes, not shown]")


@pytest.mark.requirement("TOOLS-22")
async def test_what_memory_does_not_keep_of_background_output_is_on_disk(
    shell: RunShellCommand, groups: ProcessGroups, store: OutputStore
) -> None:
    pid = await start(shell, "seq 1 200000; sleep 60")
    while not (await output(groups, pid)).endswith("\n200000"):
        await asyncio.sleep(0.01)
    (path,) = store.directory.iterdir()
    text = await output(groups, pid, lines=1_000_000)
    where = f"All of it but at most the last 100 lines is in {path}."
    assert f"{where}\nThe latest 160,000 characters, of 200,000 lines:\n" in text
    assert len(text) < 161_000
    wanted = "".join(f"{n}\n" for n in range(1, 200_001))
    begun = path.read_text(encoding="utf-8").partition("Output: ")[2]
    assert wanted.startswith(begun)
    assert wanted[len(begun) :].count("\n") <= 100
    await groups.close()
    assert "Exited" in await output(groups, pid, lines=1)
    assert f"All of it is in {path}." in await output(groups, pid, lines=1)
    assert path.read_text(encoding="utf-8").endswith(f"Output: {wanted}")


@pytest.mark.requirement("TOOLS-22")
@pytest.mark.parametrize("character", ["x", "\u00e4", "\U0001f600"])
async def test_what_background_output_takes_on_disk_is_bounded(
    store: OutputStore, character: str
) -> None:
    output = CapturedOutput(store, "c", prefix="Output: ", size=1_000, most=10_001)
    line = f"{character * 9}\n"
    for _ in range(5_000):
        output.capture.feed(line.encode())
    output.capture.feed(b"the end")
    (path,) = store.directory.iterdir()
    assert output.spool is not None
    assert output.spool.full
    assert 9_990 < path.stat().st_size <= 10_001
    captured = output.capture.finish_capture()
    told = output.store_whole(captured, "\nError: (none)")
    assert told is not None
    assert told.problem == "the file has at most 10,001 bytes and the end of the output"
    text = path.read_text(encoding="utf-8")
    before, middle, after = re.split(r"\n\n\.\.\. \[([\d,]+) characters omitted\] \.\.\.\n\n", text)
    assert f"Output: {line * 5_000}".startswith(before)
    assert told.saved == len(before)
    assert after == captured.tail + "\nError: (none)"
    missing = int(middle.replace(",", ""))
    assert len(before) + missing + len(captured.tail) == len("Output: ") + 50_000 + len("the end")


async def test_a_file_that_lacks_no_more_than_memory_has_becomes_whole(store: OutputStore) -> None:
    output = CapturedOutput(store, "c", prefix="Output: ", size=1_000, most=4_800)
    whole = "".join(f"{n}\n" for n in range(1_200))
    output.capture.feed(whole.encode())
    captured = output.capture.finish_capture()
    assert output.spool is not None
    assert output.spool.full
    told = output.store_whole(captured, "\nend")
    assert told is not None
    assert told.problem == ""
    (path,) = store.directory.iterdir()
    assert path.read_text(encoding="utf-8") == f"Output: {whole}end"


@pytest.mark.requirement("TOOLS-22")
async def test_a_full_file_is_told_of_and_gets_the_end_when_the_command_ends(
    project: Path, groups: ProcessGroups, store: OutputStore
) -> None:
    limits = ShellLimits(background_file=300_000)
    shell = RunShellCommand(Workspace(project), groups=groups, outputs=store, limits=limits)
    pid = await start(shell, "seq 1 200000; sleep 60")
    while not (await output(groups, pid)).endswith("\n200000"):
        await asyncio.sleep(0.01)
    (path,) = store.directory.iterdir()
    assert f"The file {path} has reached its limit: " in await output(groups, pid)
    assert path.stat().st_size == 300_000
    ended = text_of(await call(ReadBackgroundOutput(groups), pid=pid, kill=True, lines=1))
    assert ended.startswith(f"[PID {pid}] Exited (signal 15): ")
    assert "the beginning of the output is in it, so is its end, and what lies between" in ended
    assert path.read_text(encoding="utf-8").endswith("\n199999\n200000\n")
    assert path.stat().st_size < 461_000


async def test_a_background_flood_is_stopped(project: Path, groups: ProcessGroups) -> None:
    limits = ShellLimits(output=1_000_000)
    shell = RunShellCommand(Workspace(project), groups=groups, limits=limits)
    os.mkfifo(project / "gate")
    pid = await start(shell, ": <gate; yes")
    await await_reader(project / "gate")
    await await_end(groups, pid)
    assert "Exited (stopped for writing too much)" in await listing(groups)
    result = await call(shell, command="yes", is_background=True, delay_ms=60_000)
    assert "\nError: Stopped after writing more than 1,000,000 bytes.\n" in text_of(result)


@pytest.mark.parametrize("steps", range(8))
async def test_cancelling_the_start_at_any_step_leaves_nothing(
    shell: RunShellCommand, groups: ProcessGroups, steps: int
) -> None:
    pids: list[int] = []
    built = shell.build({"command": "echo x; sleep 60", "is_background": True, "delay_ms": 60_000})
    assert not isinstance(built, ToolFailure)
    context = ExecutionContext(Path.cwd(), report_pid=pids.append)
    before = descriptors()
    running: asyncio.Task[ToolResult] = asyncio.create_task(built.execute(context))
    for _ in range(steps):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await groups.close()
    assert groups.pgids == ()
    assert groups.background == ()
    assert descriptors() <= before


async def test_the_memory_of_ended_commands_is_bounded(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    running = await start(shell, "sleep 60")
    for _ in range(MAX_ENDED + 5):
        await call(shell, command="true", is_background=True, delay_ms=60_000)
    assert MAX_ENDED < len(groups.background) <= MAX_ENDED + 2
    assert groups.background[0].pid == running


async def test_where_nothing_may_go_on_a_background_command_is_refused(project: Path) -> None:
    refused = RunShellCommand(Workspace(project)).build({"command": "ls", "is_background": True})
    assert isinstance(refused, ToolFailure)
    assert refused.type is ToolErrorType.INVALID_TOOL_PARAMS


async def test_a_missing_program_is_an_ended_command_and_no_failure(
    shell: RunShellCommand,
) -> None:
    result = await call(shell, command="no-such-program", is_background=True, delay_ms=60_000)
    assert result.error is None
    assert "\nExit Code: 127\n" in text_of(result)
