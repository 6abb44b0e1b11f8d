"""Makes a session's checkpoints before calls that may change files, and restores them."""

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from alhena.chat.chat import Chat
from alhena.config.home import (
    claimed_project_temp,
    project_checkpoints,
    project_history,
    project_temp,
)
from alhena.errors import AlhenaError
from alhena.events import CheckpointEvent, Event, WarningEvent
from alhena.session.adopting import Ownership
from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointedCall,
    CheckpointError,
    CheckpointFiles,
    NoCheckpointError,
    NoGitError,
    SnapshotLimitError,
    checkpoint_label,
    objects_of,
    path_text,
    trouble,
)
from alhena.session.checkpoints.repository import (
    PATIENCE_S,
    Repository,
    RepositorySettings,
    Snapshot,
)
from alhena.session.checkpoints.restore import (
    EditingTurn,
    Goal,
    Restoration,
    last_turn,
    later_trees,
    restore,
)
from alhena.session.recording import Recording
from alhena.session.replay import Replay, conversation_at
from alhena.system.errors import printable
from alhena.tools.contract import ToolLocation
from alhena.tools.threads import in_daemon_thread
from alhena.wire.content import Content, EncodedContent, ToolCallRequestInfo
from alhena.wire.json_values import scrub

_MANY = 20
"""So many objects that no checkpoint needs are deleted at once."""
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Checkpoints:
    """The checkpoints of the project of one session. `emit` gets an event for each, and once each
    reason why there is none. `patience_s`: seconds to wait for another process."""

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        session_id: str,
        emit: Callable[[Event], None],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.project = Path(os.path.realpath(cwd))
        self.session_id = session_id
        self._cwd = cwd
        self._environ = environ
        self._be_in(project_temp(environ, cwd))
        self._emit = emit
        self._roots: Callable[[], Sequence[Path]] = tuple
        self._patience_s = patience_s
        self._chat: Chat | None = None
        self._recording: Recording | None = None
        self._told: set[str] = set()
        self._tidied = self._off = False
        self._turn = self._first = ""
        self._named: set[str] = set()
        self._at_work = asyncio.Lock()
        self._closing = threading.Event()

    def _be_in(self, temp: Path) -> None:
        self._temp = temp
        self._owner = Ownership(self._environ, temp, self._cwd)
        self._history = project_history(self._environ, temp)
        self.files = CheckpointFiles(project_checkpoints(temp))

    def attach(
        self, chat: Chat, recording: Recording | None, roots: Callable[[], Sequence[Path]]
    ) -> None:
        """Sets the conversation that checkpoints belong to, and what gives the session's
        directories besides the project, of which nothing is saved."""
        self._chat = chat
        self._recording = recording
        self._roots = roots

    def close(self) -> None:
        """Cancels work in the background."""
        self._closing.set()

    async def keep(
        self, request: ToolCallRequestInfo, places: tuple[ToolLocation, ...]
    ) -> str | None:
        """Makes a checkpoint before a call; returns its name, None if it could not be made."""
        if self._off:
            return None
        named = self._paths(places)
        # What a person calls is a turn of its own; what subagents call is part of the prompt's.
        alone = f":{request.call_id}" if request.is_client_initiated else ""
        self._turn = self._turn or request.prompt_id + alone
        checkpoint = Checkpoint(
            tool_call=CheckpointedCall(request.name, request.args),
            message_id=request.prompt_id,
            session_id=self.session_id,
            call_id=request.call_id,
            prompt_id=self._turn,
        )
        stop = threading.Event()
        try:
            async with self._at_work:
                made = partial(self._save_snapshot, checkpoint, named, stop)
                name, snapshot, warning = await in_daemon_thread(made)
        except asyncio.CancelledError:
            stop.set()
            raise
        except AlhenaError as error:
            self._warn(error)
            return None
        if warning:
            self._tell(warning)
        for path in snapshot.left_out.intersection(map(path_text, named)):
            self._tell(f"{path} cannot be saved, so it cannot be restored")
        for root in self._roots():
            if not root.is_relative_to(self.project):
                self._tell(f"the files in {printable(root)} are not part of checkpoints")
        self._first = self._first or name
        self._named.update(named)
        self._emit(
            CheckpointEvent(
                name=name,
                tree=snapshot.tree,
                call_id=request.call_id,
                parent_call_id=request.parent_call_id,
            )
        )
        self._tidy()
        return name

    async def turn_over(self) -> None:
        """Adds the files at the end of a turn to its first checkpoint, if it has one."""
        first, named = self._first, tuple(self._named)
        self._turn = self._first = ""
        self._named.clear()
        if not first:
            return
        stop = threading.Event()
        try:
            async with self._at_work:
                await in_daemon_thread(partial(self._record_end, first, named, stop))
        except asyncio.CancelledError:
            stop.set()
            raise
        except AlhenaError as error:
            self._tell(
                f"/undo may take back too much, for the end of this turn is not kept: {error}"
            )

    def find_checkpoint(self, name: str) -> tuple[str, Checkpoint]:
        """Finds a checkpoint of the project like `CheckpointFiles.find`. Raises
        NoCheckpointError, CheckpointError, and ForeignError for one of another project."""
        found = self.files.find(name, self.all)
        checkpoint = self.files.read(found)
        self._owner.require(self._owner.checkpoint_project(checkpoint), f"the checkpoint {found}")
        return found, checkpoint

    def all(self) -> tuple[tuple[str, Checkpoint], ...]:
        """The readable checkpoints of the project with their names, oldest first. Raises
        CheckpointError."""
        return self._owner.split_by_project(self.files.all())[0]

    async def restore(
        self, name: str, checkpoint: Checkpoint, stop: threading.Event
    ) -> tuple[str, Restoration]:
        """Restores the files to a checkpoint, and first makes one of the present files, whose name
        is returned. `stop` cancels it until the first file changes. Raises CheckpointError."""
        before = Checkpoint(kind="restore", session_id=self.session_id, back_to=name)
        return await self._complete_work(
            partial(self.put_back, name, checkpoint, before, stop), stop
        )

    async def undo(self, turn: EditingTurn, stop: threading.Event) -> tuple[str, Restoration]:
        """Like `restore`, for the files that a turn changed."""
        before = Checkpoint(kind="restore", session_id=self.session_id, undoes=turn.first.prompt_id)
        return await self._complete_work(partial(self._back, turn.goal, before, stop), stop)

    async def load_conversation(self, name: str, checkpoint: Checkpoint) -> Replay | None:
        """The conversation at a checkpoint; None if it is no longer saved. Raises SessionError,
        CheckpointError."""
        return await in_daemon_thread(partial(self.conversation, name, checkpoint))

    def put_back(
        self, name: str, checkpoint: Checkpoint, before: Checkpoint, stop: threading.Event
    ) -> tuple[str, Restoration]:
        """Like `restore`, in this thread; `before` is the checkpoint made first."""
        if not checkpoint.commit_hash:
            raise CheckpointError("this checkpoint has no files.")
        found = self.all()
        names = [each for each, _ in found]
        after = found[names.index(name) + 1 :] if name in names else ()
        return self._back(Goal(checkpoint, later_trees(after, checkpoint)), before, stop)

    def conversation(self, name: str, checkpoint: Checkpoint) -> Replay | None:
        """Like `load_conversation`, in this thread."""
        if checkpoint.client_history is not None:
            try:
                return Replay.of_contents(
                    EncodedContent(msgspec.json.decode(raw, type=Content))
                    for raw in checkpoint.client_history
                )
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise CheckpointError(
                    f"the conversation of {name} cannot be read: {error}."
                ) from error
        journal = self._journal(checkpoint.session_id)
        if journal is None or not journal.exists():
            return None
        return conversation_at(journal, name)

    def _journal(self, session_id: str) -> Path | None:
        """Path of a session's journal; None for an invalid session id."""
        if not _PLAIN_ID.fullmatch(session_id):
            return None
        return self._temp / "sessions" / f"{session_id}.jsonl"

    def last_turn(self, inherited: Collection[str] = ()) -> EditingTurn | None:
        """The last turn of the session whose edits can be undone. Raises CheckpointError."""
        return last_turn(self.files.all(), self.session_id, inherited)

    def _back(
        self, goal: Goal, before: Checkpoint, stop: threading.Event
    ) -> tuple[str, Restoration]:
        """Carries out the goal; returns the checkpoint made first and the result."""
        self._settle()
        names: list[str] = []
        begun = msgspec.structs.replace(before, under_way=True)

        def keep(present: Snapshot) -> None:
            names.append(self._write(begun, present, checkpoint_label("restore", ())))

        done = restore(self._repository(stop), goal, keep)
        # Where that cannot be noted it is said again to no effect, as if it had been broken off.
        with suppress(CheckpointError, NoCheckpointError):
            self.files.mark_complete(names[0])
        return names[0], done

    async def _complete_work(
        self, work: Callable[[], tuple[str, Restoration]], stop: threading.Event
    ) -> tuple[str, Restoration]:
        """Runs work that changes files; once the first has changed, it is completed even if it is
        cancelled."""
        async with self._at_work:
            carrying = asyncio.ensure_future(in_daemon_thread(work))
            try:
                name, done = await asyncio.shield(carrying)
            except asyncio.CancelledError:
                stop.set()
                await asyncio.wait({carrying})
                raise
        self._emit(CheckpointEvent(name=name, tree=done.before))
        return name, done

    def _settle(self) -> None:
        """Claims the project's directory, or changes to the one it has now. Raises
        CheckpointError."""
        try:
            temp = claimed_project_temp(self._environ, self._cwd)
        except OSError as error:
            raise trouble(error, self._temp) from error
        if temp != self._temp:
            self._be_in(temp)

    def _repository(self, stop: threading.Event) -> Repository:
        """The repository of the project. `stop` cancels its work. Raises CheckpointError."""
        around = RepositorySettings(others=tuple(self._roots()), patience_s=self._patience_s)
        try:
            return Repository(self._history, self.project, self._environ, around, stop)
        except OSError as error:
            raise trouble(error, self.project) from error

    def _record_end(self, first: str, named: tuple[str, ...], stop: threading.Event) -> None:
        repository = self._repository(stop)
        with repository.hold_lock():
            self.files.note_end(first, repository.snapshot(named).tree)

    def _save_snapshot(
        self, checkpoint: Checkpoint, named: tuple[str, ...], stop: threading.Event
    ) -> tuple[str, Snapshot, str]:
        self._settle()
        tool = "" if checkpoint.tool_call is None else checkpoint.tool_call.name
        checkpoint = msgspec.structs.replace(checkpoint, paths=named)
        repository = self._repository(stop)
        with repository.hold_lock():
            snapshot = repository.snapshot(named)
            name = self._write(checkpoint, snapshot, checkpoint_label(tool, named))
        return name, snapshot, repository.warning

    def _write(self, checkpoint: Checkpoint, snapshot: Snapshot, name: str) -> str:
        whole = msgspec.structs.replace(
            checkpoint,
            client_history=self._conversation(),
            project=scrub(str(self._cwd)),
            commit_hash=snapshot.tree,
            notes=snapshot.notes,
        )
        return self.files.write(name, whole)

    def _conversation(self) -> tuple[msgspec.Raw, ...] | None:
        """The conversation for a checkpoint file, None if a journal has it."""
        recorded = self._recording is not None and self._recording.at_work
        if recorded or self._chat is None:
            return None
        return tuple(entry.raw for entry in self._chat.history.contents)

    def _paths(self, places: Sequence[ToolLocation]) -> tuple[str, ...]:
        """The locations in the project, with the real paths of their directories, relative to
        it."""
        found: list[str] = []
        for place in places:
            with suppress(OSError, ValueError):  # it is no path, or outside
                parent, name = os.path.split(os.path.join(self.project, place.path))
                if name:
                    real = Path(os.path.realpath(parent), name)
                    found.append(str(real.relative_to(self.project)))
        return tuple(dict.fromkeys(found))

    def _warn(self, error: AlhenaError) -> None:
        """Warns that there is no checkpoint; turns checkpoints off if a new attempt would fail
        too."""
        self._off = isinstance(error, NoGitError | SnapshotLimitError)
        what = "no checkpoints are made in this session" if self._off else "no checkpoint was made"
        self._tell(f"{what}: {error}")

    def _tell(self, warning: str) -> None:
        if warning not in self._told:
            self._told.add(warning)
            self._emit(WarningEvent(message=warning))

    def _tidy(self) -> None:
        """Removes old checkpoints in the background, once in a session."""
        if not self._tidied:
            self._tidied = True
            threading.Thread(target=self._tidy_up, name="alhena-checkpoints", daemon=True).start()

    def _tidy_up(self) -> None:
        # Whatever keeps it from being done now is tried again by the next session.
        with suppress(AlhenaError):
            self.files.prune(time.time())
            self._settle()
            repository = self._repository(self._closing)
            gone = repository.keep_only(lambda: objects_of(self.files.all()))
            repository.collect(*(() if gone >= _MANY else ("--auto",)))
