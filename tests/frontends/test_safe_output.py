"""Output of commands at a terminal for hostile input."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from alhena.errors import AlhenaError
from alhena.events import ContentEvent, UserMessageEvent
from alhena.frontends.headless.output import TextOutput
from alhena.frontends.shared.streams import report
from tests.support.command import ALHENA, alhena
from tests.support.patience import PATIENCE_S

HOSTILE = "ls # \x1b[2J\x1b]0;owned\x07\x9b1A\u202egpj\u200b\r\x08"
ACTING = set("\x00\x07\x08\x0b\x0c\x1b\x7f\x9b")
DECEIVING = ACTING | set("\u202e\u200b")


def at_a_terminal(*arguments: str) -> str:
    """Output of a command whose stdin, stdout and stderr are a terminal."""
    near, far = pty.openpty()
    child = subprocess.Popen([ALHENA, *arguments], stdin=far, stdout=far, stderr=far)
    os.close(far)
    written = b""
    try:
        while piece := os.read(near, 65536):
            written += piece
    except OSError:  # how Linux says that the last writer is gone
        pass
    finally:
        os.close(near)
        child.wait(PATIENCE_S)
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("mode", ["default", "yolo"])
def test_a_hostile_command_does_not_act_on_the_terminal(mode: str) -> None:
    arguments = json.dumps({"command": HOSTILE, "description": "\x1b[2J"})
    shown = at_a_terminal(
        "tools", "call", "run_shell_command", arguments, "--approval-mode", mode, "--skip-trust"
    )
    assert ACTING.isdisjoint(shown)
    assert ("Exit Code: 0" in shown) == (mode == "yolo")


def test_an_explanation_shows_what_a_command_hides() -> None:
    shown = at_a_terminal(
        "policy", "explain", "--tool", "shell", "--args", json.dumps({"command": HOSTILE})
    )
    assert DECEIVING.isdisjoint(shown)
    assert r"a character that cannot be seen (\x1b)" in shown


def test_a_hostile_rule_is_told_escaped(tmp_path: Path) -> None:
    name = tmp_path / "p.toml"
    name.write_text(
        '[[rule]]\ntoolName = "write_file"\ndecision = "deny"\npriority = 9\ndenyMessage = "no\\u001b[2J\\u202e"\n'
    )
    told = at_a_terminal("policy", "explain", "--tool", "write_file", "--policy", str(name))
    assert DECEIVING.isdisjoint(told)
    assert r"the rule says: no\x1b[2J\u202e" in told


def test_a_file_keeps_its_letters_at_a_terminal_and_loses_what_acts() -> None:
    Path("a.txt").write_text("❤\ufe0f \x1b[2J\u05d0\u200f\n", encoding="utf-8")
    arguments = ("tools", "call", "read_file", '{"absolute_path": "a.txt"}')
    assert "❤\ufe0f \u05d0\u200f\n" in at_a_terminal(*arguments)
    assert "\x1b[2J" in alhena(*arguments).out


def test_an_answer_hides_nothing_behind_a_sequence_without_an_end() -> None:
    written: list[str] = []
    output = TextOutput(written.append)
    output.feed(ContentEvent(text="before \x1b]0;and after\x9d"))
    output.finish(None)
    assert "".join(written) == "before ]0;and after\n"


def test_the_answer_to_a_prompt_of_a_hook_begins_a_line() -> None:
    written: list[str] = []
    output = TextOutput(written.append)
    output.feed(ContentEvent(text="fine"))
    output.feed(UserMessageEvent(prompt_id="1", text="again"))
    output.feed(ContentEvent(text="better"))
    output.finish(None)
    assert "".join(written) == "fine\nbetter\n"


@pytest.mark.parametrize("debug", [False, True])
def test_an_error_does_not_act_on_the_terminal(
    debug: bool, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert report(AlhenaError(f"cannot {HOSTILE}"), debug=debug) == 1
    told = capfdbinary.readouterr().err.decode()
    assert DECEIVING.isdisjoint(told)
    assert r"cannot ls # \x1b[2J\x1b]0;owned\x07\x9b1A\u202egpj\u200b" in told
