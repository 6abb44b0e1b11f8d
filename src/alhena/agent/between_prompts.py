"""Work in a session between its prompts: another model, compression, a look at the next request.

Each raises BusyError while a run is at work."""

import asyncio
from collections.abc import Callable

import msgspec

from alhena.agent.chat import switch
from alhena.agent.run import EventChannel
from alhena.agent.runner import SessionRunner
from alhena.agent.session import Session
from alhena.errors import InterruptedRunError
from alhena.events import CompressedEvent, Event
from alhena.models.catalogue import conversing_models, today
from alhena.values import Value
from alhena.wire.content import Content
from alhena.wire.request import GenerateContentConfig


class Choices(Value, frozen=True):
    """Names of models; `complete`: the service itself has listed them."""

    names: tuple[str, ...]
    complete: bool


async def switch_model(agent: SessionRunner, name: str) -> None:
    """Has another model answer from now on. Raises InputError for one of another service."""

    async def work(session: Session, _channel: EventChannel) -> None:
        switch(session.chat, session.access.models, session.access.chosen, name)

    async for _ in agent.run_aside(work):
        pass


async def list_models(agent: SessionRunner) -> Choices:
    """The models that the credentials of a session can use, as far as the service tells in time;
    else those known by name."""
    found: list[Choices] = []

    async def work(session: Session, _channel: EventChannel) -> None:
        found.append(await _find_models(session))

    async for _ in agent.run_aside(work):
        pass
    return found[0]


async def _find_models(session: Session) -> Choices:
    names = await session.access.served.names()
    if names:
        chosen = session.access.chosen
        foreign = not chosen.speaks_gemini
        prefix = chosen.model.partition(":")[0] + ":" if foreign else ""
        return Choices(tuple(f"{prefix}{name}" for name in names), complete=True)
    return Choices(tuple(each.name for each in conversing_models(today())), complete=False)


async def compress(
    agent: SessionRunner, hear: Callable[[Event], object] | None = None
) -> CompressedEvent:
    """Replaces all but the end of the conversation by a summary, if that is shorter; returns the
    event that describes the result. `hear` is given each event on the way. Raises
    InterruptedRunError when it is interrupted, JournalError."""
    done: list[CompressedEvent] = []

    async def work(session: Session, _channel: EventChannel) -> None:
        try:
            done.append(await session.compress())
        except asyncio.CancelledError:
            raise InterruptedRunError("the compression was interrupted.") from None

    async for event in agent.run_aside(work):
        if hear is not None:
            hear(event)
    return done[0]


class Upcoming(msgspec.Struct, frozen=True):
    """The next request of a session: its declarations and instruction, and the conversation.
    `measured`: as in `Chat`."""

    config: GenerateContentConfig
    contents: tuple[Content, ...]
    measured: tuple[int, int] | None


async def find_upcoming(agent: SessionRunner) -> Upcoming:
    """The next request of a session, as far as it is known."""
    found: list[Upcoming] = []

    async def work(session: Session, _channel: EventChannel) -> None:
        chat = session.chat
        found.append(Upcoming(chat.config, agent.history, chat.measured))

    async for _ in agent.run_aside(work):
        pass
    return found[0]
