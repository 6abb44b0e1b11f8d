"""Pastes that the terminal does not mark: lines that arrive together are one draft."""

from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from alhena.frontends.terminal.looks.theme import merge_lines
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, leave
from tests.support.each import for_each
from tests.support.server import ScriptedServer, sse, text
from tests.support.terminal import Terminal


def prompt_of(server: ScriptedServer) -> str:
    return server.requests[-1].json["contents"][-1]["parts"][0]["text"]


def read_keys(terminal: Terminal) -> None:
    """Waits until the session reads keys."""
    terminal.send("x")
    terminal.until("> x")
    terminal.send("\x7f")
    terminal.until(PLACEHOLDER)


def test_lines_that_arrive_together_are_one_draft(server: ScriptedServer):
    server.reply(sse(text("Got it.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        read_keys(terminal)
        terminal.send("first line\rsecond\tline\r\r/quit\rend\r")
        terminal.until("end")
        assert server.requests == []
        terminal.send(" of it")
        terminal.until("of it")
        terminal.send(ENTER)
        terminal.until("Got it.")
        leave(terminal)
    assert prompt_of(server) == "first line\nsecond\tline\n\n/quit\nend\n of it"


def test_a_long_paste_is_one_mark_and_all_of_it_is_sent(server: ScriptedServer):
    server.reply(sse(text("Got it.")))
    lines = [f"line {number} {'x' * 90}" for number in range(60)]
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        read_keys(terminal)
        terminal.send("\r".join(lines))
        terminal.until("[pasted 60 lines]")
        terminal.send(ENTER)
        terminal.until("Got it.")
        leave(terminal)
    assert len(server.requests) == 1
    assert prompt_of(server) == "\n".join(lines)


def test_a_line_with_its_enter_is_sent(server: ScriptedServer):
    server.reply(sse(text("Got it.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("hello" + ENTER)
        terminal.until("Got it.")
        leave(terminal)
    assert prompt_of(server) == "hello"


def presses(typed: str) -> list[KeyPress]:
    named = {"\r": Keys.ControlM, "\n": Keys.ControlJ, "\x1b": Keys.Escape}
    return [KeyPress(named.get(char, char), char) for char in typed]


@for_each(
    ("typed", "pasted"),
    [
        ("a\rb", True), ("a\nb\n", True), ("a\r\nb", True), ("é漢\r🙂", True),
        ("a\r", False), ("\r\r", False), ("abc", False), ("\ra", False), ("a\x1b\rb", False),
    ],
)  # fmt: skip
def test_only_text_of_several_lines_is_a_paste(typed: str, pasted: bool):
    given = presses(typed)
    found = merge_lines(given)
    assert found == ([KeyPress(Keys.BracketedPaste, typed)] if pasted else given)
