"""Checkpoints of a session: made before calls that may change something, and gone back to."""

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from alhena.agent.recording import Recording
from alhena.chat.chat import Chat
from alhena.config.home import (
    claim_project_temp,
    project_checkpoints,
    project_history,
    project_temp,
)
from alhena.errors import AlhenaError
from alhena.events import CheckpointEvent, Event, WarningEvent
from alhena.session.checkpoints import (
    Checkpoint,
    CheckpointFiles,
    ToolCall,
    checkpoint_name,
    conversation_at,
    moments,
)
from alhena.session.errors import CheckpointError, NoGitError, TooMuchError
from alhena.session.replay import Replay
from alhena.session.restoring import Restoration, restore
from alhena.session.shadow import Limits, ShadowRepository, Snapshot
from alhena.tools.contract import ToolLocation
from alhena.tools.daemon import in_daemon_thread
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.content import Content
from alhena.wire.encoded import EncodedContent

MANY_GONE = 20
"""Of so many checkpoints that have gone, the contents are removed, too."""

_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")


class Remembered(msgspec.Struct, frozen=True):
    """A conversation as a checkpoint has it. `replay` knows of the calls that end it, where a
    journal had it."""

    contents: tuple[EncodedContent, ...]
    replay: Replay


class Checkpoints:
    """The checkpoints of the project of one session. `emit` hears of each, and a warning, once for
    each reason, when there can be none; the session goes on."""

    def __init__(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        session_id: str,
        emit: Callable[[Event], None],
        *,
        limits: Limits | None = None,
    ) -> None:
        self.project = Path(os.path.realpath(cwd))
        self.session_id = session_id
        self._temp = project_temp(environ, cwd)
        self._history = project_history(environ, self._temp)
        self.files = CheckpointFiles(project_checkpoints(self._temp))
        self._cwd = cwd
        self._environ = environ
        self._emit = emit
        self._limits = limits
        self._chat: Chat | None = None
        self._recording: Recording | None = None
        self._told: set[str] = set()
        self._tidied = self._off = False
        self._at_work = asyncio.Lock()
        self._closing = threading.Event()

    def attach(self, chat: Chat, recording: Recording | None) -> None:
        """The conversation that checkpoints belong to."""
        self._chat = chat
        self._recording = recording

    def close(self) -> None:
        """Ends what still runs."""
        self._closing.set()

    async def keep(
        self, request: ToolCallRequestInfo, places: tuple[ToolLocation, ...]
    ) -> str | None:
        """Makes a checkpoint before a call; its name, None when it could not be made."""
        if self._off:
            return None
        paths = self._paths(places)
        checkpoint = Checkpoint(
            tool_call=ToolCall(request.name, request.args),
            message_id=request.prompt_id,
            session_id=self.session_id,
            call_id=request.call_id,
            prompt_id=request.prompt_id,
            paths=paths,
        )
        stop = threading.Event()
        try:
            async with self._at_work:
                name, tree = await in_daemon_thread(partial(self._kept, checkpoint, stop))
        except asyncio.CancelledError:
            stop.set()
            raise
        except AlhenaError as error:
            self._warn(error)
            return None
        self._emit(
            CheckpointEvent(
                name=name,
                tree=tree,
                call_id=request.call_id,
                parent_call_id=request.parent_call_id,
            )
        )
        self._tidy()
        return name

    async def restore(
        self, checkpoint: Checkpoint, undoes: str = "", redoes: str = ""
    ) -> tuple[str, Restoration]:
        """Puts the files back; a checkpoint of what they were, whose name is returned, is made
        first. `undoes` and `redoes` name the prompt whose edits are taken back by that, or come
        back. Raises CheckpointError."""
        before = Checkpoint(
            kind="restore", session_id=self.session_id, undoes=undoes, redoes=redoes
        )
        async with self._at_work:
            # Begun, it is carried to its end: half of it is of no use to anybody.
            restoring = asyncio.ensure_future(
                in_daemon_thread(partial(self.put_back, checkpoint, before))
            )
            try:
                name, done = await asyncio.shield(restoring)
            except asyncio.CancelledError:
                await asyncio.wait({restoring})
                raise
        self._emit(CheckpointEvent(name=name, tree=done.before.tree))
        return name, done

    async def remembered(self, name: str, checkpoint: Checkpoint) -> Remembered | None:
        """The conversation at a checkpoint; None when nothing has it any more. Raises
        SessionError, CheckpointError."""
        return await in_daemon_thread(partial(self.conversation, name, checkpoint))

    def put_back(self, checkpoint: Checkpoint, before: Checkpoint) -> tuple[str, Restoration]:
        """As `restore`, with what the checkpoint made first is to say, in this thread."""
        if not checkpoint.commit_hash:
            raise CheckpointError("this checkpoint has no files.")
        repository = self._repository(threading.Event())
        name = ""

        def kept(present: Snapshot) -> None:
            nonlocal name
            name = self._write(before, present, checkpoint_name("restore", ()))

        moment = Snapshot(checkpoint.commit_hash, checkpoint.left_out, checkpoint.private)
        done = restore(repository, moment, self._ever(checkpoint), kept)
        return name, done

    def conversation(self, name: str, checkpoint: Checkpoint) -> Remembered | None:
        """As `remembered`, in this thread."""
        if checkpoint.client_history is not None:
            try:
                contents = tuple(
                    EncodedContent(msgspec.json.decode(raw, type=Content))
                    for raw in checkpoint.client_history
                )
            except msgspec.DecodeError as error:
                raise CheckpointError(
                    f"the conversation of {name} cannot be read: {error}."
                ) from error
            replay = Replay()
            replay.contents = list(contents)
            return Remembered(contents, replay)
        session_id = checkpoint.session_id
        if not _PLAIN_ID.fullmatch(session_id):
            return None
        journal = self._temp / "sessions" / f"{session_id}.jsonl"
        if not journal.exists():
            return None
        found = conversation_at(journal, name)
        return None if found is None else Remembered(tuple(found.contents), found)

    def last_turn(self) -> tuple[str, Checkpoint] | None:
        """The checkpoint to which the last turn's edits are undone, by its name: the first of the
        last prompt that is not undone. Raises CheckpointError."""
        own = [item for item in self.files.all() if item[1].session_id == self.session_id]
        undone: set[str] = set()
        for _, checkpoint in own:
            if checkpoint.kind == "restore":
                undone.add(checkpoint.undoes)
                undone.discard(checkpoint.redoes)
        left = [item for item in own if item[1].kind == "call" and item[1].prompt_id not in undone]
        if not left:
            return None
        prompt = left[-1][1].prompt_id
        return next(item for item in left if item[1].prompt_id == prompt)

    def _kept(self, checkpoint: Checkpoint, stop: threading.Event) -> tuple[str, str]:
        repository = self._repository(stop)
        tool = "" if checkpoint.tool_call is None else checkpoint.tool_call.name
        with repository.alone():
            moment = repository.taken(checkpoint.paths)
            name = self._write(checkpoint, moment, checkpoint_name(tool, checkpoint.paths))
        return name, moment.tree

    def _write(self, checkpoint: Checkpoint, moment: Snapshot, name: str) -> str:
        try:
            claim_project_temp(self._temp, self._cwd)
        except OSError as error:
            raise CheckpointError(f"{self._temp}: {error.strerror or error}.") from error
        whole = msgspec.structs.replace(
            checkpoint,
            commit_hash=moment.tree,
            left_out=moment.left_out,
            private=moment.private,
            client_history=self._conversation(),
        )
        return self.files.write(name, whole)

    def _conversation(self) -> tuple[msgspec.Raw, ...] | None:
        """The conversation for a file, where no journal has it."""
        recorded = self._recording is not None and self._recording.at_work
        if recorded or self._chat is None:
            return None
        return tuple(entry.raw for entry in self._chat.history.contents)

    def _ever(self, checkpoint: Checkpoint) -> tuple[str, ...]:
        """The paths of that call and of all that came later, which may be ignored."""
        found = set(checkpoint.paths)
        for _, later in reversed(self.files.all()):
            found.update(later.paths)
            if later == checkpoint:
                break
        return tuple(sorted(found))

    def _repository(self, stop: threading.Event) -> ShadowRepository:
        try:
            return ShadowRepository(
                self._history, self.project, self._environ, limits=self._limits, cancellation=stop
            )
        except OSError as error:
            raise CheckpointError(f"{self.project}: {error.strerror or error}.") from error

    def _paths(self, places: Sequence[ToolLocation]) -> tuple[str, ...]:
        """Those of the places that are in the project, relative to it."""
        found: list[str] = []
        for place in places:
            with suppress(OSError, ValueError):  # it is no path, so nothing is there to be kept
                parent, name = os.path.split(os.path.join(self.project, place.path))
                path = Path(os.path.realpath(parent), name)
                if name and path != self.project and path.is_relative_to(self.project):
                    found.append(str(path.relative_to(self.project)))
        return tuple(dict.fromkeys(found))

    def _warn(self, error: AlhenaError) -> None:
        """Says why there is no checkpoint. What would be no other the next time is not tried again
        in this session."""
        self._off = isinstance(error, NoGitError | TooMuchError)
        if error.message not in self._told:
            self._told.add(error.message)
            what = (
                "no checkpoints are made in this session" if self._off else "no checkpoint was made"
            )
            self._emit(WarningEvent(message=f"{what}: {error}"))

    def _tidy(self) -> None:
        """Lets go of old checkpoints, once in a session, beside what goes on."""
        if not self._tidied:
            self._tidied = True
            threading.Thread(target=self._tidy_up, name="alhena-checkpoints", daemon=True).start()

    def _tidy_up(self) -> None:
        # Whatever keeps it from being done now is tried again by the next session.
        with suppress(AlhenaError):
            self.files.prune(time.time())
            repository = self._repository(self._closing)
            gone = 0
            if repository.held - moments(self.files.all()):
                gone = repository.keep_only(lambda: moments(self.files.all()))
            if gone >= MANY_GONE or repository.scattered:
                repository.collect()
