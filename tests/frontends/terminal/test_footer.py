"""The footer's facts, the window's title, notifications and the keys of vi."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from alhena.config.settings import settings_of
from alhena.frontends.terminal.looks.attention import LONG_S, WAITING_S, Attention
from alhena.frontends.terminal.looks.footer import branch_of
from tests.frontends.terminal.session import ENTER, ESC, PLACEHOLDER, at, leave
from tests.frontends.terminal.test_looks import settled, until_raw
from tests.support.each import for_each
from tests.support.server import ScriptedServer, chunk, sse, text


def git(folder: Path, *words: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True)


def committed(folder: Path) -> None:
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("a\n", encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")


@pytest.mark.requirement("TERM-02")
def test_the_footer_shows_mode_model_directory_branch_and_sandbox(
    server: ScriptedServer, project: Path
):
    committed(project)
    server.reply(sse(text("Fine.")))
    with at(server, "--skip-trust", columns=200) as terminal:
        shown = terminal.until("(main)  no sandbox")
        assert "default  m  " in shown
        assert "project  (main)" in shown
        (project / "a.txt").write_text("b\n", encoding="utf-8")
        terminal.send("hi" + ENTER)
        terminal.until("(main*)  no sandbox")
        leave(terminal)


@pytest.mark.requirement("TERM-02")
def test_the_footer_shows_what_the_session_has_cost(server: ScriptedServer, home: Path):
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    prices = {"*": {"input": 10_000, "output": 10_000}}
    document = json.dumps({"model": {"prices": prices}})
    (folder / "settings.json").write_text(document, encoding="utf-8")
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 50, "totalTokenCount": 150}
    server.reply(sse(chunk({"text": "Fine."}, finish="STOP", usage=usage)))
    with at(server, columns=200) as terminal:
        terminal.until("no sandbox")
        assert "$" not in terminal.screen.shown[-1]
        terminal.send("hi" + ENTER)
        terminal.until("no sandbox  $1.50")
        leave(terminal)


def test_a_branch_is_read_without_git(tmp_path: Path):
    assert branch_of(tmp_path) == ""
    committed(tmp_path)
    inner = tmp_path / "src" / "deep"
    inner.mkdir(parents=True)
    assert branch_of(inner) == "main"
    git(tmp_path, "worktree", "add", "-q", "-b", "other/one", "tree")
    assert branch_of(tmp_path / "tree") == "other/one"
    git(tmp_path, "checkout", "-q", "--detach")
    assert len(branch_of(tmp_path)) == 8


def test_a_command_adds_its_first_line_to_the_footer(
    server: ScriptedServer, home: Path, project: Path
):
    committed(project)
    settled(home, statusLine="cat > told.json; printf 'my line\\nmore'")
    with at(server, columns=200) as terminal:
        shown = terminal.until("no sandbox  my line")
        assert "more" not in shown
        leave(terminal)
    told = json.loads((project / "told.json").read_text(encoding="utf-8"))
    assert told["branch"] == "main"
    assert told["model"] == "m"
    assert told["cwd"] == str(project)
    assert (told["tokens"], told["context_percent"]) == (0, 0.0)
    assert told["session_id"]


@for_each(
    ("ui", "gone"),
    [
        ({"footer": {"hideCWD": True}}, "project"),
        ({"footer": {"hideModelInfo": True}}, "  m"),
        ({"footer": {"hideSandboxStatus": True}}, "sandbox"),
        ({"hideFooter": True}, "project"),
    ],
)
def test_parts_of_the_footer_can_be_left_out(
    ui: dict[str, object], gone: str, server: ScriptedServer, home: Path
):
    settled(home, **ui)
    with at(server, columns=200) as terminal:
        terminal.until("/help lists")
        terminal.until("default")
        terminal.send("x")
        terminal.until("> x")
        assert gone not in terminal.screen.shown[-1]
        terminal.send("\x7f")
        leave(terminal)


class Hand:
    """Time that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> "Due":
        entry = (self.now + delay, callback)
        self.due.append(entry)
        return Due(self, entry)

    def go(self, seconds: float) -> None:
        self.now += seconds
        for entry in [each for each in self.due if each[0] <= self.now]:
            self.due.remove(entry)
            entry[1]()


class Due:
    """A timer of a Hand."""

    def __init__(self, hand: Hand, entry: tuple[float, Callable[[], None]]) -> None:
        self.hand, self.entry = hand, entry

    def cancel(self) -> None:
        if self.entry in self.hand.due:
            self.hand.due.remove(self.entry)


def attention(
    written: list[str], hand: Hand, environ: dict[str, str] | None = None, **general: object
) -> Attention:
    made = Attention(written.append, hand, environ or {}, Path("/work/site"))
    ui = {"hideWindowTitle": bool(general)}
    made.adopt(settings_of({"general": general, "ui": ui}, "test"))
    return made


@pytest.mark.requirement("TERM-06")
@for_each(
    ("method", "environ", "form"),
    [
        ("bell", {}, "\x07"),
        ("osc9", {}, "\x1b]9;TEXT\x07"),
        ("osc777", {}, "\x1b]777;notify;alhena;TEXT\x07"),
        ("auto", {"TERM_PROGRAM": "WezTerm"}, "\x1b]9;TEXT\x07"),
        ("auto", {"TERM": "rxvt-unicode-256color"}, "\x1b]777;notify;alhena;TEXT\x07"),
        ("auto", {"TERM": "xterm"}, "\x07"),
    ],
)
def test_a_question_that_waits_and_a_long_run_are_told(
    method: str, environ: dict[str, str], form: str
):
    written: list[str] = []
    hand = Hand()
    made = attention(written, hand, environ, enableNotifications=True, notificationMethod=method)
    made.asking(True)
    hand.go(WAITING_S - 1)
    made.asking(False)
    hand.go(WAITING_S)
    assert written == []
    made.asking(True)
    hand.go(WAITING_S)
    assert written == [form.replace("TEXT", "A question waits for your answer.")]
    made.asking(False)
    for seconds in (LONG_S - 1, LONG_S):
        written.clear()
        made.working("a thought")
        made.working("another")
        hand.go(seconds)
        made.working(None)
    assert written == [form.replace("TEXT", "The run has ended.")]


def test_nothing_is_told_unless_it_is_asked_for():
    written: list[str] = []
    hand = Hand()
    made = attention(written, hand, enableNotifications=False)
    made.asking(True)
    hand.go(WAITING_S)
    made.working("x")
    hand.go(LONG_S)
    made.working(None)
    assert written == []


def test_the_title_says_what_the_session_does():
    written: list[str] = []
    made = attention(written, Hand())
    made.working("a thought")
    made.asking(True)
    made.asking(False)
    made.working(None)
    made.close()
    titles = [each.removeprefix("\x1b]0;").removesuffix("\x07") for each in written]
    name = "alhena - site"
    assert titles == [name, f"* {name}", f"? {name}", f"* {name}", name, ""]


@pytest.mark.requirement("TERM-06")
def test_the_window_has_a_title_while_the_session_lasts(server: ScriptedServer):
    with at(server) as terminal:
        until_raw(terminal, "\x1b]0;alhena - project\x07")
        terminal.until(PLACEHOLDER)
        leave(terminal)
    assert "\x1b]0;\x07" in terminal.raw


@pytest.mark.requirement("TERM-06")
def test_the_keys_of_vi_move_and_edit(server: ScriptedServer, home: Path):
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text('{"general": {"vimMode": true}}', encoding="utf-8")
    server.reply(sse(text("Fine.")))
    with at(server) as terminal:
        terminal.until("/help lists")
        terminal.send("two words")
        terminal.until("> two words")
        terminal.until("[INSERT]  default")
        terminal.send(ESC)
        terminal.until("[NORMAL]  default")
        terminal.send("0dw")
        terminal.until("> words", gone="two")
        terminal.send("ione ")
        terminal.until("> one words")
        terminal.send(ENTER)
        terminal.until("Fine.")
        leave(terminal)
    assert server.requests[0].json["contents"][-1]["parts"][-1]["text"] == "one words"


@pytest.mark.requirement("TERM-06")
@pytest.mark.parametrize("said", ["flag", "setting"])
def test_a_screen_reader_gets_plain_lines_with_headings(
    server: ScriptedServer, home: Path, said: str
):
    settled(home, accessibility={"screenReader": said == "setting"})
    server.reply(sse(text("Fine **so** far.\n\nAnd more.\n\n- one\n\nThe end.")))
    with at(server, *(["--screen-reader"] if said == "flag" else [])) as terminal:
        terminal.until("keys\n>")
        terminal.send("hi\n")
        shown = terminal.until("1 turn")
        assert "Working.\n" in shown
        assert "Answer:\nFine **so** far." in shown
        assert shown.count("Answer:") == 1
        terminal.send("/quit\n")
        assert terminal.ended() == 0
    assert "\x1b[" not in terminal.raw
