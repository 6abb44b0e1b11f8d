"""However a run of the command ends, and whatever the file does: what is told of it."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from alhena.telemetry.records import DETAILS
from tests.support.command import ALHENA, Ran, alhena
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse
from tests.telemetry.reading import Observed, differences
from tests.telemetry.running import answer, calls, configure, observed, watched


@pytest.mark.requirement("TEL-02")
def test_a_run_that_fails_is_told_whole(server: ScriptedServer, project: Path):
    bad = {"error": {"code": 400, "message": "bad request", "status": "INVALID_ARGUMENT"}}
    server.reply(json_reply(bad, status=400))
    ran = alhena("-p", "go", **watched(server))
    assert ran.code == 1
    found = observed(project)
    last = (DETAILS, "plan.approval_mode_duration")
    assert found.names == ["config", "user_prompt", "api_request", "api_error", *last]
    assert differences(found.logs) == []
    failed = found.one("api_error")
    assert failed["status_code"] == failed["http.status_code"] == 400
    assert "bad request" in failed["error.message"]
    assert found.total("gemini_cli.api.request.count", status_code=400) == 1
    (taken,) = found.points("gen_ai.client.operation.duration")
    assert taken["value"]["sum"] == failed["duration_ms"] / 1000


@pytest.mark.requirement("TEL-01")
def test_a_run_that_reaches_its_turn_limit_is_told_whole(
    server: ScriptedServer, project: Path, home: Path
):
    configure(home, enabled=False)
    settings = home / ".gemini" / "settings.json"
    settings.write_text('{"model": {"maxSessionTurns": 1}}', encoding="utf-8")
    server.reply(calls(call("glob", {"pattern": "*"}, id="c1")))
    assert alhena("-p", "go", **watched(server)).code == 53
    found = observed(project)
    assert found.names[-4:-1] == ["api_response", DETAILS, "tool_call"]
    assert len(found.measured) == 1


@pytest.mark.requirement("TEL-01")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_a_signal_ends_is_told_with_the_call_it_was_at(
    server: ScriptedServer, project: Path, number: signal.Signals
):
    server.reply(calls(call("run_shell_command", {"command": "echo up; sleep 60"}, id="c1")))
    with started(server) as run:
        await_line(run, b'"tool_use"')
        run.send_signal(number)
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    found = observed(project)
    log = found.one("tool_call")
    assert (log["success"], log["error_type"]) == (False, "cancelled")
    assert differences(found.logs) == []
    assert found.total("gemini_cli.tool.call.count", success=False) == 1


@pytest.mark.requirement("TEL-02")
def test_what_happened_before_a_kill_is_there(server: ScriptedServer, project: Path):
    silence = threading.Event()
    waiting = sse(chunk({"text": "a"}), chunk({"text": "b"}), hold=silence)
    server.reply(calls(call("glob", {"pattern": "*"}, id="c1")), waiting)
    with started(server) as run:
        await_line(run, b'"content":"a"')
        path = project / "telemetry" / "out.log"
        while path.read_bytes().count(b"api_request") < 2:
            os.sched_yield()
        run.kill()
        run.communicate(timeout=PATIENCE_S)
    silence.set()
    found = Observed(path)
    assert found.names[-4:] == ["api_response", DETAILS, "tool_call", "api_request"]


@pytest.mark.requirement("TEL-02")
def test_a_second_signal_leaves_time_for_what_is_to_be_written(
    server: ScriptedServer, project: Path
):
    stubborn = "trap '' TERM; echo up; while true; do read -t 9 </dev/zero; done"
    server.reply(calls(call("run_shell_command", {"command": stubborn}, id="c1")))
    with started(server) as run:
        await_line(run, b'"tool_use"')
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    assert len(observed(project).measured) == 1


def await_line(run: subprocess.Popen[bytes], part: bytes) -> None:
    """Reads the command's output up to a line with `part` in it."""
    assert run.stdout is not None
    assert any(part in line for line in run.stdout)


def started(server: ScriptedServer) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [ALHENA, "-y", "--skip-trust", "-o", "stream-json", "-p", "go"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | watched(server),
    )


def test_a_file_that_cannot_be_opened_is_one_warning(server: ScriptedServer, project: Path):
    (project / "telemetry").write_text("a file, not a directory", encoding="utf-8")
    server.reply(answer())
    ran = alhena("-p", "go", **watched(server))
    assert (ran.code, ran.out) == (0, "done\n")
    assert ran.err.count("telemetry") == 2  # the warning, and the path in it
    assert len(ran.err.splitlines()) == 1


def test_a_disk_that_is_full_is_one_warning_and_ends_nothing(server: ScriptedServer, project: Path):
    server.reply(*(calls(call("glob", {"pattern": "*"}, id=f"c{n}")) for n in range(4)), answer())
    log = project / "telemetry" / "out.log"
    log.parent.mkdir()
    log.write_bytes(b"\n" * 63 * 1024)  # so that it is the only file that gets too large
    ran = limited("64", "-p", "go", **watched(server))
    assert (ran.code, ran.out) == (0, "done\n")
    (line,) = [line for line in ran.err.splitlines() if "telemetry" in line]
    assert "File too large" in line
    assert log.stat().st_size <= 64 * 1024


def limited(blocks: str, *arguments: str, **environ: str) -> Ran:
    """The command with files that may not grow past so many KiB."""
    ran = subprocess.run(
        ["bash", "-c", 'ulimit -f "$0"; exec "$@"', blocks, ALHENA, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | environ,
        timeout=PATIENCE_S,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def test_runs_at_the_same_time_share_a_file(server: ScriptedServer, project: Path):
    for n in range(12):  # whichever run gets them, no two are the same: no loop
        server.reply(calls(call("glob", {"pattern": "x" * 50_000 + str(n)}, id=f"c{n}")))
    server.reply(*(answer() for _ in range(4)))
    runs = [started(server) for _ in range(4)]
    for run in runs:
        run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 0
    found = observed(project)
    assert len({log["session.id"] for log in found.logs}) == 4
    assert len(found.measured) == 4
    assert len(found.of("tool_call")) == 12
    assert differences(found.logs) == []
