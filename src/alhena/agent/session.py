"""Puts a session together: settings, policies, tools, scheduler, model, conversation."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from alhena.agent.channel import EventChannel
from alhena.agent.fallback import Consent, SessionFallback, fallback_mode
from alhena.agent.limits import TurnLimits
from alhena.agent.links import SessionLinks, at_once
from alhena.agent.options import AgentOptions
from alhena.agent.recording import Beginning, Place, Recording, begin, close_recording
from alhena.agent.session_context import first_contents
from alhena.agent.session_memory import open_memory
from alhena.agent.session_model import SessionModels, traits_of
from alhena.agent.session_processes import SessionProcesses
from alhena.agent.workbench import Workbench, WorkbenchOptions, open_workbench
from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import History
from alhena.chat.prompt import system_instruction
from alhena.config.home import config_home, installation_id_path, user_settings_path
from alhena.config.settings import Settings, load_settings
from alhena.events import WarningEvent
from alhena.models.retry.policy import retry_policy
from alhena.models.select import ChosenGenerator, ModelChoice, choose_generator
from alhena.policy.model import ApprovalMode
from alhena.scheduler.scheduler import Scheduler
from alhena.system.workspace import Workspace
from alhena.wire.calls import CallIds
from alhena.wire.content import Content
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentConfig, GenerationConfig, Tool

if TYPE_CHECKING:
    from alhena.agent.hooking import PromptHooks
    from alhena.bus.bus import MessageBus
    from alhena.scheduler.confirm import Approver
    from alhena.system.private_files import PrivateFiles
    from alhena.telemetry.options import TelemetryOptions
    from alhena.telemetry.telemetry import Telemetry
    from alhena.tools.builtin.ask_user import Ask

KILL_S = 0.5
"""Seconds that an exit without waiting leaves to telemetry."""


class Session(msgspec.Struct, kw_only=True):
    """What a run works with, and what has to be closed behind it."""

    chat: Chat
    scheduler: Scheduler
    limits: TurnLimits
    processes: SessionProcesses
    bench: Workbench
    chosen: ChosenGenerator
    session_id: str
    close_bus: Callable[[], Awaitable[None]] = at_once
    prompt_hooks: "PromptHooks | None" = None
    telemetry: "Telemetry | None" = None
    recording: Recording | None = None
    prompts: int = 0
    told: bool = False

    @property
    def model(self) -> str:
        """The model that answers now."""
        return self.chat.model.name

    def take_notices(self) -> tuple[str, ...]:
        """What a person should be told; given out once."""
        notices = () if self.told else (*self.bench.warnings, *self.chosen.notices)
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
                from alhena.agent.session_telemetry import finish

                await finish(self.telemetry)

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
        from alhena.agent.session_telemetry import flushed

        return await flushed(self.telemetry)

    def kill(self) -> None:
        """Ends every process at once, for an exit without waiting."""
        self.processes.kill()
        if self.telemetry is not None:
            self.telemetry.close(KILL_S)


def open_session(
    options: AgentOptions, channel: EventChannel, source: Literal["startup", "clear"] = "startup"
) -> Session:
    """A session ready for its first prompt; nothing is sent. `source` is what hooks are told of
    its start. Raises ConfigError, InputError (SessionError), CredentialsError, JournalError."""
    given = options.settings
    environ: Mapping[str, str] = os.environ if given.environ is None else given.environ
    settings = given.settings or load_settings(user_settings_path(environ))
    cwd = options.directory()
    begun = begin(given.resume, (cwd, environ, settings), channel.emit, record=given.record)
    try:
        return _open(options, channel, begun, (cwd, environ, settings), source)
    except BaseException:
        begun.abandon()
        raise


def _open(
    options: AgentOptions,
    channel: EventChannel,
    begun: Beginning,
    place: Place,
    source: Literal["startup", "clear"],
) -> Session:
    given = options.settings
    cwd, environ, settings = place
    models = SessionModels(options.model, environ, settings)
    chosen = _generator(options, models.name, environ, settings, channel)
    watch = _watch(settings, environ, cwd)
    processes = SessionProcesses()
    bus, close_bus = _bus(options, channel)
    workspace = Workspace(cwd, given.include_directories)
    memory = open_memory(workspace, (environ, settings), channel.emit, skip=given.skip_trust)
    first = begun.opening_contents or given.history
    opening = first or first_contents(workspace, environ, memory.project_text)
    memory.began_with(opening)
    ask = given.ask or (None if given.bus is None else _questions(given.bus))
    mode = fallback_mode(settings.model.fallback, models.requested)
    links = SessionLinks(
        session_id=begun.session_id,
        transcript=begun.transcript,
        answering=lambda: (chosen.generator, chat.model.name),
        emit=channel.emit,
        pace=channel.pace,
        approver=None if bus is None else _asks(bus),
        ask=ask,
        fallback=SessionFallback(mode, Consent(ask), models.generation),
        opening=opening[:2],
        texts=watch is not None and watch.texts,
    )
    bench = open_workbench(
        WorkbenchOptions(
            cwd=cwd,
            environ=environ,
            settings=settings,
            mode=given.approval_mode,
            interactive=bus is not None,
            include_directories=given.include_directories,
            policy=options.policy,
            allowed_tools=given.allowed_tools,
            skip_trust=given.skip_trust,
            sandbox=given.sandbox,
            tools=options.tools,
            hooks=given.hooks,
        ),
        links,
        processes.groups,
    )
    bench.hide_denied()
    bench.warnings += begun.notices
    memory.join(bench)
    channel.subscribe(processes.feed)
    chat = _chat(bench, links, chosen, models, begun.contents or opening)
    begun.attach(chat, channel, 0 if given.history else len(opening))
    chat.fallback = links.fallback
    _tell_checkers(bench, chat, begun.opening)
    bench.edit = given.edit
    bench.durable = begun.durable
    scheduler = bench.scheduler(channel.emit, bus=bus)
    limits = TurnLimits(given.max_turns, settings.model.max_session_turns)
    session = Session(
        chat=chat,
        scheduler=scheduler,
        limits=limits,
        processes=processes,
        bench=bench,
        chosen=chosen,
        session_id=links.session_id,
        close_bus=close_bus,
        recording=begun.recording,
        prompts=begun.prompts,
    )
    again = given.history or begun.contents
    session.prompt_hooks = _hook(session, links, "resume" if again else source, begun.opening)
    if watch is not None:
        from alhena.agent.session_telemetry import Told, open_session_telemetry

        told = Told(
            session_id=session.session_id,
            environ=environ,
            settings=settings,
            chosen=chosen,
            bench=bench,
            facts=given.facts,
        )
        session.telemetry = open_session_telemetry(watch, told, channel)
    return session


def _bus(
    options: AgentOptions, channel: EventChannel
) -> "tuple[MessageBus | None, Callable[[], Awaitable[None]]]":
    """How people are asked, None when nobody is there: then nothing of it is imported."""
    given = options.settings
    if options.approve is None and given.bus is None:
        return None, at_once
    from alhena.agent.approval import session_bus

    return session_bus(options.approve, given.bus, channel.emit)


def _asks(bus: "MessageBus") -> "Approver":
    from alhena.agent.approval import asks_over

    return asks_over(bus)


def _questions(bus: "MessageBus") -> "Ask":
    from alhena.agent.approval import questions_over

    return questions_over(bus)


def _watch(settings: Settings, environ: Mapping[str, str], cwd: Path) -> "TelemetryOptions | None":
    """What telemetry is asked for, None for none: then nothing of it is imported."""
    if not (settings.telemetry.enabled or environ.get("GEMINI_TELEMETRY_ENABLED")):
        return None
    from alhena.telemetry.options import telemetry_options

    return telemetry_options(settings.telemetry, environ, cwd)


def _hook(
    session: Session,
    links: SessionLinks,
    source: Literal["startup", "resume", "clear"],
    opening: int,
) -> "PromptHooks | None":
    """Puts the hooks of the session, if there are any, between the chat and its model and around
    its prompts. The first `opening` contents are left when a hook clears the conversation."""
    bench, chat = session.bench, session.chat
    if bench.hooks is None:
        return None
    from alhena.agent.hooking import PromptHooks, model_hooks

    session.processes.kill_hooks = bench.hooks.kill
    if session.recording is not None:
        session.recording.at_once = True  # hooks may read it
    chat.interposer = model_hooks(bench.hooks, links.emit)
    left = tuple(entry.content for entry in chat.history.contents[: opening or None])
    return PromptHooks(bench.hooks, links.emit, source, left)


def _chat(
    bench: Workbench,
    links: SessionLinks,
    chosen: ChosenGenerator,
    models: SessionModels,
    opening: Sequence[Content | EncodedContent],
) -> Chat:
    """The conversation; its declarations and instruction follow the approval mode."""
    headless = links.approver is None
    chat = Chat(
        chosen.generator,
        traits_of(chosen.model),
        _config(bench, models.generation(chosen.model), headless=headless),
        History(opening),
        Outlets(links.emit, links.pace, texts=links.texts),
        CallIds(os.urandom(4).hex()),
    )

    def follow() -> None:
        bench.hide_denied()
        chat.config = _config(bench, models.generation(chat.model.name), headless=headless)

    bench.modes.subscribe(follow)
    if bench.memory is not None:
        bench.memory.watch(follow)
    return chat


def _tell_checkers(bench: Workbench, chat: Chat, opening: int) -> None:
    """Lets safety checkers know of the conversation behind its first `opening` contents."""
    if bench.checks is None:
        return
    from alhena.agent.told import conversation

    bench.checks.history = lambda: conversation(
        entry.content for entry in chat.history.contents[opening:]
    )


def _generator(
    options: AgentOptions,
    model: str,
    environ: Mapping[str, str],
    settings: Settings,
    channel: EventChannel,
) -> ChosenGenerator:
    given = options.settings
    if given.generator is not None:
        return ChosenGenerator(generator=given.generator, model=model)

    def private_files() -> "PrivateFiles":
        from alhena.system.private_files import PrivateFiles

        return PrivateFiles(config_home(environ))

    def number() -> str:
        from alhena.telemetry.installation import installation_id

        return installation_id(installation_id_path(environ))[0]

    return choose_generator(
        ModelChoice(
            model=model,
            environ=environ,
            settings=settings,
            fake_responses=given.fake_responses,
            fake_strict=given.fake_strict,
            record_responses=given.record_responses,
            is_terminal=given.is_terminal,
            retry=retry_policy(settings.general),
            private_files=private_files,
            tell=lambda text: channel.emit(WarningEvent(message=text)),
            installation_id=number,
        )
    )


def _config(
    bench: Workbench, generation: GenerationConfig, *, headless: bool
) -> GenerateContentConfig:
    """Everything of a request that stays the same while the approval mode does."""
    declarations = bench.registry.function_declarations()
    return GenerateContentConfig(
        system_instruction=system_instruction(
            declarations,
            headless=headless,
            plan=bench.context.mode is ApprovalMode.PLAN,
            memory="" if bench.memory is None else bench.memory.user_text,
        ),
        tools=(Tool(function_declarations=declarations),) if declarations else None,
        generation_config=generation,
    )
