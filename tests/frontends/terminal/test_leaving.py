"""However a session ends, the terminal is as it was and nothing is left running."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.frontends.terminal.session import (
    CTRL_C,
    CTRL_D,
    ENTER,
    PLACEHOLDER,
    answer,
    assert_restored,
    at,
    calling,
    leave,
)
from tests.support.command import ALHENA
from tests.support.server import ScriptedServer, sse, text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_signal_ends_the_session_in_good_order(
    server: ScriptedServer, project: Path, number: int, term: str
):
    os.mkfifo(project / "pid")
    command = "echo $$ > pid; sleep 60"
    server.reply(calling("run_shell_command", {"command": command}))
    with at(server, "--yolo", "--skip-trust", term=term) as terminal:
        terminal.until("/help lists")
        terminal.send("run" + ENTER)
        pid = int((project / "pid").read_text(encoding="utf-8"))
        terminal.process.kill(number)
        assert terminal.ended() == 130
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        if term != "dumb":
            assert_restored(terminal)
        assert f"■ ended by {signal.Signals(number).name}" in terminal.screen.text
        assert "To resume it: alhena --resume " in terminal.screen.text


def test_a_signal_leaves_the_answer_so_far(server: ScriptedServer):
    server.reply(sse(text("The half of", None), text(" it."), hold=threading.Event()))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("tell" + ENTER)
        terminal.until("The half of")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.ended() == 130
        assert "\nThe half of\n\n■ Stopped by you.\n" in terminal.screen.text


def test_a_terminal_that_goes_away_takes_the_session_and_its_children_with_it(
    server: ScriptedServer, project: Path
):
    command = "echo $$ > pid; echo on its way; sleep 60"
    server.reply(calling("run_shell_command", {"command": command}))
    with at(server, "--yolo", "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("run" + ENTER)
        terminal.until("│ on its way")
        pid = int((project / "pid").read_text(encoding="utf-8"))
        status = terminal.go_away()
    assert os.WIFEXITED(status)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_comes_before_the_session_is_there_gives_the_terminal_back(
    server: ScriptedServer, number: int
):
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.process.kill(number)
        assert terminal.ended() == (0 if number == signal.SIGINT else 130)
        assert_restored(terminal)


def session_end(home: Path, command: str) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    hooks = {"SessionEnd": [{"hooks": [{"type": "command", "command": command}]}]}
    settings = json.dumps({"hooks": hooks})
    (home / ".gemini" / "settings.json").write_text(settings, encoding="utf-8")


def test_leaving_waits_for_what_is_to_run_at_the_end(
    server: ScriptedServer, home: Path, project: Path
):
    session_end(home, "sleep 0.5; touch ended")
    server.reply(sse(text("Hello.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("hi" + ENTER)
        terminal.until("1 turn")
        leave(terminal)
    assert (project / "ended").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_session_that_does_not_get_to_its_end_is_ended_by_another_signal(
    server: ScriptedServer, home: Path, project: Path, number: int
):
    os.mkfifo(project / "alive")
    session_end(home, "exec sleep 60 > alive")
    server.reply(sse(text("Hello.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("hi" + ENTER)
        terminal.until("1 turn")
        terminal.process.kill(signal.SIGTERM)
        with (project / "alive").open(encoding="utf-8") as alive:
            terminal.process.kill(number)
            assert terminal.ended() == 130
            assert alive.read() == ""  # nobody has it open any more
        assert_restored(terminal)


def test_control_c_in_an_editor_is_the_editors(
    server: ScriptedServer, project: Path, tmp_path: Path
):
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\necho EDITING\nexec sleep 60\n", encoding="utf-8")
    editor.chmod(0o755)
    args = {"file_path": "a.txt", "content": "by machine\n"}
    server.reply(calling("write_file", args), sse(text("I see.")))
    with at(server, EDITOR=str(editor)) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("write" + ENTER)
        terminal.until("Edit it first")
        answer(terminal, "e")
        terminal.until("EDITING")
        terminal.send(CTRL_C)
        terminal.until("the proposed change stays as it was")
        terminal.until("> 1/y Yes")
        answer(terminal, "y")
        terminal.until("I see.")
        leave(terminal)
    assert (project / "a.txt").read_text(encoding="utf-8") == "by machine\n"


@pytest.mark.parametrize("way", ["twice", "signal"])
def test_leaving_an_open_question_approves_nothing(server: ScriptedServer, project: Path, way: str):
    server.reply(calling("write_file", {"file_path": "a.txt", "content": "x"}))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("write" + ENTER)
        terminal.until("> 1/y Yes")
        if way == "twice":
            terminal.send(CTRL_C * 4)
            assert terminal.ended() == 0
        else:
            terminal.process.kill(signal.SIGTERM)
            assert terminal.ended() == 130
        assert_restored(terminal)
        assert "Allow this?" not in terminal.screen.text
    assert not (project / "a.txt").exists()


def test_a_session_can_be_put_aside_and_taken_up_again(server: ScriptedServer):
    server.reply(sse(text("Here I am.")))
    with at(server, "--norc", "-i", program="bash", PS1="$ ") as terminal:
        terminal.until("$")
        terminal.send(ALHENA + ENTER)
        terminal.until("default  m")
        terminal.send("half a")
        terminal.until("> half a")
        terminal.send("\x1a")
        terminal.until("Stopped")
        terminal.send("fg" + ENTER)
        terminal.until("> half a")
        terminal.send(" thought" + ENTER)
        terminal.until("Here I am.")
        terminal.send(CTRL_D)
        terminal.until("\n$", times=2)
        terminal.send("exit" + ENTER)
        assert terminal.ended() == 0


def test_the_question_of_leaving_stays_when_a_call_asks_meanwhile(
    server: ScriptedServer, project: Path
):
    behind = {"command": "sleep 60", "is_background": True}
    server.reply(calling("run_shell_command", behind), sse(text("Started it.")))
    server.reply(calling("run_shell_command", {"command": "touch new"}), sse(text("Made it.")))
    with at(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        terminal.until("Started it.")
        terminal.until(PLACEHOLDER)
        terminal.send(CTRL_D)
        terminal.until("End 1 command and leave?")
        terminal.send("make it" + ENTER)
        terminal.until("Allow this?", gone="End 1 command")
        answer(terminal, "y" + ENTER)
        terminal.until("Made it.")
        terminal.until("End 1 command and leave?", gone="Allow this?")
        answer(terminal, "y" + ENTER)
        assert terminal.ended() == 0
        assert_restored(terminal)
    assert (project / "new").exists()


def test_commands_in_the_background_are_not_ended_unasked_by_another_session(
    server: ScriptedServer, project: Path
):
    behind = {"command": "sleep 60", "is_background": True}
    server.reply(
        sse(text("Hello.")), calling("run_shell_command", behind), sse(text("Started it."))
    )
    with at(server, "--skip-trust", rows=40) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("hello" + ENTER)
        terminal.until("Hello.")
        terminal.send("/chat save a" + ENTER)
        terminal.until("Saved as")
        terminal.send("go" + ENTER)
        terminal.until("Started it.")
        terminal.send("/chat resume a" + ENTER)
        terminal.until("End 1 command and resume that conversation?")
        answer(terminal, "n" + ENTER)
        terminal.until("Nothing changed.")
        terminal.send("/rewind" + ENTER)
        terminal.until("2 of 2")
        terminal.send(ENTER)
        terminal.until("Conversation and files")
        terminal.send(ENTER)
        terminal.until("End 1 command and rewind?")
        answer(terminal, "n" + ENTER)
        terminal.until("Nothing changed.", times=2)
        terminal.send("/clear" + ENTER)
        terminal.until("End 1 command and start a new session?")
        answer(terminal, "n" + ENTER)
        terminal.until("Nothing changed.", times=3)
        terminal.send("/tasks" + ENTER)
        terminal.until("1 running; /tasks show")
        terminal.send("/clear" + ENTER)
        terminal.until("? Still running: sleep 60", times=4)
        answer(terminal, "y" + ENTER)
        terminal.until("Started a new conversation.")
        leave(terminal)


def test_a_number_of_a_task_stays_its_own_when_another_one_ends(
    server: ScriptedServer, project: Path
):
    waiting = "until [ -e go ]; do sleep 0.1; done"
    for command in (waiting, "sleep 61", "sleep 62"):
        server.reply(calling("run_shell_command", {"command": command, "is_background": True}))
    server.reply(sse(text("Started them.")))
    with at(server, "--skip-trust", "--yolo", rows=40) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        terminal.until("Started them.")
        terminal.send("/tasks" + ENTER)
        terminal.until("2 Shell sleep 61")
        (project / "go").touch()
        times = 1
        while "2 running; /tasks show" not in terminal.screen.text:
            times += 1
            terminal.send("/tasks" + ENTER)
            terminal.until("running; /tasks show", times=times)
        terminal.send("/tasks stop 2" + ENTER)
        terminal.until("Stopped: sleep 61")
        terminal.send("/tasks show 3" + ENTER)
        terminal.until("No output yet.")
        terminal.send(CTRL_D)
        terminal.until("End 1 command and leave?")
        answer(terminal, "y" + ENTER)
        assert terminal.ended() == 0
