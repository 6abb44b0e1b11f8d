"""Questions that wait together, that may be answered once only, and that are dismissed."""

from pathlib import Path

from tests.frontends.terminal.session import ENTER, ESC, PLACEHOLDER, answer, at, calling, leave
from tests.support.server import ScriptedServer, call, chunk, sse, text
from tests.support.terminal import Terminal


def several(*calls: tuple[str, dict[str, object]]):
    parts = (call(name, args, id=str(at)) for at, (name, args) in enumerate(calls))
    return sse(chunk(*parts, finish="STOP"))


def write(name: str, content: str = "1\n") -> tuple[str, dict[str, object]]:
    return "write_file", {"file_path": name, "content": content}


def press(terminal: Terminal, key: str, seen: str) -> None:
    """Answers the question that has `seen` in it, once keys count."""
    terminal.until(seen)
    while "↑/↓ select" not in "\n".join(terminal.screen.shown):
        terminal.take()
    terminal.send(key)


def test_questions_that_wait_together_are_counted(server: ScriptedServer, project: Path):
    (project / "a").write_text("")
    read = ("read_file", {"file_path": "a"})  # it is not asked about
    server.reply(
        several(write("x"), read, write("y"), ("run_shell_command", {"command": "rm a"})),
        several(write("u"), write("v")),
        sse(text("Done.")),
    )
    with at(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        press(terminal, "y" + ENTER, "? New file x  (1 of 3)")
        press(terminal, "y" + ENTER, "? New file y  (2 of 3)")
        press(terminal, "y" + ENTER, "? Run a command  (3 of 3)")
        press(terminal, "y" + ENTER, "? New file u  (1 of 2)")
        press(terminal, "y" + ENTER, "? New file v  (2 of 2)")
        terminal.until("Done.")
        leave(terminal)
    assert (project / "y").exists()
    assert not (project / "a").exists()


def test_a_question_names_the_subagent_whose_call_it_is(
    server: ScriptedServer, home: Path, project: Path
):
    agents = home / ".gemini" / "agents"
    agents.mkdir(parents=True)
    (agents / "fixer.md").write_text("---\nname: fixer\ndescription: Fixes.\n---\nHi")
    server.reply(
        several(("fixer", {"query": "x"})),
        several(write("a")),
        several(("complete_task", {"result": "fixed", "response": "fixed"})),
        sse(text("Done.")),
    )
    with at(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        press(terminal, "y" + ENTER, "? New file a  (fixer)")
        terminal.until("Done.")
        leave(terminal)
    assert (project / "a").exists()


def test_where_a_folder_is_not_trusted_an_edit_says_why_it_is_allowed_only_once(
    server: ScriptedServer, project: Path
):
    (project / "GEMINI.md").write_text("x")
    server.reply(several(write("a")), sse(text("Done.")))
    with at(server) as terminal:
        answer(terminal, "o" + ENTER)
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        terminal.until("1/y Yes, this once  folder not trusted; /trust offers more")
        press(terminal, "y" + ENTER, "3/n No, and say why")
        terminal.until("Done.")
        leave(terminal)


def test_esc_at_a_question_of_the_model_stops_the_turn(server: ScriptedServer):
    options = [{"label": "A", "description": ""}, {"label": "B", "description": ""}]
    asked = {"question": "Which\nof these?", "header": "H", "options": options}
    server.reply(calling("ask_user", {"questions": [asked, asked]}), sse(text("It goes on.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        press(terminal, ESC, "? Which  (1 of 2)\n  of these?\n")
        terminal.until("Stopped. What should be done instead?")
        assert "✓ Ask Which of these?, Which of these? (no answer)" in terminal.screen.text
        leave(terminal)
    assert len(server.requests) == 1
