"""Puts a session together: settings, policies, tools, scheduler, model, chat, record."""

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from alhena.agent.chat import ConversationRoom, SessionModels, instruct, open_chat
from alhena.agent.context import (
    SessionPrompt,
    conversation,
    first_contents,
    open_prompt,
    tell_files,
)
from alhena.agent.limits import TurnLimits
from alhena.agent.loop import open_guard, within_budget
from alhena.agent.run import EventChannel
from alhena.agent.session import (
    FirstPrompt,
    PromptIds,
    RunModels,
    Session,
    SessionAccess,
    SessionCheckpoints,
    SessionNotices,
    SessionProcesses,
)
from alhena.agent.toolset.factory import open_toolset
from alhena.agent.toolset.memory import open_memory
from alhena.agent.toolset.model_access import (
    FallbackConsent,
    SessionFallback,
    SessionModelList,
    fallback_mode,
)
from alhena.agent.toolset.options import SessionSpec
from alhena.agent.toolset.toolset import SessionLinks, Toolset
from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import import_contents
from alhena.config.effective_settings import Place
from alhena.config.home import installation_id_path
from alhena.config.settings import Settings
from alhena.errors import ConfigError, InputError
from alhena.events import WarningEvent
from alhena.http.addresses import order_addresses
from alhena.models.providers.select import (
    RECORDINGS,
    AuthType,
    ChosenGenerator,
    ModelChoice,
    choose_generator,
    login_files,
    require_tier,
)
from alhena.models.retry import retry_policy, wrap_attempts
from alhena.session.recording import Beginning, begin_recording
from alhena.system.workspace import Workspace
from alhena.values import Value
from alhena.wire.content import Content, for_another_model
from alhena.wire.encode import EncodedContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alhena.agent.saved_conversations import SavedConversations
    from alhena.agent.subagents import AgentDefinition
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.agent.telemetry import Providers
    from alhena.agent.toolset.memory import SessionMemory
    from alhena.agent.toolset.prompt_hooks import PromptHooks
    from alhena.agent.toolset.run_model import RunModel
    from alhena.chat.recovery import Substitute
    from alhena.models.generator import ContentGenerator
    from alhena.models.settings import ModelSettings
    from alhena.scheduler.question import Approver
    from alhena.telemetry.options import TelemetryOptions
    from alhena.telemetry.telemetry import Telemetry
    from alhena.tools.builtin.ask_user import Ask
    from alhena.tools.builtin.subagents import RunAgent


instrumented: "Providers | None" = None
"""The OpenTelemetry providers that the program wants its sessions reported to."""


def session_generator(
    spec: SessionSpec, model: str, settings: Settings, channel: EventChannel
) -> ChosenGenerator:
    """The generator: the program's own, or the one selected by model, credentials and settings;
    what a program's recording puts in its place. Raises ConfigError, CredentialsError."""

    def choose() -> ChosenGenerator:
        given = spec.model.generator
        if given is None:
            return choose_generator(choice)
        plain = ChosenGenerator(generator=given, model=model)
        chosen: ChosenGenerator = getattr(given, "chosen", plain)
        require_tier(replace(chosen, model=model), settings.model.service_tier)
        return replace(chosen, generator=given, model=model, owned=False)

    environ = spec.place.environ
    choice = ModelChoice(
        model=model,
        environ=environ,
        settings=settings,
        fake_responses=spec.model.fake_responses,
        fake_strict=spec.model.fake_strict,
        record_responses=spec.model.record_responses,
        is_terminal=spec.client.is_terminal,
        retry=retry_policy(settings.general),
        private_files=partial(login_files, environ),
        tell=lambda text: channel.emit(WarningEvent(message=text)),
        installation_id=partial(installation_number, environ),
    )
    recorded = RECORDINGS[-1] if RECORDINGS else None
    chosen = recorded.generator(choose, model, str(spec.place.cwd)) if recorded else choose()
    if spec.model.wrap is None:
        return chosen
    return replace(chosen, generator=wrap_attempts(chosen.generator, spec.model.wrap))


def installation_number(environ: Mapping[str, str]) -> str:
    """The random number by which services know this installation, where it may be told."""
    from alhena.telemetry.options import installation_id

    return installation_id(installation_id_path(environ))[0]


def open_session(
    spec: SessionSpec, channel: EventChannel, source: Literal["startup", "clear"] = "startup"
) -> Session:
    """A session ready for its first prompt; nothing is sent. `source` is its kind of start, for
    hooks. Raises ConfigError, InputError (SessionError), CredentialsError, JournalError."""
    begun = _begin(spec, channel)
    try:
        session = _open(spec, channel, begun, source)
    except BaseException:
        begun.abandon()
        raise
    session.bench.warnings.extend(spec.place.told)
    return session


def _begin(spec: SessionSpec, channel: EventChannel) -> Beginning:
    """The record of the session, in a file or in a store of the program, if there is one."""
    if spec.record.stored is not None:
        from alhena.session.stored_recording import begin_stored

        return begin_stored(spec.record.stored, channel.emit)
    return begin_recording(
        spec.record.resume,
        spec.place,
        channel.emit,
        record=spec.record.enabled,
        session_id=spec.record.session_id,
        disk=spec.record.disk,
    )


def open_access(spec: SessionSpec, channel: EventChannel, *, texts: bool) -> SessionAccess:
    """Chooses the model. Raises ConfigError, CredentialsError."""
    environ, settings = spec.place.environ, spec.place.settings
    order_addresses(ipv4_first=settings.advanced.dns_resolution_order == "ipv4first")
    models = _read_models(spec)
    approver, ask = _find_people(spec, channel)
    settings = _of_service(settings, models.service)
    plain = session_generator(spec, models.name, settings, channel)
    chosen, ask, ledger = within_budget(spec, settings, plain, ask, channel)
    served = SessionModelList(chosen.generator, environ, channel.emit)
    if chosen.speaks_gemini:
        served.prepare(chosen.model)
        channel.subscribe(served.feed)
    return SessionAccess(
        models=models,
        chosen=chosen,
        served=served,
        approver=approver,
        ask=ask,
        texts=texts,
        ledger=ledger,
    )


def _read_models(spec: SessionSpec) -> SessionModels:
    """The model that is asked for, with the program's settings. Raises ConfigError."""
    own: tuple[ModelSettings, ModelSettings] | None = None
    given = spec.model.generator
    if spec.model.settings is not None or getattr(given, "settings", None) is not None:
        from alhena.models.settings import NONE, own_settings

        own = (spec.model.settings or NONE, own_settings(given))
    place = spec.place
    return SessionModels(spec.model.name, place.environ, place.settings, own, named=given is None)


def _of_service(settings: Settings, service: str) -> Settings:
    """The settings with the service of Google's that the prefix of a model's name asks for."""
    kinds = {"gemini": AuthType.API_KEY, "vertex": AuthType.VERTEX}
    if service not in kinds:
        return settings
    auth = replace(settings.security.auth, selected_type=str(kinds[service]))
    return replace(settings, security=replace(settings.security, auth=auth))


def _open_run_model(
    spec: SessionSpec, channel: EventChannel, access: SessionAccess, chat: Chat
) -> "RunModel":
    """The model of the session's runs, where they name one, or its model is a Fallback."""
    from alhena.agent.toolset.run_model import RunModel, wrap_with

    settings = spec.place.settings

    def choose(name: str) -> ChosenGenerator:
        own = replace(spec, model=replace(spec.model, name=name, generator=None, wrap=None))
        models = _read_models(own)
        return session_generator(own, models.name, _of_service(settings, models.service), channel)

    limit = None
    if (ledger := access.ledger) is not None:
        from alhena.agent.limits.budget import limit_generator

        limit = partial(limit_generator, ledger=ledger)
    between = spec.model.wrap
    attempts = None if between is None else partial(wrap_attempts, wrap=between)
    given = None if RECORDINGS else spec.model.generator
    wrap = wrap_with(attempts, limit)
    return RunModel(chat, access.models, access.chosen, given, wrap, choose)


def _choose_fallback(access: SessionAccess, settings: Settings) -> SessionFallback:
    """The choice of another model when one cannot answer."""
    models = access.models
    mode = fallback_mode(settings.model.fallback, models.requested)
    renewal = access.served.renewal
    return SessionFallback(mode, FallbackConsent(access.ask), models.config, models.chosen, renewal)


class Opening(Value, frozen=True):
    """The `contents` that a conversation begins with, the number of those that no person or model
    wrote (`length`), and the `memory` they are from."""

    contents: "Sequence[Content | EncodedContent]"
    length: int
    memory: "SessionMemory"
    for_subagents: tuple[Content, ...]


def open_contents(
    spec: SessionSpec, begun: Beginning, model: str, channel: EventChannel
) -> Opening:
    """Finds the memory and the first contents, or takes those of an earlier run."""
    workspace = Workspace(spec.place.cwd, spec.place.directories)
    memory = open_memory(workspace, spec.place, channel.emit)
    given = import_contents(spec.record.history, model)
    first = (
        begun.opening_contents
        or given
        or (
            first_contents(workspace, spec.place, memory.project_text)
            if spec.model.environment
            else ()
        )
    )
    memory.began_with([entry.content for entry in begun.contents] or first)
    length = 0 if spec.record.history else len(first)
    return Opening(
        begun.contents or first,
        begun.opening if begun.contents else length,
        memory,
        tuple(for_another_model(each, sign_calls=False) for each in first[:2]),
    )


class _LateParts:
    """The conversation and the toolset of a session, for what is made before them."""

    def __init__(self) -> None:
        self._parts: tuple[Chat, Toolset] | None = None
        self._run_models: RunModels | None = None

    def join(self, chat: Chat, bench: Toolset, run_models: RunModels) -> None:
        """Sets them."""
        self._parts = chat, bench
        self._run_models = run_models

    def find_model(self, model: "str | ContentGenerator") -> "Substitute":
        """A model that a run or a subagent names. Raises ConfigError, CredentialsError."""
        if self._run_models is None:
            raise RuntimeError("the session is not open yet")
        return self._run_models.open().find(model)

    def get(self) -> tuple[Chat, Toolset]:
        """Returns them. Raises RuntimeError before they are there."""
        if self._parts is None:
            raise RuntimeError("the session is not open yet")
        return self._parts


def _open(
    spec: SessionSpec,
    channel: EventChannel,
    begun: Beginning,
    source: Literal["startup", "clear"],
) -> Session:
    settings = spec.place.settings
    watch = _watch(spec.place)
    processes = SessionProcesses()
    access = open_access(spec, channel, texts=_keeps_texts(watch))
    opening = open_contents(spec, begun, access.chosen.model, channel)
    late = _LateParts()
    asked_for = settings.general.checkpointing.enabled
    enabled = asked_for or spec.client.checkpoints
    checkpoints = SessionCheckpoints(
        spec.place, begun, channel.emit, late.get, enabled=enabled, patient=asked_for
    )
    chosen, approver = access.chosen, access.approver
    links = _open_links(spec, channel, begun, access, opening, late)
    if enabled:
        links = replace(links, keep=checkpoints.keep)
        channel.subscribe(checkpoints.feed)
    bench = open_toolset(
        replace(spec, people=replace(spec.people, interactive=approver is not None)),
        links,
        processes.groups,
    )
    bench.hide_denied()
    bench.when_closed.append(access.served.close)
    bench.warnings.extend(_find_notices(spec, begun, access, bench))
    _heed_bus(spec, bench, channel)
    channel.subscribe(processes.feed)
    channel.subscribe(bench.spending.feed)
    room, chat, prompt = _open_conversation(spec, access, opening, bench)
    run_models = RunModels(partial(_open_run_model, spec, channel, access, chat))
    late.join(chat, bench, run_models)
    at_once = bench.hooks is not None  # hooks may read the record
    begun.attach(chat, channel.subscribe, opening.length, at_once=at_once)
    _tell_checkers(bench, chat, opening.length)
    again = bool(spec.record.history or begun.contents)
    hooks = _prompt_hooks(bench, chat, "resume" if again else source, opening.length)
    if hooks is not None and bench.hooks is not None:
        processes.when_killed(bench.hooks.kill)
    if getattr(spec.model.generator, "chains", False) and not RECORDINGS:
        run_models.open()
    return Session(
        chat=chat,
        run_models=run_models,
        room=room,
        scheduler=cache(partial(bench.scheduler, channel.emit, approver)),
        guard=open_guard(settings, chat, links, spec.people.interject),
        processes=processes,
        bench=bench,
        access=access,
        checkpoints=checkpoints,
        conversations=cache(partial(_conversations, spec, chat, begun)),
        prompt_hooks=hooks,
        telemetry=_session_telemetry(watch, channel, bench, chosen),
        recording=begun.recording,
        prompt_ids=PromptIds(links.session_id, begun.prompts, resumed=begun.resumed),
        notices=SessionNotices(bench.warnings, chosen.notices),
        first_prompt=_open_first_prompt(spec, begun, links, hooks, late),
        instruct=partial(instruct, chat, bench, access.models, prompt),
    )


def _open_links(
    spec: SessionSpec,
    channel: EventChannel,
    begun: Beginning,
    access: SessionAccess,
    opening: Opening,
    late: _LateParts,
) -> SessionLinks:
    """The services of the session for its tools."""
    settings = spec.place.settings
    return SessionLinks(
        session_id=begun.session_id,
        transcript=begun.transcript,
        answering=lambda: (access.chosen.generator, late.get()[0].model.name),
        delegate=_open_agents,
        emit=channel.emit,
        pace=channel.pace,
        step=begun.step,
        approver=access.approver,
        ask=access.ask,
        turns=TurnLimits(spec.limits.turns, settings.model.max_session_turns, access.ask),
        fallback=_choose_fallback(access, settings),
        opening=opening.for_subagents,
        memory=opening.memory,
        durable=begun.durable,
        resumed=begun.prompts > 0,
        texts=access.texts,
        find_model=late.find_model,
    )


def _find_notices(
    spec: SessionSpec, begun: Beginning, access: SessionAccess, bench: Toolset
) -> "Iterable[str]":
    """Notices at the start of a session."""
    yield from begun.notices
    yield from access.models.warnings
    yield from _end_notices(access.chosen.model, spec.place.environ)
    yield from _temperature_problems(bench.agents.local, access.chosen.model)
    yield from () if bench.memory is None else bench.memory.memory.warnings
    if spec.model.full_context and (spec.record.history or begun.contents):
        yield "--all-files tells nothing here: the conversation has begun already."


def _open_conversation(
    spec: SessionSpec, access: SessionAccess, opening: Opening, bench: Toolset
) -> tuple[ConversationRoom, Chat, SessionPrompt]:
    """The conversation, the room in the window of its model, and its system prompt."""
    links, chosen = bench.links, access.chosen
    trust = opening.memory.request.trust
    prompt = open_prompt(
        bench, spec.place.environ, trust, spec.model.instructions, headless=links.approver is None
    )
    outlets = Outlets(links.emit, links.pace, texts=links.texts)
    room = ConversationRoom(bench, chosen.generator, outlets, opening.length)
    chat = open_chat(bench, chosen, access.models, opening.contents, prompt, room)
    return room, chat, prompt


def _open_first_prompt(
    spec: SessionSpec,
    begun: Beginning,
    links: SessionLinks,
    hooks: "PromptHooks | None",
    late: _LateParts,
) -> FirstPrompt:
    proceeds = spec.record.proceeds and len(begun.contents) > begun.opening
    if not spec.model.full_context or spec.record.history or begun.contents:
        return FirstPrompt(proceeds=proceeds)
    chat, bench = late.get()
    return FirstPrompt(proceeds=proceeds, work=partial(tell_files, bench, chat, hooks, links.emit))


def _open_agents(links: SessionLinks, bench: Toolset, remote: "RemoteAgents | None") -> "RunAgent":
    from alhena.agent.delegation import open_agents

    return open_agents(links, bench, remote)


def _keeps_texts(watch: "TelemetryOptions | None") -> bool:
    """True if events have to carry what people, models and tools wrote."""
    by_program = instrumented is not None and instrumented.texts
    return by_program or (watch is not None and watch.texts)


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


def _conversations(spec: SessionSpec, chat: Chat, begun: Beginning) -> "SavedConversations":
    from alhena.agent.saved_conversations import SavedConversations

    return SavedConversations(spec.place.cwd, spec.place.environ, chat, begun.recording)


def _find_people(spec: SessionSpec, channel: EventChannel) -> "tuple[Approver | None, Ask | None]":
    """Finds the approver and the function that answers questions of the model; imports nothing if
    no person can be asked. Raises InputError."""
    people = spec.people
    if people.approve is not None and people.bus is not None:
        raise InputError("approve and bus would both confirm calls.", remedy="Give one of the two.")
    if people.approve is not None:
        from alhena.agent.toolset.approval import serialize_approver

        return serialize_approver(people.approve), people.ask
    if people.bus is not None:
        from alhena.scheduler.bus_approver import BusApprover

        listeners = BusApprover(people.bus)
        channel.subscribe(listeners.feed)
        return listeners.approve, people.ask or listeners.ask
    return None, people.ask


def _heed_bus(spec: SessionSpec, bench: Toolset, channel: EventChannel) -> None:
    """Applies updates of the policy that a program publishes on its bus, if it may."""
    bus = spec.people.bus
    if bus is None or spec.place.settings.security.disable_always_allow:
        return
    from alhena.agent.toolset.approval import apply_updates

    bench.when_closed.append(apply_updates(bus, bench.authority, channel.emit))


def _watch(place: Place) -> "TelemetryOptions | None":
    """Telemetry options; None, and no import, if telemetry is off."""
    settings, environ = place.settings, place.environ
    if not (settings.telemetry.enabled or environ.get("GEMINI_TELEMETRY_ENABLED")):
        return None
    from alhena.telemetry.options import telemetry_options

    return telemetry_options(settings.telemetry, environ, place.cwd)


def _prompt_hooks(
    bench: Toolset,
    chat: Chat,
    source: Literal["startup", "resume", "clear"],
    opening: int,
) -> "PromptHooks | None":
    """The hooks around the prompts of a session, if there are any. The opening contents are left
    when a hook clears the conversation."""
    if bench.hooks is None:
        return None
    from alhena.agent.toolset.prompt_hooks import PromptHooks

    left = tuple(entry.content for entry in chat.history.contents[: opening or None])
    return PromptHooks(bench.hooks, source, left)


def _tell_checkers(bench: Toolset, chat: Chat, opening: int) -> None:
    """Lets safety checkers know of the conversation behind its first `opening` contents."""
    if bench.authority.checks is None:
        return
    bench.authority.checks.hear(
        lambda: conversation(entry.content for entry in chat.history.contents[opening:])
    )
