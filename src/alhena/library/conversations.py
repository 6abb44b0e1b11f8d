"""The conversation of an agent in a store, and the agents that branch off from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, cast

from msgspec.structs import replace

from alhena.errors import ConfigError
from alhena.library.options import AgentArguments
from alhena.tools.function import DepsT
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.session.stored import Store, StoredConversation
    from alhena.wire.content import Content

_METHODS = ("create", "load", "append", "list", "delete")


class ConversationPlace(Value, frozen=True):
    """The place of a conversation: its store and its id there; or of neither."""

    store: Any = None
    id: str | None = None

    @classmethod
    def of(cls, store: object, conversation: object) -> ConversationPlace:
        """The place that arguments name. Raises TypeError, ConfigError."""
        missing = [name for name in _METHODS if not callable(getattr(store, name, None))]
        if store is not None and (missing or isinstance(store, type)):
            lacks = f", which has no method {missing[0]}" if missing else ""
            raise TypeError(f"store has to be a Store, not {store!r:.60}{lacks}")
        if conversation is not None and not isinstance(conversation, str):
            raise TypeError(f"conversation has to be text, not {conversation!r:.60}")
        if conversation is not None and store is None:
            raise ConfigError(
                "conversation needs a store.", remedy='Pass store=SQLiteStore("chats.db").'
            )
        if conversation is not None and (not conversation or conversation.startswith(".")):
            raise ConfigError(
                f"conversation cannot be {conversation!r:.60}.",
                remedy="Give it a text that does not begin with a dot.",
            )
        return cls(store, conversation)

    async def open(self, *, fresh: bool) -> StoredConversation | None:
        """The conversation, held for one agent; None where there is none. Raises
        ConversationHeldError."""
        if self.id is None:
            return None
        from alhena.session.stored import open_conversation

        return await open_conversation(cast("Store", self.store), self.id, fresh=fresh)

    @property
    def claim(self) -> Callable[[str], Awaitable[None]] | None:
        """Uses a state of a run once, where there is a store."""
        if self.store is None:
            return None
        from functools import partial

        from alhena.session.stored import claim_state

        return partial(claim_state, cast("Store", self.store))

    def read(self) -> tuple[Content, ...]:
        """The contents of the conversation, none where there is none yet."""
        if self.id is None:
            return ()
        from alhena.library.blocking import LoopThread
        from alhena.session.stored import load_entries
        from alhena.session.stored_recording import read_contents

        name, store = self.id, cast("Store", self.store)

        async def load() -> Sequence[bytes]:
            return await load_entries(store, name)

        thread = LoopThread()
        try:
            return read_contents(name, thread.call(load))
        finally:
            thread.close()


class BranchesOff(Generic[DepsT]):
    """The method of `Agent` that makes another one with a part of its conversation."""

    _given: AgentArguments
    _place: ConversationPlace

    @property
    def history(self) -> tuple[Content, ...]:
        """The conversation so far."""
        raise NotImplementedError

    def _copy(self, given: AgentArguments, place: ConversationPlace) -> Self:
        raise NotImplementedError

    def fork(self, at: int | None = None, *, conversation: str | None = None) -> Self:
        """An agent like this one that continues from `history[:at]`, by default from all of it;
        both go their own ways. Its conversation is stored under `conversation`, or not at all.

            other = agent.fork(at=4, conversation="ada-2")

        Raises ConfigError for a place outside of the history or between a call and its response,
        and, when it is opened, for a conversation that is there already.
        """
        contents = self.history or self._place.read()
        if at is not None and (isinstance(at, bool) or not isinstance(cast("object", at), int)):
            raise TypeError(f"at has to be a number of contents, not {at!r:.60}")
        end = len(contents) if at is None else at
        if not 0 <= end <= len(contents):
            raise ConfigError(
                f"there is no place {at} in a history of {len(contents)} contents.",
                remedy=f"Give at= from 0 to {len(contents)}.",
            )
        taken = contents[:end]
        if taken and any(part.function_call is not None for part in taken[-1].parts):
            raise ConfigError(
                f"a fork at {end} would be between a call and its response.",
                remedy="Fork before the call, or after its response.",
            )
        place = ConversationPlace.of(None if conversation is None else self._store, conversation)
        given = replace(
            self._given,
            history=taken,
            resume=None,
            options=replace(self._given.options, session_id=None),
        )
        return self._copy(given, place)

    @property
    def _store(self) -> Any:
        if self._place.store is None:
            raise ConfigError(
                "this agent has no store to fork into.", remedy="Pass store= to the Agent."
            )
        return self._place.store
