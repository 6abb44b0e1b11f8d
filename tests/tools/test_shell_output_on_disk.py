"""Output of a command that memory does not keep."""

import asyncio
import json
import resource
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from alhena.events import OutputTruncatedEvent
from alhena.hooks.model import HookVerdict
from alhena.scheduler.executor import Executor
from alhena.scheduler.hooks import ToolHooks
from alhena.scheduler.states import CallStatus
from alhena.system.workspace import Workspace
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.run_shell_command import RunShellCommand, ShellLimits
from alhena.tools.contract import ExecutionContext, ToolFailure, ToolResult
from alhena.tools.output_store import OutputStore
from alhena.tools.shell_output import INTERRUPTED
from tests.scheduler.kit import Stage, request, response_of
from tests.scheduler.said import AFTER, SaidHooks
from tests.support.command import alhena
from tests.tools.files import call, text_of


def shell(project: Path, store: OutputStore, **options: object) -> Stage:
    tool = RunShellCommand(Workspace(project), outputs=store, **options)
    return Stage(tool, executor=Executor(project, outputs=store))


async def output_of(stage: Stage, command: str) -> str:
    (done,) = await stage.run(request("call/1", "run_shell_command", command=command))
    return str(response_of(done)["output"])


@pytest.mark.requirement("TOOLS-22")
async def test_the_whole_report_is_on_disk_and_its_ends_are_given(
    project: Path, store: OutputStore
) -> None:
    stage = shell(project, store)
    command = "seq 1 20000; echo err >&2; exit 3"
    text = await output_of(stage, command)
    path = store.directory / "run_shell_command__call_1.txt"
    whole = path.read_text(encoding="utf-8")
    numbers = "".join(f"{n}\n" for n in range(1, 20_001))
    assert whole.startswith(f"Command: {command}\nDirectory: (root)\nOutput: {numbers}err\nError: ")
    assert "\nExit Code: 3\nSignal: (none)\nBackground PIDs: (none)\nProcess Group PGID: " in whole
    assert text == (
        "Output too large. Showing first 8,000 and last 32,000 characters. "
        f"For full output see: {path}\n"
        f"{whole[:8_000]}\n\n... [{len(whole) - 40_000:,} characters omitted] ...\n\n"
        f"{whole[-32_000:]}"
    )
    events = [event for event in stage.events if isinstance(event, OutputTruncatedEvent)]
    assert [event.original_length for event in events] == [len(whole)]
    assert stage.responses()[0].output_file == str(path)


@pytest.mark.parametrize("size", [39_700, 39_950, 40_000, 40_001, 40_100])
async def test_around_the_threshold_nothing_is_lost_or_kept_twice(
    project: Path, store: OutputStore, size: int
) -> None:
    text = await output_of(shell(project, store), f"head -c {size} /dev/zero | tr '\\0' x")
    kept = list(store.directory.iterdir()) if store.directory.exists() else []
    if text.startswith("Command: "):
        assert len(text) <= 40_000
        assert text.count("x") >= size
        assert kept == []
    else:
        assert "Output too large" in text
        (path,) = kept
        assert path.read_text(encoding="utf-8").count("x" * size) == 1


async def test_short_output_leaves_no_file(project: Path, store: OutputStore) -> None:
    assert "Output: hi\n" in await output_of(shell(project, store), "echo hi")
    assert not store.directory.exists()


async def test_colours_are_not_in_the_file_either(project: Path, store: OutputStore) -> None:
    await output_of(
        shell(project, store), r"for i in {1..20000}; do printf '\033[31mred\r\n'; done"
    )
    (path,) = store.directory.iterdir()
    assert "\nOutput: red\nred\n" in path.read_text(encoding="utf-8")
    assert b"\x1b" not in path.read_bytes()


async def test_binary_output_leaves_no_file(project: Path, store: OutputStore) -> None:
    command = "head -c 2000000 /dev/urandom"
    assert "[binary output, 2,000,000 bytes, not shown]" in await output_of(
        shell(project, store), command
    )
    assert not store.directory.exists()


@pytest.mark.requirement("TOOLS-22")
async def test_a_flood_stays_out_of_memory_and_whole_on_disk(
    project: Path, store: OutputStore
) -> None:
    stage = shell(project, store)
    await output_of(stage, "seq 1 20000")  # what is imported and cached once
    tracemalloc.start()
    text = await output_of(stage, "yes 0123456789abcde | head -c 64000000")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000
    path = store.directory / "run_shell_command__call_1-2.txt"
    assert str(path) in text
    assert path.stat().st_size > 64_000_000
    assert path.read_bytes().count(b"0123456789abcde\n") == 4_000_000


async def test_a_flood_over_the_limit_is_stopped_and_on_disk_up_to_there(
    project: Path, store: OutputStore
) -> None:
    stage = shell(project, store, limits=ShellLimits(output=3_000_000))
    text = await output_of(stage, "yes")
    assert "\nError: Stopped after writing more than 3,000,000 bytes.\n" in text
    assert (store.directory / "run_shell_command__call_1.txt").stat().st_size > 3_000_000


@pytest.mark.requirement("TOOLS-22")
async def test_a_full_disk_does_not_disturb_the_command(project: Path, store: OutputStore) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    stage = shell(project, store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        text = await output_of(stage, "seq 1 100000")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    path = store.directory / "run_shell_command__call_1.txt"
    assert f"For its first 100,000 characters see: {path}\nThe rest could not be saved: " in text
    assert "\n100000\nError: (none)\nExit Code: 0\n" in text
    assert path.stat().st_size == 100_000


async def test_of_a_cancelled_command_the_output_stays_and_the_model_is_told_where(
    project: Path, store: OutputStore
) -> None:
    stage = shell(project, store)
    named = request("call/1", "run_shell_command", command="seq 1 100000; touch all; sleep 60")
    running = asyncio.create_task(stage.run(named))
    while not (project / "all").exists():
        await asyncio.sleep(0)
    stage.scheduler.cancel_all()
    (done,) = await running
    path = store.directory / "run_shell_command__call_1.txt"
    assert done.status is CallStatus.CANCELLED
    answer = response_of(done)
    assert answer["error"] == "[Operation Cancelled] Reason: Operation cancelled by user"
    assert f"For full output see: {path}\n" in answer["output"]
    assert f"\nError: {INTERRUPTED}\n" in answer["output"]
    assert len(answer["output"]) < 41_000
    assert done.response.output_file == str(path)
    assert "\nOutput: 1\n2\n" in path.read_text(encoding="utf-8")


async def test_what_hooks_behind_a_command_have_not_heard_is_kept_back_when_it_is_cancelled(
    project: Path,
) -> None:
    hooks: Any = SaidHooks({AFTER: HookVerdict()})
    tool = RunShellCommand(Workspace(project))
    stage = Stage(tool, executor=Executor(project, hooks=ToolHooks(hooks)))
    named = request("call/1", "run_shell_command", command="echo one; touch all; sleep 60")
    running = asyncio.create_task(stage.run(named))
    while not (project / "all").exists():
        await asyncio.sleep(0)
    stage.scheduler.cancel_all()
    (done,) = await running
    assert hooks.heard == []
    assert list(response_of(done)) == ["error"]
    assert "its hooks had not been heard" in response_of(done)["error"]


async def test_without_truncation_all_of_it_is_given(project: Path, tmp_path: Path) -> None:
    off = OutputStore(tmp_path / "outputs", "s1", threshold=0)
    text = await output_of(shell(project, off), "seq 1 30000")
    assert "\nOutput: 1\n2\n" in text
    assert "\n30000\nError: (none)\n" in text
    assert "omitted" not in text
    assert not off.directory.exists()


async def test_read_file_reads_what_was_kept_and_no_tool_writes_there(
    project: Path, store: OutputStore
) -> None:
    await output_of(shell(project, store), "seq 1 20000")
    path = store.directory / "run_shell_command__call_1.txt"
    (project / ".geminiignore").write_text("secret\n", encoding="utf-8")
    closed = ReadFile(Workspace(project))
    opened = ReadFile(Workspace(project, readable=(store.directory,)))
    assert isinstance(closed.build({"absolute_path": str(path)}), ToolFailure)
    assert "\n2\n3\n" in text_of(await call(opened, absolute_path=str(path), limit=50))
    other = store.directory.parent / "session-s2" / "x.txt"
    assert isinstance(opened.build({"absolute_path": str(other)}), ToolFailure)
    workspace = Workspace(project, readable=(store.directory,))
    (project / "link.txt").symlink_to(path)
    assert not workspace.contains(path)
    assert not workspace.contains(project / "link.txt")


@pytest.mark.requirement("TOOLS-23")
def test_the_command_line_shows_the_environment_that_commands_have() -> None:
    ran = alhena(
        "tools", "call", "run_shell_command", json.dumps({"command": "env"}), "--json",
        "--approval-mode", "yolo", "--skip-trust", GITHUB_TOKEN="unseen1", GEMINI_API_KEY="unseen2",
        INNOCENT="ghp_" + "unseen3" * 6, KEYBOARD="visible",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "KEYBOARD=visible\n" in ran.json["llmContent"]
    assert "unseen" not in ran.json["llmContent"]


async def test_the_result_itself_is_whole_or_an_excerpt_that_says_so(project: Path) -> None:
    tool = RunShellCommand(Workspace(project))
    built = tool.build({"command": "seq 1 20000"})
    assert not isinstance(built, ToolFailure)
    result: ToolResult = await built.execute(ExecutionContext(project))
    assert result.spilled is None
    assert "characters omitted" in text_of(result)
