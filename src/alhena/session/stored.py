"""Conversations in a store of the program: the protocol, and one opened."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack
from inspect import isawaitable
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

from alhena.errors import AlhenaError, ConfigError, InputError
from alhena.values import Value

MARK = "."
"""The first character of ids that are no conversations: marks that `Store.list` leaves out."""


class Store(Protocol):
    """Keeps conversations by id, each a list of entries (JSON objects) that only grows.

    A store may also have `hold(id)`, a context manager that raises an AlhenaError while another
    process holds the conversation; without it only agents of this process exclude each other. Ids
    that begin with a dot are marks, which `list` leaves out.
    """

    async def create(self, id: str, /) -> bool:
        """Makes an empty conversation. False: it was there."""
        ...

    async def load(self, id: str, /) -> Sequence[bytes]:
        """The entries of a conversation in order, none for one that is not there."""
        ...

    async def append(self, id: str, entries: Sequence[bytes], /) -> None:
        """Adds entries, all or none, so that they survive a crash when this returns."""
        ...

    async def list(self) -> Sequence[str]:
        """The ids of the conversations."""
        ...

    async def delete(self, id: str, /) -> None:
        """Removes a conversation, if it is there."""
        ...


class ConversationHeldError(AlhenaError):
    """Another agent is at work on a conversation."""

    kind = "conversation_in_use"


def held_error(conversation: str) -> ConversationHeldError:
    """The error for a second writer."""
    return ConversationHeldError(
        f"the conversation {conversation!r} is in use by another agent.",
        remedy="Wait until that one is closed, or name another conversation.",
    )


_OPEN: "WeakKeyDictionary[Any, set[str]]" = WeakKeyDictionary()
"""The conversations that agents of this process have open, by store."""


@contextlib.contextmanager
def _hold_here(store: Store, conversation: str) -> Generator[None]:
    try:
        held = _OPEN.setdefault(store, set())
    except TypeError:  # a store of a class without weak references
        held = set[str]()
    if conversation in held:
        raise held_error(conversation)
    held.add(conversation)
    try:
        yield
    finally:
        held.discard(conversation)


class StoredConversation(Value, frozen=True, kw_only=True):
    """A conversation that an agent has open: its entries so far, and what it holds."""

    store: Any
    id: str
    entries: tuple[bytes, ...]
    held: Any

    def release(self) -> None:
        """Lets the conversation go."""
        self.held.close()


async def ask_store(store: Store, method: str, *arguments: Any) -> Any:
    """The result of a method of a store. Raises TypeError for one that is not async, and what the
    store raises."""
    asked: object = getattr(store, method)(*arguments)
    if not isawaitable(asked):
        raise TypeError(
            f"store: {type(store).__name__}.{method} returned {type(asked).__name__} instead of an "
            f"awaitable; the methods of a Store are async (`async def {method}`)"
        )
    return await asked


async def load_entries(store: Store, conversation: str) -> tuple[bytes, ...]:
    """The entries of a conversation. Raises TypeError where they are no bytes."""
    found: object = await ask_store(store, "load", conversation)
    if isinstance(found, Sequence) and not isinstance(found, str | bytes):
        entries = cast("Sequence[object]", found)
        if all(isinstance(each, bytes | bytearray | memoryview) for each in entries):
            return tuple(map(bytes, cast("Sequence[bytes]", entries)))
    raise TypeError(
        f"store: {type(store).__name__}.load returned {found!r:.60}, no sequence of bytes"
    )


async def open_conversation(store: Store, conversation: str, *, fresh: bool) -> StoredConversation:
    """Opens a conversation for this agent alone; `fresh`: it must not have entries. Raises
    ConversationHeldError, ConfigError, and what the store raises."""
    with ExitStack() as hold:
        hold.enter_context(_hold_here(store, conversation))
        own: Callable[[str], AbstractContextManager[object]] | None = getattr(store, "hold", None)
        if own is not None:
            hold.enter_context(own(conversation))
        created = await ask_store(store, "create", conversation)
        entries = () if created else await load_entries(store, conversation)
        if entries and fresh:
            raise ConfigError(
                f"the conversation {conversation!r} is there already.",
                remedy="Name another one, or leave out history=.",
            )
        return StoredConversation(
            store=store, id=conversation, entries=entries, held=hold.pop_all()
        )


async def claim_state(store: Store, state_id: str) -> None:
    """Uses a state of a run, once. Raises InputError for one that was used."""
    if not await ask_store(store, "create", f"{MARK}resumed-{state_id}"):
        raise InputError("this state was used already.", remedy="Start a new run with a prompt.")
