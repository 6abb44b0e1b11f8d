"""Makes a session's checkpoints before calls that may change files, and restores them."""

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
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
from alhena.events import (
    CheckpointEvent,
    Event,
    WarningEvent,
)
from alhena.session.adopting import Ownership
from alhena.session.checkpoints.background import BackgroundSnapshot, BackgroundSnapshots
from alhena.session.checkpoints.git import PATIENCE_S as GIT_PATIENCE_S
from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointedCall,
    CheckpointError,
    CheckpointFiles,
    NoCheckpointError,
    NoGitError,
    SavedFile,
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
    goal_from,
    last_turn,
    restore,
)
from alhena.session.checkpoints.saved import read_files, store, sync_files
from alhena.session.recording import Recording
from alhena.session.replay import Replay, conversation_at
from alhena.system.errors import printable
from alhena.threads import in_daemon_thread
from alhena.tools.contract import ToolLocation
from alhena.wire.content import Content, EncodedContent, ToolCallRequestInfo
from alhena.wire.json_values import scrub

_MANY = 20
"""So many objects that no checkpoint needs are deleted at once."""
MOMENT_S = 1.0
MAX_BYTES = 2 << 30
"""Maximum size of a project's repository; older checkpoints are deleted beyond that."""
MAX_WAITED_FILES = 2_000
"""Maximum files of a folder in which every command waits for its snapshot."""
_SOON_S = 0.05
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Checkpoints:
    """The checkpoints of the project of one session. `emit` gets an event for each, and once each
    reason why there is none. `patience_s`: seconds to wait for another process; `patient`: commands
    wait for their snapshot, however large the project is."""

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        session_id: str,
        emit: Callable[[Event], None],
        *,
        patience_s: float = PATIENCE_S,
        patient: bool = True,
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
        self._news: list[str] = []
        self._tidied = False
        self._patient = patient
        self._small: bool | None = None
        self._turn = self._first = ""
        self._named: dict[str, None] = {}
        self._before: BackgroundSnapshot | None = None
        self._ending: asyncio.Task[None] | None = None
        self._unsynced: tuple[Path, ...] = ()
        self._writing = threading.Lock()
        self._at_work = asyncio.Lock()
        self._closing = threading.Event()
        self.background = BackgroundSnapshots(self._take, self._at_work)

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

    async def close(self) -> None:
        """Ends work in the background; snapshots that checkpoints are to have get a moment."""
        self._closing.set()
        if self._ending is not None:
            await asyncio.wait({self._ending})
        await self.background.close(2 * MOMENT_S)

    async def keep(
        self, request: ToolCallRequestInfo, places: tuple[ToolLocation, ...], *, edits: bool
    ) -> str | None:
        """Makes a checkpoint before a call, which with `edits` changes the files of its `places`
        alone; returns its name, None if it could not be made."""
        # What a person calls is a turn of its own; what subagents call is part of the prompt's.
        alone = f":{request.call_id}" if request.is_client_initiated else ""
        if alone and not self._turn:  # it is no prompt, with which a snapshot begins
            self.background.begin()
        self._turn = self._turn or request.prompt_id + alone
        named = self._paths(places)
        self._named.update(dict.fromkeys(named))
        checkpoint = Checkpoint(
            tool_call=CheckpointedCall(request.name, request.args),
            message_id=request.prompt_id,
            session_id=self.session_id,
            call_id=request.call_id,
            prompt_id=self._turn,
            paths=named,
            edits=edits,
        )
        before = self.background.at_edit() if edits else self.background.at_command()
        if not edits and before is not None:
            self._before = self._before or before
            await before.wait(await self._choose_patience(in_person=bool(alone)))
        snapshot = None if before is None else before.result
        if isinstance(snapshot, Snapshot):
            checkpoint = msgspec.structs.replace(
                checkpoint, commit_hash=snapshot.tree, notes=snapshot.notes
            )
        try:
            save = partial(self._save_files, checkpoint, tuple(self._named))
            name, saved = await in_daemon_thread(save)
        except AlhenaError as error:
            self._tell(f"no checkpoint was made: {error}")
            return None
        for path in named:
            if path not in saved:
                self._tell(f"{path_text(path)} cannot be saved, so it cannot be restored")
        self._name_other_roots()
        self._first = self._first or name
        if not edits:
            self.background.note_command(request.call_id)
        if before is not None and not isinstance(snapshot, Snapshot):
            follow = partial(self._add_snapshot, name, told=not edits)
            await before.then(follow, needed=self._patient or not edits)
        self._tell_news()
        self._emit(
            CheckpointEvent(
                name=name,
                tree=checkpoint.commit_hash,
                call_id=request.call_id,
                parent_call_id=request.parent_call_id,
            )
        )
        asyncio.get_running_loop().call_later(_SOON_S, self._tidy)
        return name

    async def turn_over(self) -> None:
        """Adds the files at the end of a turn to its first checkpoint, if it has one."""
        first, named, before = self._first, tuple(self._named), self._before
        self._turn = self._first = ""
        self._named.clear()
        self._before = None
        self.background.outdate()
        if not first:
            return
        self._ending = asyncio.create_task(self._end_turn(first, named))
        if before is not None and not isinstance(before.result, AlhenaError):
            await self.background.plan(named).then(partial(self._add_end, first))
        if self._patient:
            await self.ready()
        self._tell_news()

    async def _end_turn(self, first: str, named: tuple[str, ...]) -> None:
        try:
            await in_daemon_thread(partial(self._save_end, first, named))
        except AlhenaError as error:
            self._tell_lost_end(error)

    async def ready(self) -> None:
        """Waits until checkpoints have all that they are to have."""
        if self._ending is not None:
            await asyncio.wait({self._ending})
        await self.background.wait()
        self._tell_news()

    async def _choose_patience(self, *, in_person: bool) -> float:
        """Seconds that a command waits for its snapshot: as long as it takes if that was asked for
        or the folder is small, else a moment if a person typed it. A model's does not wait."""
        if self._small is None:
            self._small = await in_daemon_thread(partial(is_small_folder, self.project))
        if self._patient or self._small:
            return GIT_PATIENCE_S
        return MOMENT_S if in_person else 0.0

    def _name_other_roots(self) -> None:
        for root in self._roots():
            if not root.is_relative_to(self.project):
                self._tell(f"the files in {printable(root)} are not part of checkpoints")

    async def _add_snapshot(self, name: str, result: Snapshot | AlhenaError, *, told: bool) -> None:
        """Adds the snapshot from before a call to its checkpoint, or tells of the reason why a
        command has none."""
        if isinstance(result, Snapshot):
            await self._amend(name, commit_hash=result.tree, notes=result.notes)
        elif told:
            always = isinstance(result, NoGitError | SnapshotLimitError)
            when = "in this session" if always else "of this turn"
            self._news.append(f"what commands change {when} cannot be restored: {result}")

    async def _add_end(self, first: str, result: Snapshot | AlhenaError) -> None:
        if isinstance(result, Snapshot):
            await self._amend(first, after=result.tree)
        elif not isinstance(result, NoGitError | SnapshotLimitError):
            self._tell_lost_end(result)

    async def _amend(self, name: str, **changes: str) -> None:
        def amend() -> None:
            with self._writing:
                self.files.amend(name, **changes)

        try:
            await in_daemon_thread(amend)
        except NoCheckpointError:
            return  # it was deleted
        except AlhenaError as error:
            self._news.append(f"the checkpoint {name} is incomplete: {error}")

    def _tell_lost_end(self, error: AlhenaError) -> None:
        self._news.append(
            f"/undo may take back too much, for the end of this turn is not kept: {error}"
        )

    def _tell_news(self) -> None:
        while self._news:
            self._tell(self._news.pop(0))

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
        work = partial(self.put_back, name, checkpoint, before, stop)
        return await self._complete_work(work, stop, whole=bool(checkpoint.commit_hash))

    async def undo(self, turn: EditingTurn, stop: threading.Event) -> tuple[str, Restoration]:
        """Like `restore`, for the files that a turn changed."""
        before = Checkpoint(kind="restore", session_id=self.session_id, undoes=turn.first.prompt_id)
        work = partial(self._back, turn.goal, before, stop)
        return await self._complete_work(work, stop, whole=bool(turn.goal.start.commit_hash))

    def put_back(
        self, name: str, checkpoint: Checkpoint, before: Checkpoint, stop: threading.Event
    ) -> tuple[str, Restoration]:
        """Like `restore`, in this thread; `before` is the checkpoint made first."""
        if not checkpoint.has_files:
            raise CheckpointError("this checkpoint has no files.")
        return self._back(goal_from(name, checkpoint, self.all()), before, stop)

    def conversation(self, name: str, checkpoint: Checkpoint) -> Replay | None:
        """The conversation at a checkpoint; None if it is no longer saved. Reads files. Raises
        SessionError, CheckpointError."""
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
            whole = msgspec.structs.replace(begun, saved=dict(present.saved))
            names.append(self._write(whole, present, checkpoint_label("restore", ())))

        done = restore(self._repository(stop), goal, keep)
        # Where that cannot be noted it is said again to no effect, as if it had been broken off.
        with suppress(CheckpointError, NoCheckpointError):
            self.files.amend(names[0], under_way=False)
        return names[0], done

    async def _complete_work(
        self, work: Callable[[], tuple[str, Restoration]], stop: threading.Event, *, whole: bool
    ) -> tuple[str, Restoration]:
        """Runs work that changes files; once the first has changed, it is completed even if it is
        cancelled. Work on the `whole` project excludes snapshots."""
        async with self._at_work if whole else nullcontext():
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

    def _repository(
        self, stop: threading.Event, planned: BackgroundSnapshot | None = None
    ) -> Repository:
        """The repository of the project. `stop` cancels its work. Raises CheckpointError."""
        around = RepositorySettings(
            others=tuple(self._roots()),
            patience_s=self._patience_s,
            gentle=planned is not None and not self._patient,
            changed_since=lambda: None if planned is None else planned.changed_since,
        )
        try:
            return Repository(self._history, self.project, self._environ, around, stop)
        except OSError as error:
            raise trouble(error, self.project) from error

    def _take(self, planned: BackgroundSnapshot) -> Snapshot:
        """Takes a snapshot of the whole project, in this thread. Raises CheckpointError."""
        if self._small is None:
            self._small = is_small_folder(self.project)
        self._settle()
        repository = self._repository(planned.stop, planned)
        with repository.hold_lock():
            snapshot = repository.snapshot(planned.named)
        if repository.warning:
            self._news.append(repository.warning)
        return snapshot

    def _save_files(
        self, checkpoint: Checkpoint, named: tuple[str, ...]
    ) -> tuple[str, Mapping[str, SavedFile]]:
        """Writes a checkpoint with these files; they are synced to disk while the call runs."""
        self._settle()
        found = read_files(self.project, named)
        tool = "" if checkpoint.tool_call is None else checkpoint.tool_call.name
        whole = msgspec.structs.replace(checkpoint, saved=dict(found.files))
        label = checkpoint_label(tool, checkpoint.paths)
        try:
            with self._writing:
                name = self._write(whole, Snapshot(""), label, synced=False)
            try:
                stored = store(self._history / ".git", found.contents)
            except OSError:
                self.files.remove(name)  # it has nothing to restore
                raise
        except OSError as error:
            raise trouble(error, self._history) from error
        self._unsynced = (*self._unsynced, *stored, self.files.path(name))
        return name, found.files

    def _save_end(self, first: str, named: tuple[str, ...]) -> None:
        ended = dict(read_files(self.project, named).files)
        with self._writing, suppress(NoCheckpointError):
            self.files.amend(first, ended=ended)

    def _write(
        self, checkpoint: Checkpoint, snapshot: Snapshot, label: str, *, synced: bool = True
    ) -> str:
        whole = msgspec.structs.replace(
            checkpoint,
            client_history=self._conversation(),
            project=scrub(str(self._cwd)),
            commit_hash=snapshot.tree or checkpoint.commit_hash,
            notes=snapshot.notes or checkpoint.notes,
        )
        return self.files.write(label, whole, synced=synced)

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

    def _tell(self, warning: str) -> None:
        if warning not in self._told:
            self._told.add(warning)
            self._emit(WarningEvent(message=warning))

    def _tidy(self) -> None:
        """Syncs what was saved, in the background; removes old checkpoints, once in a session."""
        unsynced, self._unsynced = self._unsynced, ()
        syncing = partial(sync_files, unsynced)
        threading.Thread(target=syncing, name="alhena-checkpoint-sync", daemon=True).start()
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
            if repository.size() > MAX_BYTES:
                self.files.prune(time.time(), keep=max(len(self.files.names()) // 2, 1))
                repository.keep_only(lambda: objects_of(self.files.all()))
                repository.collect("--prune=2.hours.ago")


def is_small_folder(folder: Path) -> bool:
    """True for a folder with few files: those that its repository tracks, or else all of them."""
    try:
        with open(folder / ".git" / "index", "rb") as index:
            head = index.read(12)
        return int.from_bytes(head[8:12], "big") <= MAX_WAITED_FILES
    except OSError:
        return _count_entries(folder, MAX_WAITED_FILES) <= MAX_WAITED_FILES


def _count_entries(folder: Path, most: int) -> int:
    """The entries of a folder and those below it; stops counting past `most`."""
    count, waiting = 0, [str(folder)]
    while waiting and count <= most:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > most:
                        break
                    if entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue  # a snapshot does not reach it either
    return count
