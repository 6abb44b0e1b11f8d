"""The Python blocks of the pages run, against a model that plays a script; commands that cannot run
here are ones that the command line takes. (`tests/test_pages.py` runs all other commands.)
"""

import ast
import asyncio
import inspect
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
from tests.support.pages import Service, blocks
from tests.support.server import Received, ScriptedServer

MOST_NOT_RUN = 26
ELSEWHERE = {
    "README": "tests/test_first_five_minutes.py",
    "telemetry": "tests/telemetry/test_docs_page.py",
}
"""Pages whose programs have a test of their own, as doctests of shell.md have."""
OTHERS = ("# google-adk", "# LangChain", "# openai-agents", "# pydantic-ai")
"""First lines of programs for other libraries, beside which a page shows ours."""


def programs() -> list[tuple[str, str]]:
    return [
        (each.place, each.text)
        for each in blocks()
        if each.kind == "python" and not each.file and not each.reason
        if each.page not in ELSEWHERE and not each.text.startswith(OTHERS)
    ]


def correct(_outcome: object) -> bool:
    return True


def population(city: str) -> int:
    """The number of people who live in a city."""
    return 134_000


def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def price(item: str) -> float:
    """The price of an item."""
    return {"tea": 2.5}[item]


@dataclass
class Order:
    name: str = ""


@dataclass
class City:
    name: str
    people: int


@dataclass
class Refund:
    amount: int


class Database:
    pass


@dataclass
class Shop:
    prices: dict[str, float]


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
        "City": City,
        "Refund": Refund,
        "Shop": Shop,
        "shop": Shop({"tea": 2.5}),
        "PRICES": {"tea": 2.5},
        "pay": alhena.tool(confirm=True)(pay) if "defer" in block else pay,
        "price": price,
        "agent": Agent("gemini-3.8-flash"),
        "make_agent": lambda model: Agent(model, tools=[price]),
        "TestModel": alhena.testing.TestModel,
        "Call": alhena.testing.Call,
        "Gemini": alhena.models.Gemini,
        "RetryPolicy": alhena.models.RetryPolicy,
        "Fallback": alhena.models.Fallback,
        "Limited": alhena.models.Limited,
        "bank": types.SimpleNamespace(pay=pay),
        "Anthropic": alhena.models.Anthropic,
        "ContentEvent": alhena.events.ContentEvent,
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


class Answering(Service):
    """Answers every request; the first with a call that writes a file, or pays, where tools can."""

    def choose(self, received: Received) -> Any:
        body = received.body
        if not self.answers:
            for name, args in CALLS:
                if b'"%s"' % name.encode() in body:
                    self.answers.append(name)
                    return {"call": name, "args": args}
        return '{"name": "Bern", "people": 134000}' if b'"people"' in body else "134,000"


CALLS = (("pay", {"amount": 5}), ("write_file", {"file_path": "a.txt", "content": "x"}))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    with Answering([]) as server:
        for name in ("GEMINI", "ANTHROPIC", "OPENAI"):
            monkeypatch.setenv(f"{name}_API_KEY", "k")
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
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
    """The commands of blocks that are not run, after variables and before a pipe."""
    found: list[tuple[str, str]] = []
    for each in blocks():
        text = each.text.replace("\\\n", " ") if each.reason and each.kind != "python" else ""
        for line in text.splitlines():
            for piece in re.findall(r"(?:^|\$ |&& )\s*((?:[A-Z_]+=\S+ )*alhena\b[^|]*)", line):
                found.append((each.place, re.split(r" {2,}", piece.strip())[0]))
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


@pytest.mark.requirement("DOC-01")
def test_few_blocks_are_not_run_and_each_says_why():
    marked = [each for each in blocks() if each.reason]
    assert len(marked) <= MOST_NOT_RUN, [each.place for each in marked]
    assert all(len(each.reason or "") > 15 for each in marked)
    assert len(programs()) >= 35
    assert len(commands()) > 10
    root = Path(__file__).parent.parent
    assert all((root / path).is_file() for path in ELSEWHERE.values())
    told = " ".join(each.reason or "" for each in marked)
    assert all(
        (root / path).exists() for path in re.findall(r"\b(?:tests|scripts)/[\w./]+\w", told)
    )


def test_programs_for_other_libraries_are_python():
    shown = [each for each in blocks() if each.text.startswith(OTHERS)]
    assert len(shown) >= 20
    for each in shown:
        compile(each.text, each.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
