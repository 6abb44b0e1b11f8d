"""Ctrl-O: whole outputs, diffs, thoughts and long prompts in a pager that returns to the prompt."""

import threading
from pathlib import Path

import pytest

from alhena.events import ApiRequestEvent, ThoughtEvent
from alhena.frontends.terminal.drawing.call_result import PagerBlock, PagerBlocks
from tests.frontends.terminal.kit import ended
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, calling, leave
from tests.support.server import ScriptedServer, call, chunk, sse, text

CTRL_O, LEFT, HOME = "\x0f", "\x1b[D", "\x1b[H"


@pytest.mark.requirement("TERM-03")
def test_blocks_are_collected_whole(tmp_path: Path):
    pages = PagerBlocks()
    file = tmp_path / "all.txt"
    file.write_text("all\x1b of it", encoding="utf-8")
    pages.prompt("short")
    pages.prompt("long\n" * 10)
    pages.feed(ThoughtEvent(subject="Plan", description="First this."))
    pages.feed(ThoughtEvent(subject="Then", description="that."))
    pages.feed(ApiRequestEvent(model="m", prompt_id="p", contents=1))
    pages.feed(ended("replace", {"type": "file_diff", "fileDiff": "-a\n+b"}))
    pages.feed(ended("run_shell_command", "short", output_file=str(file)))
    pages.feed(ended("glob", "", error="no", status="error"))
    assert [(page.title, page.whole) for page in pages.items] == [
        ("Prompt", "long\n" * 10),
        ("Thoughts", "Plan\nFirst this.\n\nThen\nthat."),
        ("Edit", "-a\n+b"),
        ("Shell", "all\\x1b of it"),
        ("Find", "no"),
    ]
    assert PagerBlock("gone", "a part", str(tmp_path / "gone")).whole == "a part"


@pytest.mark.requirement("TERM-03")
def test_a_whole_output_is_read_and_searched_and_the_prompt_is_as_it_was(server: ScriptedServer):
    hold = threading.Event()
    server.reply(
        calling("run_shell_command", {"command": "seq 1 900"}),
        sse(
            chunk({"text": "**Plan**\nOnce more.", "thought": True}),
            chunk(
                call("run_shell_command", {"command": "echo the last one"}, id="2"), finish="STOP"
            ),
        ),
        sse(text("Done", None), text(" now."), hold=hold),
    )
    with at(server, "--yolo", "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(CTRL_O)
        terminal.until("! Nothing to show yet.")
        pasted = "".join(f"pasted {number}\r" for number in range(1, 60))
        terminal.send(f"\x1b[200~{pasted}\x1b[201~" + ENTER)
        terminal.until("Done")
        terminal.send("a draft" + CTRL_O)
        terminal.until("Shell echo the last one  (4 of 4)  q closes")
        assert "the last one" in "\n".join(terminal.screen.shown)
        terminal.send(LEFT)
        terminal.until("(3 of 4)")
        terminal.until("Once more.")
        terminal.send(LEFT)
        terminal.until("(2 of 4)")
        terminal.until("\n10\n11\n12")
        terminal.send("/555" + ENTER)
        terminal.until("\n553\n554\n555")
        terminal.send(HOME + LEFT)
        terminal.until("Prompt  (1 of 4)")
        terminal.until("\npasted 1\npasted 2\n")
        terminal.send("q")
        terminal.until("> a draft", gone="q closes")
        hold.set()
        terminal.until("Done now.")
        terminal.send(CTRL_O)
        terminal.until("(4 of 4)  q closes")
        terminal.send("q")
        terminal.until("> a draft", gone="q closes")
        terminal.send("\x15")
        terminal.until(PLACEHOLDER, gone="a draft")
        leave(terminal)


@pytest.mark.requirement("TERM-03")
def test_at_a_plain_terminal_a_command_lists_the_blocks_and_prints_one(server: ScriptedServer):
    server.reply(calling("run_shell_command", {"command": "seq 1 90"}), sse(text("Done.")))
    with at(server, "--yolo", "--skip-trust", term="dumb") as terminal:
        terminal.until("commands and keys\n>")
        terminal.send("/show" + ENTER)
        terminal.until("Nothing to show yet.")
        terminal.send("count" + ENTER)
        assert "\n  1\n" not in terminal.until("Done.")
        terminal.send("/show" + ENTER)
        terminal.until("  1 Shell seq 1 90")
        terminal.send("/show 2" + ENTER)
        terminal.until("There is no block 2. /show lists them.")
        terminal.send("/show 1" + ENTER)
        terminal.until("\n".join(map(str, range(1, 91))))
        terminal.send("\x04")
        assert terminal.ended() == 0
