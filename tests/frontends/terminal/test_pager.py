"""Ctrl-O: whole outputs, diffs, thoughts and long prompts in a pager that returns to the prompt."""

import threading
from pathlib import Path

from alhena.events import ApiRequestEvent, ThoughtEvent
from alhena.frontends.terminal.drawing.call_result import Page, Pages
from tests.frontends.terminal.kit import ended
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, calling, leave
from tests.support.server import ScriptedServer, sse, text

CTRL_O, LEFT, HOME = "\x0f", "\x1b[D", "\x1b[H"


def test_blocks_are_collected_whole(tmp_path: Path):
    pages = Pages()
    file = tmp_path / "all.txt"
    file.write_text("all\x1b of it", encoding="utf-8")
    pages.prompt("short")
    pages.prompt("long\n" * 100)
    pages.feed(ThoughtEvent(subject="Plan", description="First this."))
    pages.feed(ThoughtEvent(subject="Then", description="that."))
    pages.feed(ApiRequestEvent(model="m", prompt_id="p", contents=1))
    pages.feed(ended("replace", {"type": "file_diff", "fileDiff": "-a\n+b"}))
    pages.feed(ended("run_shell_command", "short", output_file=str(file)))
    pages.feed(ended("glob", "", error="no", status="error"))
    assert [(page.title, page.whole) for page in pages.items] == [
        ("Prompt", "long\n" * 100),
        ("Thoughts", "Plan\nFirst this.\n\nThen\nthat."),
        ("replace", "-a\n+b"),
        ("run_shell_command", "all\\x1b of it"),
        ("glob", "no"),
    ]
    assert Page("gone", "a part", str(tmp_path / "gone")).whole == "a part"


def test_a_whole_output_is_read_and_searched_and_the_prompt_is_as_it_was(server: ScriptedServer):
    hold = threading.Event()
    server.reply(
        calling("run_shell_command", {"command": "seq 1 900"}),
        calling("run_shell_command", {"command": "echo the last one"}),
        sse(text("Done", None), text(" now."), hold=hold),
    )
    with at(server, "--yolo") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(CTRL_O)  # nothing to open yet
        terminal.send("count" + ENTER)
        terminal.until("Done")
        terminal.send("a draft" + CTRL_O)
        terminal.until("run_shell_command echo the last one  (2 of 2)  q closes")
        assert "the last one" in "\n".join(terminal.screen.shown)
        terminal.send(LEFT)
        terminal.until("(1 of 2)")
        terminal.until("\n10\n11\n12")
        terminal.send("/555" + ENTER)
        terminal.until("\n553\n554\n555")
        terminal.send(HOME)
        terminal.send("q")
        terminal.until("> a draft", gone="q closes")
        hold.set()
        terminal.until("Done now.")
        terminal.send(CTRL_O)
        terminal.until("(2 of 2)  q closes", times=1)
        terminal.send("q")
        terminal.until("> a draft", gone="q closes")
        terminal.send("\x15")
        terminal.until(PLACEHOLDER, gone="a draft")
        leave(terminal)
