"""A session: everything that a run works with."""

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from alhena.agent.limits.turns import TurnLimits
from alhena.agent.loop import Course
from alhena.agent.recording import Recording, close_recording
from alhena.agent.toolset.workbench import Workbench, at_once
from alhena.chat.chat import Chat
from alhena.events import Event, ToolCallResponseEvent, ToolCallUpdateEvent
from alhena.models.select import ChosenGenerator
from alhena.system.processes import ProcessGroups

if TYPE_CHECKING:
    import threading

    from alhena.agent.chat import ConversationRoom
    from alhena.agent.checkpointing import Checkpoints
    from alhena.agent.restoring import Proposal
    from alhena.agent.toolset.hooking import PromptHooks
    from alhena.events import CompressedEvent
    from alhena.scheduler.scheduler import Scheduler
    from alhena.telemetry.telemetry import Telemetry


class SessionProcesses:
    """What tools have started: the groups they left running, and the commands at work now."""

    def __init__(self) -> None:
        self.groups = ProcessGroups()
        self.kill_hooks: Callable[[], None] = lambda: None
        self._running: dict[str, int] = {}

    def feed(self, event: Event) -> None:
        """Takes note of commands that start and end."""
        if isinstance(event, ToolCallUpdateEvent) and event.pid is not None:
            self._running[event.call_id] = event.pid
        elif isinstance(event, ToolCallResponseEvent):
            self._running.pop(event.call_id, None)

    def kill(self) -> None:
        """Ends all of them at once, for an exit without waiting."""
        self.kill_hooks()
        for pid in self._running.values():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        self.groups.kill()


KILL_S = 0.5
"""Seconds that an exit without waiting leaves to telemetry."""


class Session(msgspec.Struct, kw_only=True):
    """Everything a run works with, closed with it. `before_first` is still to be done before the
    first prompt. `scheduler` is created with the first call. `checkpoints` opens those of the
    session; `proposal` are calls that may be made again after it went back to one. `going_back`
    stops that, while files are put back."""

    chat: Chat
    room: "ConversationRoom"
    scheduler: "Callable[[], Scheduler]"
    limits: TurnLimits
    course: Course
    processes: SessionProcesses
    bench: Workbench
    chosen: ChosenGenerator
    session_id: str
    checkpoints: "Callable[[], Checkpoints]"
    close_bus: Callable[[], Awaitable[None]] = at_once
    prompt_hooks: "PromptHooks | None" = None
    telemetry: "Telemetry | None" = None
    recording: Recording | None = None
    prompts: int = 0
    mark: str = ""
    told: bool = False
    shown: int = 0
    proposal: "Proposal | None" = None
    going_back: "threading.Event | None" = None
    before_first: Callable[[], Awaitable[None]] | None = None

    @property
    def model(self) -> str:
        """The model that answers now."""
        return self.chat.model.name

    def prompt_id(self, number: int) -> str:
        """The id of a prompt, or what comes behind it. No other run of the session has it: each
        that goes on with one has a `mark` of its own, for a record may lack what had an id."""
        return f"{self.session_id}#{self.mark}{number}"

    def take_notices(self) -> tuple[str, ...]:
        """What a person should be told; each given out once."""
        fresh = self.bench.warnings[self.shown :]
        notices = fresh if self.told else (*fresh, *self.chosen.notices)
        self.shown += len(fresh)
        self.told = True
        return notices

    async def aclose(self, reason: Literal["exit", "clear"] = "exit") -> None:
        """Tells the hooks, ends processes, closes connections and files."""
        try:
            if self.prompt_hooks is not None:
                await self.prompt_hooks.end(reason)
        finally:
            await self._close()

    async def _close(self) -> None:
        for leave in self.bench.when_closed:
            leave()
        try:
            await self.close_bus()
            await self.bench.sources.close()
            await self.processes.groups.close()
        finally:
            try:
                await self.chosen.generator.aclose()
            finally:
                await self._finish()

    async def _finish(self) -> None:
        try:
            if self.recording is not None:
                await close_recording(self.recording)
        finally:
            if self.telemetry is not None:
                from alhena.agent.telemetry import finish

                await finish(self.telemetry)

    async def compress(self) -> "CompressedEvent":
        """Compresses the conversation, whatever its size. Raises JournalError."""
        event = await self.room.opened().compress("manual")
        await self.settle()
        return event

    async def ready(self) -> None:
        """Raises JournalError while what has happened cannot be recorded."""
        if self.recording is not None and self.recording.failed:
            await self.recording.settle()

    async def step(self) -> None:
        """Has what has happened so far on its way to the disk. Raises JournalError."""
        if self.recording is not None:
            await self.recording.step()

    async def settle(self) -> None:
        """Has what has happened so far on the disk when it returns. Raises JournalError."""
        if self.recording is not None:
            await self.recording.settle()

    async def flush(self) -> str | None:
        """Waits until the record and telemetry, where they are, have written down what has
        happened; says once why one could not."""
        problem = None if self.recording is None else await self.recording.flush()
        if problem is not None or self.telemetry is None:
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
        """Ends every process at once, for an exit without waiting."""
        self.processes.kill()
        if self.telemetry is not None:
            self.telemetry.close(KILL_S)
