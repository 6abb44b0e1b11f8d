"""The blocks of the pages of subjects run: programs against a model that plays a script, and each
`alhena` command is one that the command line takes.

A block that cannot run here has `<!-- not run: REASON -->` before it.
"""

import ast
import asyncio
import inspect
import os
import re
import shlex
import types
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import alhena
from alhena import Agent, Content, Part, Task
from alhena.errors import AlhenaError
from alhena.frontends.cli.completion import help_of
from alhena.frontends.cli.tools import make_parsers
from alhena.frontends.main import COMMANDS
from alhena.frontends.shared.arguments import Parser, parse_run
from alhena.models import Candidate, GenerateContentResponse
from tests.support.each import for_each
from tests.support.server import ScriptedServer, call, chunk, sse, text
from tests.test_docs_examples import DOCS, blocks

NOT_RUN = re.compile(r"<!-- not run: ([^\n]+) -->\n+$")
MOST_NOT_RUN = 4
PYTHON = re.compile(
    r"^(from|import|async with|def|@tool|class|client =|store =|tasks =) ", re.MULTILINE
)
ELSEWHERE = {"telemetry.md": "tests/telemetry/test_docs_page.py"}
"""Pages whose programs have a test of their own, as doctests of shell.md have."""


def not_run() -> dict[str, str]:
    """The marked blocks, by page and line, with the reason."""
    found: dict[str, str] = {}
    for path in sorted(DOCS.glob("*.md")):
        page = path.read_text(encoding="utf-8")
        for place, _ in blocks():
            name, _, line = place.partition(":")
            if name == path.name:
                before = "".join(page.splitlines(keepends=True)[: int(line) - 1])
                if match := NOT_RUN.search(before):
                    found[place] = match[1]
    return found


def programs() -> list[tuple[str, str]]:
    return [
        (place, block)
        for place, block in blocks()
        if PYTHON.search(block)
        and place not in not_run()
        and place.partition(":")[0] not in ELSEWHERE
        and not re.match(r"(>>>|---|\$|alhena|python|\{|\[\[)", block)
    ]


def correct(_outcome: object) -> bool:
    return True


def population(city: str) -> int:
    """The number of people who live in a city."""
    return 134_000


@dataclass
class Order:
    name: str = ""


class Database:
    pass


def prelude(block: str) -> dict[str, Any]:
    """Names that pages use without having defined them."""
    names = {name: getattr(alhena, name) for name in alhena.__all__}
    earlier = None
    if "earlier" in block:
        cases = [Task("2 + 2", id="sum", output=str)]
        model = alhena.testing.TestModel
        run = alhena.evals.evaluate(cases, lambda _task: Agent(model("4")), [correct])
        earlier = asyncio.run(run)
    return names | {
        "earlier": earlier,
        "history": [{"role": "user", "content": "hi"}],
        "tools": [],
        "Database": Database,
        "Order": Order,
        "database": Database(),
        "ask_me": lambda _request: True,
        "population": population,
        "ids": types.SimpleNamespace(next=map("id-{}".format, count()).__next__),
        "db": Database(),
        "body": {
            "model": "claude",
            "max_tokens": 10,
            "messages": [{"role": "user", "content": "hi"}],
        },
        "response": GenerateContentResponse(
            candidates=(Candidate(content=Content(role="model", parts=(Part(text="Hi."),))),)
        ),
        "evaluate": alhena.evals.evaluate,
        "model": "gemini-3.8-flash",
    }


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """Answers every request; the first with a call that writes a file where tools can."""
    with ScriptedServer() as server:
        made: list[bool] = []

        def answer(received: Any) -> Any:
            if b"write_file" in received.body and not made:
                made.append(True)
                wanted = call("write_file", {"file_path": "a.txt", "content": "x"})
                return sse(chunk(wanted, finish="STOP"))
            return sse(text("134,000"))

        monkeypatch.setattr(server, "take", answer)
        monkeypatch.setenv("GEMINI_API_KEY", "k")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        yield server


@pytest.mark.parametrize(("place", "block"), programs())
def test_every_program_runs(
    place: str, block: str, model: ScriptedServer, project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(project)
    code = compile(block, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    space = prelude(block)

    async def carry() -> None:
        ran = eval(code, space)
        if inspect.iscoroutine(ran):
            await ran

    with redirect_stdout(StringIO()):
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(carry())
        else:
            exec(code, space)


def commands() -> list[tuple[str, str]]:
    """Every command of a block that begins with alhena, after variables and before a pipe."""
    found: list[tuple[str, str]] = []
    for place, block in blocks():
        for line in block.replace("\\\n", " ").splitlines():
            for piece in re.findall(r"(?:^|\| |&& )\s*((?:[A-Z_]+=\S+ )*alhena\b[^|]*)", line):
                found.append((place, re.split(r" {2,}", piece.strip())[0]))
    return found


@for_each(("place", "line"), commands())
def test_every_command_is_one_that_the_command_line_takes(place: str, line: str):
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.partition("  #")[0].split()
    words = words[next(at for at, word in enumerate(words) if word == "alhena") + 1 :]
    ends = [at for at, word in enumerate(words) if re.match(r"(\d?[<>]|;|&|\))", word)]
    words = words[: min(ends, default=len(words))]
    if not words or words[0] not in COMMANDS:
        if words and words[0] == "help":
            return
        try:
            parse_run(words)
        except AlhenaError as error:
            pytest.fail(f"{line}: {error}")
        return
    name, rest = words[0], words[1:]
    shown = help_of(name)
    if name == "tools":
        shown += " ".join(flag for parser in make_parsers()[1].values() for flag in flags(parser))
    if rest[:1] == ["add"]:  # what follows the name of a server is its command
        rest = rest[:1]
    for word in rest:
        if re.match(r"--?[a-zA-Z]", word) and name != "completion":
            flag = word.partition("=")[0]
            assert flag in shown or flag in ("--help", "--debug"), line
    actions = COMMANDS[name]
    if actions and rest and re.fullmatch(r"[a-z-]+", rest[0]) and name != "batch":
        assert all(each in actions for each in rest[0].split("|")), line


def flags(parser: Parser) -> list[str]:
    return [name for action in parser.actions for name in action.option_strings]


def test_few_blocks_are_not_run_and_each_says_why():
    marked = not_run()
    assert len(marked) <= MOST_NOT_RUN
    assert all(len(reason) > 20 for reason in marked.values())
    assert len(programs()) >= 5
    assert len(commands()) > 80
    root = Path(__file__).parent.parent
    assert all((root / path).is_file() for path in ELSEWHERE.values()), os.getcwd()
