"""Commands that a person runs with `!`, at the person's own terminal."""

import os
import re
import signal
import termios
from pathlib import Path

import pytest

from tests.frontends.terminal.session import (
    CTRL_C,
    CTRL_D,
    ENTER,
    PLACEHOLDER,
    SHOWN_CURSOR,
    assert_restored,
    at,
    calling,
    leave,
)
from tests.support.server import ScriptedServer, sse, text
from tests.support.terminal import Terminal

PROGRAM = """\
import os, signal, sys
print("size", *os.get_terminal_size(0), os.environ["TERM"], flush=True)
signal.signal(signal.SIGWINCH, lambda *_: print("resized", *os.get_terminal_size(0), flush=True))
for step in range(50, 101, 25):
    print(end=f"\\r\\x1b[32mstep {step} %\\x1b[0m", flush=True)
name = input("\\nname? ")
try:
    open("/dev/tty", "w").write(f"hello {name}\\n")
    while True:
        signal.pause()
except KeyboardInterrupt:
    print("interrupted")
"""


def back(terminal: Terminal, command: str) -> None:
    """Waits until a command has ended and the prompt is there again."""
    terminal.until(f"✓ Shell {command}")
    terminal.until(PLACEHOLDER)


@pytest.mark.requirement("TERM-05")
def test_a_command_has_the_terminal_and_the_model_gets_what_its_screen_shows(
    server: ScriptedServer, project: Path
):
    (project / "program.py").write_text(PROGRAM, encoding="utf-8")
    server.reply(sse(text("Fine.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("!python3 program.py" + ENTER)
        terminal.until("name?")
        assert "size 80 24 xterm" in terminal.screen.text
        assert "step 50" not in terminal.screen.text
        assert PLACEHOLDER not in terminal.screen.text
        terminal.send("Ada" + ENTER)
        terminal.until("hello Ada")
        terminal.resize(70, 20)
        terminal.until("resized 70 20")
        terminal.send(CTRL_C)
        terminal.until("interrupted", gone="> !python3 program.py\n> ")
        back(terminal, "python3")
        terminal.send("and?" + ENTER)
        terminal.until("Fine.")
        leave(terminal)
    sent = server.requests[0].json["contents"][-1]["parts"]
    told = "\n".join(part["text"] for part in sent)
    # Ctrl-C may be echoed before the end of the line that was awaited.
    shown = r"\nstep 100 %\nname\? Ada\nhello Ada\nresized 70 20\n?\^Cinterrupted\n"
    assert re.search(shown, told)
    assert "step 50" not in told
    assert "\x1b" not in told


@pytest.mark.requirement("TERM-05")
def test_the_model_gets_what_has_scrolled_away_too(server: ScriptedServer):
    server.reply(sse(text("Fine.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("!seq 1 100" + ENTER)
        back(terminal, "seq 1 100")
        terminal.send("and?" + ENTER)
        terminal.until("Fine.")
        leave(terminal)
    told = "\n".join(part["text"] for part in server.requests[0].json["contents"][-1]["parts"])
    assert "\n".join(map(str, range(1, 101))) in told


@pytest.mark.requirement("TERM-05")
def test_a_program_that_is_killed_leaves_the_terminal_as_it_was(server: ScriptedServer):
    begin = r"printf '\033[?1049h\033[?25l\033[?2004h\033[?1000h\033[31mgone'"
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(f"!{begin}; sh -c 'stty raw; kill -9 $$'; true" + ENTER)
        back(terminal, "printf")
        terminal.until_mode(SHOWN_CURSOR)
        assert not {"1049", "1000"} & terminal.screen.modes
        terminal.send("!stty -a | grep -o ' icanon'; printf half" + ENTER)
        back(terminal, "stty")
        assert "\n icanon\nhalf\n" in terminal.screen.text
        leave(terminal)


@pytest.mark.requirement("TERM-05")
def test_a_signal_to_the_session_ends_the_command_and_restores_the_terminal(
    server: ScriptedServer, project: Path
):
    os.mkfifo(project / "pid")
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("!printf '\\033[?1049h'; echo $$ > pid; sleep 60" + ENTER)
        pid = int((project / "pid").read_text(encoding="utf-8"))
        terminal.process.kill(signal.SIGTERM)
        assert terminal.ended() == 130
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert "1049" not in terminal.screen.modes
        assert_restored(terminal)
        modes = termios.tcgetattr(terminal.process.child_fd)[3]
        assert modes & termios.ECHO
        assert modes & termios.ICANON


@pytest.mark.requirement("TERM-05")
def test_a_second_signal_while_a_command_runs_restores_the_terminal_too(
    server: ScriptedServer, project: Path
):
    os.mkfifo(project / "ready")
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        modes = "\\033[?1049h\\033[?1000h\\033[?2004h\\033[?25l"
        terminal.send(f"!trap '' TERM HUP; printf '{modes}'; echo > ready; sleep 60" + ENTER)
        (project / "ready").read_text(encoding="utf-8")
        terminal.process.kill(signal.SIGTERM)
        terminal.process.kill(signal.SIGHUP)
        assert terminal.ended() == 130
        assert not {"1049", "1000"} & terminal.screen.modes
        assert_restored(terminal)


def test_a_command_that_a_signal_killed_has_failed(server: ScriptedServer):
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("!kill -9 $$" + ENTER)
        terminal.until("✗ Shell kill -9 $$")
        terminal.until("killed by signal 9 (SIGKILL)")
        leave(terminal)


@pytest.mark.requirement("TERM-05")
def test_a_program_gets_all_keys_however_many(server: ScriptedServer):
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("!echo ready; head -c 20000 | wc -c" + ENTER)
        terminal.until("\nready")
        terminal.send(("x" * 999 + "\n") * 20)
        back(terminal, "echo ready")
        assert "\n20000\n" in terminal.screen.text
        terminal.send("!echo again; cat" + ENTER)
        terminal.until("\nagain")
        terminal.send("to cat\n" + CTRL_D)
        back(terminal, "echo again")
        assert terminal.screen.text.count("to cat") == 2
        leave(terminal)


def test_a_program_that_closes_its_terminal_is_not_hung_up(server: ScriptedServer):
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("!exec 0<&- 1>&- 2>&-; sleep 0.2" + ENTER)
        back(terminal, "exec 0<&-")
        leave(terminal)


@pytest.mark.requirement("TERM-05")
def test_a_command_that_leaves_a_process_has_a_pipe(server: ScriptedServer, project: Path):
    os.mkfifo(project / "done")
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("!test -t 1 || echo piped; cat done &" + ENTER)
        back(terminal, "test")
        assert "\n  piped\n" in terminal.screen.text
        (project / "done").write_text("", encoding="utf-8")
        leave(terminal)


def test_a_command_of_the_model_redraws_and_keeps_its_colours(
    server: ScriptedServer, project: Path
):
    os.mkfifo(project / "more")
    command = (
        "test -t 1 && ! test -t 0 && echo $TERM; printf '\\rstep 1 %%'; printf '\\rstep 2 %%';"
        " cat more; printf '\\r\\033[32mstep 3 %%\\033[0m\\n'; cat"
    )
    server.reply(calling("run_shell_command", {"command": command}), sse(text("Fine.")))
    with at(server, "--yolo", "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("run" + ENTER)
        terminal.until("│ step 2 %")
        assert "│ step 1" not in terminal.screen.text
        (project / "more").write_text("", encoding="utf-8")
        terminal.until("Fine.")
        assert "  {32}step 3 %" in terminal.screen.styled
        leave(terminal)
    answer = server.requests[1].json["contents"][-1]["parts"][0]["functionResponse"]
    assert "Output: xterm\nstep 3 %\nError" in answer["response"]["output"]


@pytest.mark.parametrize(("term", "setting"), [("dumb", "null"), ("xterm", "false")])
def test_a_command_of_the_model_has_a_pipe_where_nothing_is_redrawn(
    server: ScriptedServer, home: Path, term: str, setting: str
):
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(
        f'{{"tools": {{"shell": {{"enableInteractiveShell": {setting}}}}}}}', encoding="utf-8"
    )
    command = "test -t 1 || echo piped"
    server.reply(calling("run_shell_command", {"command": command}), sse(text("Fine.")))
    with at(server, "--yolo", "--skip-trust", "-i", "run", term=term) as terminal:
        terminal.until("Fine.")
        assert "\n  piped\n" in terminal.screen.text
        terminal.send(CTRL_D)
        assert terminal.ended() == 0
