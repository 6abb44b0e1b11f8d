"""A session with two servers, one of them good, and what became of a prompt that calls both."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from alhena.agent.runner import SessionRunner
from alhena.config.settings import settings_of
from alhena.display_text import escaped
from alhena.events import RunStartedEvent, ToolCallResponseEvent
from alhena.mcp import http, sdk
from alhena.mcp.servers import ServerReport
from alhena.policy.model import PolicyOutcome, PolicyRule
from tests.agent.kit import agent, conforming, events_of
from tests.mcp.kit import SERVED, WAITED_FOR, odd, tool
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text
from tests.support.steady import skip

GOOD = ("mcp_good_fine", {"n": 1})
"""The call that is answered whatever the other server does."""

LOADED = (http, sdk)
"""Importing them takes a second, which is not to count against a deadline."""

ALLOW_ALL = (PolicyRule(decision=PolicyOutcome.ALLOW, priority=500, mcp_name="*"),)
MAX_LINE = 700
"""Characters that a person should have to read of one problem."""

Call = tuple[str, dict[str, Any]]


class Story(msgspec.Struct, kw_only=True):
    """Result of a run. `answers` are the responses to all calls, `told` the lines shown to a
    person, at the start and later; `report` is the one on the server that is not the good one."""

    answers: list[ToolCallResponseEvent]
    at_start: tuple[str, ...]
    told: tuple[str, ...]
    generator: ScriptedGenerator
    report: ServerReport

    def seen(self, index: int = 0) -> str:
        """Response to the model, as JSON."""
        parts = self.generator.seen(index + 1)[-1]["parts"]
        return msgspec.json.encode(parts).decode("utf-8")

    @property
    def declared(self) -> list[str]:
        """The tools of the first request."""
        tools = self.generator.requests[0].config.tools or ()
        return [each.name for group in tools for each in group.function_declarations or ()]


def hostile(what: str, *more: str, **entry: Any) -> dict[str, Any]:
    """The settings of a server that misbehaves."""
    file = str(SERVED / "hostile.py")
    args = ["-S", file, what, *more]
    return {"command": sys.executable, "args": args, "timeout": WAITED_FOR, **entry}


async def beside(
    entry: dict[str, Any], directory: Path, *calls: Call, late: bool = False, **options: Any
) -> Story:
    """One prompt in a session with this server, called `bad`, and a good one. The model makes these
    calls and then one of the good server's tool. What has to hold in any case is asserted here. With
    `late` the first call is not answered, and time flies until that has been given up."""
    good = odd(directory, {"tools": [tool("fine")]}, "good")
    servers = {"bad": entry, "good": good}
    made = settings_of({"mcp": {"toolSearch": "off"}, "mcpServers": servers}, "test")
    turns = [
        [chunk(call(name, args, id=f"c{number}"), finish="STOP")]
        for number, (name, args) in enumerate((*calls, GOOD))
    ]
    generator = ScriptedGenerator(*turns, [text("done")])
    options.setdefault("policy", ALLOW_ALL)
    running = agent(generator, cwd=directory, settings=made, **options)
    async with running:
        hurry = asyncio.create_task(_hurry(generator)) if late else None
        events, error = await events_of(running, "go")
        if hurry is not None:
            await hurry
        story = Story(
            answers=[event for event in events if isinstance(event, ToolCallResponseEvent)],
            at_start=next(each.notices for each in events if isinstance(each, RunStartedEvent)),
            told=tuple(running.toolset.warnings),
            generator=generator,
            report=_report(running),
        )
    assert error is None
    assert_unharmed(story)
    return story


async def _hurry(generator: ScriptedGenerator) -> None:
    while len(generator.requests) < 2:
        await asyncio.sleep(0.05)
        if len(generator.requests) == 1:
            skip(5)


def assert_unharmed(story: Story) -> None:
    """The good server's tool ran, the requests are in order, and what people were told is plain."""
    last = story.answers[-1]
    assert (last.status, last.display) == ("success", '{"n": 1}')
    assert "n" in story.seen(len(story.answers) - 1)
    assert conforming(story.generator)
    for line in story.told:
        assert "MCP server 'bad'" in line or "mcpServers.bad" in line
        assert line == escaped(line), "something in it is hidden"
        assert len(line) <= MAX_LINE, len(line)


def _report(running: SessionRunner) -> ServerReport:
    servers = running.toolset.servers
    assert servers is not None
    return next(each for each in servers.reports() if each.name == "bad")
