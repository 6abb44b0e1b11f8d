"""Puts a session together: settings, policies, tools, scheduler, model, chat, record."""

import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from alhena.agent.chat import ConversationRoom, SessionModels, open_chat, switch
from alhena.agent.context import conversation, first_contents, open_prompt, tell_files
from alhena.agent.limits import TurnLimits
from alhena.agent.loop import open_guard, within_budget
from alhena.agent.recording import Beginning, Place, begin
from alhena.agent.run import EventChannel
from alhena.agent.session import Session, SessionProcesses
from alhena.agent.toolset.factory import (
    open_session_hooks,
    open_toolset,
    require_mode,
    session_policy,
    session_sandbox,
)
from alhena.agent.toolset.memory import open_memory
from alhena.agent.toolset.model_access import (
    Consent,
    SessionFallback,
    SessionModelList,
    fallback_mode,
)
from alhena.agent.toolset.options import SessionOptions
from alhena.agent.toolset.toolset import SessionLinks, Toolset, at_once
from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import imported
from alhena.config.home import installation_id_path
from alhena.config.settings import Settings
from alhena.errors import AlhenaError, ConfigError, InputError
from alhena.events import WarningEvent
from alhena.models.providers.select import (
    RECORDINGS,
    ChosenGenerator,
    ModelChoice,
    choose_generator,
    login_files,
    require_tier,
)
from alhena.models.retry import retry_policy, wrap_attempts
from alhena.system.processes import ProcessGroups
from alhena.system.workspace import Workspace
from alhena.tools.registry import ALIASES, BUILT_IN
from alhena.values import Value
from alhena.wire.content import ToolCallRequestInfo, for_another_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alhena.agent.checkpointing import Checkpoints
    from alhena.agent.restoring import SavedConversations
    from alhena.agent.subagents import AgentDefinition
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.agent.telemetry import Providers
    from alhena.agent.toolset.prompt_hooks import PromptHooks
    from alhena.scheduler.confirmation import Approver
    from alhena.telemetry.options import TelemetryOptions
    from alhena.telemetry.telemetry import Telemetry
    from alhena.tools.builtin.ask_user import Ask
    from alhena.tools.builtin.subagents import RunAgent
    from alhena.tools.contract import ToolLocation


instrumented: "Providers | None" = None
"""The OpenTelemetry providers that the program wants its sessions reported to."""


def session_generator(
    options: SessionOptions, model: str, settings: Settings, channel: EventChannel
) -> ChosenGenerator:
    """The generator: the program's own, or the one selected by model, credentials and settings;
    what a program's recording puts in its place. Raises ConfigError, CredentialsError."""

    def choose() -> ChosenGenerator:
        given = options.generator
        if given is None:
            return choose_generator(choice)
        plain = ChosenGenerator(generator=given, model=model)
        chosen: ChosenGenerator = getattr(given, "chosen", plain)
        require_tier(replace(chosen, model=model), settings.model.service_tier)
        return replace(chosen, generator=given, model=model, owned=False)

    environ = options.environ
    choice = ModelChoice(
        model=model,
        environ=environ,
        settings=settings,
        fake_responses=options.fake_responses,
        fake_strict=options.fake_strict,
        record_responses=options.record_responses,
        is_terminal=options.is_terminal,
        retry=retry_policy(settings.general),
        private_files=partial(login_files, environ),
        tell=lambda text: channel.emit(WarningEvent(message=text)),
        installation_id=partial(installation_number, environ),
    )
    recorded = RECORDINGS[-1] if RECORDINGS else None
    chosen = recorded.generator(choose, model, str(options.cwd)) if recorded else choose()
    if options.wrap is None:
        return chosen
    return replace(chosen, generator=wrap_attempts(chosen.generator, options.wrap))


def installation_number(environ: Mapping[str, str]) -> str:
    """The random number by which services know this installation, where it may be told."""
    from alhena.telemetry.options import installation_id

    return installation_id(installation_id_path(environ))[0]


def open_session(
    options: SessionOptions, channel: EventChannel, source: Literal["startup", "clear"] = "startup"
) -> Session:
    """A session ready for its first prompt; nothing is sent. `source` is its kind of start, for
    hooks. Raises ConfigError, InputError (SessionError), CredentialsError, JournalError."""
    begun = begin(
        options.resume,
        (options.cwd, options.environ, options.settings),
        channel.emit,
        record=options.record,
        session_id=options.session_id,
        disk=options.disk,
    )
    try:
        session = _open(options, channel, begun, source)
    except BaseException:
        begun.abandon()
        raise
    session.bench.warnings.extend(options.notices)
    if session.bench.servers is not None:
        session.bench.servers.start()  # the last step: what has begun to run has to be closed
    return session


def _open(
    options: SessionOptions,
    channel: EventChannel,
    begun: Beginning,
    source: Literal["startup", "clear"],
) -> Session:
    cwd, environ, settings = options.cwd, options.environ, options.settings
    models = SessionModels(options.model, environ, settings)
    chosen = session_generator(options, models.name, settings, channel)
    place = (cwd, environ, settings)
    watch = _watch(settings, environ, cwd)
    processes = SessionProcesses()
    approver, ask = _find_people(options, channel)
    workspace = Workspace(cwd, options.include_directories)
    memory = open_memory(
        workspace,
        (environ, settings),
        channel.emit,
        skip=options.skip_trust,
        extensions=options.extensions,
    )
    given = imported(options.history, chosen.model)
    opening = (
        begun.opening_contents or given or first_contents(workspace, place, memory.project_text)
    )
    memory.began_with([entry.content for entry in begun.contents] or opening)
    chosen, ask, ledger = within_budget(options, settings, chosen, ask, channel)
    mode = fallback_mode(settings.model.fallback, models.requested)
    served = SessionModelList(chosen.generator, environ, channel.emit)
    if chosen.speaks_gemini:
        served.prepare(chosen.model)
        channel.subscribe(served.feed)
    checkpoints = _Checkpoints(place, begun, channel, lambda: (chat, bench))
    links = SessionLinks(
        session_id=begun.session_id,
        transcript=begun.transcript,
        answering=lambda: (chosen.generator, chat.model.name),
        delegate=_open_agents,
        emit=channel.emit,
        pace=channel.pace,
        step=at_once if begun.recording is None else begun.recording.step,
        approver=approver,
        ask=ask,
        turns=TurnLimits(options.max_turns, settings.model.max_session_turns, ask),
        fallback=SessionFallback(mode, Consent(ask), models.config, models.chosen, served.renewal),
        opening=tuple(for_another_model(each, sign_calls=False) for each in opening[:2]),
        memory=memory,
        durable=begun.durable,
        keep=checkpoints.keep if settings.general.checkpointing.enabled else None,
        resumed=begun.prompts > 0,
        texts=watch is not None and watch.texts,
    )
    bench = open_toolset(
        replace(options, settings=settings, interactive=approver is not None),
        links,
        processes.groups,
    )
    bench.hide_denied()
    bench.when_closed.append(served.close)
    bench.warnings += (
        *begun.notices,
        *models.warnings,
        *_end_notices(chosen.model, environ),
        *_temperature_problems(bench.agents, chosen.model),
        *memory.memory.warnings,
    )
    channel.subscribe(processes.feed)
    channel.subscribe(bench.spending.feed)
    trust = memory.request.trust
    prompt = open_prompt(bench, environ, trust, options.system_prompt, headless=approver is None)
    if not begun.contents:
        begun.opening = 0 if options.history else len(opening)
    outlets = Outlets(links.emit, links.pace, texts=links.texts)
    room = ConversationRoom(bench, chosen.generator, outlets, begun.opening)
    chat = open_chat(bench, chosen, models, begun.contents or opening, prompt, room)
    begun.attach(chat, channel)
    _tell_checkers(bench, chat, begun.opening)
    guard = open_guard(settings, chat, links)
    again = bool(options.history or begun.contents)
    hooks = _prompt_hooks(bench, chat, "resume" if again else source, begun)
    if hooks is not None and bench.hooks is not None:
        processes.when_killed(bench.hooks.kill)
    if options.full_context and again:
        bench.warnings.append("--all-files tells nothing here: the conversation has begun already.")
    tells_files = options.full_context and not again
    return Session(
        chat=chat,
        scheduler=cache(partial(bench.scheduler, channel.emit, approver)),
        limits=links.turns,
        guard=guard,
        ledger=ledger,
        processes=processes,
        bench=bench,
        chosen=chosen,
        session_id=links.session_id,
        checkpoints=checkpoints.open,
        conversations=cache(partial(_conversations, place, chat, begun)),
        turn_over=checkpoints.turn_over,
        prompt_hooks=hooks,
        telemetry=_session_telemetry(watch, channel, bench, chosen),
        recording=begun.recording,
        room=room,
        switch_model=partial(switch, chat, models, chosen),
        list_names=served.names,
        prompts=begun.prompts,
        mark=f"{os.urandom(4).hex()}." if begun.resumed else "",
        proceeds=options.proceeds and len(begun.contents) > begun.opening,
        before_first=partial(tell_files, bench, chat, hooks, channel.emit) if tells_files else None,
    )


def _open_agents(links: SessionLinks, bench: Toolset, remote: "RemoteAgents | None") -> "RunAgent":
    from alhena.agent.delegation import open_agents

    return open_agents(links, bench, remote)


def _session_telemetry(
    watch: "TelemetryOptions | None",
    channel: EventChannel,
    bench: Toolset,
    chosen: ChosenGenerator,
) -> "tuple[Telemetry, ...]":
    """The telemetry of a session, by settings and by program; no import if there is none."""
    if watch is None and instrumented is None:
        return ()
    from alhena.agent.telemetry import Told, open_instrumented, open_session_telemetry

    told = Told(bench, chosen)
    by_settings = None if watch is None else open_session_telemetry(watch, told, channel)
    by_program = instrumented and open_instrumented(instrumented, told, channel)
    return tuple(filter(None, (by_settings, by_program)))


def _end_notices(model: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    from alhena.models.catalogue import model_info

    if not model_info(model).ends:
        return ()
    from alhena.agent.toolset.model_list import end_notices

    return end_notices(model, environ)


def _temperature_problems(agents: "tuple[AgentDefinition, ...]", model: str) -> "Iterable[str]":
    """The agents that fail when they are called, because of the temperature that a person set."""
    for agent in agents:
        try:
            agent.require_temperature(model)
        except ConfigError as error:
            yield f"agent {agent.name}: {error}"


class _Checkpoints:
    """The checkpoints of a session, opened, and imported, before the first. `joined` gives the
    conversation and the toolset."""

    def __init__(
        self,
        place: Place,
        begun: Beginning,
        channel: EventChannel,
        joined: Callable[[], tuple[Chat, Toolset]],
    ) -> None:
        self._place = place
        self._begun = begun
        self._channel = channel
        self._joined = joined
        self._opened: Checkpoints | None = None

    def open(self) -> "Checkpoints":
        if self._opened is None:
            from alhena.agent.checkpointing import Checkpoints

            cwd, environ, _ = self._place
            chat, bench = self._joined()
            made = Checkpoints(cwd, environ, self._begun.session_id, self._channel.emit)
            made.attach(chat, self._begun.recording, lambda: bench.workspace.roots[1:])
            bench.when_closed.append(made.close)
            self._opened = made
        return self._opened

    async def keep(
        self, request: ToolCallRequestInfo, places: "tuple[ToolLocation, ...]"
    ) -> str | None:
        return await self.open().keep(request, places)

    async def turn_over(self) -> None:
        if self._opened is not None:
            await self._opened.turn_over()


def _conversations(place: Place, chat: Chat, begun: Beginning) -> "SavedConversations":
    from alhena.agent.restoring import SavedConversations

    cwd, environ, _ = place
    return SavedConversations(cwd, environ, chat, begun.recording)


def _find_people(
    options: SessionOptions, channel: EventChannel
) -> "tuple[Approver | None, Ask | None]":
    """Finds the approver and the function that answers questions of the model; imports nothing if
    no person can be asked. Raises InputError."""
    if options.approve is not None and options.bus is not None:
        raise InputError("approve and bus would both confirm calls.", remedy="Give one of the two.")
    if options.approve is not None:
        from alhena.agent.toolset.approval import serialize_approver

        return serialize_approver(options.approve), options.ask
    if options.bus is not None:
        from alhena.scheduler.bus_approver import BusApprover

        listeners = BusApprover(options.bus)
        channel.subscribe(listeners.feed)
        return listeners.approve, options.ask or listeners.ask
    return None, options.ask


def _watch(settings: Settings, environ: Mapping[str, str], cwd: Path) -> "TelemetryOptions | None":
    """Telemetry options; None, and no import, if telemetry is off."""
    if not (settings.telemetry.enabled or environ.get("GEMINI_TELEMETRY_ENABLED")):
        return None
    from alhena.telemetry.options import telemetry_options

    return telemetry_options(settings.telemetry, environ, cwd)


def _prompt_hooks(
    bench: Toolset,
    chat: Chat,
    source: Literal["startup", "resume", "clear"],
    begun: Beginning,
) -> "PromptHooks | None":
    """The hooks around the prompts of a session, if there are any. The opening contents are left
    when a hook clears the conversation."""
    if bench.hooks is None:
        return None
    from alhena.agent.toolset.prompt_hooks import PromptHooks

    if begun.recording is not None:
        begun.recording.at_once = True  # hooks may read it
    left = tuple(entry.content for entry in chat.history.contents[: begun.opening or None])
    return PromptHooks(bench.hooks, source, left)


def _tell_checkers(bench: Toolset, chat: Chat, opening: int) -> None:
    """Lets safety checkers know of the conversation behind its first `opening` contents."""
    if bench.checks is None:
        return
    bench.checks.history = lambda: conversation(
        entry.content for entry in chat.history.contents[opening:]
    )


Step = Callable[[SessionOptions, ProcessGroups], "Iterable[str]"]
"""Tries a part of the settings; gives what is to be said of it. Raises AlhenaError where a session
would."""


class Trial(Value, frozen=True):
    """Errors that would end a session, and warnings at its start."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]


async def tried(options: SessionOptions) -> Trial:
    """Tries to open a session with these options and collects its errors and warnings."""
    errors: list[str] = []
    warnings: list[str] = []
    groups = ProcessGroups()
    try:
        for step in _STEPS:
            try:
                warnings += step(options, groups)
            except AlhenaError as error:
                errors.append(str(error))
    finally:
        await groups.close()
    return Trial(tuple(dict.fromkeys(errors)), tuple(dict.fromkeys(warnings)))


def _mode(options: SessionOptions, _groups: ProcessGroups) -> "Iterable[str]":
    require_mode(options)
    return ()


def _policy(options: SessionOptions, _groups: ProcessGroups) -> "Iterable[str]":
    return [f"policy: {problem}" for problem in session_policy(options).problems]


def _sandbox(options: SessionOptions, groups: ProcessGroups) -> "Iterable[str]":
    _, told = session_sandbox(options, Workspace(options.cwd), groups)
    return (f"sandbox: {told}",) if told else ()


def _hooks(options: SessionOptions, groups: ProcessGroups) -> "Iterable[str]":
    _, warnings, _ = open_session_hooks(
        options,
        ("", ""),
        options.cwd,
        groups,
        lambda _event: None,
        lambda name: name in BUILT_IN or name in ALIASES,
    )
    return warnings


def _models(options: SessionOptions, _groups: ProcessGroups) -> "Iterable[str]":
    return SessionModels(None, options.environ, options.settings).warnings


def _budget(options: SessionOptions, _groups: ProcessGroups) -> "Iterable[str]":
    from alhena.agent.limits.budget import Ledger
    from alhena.models.prices import Prices

    model = options.settings.model
    ledger = Ledger(model.budget, Prices(model.prices))
    ledger.require_price(SessionModels(None, options.environ, options.settings).name)
    return ()


def _retention(options: SessionOptions, _groups: ProcessGroups) -> "Iterable[str]":
    from alhena.session.store import retention

    asked = options.settings.general.session_retention
    if asked.enabled:
        try:
            retention(asked)
        except AlhenaError as error:  # a session warns of it, and goes on
            return (str(error),)
    return ()


def _telemetry(options: SessionOptions, _groups: ProcessGroups) -> "Iterable[str]":
    from alhena.telemetry.options import is_installed, telemetry_options

    found = telemetry_options(options.settings.telemetry, options.environ, options.cwd)
    if found is None or found.outfile is not None or is_installed():
        return ()
    from alhena.agent.telemetry import missing_packages

    return (missing_packages(),)


_STEPS: tuple[Step, ...] = (
    *(_mode, _policy, _sandbox, _models, _budget, _hooks, _retention, _telemetry),
)
