import asyncio
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.settings import EnvironmentRedaction
from alhena.hooks.model import ANSWER_LIMIT, HookRun, HookSource
from alhena.hooks.running import HookSurroundings, run_hook, substitute_variables
from alhena.system.child import descendants
from alhena.system.processes import ProcessGroups
from tests.hooks.kit import hook, surroundings
from tests.support.disk import written
from tests.support.steady import skip_when


async def run(command: str, document: bytes = b"{}", **fields: object) -> HookRun:
    return await run_hook(hook(command, **fields), document, surroundings())


def exists(pid: int) -> bool:
    """True if a process is alive; false for a zombie."""
    try:
        return pid in descendants(os.getsid(pid))
    except ProcessLookupError:
        return False


async def test_a_hook_reads_its_input_and_its_two_streams_are_told_apart():
    ended = await run("cat; echo oops >&2; exit 3", b'{"a": 1}')
    assert (ended.stdout, ended.stderr, ended.exit_code) == (b'{"a": 1}', b"oops\n", 3)
    assert ended.problem == ""


@pytest.mark.parametrize("command", ["true", "exec <&-; true", "head -c 10 >/dev/null"])
async def test_a_megabyte_of_input_that_is_not_read_holds_nobody_up(command: str):
    ended = await run(command, b"x" * 1_000_000)
    assert (ended.exit_code, ended.problem) == (0, "")


async def test_of_a_flood_the_beginning_is_kept_and_the_rest_counted():
    ended = await run("head -c 100000000 /dev/zero; head -c 20000000 /dev/zero >&2")
    assert ended.exit_code == 0
    assert (len(ended.stdout), ended.stdout_bytes) == (ANSWER_LIMIT, 100_000_000)
    assert (len(ended.stderr), ended.stderr_bytes) == (ANSWER_LIMIT, 20_000_000)
    assert ended.is_cut


async def test_a_signal_is_no_exit_code():
    ended = await run("kill -SEGV $$")
    assert (ended.exit_code, ended.problem) == (None, "it was ended by SIGSEGV")


async def test_out_of_time_everything_ends_also_what_ignores_the_request(project: Path):
    script = "trap '' TERM; (trap '' TERM; sleep 60 & echo $! >inner; wait) & echo $$ >outer; wait"
    files = (project / "inner", project / "outer")
    late = skip_when(60, lambda: written(*files))
    ended, _ = await asyncio.gather(run(script, timeout_ms=60_000), late)
    assert ended.exit_code is None
    assert ended.problem == "Hook timed out after 60000ms"
    for file in files:
        assert not exists(int(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "start",
    [
        "sleep 60 >/dev/null 2>&1 & echo $! >pid",
        "setsid sleep 60 >/dev/null 2>&1 & echo $! >pid",
        "setsid -f bash -c 'echo $$ >pid; exec sleep 60' >/dev/null 2>&1; until [ -s pid ]; do :; done",
        "nohup env -i setsid sleep 60 >/dev/null 2>&1 & echo $! >pid; disown",
    ],
)
@pytest.mark.parametrize("guarded", [True, False])
async def test_nothing_that_a_hook_starts_outlives_it(project: Path, start: str, guarded: bool):
    groups = ProcessGroups() if guarded else None  # held until the end: its watchdog must not help
    ended = await run_hook(hook(start), b"{}", surroundings(groups=groups))
    assert (ended.exit_code, ended.problem) == (0, "")
    assert not exists(int((project / "pid").read_text(encoding="utf-8")))
    if groups is not None:
        await groups.close()


async def test_out_of_time_what_has_left_its_session_ends_too(project: Path):
    script = "setsid sleep 60 >/dev/null 2>&1 & echo $! >pid; wait"
    late = skip_when(60, lambda: written(project / "pid"))
    running = run_hook(hook(script, timeout_ms=60_000), b"", surroundings())
    ended, _ = await asyncio.gather(running, late)
    assert ended.problem == "Hook timed out after 60000ms"
    assert not exists(int((project / "pid").read_text(encoding="utf-8")))


async def test_killed_at_once_what_has_left_its_session_ends_too(project: Path):
    around = surroundings()
    os.mkfifo("ready")
    script = "setsid sleep 60 >/dev/null 2>&1 & echo $! >pid; echo >ready; sleep 60"
    running = asyncio.ensure_future(run_hook(hook(script), b"", around))
    await asyncio.to_thread(Path("ready").read_bytes)
    around.kill()
    assert around.groups is not None
    around.groups.kill()
    assert (await running).exit_code is None
    assert not exists(int((project / "pid").read_text(encoding="utf-8")))


async def test_it_sees_no_secrets_but_the_documented_variables_and_its_own(project: Path):
    environ = {
        "PATH": os.environ["PATH"],
        "GEMINI_API_KEY": "hush-hush",
        "MY_TOKEN": "hush-hush",
        "KEPT": "yes",
    }
    around = surroundings(environ=environ, redaction=EnvironmentRedaction())
    own = {"OWN": "two words", "PYTHONPATH": "lib"}
    wanted = hook("env -0", env=own, source=HookSource.PROJECT)
    ended = await run_hook(wanted, b"", around)
    seen = dict(line.split("=", 1) for line in ended.stdout.decode().split("\0") if line)
    assert "hush-hush" not in ended.stdout.decode()
    assert {
        name: seen[name]
        for name in (
            *("GEMINI_PROJECT_DIR", "CLAUDE_PROJECT_DIR", "GEMINI_CWD", "GEMINI_PLANS_DIR"),
            *("GEMINI_SESSION_ID", "OWN", "PYTHONPATH", "KEPT"),
        )
    } == {
        "GEMINI_PROJECT_DIR": str(project),
        "CLAUDE_PROJECT_DIR": str(project),
        "GEMINI_CWD": str(project),
        "GEMINI_PLANS_DIR": "/plans",
        "GEMINI_SESSION_ID": "s-1",
        "OWN": "two words",
        "PYTHONPATH": "lib",
        "KEPT": "yes",
    }


@pytest.mark.parametrize("name", ["plain", "with space", "quo'te", 'dou"ble', "$(touch pwned)"])
@pytest.mark.parametrize(
    "command",
    [
        "cat $GEMINI_PROJECT_DIR/file",
        "cat ${CLAUDE_PROJECT_DIR}/file",
        'cat "$GEMINI_PROJECT_DIR/file"',
        'cat "${GEMINI_PROJECT_DIR}"/file',
        "bash -c 'cat \"$GEMINI_PROJECT_DIR/file\"'",
    ],
)
async def test_a_project_of_any_name_is_one_word_however_it_is_written(
    project: Path, name: str, command: str
):
    place = project / name
    place.mkdir()
    (place / "file").write_text("found", encoding="utf-8")
    around = surroundings(project_dir=str(place))
    ended = await run_hook(hook(command), b"", around)
    assert (ended.stdout, ended.exit_code) == (b"found", 0), ended
    assert not (project / "pwned").exists()


@given(st.text(alphabet="$GEMI_CWD{}'\"\\ ab\n", max_size=40))
def test_a_command_without_the_variables_stays_as_it_is(command: str):
    assert substitute_variables(command, {"X": "1"}) == command
    assert substitute_variables(command, {"GEMINI_CWD": "/a b"}).count("/a b") <= command.count("$")


def test_a_longer_name_is_another_variable():
    assert substitute_variables("$GEMINI_CWD2 \\$GEMINI_CWD", {"GEMINI_CWD": "x"}) == (
        "$GEMINI_CWD2 \\$GEMINI_CWD"
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"environ": {"PATH": "/nowhere"}}, "bash, which runs hooks, is not on the PATH."),
        ({"cwd": "/nowhere"}, "Working directory is not there: /nowhere."),
    ],
)
async def test_what_cannot_be_started_is_a_problem(fields: dict[str, object], problem: str):
    around: HookSurroundings = surroundings(**fields)
    ended = await run_hook(hook("true"), b"", around)
    assert (ended.exit_code, ended.problem) == (None, problem)


async def test_a_command_too_long_for_the_system_is_a_problem():
    ended = await run("true " + "x" * 3_000_000)
    assert ended.exit_code is None
    assert "Could not start" in ended.problem


async def test_input_is_json_that_a_script_can_read():
    script = "python3 -c 'import json,sys; print(json.load(sys.stdin)[\"k\"])'"
    ended = await run(script, json.dumps({"k": "wért"}).encode())
    assert ended.stdout.decode() == "wért\n"
