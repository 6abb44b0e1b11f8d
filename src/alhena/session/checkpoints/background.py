"""Snapshots of a whole project in the background, for the commands that begin after them.

One begins with each prompt and after each command. A command that begins before its snapshot is
complete need not wait: what it may have changed by then is left out of the snapshot.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection

from alhena.errors import AlhenaError
from alhena.events import Event, RunStartedEvent, ToolCallResponseEvent
from alhena.session.checkpoints.records import CheckpointError, NoGitError, SnapshotLimitError
from alhena.session.checkpoints.repository import Snapshot
from alhena.threads import in_daemon_thread


class BackgroundSnapshot:
    """A snapshot that is planned, being taken, or has a `result`, which may be an error. `needed`:
    a checkpoint is to have it. `changed_since`: the time in nanoseconds at which a command began
    before it was complete."""

    def __init__(self, named: Collection[str] = ()) -> None:
        self.named = named
        self.stop = threading.Event()
        self.changed_since: int | None = None
        self.started = False
        self.needed = False
        self.result: Snapshot | AlhenaError | None = None
        self.task: asyncio.Task[None] | None = None
        self._follow: list[Callable[[Snapshot | AlhenaError], Awaitable[None]]] = []

    async def then(
        self, follow: Callable[[Snapshot | AlhenaError], Awaitable[None]], *, needed: bool = True
    ) -> None:
        """Awaits `follow` with the result, now or later; it is worth waiting for if `needed`."""
        self.needed = self.needed or needed
        if self.result is None:
            self._follow.append(follow)
        else:
            await follow(self.result)

    async def wait(self, patience_s: float) -> None:
        """Waits so many seconds at most for the result; gives it up when cancelled."""
        self.needed = True
        if self.result is not None or self.task is None:
            return
        try:
            await asyncio.wait({self.task}, timeout=patience_s)
        except asyncio.CancelledError:
            self.stop.set()
            raise

    async def finish(self, result: Snapshot | AlhenaError) -> None:
        """Sets the result."""
        self.result = result
        for follow in self._follow:
            await follow(result)


class BackgroundSnapshots:
    """Takes snapshots one after the other, by `take` in a thread; `turn` excludes what restores
    files."""

    def __init__(self, take: Callable[[BackgroundSnapshot], Snapshot], turn: asyncio.Lock) -> None:
        self._take = take
        self._turn = turn
        self._waiting: list[BackgroundSnapshot] = []
        self._present: BackgroundSnapshot | None = None
        self._commands: set[str] = set()
        self._failure: AlhenaError | None = None

    def begin(self) -> None:
        """Begins a snapshot of the files as they are now."""
        last = self._waiting[-1] if self._waiting else None
        if last is not None and not last.started and last.changed_since is None:
            self._present = last
        else:
            self._present = self.plan()

    def plan(self, named: Collection[str] = ()) -> BackgroundSnapshot:
        """A snapshot that is taken after those planned before. `named`: paths that it has although
        it leaves their like out."""
        planned = BackgroundSnapshot(named)
        self._waiting.append(planned)
        planned.task = asyncio.create_task(self._carry_out(planned))
        return planned

    def at_edit(self) -> BackgroundSnapshot | None:
        """The snapshot of the present files, named ones aside; None without one."""
        return self._present

    def at_command(self) -> BackgroundSnapshot:
        """The snapshot of the present files, which a command is about to change."""
        found = self._present or self.plan()
        self._present = None
        return found

    def feed(self, event: Event) -> None:
        """Begins a snapshot with each prompt and after each command."""
        if isinstance(event, ToolCallResponseEvent):
            if event.call_id in self._commands:
                self._commands.discard(event.call_id)
                self.begin()
        elif isinstance(event, RunStartedEvent):
            self.begin()

    def note_command(self, call_id: str) -> None:
        """Has snapshots that are not complete leave out what changes from now on: the command of
        this call begins."""
        self._commands.add(call_id)
        now = time.time_ns()
        for each in self._waiting:
            each.changed_since = each.changed_since or now

    def outdate(self) -> None:
        """Has the next command not use a snapshot from before now."""
        self._present = None
        self._commands.clear()

    async def wait(self) -> None:
        """Waits for those that checkpoints need."""
        tasks = [each.task for each in self._waiting if each.needed]
        if found := [each for each in tasks if each is not None]:
            await asyncio.wait(found)

    async def close(self, patience_s: float) -> None:
        """Ends work; waits so many seconds at most for what checkpoints need."""
        for each in self._waiting:
            if not each.needed:
                each.stop.set()
        waiting = self._tasks()
        if waiting:
            await asyncio.wait(waiting, timeout=patience_s)
        for each in self._waiting:
            each.stop.set()
        if left := self._tasks():
            await asyncio.wait(left)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [each.task for each in self._waiting if each.task is not None]

    async def _carry_out(self, planned: BackgroundSnapshot) -> None:
        try:
            result = await self._result(planned)
            await planned.finish(result)
        except asyncio.CancelledError:
            planned.stop.set()
            raise
        finally:
            self._waiting.remove(planned)

    async def _result(self, planned: BackgroundSnapshot) -> Snapshot | AlhenaError:
        async with self._turn:
            planned.started = True
            if self._failure is not None:
                return self._failure
            if planned.stop.is_set():
                return CheckpointError("interrupted; no file has changed.")
            try:
                return await in_daemon_thread(lambda: self._take(planned))
            except AlhenaError as error:
                if isinstance(error, NoGitError | SnapshotLimitError):
                    self._failure = error  # a new attempt would fail too
                return error
