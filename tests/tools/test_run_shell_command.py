import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from alhena.system.child import descendants
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.builtin.run_shell_command import RunShellCommand, ShellEnvironment, ShellLimits
from alhena.tools.contract import (
    ExecConfirmation,
    ExecutionContext,
    Kind,
    TerminalOutput,
    ToolErrorType,
    ToolFailure,
    ToolResult,
)
from alhena.tools.shell_output import INTERRUPTED
from tests.support.steady import skip_when
from tests.tools.files import built, run

LABELS = (
    "Command", "Directory", "Output", "Error", "Exit Code", "Signal", "Background PIDs",
    "Process Group PGID",
)  # fmt: skip


@pytest.fixture
def shell(project: Path, groups: ProcessGroups) -> RunShellCommand:
    return RunShellCommand(Workspace(project), groups=groups)


def lines(result: ToolResult) -> dict[str, str]:
    """The eight lines by their labels; checks that they are there, in order."""
    text = result.llm_content
    assert isinstance(text, str)
    values: dict[str, str] = {}
    for label, following in zip(LABELS, (*LABELS[1:], None), strict=True):
        start = f"{label}: "
        assert text.startswith(start), text
        text = text[len(start) :]
        if following is None:
            values[label] = text
        else:
            values[label], sign, rest = text.partition(f"\n{following}: ")
            assert sign, text
            text = f"{following}: {rest}"
    return values


@pytest.mark.requirement("TOOLS-16")
async def test_the_result_is_eight_lines_in_order(shell: RunShellCommand) -> None:
    result = await run(shell, "echo out; echo err >&2; echo end")
    pgid = (result.data or {})["pgid"]
    assert result.llm_content == (
        "Command: echo out; echo err >&2; echo end\n"
        "Directory: (root)\n"
        "Output: out\nerr\nend\n"
        "Error: (none)\n"
        "Exit Code: 0\n"
        "Signal: (none)\n"
        "Background PIDs: (none)\n"
        f"Process Group PGID: {pgid}"
    )
    assert result.error is None
    assert result.display == TerminalOutput(text="out\nerr\nend", exit_code=0)


async def test_a_command_that_writes_nothing_has_empty_output(shell: RunShellCommand) -> None:
    assert lines(await run(shell, "true"))["Output"] == "(empty)"


async def test_a_failing_command_is_a_result_and_no_error(shell: RunShellCommand) -> None:
    result = await run(shell, "echo why >&2; exit 7")
    assert result.error is None
    assert (lines(result)["Exit Code"], lines(result)["Output"]) == ("7", "why")
    assert (result.data or {})["exit_code"] == 7


async def test_an_end_by_signal_has_no_exit_code(shell: RunShellCommand) -> None:
    said = lines(await run(shell, "kill -SEGV $$"))
    assert (said["Exit Code"], said["Signal"]) == ("(none)", "11")


async def test_bash_runs_it_in_a_process_group_of_its_own(shell: RunShellCommand) -> None:
    result = await run(shell, 'a=(1 2); [[ x == x ]] && echo "${a[1]} $0"; ps -o pgid= -p $$')
    word, pgid = lines(result)["Output"].split("\n")
    assert word.endswith("bash")
    assert word.startswith("2 ")
    assert int(pgid) == int(lines(result)["Process Group PGID"]) != os.getpgid(0)


async def test_it_runs_in_the_directory_it_is_given(shell: RunShellCommand, project: Path) -> None:
    (project / "sub dir").mkdir()
    for name in ("directory", "dir_path"):
        result = await run(shell, "pwd", **{name: "sub dir"})
        assert lines(result)["Directory"] == "sub dir"
        assert lines(result)["Output"] == str(project / "sub dir")
    assert lines(await run(shell, "pwd"))["Output"] == str(project)


async def test_reading_input_ends_at_once(shell: RunShellCommand) -> None:
    said = lines(await run(shell, "read -p 'Password: ' x; echo $?; cat; tty; sudo -n true"))
    assert said["Output"].startswith("1\nnot a tty")


@pytest.mark.requirement("TOOLS-23")
async def test_commands_see_an_unattended_environment_without_credentials(
    project: Path,
) -> None:
    secret = {"GEMINI_API_KEY": "s3cret", "GOOGLE_API_KEY": "s3cret", "PATH": os.environ["PATH"]}
    environment = ShellEnvironment({**secret, "GITHUB_TOKEN": "s3cret", "MINE": "kept"})
    tool = RunShellCommand(Workspace(project), environment=environment)
    result = await run(tool, "env")
    output = lines(result)["Output"].split("\n")
    removed = ["GEMINI_API_KEY", "GITHUB_TOKEN", "GOOGLE_API_KEY"]
    assert (result.data or {})["environment_removed"] == removed
    assert "s3cret" not in str(output)
    assert {"MINE=kept", "GEMINI_CLI=1", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0"} <= {
        *output
    }


@pytest.mark.requirement("TOOLS-16")
async def test_background_processes_are_reported_and_end_with_the_session(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    said = lines(await run(shell, "sleep 60 & echo $!"))
    assert said["Background PIDs"] == said["Output"]
    pgid = int(said["Process Group PGID"])
    assert descendants(pgid) == (int(said["Output"]),)
    await groups.close()
    assert descendants(pgid) == ()


async def test_without_a_keeper_no_background_process_is_left(project: Path) -> None:
    said = lines(await run(RunShellCommand(Workspace(project)), "sleep 60 & true"))
    assert descendants(int(said["Process Group PGID"])) == ()


@pytest.mark.requirement("TOOLS-16")
async def test_silence_over_the_limit_is_told_and_output_stays(project: Path) -> None:
    tool = RunShellCommand(Workspace(project), limits=ShellLimits(inactivity=60))
    shown: list[str] = []
    context = ExecutionContext(project, update_output=shown.append)
    asking = built(tool, command="echo Continue? [y/N]; sleep 60").execute(context)
    result, _ = await asyncio.gather(asking, skip_when(60, lambda: bool(shown)))
    said = lines(result)
    assert said["Output"] == "Continue? [y/N]"
    assert said["Error"].startswith("Stopped after 60 s without output")
    assert (said["Exit Code"], said["Signal"]) == ("(none)", str(int(signal.SIGTERM)))
    assert result.error is None
    assert descendants(int(said["Process Group PGID"])) == ()


async def test_large_output_says_exactly_how_much_is_left_out(shell: RunShellCommand) -> None:
    said = lines(await run(shell, "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end"))
    assert said["Output"].startswith("x" * 8_000 + "\n\n... [960,005 characters omitted] ...\n\nx")
    assert said["Output"].endswith("x\nend")


@pytest.mark.requirement("TOOLS-16")
async def test_binary_output_is_told_and_not_shown(shell: RunShellCommand) -> None:
    said = lines(await run(shell, "head -c 100000 /dev/urandom; head -c 5000 /dev/zero"))
    assert said["Output"] == "[binary output, 105,000 bytes, not shown]"
    assert said["Exit Code"] == "0"


async def test_colours_and_stray_bytes_do_not_reach_the_model(shell: RunShellCommand) -> None:
    said = lines(await run(shell, r"printf '\033[31mred\033[0m caf\351 50%%\r100%%\n\007'"))
    assert said["Output"] == "100%caf\ufffd 50%"


async def test_output_is_live_and_its_pid_is_reported(shell: RunShellCommand) -> None:
    seen: list[str] = []
    pids: list[int] = []
    context = ExecutionContext(
        shell.workspace.cwd, update_output=seen.append, report_pid=pids.append
    )
    result = await built(shell, command="echo first; cat fifo 2>/dev/null").execute(context)
    assert seen == ["first\n"]
    assert pids == [int(lines(result)["Process Group PGID"])]


async def test_cancelling_kills_the_group_and_hands_on_what_was_written(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    seen: list[str] = []
    pids: list[int] = []
    begun = asyncio.Event()

    def update(text: str) -> None:
        seen.append(text)
        begun.set()

    context = ExecutionContext(shell.workspace.cwd, update_output=update, report_pid=pids.append)
    script = "echo one; mkfifo gate; (trap '' TERM; sleep 60) & echo two; echo x >gate; sleep 60"
    running = asyncio.create_task(built(shell, command=script).execute(context))
    await begun.wait()
    while not (shell.workspace.cwd / "gate").exists():
        await asyncio.sleep(0)
    await asyncio.to_thread((shell.workspace.cwd / "gate").read_text, encoding="utf-8")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert descendants(pids[0]) == ()
    assert "".join(seen) == "one\ntwo\n"
    assert groups.pgids == ()


async def test_a_cancelled_call_ends_with_what_its_command_had_written(
    shell: RunShellCommand, groups: ProcessGroups
) -> None:
    cancellation = threading.Event()
    pids: list[int] = []
    context = ExecutionContext(
        shell.workspace.cwd, cancellation=cancellation, report_pid=pids.append
    )
    script = "echo one; mkfifo gate; (trap '' TERM; sleep 60) & echo x >gate; sleep 60"
    running = asyncio.create_task(built(shell, command=script).execute(context))
    while not (shell.workspace.cwd / "gate").exists():
        await asyncio.sleep(0)
    await asyncio.to_thread((shell.workspace.cwd / "gate").read_text, encoding="utf-8")
    cancellation.set()
    running.cancel()
    found = lines(await running)
    assert (found["Output"], found["Error"]) == ("one", INTERRUPTED)
    assert (found["Exit Code"], found["Process Group PGID"]) == ("(none)", str(pids[0]))
    assert descendants(pids[0]) == ()
    assert groups.pgids == ()


@pytest.mark.parametrize("params", [{"command": ""}, {"command": " \n"}, {"command": "a\0b"},
                                    {"command": "\ud800"}, {}, {"command": 3},
                                    {"command": "ls", "is_background": 1},
                                    {"command": "ls", "delay_ms": -1}])  # fmt: skip
def test_commands_that_cannot_run_are_refused(shell: RunShellCommand, params: Any) -> None:
    failure = shell.build(params)
    assert isinstance(failure, ToolFailure)
    assert failure.type is ToolErrorType.INVALID_TOOL_PARAMS


@pytest.mark.parametrize("directory", ["..", "/", "link-out"])
def test_a_directory_outside_the_workspace_is_refused(
    shell: RunShellCommand, project: Path, directory: str
) -> None:
    (project / "link-out").symlink_to("/usr")
    failure = shell.build({"command": "ls", "directory": directory})
    assert isinstance(failure, ToolFailure)
    assert failure.type is ToolErrorType.PATH_NOT_IN_WORKSPACE


async def test_a_directory_that_is_none_is_a_failure(shell: RunShellCommand, project: Path) -> None:
    (project / "file").touch()
    (project / "dangling").symlink_to("nowhere")
    for name, kind, said in (
        ("file", ToolErrorType.PATH_IS_NOT_A_DIRECTORY, "Directory is not a directory: "),
        ("dangling", ToolErrorType.PATH_IS_NOT_A_DIRECTORY, "Directory is not a directory: "),
        ("missing", ToolErrorType.FILE_NOT_FOUND, "Directory does not exist: "),
        ("file/below", ToolErrorType.FILE_NOT_FOUND, "Directory does not exist: "),
    ):
        result = await run(shell, "touch ran", directory=name)
        assert result.error is not None
        assert result.error.type is kind
        assert result.error.message == f"{said}{project / name}."
    assert not (project / "ran").exists()


async def test_a_missing_bash_is_an_error_that_says_so(project: Path) -> None:
    tool = RunShellCommand(Workspace(project), environment=ShellEnvironment({"PATH": str(project)}))
    result = await run(tool, "ls")
    assert result.error is not None
    assert result.error.type is ToolErrorType.SHELL_EXECUTE_ERROR
    assert "bash was not found on the PATH" in result.error.message
    assert lines(result)["Process Group PGID"] == "(none)"


async def test_a_command_too_long_for_the_system_is_an_error(shell: RunShellCommand) -> None:
    result = await run(shell, "echo " + "x" * 3_000_000)
    assert result.error is not None
    assert "Argument list too long" in result.error.message


def test_a_call_is_described_in_one_line(shell: RunShellCommand) -> None:
    invocation = built(
        shell, command="make  test\n  -k", directory="sub", description="Runs\nthe tests"
    )
    assert invocation.describe() == "make test\\n -k [in sub] (Runs the tests)"
    assert built(shell, command="ls").describe() == "ls"
    assert invocation.locations() == ()


async def test_approval_is_asked_with_the_whole_command(
    shell: RunShellCommand,
) -> None:
    invocation = built(shell, command="git status && npm test")
    assert await invocation.confirmation(ExecutionContext(shell.workspace.cwd)) == ExecConfirmation(
        title="Confirm Shell Command",
        command="git status && npm test",
        command_shown="git status && npm test",
    )


async def test_a_command_that_hides_something_is_shown_whole(
    shell: RunShellCommand,
) -> None:
    hostile = "git log\x1b[8m; rm -rf ~\u202e" + " " * 400 + "; \u0441url x"
    invocation = built(shell, command=hostile, description="Looks\x1b[2J around")
    details = await invocation.confirmation(ExecutionContext(shell.workspace.cwd))
    assert isinstance(details, ExecConfirmation)
    assert details.command == hostile
    assert details.command_shown == ("git log\\x1b[8m; rm -rf ~\\u202e\\{400 spaces}; \u0441url x")
    assert invocation.describe() == (
        "git log\\x1b[8m; rm -rf ~\\u202e ; \u0441url x (Looks\\x1b[2J around)"
    )


def test_the_declaration_is_that_of_the_seeds(shell: RunShellCommand) -> None:
    declaration = shell.declaration()
    assert declaration.name == "run_shell_command"
    assert set(shell.parameter_schema["properties"]) == {
        *("command", "description", "directory", "is_background", "delay_ms")
    }
    assert shell.parameter_schema["required"] == ["command"]
    assert (shell.kind, shell.can_update_output) == (Kind.EXECUTE, True)
    assert all(f"{label}: " in shell.description for label in LABELS)


@pytest.fixture
def homeless(project: Path, tmp_path: Path, groups: ProcessGroups) -> RunShellCommand:
    """A shell of a session whose folder was removed; another folder is there."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "kept").touch()
    (tmp_path / "gone").mkdir()
    shell = RunShellCommand(Workspace(tmp_path / "gone"), groups=groups)
    (tmp_path / "gone").rmdir()
    return shell


@pytest.mark.requirement("WORLD-03")
@pytest.mark.parametrize(
    "rest", [" && pwd", "; pwd", " && ls && pwd", " && (cd . && pwd)", " && pwd | cat"]
)
async def test_a_command_that_goes_elsewhere_first_runs_where_the_folder_is_gone(
    homeless: RunShellCommand, tmp_path: Path, rest: str
) -> None:
    result = await run(homeless, f"cd {tmp_path}/other{rest}")
    assert result.error is None
    assert lines(result)["Exit Code"] == "0"
    assert f"{tmp_path}/other" in str(result.llm_content).partition("Output: ")[2]


@pytest.mark.requirement("WORLD-03")
@pytest.mark.parametrize(
    "command",
    [
        "pwd",
        "cd other; rm -f kept",
        "cd {}/missing; rm -f kept",
        "cd {}/other | rm -f kept",
        "cd {}/other & rm -f kept",
        "ls; cd {}/other && pwd",
        "cd $PLACE && pwd",
    ],
)
async def test_other_commands_get_the_way_out_where_the_folder_is_gone(
    homeless: RunShellCommand, tmp_path: Path, command: str
) -> None:
    result = await run(homeless, command.format(tmp_path))
    assert result.error is not None
    assert f"The session's folder {tmp_path}/gone is gone." in result.error.message
    assert "Begin the command with `cd DIR &&`" in result.error.message
    assert (tmp_path / "other" / "kept").exists()
    again = await run(homeless, f"cd / && mkdir -p {tmp_path}/gone")
    assert again.error is None
    assert lines(await run(homeless, "pwd"))["Output"] == f"{tmp_path}/gone"
