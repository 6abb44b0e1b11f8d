"""Runs what a page of docs/, or README.md, shows: its files and its commands, in a home of its own.

A fenced block with `title="PATH"` is a file. A `console` block has commands after `$ ` (continued
after `> `) and what they print; a `sh` block, and the `run` of a step of a workflow, has commands
that end with code 0. A session of theirs is at a terminal and is left at its first prompt. A block
that cannot run has `<!-- not run: REASON -->` before it. One bash runs all of a page, so that
exports and exit codes last. `tests/pages.toml` has what a page does not show: commands before it,
and the answers of the model.
"""

import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pexpect
import yaml

from alhena.frontends.main import COMMANDS
from tests.support.patience import PATIENCE_S
from tests.support.server import (
    WINDOW_PATHS,
    Received,
    Reply,
    ScriptedServer,
    call,
    chunk,
    json_reply,
    sse,
)

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = "README"
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?"
    r"^(?P<ticks>```+)(?P<kind>\w+)(?P<info>.*)\n(?P<text>(?s:.*?))^(?P=ticks)$",
    re.MULTILINE,
)
TITLE = re.compile(r'title="([^"]+)"')
SECRET = re.compile(r"(?<=(?:_ID|KEY|KEN|RET)=)…")
"""A value of which only the reader of a page knows the text."""
ADDRESS = "http://127.0.0.1:8080"
"""The address of a server on the pages: that of the scripted model."""
ASKS = re.compile(r"alhena (extensions install|hooks trust|hooks migrate)")
QUESTION = r"\[y/N\]"
PLACEHOLDER = "Type your message or @path/to/file"
CTRL_D = "\x04"
MARK = "<<<alhena-page "
MOST_LINES = 40
CUT = "…"
VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:._-]+Z?"), "TIME"),
    (re.compile(r"\b\d+([.:]\d+)*(?= ?m?s\b)|\b\d+([.:]\d+)+\b"), "N"),
    (re.compile(r'(?<=[a-z_]": )\d{2,}(\.\d+)?'), "N"),
    (re.compile(r"\b[0-9a-f]{20}-\d+\b"), "ID"),
    (re.compile(r"\b\d{1,3}(,\d{3})+\b"), "N"),
    (re.compile(r" {2,}"), "  "),
)


@dataclass
class Command:
    """One command of a page with the lines it prints."""

    text: str
    printed: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `file` is the path that its title names, `reason` why it is not
    run."""

    page: str
    line: int
    kind: str
    file: str | None
    text: str
    reason: str | None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@cache
def blocks() -> tuple[Block, ...]:
    """The blocks of all pages that people write (those of docs/reference are made)."""
    names = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    names = [name for name in names if not name.startswith("reference/")]
    return tuple(block for name in sorted([*names, README]) for block in _blocks(name))


def _blocks(name: str) -> Iterator[Block]:
    text = _text(name)
    for match in FENCE.finditer(text):
        title = TITLE.search(match["info"])
        line = text.count("\n", 0, match.start("ticks")) + 1
        file = title[1] if title else None
        yield Block(name, line, match["kind"], file, match["text"], match["reason"])


@cache
def _scripts() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tests" / "pages.toml").read_text(encoding="utf-8"))


def pages() -> list[str]:
    """Names of the pages that have commands, relative to docs/, without ending."""
    return sorted({each.page for each in blocks() if _is_run(each)})


def _is_run(block: Block) -> bool:
    runs = block.kind == "console" or (block.kind == "sh" and not block.file) or _steps(block)
    return bool(runs) and block.reason is None


def _text(name: str) -> str:
    path = ROOT / "README.md" if name == README else DOCS / f"{name}.md"
    return path.read_text(encoding="utf-8")


def commands(block: str) -> list[Command]:
    """The commands of a `console` block."""
    found: list[Command] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif line.startswith("> ") and found and not found[-1].printed:
            found[-1].text += "\n" + line[2:]
        else:
            found[-1].printed.append(line)
    return found


class Service(ScriptedServer):
    """Stands in for the model services: gives the answers of a page in order, in the form of
    whoever asks."""

    def __init__(self, answers: list[Any]) -> None:
        super().__init__()
        self.answers = list(answers)

    def take(self, received: Received) -> Reply:
        """Answers one request."""
        if received.path in WINDOW_PATHS:
            return Reply(status=404)
        if received.method == "GET" or "countTokens" in received.path:
            return json_reply({"models": [], "data": [], "totalTokens": 10})
        answer = self.choose(received)
        if "refuse" in answer:
            message = "Something is wrong with this request."
            error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
            return json_reply({"error": error}, answer["refuse"])
        if received.path.endswith("/chat/completions"):
            piece = {"choices": [{"delta": {"content": answer}, "finish_reason": "stop"}]}
            return sse(piece)
        if received.path.endswith("/v1/messages"):
            return sse(*_anthropic_events(answer))
        calls: list[Any] = answer if isinstance(answer, list) else [answer]
        parts = [{"text": answer}] if isinstance(answer, str) else []
        if not parts:
            parts = [call(each["call"], each["args"]) for each in calls]
        usage = {"promptTokenCount": 4200, "candidatesTokenCount": 80, "totalTokenCount": 4280}
        model = received.path.rpartition("/")[2].partition(":")[0]
        told = chunk(*parts, finish="STOP", usage=usage) | {"modelVersion": model}
        return sse(told) if "stream" in received.path else json_reply(told)

    def choose(self, received: Received) -> Any:
        """The answer to a request."""
        return self.answers.pop(0) if self.answers else "Done."


def _anthropic_events(answer: str) -> list[dict[str, Any]]:
    usage = {"input_tokens": 4200, "output_tokens": 80}
    delta = {"type": "text_delta", "text": answer}
    return [
        {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def run_page(name: str, folder: Path) -> "tuple[list[Command], str]":
    """Runs a page below `folder`; returns its `console` commands with what they print now, and
    what the other commands wrote that failed."""
    prepared = _scripts().get(name, {})
    script = [
        f"exec 9<>/dev/tty >'{folder}/printed' 2>&1 </dev/null",  # 9: else the terminal ends
        "{",
        _scripts()["all"]["setup"],
        prepared.get("setup", ""),
        "} >/dev/null",
        f"ended() {{ echo \"line $2 ended with code $1\" >>'{folder}/failed'; }}",
    ]
    ran: list[Command] = []
    for block in _blocks(name):
        if block.file:
            path = block.file.replace("~", "$HOME")
            script.append(f'mkdir -p "$(dirname "{path}")"')
            script.append(f"cat >\"{path}\" <<'END_OF_FILE'\n{block.text}END_OF_FILE")
        if not _is_run(block):
            continue
        if block.kind == "console":
            for command in commands(block.text):
                ran.append(Command(command.text))
                script += [command.text, f"rc=$?; echo '{MARK}'; (exit $rc)"]
        elif block.kind == "sh":
            script += _note_failures(block, block.text, folder)
        for step in _steps(block):
            script += _note_failures(block, step, folder)
    home, project = folder / "home" / "you", folder / "home" / "you" / "shop"
    project.mkdir(parents=True)
    with Service(prepared.get("model", [])) as service:
        text = "\n".join([*script, ""]).replace(ADDRESS, service.url)
        (folder / "page.sh").write_text(text, encoding="utf-8")
        _run_at_terminal(folder / "page.sh", project, _environment(home, service.url))
    shown = (folder / "printed").read_text(encoding="utf-8")
    shown = shown.replace(f"{folder}/home", "/home").replace(str(ROOT), "/opt/alhena")
    shown = shown.replace(service.url, ADDRESS)
    for command, printed in zip(ran, shown.split(MARK + "\n"), strict=False):
        lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
        most = prepared.get("lines", MOST_LINES)
        command.printed = [*lines[:most], CUT] if len(lines) > most + 1 else lines
    failed = folder / "failed"
    return ran, failed.read_text(encoding="utf-8") if failed.exists() else ""


def _note_failures(block: Block, text: str, folder: Path) -> list[str]:
    """A block of commands; one that fails is noted with what the block has written so far."""
    lines = [_at_terminal(line) for line in SECRET.sub("key", text).splitlines()]
    note = (
        f"ended $? '{block.place}: '\"$BASH_COMMAND\"; cat '{folder}/written' >>'{folder}/failed'"
    )
    return [
        f"( trap {shlex.quote(note)} ERR; set -o pipefail",
        *lines,
        f") >'{folder}/written' 2>&1",
    ]


def _at_terminal(line: str) -> str:
    """A line that opens a session, or asks a person, has the terminal."""
    terminal = re.sub(r"( *#.*)?$", r" </dev/tty >/dev/tty 2>&1\1", line, count=1)
    if ASKS.match(line):
        return terminal
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return line
    while words and re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    if words[:1] != ["alhena"] or (words[1:2] and words[1] in COMMANDS):
        return line
    if {"-p", "|", "<", "--version", "--help"} & set(words) or words[-1] == "\\":
        return line
    return terminal


def _steps(block: Block) -> list[str]:
    """The commands of the steps of a workflow."""
    if block.kind != "yaml":
        return []
    document = yaml.safe_load(block.text)
    jobs = document["jobs"].values() if isinstance(document, dict) else [{"steps": document}]
    found: list[str] = []
    for step in (step for job in jobs for step in job["steps"] if "run" in step):
        values = {
            name: re.sub(r"\$\{\{.*?\}\}", "key", text)
            for name, text in step.get("env", {}).items()
        }
        exports = [f"export {name}={shlex.quote(text)}" for name, text in values.items()]
        run = re.sub(r"\$\{\{.*?\}\}", "7", step["run"])
        found.append("\n".join(['PATH="$(cat "$GITHUB_PATH"):$PATH"', *exports, run]))
    return found


def _run_at_terminal(script: Path, folder: Path, environ: dict[str, str]) -> None:
    """Runs bash at a terminal, where a person agrees, and leaves a session at its first prompt."""
    bash = pexpect.spawn(
        "bash",
        [str(script)],
        cwd=str(folder),
        env=environ,
        encoding="utf-8",
        timeout=PATIENCE_S * 2,
    )
    while (seen := bash.expect([PLACEHOLDER, QUESTION, pexpect.EOF])) < 2:
        bash.send(("y\r", CTRL_D)[seen == 0])
    bash.close()


def _environment(home: Path, url: str) -> dict[str, str]:
    """A plain environment, with a key and the address of the stand-in."""
    own = {key: value for key, value in os.environ.items() if key in ("PATH", "LANG", "TMPDIR")}
    return own | {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}",
        "GEMINI_API_KEY": "key",
        "GOOGLE_GEMINI_BASE_URL": url,
        "OLLAMA_HOST": url,
        "OPENAI_BASE_URL": f"{url}/v1",
        "ALHENA": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_AUTHOR_NAME": "you",
        "GIT_AUTHOR_EMAIL": "you@example.com",
        "GIT_COMMITTER_NAME": "you",
        "GIT_COMMITTER_EMAIL": "you@example.com",
        "GITHUB_PATH": str(home / "path"),
        "RUNNER_TEMP": str(home / "temp"),
        "ANTHROPIC_BASE_URL": url,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p pytest_asyncio.plugin -p alhena.testing.plugin",
        "TERM": "xterm",
        "COLUMNS": "100",
    }


def mask_times(lines: list[str]) -> str:
    """Printed lines as one text, without times, ids and other parts that differ from run to run."""
    text = "\n".join(lines)
    for pattern, instead in VOLATILE:
        text = pattern.sub(instead, text)
    return text


def write_page(name: str, ran: list[Command]) -> None:
    """Writes into a page what its commands print now."""
    left = iter(ran)

    def replace(match: re.Match[str]) -> str:
        if match["kind"] != "console" or match["reason"]:
            return match[0]
        lines: list[str] = []
        for _ in commands(match["text"]):
            command = next(left)
            lines += ["$ " + command.text.replace("\n", "\n> "), *command.printed]
        ticks = "`" * max([3, *(len(found) + 1 for found in re.findall("```+", "\n".join(lines)))])
        return f"{ticks}console{match['info']}\n" + "\n".join(lines) + f"\n{ticks}"

    path = ROOT / "README.md" if name == README else DOCS / f"{name}.md"
    path.write_text(FENCE.sub(replace, _text(name)), encoding="utf-8")


def shown_commands(name: str) -> list[Command]:
    """The commands of a page with what it says they print."""
    shown = [each for each in _blocks(name) if each.kind == "console" and _is_run(each)]
    return [command for each in shown for command in commands(each.text)]
