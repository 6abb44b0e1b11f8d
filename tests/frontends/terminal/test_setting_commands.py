"""Commands that change settings of a session, or copy and write what is in it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, leave
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text

LONG = "A long answer. " * 10


@pytest.mark.requirement("TERM-06")
async def test_the_last_answer_is_copied_through_the_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    screen = ListScreen()
    async with sitting(ScriptedGenerator([text(LONG)]), screen) as conversation:
        conversation.submit("/copy")
        conversation.submit("hello")
        await screen.until(lambda: "1 turn" in screen.text)
        shown = await finished(conversation, screen, "/copy")
    assert "Nothing to copy yet." in shown
    assert f"Copied {len(LONG)} characters by the terminal." in shown
    [sequence] = screen.sequences
    data = sequence.removeprefix("\x1b]52;c;").removesuffix("\x07")
    assert base64.b64decode(data).decode() == LONG


async def test_a_program_of_this_machine_copies_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    program = tmp_path / "bin" / "pbcopy"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n/bin/cat > {tmp_path}/copied\n", encoding="utf-8")
    program.chmod(0o755)
    for name in ("SSH_TTY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    screen = ListScreen()
    async with sitting(ScriptedGenerator([text("Fine.")]), screen) as conversation:
        monkeypatch.setenv("PATH", str(program.parent))
        conversation.submit("hello")
        await screen.until(lambda: "1 turn" in screen.text)
        conversation.submit("/copy")
        await screen.until(lambda: "Copied" in screen.text)
        shown = screen.text
    assert "by pbcopy" in shown
    assert (tmp_path / "copied").read_text(encoding="utf-8") == "Fine."
    assert screen.sequences == []


@pytest.mark.requirement("TERM-01")
async def test_a_setting_is_changed_by_a_menu_and_comments_stay(home: Path):
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{\n  // mine\n  "ui": {"hideFooter": false}\n}\n', encoding="utf-8")
    screen = ListScreen("ui.hideFooter", "true")
    async with sitting(ScriptedGenerator(), screen) as conversation:
        shown = await finished(conversation, screen, "/settings footer")
        assert "ui.hideFooter is true in" in shown
        assert all("ooter" in each.label for each in screen.menus[0].options)
        assert screen.settings.ui.hide_footer
    written = file.read_text(encoding="utf-8")
    assert "// mine" in written
    assert '"hideFooter": true' in written


async def test_a_setting_is_changed_by_name_and_value(home: Path):
    file = home / ".gemini" / "settings.json"
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        shown = await finished(
            conversation,
            screen,
            "/settings ui.theme GitHub",
            "/settings model.maxSessionTurns 7",
            "/settings general.vimMode perhaps",
            "/settings nothing-like-that",
        )
    assert "ui.theme is GitHub in" in shown
    assert "It takes effect in the next session." in shown
    assert "'perhaps' is no value of general.vimMode. Its values: true, false." in shown
    assert "No setting has 'nothing-like-that' in its name." in shown
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written == {"ui": {"theme": "GitHub"}, "model": {"maxSessionTurns": 7}}


async def test_settings_name_their_layer_and_can_be_reset(home: Path):
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text('{"ui": {"hideFooter": true, "theme": "ANSI"}}', encoding="utf-8")
    screen = ListScreen("ui.hideFooter: true", "Reset", "ui.hideFooter: false", "true")
    async with sitting(ScriptedGenerator(), screen) as conversation:
        shown = await finished(
            conversation,
            screen,
            "/settings hideFooter",
            "/settings hideFooter",
            "/settings reset ui.theme",
        )
    assert [each.options[0].detail for each in screen.menus if ": " in each.options[0].label] == [
        "(user)",
        "(built-in)",
    ]
    assert "ui.hideFooter is not in" in shown
    assert "any more; it is false (built-in)." in shown
    assert json.loads(file.read_text(encoding="utf-8")) == {"ui": {"hideFooter": True}}


@pytest.mark.requirement("TERM-01")
def test_a_directory_is_added_before_the_first_prompt_and_after_it(
    server: ScriptedServer, home: Path, tmp_path: Path
):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "b.txt").write_text(f"in {folder.name}\n", encoding="utf-8")

    def writing(folder: Path) -> Any:
        args = {"file_path": str(folder / "b.txt"), "content": "changed"}
        return sse(chunk(call("write_file", args), finish="STOP"))

    server.reply(writing(first), sse(text("one")), writing(second), sse(text("two")))
    with at(server, "--yolo", "--skip-trust", columns=200) as terminal:
        terminal.until("/help lists")
        terminal.send(f"/directory add {first}" + ENTER)
        terminal.until(f"Added {first} to the workspace.")
        terminal.send("write" + ENTER)
        terminal.until("2 turns")
        terminal.send(f"/directory add {second}" + ENTER)
        terminal.until(f"Added {second} to the workspace.")
        terminal.send("again" + ENTER)
        terminal.until("2 turns", times=2)
        assert (second / "b.txt").read_text(encoding="utf-8") == "changed"
        terminal.send("/directory" + ENTER)
        assert str(first) in terminal.until(f"\n{second}\n")
        leave(terminal)
    assert (first / "b.txt").read_text(encoding="utf-8") == "changed"
    assert f"{second} belongs to the workspace" in server.requests[2].body.decode()


async def test_a_directory_that_is_missing_is_named(tmp_path: Path):
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        shown = await finished(conversation, screen, "/directory add nope", "/directory nope")
    assert "✗ There is no directory" in shown
    assert "Usage: /directory show, or /directory add DIR" in shown


@pytest.mark.requirement("TERM-01")
async def test_plan_tasks_about_and_documentation():
    todos = [{"description": "first", "status": "in_progress"}]
    generator = ScriptedGenerator(
        [chunk(call("write_todos", {"todos": todos}), finish="STOP")], [text("ok")]
    )
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.submit("/todos")
        conversation.submit("go")
        await screen.until(lambda: "2 turns" in screen.text)
        shown = await finished(conversation, screen, "/todos", "/about", "/bug", "/docs", "/plan")
        assert conversation.toolset.authority.modes.mode == "plan"
    assert "No tasks. The model lists them for longer work." in shown
    assert shown.count("[»] first") == 2
    assert shown.count("version    alhena") == 2
    folder = shown.partition("Documentation: ")[2].partition(". The model")[0]
    assert (Path(folder) / "terminal.md").is_file()


async def test_init_asks_the_model_for_a_memory_file_unless_there_is_one(project: Path):
    generator = ScriptedGenerator([text("done")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.submit("/init")
        await screen.until(lambda: "1 turn" in screen.text)
        assert "write a GEMINI.md" in str(generator.requests[0])
        (project / "GEMINI.md").write_text("x", encoding="utf-8")
        shown = await finished(conversation, screen, "/init")
    assert "There is already a file GEMINI.md here." in shown
    assert len(generator.requests) == 1


@pytest.mark.parametrize("word", ["exit", ":q", "quit"])
def test_words_of_other_programs_leave(server: ScriptedServer, word: str):
    with at(server) as terminal:
        terminal.until("/help lists")
        terminal.send(word + ENTER)
        assert terminal.ended() == 0
    assert server.requests == []


def test_the_conversation_is_exported(server: ScriptedServer, project: Path):
    server.reply(sse(text("Fine.")))
    with at(server) as terminal:
        terminal.until("/help lists")
        terminal.send("hello" + ENTER)
        terminal.until("1 turn")
        terminal.send("/export talk.md" + ENTER)
        terminal.until("Written to")
        terminal.until(PLACEHOLDER)
        leave(terminal)
    written = (project / "talk.md").read_text(encoding="utf-8")
    assert "hello" in written
    assert "Fine." in written


async def test_a_fact_is_added_to_the_memory_of_the_person(home: Path):
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        shown = await finished(conversation, screen, "/memory add I like tabs.")
    assert "Saved in" in shown
    assert "- I like tabs." in (home / ".gemini" / "GEMINI.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("way_out", ["!", "Esc"])
async def test_a_lone_exclamation_mark_opens_shell_mode(way_out: str):
    screen = ListScreen()
    async with sitting(ScriptedGenerator([text("Hello.")]), screen) as conversation:
        conversation.submit("!")
        await screen.until(lambda: "Shell mode: each line is a command." in screen.text)
        conversation.submit("echo in-the-$((40 + 2))")
        await screen.until(lambda: "in-the-42" in screen.text)
        if way_out == "!":
            conversation.submit("!")
        else:
            await screen.until(lambda: conversation.interrupt() and "off." in screen.text)
        await screen.until(lambda: "Shell mode off." in screen.text)
        conversation.submit("hello")
        await screen.until(lambda: "Hello." in screen.text)
