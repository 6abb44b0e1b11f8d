"""Records a running session, and continues the record of an earlier one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.chat.history import INTERRUPTED
from alhena.config.effective_settings import Place
from alhena.config.home import claim_project_temp, claimed_project_temp, project_temp
from alhena.errors import AlhenaError
from alhena.events import ApiRequestEvent, Event, RunFinishedEvent, UserMessageEvent, WarningEvent
from alhena.session.records import VERSION, Header, JournalError, new_session_id, now
from alhena.session.store import LATEST, Resumed, project_store, prune_in_background
from alhena.system.errors import printable
from alhena.values import Value
from alhena.version import __version__
from alhena.wire.content import MODEL, USER, Content, EncodedContent, text_content
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from threading import Thread

    from alhena.chat.chat import Chat
    from alhena.session.journal import Disk, Journal
    from alhena.session.records import KnownRecord
    from alhena.session.replay import JournalRecorder

_PATIENCE_S = 5.0

Change = Event | tuple[int, "Sequence[EncodedContent]"]
"""An item for the journal: an event, or a change of the history."""


class Recording:
    """Records a session while it runs.

    A new session has no file before the first answer to a prompt begins: until then nothing has
    happened that could be lost. With `at_once` it has one as soon as there is a prompt. Where none
    can be made, `emit` gets a warning and the session continues `unrecorded`, which says why. Once
    there is one, what cannot be written ends the run: `settle` raises JournalError.
    """

    def __init__(
        self,
        session_id: str,
        temp: Path,
        project: Path,
        emit: Callable[[Event], None],
        disk: "Disk | None" = None,
        when_begun: "Callable[[], Thread | None]" = lambda: None,
    ) -> None:
        self.session_id = session_id
        self.path = temp / "sessions" / f"{session_id}.jsonl"
        self.opening = 0
        self.agent_turns = 0
        self.unrecorded = ""
        self.at_once = False
        self._when_begun = when_begun
        self._beside: Thread | None = None
        self._temp = temp
        self._project = project
        self._emit = emit
        self._disk = disk
        self._journal: Journal | None = None
        self._recorder: JournalRecorder | None = None
        self._waiting: list[Change] | None = []
        self._prompted = False
        self._asked = False
        self._failed = False
        self._told = False
        self._due = False

    def attach(
        self,
        chat: "Chat",
        kept: "Sequence[EncodedContent]" = (),
        opening: int = 0,
        *,
        at_once: bool = False,
    ) -> None:
        """Records the conversation from here on; its first `opening` contents are no person's and
        no model's, and `kept` are recorded already."""
        self.opening, self.at_once = opening, at_once
        contents = chat.history.contents
        same = 0
        for mine, theirs in zip(contents, kept, strict=False):
            if mine is not theirs and mine != theirs:
                break
            same += 1
        if same < max(len(contents), len(kept)):
            self.history(same, contents[same:])
        chat.history.report_to(self.history)

    def go_on(self, resumed: "Resumed") -> None:
        """Records behind what a session holds already."""
        self.agent_turns = resumed.replay.agent_turns
        self._start(resumed.journal)
        self._prompted = True

    def event(self, event: Event) -> None:
        """Takes an event, as a listener of the session's channel."""
        self._prompted = self._prompted or isinstance(event, UserMessageEvent)
        begins = self.at_once or self._asked or isinstance(event, RunFinishedEvent)
        self._asked = isinstance(event, ApiRequestEvent)
        if self._journal is None and begins:
            self._begin()
        self._take(event)

    def put(self, *records: "KnownRecord") -> None:
        """Writes records of the caller's own; what cannot be written waits, as with events. There
        is something to record from here on, also without a prompt."""
        self._prompted = True
        if self._journal is None:
            return
        for record in records:
            try:
                self._journal.append(record)
            except JournalError:  # it is tried again, and said, by `settle`
                self._failed = True

    def history(self, keep: int, fresh: "Sequence[EncodedContent]") -> None:
        """Takes a change of the history, as its watch."""
        self._take((keep, fresh))

    @property
    def at_work(self) -> bool:
        """True when there is a file that holds what has happened."""
        return self._journal is not None

    @property
    def failed(self) -> bool:
        """True when something waits that could not be written."""
        return self._failed

    async def settle(self) -> None:
        """Has what happened so far on the disk when it returns. Raises JournalError."""
        self._begin()
        journal = self._journal
        if journal is None or journal.settled:
            return
        from alhena.threads import in_daemon_thread

        try:
            journal.write()
            await in_daemon_thread(journal.synchronise)
        except JournalError:
            self._failed = self._told = True
            raise
        self._failed = self._told = False

    async def step(self) -> None:
        """Has what happened so far on its way to the disk, which is not waited for. Raises
        JournalError, also for what went wrong with it the last time."""
        self._begin()
        journal = self._journal
        if journal is None or journal.settled:
            return
        if not (journal.doubtful or self._failed):
            self._write()
        if self._failed or journal.doubtful:
            await self.settle()
            return
        from _thread import start_new_thread

        # Thread.start() waits until the thread runs, which on a busy machine takes long.
        start_new_thread(_synchronise_journal, (journal,))

    async def flush(self) -> str | None:
        """As `settle`; says why it could not be done, unless that was said."""
        told = self._told
        try:
            await self.settle()
        except AlhenaError as error:
            return None if told else str(error)
        return None

    async def aclose(self) -> None:
        """Brings what is left to the disk and lets the file go; waits a little for what was begun
        beside it. Raises JournalError, unless the reason was said already."""
        journal, self._journal, self._recorder, self._waiting = self._journal, None, None, None
        if journal is None:
            return
        from alhena.threads import in_daemon_thread

        try:
            await in_daemon_thread(journal.close)
        except JournalError:
            if not self._told:
                raise
        finally:
            if self._beside is not None and self._beside.is_alive():
                await in_daemon_thread(partial(self._beside.join, _PATIENCE_S))

    def abandon(self) -> None:
        """Lets the file go, of a session that did not begin."""
        journal, self._journal, self._recorder, self._waiting = self._journal, None, None, None
        if journal is not None:
            with suppress(JournalError):  # whatever kept the session from beginning is said
                journal.close()

    def _take(self, change: Change) -> None:
        if self._recorder is None:
            if self._waiting is not None:
                self._waiting.append(change)
            return
        if isinstance(change, tuple):
            self._recorder.history(*change)
        else:
            self._recorder.event(change)
        if self.at_once:
            self._write()
        elif not self._due:
            # What comes about before the event loop turns is written in one piece.
            self._due = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._due = False
        if self._journal is None or not self._journal.waiting:
            return
        try:
            self._journal.write()
        except JournalError:  # what it could not write waits; `settle` tries again, and says so
            self._failed = True

    def _begin(self) -> None:
        """Makes the file of a new session, if there is something to record."""
        if self._journal is not None or self._waiting is None or not self._prompted:
            return
        from alhena.session.journal import Journal

        header = Header(
            at=now(),
            version=VERSION,
            session_id=self.session_id,
            project=scrub(str(self._project)),
            writer=__version__,
            opening=self.opening,
        )
        try:
            claim_project_temp(self._temp, self._project)
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
            journal = Journal.create(self.path, self._disk)
            try:
                journal.append(header)
            except JournalError:
                self.path.unlink()
                journal.drop()
                raise
        except (OSError, AlhenaError) as error:
            self._waiting = None
            self.unrecorded = self._why(error)
            self._emit(WarningEvent(message=f"this session is not recorded: {self.unrecorded}."))
            return
        self._start(journal)
        self._beside = self._when_begun()

    def _why(self, error: OSError | AlhenaError) -> str:
        """The reason that the file of a new session could not be created."""
        from alhena.session.journal import unwritable

        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, OSError):
            return unwritable(cause, cause.filename or self.path)
        return str(error).rstrip(".")

    def _start(self, journal: "Journal") -> None:
        from alhena.session.replay import JournalRecorder

        self._journal = journal
        self._recorder = JournalRecorder(journal.add)
        waiting, self._waiting = self._waiting or (), None
        for change in waiting:
            self._take(change)


class Beginning(Value, frozen=True, kw_only=True):
    """Initial state of a session: its journal and, if `resumed`, the state the earlier run left:
    `contents`, of which those in `kept` are recorded, the number of `prompts`, the `model` and the
    `version` that it called itself, how many contents it `counted` as how many tokens, and
    `notices` for people."""

    session_id: str
    recording: Recording | None = None
    contents: tuple[EncodedContent, ...] = ()
    kept: tuple[EncodedContent, ...] = ()
    opening: int = 0
    prompts: int = 0
    resumed: bool = False
    model: str = ""
    version: str = ""
    counted: tuple[int, int] | None = None
    notices: tuple[str, ...] = ()

    @property
    def opening_contents(self) -> "tuple[Content, ...]":
        """The opening contents for subagents of a resumed session."""
        return tuple(entry.content for entry in self.contents[: self.opening or None])

    @property
    def durable(self) -> Callable[[], Awaitable[None]] | None:
        """Returns when everything is on the disk; None where nothing is recorded."""
        return None if self.recording is None else self.recording.settle

    @property
    def step(self) -> Callable[[], Awaitable[None]]:
        """Queues everything for the disk, if something is recorded."""
        return _do_nothing if self.recording is None else self.recording.step

    @property
    def transcript(self) -> str:
        """The path of the record, "" where there is none."""
        named = self.recording is not None and self.recording.path.name
        return str(self.recording.path) if self.recording is not None and named else ""

    def attach(
        self,
        chat: "Chat",
        subscribe: Callable[[Callable[[Event], None]], object],
        opening: int,
        *,
        at_once: bool,
    ) -> None:
        """Records the conversation, which has so many `opening` contents, from here on, and the
        events that `subscribe` gives. Another model than the one that answered before gets it
        without what it could not verify."""
        if self.recording is not None:
            self.recording.attach(chat, self.kept, opening, at_once=at_once)
            subscribe(self.recording.event)
        if not (self.contents and self.model) or chat.continue_from(self.model, self.version):
            chat.note_measured(self.counted)

    def abandon(self) -> None:
        """Undoes what holds the session, when it does not come about."""
        if self.recording is not None:
            self.recording.abandon()


async def _do_nothing() -> None:
    """Nothing is recorded."""


def _synchronise_journal(journal: "Journal") -> None:
    with suppress(JournalError):  # it is doubtful from then on, and whoever comes next is told
        journal.synchronise()


def begin_recording(
    resume: str | None,
    place: Place,
    emit: Callable[[Event], None],
    *,
    record: bool,
    session_id: str | None = None,
    disk: "Disk | None" = None,
) -> Beginning:
    """A new session (of this id, if one is given), or with `resume` (`latest`, a number, an id) an
    old one. Raises SessionError, HeldSessionError, JournalError, ConfigError."""
    cwd, environ, settings = place.cwd, place.environ, place.settings
    if record or resume is not None or settings.general.checkpointing.enabled:
        # Before anything is told where it is: a namesake may begin at the same moment.
        with suppress(OSError):  # whoever wants to write there says why that cannot be
            claimed_project_temp(environ, cwd)
    if session_id is not None:
        project_store(environ, cwd).require_new(session_id)
    old = None if resume is None else resume_recording(resume, cwd, environ, emit, disk)
    if old is not None:
        return old
    own_id = session_id or new_session_id()
    recording: Recording | None = None
    if record:
        temp = project_temp(environ, cwd)

        def prune() -> "Thread | None":
            return prune_in_background(temp, settings, own_id, emit)

        recording = Recording(own_id, temp, cwd, emit, disk, prune)
    none = () if resume is None else ("No previous sessions found for this project.",)
    return Beginning(session_id=own_id, recording=recording, notices=none)


GONE = (
    "[What was said and done after this point is gone: the record of this session was damaged. "
    "Tools may have been called there, and what they did is still in effect. Check before you "
    "repeat anything that changes something.]"
)


def resume_recording(
    name: str,
    cwd: Path,
    environ: Mapping[str, str],
    emit: Callable[[Event], None],
    disk: "Disk | None" = None,
) -> Beginning | None:
    """The session that is meant; None for the latest where there is none. Raises SessionError,
    HeldSessionError, JournalError, ConfigError."""
    store = project_store(environ, cwd)
    if name == LATEST and not store.summaries():
        return None
    found = store.resume(name, __version__, disk)
    replay = found.replay
    session_id, kept = found.journal.path.stem, tuple(replay.contents)
    recording = Recording(session_id, project_temp(environ, cwd), cwd, emit, disk)
    recording.go_on(found)
    return Beginning(
        session_id=session_id,
        recording=recording,
        contents=(*kept, *told_behind(found, kept, replay.pending_responses())),
        kept=kept,
        opening=0 if replay.header is None else replay.header.opening,
        prompts=replay.prompts,
        resumed=True,
        model=replay.model,
        version=replay.version,
        counted=replay.counted,
        notices=notices_of(found),
    )


def told_behind(
    found: Resumed, contents: Sequence[EncodedContent], answers: Content | None
) -> tuple[EncodedContent, ...]:
    """Contents to append to `contents` of a resumed session: the `answers` to its last calls and,
    if later contents were lost, a note about that."""
    told = () if answers is None else (EncodedContent(answers),)
    if not (found.replay.incomplete and contents):
        return told
    if told or contents[-1].content.role == USER:
        told = (*told, EncodedContent(text_content(MODEL, INTERRUPTED)))
    return (*told, EncodedContent(text_content(USER, GONE)))


def notices_of(found: Resumed) -> tuple[str, ...]:
    """Notices for people about a resumed session."""
    path = found.journal.path
    notices = [
        f"the record of this session was damaged: {damage.dropped} bytes of its end were moved to "
        f"{printable(path.with_name(damage.moved_to))}, and what comes before them was restored."
        for damage in found.replay.damage
    ]
    unknown = found.replay.unknown_calls()
    if unknown:
        notices.append(
            f"{', '.join(unknown)} {'may have' if found.replay.incomplete else 'had'} started when "
            "this session ended, and no result was recorded: whether it took effect is unknown. It "
            "is not repeated."
        )
    return tuple(notices)
