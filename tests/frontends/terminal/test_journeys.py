"""The main journeys at the terminal, screen by screen, as snapshots/*.txt has them."""

import difflib
import json
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pexpect
import pytest

from alhena.frontends.terminal.drawing.live_region import SPINNER
from alhena.version import __version__
from tests.frontends.terminal.session import (
    CTRL_C,
    CTRL_R,
    ENTER,
    ESC,
    PLACEHOLDER,
    answer,
    at,
    calling,
)
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, json_reply, sse, text
from tests.support.terminal import Terminal

STILL_S = 20.0
"""Seconds without a change after which a screen is not going to be the expected one."""
WRITTEN_S = 1.5
"""Seconds without a change after which a screen is written."""
RULE = "── "
VARIABLE = (
    # A row has the time of a call that took a second, which is a matter of the machine.
    (re.compile(r"(?<=Shell less notes\.txt) · \d+(\.\d+)? s\b"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d_-]+Z"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<=KiB · )[0-9a-f]{8}"), "ID"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "N s"),
    (re.compile(f"[{SPINNER}]"), "⠿"),
    (re.compile(r"[\d,]+ tokens in, [\d,]+ out"), "N tokens in, N out"),
    (re.compile(r"/tmp/alhena-\w{8}"), "/tmp/alhena-00000000"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://SERVER"),
    (re.compile(re.escape(__version__)), "VERSION"),
)


class Snapshots:
    """The screens of a session, in order, in one file."""

    def __init__(self, path: Path, *, write: bool) -> None:
        self._path = path
        self._write = write
        self._left = {} if write else _parsed(path.read_text(encoding="utf-8"))
        self._taken: list[str] = []

    def take(
        self, terminal: Terminal, name: str, *, last: int | None = None, styled: bool = False
    ) -> None:
        """Waits until the screen, or its `last` rows, is as in the file; fails once it stays
        otherwise. `styled` also shows the colours."""
        expected = None if self._write else self._left.pop(name, "(no snapshot of this name)")
        shown, since = "", time.monotonic()
        limit = WRITTEN_S if self._write else STILL_S
        while True:
            before, shown = shown, steady(terminal, last, styled=styled)
            if shown == expected:
                return
            if shown != before:
                since = time.monotonic()
            left = since + limit - time.monotonic()
            if left <= 0 or not _read(terminal, left):
                break
        if expected is None:
            self._taken.append(f"{RULE}{name}\n{shown}\n")
            return
        lines = difflib.unified_diff(expected.split("\n"), shown.split("\n"), name, "screen")
        raise AssertionError(
            f"{self._path.name}: " + "\n".join(lines) + "\nAs intended? Use --write-snapshots."
        )

    def close(self) -> None:
        """Writes the file, or checks that all its screens were seen."""
        if self._write:
            self._path.write_text("".join(self._taken), encoding="utf-8")
        assert not self._left, f"{self._path.name}: never shown: {', '.join(self._left)}"


def steady(terminal: Terminal, last: int | None, *, styled: bool) -> str:
    """The screen in view without what differs from run to run."""
    rows = terminal.screen.styled if styled else terminal.screen.shown
    text = "\n".join("\n".join(rows).strip("\n").split("\n")[-last if last else None :])
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text


def _read(terminal: Terminal, seconds: float) -> bool:
    """Takes what the program writes next; False when it writes nothing, or has ended."""
    try:
        terminal.take(seconds)
    except (pexpect.TIMEOUT, pexpect.EOF):
        return False
    return True


def _parsed(text: str) -> dict[str, str]:
    parts = text.split(f"\n{RULE}")
    parts[0] = parts[0].removeprefix(RULE)
    named = (part.partition("\n") for part in parts)
    return {name: screen.removesuffix("\n") for name, _, screen in named}


CTRL_L, CTRL_O, DOWN = "\x0c", "\x0f", "\x1b[B"
FOLDER = Path(__file__).parent / "snapshots"
READY = "default  m"
ANSWER = """\
## Two ways

Use `git rebase` or **merge**:

| way | keeps |
|---|---|
| rebase | a straight line |
| merge | all *commits* |

```python
def keep(line):
    return line  # as it is
```

- [x] read the log
- [ ] choose
"""


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in a home directory whose name is as long in all runs."""
    with TemporaryDirectory(prefix="alhena-", dir="/tmp", ignore_cleanup_errors=True) as home:
        folder = Path(home).resolve() / "work"
        folder.mkdir()
        monkeypatch.setenv("HOME", str(folder.parent))
        monkeypatch.chdir(folder)
        yield folder


@pytest.fixture
def snapshots(request: pytest.FixtureRequest) -> Iterator[Snapshots]:
    """The screens of a test, in the file of its name."""
    name = re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).rstrip("_")
    write = bool(request.config.getoption("--write-snapshots"))
    taking = Snapshots(FOLDER / f"{name}.txt", write=write)
    yield taking
    taking.close()


def test_first_start(snapshots: Snapshots, work: Path):
    with Terminal(HTTPS_PROXY="http://127.0.0.1:9") as terminal:
        terminal.until("No API key found")
        terminal.until("↑/↓ select")
        snapshots.take(terminal, "a way to a model is chosen")
        terminal.send("1")
        terminal.until("API key (hidden):")
        snapshots.take(terminal, "a key is asked for")
        terminal.send(ESC)
        answer(terminal, "4")
        terminal.until(PLACEHOLDER)
        snapshots.take(terminal, "the demo is ready")
        terminal.send("hello" + ENTER)
        terminal.until("1 turn")
        snapshots.take(terminal, "the demo answers", last=17)


def test_model(snapshots: Snapshots, work: Path, server: ScriptedServer):
    models = [
        {"name": f"models/gemini-{each}", "supportedGenerationMethods": ["generateContent"]}
        for each in ("one", "two", "three")
    ]
    server.reply(json_reply({"models": models}))
    with at(server, "--skip-trust") as terminal:
        terminal.until(READY)
        terminal.send("/model" + ENTER)
        terminal.until("3 of 3")
        snapshots.take(terminal, "models")
        terminal.send("tw")
        terminal.until("1 of")
        snapshots.take(terminal, "searched", last=4)
        terminal.send(ENTER)
        terminal.until("> For this session")
        snapshots.take(terminal, "for how long", last=5)
        terminal.send(ENTER)
        terminal.until("Model: gemini-two.")
        snapshots.take(terminal, "chosen", last=4)


def test_trust(snapshots: Snapshots, work: Path, server: ScriptedServer):
    (work / "GEMINI.md").write_text("Be brief.\n", encoding="utf-8")
    (work / ".gemini").mkdir()
    settings = {
        "mcpServers": {"notes": {"command": "notes-server", "args": ["--local"]}},
        "hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "./hello"}]}]},
    }
    (work / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    with at(server) as terminal:
        terminal.until("↑/↓ select")
        snapshots.take(terminal, "the question")
        answer(terminal, "n")
        terminal.until(READY)
        terminal.send("/memory" + ENTER)
        snapshots.take(terminal, "memory of a folder that is not trusted", last=11)
        terminal.send("/trust" + ENTER)
        terminal.until("↑/↓ select")
        snapshots.take(terminal, "the question again", last=10)


def test_confirmations(snapshots: Snapshots, work: Path, tmp_path: Path, server: ScriptedServer):
    (work / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    args = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    server.reply(
        calling("replace", args),
        calling("run_shell_command", {"command": "touch b.txt && rm -rf build"}),
        calling("write_file", {"file_path": "c.txt", "content": "by machine\n"}),
        sse(text("All done.")),
    )
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "by hand" > "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    with at(server, "--skip-trust", EDITOR=str(editor)) as terminal:
        terminal.until(READY)
        terminal.send("change it" + ENTER)
        terminal.until("↑/↓ select")
        snapshots.take(terminal, "an edit")
        answer(terminal, "y")
        terminal.until("No, and say why")
        snapshots.take(terminal, "a command", last=15)
        answer(terminal, "n")
        terminal.until("What should the model do instead?")
        terminal.send("leave build")
        snapshots.take(terminal, "the reason", last=4)
        terminal.send(ENTER)
        terminal.until("+ by machine")
        answer(terminal, "e")
        terminal.until("+ by hand")
        snapshots.take(terminal, "edited by hand", last=12)
        answer(terminal, "y")
        terminal.until("All done.")
        terminal.until(PLACEHOLDER)
        snapshots.take(terminal, "afterwards", last=8)


def test_interrupts(snapshots: Snapshots, work: Path, server: ScriptedServer):
    never = threading.Event()
    busy = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    server.reply(
        sse(text("never"), hold=never),
        sse(text("Once upon", None), text(" a time"), hold=never),
        calling("run_shell_command", {"command": "echo begun; sleep 60"}),
        json_reply(busy, 503, headers={"retry-after": "50"}),
    )
    with at(server, "--yolo", "--skip-trust", rows=40) as terminal:
        terminal.until("yolo  m")
        for prompt, seen in (
            ("think", "Thinking"),
            ("tell", "Once upon"),
            ("run", "│ begun"),
            ("again", "Trying again"),
        ):
            terminal.send(prompt + ENTER)
            terminal.until(seen)
            terminal.send(ESC)
            terminal.until(PLACEHOLDER, gone=seen if prompt in ("think", "again") else "")
        terminal.send(CTRL_C)
        terminal.until("Press Ctrl+C again to exit.")
        snapshots.take(terminal, "all four, and the first Ctrl-C")
        terminal.send(CTRL_C)
        assert terminal.ended() == 0
        snapshots.take(terminal, "left", last=2)


def test_pager(snapshots: Snapshots, work: Path, server: ScriptedServer):
    server.reply(
        calling("run_shell_command", {"command": "seq 40"}), sse(text("Forty.")), sse(text("Two."))
    )
    with at(server, "--yolo", "--skip-trust", rows=10) as terminal:
        terminal.until("yolo  m")
        terminal.send("count" + ENTER)
        terminal.until("1 call")
        terminal.until(PLACEHOLDER)
        snapshots.take(terminal, "the end of a long output")
        terminal.send(CTRL_O)
        terminal.until("seq 40")
        snapshots.take(terminal, "all of it")
        terminal.send("/33" + ENTER)
        terminal.until("33")
        snapshots.take(terminal, "searched")
        terminal.send("q")
        terminal.until(PLACEHOLDER)
        snapshots.take(terminal, "back", last=5)


def test_resume(snapshots: Snapshots, work: Path, server: ScriptedServer):
    server.reply(*(sse(text(f"Answer {number}.")) for number in range(3)))
    for prompt in ("fix the parser", "write the docs"):
        assert alhena("-m", "m", "-p", prompt, **keyed(server)).code == 0
    with at(server, "--skip-trust") as terminal:
        terminal.until(READY)
        terminal.send("/resume" + ENTER)
        terminal.until("2 of 2")
        snapshots.take(terminal, "sessions")
        terminal.send("parser")
        terminal.until("1 of 2")
        terminal.send(ENTER)
        terminal.until("Resumed session ")
        snapshots.take(terminal, "resumed")


def test_queue(snapshots: Snapshots, work: Path, server: ScriptedServer):
    server.reply(sse(text("Once upon", None), text(" a time"), hold=threading.Event()))
    with at(server, "--skip-trust") as terminal:
        terminal.until(READY)
        for prompt, seen in (
            ("tell", "Once upon"),
            ("shorter", "queued: shorter"),
            ("in French", "queued: in French"),
        ):
            terminal.send(prompt + ENTER)
            terminal.until(seen)
        snapshots.take(terminal, "two wait", last=6)
        terminal.send(ESC)
        snapshots.take(terminal, "the question", last=8)
        terminal.until("↑/↓ select")
        terminal.send("k")
        snapshots.take(terminal, "kept", last=6)


def test_rewind(snapshots: Snapshots, work: Path, server: ScriptedServer):
    args = {"file_path": "a.txt", "content": "one"}
    server.reply(
        calling("write_file", args), sse(text("Written.")),
        calling("write_file", args | {"content": "two"}), sse(text("Written again.")),
    )  # fmt: skip
    with at(server, "--yolo", "--skip-trust", "--checkpointing") as terminal:
        terminal.until("yolo  m")
        for runs, prompt in enumerate(("write one", "write two"), 1):
            terminal.send(prompt + ENTER)
            terminal.until("2 turns · 1 call", times=runs)
        terminal.send(ESC)
        terminal.until("Press Esc again")
        terminal.send(ESC)
        snapshots.take(terminal, "earlier prompts", last=8)
        terminal.send(ENTER)
        snapshots.take(terminal, "of what", last=8)
        terminal.send(ENTER)
        snapshots.take(terminal, "rewound", last=18)


@pytest.mark.skipif(not shutil.which("less"), reason="no less")
def test_full_screen_program(snapshots: Snapshots, work: Path, server: ScriptedServer):
    lines = "".join(f"note {number}\n" for number in range(1, 60))
    (work / "notes.txt").write_text(lines, encoding="utf-8")
    with at(server, "--skip-trust", rows=12, LESS="", LESSOPEN="") as terminal:
        terminal.until(READY)
        terminal.send("!less notes.txt" + ENTER)
        terminal.until("note 10")
        snapshots.take(terminal, "less")
        terminal.send("G")
        terminal.until("note 59")
        snapshots.take(terminal, "its end")
        terminal.send("q")
        terminal.until(PLACEHOLDER)
        snapshots.take(terminal, "back at the prompt", last=5)


def test_resize(snapshots: Snapshots, work: Path, server: ScriptedServer):
    hold = threading.Event()
    long = "A paragraph of many words that fills more than one row. " * 3
    server.reply(sse(text(f"{long}\n\n{long}", None), text("The end."), hold=hold))
    with at(server, "--skip-trust") as terminal:
        terminal.until(READY)
        terminal.send("tell" + ENTER)
        terminal.until("Answering")
        snapshots.take(terminal, "80 columns")
        terminal.resize(50, 24, reflow=True)
        snapshots.take(terminal, "50 columns", last=9)
        hold.set()
        terminal.until("The end.")
        snapshots.take(terminal, "the whole answer")


@pytest.mark.parametrize("columns", ["40", "60"])
def test_narrow(snapshots: Snapshots, work: Path, server: ScriptedServer, columns: str):
    change = {
        "file_path": "a",
        "content": "value = 'of a line that is longer than forty columns'\n",
    }
    tests = "printf '\\r10%%\\r\\033[32mok\\033[0m test_of_one\\n'; exit 3"
    server.reply(
        sse(text(ANSWER)),
        calling("write_file", change),
        calling("run_shell_command", {"command": tests}),
        sse(text("See [the log](https://example.org/log).")),
    )
    with at(server, "--skip-trust", columns=int(columns), rows=30) as terminal:
        terminal.until(READY)
        terminal.send("how?" + ENTER)
        terminal.until("1 turn")
        snapshots.take(terminal, "an answer")
        terminal.send("write" + ENTER)
        answer(terminal, "")
        snapshots.take(terminal, "a question", last=18)
        terminal.send("y" + ENTER)
        terminal.until("3 turns")
        snapshots.take(terminal, "a failed command", last=13, styled=True)
        terminal.send("/theme" + ENTER)
        terminal.until("20 of 20")
        snapshots.take(terminal, "themes", last=22)
        terminal.send(ESC)
        terminal.until("Nothing changed.")
        terminal.send("/chat ")
        terminal.until("1 of")
        snapshots.take(terminal, "completions", last=9)
        terminal.send(CTRL_C + CTRL_R + "writ")
        terminal.until("Search history: writ")
        terminal.send("zz")
        terminal.until("Search history (no match): writzz")
        assert terminal.screen.broken == []


@pytest.mark.parametrize("name", ["dark", "light", "none"])
def test_colours(snapshots: Snapshots, work: Path, server: ScriptedServer, name: str):
    server.reply(sse(text(ANSWER)), calling("write_file", {"file_path": "a", "content": "x = 1\n"}))
    environ = {"none": {"NO_COLOR": "1"}, "light": {"COLORFGBG": "0;15"}, "dark": {}}[name]
    with at(server, "--skip-trust", rows=30, **environ) as terminal:
        terminal.until(READY)
        terminal.send("how?" + ENTER)
        terminal.until("1 turn")
        terminal.send("write" + ENTER)
        terminal.until("↑/↓ select")
        snapshots.take(terminal, name, last=24, styled=True)


@pytest.mark.parametrize("name", ["screen_reader", "dumb"])
def test_lines(snapshots: Snapshots, work: Path, server: ScriptedServer, name: str):
    arguments: tuple[str, ...] = ("--screen-reader",) if name == "screen_reader" else ()
    call: dict[str, Any] = {"file_path": "a", "content": "x = 1\n"}
    long = "> A quotation of words that go on beyond forty columns.\n\n"
    server.reply(calling("write_file", call), sse(text(long + ANSWER)))
    term = "dumb" if name == "dumb" else "xterm"
    with at(server, "--skip-trust", *arguments, term=term, columns=40, rows=60) as terminal:
        terminal.until("and keys\n>")
        terminal.send("write it\n")
        terminal.until("Number (empty: no):")
        terminal.send("1\n")
        terminal.until("1 call")
        snapshots.take(terminal, "all")
        assert terminal.screen.broken == []
        assert "\x1b" not in terminal.raw
