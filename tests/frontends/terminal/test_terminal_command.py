"""The real command at a real terminal."""

import os
import re
import threading
from pathlib import Path

import pytest

from tests.frontends.terminal.session import (
    BRACKETED_PASTE,
    CTRL_C,
    CTRL_D,
    CTRL_E,
    CTRL_R,
    ENTER,
    ESC,
    PLACEHOLDER,
    answer,
    assert_restored,
    at,
    calling,
    leave,
    leave_at_once,
)
from tests.support.command import alhena
from tests.support.server import ScriptedServer, sse, text
from tests.support.terminal import Terminal

DOWN = "\x1b[B"


@pytest.mark.requirement("CLI-02")
def test_the_prompt_is_painted_and_the_terminal_given_back(server: ScriptedServer):
    with at(server) as terminal:
        terminal.until("/help lists")
        shown = terminal.until(PLACEHOLDER)
        assert "  " + PLACEHOLDER in shown
        assert "default  m" in terminal.until("default  m")
        assert BRACKETED_PASTE in terminal.screen.modes
        leave(terminal)
    assert server.requests == []


@pytest.mark.requirement("CLI-02")
def test_an_answer_streams_in_and_is_rendered_when_it_is_finished(server: ScriptedServer):
    hold = threading.Event()
    server.reply(
        sse(text("# Title\n\nSome **bold** text.\n\nTail that", None), text(" ends."), hold=hold)
    )
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("hello" + ENTER)
        terminal.until("Tail that")
        assert "Some bold text." in terminal.until("Some bold text.")
        terminal.until(PLACEHOLDER)
        hold.set()
        terminal.until("1 turn")
        assert "Tail that ends." in terminal.until("Tail that ends.")
        assert terminal.screen.text.count("Tail that") == 1
        assert terminal.screen.text.count("Some bold text.") == 1
        leave(terminal)


@pytest.mark.requirement("CLI-02")
def test_a_change_is_confirmed_with_its_diff(server: ScriptedServer, project: Path):
    (project / "a.txt").write_text("old\n", encoding="utf-8")
    args = {"file_path": "a.txt", "content": "new\n"}
    server.reply(calling("write_file", args), sse(text("Done it.")))
    with at(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("change it" + ENTER)
        shown = terminal.until("Allow this?")
        assert re.search(r"- old\n +1 \+ new\n", shown)
        assert "Edits need approval" in shown
        assert "> 1/y Yes, this once" in terminal.until("> 1/y Yes")
        assert (project / "a.txt").read_text(encoding="utf-8") == "old\n"
        answer(terminal, "?")
        terminal.until("  mode: default\n  rule: default (acting.toml:")
        answer(terminal, ENTER)
        terminal.until("Done it.", gone="Allow this?")
        leave(terminal)
    assert (project / "a.txt").read_text(encoding="utf-8") == "new\n"


@pytest.mark.requirement("CLI-02")
def test_a_command_is_refused_with_a_reason_that_the_model_hears(
    server: ScriptedServer, project: Path
):
    server.reply(calling("run_shell_command", {"command": "touch x"}), sse(text("As you like.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("touch it" + ENTER)
        terminal.until("$ touch x")
        terminal.until("No, and say why")
        answer(terminal, "n")
        terminal.until("What should the model do instead?")
        terminal.send("use mkdir" + ENTER)
        terminal.until("As you like.")
        leave(terminal)
    assert not (project / "x").exists()
    assert "use mkdir" in server.requests[1].body.decode()


def test_escape_interrupts_a_command_and_kills_it(server: ScriptedServer, project: Path):
    command = "echo $$ > pid; echo on its way; sleep 60"
    server.reply(calling("run_shell_command", {"command": command}), sse(text("Fine.")))
    with at(server, "--yolo", "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("run" + ENTER)
        terminal.until("│ on its way")
        terminal.send(ESC)
        terminal.until("■ Stopped by you.")
        pid = int((project / "pid").read_text(encoding="utf-8"))
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        terminal.send("and now?" + ENTER)
        terminal.until("Fine.")
        leave(terminal)


def test_control_c_clears_then_leaves(server: ScriptedServer):
    with at(server) as terminal:
        terminal.until("/help lists")
        terminal.send("half a thought")
        terminal.until("> half a thought")
        terminal.send(CTRL_C)
        terminal.until(PLACEHOLDER, gone="half a thought")
        terminal.send(CTRL_C)
        terminal.until("Press Ctrl+C again to exit.")
        terminal.send(CTRL_C)
        assert terminal.ended() == 0
        assert_restored(terminal)


def test_escape_and_a_command_right_behind_it_are_two_things(server: ScriptedServer):
    with at(server) as terminal:
        terminal.until("default  m")
        terminal.send(ESC + "/policies" + ENTER)
        terminal.until("rules in default mode")
        terminal.send(ESC + "fine so far")
        terminal.until("> fine so far")
        assert "fine so far" in re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", terminal.raw)
        leave_at_once(terminal)
    assert server.requests == []


def test_lines_are_continued_and_a_paste_is_not_sent(server: ScriptedServer):
    server.reply(sse(text("Got it.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("one\\" + ENTER + "two" + ESC + ENTER + "three\n")
        terminal.send("\x1b[200~pasted\rlines\x1b[201~")
        terminal.until("lines")
        assert server.requests == []
        terminal.send(ENTER)
        terminal.until("Got it.")
        leave(terminal)
    sent = server.requests[0].json["contents"][-1]["parts"][0]["text"]
    assert sent == "one\ntwo\nthree\npasted\nlines"


def test_modes_commands_and_completion_work_by_keys(server: ScriptedServer, project: Path):
    (project / "notes.txt").touch()
    with at(server, "--skip-trust") as terminal:
        terminal.until("default  m")
        terminal.send("\x1b[Z")
        terminal.until("auto_edit  m")
        terminal.send("/sta")
        terminal.until("/stats")
        terminal.send("\t" + ENTER + ENTER)
        terminal.until("tool calls")
        terminal.send("@no")
        terminal.until("notes.txt")
        terminal.send("\t")
        terminal.until("> @notes.txt")
        terminal.send(CTRL_C)
        terminal.until(PLACEHOLDER, gone="@notes.txt")
        terminal.send("/quit" + ENTER)
        assert terminal.ended() == 0
        assert_restored(terminal)


def test_an_earlier_prompt_comes_back_in_the_next_session(server: ScriptedServer):
    server.reply(sse(text("One.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("remember me" + ENTER)
        terminal.until("One.")
        leave(terminal)
    with at(server) as terminal:
        terminal.until("/help lists")
        terminal.send("\x1b[A")
        terminal.until("> remember me")
        terminal.send(CTRL_C)
        terminal.until(PLACEHOLDER, gone="remember me")
        terminal.send(CTRL_R + "member")
        terminal.until("> remember me")
        terminal.send(ENTER + CTRL_E + " too")
        terminal.until("> remember me too")
        leave_at_once(terminal)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("columns", "rows"), [(20, 8), (12, 5)])
def test_a_small_terminal_is_enough(server: ScriptedServer, columns: int, rows: int):
    args = {"file_path": "a.txt", "content": "".join(f"line {n}\n" for n in range(30))}
    server.reply(calling("write_file", args), sse(text("Some text that is long. " * 9)))
    with at(server, columns=columns, rows=rows) as terminal:
        terminal.until("Type your")
        terminal.send("hi" + ENTER)
        shown = terminal.until("> 1/y Yes")
        assert "+line29" in "".join(shown.split())
        terminal.send("y")
        terminal.until("1 call")
        terminal.send(CTRL_D)
        assert terminal.ended() == 0
    assert "Window too small" not in terminal.raw


@pytest.mark.parametrize("rows", [3, 5])
def test_the_option_that_enter_would_take_is_in_view_in_few_rows(
    server: ScriptedServer, project: Path, rows: int
):
    server.reply(calling("run_shell_command", {"command": "touch x"}))
    with at(server, columns=40, rows=rows) as terminal:
        terminal.until("Type your")
        terminal.send("hi" + ENTER)
        for option in ("> 1/y Yes", "> 2/a Session", "> 3/s Save", "> 4/n No"):
            terminal.until(option)
            terminal.send(DOWN)
        terminal.until("> 1/y Yes")
        leave_at_once(terminal)
    assert not (project / "x").exists()


def test_the_prompt_follows_the_size_of_the_terminal(server: ScriptedServer):
    with at(server, columns=100) as terminal:
        terminal.until("default  m")
        terminal.resize(40, 10)
        terminal.send("x" * 50)
        terminal.until("x" * 38)
        assert any(line.endswith("x" * 38) for line in terminal.screen.shown)
        terminal.resize(120, 40)
        terminal.send("y")
        terminal.until("x" * 50 + "y")
        leave_at_once(terminal)


def test_no_colour_is_used_where_none_is_wanted(server: ScriptedServer):
    colours = re.compile(r"\x1b\[(?:\d+;)*(?:[349][0-8])(?:;\d+)*m")
    for environ in ({}, {"NO_COLOR": "1"}):
        server.reply(sse(text("`code` and\n\n```python\nx = 1\n```\n\n> quote")))
        with at(server, **environ) as terminal:
            terminal.until(PLACEHOLDER)
            terminal.send("hi" + ENTER)
            terminal.until("1 turn")
            leave(terminal)
        assert bool(colours.search(terminal.raw)) is not bool(environ)


def test_a_dumb_terminal_gets_lines_and_nothing_else(server: ScriptedServer, project: Path):
    args = {"file_path": "a.txt", "content": "x\n"}
    server.reply(calling("write_file", args), calling("write_file", args), sse(text("**Done.**")))
    with at(server, term="dumb") as terminal:
        terminal.until("commands and keys\n>")  # what is typed before is echoed before it
        terminal.send("write it\n")
        terminal.until("Number (empty: no):")
        assert not (project / "a.txt").exists()
        terminal.send("a nonsense\n")
        terminal.until("! Not an answer: a nonsense. Type y, e, n, ? or an empty line.")
        terminal.until("Number (empty: no):", times=2)
        assert not (project / "a.txt").exists()
        terminal.send("n\n")
        terminal.until("What should the model do instead?")
        terminal.send("again\n")
        terminal.until("Number (empty: no):", times=3)
        terminal.send("1\n")
        terminal.until("**Done.**")
        terminal.until("s\n>", times=2)
        assert terminal.screen.text.count("\n>") == 2  # with what was typed, and at the end
        assert terminal.screen.text.count("write it\n") == 1
        terminal.send("/help\n")
        told = terminal.until(" prompt\n>")
        assert "Esc" not in told
        assert "the model sees it with the next\n" in told  # broken at a blank
        terminal.send(CTRL_D)
        assert terminal.ended() == 0
    assert "> \r\n" in terminal.raw
    assert re.search(
        r"\n  Session: 2 calls.*\r\n  To resume it: alhena --resume \S+\r\n"
        r"  After that, /diff shows its changes and /trace its timeline.\r\n$",
        terminal.raw,
    )
    assert "\x1b" not in terminal.raw
    assert (project / "a.txt").exists()
    assert "again" in server.requests[1].body.decode()


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_what_keeps_a_session_from_beginning_is_one_line(project: Path, term: str):
    with Terminal("-m", "demo", "--policy", "gone.toml", term=term) as terminal:
        assert terminal.ended() == 52
        assert "gone.toml" in terminal.screen.text
        assert terminal.screen.text.count("alhena:") == 1
        assert "Traceback" not in terminal.screen.text
        assert PLACEHOLDER not in terminal.screen.text


def test_a_session_begins_with_the_prompt_it_is_given(server: ScriptedServer):
    server.reply(sse(text("Hello yourself.")))
    with at(server, "-i", "hello there") as terminal:
        shown = terminal.until("Hello yourself.")
        assert "> hello there" in shown
        leave(terminal)


def test_a_session_needs_a_terminal():
    ran = alhena("-i", "hello", "-m", "demo")
    assert ran.code == 42
    said = "The --prompt-interactive flag cannot be used when input is piped from stdin."
    assert said in ran.err
    ran = alhena("-i", "hello", "-p", "other")
    assert ran.code == 42
    assert alhena("-m", "demo").code == 42
