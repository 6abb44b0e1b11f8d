"""Draws the screens of long sessions at several widths and in all modes, to be looked at.

`.venv/bin/python -m scripts.journeys FOLDER [MODE-COLUMNS ...]` writes FOLDER/MODE-COLUMNS.txt and
.html. Rows that the terminal had to break, and escape sequences of modes without any, are printed.
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pexpect
from scripts.screenshots import DARK, LIGHT, SHOP, Palette, picture
from tests.frontends.terminal.session import CTRL_C, CTRL_R, ENTER, ESC, calling
from tests.support.server import Reply, ScriptedServer, call, chunk, json_reply, sse, text
from tests.support.terminal import Terminal

MODES = ("dark", "light", "none", "reader", "dumb")
COLUMNS = (100, 60, 40)
LINES = ("reader", "dumb")
STILL_S, LONGEST_S, MARKER_S = 0.5, 1.5, 8.0
LINES_STILL_S, LINES_LONGEST_S = 1.6, 3.2
"""In modes of lines an answer counts when it is alone for a moment."""
ROWS = 40
DOWN, CTRL_O, PASTE = "\x1b[B", "\x0f", "\x1b[200~{}\x1b[201~"
ANSWER = """\
## Two ways to keep a branch up to date

Use `git rebase` or **merge**; both are described in \
[the manual of git](https://git-scm.com/docs/git-rebase), and *neither* loses a commit.

| way | what it keeps | when |
|---|---|---:|
| rebase | a straight line of commits, each with a new name | before 日本語 the push |
| merge | all commits as they are | 10,000 |

1. Fetch the branch: `git fetch origin main --prune --tags`
2. Choose:
   - a way that everybody on the team knows already
   - another one 👩‍👩‍👧 🇩🇪
3. Run the tests.

> A quotation that is long enough to be broken over two rows at least.

```python
def keep(line: str, width: int = 100) -> str:  # a comment that goes on and on beyond the width
    return line[:width]
```

- [x] read the log
- [ ] choose

---
"""
LONG = (
    "python3 -m build --workspace=packages/frontend --mode production --outDir dist/frontend "
    "&& npm test"
)
FILE = "".join(f"value_{n} = {n}  # the number {n}\n" for n in range(60))


class Step(NamedTuple):
    """One screen: `keys` are typed and `marker` waited for. `lines` are typed instead in modes of
    lines; None: there the step is left out. `replies` are the model's."""

    name: str
    keys: str
    marker: str = ""
    lines: str | None = ""
    replies: tuple[Reply, ...] = ()


def _error(code: int, status: str, message: str, **options: Any) -> Reply:
    error = {"code": code, "message": message, "status": status}
    return json_reply({"error": error}, code, **options)


def _said(prompt: str, marker: str, *replies: Reply) -> Step:
    return Step(prompt, prompt + ENTER, marker, prompt + "\n", replies)


def _models() -> Reply:
    names = ("3-pro-preview", "2.5-pro", "2.5-flash", "2.5-flash-lite")
    models = [
        {"name": f"models/gemini-{each}", "supportedGenerationMethods": ["generateContent"]}
        for each in names
    ]
    return json_reply({"models": models})


def first_start() -> Iterator[Step]:
    yield Step("start", "", "No API key found", "")
    yield Step("API key", "1", "API key (hidden)", "1\n")
    yield Step("back", ESC, "", "\n")
    yield Step("demo", "4", "", "4\n")
    yield _said("hello", "1 turn")


def trust() -> Iterator[Step]:
    yield Step("start", "", "trust", "")
    yield Step("details", "?", "", None)
    yield Step("not now", "n", "", "4\n")
    yield _said("/memory", "")
    yield _said("/mcp", "")
    yield _said("/hooks", "")


def looking() -> Iterator[Step]:
    """Lists and what the start says."""
    yield Step("start", "", "/help lists", "")
    yield Step("keys", "?", "", "?\n")
    yield Step("closed", CTRL_C, "", None)
    yield Step("commands", "/", "", None)
    yield Step("a command's values", CTRL_C + "/settings ui.theme ", "", None)
    yield Step("sub-commands", CTRL_C + "/chat ", "", None)
    yield Step("paths", CTRL_C + "look at @", "", None)
    yield Step("closed", CTRL_C, "", None)
    yield _said("/help", "")
    for name in (
        "/mcp", "/skills", "/agents", "/extensions", "/commands", "/hooks", "/memory", "/policies",
        "/tools", "/about", "/todos", "/tasks", "/undo", "/restore", "/chat list", "/directory",
        "/diff", "/bug", "/nonsense",
    ):  # fmt: skip
        yield _said(name, "")
    yield Step("/model", "/model" + ENTER, "4 of 4", "/model\n", (_models(),))
    yield Step("closed", ESC, "", "\n")
    yield _said("/theme", "")
    yield Step("a theme", DOWN * 6, "", None)
    yield Step("closed", ESC, "", "\n")
    yield _said("/settings", "")
    yield Step("closed", ESC, "", "\n")
    yield _said("/model set gemini-2.5-por", "", _models())
    yield Step("closed", ESC, "", "\n")


def working() -> Iterator[Step]:
    yield _said("How do I keep a branch?", "1 turn", sse(text(ANSWER)))
    write = {"file_path": "src/numbers_of_things.py", "content": FILE}
    read = chunk(
        call("read_file", {"file_path": "src/app.py"}, id="1"),
        call("grep_search", {"pattern": "def "}, id="2"),
        call("glob", {"pattern": "**/*.py"}, id="3"),
        call("list_directory", {"dir_path": "."}, id="4"),
        call("read_file", {"file_path": "src/missing.py"}, id="5"),
        finish="STOP",
    )
    change = {
        "file_path": "src/app.py",
        "old_string": "    return sum(prices)",
        "new_string": "    return sum(each * (1 - discount) for each in prices if each)",
    }
    yield Step(
        "an edit, folded", "Write the numbers" + ENTER, "details", "Write the numbers\n",
        (sse(read), calling("write_file", write), calling("run_shell_command", {"command": LONG}),
         calling("replace", change), sse(text("All is done."))),
    )  # fmt: skip
    yield Step("a draft", "and then", "", None)
    yield Step("no draft", "\x7f" * 8, "", None)
    yield Step("a wrong key", "z", "", "z\n")
    yield Step("details", "?", "", "?\n")
    yield Step("approved", "?", "", None)
    yield Step("a command", "y", "python3 -m", "1\n")
    yield Step("its details", "?", "", "?\n")
    yield Step("back", "?", "", None)
    yield Step("run; an edit", "y", "src/app.py", "1\n")
    yield Step("done", "y", " calls", "1\n")
    yield Step("pager", CTRL_O, "", None)
    yield Step("pager's list", "\x1b[D", "", None)
    yield Step("closed", "q", "", None)
    yield _said("/diff", "")
    yield _said("/stats", "")
    yield _said("/context", "")
    yield _said("/show", "")
    yield _said("/show 1", "")
    pasted = "".join(f"line {n} of a paste\n" for n in range(30))
    yield Step("a paste", PASTE.format(pasted), "pasted", None)
    yield Step("sent", ENTER, "1 turn", None, (sse(text("It is long.")),))
    yield Step("an earlier prompt", ESC + ESC, "", None)
    yield Step("of what", ENTER, "", None)
    yield Step("closed", ESC, "", None)
    yield Step("search", CTRL_R + "branch", "", None)
    yield Step("no match", "zz", "", None)
    yield Step("closed", CTRL_C + CTRL_C, "", None)
    yield _said("/rewind", "")
    yield Step("closed", ESC, "", "\n")
    yield _said("/trace", "")
    yield _said("/copy", "")
    yield _said("/chat save one", "")
    yield _said("/chat list", "")
    yield _said("/resume", "")
    yield Step("closed", ESC, "", "\n")


def failing() -> Iterator[Step]:
    yield _said(
        "unauthorized",
        "refused",
        _error(401, "UNAUTHENTICATED", "API key not valid. Please pass a valid API key."),
    )
    yield _said(
        "missing",
        "not found",
        _error(
            404,
            "NOT_FOUND",
            "models/m is not found for API version v1beta, or has no generateContent.",
        ),
    )
    limit = "You exceeded your current quota, please check your plan and billing details."
    yield _said(
        "limited", "Rate", _error(429, "RESOURCE_EXHAUSTED", limit, headers={"retry-after": "50"})
    )
    yield Step("stopped", ESC, "", CTRL_C)
    busy = "The model is overloaded. Please try again later."
    yield _said(
        "overloaded", "verloaded", _error(503, "UNAVAILABLE", busy, headers={"retry-after": "50"})
    )
    yield Step("stopped", ESC, "", CTRL_C)
    yield _said("safety", "1 turn", sse(text("It is", "SAFETY")))


def running() -> Iterator[Step]:
    """With --yolo."""
    sleep = "for n in 1 2 3; do echo working on part $n of the long job; done; sleep 4"
    tasks = {
        "todos": [
            {"description": "Read the log of the last month", "status": "completed"},
            {"description": "Write the numbers to a file", "status": "in_progress"},
            {"description": "Run the tests", "status": "pending"},
        ]
    }
    ask = {
        "questions": [
            {
                "question": "Which database should the service use?",
                "header": "Database",
                "type": "choice",
                "options": [
                    {"label": "SQLite", "description": "one file, no server"},
                    {
                        "label": "PostgreSQL",
                        "description": "a server of its own, for many writers at the same time",
                    },
                ],
            }
        ]
    }
    yield Step(
        "running",
        "Do the work" + ENTER,
        "working on",
        "Do the work\n",
        (
            calling("write_todos", tasks),
            calling("run_shell_command", {"command": sleep}),
            calling("ask_user", ask),
            sse(text("Done.")),
        ),
    )
    yield Step("be brief", "be brief" + ENTER, "", None)
    yield Step("/tasks", "/tasks" + ENTER, "", None)
    yield Step("a question", "", "", "")
    yield Step("answered", "1", "", "1\n")
    yield _said("!echo one; exit 3", "")
    yield Step("leaving", CTRL_C + CTRL_C, "", "/quit\n")


JOURNEYS: dict[str, tuple[Callable[[], Iterator[Step]], tuple[str, ...]]] = {
    "first start": (first_start, ("--skip-trust",)),
    "trust": (trust, ()),
    "looking": (looking, ("--skip-trust",)),
    "working": (working, ("--skip-trust",)),
    "failing": (failing, ("--skip-trust",)),
    "running": (running, ("--skip-trust", "--yolo")),
}


@contextmanager
def _place() -> Iterator[Path]:
    """A folder of work in a home directory made for it."""
    with tempfile.TemporaryDirectory(prefix="alhena-", ignore_cleanup_errors=True) as home:
        folder = Path(home) / "shop"
        (folder / "src").mkdir(parents=True)
        (folder / ".git").mkdir()
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (folder / "src" / "app.py").write_text(SHOP, encoding="utf-8")
        (folder / "src" / "a file of a long name, in several words.md").write_text("x\n")
        (folder / "GEMINI.md").write_text("Be brief.\n", encoding="utf-8")
        yield folder


def _settle(folder: Path, name: str) -> None:
    broken = {"mcpServers": {"docs": {"command": "/nowhere/at/all"}}}
    hook = {"SessionStart": [{"hooks": [{"type": "command", "command": "true"}]}]}
    at = folder if name == "trust" else folder.parent
    (at / ".gemini").mkdir(exist_ok=True)
    value: dict[str, Any] = {} if name == "first start" else dict(broken)
    if name == "trust":
        value |= {"hooks": hook}
    if name == "looking":
        value |= {"genral": {"vimMode": True}, "ui": {"theme": "Draculla"}}
    (at / ".gemini" / "settings.json").write_text(json.dumps(value), encoding="utf-8")


class Sheet:
    """The screens of one mode at one width."""

    def __init__(self, mode: str, columns: int) -> None:
        self.mode = mode
        self.columns = columns
        self.palette: Palette = LIGHT if mode == "light" else DARK
        self.text: list[str] = []
        self.pictures: list[str] = []
        self.faults: list[str] = []

    def draw(self) -> None:
        for name, (steps, arguments) in JOURNEYS.items():
            with _place() as folder, ScriptedServer() as server:
                _settle(folder, name)
                self._journey(name, steps(), arguments, folder, server)

    def _journey(
        self, name: str, steps: Iterator[Step], arguments: tuple[str, ...], folder: Path,
        server: ScriptedServer,
    ) -> None:  # fmt: skip
        environ = {
            "HOME": str(folder.parent),
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "PWD": str(folder),
        }
        environ |= {"GEMINI_MODEL": "gemini-3.8-flash", "BROWSER": "true"}
        environ |= {"none": {"NO_COLOR": "1"}, "light": {"COLORFGBG": "0;15"}}.get(self.mode, {})
        if name == "first start":
            del environ["GOOGLE_GEMINI_BASE_URL"]
            environ["HTTPS_PROXY"] = "http://127.0.0.1:9"
        else:
            environ["GEMINI_API_KEY"] = "x"
        arguments += ("--screen-reader",) if self.mode == "reader" else ()
        term = "dumb" if self.mode == "dumb" else "xterm-256color"
        with _at(folder, arguments, term, self.columns, environ) as terminal:
            for step in steps:
                self._step(name, step, terminal, server)
            self.faults += [f"{name}: broken: {row}" for row in terminal.screen.broken]
            if self.mode in LINES:
                found = set(re.findall(r"\x1b[^a-zA-Z]*[a-zA-Z]", terminal.raw))
                self.faults += [f"{name}: escape: {each!r}" for each in found]

    def _step(self, name: str, step: Step, terminal: Terminal, server: ScriptedServer) -> None:
        keys = step.lines if self.mode in LINES else step.keys
        if keys is None:
            return
        if step.replies:
            server.reply(*step.replies)
        before = len(terminal.raw)
        seen = terminal.screen.text.split("\n")
        terminal.send(keys)
        if step.marker:
            self._wait(terminal, step.marker, before)
        self._calm(terminal)
        rows = _new(terminal, seen)
        title = f"{name}: {step.name}"
        shown = "\n".join("".join(row).rstrip() for row in rows)
        self.text.append(f"{'═' * self.columns}│ {title}\n{shown}\n")
        drawn = picture(rows, self.columns, self.palette)
        self.pictures.append(f"<figure><figcaption>{escape(title)}</figcaption>{drawn}</figure>")

    def _wait(self, terminal: Terminal, marker: str, before: int) -> None:
        end = time.monotonic() + MARKER_S
        with suppress(pexpect.TIMEOUT, pexpect.EOF):
            while marker not in terminal.raw[before:] and time.monotonic() < end:
                terminal.take(MARKER_S)
        if marker not in terminal.raw[before:]:
            self.faults.append(f"never shown: {marker}")

    def _calm(self, terminal: Terminal) -> None:
        """Until the screen stays as it is; at most LONGEST_S."""
        with suppress(pexpect.TIMEOUT, pexpect.EOF):
            lines = self.mode in LINES
            end = time.monotonic() + (LINES_LONGEST_S if lines else LONGEST_S)
            while time.monotonic() < end:
                terminal.take(LINES_STILL_S if lines else STILL_S)


def _at(
    folder: Path, arguments: tuple[str, ...], term: str, columns: int, environ: dict[str, str]
) -> Terminal:
    from tests.support.command import ALHENA

    words = ("-c", 'cd "$0" && exec "$@"', str(folder), ALHENA, *arguments)
    return Terminal(*words, program="/bin/sh", term=term, columns=columns, rows=ROWS, **environ)


def _new(terminal: Terminal, seen: list[str]) -> list[list[str]]:
    """The rows from the first that was not there before, and the one before them."""
    shown = terminal.screen.text.split("\n")
    pairs = enumerate(zip(shown, seen, strict=False))
    same = next((at for at, (one, other) in pairs if one != other), min(len(shown), len(seen)))
    rows = terminal.screen.lines[max(same - 1, 0) :]
    while rows and not "".join(rows[-1]).strip():
        rows = rows[:-1]
    return rows


def _write(folder: Path, sheet: Sheet) -> None:
    name = f"{sheet.mode}-{sheet.columns}"
    (folder / f"{name}.txt").write_text("\n".join(sheet.text), encoding="utf-8")
    page = folder / f"{name}.html"
    across = 1900 // (sheet.columns * 9)
    style = (
        f"body{{margin:4px;columns:{across};column-gap:6px;background:#888;font:12px sans-serif}}"
        f"figure{{margin:0 0 6px;break-inside:avoid}}svg{{width:100%}}"
    )
    page.write_text(f"<meta charset=utf-8><style>{style}</style>" + "".join(sheet.pictures))
    print(f"{name}: {len(sheet.text)} screens", *sheet.faults, sep="\n  ", flush=True)


def _draw(name: str, folder: Path) -> None:
    mode, _, columns = name.rpartition("-")
    sheet = Sheet(mode, int(columns))
    sheet.draw()
    _write(folder, sheet)


def main() -> None:
    """Draws all, or those that are named."""
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or [f"{mode}-{columns}" for columns in COLUMNS for mode in MODES]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(_draw, names, [folder] * len(names)))


if __name__ == "__main__":
    main()
