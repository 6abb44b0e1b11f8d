"""/resume and --continue: an earlier session goes on."""

import pytest

from tests.frontends.terminal.session import ENTER, ESC, PLACEHOLDER, at, leave
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, sse, text


@pytest.mark.requirement("TERM-01")
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_an_earlier_session_is_picked_by_words_of_its_prompts(server: ScriptedServer, term: str):
    server.reply(*(sse(text(f"Answer {number}.")) for number in range(5)))
    for prompt in ("fix the parser", "write the docs"):
        assert alhena("-m", "m", "-p", prompt, **keyed(server)).code == 0
    assert alhena("-m", "m", "--continue", "-p", "and the index", **keyed(server)).code == 0
    assert "write the docs" in server.requests[2].body.decode()
    with at(server, term=term) as terminal:
        terminal.until("commands and keys\n>" if term == "dumb" else PLACEHOLDER)
        terminal.send("/resume" + ENTER)
        if term == "dumb":
            shown = terminal.until("Number or words")
            assert shown.index("1 write the docs (just now") < shown.index("2 fix the parser")
            terminal.send("parser" + ENTER)
            terminal.until("Number or words", times=2)
            terminal.send("2" + ENTER)
        else:
            shown = terminal.until("2 of 2")
            assert shown.index("> write the docs  just now · ") < shown.index("fix the parser")
            assert "    last: and the index" in shown
            terminal.send(ESC)
            terminal.until(PLACEHOLDER, gone="2 of 2")
            terminal.send("/resume" + ENTER)
            terminal.until("2 of 2", times=1)
            terminal.send("parser")
            terminal.until("1 of 2")
            terminal.send(ENTER)
        terminal.until("Resumed session ")
        assert "> fix the parser" in terminal.until("Answer 0.")
        terminal.send("go on" + ENTER)
        terminal.until("Answer 3.")
        terminal.send("/resume nosuch" + ENTER)
        terminal.until("✗ ")
        if term == "dumb":
            terminal.send("\x04")
            assert terminal.ended() == 0
        else:
            leave(terminal)
    assert "fix the parser" in server.requests[3].body.decode()
    with at(server, "--continue") as terminal:
        terminal.until("> go on")
        leave(terminal)
