"""Runs what a page of docs/ shows: its files and its commands, in a home of its own.

A fenced block with `title="PATH"` is a file, a `console` block has commands after `$ ` (continued
after `> `) and what they print. One bash runs all of a page, so that exports and exit codes last.
`tests/pages.toml` has what a page does not show: commands before it, and the answers of the model.
"""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

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
FENCE = re.compile(
    r"^(?P<ticks>```+)(?P<kind>\w+)(?P<info>.*)\n(?P<text>(?s:.*?))^(?P=ticks)$", re.MULTILINE
)
TITLE = re.compile(r'title="([^"]+)"')
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


@cache
def _scripts() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tests" / "pages.toml").read_text(encoding="utf-8"))


def pages() -> list[str]:
    """Names of the pages that have commands, relative to docs/, without ending."""
    found = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    return sorted(name for name in found if "```console\n" in _text(name))


def _text(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


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
            return json_reply({"models": [], "totalTokens": 10})
        answer: Any = self.answers.pop(0) if self.answers else {"refuse": 400}
        if "refuse" in answer:
            message = "Something is wrong with this request."
            error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
            return json_reply({"error": error}, answer["refuse"])
        if received.path.endswith("/chat/completions"):
            piece = {"choices": [{"delta": {"content": answer}, "finish_reason": "stop"}]}
            return sse(piece)
        calls: list[Any] = answer if isinstance(answer, list) else [answer]
        parts = [{"text": answer}] if isinstance(answer, str) else []
        if not parts:
            parts = [call(each["call"], each["args"]) for each in calls]
        usage = {"promptTokenCount": 4200, "candidatesTokenCount": 80, "totalTokenCount": 4280}
        model = received.path.rpartition("/")[2].partition(":")[0]
        told = chunk(*parts, finish="STOP", usage=usage) | {"modelVersion": model}
        return sse(told) if "stream" in received.path else json_reply(told)


def run_page(name: str, folder: Path) -> list[Command]:
    """Runs a page below `folder`; returns its commands with what they print now."""
    ran: list[Command] = []
    prepared = _scripts().get(name, {})
    script = [
        "exec 2>&1",
        "{",
        _scripts()["all"]["setup"],
        prepared.get("setup", ""),
        "} >/dev/null",
    ]
    for match in FENCE.finditer(_text(name)):
        title = TITLE.search(match["info"])
        if title:
            path = title[1].replace("~", "$HOME")
            script.append(f'mkdir -p "$(dirname "{path}")"')
            script.append(f"cat >\"{path}\" <<'END_OF_FILE'\n{match['text']}END_OF_FILE")
        for command in commands(match["text"]) if match["kind"] == "console" else ():
            ran.append(Command(command.text))
            script += [command.text, f"rc=$?; echo '{MARK}'; (exit $rc)"]
    home, project = folder / "home" / "you", folder / "home" / "you" / "shop"
    project.mkdir(parents=True)
    (folder / "page.sh").write_text("\n".join(script) + "\n", encoding="utf-8")
    with Service(prepared.get("model", [])) as service:
        written = subprocess.run(
            ["bash", folder / "page.sh"],
            cwd=project,
            stdin=subprocess.DEVNULL,
            env=_environment(home, service.url),
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S * 2,
            check=False,
        ).stdout
    shown = written.replace(f"{folder}/home", "/home").replace(str(ROOT), "/opt/alhena")
    shown = shown.replace(service.url, "http://127.0.0.1:8080")
    for command, printed in zip(ran, shown.split(MARK + "\n"), strict=False):
        lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
        most = prepared.get("lines", MOST_LINES)
        command.printed = [*lines[:most], CUT] if len(lines) > most + 1 else lines
    return ran


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
        "TERM": "dumb",
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
        if match["kind"] != "console":
            return match[0]
        lines: list[str] = []
        for _ in commands(match["text"]):
            command = next(left)
            lines += ["$ " + command.text.replace("\n", "\n> "), *command.printed]
        ticks = "`" * max([3, *(len(found) + 1 for found in re.findall("```+", "\n".join(lines)))])
        return f"{ticks}console{match['info']}\n" + "\n".join(lines) + f"\n{ticks}"

    (DOCS / f"{name}.md").write_text(FENCE.sub(replace, _text(name)), encoding="utf-8")


def shown_commands(name: str) -> list[Command]:
    """The commands of a page with what it says they print."""
    blocks = FENCE.finditer(_text(name))
    return [
        each for match in blocks if match["kind"] == "console" for each in commands(match["text"])
    ]
