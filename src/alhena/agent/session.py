"""A session: everything that a run works with."""

import asyncio
import os
import signal
import warnings
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Literal

import msgspec

from alhena.agent.limits import TurnLimits
from alhena.agent.loop import TurnGuard
from alhena.agent.toolset.toolset import Toolset
from alhena.chat.chat import Chat
from alhena.config.effective_settings import Place
from alhena.errors import AlhenaError
from alhena.events import Event, ToolCallResponseEvent, ToolCallUpdateEvent
from alhena.models.providers.select import ChosenGenerator
from alhena.session.recording import Beginning, Recording
from alhena.system.processes import ProcessGroups
from alhena.threads import wait_until_done
from alhena.values import Value
from alhena.wire.content import ToolCallRequestInfo

if TYPE_CHECKING:
    import threading

    from alhena.agent.chat import ConversationRoom, SessionModels
    from alhena.agent.checkpointing import Checkpoints
    from alhena.agent.limits.budget import Ledger
    from alhena.agent.saved_conversations import SavedConversations
    from alhena.agent.toolset.model_access import SessionModelList
    from alhena.agent.toolset.prompt_hooks import PromptHooks
    from alhena.agent.toolset.run_model import RunModel
    from alhena.events import CompressedEvent
    from alhena.models.generator import ContentGenerator
    from alhena.scheduler.question import Approver
    from alhena.scheduler.scheduler import Scheduler
    from alhena.session.records import Answered
    from alhena.telemetry.telemetry import Telemetry
    from alhena.tools.builtin.ask_user import Ask
    from alhena.tools.contract import ToolLocation
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


class SessionAccess(Value, frozen=True, kw_only=True):
    """The model of a session within its budget, and the people. `ask` takes none of the time of
    runs; `served` is the list of the service; with `texts` events say what was sent and answered.
    """

    models: "SessionModels"
    chosen: ChosenGenerator
    served: "SessionModelList"
    approver: "Approver | None"
    ask: "Ask | None"
    texts: bool
    ledger: "Ledger | None"


class PromptIds:
    """The ids of prompts, and of what comes after them. No other run of the session has one of
    them: each that continues one has a mark of its own, for a record may lack what had an id."""

    def __init__(self, session_id: str, count: int, *, resumed: bool) -> None:
        self._count = count
        self._beginning = f"{session_id}#{f'{os.urandom(4).hex()}.' if resumed else ''}"

    @property
    def current(self) -> str:
        """The id of the last prompt."""
        return f"{self._beginning}{self._count}"

    def take_next(self) -> str:
        """The id of a new prompt."""
        self._count += 1
        return self.current


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


class SessionCheckpoints:
    """The checkpoints of a session, opened, and imported, before the first; `pending` is a restore
    of one. `join` gives the conversation and the toolset; with `patient` commands wait for their
    snapshot."""

    def __init__(
        self,
        place: Place,
        begun: Beginning,
        emit: Callable[[Event], None],
        join: Callable[[], tuple[Chat, Toolset]],
        *,
        enabled: bool,
        patient: bool,
    ) -> None:
        self.pending = PendingRestore()
        self._enabled = enabled
        self._place = place
        self._begun = begun
        self._emit = emit
        self._join = join
        self._patient = patient
        self._opened: Checkpoints | None = None
        self._opening: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begins the first snapshot in the background, if checkpoints are on."""
        if self._enabled and self._opened is None and self._opening is None:
            self._opening = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        # Imported in a thread: a person may be typing the first prompt.
        await asyncio.to_thread(import_module, "alhena.agent.checkpointing")
        with suppress(AlhenaError):  # the first call that needs a checkpoint says so
            self.open().background.begin()

    def open(self) -> "Checkpoints":
        """The checkpoints. Raises CheckpointError."""
        if self._opened is None:
            from alhena.agent.checkpointing import Checkpoints

            cwd, environ = self._place.cwd, self._place.environ
            chat, bench = self._join()
            made = Checkpoints(
                cwd, environ, self._begun.session_id, self._emit, patient=self._patient
            )
            made.attach(chat, self._begun.recording, lambda: bench.workspace.roots[1:])
            self._opened = made
        return self._opened

    def feed(self, event: Event) -> None:
        """Begins a snapshot with each prompt and after each command."""
        if self._opened is not None:
            self._opened.background.feed(event)

    async def keep(
        self, request: ToolCallRequestInfo, places: "tuple[ToolLocation, ...]", *, edits: bool
    ) -> str | None:
        """Makes a checkpoint before a call."""
        return await self.open().keep(request, places, edits=edits)

    async def turn_over(self) -> None:
        """Ends the turn that checkpoints were made in."""
        if self._opened is not None:
            await self._opened.turn_over()

    async def close(self) -> None:
        """Ends work in the background."""
        if self._opening is not None:
            await asyncio.wait({self._opening})
        if self._opened is not None:
            await self._opened.close()


class RunModels:
    """The models that runs name, made for the first of them."""

    def __init__(self, make: "Callable[[], RunModel]") -> None:
        self._make = make
        self._made: RunModel | None = None

    def open(self) -> "RunModel":
        """The model of the runs."""
        self._made = self._made or self._make()
        return self._made

    def use(self, model: "str | ContentGenerator | None") -> bool:
        """Has a model answer the run that begins, None: the session's. True for another one than
        that. Raises ConfigError, CredentialsError."""
        if model is None and self._made is None:
            return False
        made = self.open()
        made.use(model)
        return made.is_other

    async def aclose(self) -> None:
        """Closes what was made for them."""
        if self._made is not None:
            await self._made.aclose()


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


async def close_recording(recording: Recording) -> None:
    """Closes it. A record that could not be written is a RuntimeWarning."""
    closing = asyncio.ensure_future(recording.aclose())
    await wait_until_done(closing)
    problem = closing.exception()
    if problem is not None:
        warnings.warn(str(problem), RuntimeWarning, stacklevel=2)


class Session(msgspec.Struct, kw_only=True):
    """The objects of a session, closed with it. `scheduler` is created with the first call."""

    chat: Chat
    run_models: RunModels
    room: "ConversationRoom"
    scheduler: "Callable[[], Scheduler]"
    guard: TurnGuard
    processes: SessionProcesses
    bench: Toolset
    access: SessionAccess
    prompt_ids: PromptIds
    checkpoints: SessionCheckpoints
    conversations: "Callable[[], SavedConversations]"
    notices: SessionNotices
    first_prompt: FirstPrompt
    instruct: Callable[[str], None]
    prompt_hooks: "PromptHooks | None" = None
    telemetry: "tuple[Telemetry, ...]" = ()
    recording: Recording | None = None

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self.bench.links.session_id

    @property
    def limits(self) -> TurnLimits:
        """The limits of turns, which subagents share."""
        return self.bench.links.turns

    @property
    def model(self) -> str:
        """The current model."""
        return self.chat.model.name

    def start_servers(self) -> None:
        """Starts the MCP servers, which run until the session is closed."""
        if self.bench.servers is not None:
            self.bench.servers.start()

    async def aclose(self, reason: Literal["exit", "clear"] = "exit") -> None:
        """Fires the SessionEnd hooks, ends processes, closes connections and files. Cancellation
        ends the hooks, and is raised when the rest is done."""
        closing = asyncio.ensure_future(self._end(reason))
        closing.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait({closing})
        except asyncio.CancelledError:
            if self.prompt_hooks is not None:
                self.prompt_hooks.hurry()
            await wait_until_done(closing)
            raise
        closing.result()

    async def _end(self, reason: Literal["exit", "clear"]) -> None:
        try:
            if self.prompt_hooks is not None:
                await self.prompt_hooks.end(reason)
        finally:
            await self._close()

    async def _close(self) -> None:
        for leave in self.bench.when_closed:
            leave()
        chosen = self.access.chosen
        async with AsyncExitStack() as stack:  # whatever one step raises, the others are taken
            stack.push_async_callback(self._finish)
            if chosen.owned:
                stack.push_async_callback(chosen.generator.aclose)
            stack.push_async_callback(self.run_models.aclose)
            stack.push_async_callback(self.processes.groups.close)
            stack.push_async_callback(self.bench.sources.close)
            await self.checkpoints.close()

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
        event = await self.room.open_room(self.chat).compress("manual")
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
        if self.recording is None:
            return
        if self.guard.waiting is not None:
            from alhena.session.records import Started, now

            # They may be resumed without this record.
            calls = self.guard.waiting.calls.items()
            self.recording.put(*(Started(at=now(), call_id=key, name=name) for key, name in calls))
        await self.recording.settle()

    async def flush(self) -> str | None:
        """Flushes journal and telemetry; reports once why one could not be written."""
        problem = None if self.recording is None else await self.recording.flush()
        if problem is not None or not self.telemetry:
            return problem
        from alhena.agent.telemetry import flush

        return await flush(self.telemetry)

    def kill(self) -> None:
        """Kills every process without waiting, for an immediate exit."""
        self.processes.kill()
        for telemetry in self.telemetry:
            telemetry.close(KILL_S)
