"""Helpers shared by tests of the agent."""

from typing import Any

from alhena.agent.runner import SessionRunner
from alhena.errors import AlhenaError
from alhena.events import Event, WarningEvent
from alhena.wire.conformance.check import check_request
from alhena.wire.errors import Severity
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk

agent = scripted_agent


async def events_of(running: SessionRunner, prompt: str) -> tuple[list[Event], AlhenaError | None]:
    found: list[Event] = []
    try:
        async for event in running.run(prompt):
            found.append(event)
    except AlhenaError as error:
        return found, error
    return found, None


def kinds(events: list[Event]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in events]


def of(events: list[Event], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def warnings(events: list[Event]) -> list[str]:
    return [event.message for event in events if isinstance(event, WarningEvent)]


def turn(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn of the model that makes these calls."""
    return [chunk(*calls, finish="STOP")]


def answers(generator: ScriptedGenerator, index: int = 1) -> list[dict[str, Any]]:
    """Responses to the calls before a request."""
    return [part["functionResponse"]["response"] for part in generator.seen(index)[-1]["parts"]]


def instruction(generator: ScriptedGenerator, index: int = 0) -> str:
    """The system instruction of a request."""
    found: Any = generator.requests[index].config.system_instruction
    return found.parts[0].text


def conforming(generator: ScriptedGenerator) -> bool:
    found = (item for request in generator.requests for item in check_request(request))
    return not any(item.level is Severity.ERROR for item in found)
