import os
from pathlib import Path

import pytest

from alhena.frontends.terminal.console import editor_command, waiting_words
from tests.frontends.terminal.session import CTRL_C, ENTER, PLACEHOLDER, at, leave
from tests.support.server import ScriptedServer, sse, text

CTRL_G = "\x07"

OLD, NEW = Path("/t/old.py"), Path("/t/new.py")


@pytest.mark.parametrize(
    ("environ", "argv"),
    [
        ({"EDITOR": "ed"}, ["ed", "/t/new.py"]),
        ({"EDITOR": "ed", "VISUAL": "joe"}, ["joe", "/t/new.py"]),
        ({"EDITOR": "/usr/bin/vim"}, ["/usr/bin/vim", "-d", "/t/new.py", "/t/old.py"]),
        ({"EDITOR": "vim -n"}, ["vim", "-n", "/t/new.py"]),
        ({"EDITOR": "code"}, ["code", "--wait", "--diff", "/t/old.py", "/t/new.py"]),
        ({"EDITOR": "code --wait"}, ["code", "--wait", "--diff", "/t/old.py", "/t/new.py"]),
        ({"EDITOR": "subl -n"}, ["subl", "-n", "--wait", "/t/new.py"]),
        ({"EDITOR": "'my editor' -x"}, ["my editor", "-x", "/t/new.py"]),
        ({"EDITOR": "it's"}, ["it's", "/t/new.py"]),
    ],
)
def test_the_editor_of_the_environment_is_started_so_that_it_waits(
    environ: dict[str, str], argv: list[str]
):
    command = editor_command(environ)
    assert command is not None
    assert command(OLD, NEW) == argv


def test_without_one_the_first_that_is_there_is_taken(tmp_path: Path):
    assert editor_command({"PATH": str(tmp_path)}) is None
    for name in ("vi", "nano"):
        (tmp_path / name).touch(mode=0o755)
    command = editor_command({"PATH": str(tmp_path), "EDITOR": " "})
    assert command is not None
    assert command(OLD, NEW) == ["nano", "/t/new.py"]


def test_the_input_line_goes_to_an_editor_that_waits():
    assert waiting_words({"EDITOR": "code"}) == ["code", "--wait"]
    assert waiting_words({"EDITOR": "code --wait -n"}) == ["code", "--wait", "-n"]
    assert waiting_words({"EDITOR": "vim"}) == ["vim"]


def test_the_input_line_is_edited_also_with_a_name_that_is_no_text(
    server: ScriptedServer, project: Path
):
    server.reply(sse(text("Seen.")))
    os.close(os.open(os.fsencode(project) + b"/bad\xff.txt", os.O_CREAT | os.O_WRONLY))
    editor = project / "editor"
    editor.write_text("#!/bin/sh\nprintf 'now\\r\\nmore\\n' >> $1\n", encoding="utf-8")
    editor.chmod(0o755)
    with at(server, "--skip-trust", EDITOR=str(editor)) as terminal:
        terminal.until(PLACEHOLDER)
        os.write(terminal.process.child_fd, b"see @bad\xff.txt ")
        terminal.until(".txt")
        terminal.send(CTRL_G)
        terminal.until("more")
        terminal.send(ENTER)
        terminal.until("Seen.")
        assert "cannot be written" not in terminal.screen.text
        leave(terminal)
    assert server.requests[-1].json["contents"][-1]["parts"][0]["text"].endswith(".txt now\nmore")


def test_an_editor_that_is_not_there_is_named(server: ScriptedServer):
    with at(server, EDITOR="no-such-editor") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("draft" + CTRL_G)
        terminal.until("! no-such-editor was not found.")
        terminal.until("> draft")
        terminal.send(CTRL_C)
        leave(terminal)
