"""A session: everything that a run works with."""

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from alhena.agent.limits import TurnLimits
from alhena.agent.loop import TurnGuard
from alhena.agent.recording import Recording, close_recording
from alhena.agent.toolset.toolset import Toolset
from alhena.chat.chat import Chat
from alhena.events import Event, ToolCallResponseEvent, ToolCallUpdateEvent
from alhena.models.providers.select import ChosenGenerator
from alhena.system.processes import ProcessGroups

if TYPE_CHECKING:
    import threading

    from alhena.agent.chat import ConversationRoom
    from alhena.agent.checkpointing import Checkpoints
    from alhena.agent.limits.budget import Ledger
    from alhena.agent.restoring import Proposal, SavedConversations
    from alhena.agent.toolset.prompt_hooks import PromptHooks
    from alhena.events import CompressedEvent
    from alhena.scheduler.scheduler import Scheduler
    from alhena.telemetry.telemetry import Telemetry


class SessionProcesses:
    """Processes of tools: groups left running, and commands that run now."""

    def __init__(self) -> None:
        self.groups = ProcessGroups()
        self._killing: list[Callable[[], None]] = []
        self._running: dict[str, int] = {}

    def when_killed(self, kill: Callable[[], None]) -> None:
        """Has `kill` called, too, by `kill`."""
        self._killing.append(kill)

    def feed(self, event: Event) -> None:
        """Tracks commands that start and end."""
        if isinstance(event, ToolCallUpdateEvent) and event.pid is not None:
            self._running[event.call_id] = event.pid
        elif isinstance(event, ToolCallResponseEvent):
            self._running.pop(event.call_id, None)

    def kill(self) -> None:
        """Kills all processes without waiting, for an immediate exit."""
        for kill in self._killing:
            kill()
        for pid in self._running.values():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.groups.kill()


KILL_S = 0.5
"""Seconds that telemetry gets on an immediate exit."""


class Session(msgspec.Struct, kw_only=True):
    """The objects of a session, closed with it. `before_first`: work to do before the first prompt.
    `scheduler` is created with the first call. `checkpoints` opens the session's checkpoints;
    `proposal`: calls that may be made again after a restore. `going_back` cancels a restore in
    progress. `proceeds`: the next prompt is in the conversation already."""

    chat: Chat
    room: "ConversationRoom"
    scheduler: "Callable[[], Scheduler]"
    limits: TurnLimits
    guard: TurnGuard
    processes: SessionProcesses
    bench: Toolset
    chosen: ChosenGenerator
    session_id: str
    checkpoints: "Callable[[], Checkpoints]"
    conversations: "Callable[[], SavedConversations]"
    turn_over: Callable[[], Awaitable[None]]
    ledger: "Ledger | None" = None
    prompt_hooks: "PromptHooks | None" = None
    telemetry: "tuple[Telemetry, ...]" = ()
    recording: Recording | None = None
    prompts: int = 0
    mark: str = ""
    told: bool = False
    shown: int = 0
    proposal: "Proposal | None" = None
    going_back: "threading.Event | None" = None
    before_first: Callable[[], Awaitable[None]] | None = None
    switch_model: Callable[[str], None] | None = None
    list_names: "Callable[[], Awaitable[tuple[str, ...]]] | None" = None
    proceeds: bool = False

    @property
    def model(self) -> str:
        """The current model."""
        return self.chat.model.name

    def prompt_id(self, number: int) -> str:
        """The id of a prompt, or what comes after it. No other run of the session has it: each
        that continues one has a `mark` of its own, for a record may lack what had an id."""
        return f"{self.session_id}#{self.mark}{number}"

    def take_notices(self) -> tuple[str, ...]:
        """New notices for people; each is returned once."""
        fresh = tuple(self.bench.warnings[self.shown :])
        notices = fresh if self.told else (*fresh, *self.chosen.notices)
        self.shown += len(fresh)
        self.told = True
        return notices

    async def aclose(self, reason: Literal["exit", "clear"] = "exit") -> None:
        """Fires the SessionEnd hooks, ends processes, closes connections and files."""
        try:
            if self.prompt_hooks is not None:
                await self.prompt_hooks.end(reason)
        finally:
            await self._close()

    async def _close(self) -> None:
        for leave in self.bench.when_closed:
            leave()
        try:
            await self.bench.sources.close()
            await self.processes.groups.close()
        finally:
            try:
                if self.chosen.owned:
                    await self.chosen.generator.aclose()
            finally:
                await self._finish()

    async def _finish(self) -> None:
        try:
            if self.recording is not None:
                await close_recording(self.recording)
        finally:
            if self.telemetry:
                from alhena.agent.telemetry import finish

                await finish(self.telemetry)

    async def compress(self) -> "CompressedEvent":
        """Compresses the conversation, whatever its size. Raises JournalError."""
        event = await self.room.opened(self.chat).compress("manual")
        await self.settle()
        return event

    async def ready(self) -> None:
        """Raises JournalError while the journal cannot be written."""
        if self.recording is not None and self.recording.failed:
            await self.recording.settle()

    async def step(self) -> None:
        """Queues everything so far for the disk. Raises JournalError."""
        if self.recording is not None:
            await self.recording.step()

    async def settle(self) -> None:
        """Writes everything so far to the disk. Raises JournalError."""
        if self.recording is not None:
            await self.recording.settle()

    async def flush(self) -> str | None:
        """Flushes journal and telemetry; reports once why one could not be written."""
        problem = None if self.recording is None else await self.recording.flush()
        if problem is not None or not self.telemetry:
            return problem
        from alhena.agent.telemetry import flushed

        return await flushed(self.telemetry)

    def stay(self) -> bool:
        """Has files left as they are that are about to be put back; False when none are."""
        stop = self.going_back
        if stop is None or stop.is_set():
            return False
        stop.set()
        return True

    def kill(self) -> None:
        """Kills every process without waiting, for an immediate exit."""
        self.processes.kill()
        for telemetry in self.telemetry:
            telemetry.close(KILL_S)
