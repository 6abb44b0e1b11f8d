"""Result of a run whose SessionEnd hooks are slow."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.test_headless import keyed
from tests.support.command import ALHENA
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, sse, text


@pytest.fixture
def telemetry(home: Path) -> Path:
    return home / "telemetry.log"


def configure(home: Path, project: Path, event: str, telemetry: Path) -> None:
    os.mkfifo(project / "begun")
    command = "trap 'exit 0' TERM; echo $$ >pid; echo >begun; sleep 60 & wait"
    (home / ".gemini").mkdir()
    settings = {
        "hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]},
        "telemetry": {"enabled": True, "outfile": str(telemetry)},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")


def started(server: ScriptedServer, form: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [ALHENA, "-p", "x", "-o", form],
        env=os.environ | keyed(server),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def result_of(out: bytes, form: str) -> Any:
    if form == "text":
        return out.decode()
    return json.loads(out if form == "json" else out.splitlines()[-1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_signal_at_the_end_of_a_session_loses_nothing_of_the_result(
    server: ScriptedServer, home: Path, project: Path, telemetry: Path, number: int, form: str
):
    configure(home, project, "SessionEnd", telemetry)
    server.reply(sse(text("the answer")))
    with started(server, form) as run:
        (project / "begun").read_bytes()
        run.send_signal(number)
        out, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    found = result_of(out, form)
    if form == "text":
        assert found == "the answer\n"
    elif form == "json":
        assert (found["response"], found.get("error")) == ("the answer", None)
    else:
        assert (found["type"], found["status"]) == ("result", "success")
    assert "the result is complete" in err.decode()
    assert '"gemini_cli.hook_call"' in telemetry.read_text(encoding="utf-8")
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text(encoding="utf-8")), 0)


def test_the_result_is_there_before_the_hooks_at_the_end_are_done(
    server: ScriptedServer, home: Path, project: Path, telemetry: Path
):
    configure(home, project, "SessionEnd", telemetry)
    server.reply(sse(text("the answer")))
    with started(server, "json") as run:
        (project / "begun").read_bytes()
        run.kill()
        out, _ = run.communicate(timeout=PATIENCE_S)
    assert result_of(out, "json")["response"] == "the answer"


def test_a_second_signal_ends_it_at_once_whatever_a_hook_does(
    server: ScriptedServer, home: Path, project: Path, telemetry: Path
):
    configure(home, project, "SessionEnd", telemetry)
    server.reply(sse(text("the answer")))
    with started(server, "json") as run:
        (project / "begun").read_bytes()
        os.kill(int((project / "pid").read_text(encoding="utf-8")), signal.SIGSTOP)
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    assert result_of(out, "json")["response"] == "the answer"


@pytest.mark.parametrize("event", ["SessionStart", "BeforeAgent", "SessionEnd"])
def test_killed_with_its_hook_nothing_of_that_is_left_in_whichever_session(
    server: ScriptedServer, home: Path, project: Path, event: str
):
    os.mkfifo(project / "alive")
    leaving = "setsid bash -c 'exec 3>alive; echo up >&3; exec sleep 60' & sleep 60"
    (home / ".gemini").mkdir()
    settings = {"hooks": {event: [{"hooks": [{"type": "command", "command": leaving}]}]}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    server.reply(sse(text("the answer")))
    with started(server, "json") as run, (project / "alive").open("rb") as alive:
        assert alive.readline() == b"up\n"
        run.kill()
        assert alive.read() == b""  # ends when nobody holds it any more
        run.communicate(timeout=PATIENCE_S)
