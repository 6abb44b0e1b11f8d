"""/model, the menu with search, and the context meter at the foot."""

import json
import re
from pathlib import Path

import pytest

from alhena.events import ApiResponseEvent, CompressedEvent
from alhena.frontends.terminal.app import foot_line
from alhena.frontends.terminal.drawing.lines import plain
from alhena.frontends.terminal.drawing.menu import Menu, MenuChoice, MenuOption, menu_lines, press
from alhena.frontends.terminal.drawing.screen import FootStatus
from tests.frontends.terminal.kit import ended, played
from tests.frontends.terminal.session import (
    ENTER,
    ESC,
    PLACEHOLDER,
    answer,
    at,
    leave,
    leave_at_once,
)
from tests.support.server import ScriptedServer, chunk, json_reply, sse, text

DOWN = "\x1b[B"
MENU = Menu(
    title="Model",
    options=tuple(MenuOption(label=f"model-{name}", detail=f"of {name}") for name in "abcab"),
    search="",
)


def typed(*keys: str) -> Menu | MenuChoice:
    made: Menu | MenuChoice = MENU
    for key in keys:
        assert isinstance(made, Menu)
        made = press(made, key)
    return made


def test_a_menu_with_search_takes_letters_for_words():
    assert typed("/", "o", "f", "space", "b", "down", "enter") == MenuChoice(frozenset({4}))
    assert typed("b", "backspace", "enter") == MenuChoice(frozenset({0}))
    assert typed("up", "enter") == MenuChoice(frozenset({4}))
    assert typed("z", "escape") == MenuChoice(None)
    nothing = typed("z", "down", "enter")
    assert isinstance(nothing, Menu)
    assert "no match" in plain(menu_lines(nothing, 80)[0])
    rows, chosen = menu_lines(press(MENU, "down"), 80)  # type: ignore[arg-type]
    assert plain([rows[chosen.start]]) == "> model-b  of b"
    assert len(menu_lines(MENU, 80, rows=5)[0]) == 5


@pytest.mark.requirement("TERM-01")
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_model_is_chosen_for_the_session_and_for_good(
    server: ScriptedServer, home: Path, term: str
):
    models = [
        {"name": f"models/gemini-{each}", "supportedGenerationMethods": ["generateContent"]}
        for each in ("one", "two", "three")
    ]
    server.reply(
        sse(text("First.")),
        json_reply({"models": models}),
        sse(text("Second.")),
        sse(text("3.")),
        sse(text("4.")),
    )
    with at(server, term=term) as terminal:
        terminal.until("commands and keys\n>" if term == "dumb" else PLACEHOLDER)
        terminal.send("hi" + ENTER)
        terminal.until("First.")
        terminal.until("1 turn")
        terminal.send("/model" + ENTER)
        if term == "dumb":
            terminal.until("Number or words")
            terminal.send("tw" + ENTER)
            terminal.until("Number or words", times=2)
            terminal.send("2" + ENTER)
            terminal.until("Number or words", times=3)
            terminal.send("1" + ENTER)
        else:
            terminal.until("3 of 3")
            terminal.send("tw" + ENTER)
            terminal.until("> For this session")
            terminal.send(ENTER)
        terminal.until("Model: gemini-two.")
        terminal.send("go on" + ENTER)
        terminal.until("Second.")
        terminal.send("/model set gemini-three --persist" + ENTER)
        terminal.until("Saved as model.name")
        terminal.send("more" + ENTER)
        terminal.until("3.\n")
        terminal.send("/clear" + ENTER)
        terminal.until("Started a new conversation.")
        terminal.send("again" + ENTER)
        terminal.until("4.\n")
        terminal.send("/model set openai:x" + ENTER)
        terminal.until("another service")
        terminal.send("/model set gemini-3.6-falsh" + ENTER)
        terminal.until("Unknown model gemini-3.6-falsh. Did you mean gemini-3.6-flash?")
        if term == "dumb":
            terminal.until("Number (empty: no)")
            terminal.send(ENTER)
            terminal.until("Nothing changed.")
            terminal.send("/model set gemini-thre" + ENTER)
            terminal.until("Unknown model gemini-thre. Did you mean gemini-three?")
            terminal.until("Number (empty: no)", times=2)
            terminal.send("perhaps\n")
            terminal.until("! Not an answer: perhaps. Type y, u, n or an empty line.")
            terminal.until("Number (empty: no)", times=3)
            terminal.send(ENTER)
            terminal.until("Nothing changed.", times=2)
            terminal.send("/model set zzzz" + ENTER)
            terminal.until("Unknown model zzzz. Use it?\n  1/u Use zzzz as written\n")
            terminal.until("Number (empty: no)", times=4)
            terminal.send(ENTER)
            terminal.until("Nothing changed.", times=3)
            terminal.send("\x04")
            assert terminal.ended() == 0
        else:
            answer(terminal, "n" + ENTER)
            terminal.until("Nothing changed.")
            leave(terminal)
    paths = [each.path.partition("?")[0] for each in server.requests]
    assert [path.rpartition("/")[2].partition(":")[0] for path in paths] == [
        *("m", "models", "gemini-two", "gemini-three", "gemini-three")
    ]
    assert "First." in server.requests[3].body.decode()
    settings = json.loads((home / ".gemini" / "settings.json").read_text(encoding="utf-8"))
    assert settings == {"model": {"name": "gemini-three"}}


@pytest.mark.requirement("TERM-02")
def test_the_foot_shows_context_branch_mode_model_and_cost(server: ScriptedServer, project: Path):
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/topic\n", encoding="utf-8")
    usage = {"promptTokenCount": 629_146, "candidatesTokenCount": 0}
    server.reply(sse(chunk({"text": "Much."}, finish="STOP", usage=usage)))
    with at(server, GEMINI_MODEL="gemini-3.7-flash", columns=250) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("hi" + ENTER)
        terminal.until("60% context")
        foot = terminal.until("$")
        (line,) = (each for each in foot.split("\n") if "60% context" in each)
        assert line.startswith("default  gemini-3.7-flash  60% context")
        assert "topic" in line
        assert re.search(r"\$\d", line)
        terminal.send("/clear" + ENTER)
        terminal.until("Started a new conversation.", gone="% context")
        leave(terminal)
    (style, told) = foot_line(FootStatus(context=0.8), "", 40)[-1]
    assert (style, told) == ("warning", "80% context")
    assert foot_line(FootStatus(context=0.79), "", 40)[-1][0] == "dim"


def test_the_context_is_what_was_counted_last_and_what_is_new():
    counted = ApiResponseEvent(
        model="m", prompt_id="p", duration_ms=1, input_tokens=100, output_tokens=20
    )
    view, _ = played(counted, ended("read_file", content_length=400))
    assert view.context == 220
    inner = ApiResponseEvent(
        model="m", prompt_id="p", duration_ms=1, input_tokens=9, role="subagent"
    )
    view, _ = played(inner, view=view)
    assert view.context == 220
    compressed = CompressedEvent(original_tokens=220, new_tokens=50, status="compressed")
    assert played(compressed, view=view)[0].context == 50


def test_a_menu_that_is_left_changes_nothing(server: ScriptedServer):
    server.reply(json_reply({}, status=404))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("/model" + ENTER)
        terminal.until("known by name")
        terminal.send(ESC)
        terminal.until(PLACEHOLDER, gone="known by name")
        terminal.send("/model" + ENTER)
        terminal.until("known by name")
        terminal.send(ESC + "fine words")
        terminal.until("> fine words")
        leave_at_once(terminal)
