"""Lists the models of a session's service, and switches to one."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from alhena.agent.chat import SessionModels, traits_of
from alhena.agent.run import EventChannel
from alhena.agent.session import Session
from alhena.chat.chat import Chat
from alhena.chat.recovery import Substitute
from alhena.errors import AlhenaError, InputError
from alhena.models.catalogue import ANTHROPIC, MODELS, OPENAI, resolved_name
from alhena.models.providers.select import ChosenGenerator, is_demo
from alhena.values import Value

PATIENCE_S = 4.0
"""Seconds that a service may take to list its models."""


class Choices(Value, frozen=True):
    """Names of models; `complete`: the service itself has listed them."""

    names: tuple[str, ...]
    complete: bool


def switch(chat: Chat, models: SessionModels, chosen: ChosenGenerator, name: str) -> None:
    """Has another model of the same service answer from now on. Raises InputError for one of
    another service."""
    foreign = name.startswith((OPENAI, ANTHROPIC)) or is_demo(name)
    prefix = chosen.model.partition(":")[0] + ":"
    same = not foreign if chosen.speaks_gemini else name.startswith(prefix)
    if not same:
        raise InputError(
            f"{name} is a model of another service than this session's.",
            remedy=f"Start `alhena -m {name}`, or save it for later sessions: /model set {name} "
            "--persist",
        )
    known = resolved_name(name) if chosen.speaks_gemini else name
    chat.take_over(Substitute(traits=traits_of(known), config=models.config(known)))


async def available(session: Session) -> Choices:
    """The models that the credentials of a session can use, as far as the service tells in time;
    else those known by name."""
    inner: Any = session.chosen.generator
    while not hasattr(inner, "models") and hasattr(inner, "inner"):
        inner = inner.inner
    listing: Callable[[], Awaitable[tuple[str, ...]]] | None = getattr(inner, "models", None)
    if listing is not None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                names = await listing()
        except (AlhenaError, TimeoutError):
            names = ()
        if names:
            foreign = not session.chosen.speaks_gemini
            prefix = session.chosen.model.partition(":")[0] + ":" if foreign else ""
            return Choices(tuple(f"{prefix}{name}" for name in names), complete=True)
    return Choices(tuple(each.name for each in MODELS), complete=False)


def drive_switch(name: str) -> Callable[[EventChannel, Session], Coroutine[Any, Any, None]]:
    """Returns the work that switches the model, for `SessionRunner.aside`."""

    async def drive(channel: EventChannel, session: Session) -> None:
        try:
            if session.switch_model is not None:
                session.switch_model(name)
        finally:
            channel.close()

    return drive


def drive_listing(
    take: Callable[[Choices], None],
) -> Callable[[EventChannel, Session], Coroutine[Any, Any, None]]:
    """Returns the work that lists the models, for `SessionRunner.aside`."""

    async def drive(channel: EventChannel, session: Session) -> None:
        try:
            take(await available(session))
        finally:
            channel.close()

    return drive
