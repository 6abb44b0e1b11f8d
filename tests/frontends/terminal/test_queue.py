"""Prompts that wait: shown, taken back, sent or kept after an interruption."""

import asyncio
import signal
import threading

import pytest

from alhena.frontends.terminal.drawing.lines import plain
from alhena.frontends.terminal.drawing.live_region import queue_lines
from alhena.frontends.terminal.prompt_queue import PromptQueue
from tests.frontends.terminal.session import (
    CTRL_C,
    ENTER,
    ESC,
    PLACEHOLDER,
    answer,
    assert_restored,
    at,
    calling,
    leave,
)
from tests.support.server import Reply, ScriptedServer, sse, text
from tests.support.terminal import Terminal

UP, CTRL_U = "\x1b[A", "\x15"


def queued(terminal: Terminal, server: ScriptedServer, *prompts: str) -> None:
    """Sends prompts while the model is answering another one."""
    terminal.until(PLACEHOLDER)
    terminal.send("slow" + ENTER)
    terminal.until("The half")
    for prompt in prompts:
        terminal.send(prompt + ENTER)
        terminal.until(f"queued: {prompt}")


def slow() -> Reply:
    return sse(text("The half of", None), text(" it."), hold=threading.Event())


def asked(server: ScriptedServer) -> list[str]:
    return [request.json["contents"][-1]["parts"][-1]["text"] for request in server.requests]


def test_only_the_last_ones_are_shown_and_fit():
    assert plain(queue_lines(("a", "b\nc"), 40)) == "queued: a\nqueued: b c  (Up edits)"
    assert plain(queue_lines(tuple("abcde"), 12)).split("\n")[0] == "2 more queu…"
    assert plain(queue_lines(("a",), 60, kept=True)) == "kept: a  (Enter sends, Up edits)"
    assert queue_lines((), 40) == []
    assert plain(queue_lines(("a",), 60, asking=True)) == "queued: a"  # no key changes it there
    assert plain(queue_lines(("a",), 60, soon=True, asking=True)) == (
        "queued: a  (goes in after the current calls)"
    )
    narrow = plain(queue_lines(("say what it is",), 40, soon=True))
    assert narrow == "queued: say what it is  (Up edits)"  # the prompt before the hint


def test_a_prompt_queued_at_a_question_is_seen_beside_it(server: ScriptedServer):
    server.reply(calling("run_shell_command", {"command": "touch a"}), sse(text("Done.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        answer(terminal, "?")
        terminal.until("mode: default")
        assert terminal.screen.text.count("$ touch a") == 1
        terminal.send("later" + ENTER)
        terminal.until("queued: later")
        assert any("Allow this?" in row for row in terminal.screen.shown)
        answer(terminal, ESC)
        terminal.until("> later", gone="queued:")
        leave(terminal)


async def test_a_prompt_that_is_due_at_once_is_never_shown_as_queued():
    seen: list[tuple[str, ...]] = []
    queue = PromptQueue(lambda: seen.append(queue.texts))
    due = asyncio.create_task(queue.next())
    await asyncio.sleep(0)
    queue.add("one")
    queue.add("two")
    assert await due == "one"
    assert seen == [(), ("two",), ("two",)]


@pytest.mark.requirement("TERM-03")
def test_up_takes_the_last_one_back_for_editing(server: ScriptedServer):
    hold = threading.Event()
    server.reply(sse(text("The half of", None), text(" it."), hold=hold), sse(text("Three.")))
    with at(server) as terminal:
        queued(terminal, server, "one", "two")
        terminal.send(UP)
        terminal.until("> two", gone="queued: two")
        terminal.send("!" + ENTER)
        terminal.until("queued: two!")
        terminal.send(UP)
        terminal.until("> two!", gone="queued: two!")
        terminal.send(CTRL_U + UP)
        terminal.until("> one", gone="queued:")
        hold.set()
        terminal.until("of it.")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.ended() == 130
        assert_restored(terminal)
    assert asked(server) == ["slow"]


@pytest.mark.requirement("TERM-03")
def test_esc_with_a_queue_asks_and_sends_it(server: ScriptedServer):
    server.reply(slow(), sse(text("One.")), sse(text("Two.")))
    with at(server) as terminal:
        queued(terminal, server, "one", "two")
        terminal.send(ESC)
        terminal.until("Interrupted with 2 prompts queued.")
        answer(terminal, "y")
        terminal.until("Two.")
        leave(terminal)
    assert asked(server) == ["slow", "one", "two"]


@pytest.mark.requirement("TERM-03")
def test_a_kept_queue_waits_until_something_is_sent(server: ScriptedServer):
    server.reply(slow(), sse(text("One.")), sse(text("Two.")))
    with at(server) as terminal:
        queued(terminal, server, "one", "two")
        terminal.send(ESC)
        answer(terminal, "k")
        terminal.until("kept: two  (Enter sends, Up edits)")
        terminal.send(UP)
        terminal.until("kept: one", gone="kept: two")
        terminal.send(" more" + ENTER)
        terminal.until("Two.")
        leave(terminal)
    assert asked(server) == ["slow", "one", "two more"]


def test_enter_sends_a_kept_queue_and_a_signal_ends_the_question(server: ScriptedServer):
    server.reply(slow(), sse(text("One.")), slow())
    with at(server) as terminal:
        queued(terminal, server, "one")
        terminal.send(ESC)
        answer(terminal, ESC)
        terminal.until("kept: one")
        terminal.send(ENTER)
        terminal.until("One.")
        terminal.send("slow" + ENTER)
        terminal.until("The half", times=2)
        terminal.send("again" + ENTER)
        terminal.until("queued: again")
        terminal.send(ESC)
        terminal.until("Interrupted with 1 prompt queued.")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.ended() == 130
        assert_restored(terminal)
    assert asked(server) == ["slow", "one", "slow"]


@pytest.mark.requirement("TERM-03")
def test_at_a_plain_terminal_a_number_says_what_becomes_of_the_queue(server: ScriptedServer):
    begun = sse(text("Half.\n\nThe other", None), text(" half."), hold=threading.Event())
    server.reply(begun, sse(text("Three.")))
    with at(server, term="dumb") as terminal:
        terminal.until("commands and keys\n>")
        terminal.send("slow" + ENTER)
        terminal.until("Half.")
        for prompt in ("one", "two"):
            terminal.send(prompt + ENTER)
            terminal.until(f"queued: {prompt}")
        terminal.send("/todos" + ENTER)
        terminal.until("No tasks.")
        terminal.send(CTRL_C)
        terminal.until("Interrupted with 2 prompts queued.")
        terminal.until("Number (empty: no):")
        terminal.send("3" + ENTER)
        terminal.until("no): 3\n>")
        terminal.send("three" + ENTER)
        terminal.until("Three.")
        terminal.send("/resume" + ENTER)
        terminal.send("\x04")
        assert terminal.ended() == 0
    assert asked(server) == ["slow", "three"]


def test_discarding_queued_prompts_keeps_one_sent_at_the_question(server: ScriptedServer):
    server.reply(slow(), sse(text("Sent.")))
    with at(server) as terminal:
        queued(terminal, server, "one", "two")
        terminal.send(ESC)
        terminal.until("Interrupted with 2 prompts queued.")
        terminal.send("three" + ENTER)
        terminal.until("queued: three")
        answer(terminal, "d" + ENTER)
        terminal.until("Sent.")
        leave(terminal)
    assert asked(server) == ["slow", "three"]
