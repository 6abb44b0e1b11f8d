"""The real command at a terminal: what is written, pasted and edited there."""

import os
import signal
from pathlib import Path

from tests.frontends.terminal.session import (
    CTRL_D,
    CTRL_E,
    ENTER,
    at,
    calling,
    leave,
)
from tests.support.server import ScriptedServer, sse, text

PASTE = "\x1b[200~{}\x1b[201~"
BACKSPACE = "\x7f"


def sent(server: ScriptedServer, index: int = 0) -> str:
    return server.requests[index].json["contents"][-1]["parts"][0]["text"]


def editor(tmp_path: Path, script: str) -> str:
    file = tmp_path / "editor"
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)
    return str(file)


def test_a_paste_of_thousands_of_lines_is_one_word_and_is_sent_whole(server: ScriptedServer):
    server.reply(sse(text("Got it.")))
    lines = [f"line {n} 漢字" for n in range(5_000)]
    with at(server) as terminal:
        terminal.until("default  m")
        terminal.send("see ")
        terminal.send(PASTE.format("twice\n" * 20))
        terminal.until("[pasted 20 lines]")
        terminal.send(BACKSPACE)
        terminal.until("> see", gone="pasted")
        terminal.send(PASTE.format("\r".join(lines)))
        terminal.until("> see [pasted 5,000 lines]")
        terminal.send(" there" + ENTER)
        shown = terminal.until("Got it.")
        leave(terminal)
    assert sent(server) == "see " + "\n".join(lines) + " there"
    assert "┃ > see [pasted 5,000 lines] there" in shown
    assert "line 2500" not in shown


def test_a_line_of_a_hundred_thousand_characters_keeps_nobody_waiting(server: ScriptedServer):
    server.reply(sse(text("Got it.")))
    with at(server) as terminal:
        terminal.until("default  m")
        terminal.send(PASTE.format("x" * 100_000))
        terminal.until("> [pasted 100,000 characters]")
        terminal.send(ENTER)
        terminal.until("Got it.")
        leave(terminal)
    assert sent(server) == "x" * 100_000


def test_a_prompt_is_written_in_the_editor(server: ScriptedServer, tmp_path: Path):
    server.reply(sse(text("Got it.")))
    script = 'grep -q half "$1" && printf "\\nand the other half" >> "$1"'
    with at(server, EDITOR=editor(tmp_path, script)) as terminal:
        terminal.until("default  m")
        terminal.send("one half")
        terminal.until("> one half")
        terminal.send("\x18" + CTRL_E)
        terminal.until("and the other half")
        terminal.send(ENTER)
        terminal.until("Got it.")
        leave(terminal)
    assert sent(server) == "one half\nand the other half"


def test_a_key_that_writes_nothing_is_no_typing(server: ScriptedServer, project: Path):
    args = {"file_path": "a.txt", "content": "new\n"}
    server.reply(calling("write_file", args), sse(text("Done it.")))
    with at(server) as terminal:
        terminal.until("default  m")
        terminal.send("go" + ENTER)
        terminal.until("↑/↓ select")
        terminal.send("\x0c\x1bOP\x1b[5~y")
        terminal.until("Done it.")
        leave(terminal)
    assert (project / "a.txt").exists()


def test_in_a_dumb_terminal_the_editor_gets_what_is_typed(
    server: ScriptedServer, project: Path, tmp_path: Path
):
    args = {"file_path": "a.txt", "content": "by machine\n"}
    server.reply(calling("write_file", args), sse(text("I see.")))
    script = 'echo EDITING; read answer; echo "$answer" > "$1"; echo WRITTEN'
    with at(server, term="dumb", EDITOR=editor(tmp_path, script)) as terminal:
        terminal.until("/help lists")
        terminal.send("write\n")
        terminal.until("Edit it first")
        terminal.until("Number (empty: no):")
        terminal.send("e\n")
        terminal.until("EDITING")
        terminal.send("by hand\n")
        terminal.until("WRITTEN")
        terminal.until("+ by hand")
        terminal.until("Number (empty: no):", times=2)
        terminal.send("1\n")
        terminal.until("I see.")
        terminal.send(CTRL_D)
        assert terminal.ended() == 0
    assert (project / "a.txt").read_text(encoding="utf-8") == "by hand\n"


def test_in_a_dumb_terminal_control_c_stops_what_runs(server: ScriptedServer, project: Path):
    os.mkfifo(project / "alive")
    server.reply(calling("run_shell_command", {"command": "exec sleep 60 > alive"}))
    with at(server, "--yolo", "--skip-trust", term="dumb") as terminal:
        terminal.until("/help lists")
        terminal.send("run\n")
        with (project / "alive").open(encoding="utf-8") as alive:
            terminal.process.kill(signal.SIGINT)
            assert alive.read() == ""
        terminal.until("■ Stopped by you.")
        terminal.send("/quit\n")
        assert terminal.ended() == 0
