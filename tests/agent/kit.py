"""What tests of the agent share."""

from typing import Any

from alhena import Agent
from alhena.agent.options import AgentSettings
from alhena.errors import AlhenaError
from alhena.events import (
    Event,
)
from alhena.wire.conformance import check_request
from alhena.wire.violation import Level
from tests.support.scripted import ScriptedGenerator


def agent(generator: ScriptedGenerator, **options: Any) -> Agent:
    """An agent over a script. Options of AgentSettings and of Agent alike."""
    names = ("approve", "tools", "policy", "cwd", "model")
    own = {name: options.pop(name) for name in names if name in options}
    return Agent(**own, settings=AgentSettings(generator=generator, **options))


async def events_of(running: Agent, prompt: str) -> tuple[list[Event], AlhenaError | None]:
    found: list[Event] = []
    try:
        async for event in running.run(prompt):
            found.append(event)
    except AlhenaError as error:
        return found, error
    return found, None


def kinds(events: list[Event]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in events]


def conforming(generator: ScriptedGenerator) -> bool:
    found = (item for request in generator.requests for item in check_request(request))
    return not any(item.level is Level.ERROR for item in found)
