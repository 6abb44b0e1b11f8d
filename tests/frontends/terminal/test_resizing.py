"""Terminals that break long rows anew when they are resized."""

import threading

import pytest

from alhena.frontends.terminal.resizing import reflows
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, leave
from tests.support.each import for_each
from tests.support.server import ScriptedServer, sse, text


@for_each(
    ("environ", "breaks"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "screen", "STY": "1.pts"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/tmux,1,0", "XTERM_VERSION": "XTerm(390)"}, True),
    ],
)
def test_long_rows_are_known_to_be_broken_anew(environ: dict[str, str], breaks: bool):
    assert reflows(environ) is breaks


@pytest.mark.requirement("CLI-02")
def test_no_copy_is_left_where_the_beginning_has_scrolled_away(server: ScriptedServer):
    hold = threading.Event()
    words = " ".join(f"word {number}" for number in range(150))
    server.reply(sse(text(words, None), text("\n\nThe end."), hold=hold))
    with at(server, TMUX="/tmp/tmux,1,0") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("tell" + ENTER)
        terminal.until("Answering")
        terminal.resize(40, 24, reflow=True)
        hold.set()
        terminal.until("The end.")
        terminal.until("1 turn")
        terminal.until(PLACEHOLDER)
        assert "Answering" not in terminal.screen.text
        leave(terminal)
