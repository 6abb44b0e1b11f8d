"""Conversations that a person keeps under names, and forks of the session's own."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from alhena.chat.chat import Chat
from alhena.config.home import claimed_project_temp, project_temp
from alhena.session.recording import Recording
from alhena.session.records import SessionError, new_session_id
from alhena.session.tags import (
    EarlierPrompt,
    NewHeader,
    Tag,
    Tags,
    earlier_prompts,
    fork,
    project_tags,
    tag_name,
)
from alhena.version import __version__
from alhena.wire.json_values import scrub


class SavedConversations:
    """Those of the project at `cwd`, and the session's own, to be saved."""

    def __init__(
        self, cwd: Path, environ: Mapping[str, str], chat: Chat, recording: Recording | None
    ) -> None:
        self._cwd = cwd
        self._environ = environ
        self._chat = chat
        self._recording = recording

    def all(self) -> tuple[Tag, ...]:
        """Those of the project, the oldest first. Raises SessionError, ConfigError."""
        return self._tags().all()

    async def save(self, name: str, *, replace: bool = False) -> Tag:
        """Keeps the conversation as it is now; what follows does not change what is kept. Raises
        TakenTagError where there is one of that name and it is not to be replaced; SessionError
        where nothing is recorded, or calls of the model have yet to be answered; JournalError."""
        name = tag_name(name)
        last = self._chat.history.contents[-1:]
        if any(part.function_call for each in last for part in each.content.parts):
            raise SessionError(
                "the model's calls are not answered yet.", remedy="Save it when they are."
            )
        journal = await self.record()
        if journal is None:
            raise SessionError("nothing was said yet.", remedy="Save it after the first answer.")
        tags = project_tags(claimed_project_temp(self._environ, self._cwd))
        return await asyncio.to_thread(tags.save, name, journal, replace=replace)

    async def record(self) -> Path | None:
        """The record of the session, which has everything that happened; None before anything was
        said. Raises SessionError where none is kept, JournalError."""
        recording = self._recording
        if recording is None:
            raise SessionError(
                "this session is not recorded.", remedy="Begin one with AgentOptions(record=True)."
            )
        await recording.settle()
        if recording.unrecorded:
            raise SessionError(f"this session is not recorded: {recording.unrecorded}.")
        return recording.path if recording.at_work else None

    @property
    def recorded(self) -> bool:
        """True when there is a record of the session that one can come back to."""
        return self._recording is not None and self._recording.at_work

    async def prompts(self) -> tuple[EarlierPrompt, ...]:
        """The session's prompts, oldest first. Raises SessionError, JournalError."""
        journal = await self.record()
        return () if journal is None else await asyncio.to_thread(earlier_prompts, journal)

    async def fork(self, prompts: Sequence[EarlierPrompt], at: int) -> str:
        """Makes a new session that has this one's conversation before `prompts[at]`; its id, as
        that of `begin`. Raises SessionError, JournalError."""
        journal = await self.record()
        if journal is None:
            raise SessionError("nothing was said yet.")
        session_id = new_session_id()
        project = scrub(str(self._cwd))
        new = NewHeader(session_id, project, __version__, journal.stem, at)
        await asyncio.to_thread(fork, journal, prompts[at].lines, new)
        return session_id

    async def begin(self, name: str) -> str:
        """Makes a new session that begins with what was kept; its id, for `Agent.clear` or as
        `Agent`. Raises NoTagError, SessionError."""
        session_id = new_session_id()
        project = scrub(str(self._cwd))
        begin = self._tags().begin
        await asyncio.to_thread(begin, tag_name(name), session_id, project, __version__)
        return session_id

    def abandon(self, session_id: str) -> None:
        """Removes what `begin` made, of a session that did not come about. Raises SessionError."""
        self._tags().abandon(session_id)

    def delete(self, name: str) -> None:
        """Removes what is kept under a name; sessions stay. Raises NoTagError, SessionError."""
        self._tags().delete(tag_name(name))

    def _tags(self) -> Tags:
        return project_tags(project_temp(self._environ, self._cwd))
