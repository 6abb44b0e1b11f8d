"""/diff, the rows it comes from, and menus that are left."""

import threading
from pathlib import Path

from tests.frontends.terminal.session import ENTER, ESC, PLACEHOLDER, answer, at, leave
from tests.frontends.terminal.test_waiting_questions import several, write
from tests.support.server import ScriptedServer, sse, text

PASTE = "\x1b[200~{}\x1b[201~"


def test_changes_are_listed_by_file_and_folded(server: ScriptedServer, project: Path):
    many = "".join(f"line {number}\n" for number in range(60))
    server.reply(
        several(write("/etc/none/a"), write("big", many), write("small", "one\n")),
        sse(text("Done.")),
    )
    with at(server, "--yolo", "--skip-trust", rows=60) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        terminal.until("3 calls (1 failed)")
        assert "✗ Write /etc/none/a · outside the workspace" in terminal.screen.text
        terminal.send("/diff" + ENTER)
        end = "      40 + line 39\n  … 20 more lines · Ctrl-O\nsmall  +1 -0  new file\n  … 1 more line"
        terminal.until(end)
        terminal.send("/rewind" + ENTER)
        terminal.until("1 of 1")
        terminal.send(ESC)
        terminal.until("Nothing changed.")
        leave(terminal)


def test_a_paste_that_waits_is_shown_by_its_mark(server: ScriptedServer, project: Path):
    held = sse(text("Half", None), text(" of it."), hold=threading.Event())
    server.reply(held, sse(text("All.")))
    pasted = "".join(f"line {number}\n" for number in range(30))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        terminal.until("Half")
        terminal.send(PASTE.format(pasted))
        terminal.until("[pasted 30 lines]")
        terminal.send(ENTER)
        terminal.until("queued: [pasted 30 lines]  (goes in")
        terminal.send(ESC)
        terminal.until("1/y Send now: [pasted 30 lines]")
        answer(terminal, "y" + ENTER)
        terminal.until("┃ > [pasted 30 lines]\n")
        terminal.until("All.")
        leave(terminal)
    assert pasted.strip().replace("\n", "\\n") in server.requests[-1].body.decode()


def test_keys_that_a_low_window_has_no_room_for_are_counted(server: ScriptedServer):
    with at(server, rows=12) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("?")
        terminal.until("… 7 more keys · Enter: all keys and commands")
        terminal.send("\x7f")
        terminal.until(PLACEHOLDER, gone="more keys")
        leave(terminal)


def test_undone_changes_and_those_of_other_sessions_are_not_listed(
    server: ScriptedServer, project: Path
):
    none = "No changes by this session. Edits it makes are listed here."
    server.reply(several(write("kept", "1\n")), sse(text("Kept.")))
    server.reply(several(write("kept", "2\n"), write("new", "one\n")), sse(text("Done.")))
    with at(server, "--yolo", "--skip-trust", rows=60) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        terminal.until("Kept.")
        terminal.send("again" + ENTER)
        terminal.until("Done.")
        terminal.send("/undo" + ENTER)
        terminal.until("The edits of the last turn are undone.")
        terminal.send("/diff" + ENTER)
        terminal.until("> /diff\n\nkept  +1 -0  new file\n       1 + 1\n\n> ")
        (project / "kept").write_text("mine\n", encoding="utf-8")
        terminal.send("/diff" + ENTER)
        terminal.until("kept  +1 -0  new file  changed since\n")
        terminal.send("/clear" + ENTER)
        terminal.until("Started a new conversation.")
        terminal.send("/diff" + ENTER)
        terminal.until(none)
        leave(terminal)


def test_a_resumed_session_lists_its_changes(server: ScriptedServer, project: Path):
    server.reply(several(write("a", "1\n"), write("b", "1\n")), sse(text("Done.")))
    with at(server, "--yolo", "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("go" + ENTER)
        terminal.until("Done.")
        leave(terminal)
    (project / "b").unlink()
    server.reply(several(write("a", "1\n2\n")), sse(text("More.")))
    with at(server, "--yolo", "--skip-trust", "--continue", rows=60) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("/diff" + ENTER)
        terminal.until("> /diff\n\na  +1 -0\n       1 + 1\nb  +1 -0  no such file now\n")
        terminal.send("again" + ENTER)
        terminal.until("More.")
        terminal.send("/diff" + ENTER)
        terminal.until("> /diff\n\na  +2 -0\n       1 + 1\n       1   1\n       2 + 2\nb  +1 -0")
        leave(terminal)
