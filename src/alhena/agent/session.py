"""A session: everything that a run works with."""

import os
import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
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
from alhena.values import Value

if TYPE_CHECKING:
    import threading

    from alhena.agent.chat import ConversationRoom
    from alhena.agent.checkpointing import Checkpoints
    from alhena.agent.limits.budget import Ledger
    from alhena.agent.saved_conversations import SavedConversations
    from alhena.agent.toolset.prompt_hooks import PromptHooks
    from alhena.events import CompressedEvent
    from alhena.scheduler.scheduler import Scheduler
    from alhena.session.records import Answered
    from alhena.telemetry.telemetry import Telemetry
    from alhena.wire.content import FunctionCall


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


class ProposedCalls(Value, frozen=True, kw_only=True):
    """Calls that can be made again: those of the turn that ends the first `length` contents which
    have no valid result. `known` are those that do."""

    length: int
    calls: "tuple[FunctionCall, ...]"
    known: "tuple[Answered, ...]"


class PendingRestore:
    """A restore in progress, and the calls that may be made again after it."""

    def __init__(self) -> None:
        self.calls: ProposedCalls | None = None
        self._stop: threading.Event | None = None

    def propose(self, calls: ProposedCalls | None) -> None:
        """Sets the calls that may be made again; None for none."""
        self.calls = calls

    def take_calls(self) -> ProposedCalls | None:
        """The calls that may be made again, once."""
        calls, self.calls = self.calls, None
        return calls

    @contextmanager
    def allow_stop(self) -> "Generator[threading.Event]":
        """While files are put back, `stop` sets this event."""
        import threading

        stop = self._stop = threading.Event()
        try:
            yield stop
        finally:
            self._stop = None

    def stop(self) -> bool:
        """Leaves the files that are about to be put back; False when none are."""
        stop = self._stop
        if stop is None or stop.is_set():
            return False
        stop.set()
        return True


class FirstPrompt:
    """The start of a session's first prompt: `work` to do before it; with `proceeds` it is in the
    conversation already."""

    def __init__(
        self, *, proceeds: bool = False, work: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._proceeds = proceeds
        self._work = work

    def take_proceeds(self) -> bool:
        """True, once, if the prompt is in the conversation already."""
        proceeds, self._proceeds = self._proceeds, False
        return proceeds

    async def prepare(self) -> None:
        """Does the work, once it has succeeded never again."""
        if self._work is not None:
            await self._work()
            self._work = None


class SessionNotices:
    """Notices for people, each given once: the growing list `warnings`, and those about the
    model."""

    def __init__(self, warnings: list[str], about_model: tuple[str, ...]) -> None:
        self._warnings = warnings
        self._about_model = about_model
        self._given = 0
        self.begun = False

    def take(self) -> tuple[str, ...]:
        """Those that are new."""
        fresh = tuple(self._warnings[self._given :])
        notices = fresh if self.begun else (*fresh, *self._about_model)
        self._given += len(fresh)
        self.begun = True
        return notices

    def continue_from(self, earlier: "SessionNotices") -> None:
        """Leaves out what the session before this one has said at its start."""
        self.begun = earlier.begun
        self._given = len(self._warnings) if self.begun else 0


class Session(msgspec.Struct, kw_only=True):
    """The objects of a session, closed with it. `scheduler` is created with the first call.
    `checkpoints` opens the session's checkpoints."""

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
    switch_model: Callable[[str], None]
    list_names: "Callable[[], Awaitable[tuple[str, ...]]]"
    turn_over: Callable[[], Awaitable[None]]
    notices: SessionNotices
    first_prompt: FirstPrompt
    restore: PendingRestore
    ledger: "Ledger | None" = None
    prompt_hooks: "PromptHooks | None" = None
    telemetry: "tuple[Telemetry, ...]" = ()
    recording: Recording | None = None
    prompts: int = 0
    mark: str = ""

    @property
    def model(self) -> str:
        """The current model."""
        return self.chat.model.name

    def prompt_id(self, number: int) -> str:
        """The id of a prompt, or what comes after it. No other run of the session has it: each
        that continues one has a `mark` of its own, for a record may lack what had an id."""
        return f"{self.session_id}#{self.mark}{number}"

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

    def kill(self) -> None:
        """Kills every process without waiting, for an immediate exit."""
        self.processes.kill()
        for telemetry in self.telemetry:
            telemetry.close(KILL_S)
