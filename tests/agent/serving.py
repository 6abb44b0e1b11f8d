"""Agents with MCP servers, and a person who is asked."""

from typing import Any

from alhena.config.settings import Settings, settings_of
from alhena.events import Event, ToolCallResponseEvent
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.tools.contract import McpConfirmation
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def settings(entries: dict[str, Any], **more: Any) -> Settings:
    return settings_of({"mcpServers": entries, **more}, "test")


def turns(*calls: tuple[str, dict[str, Any]]) -> ScriptedGenerator:
    """A model that makes these calls one after the other, then says that it is done."""
    made = [
        [chunk(call(name, args, id=f"c{number}"), finish="STOP")]
        for number, (name, args) in enumerate(calls)
    ]
    return ScriptedGenerator(*made, [text("done")])


def answers(events: list[Event]) -> list[ToolCallResponseEvent]:
    return [event for event in events if isinstance(event, ToolCallResponseEvent)]


def declared(generator: ScriptedGenerator, index: int = 0) -> list[str]:
    tools = generator.requests[index].config.tools or ()
    return [each.name for group in tools for each in group.function_declarations or ()]


def instruction(generator: ScriptedGenerator, index: int = 0) -> str:
    system = generator.requests[index].config.system_instruction
    assert system is not None
    return "".join(part.text or "" for part in system.parts)


class Person:
    """Answers each question with the next of `answers`."""

    def __init__(self, *given: Outcome | Answer) -> None:
        self.asked: list[ConfirmationRequest] = []
        self.answers = list(given)

    def __call__(self, asked: ConfirmationRequest) -> Outcome | Answer:
        self.asked.append(asked)
        return self.answers.pop(0)

    @property
    def details(self) -> list[McpConfirmation]:
        return [each.details for each in self.asked if isinstance(each.details, McpConfirmation)]


ALLOW_ALL = (PolicyRule(decision=PolicyOutcome.ALLOW, priority=500, mcp_name="*"),)
