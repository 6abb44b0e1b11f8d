"""Esc Esc and /rewind: conversation, files or both go back to before an earlier prompt."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.session import ENTER, ESC, PLACEHOLDER, at, leave
from tests.frontends.terminal.test_conversation import Held, finished, sitting
from tests.frontends.terminal.test_going_back import ON, writing
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text

DOWN, CTRL_U = "\x1b[B", "\x15"


def write(name: str, content: str) -> Any:
    args = {"file_path": name, "content": content}
    return sse(chunk(call("write_file", args, id=f"{name}-{content}"), finish="STOP"))


def said(server: ScriptedServer) -> str:
    """The conversation as the last request had it."""
    return json.dumps(server.requests[-1].json["contents"])


@pytest.mark.requirement("TERM-04")
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_conversation_and_files_go_back_and_the_old_branch_is_resumed(
    server: ScriptedServer, project: Path, term: str
):
    plain = term == "dumb"
    (project / "a.txt").write_text("old", encoding="utf-8")
    counted = sse(chunk({"text": "Made one."}, finish="STOP", usage={"promptTokenCount": 209_715}))
    server.reply(
        write("a.txt", "one"), counted,
        write("a.txt", "two"), write("b.txt", "new"), sse(text("Made two.")),
        sse(text("Made three.")), sse(text("Another two.")), sse(text("After two.")),
    )  # fmt: skip
    with at(
        server,
        "--yolo",
        "--skip-trust",
        "--checkpointing",
        term=term,
        GEMINI_MODEL="gemini-3.7-flash",
    ) as terminal:
        terminal.until("commands and keys\n>" if plain else PLACEHOLDER)
        for number in ("one", "two", "three"):
            terminal.send(f"make {number}" + ENTER)
            terminal.until(f"Made {number}.")
            terminal.until("1 turn" if number == "three" else " turns")
        terminal.send("/model set gemini-3.6-flash" + ENTER)
        terminal.until("Model: gemini-3.6-flash.")
        if plain:
            terminal.send("/rewind" + ENTER)
            shown = terminal.until("words (empty: none):")
            assert "  2 make two (just now · 2 files changed)" in shown
            terminal.send("2" + ENTER)
            terminal.until("1 Conversation and files (undoes changes of 2 files)")
            terminal.until("words (empty: none):", times=2)
            terminal.send("1" + ENTER)
        else:
            terminal.send(ESC)
            terminal.until("Press Esc again to rewind.")
            terminal.send(ESC)
            shown = terminal.until("3 of 3")
            assert "> make three  just now" in shown
            terminal.send(DOWN)
            assert "b.txt" in terminal.until("> make two  just now · 2 files changed")
            terminal.until("    a.txt, b.txt\n")
            terminal.send(ENTER)
            terminal.until("Rewind to before: make two")
            terminal.send(ENTER)
        terminal.until('Back before "make two"')
        terminal.until("Removed: b.txt")
        assert (project / "a.txt").read_text(encoding="utf-8") == "one"
        assert not (project / "b.txt").exists()
        behind = terminal.until("Previous branch: alhena --resume ")
        if plain:
            terminal.until("The prompt was:\nmake two")
            terminal.send("make two" + ENTER)
        else:
            terminal.until("\n> make two\n")
            terminal.until("20% context")
            terminal.send(ENTER)
        terminal.until("Another two.")
        assert "gemini-3.6-flash" in server.requests[-1].path
        assert said(server).count("make two") == 1
        assert "Made one." in said(server)
        assert "Made two." not in said(server)
        old = behind.split("alhena --resume ")[1].split()[0]
        terminal.send("/resume" + ENTER)
        terminal.until("Resume a session")
        terminal.send(("1" if plain else "make one") + ENTER)
        terminal.until(f"Resumed session {old}.")
        terminal.send("go on" + ENTER)
        terminal.until("After two.")
        assert "Made three." in said(server)
        assert "Another two." not in said(server)
        terminal.send("/resume" + ENTER)
        terminal.until(f"fork of {old[:8]}")
        if plain:
            terminal.send("\x04")
            assert terminal.ended() == 0
        else:
            terminal.send(ESC)
            terminal.until(PLACEHOLDER, gone="1 of 1")
            leave(terminal)


@pytest.mark.requirement("TERM-04")
async def test_files_go_back_alone_or_stay_also_from_a_fork(project: Path):
    (project / "a.txt").write_text("old", encoding="utf-8")
    generator = ScriptedGenerator(
        writing("one"), [text("A.")], writing("two"), [text("B.")], [text("C.")], [text("D.")]
    )
    screen = ListScreen("second", "Conversation only", "first", "Files only", "first", "and files")
    async with sitting(generator, screen, **ON) as conversation:
        first = conversation.agent.session_id
        for each in ("first", "second", "/rewind", "third"):
            conversation.submit(each)
        await screen.until(lambda: "|C.|" in screen.text)
        assert screen.drafts == ["second"]
        assert (project / "a.txt").read_text(encoding="utf-8") == "two"
        assert "A." in str(generator.seen(4))
        assert "second" not in str(generator.seen(4))
        fork = conversation.agent.session_id
        conversation.submit("/rewind")
        await screen.until(lambda: "Left as it is: a.txt" in screen.text)
        conversation.submit("fourth")
        await screen.until(lambda: "|D.|" in screen.text)
        assert conversation.agent.session_id == fork != first
        conversation.submit("/rewind")
        await screen.until(lambda: 'Back before "first' in screen.text)
        assert screen.drafts == ["second", "first"]
        assert "first" not in str(conversation.agent.history)
        shown = await finished(conversation, screen)
    assert f"alhena --resume {fork}" in shown


@pytest.mark.requirement("TERM-04")
async def test_while_something_runs_it_is_refused_and_without_prompts_there_is_nothing():
    screen = ListScreen()
    generator = Held([text("Slow", None), text(" answer.")])
    async with sitting(generator, screen) as conversation:
        conversation.submit("/rewind")
        await screen.until(lambda: "Nothing to rewind." in screen.text)
        conversation.submit("slow")
        await generator.reached.wait()
        conversation.submit("/rewind")
        assert "! /rewind: something is running. Esc interrupts it." in screen.text
        assert screen.menus == []
        generator.go.set()
        await screen.until(lambda: "Slow answer." in screen.text)


@pytest.mark.requirement("TERM-04")
async def test_the_changes_of_all_prompts_since_are_undone(project: Path):
    (project / "a.txt").write_text("old", encoding="utf-8")
    generator = ScriptedGenerator(writing("one"), [text("A.")], writing("two"), [text("B.")])
    screen = ListScreen("first", "and files")
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "first\nand more", "second", "/rewind")
    assert [each.label for each in screen.menus[0].options] == ["second", "first and more"]
    assert screen.drafts == ["first\nand more"]
    assert shown.count("Put back: a.txt") == 1
    assert (project / "a.txt").read_text(encoding="utf-8") == "old"


@pytest.mark.requirement("TERM-04")
async def test_a_fork_can_undo_what_it_has_from_before(project: Path):
    generator = ScriptedGenerator(writing("new"), [text("A.")], [text("B.")])
    screen = ListScreen("second")
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "first", "second", "/rewind", "/undo")
    assert "Removed: a.txt" in shown
    assert not (project / "a.txt").exists()


async def test_prompts_that_a_restore_has_taken_back_are_not_offered(project: Path):
    generator = ScriptedGenerator(writing("one"), [text("A.")], writing("two"), [text("B.")])
    screen = ListScreen(None, None)
    async with sitting(generator, screen, **ON) as conversation:
        await finished(conversation, screen, "first", "second", "/restore 1", "/rewind")
    assert [each.label for each in screen.menus[-1].options] == ["first"]


async def test_a_command_goes_before_prompts_that_were_kept():
    generator = Held([text("Slow", None), text(" answer.")], [text("B.")], [text("C.")])
    screen = ListScreen("Keep", "slow")
    async with sitting(generator, screen) as conversation:
        conversation.submit("slow")
        await generator.reached.wait()
        conversation.submit("later")
        conversation.interrupt()
        await screen.until(lambda: len(screen.menus) == 1 and screen.status.kept)
        conversation.submit("/rewind")
        await screen.until(lambda: screen.drafts == ["slow"])
        assert screen.status.queued == ("later",)
        assert screen.status.kept
        conversation.submit("")
        await screen.until(lambda: "|B.|" in screen.text)
    assert "slow" not in str(generator.seen(1))


@pytest.mark.requirement("TERM-04")
async def test_without_checkpoints_only_the_conversation_goes_back(project: Path):
    screen = ListScreen("go")
    generator = ScriptedGenerator(writing("new"), [text("Done.")])
    without = {name: value for name, value in ON.items() if name != "settings"}
    async with sitting(generator, screen, **without) as conversation:
        shown = await finished(conversation, screen, "go", "/rewind")
    assert "Files stay as they are: there are no checkpoints" in shown
    assert len(screen.menus) == 1
    assert (project / "a.txt").read_text(encoding="utf-8") == "new"
