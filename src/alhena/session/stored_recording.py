"""The record of a session in a store of the program, and the conversation that one restores."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.errors import AlhenaError
from alhena.events import Event, UserMessageEvent
from alhena.session.recording import Beginning, Recording
from alhena.session.records import (
    VERSION,
    Continued,
    Happened,
    Header,
    JournalError,
    SessionError,
    encode_json,
    new_session_id,
    now,
)
from alhena.session.replay import JournalRecorder, Replay
from alhena.session.stored import StoredConversation, ask_store, load_entries
from alhena.threads import run_to_end
from alhena.version import __version__
from alhena.wire.content import Content, EncodedContent

if TYPE_CHECKING:
    from alhena.chat.chat import Chat
    from alhena.session.records import KnownRecord


class StoreRecording(Recording):
    """Records a session into a store: its entries are the records of a journal that restore the
    conversation. `kept`: the contents that were there when the session began."""

    def __init__(self, stored: StoredConversation, emit: Callable[[Event], None]) -> None:
        super().__init__(stored.id, Path(), Path(), emit)
        self.kept: tuple[Content, ...] = ()
        self._stored = stored
        self._entries: list[bytes] = []
        self._headed = bool(stored.entries)
        self._stored_count = len(stored.entries)
        self._turn = asyncio.Lock()
        self._writes = JournalRecorder(self._add)

    @property
    def conversation(self) -> str:
        """The id of the conversation."""
        return self._stored.id

    def attach(
        self,
        chat: "Chat",
        kept: "Sequence[EncodedContent]" = (),
        opening: int = 0,
        *,
        at_once: bool = False,
    ) -> None:
        """Records the conversation from here on."""
        self.kept = tuple(entry.content for entry in kept)
        super().attach(chat, kept, opening, at_once=at_once)

    def event(self, event: Event) -> None:
        """Takes an event."""
        self._prompted = self._prompted or isinstance(event, UserMessageEvent)
        self._writes.event(event)

    def history(self, keep: int, fresh: "Sequence[EncodedContent]") -> None:
        """Takes a change of the history."""
        self._writes.history(keep, fresh)

    def put(self, *records: "KnownRecord") -> None:
        """Takes records of the caller's own."""
        self._prompted = True
        for record in records:
            self._add(record)

    def note_continued(self) -> None:
        """Records that another process continues."""
        self._add(Continued(at=now(), writer=__version__))

    async def settle(self) -> None:
        """Has what happened so far in the store. Raises JournalError, and AlhenaErrors of the
        store."""
        async with self._turn:
            if not (self._prompted and self._entries):
                return
            # an append that is cancelled may be in the store or not
            await run_to_end(asyncio.ensure_future(self._append()))

    async def _append(self) -> None:
        if not self._headed:
            self._entries.insert(0, encode_json(self._header()))
            self._headed = True
        entries, self._entries = self._entries, []
        store, name = self._stored.store, self._stored.id
        try:
            if self._failed:  # the store may have what it failed with, as after a lost connection
                stored = max(len(await load_entries(store, name)) - self._stored_count, 0)
                self._stored_count += stored
                entries = entries[stored:]
            if entries:
                await ask_store(store, "append", name, tuple(entries))
        except BaseException as error:
            self._entries = entries + self._entries
            self._failed = self._told = True
            if isinstance(error, AlhenaError) or not isinstance(error, Exception):
                raise
            kind = type(error).__name__
            raise JournalError(
                f"the conversation {name!r} cannot be stored: {kind}: {error}"
            ) from error
        self._failed = self._told = False
        self._stored_count += len(entries)

    async def step(self) -> None:
        """As `settle`."""
        await self.settle()

    async def aclose(self) -> None:
        """Writes what is left and lets the conversation go. Raises as `settle`, unless the reason
        was said already."""
        told = self._told
        try:
            await self.settle()
        except AlhenaError:
            if not told:
                raise
        finally:
            self._stored.release()

    def abandon(self) -> None:
        """Lets the conversation go, of a session that did not begin."""
        self._stored.release()

    def _add(self, record: "KnownRecord") -> None:
        """Takes a record; of events only what says how much was counted."""
        if isinstance(record, Happened) and not bytes(record.event).startswith(_COUNTS):
            return
        self._entries.append(encode_json(record))

    def _header(self) -> Header:
        return Header(
            at=now(),
            version=VERSION,
            session_id=self._stored.id,
            project="",
            writer=__version__,
            opening=self.opening,
        )


_COUNTS = b'{"type":"api_response"'


def begin_stored(stored: StoredConversation, emit: Callable[[Event], None]) -> Beginning:
    """A session that continues a conversation, or begins it. Raises SessionError for entries that
    are no conversation."""
    recording = StoreRecording(stored, emit)
    session_id = new_session_id()
    if not stored.entries:
        return Beginning(session_id=session_id, recording=recording)
    replay = _replay(stored.id, stored.entries)
    recording.note_continued()
    kept = tuple(replay.contents)
    answers = replay.pending_responses()
    return Beginning(
        session_id=session_id,
        recording=recording,
        contents=kept if answers is None else (*kept, EncodedContent(answers)),
        kept=kept,
        opening=0 if replay.header is None else replay.header.opening,
        prompts=replay.prompts,
        resumed=True,
        model=replay.model,
        version=replay.version,
        counted=replay.counted,
    )


def read_contents(conversation: str, entries: Sequence[bytes]) -> tuple[Content, ...]:
    """The contents that entries lead to. Raises SessionError."""
    return tuple(entry.content for entry in _replay(conversation, entries).contents)


def _replay(conversation: str, entries: Sequence[bytes]) -> Replay:
    replay = Replay()
    try:
        for entry in entries:
            replay.feed(entry)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SessionError(
            f"the conversation {conversation!r} cannot be read: {error}.",
            remedy="Its entries in the store are not what an agent has written.",
        ) from error
    return replay
