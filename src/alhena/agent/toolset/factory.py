"""Puts a toolset together: policies, tools, hooks, a sandbox."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.limits import Spending
from alhena.agent.subagents import AgentDefinition, builtin_agents
from alhena.agent.toolset.authority import (
    open_authority,
    open_engine,
    require_mode,
    require_own_name,
    session_policy,
)
from alhena.agent.toolset.model_access import PLAIN, SessionModel
from alhena.agent.toolset.options import SessionSpec
from alhena.agent.toolset.toolset import SessionAgents, SessionLinks, Toolset
from alhena.config.environment import own_environment, without_repository
from alhena.config.home import (
    IMAGE_FOLDER,
    agent_folders,
    claim_project_temp,
    project_temp,
    saved_policies_path,
    skill_folders,
    system_defaults_path,
    system_settings_path,
    workspace_settings_path,
)
from alhena.errors import InputError
from alhena.events import Event
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.policy.settings_rules import unknown_tools
from alhena.system.workspace import Workspace
from alhena.tools.base import LazyTool
from alhena.tools.builtin.subagents import DelegateToAgent
from alhena.tools.catalogue import SMALL_TOOLS, ModelTools, ToolHost, builtin_tools
from alhena.tools.contract import ExecutionContext, HostProgram, Tool, ToolResult
from alhena.tools.registry import (
    ALIASES,
    BUILT_IN,
    DELEGATE,
    ToolRegistry,
    ToolSources,
    all_names,
    resolve_name,
)
from alhena.values import FailedCall, Value

if TYPE_CHECKING:
    from alhena.agent.subagents.remote import RemoteAgent
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.hooks.planning import Hooks
    from alhena.skills.files import Skills
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.system.web.fetch import GuardedFetcher
    from alhena.tools.builtin.ask_user import Ask
    from alhena.tools.output_store import OutputStore


_ANSWERED = PolicyRule(
    decision=PolicyOutcome.ALLOW,
    priority=0,
    tool_names=("ask_user",),
    source="the program answers questions",
    layer="program",
)
"""Weaker than all of the user's rules, stronger than the denial of unattended runs:
a person is there, only not for approvals."""


def register_session_tools(bench: Toolset, plans: Path, wanted: Collection[str]) -> None:
    """Adds those that are `wanted` to the toolset's registry, and the one that runs its agents.
    `plans` is where approved plans are kept."""

    def enter_plan_mode() -> Tool:
        from alhena.tools.builtin.plan_mode import EnterPlanMode

        return EnterPlanMode(bench.authority.modes, bench.describe_plan_mode)

    def exit_plan_mode() -> Tool:
        from alhena.tools.builtin.plan_mode import ExitPlanMode

        return ExitPlanMode(bench.authority.modes, plans)

    def register(tool: Tool) -> None:
        if tool.name in wanted:
            bench.registry.register(tool)

    register(LazyTool("enter_plan_mode", enter_plan_mode))
    register(LazyTool("exit_plan_mode", exit_plan_mode))
    if bench.skills is not None and bench.skills.active:
        from alhena.skills.files import ActivateSkill

        bench.registry.register(ActivateSkill(bench.skills, bench.workspace))
    if bench.links.ask is not None:
        from alhena.tools.builtin.ask_user import AskUser

        register(AskUser(bench.links.ask))
        if not bench.authority.context.interactive:
            bench.authority.engine.add_rule(_ANSWERED)
    remote = bench.agents.remote
    summaries = tuple(agent.summary for agent in (*bench.agents.local, *remote))
    if summaries:
        opened = _open_remote(bench, remote) if remote else None
        running = cache(lambda: bench.links.delegate(bench.links, bench, opened))

        async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
            return await running()(name, objective, context)

        delegate = DelegateToAgent(summaries, run)
        bench.registry.register(delegate)
        if remote and bench.host.groups is not None:
            bench.sources.add(lambda: _describe_remote(bench, delegate))


def _builtin_agents(spec: SessionSpec) -> "tuple[AgentDefinition, ...]":
    """The built-in agents as the settings change them."""
    overrides = spec.place.settings.agents.overrides
    if not overrides:
        return builtin_agents()
    from alhena.agent.subagents.files import apply_overrides

    return tuple(
        apply_overrides(agent, overrides[agent.name]) if agent.name in overrides else agent
        for agent in builtin_agents()
        if agent.name not in overrides or overrides[agent.name].enabled is not False
    )


async def _describe_remote(bench: Toolset, tool: DelegateToAgent) -> None:
    """Has the model told what the cards of remote agents say."""
    from alhena.agent.subagents.cards import describe_by_cards

    context = bench.authority.context

    def may_be_called(name: str) -> bool:
        names = (*all_names(DELEGATE), name)
        return not bench.authority.excludes(names, None, context)

    environ = bench.spec.place.environ
    await describe_by_cards(tool, bench.agents.remote, environ, may_be_called)


def _open_remote(bench: Toolset, agents: "tuple[RemoteAgent, ...]") -> "RemoteAgents":
    from alhena.agent.subagents.remote_agents import RemoteAgents

    remote = RemoteAgents(agents, bench.spec.place.environ, bench.spec.place.cwd)
    for rule in remote.rules:
        bench.authority.engine.add_rule(rule)
    return remote


def open_fetcher(environ: Mapping[str, str]) -> "GuardedFetcher":
    """A fetcher that dials only public addresses, and none behind a proxy."""
    from alhena.http.addresses import Endpoint, proxy_for
    from alhena.http.certificates import tls_context
    from alhena.system.web.fetch import GuardedFetcher

    return GuardedFetcher(
        lambda: tls_context(environ),
        lambda url: proxy_for(Endpoint(url.scheme, url.host, url.port), environ) is not None,
    )


def session_sandbox(
    spec: SessionSpec, workspace: Workspace, groups: "ProcessGroups"
) -> "tuple[Sandbox | None, str]":
    """The sandbox of commands, closed when `groups` have ended, and a notice about it."""
    tools = spec.place.settings.tools
    if not (spec.permissions.sandbox or tools.sandbox or spec.place.environ.get("GEMINI_SANDBOX")):
        return None, ""
    from alhena.system.sandbox.layout import choose_sandbox, is_inside

    wish = choose_sandbox(tools, spec.permissions.sandbox, spec.place.environ)
    if wish is None:
        return None, ""
    if is_inside(spec.place.environ):
        return None, "SANDBOX is set: commands run in what this process runs in, and no other."
    from alhena.system.sandbox.opening import CommandEnvironment, open_sandbox

    roots = tuple(str(root) for root in workspace.roots)
    sandbox = open_sandbox(wish, CommandEnvironment(roots, spec.place.environ))
    groups.when_ended(sandbox.close)
    return sandbox, sandbox.note


def open_session_hooks(
    spec: SessionSpec,
    record: tuple[str, str],
    plans: Path,
    groups: "ProcessGroups",
    emit: Callable[[Event], None],
    is_tool: Callable[[str], bool],
) -> "tuple[Hooks | None, tuple[str, ...], tuple[str, ...]]":
    """The hooks of a session (None when there are none), warnings, and notes. `record` is the id of
    the session and the path of its journal. Nothing of hooks is imported where none can be. Raises
    ConfigError."""
    settings = spec.place.settings
    of_extensions = any(os.path.lexists(each.hooks_file) for each in spec.place.extensions)
    wanted = settings.hooks or spec.tools.hooks or of_extensions
    others = (
        workspace_settings_path(spec.place.cwd),
        system_defaults_path(spec.place.environ),
        system_settings_path(spec.place.environ),
    )
    if not wanted and not any(map(os.path.lexists, others)):
        return None, (), ()
    from alhena.hooks.gather import HooksRequest, gather_hooks, open_hooks
    from alhena.hooks.running import HookSurroundings

    gathered = gather_hooks(
        HooksRequest(
            cwd=spec.place.cwd,
            environ=spec.place.environ,
            settings=settings,
            program=spec.tools.hooks,
            extensions=spec.place.extensions,
            skip_trust=spec.place.skip_trust,
        )
    )
    session_id, transcript = record
    cwd = str(spec.place.cwd)
    around = HookSurroundings(
        session_id=session_id,
        cwd=cwd,
        environ=own_environment(spec.place.environ),
        project_dir=cwd,
        plans_dir=str(plans),
        transcript_path=transcript,
        redaction=settings.security.environment_variable_redaction,
        groups=groups,
        failed=partial(_report_exception, spec.client.program, emit),
        refuse=str if spec.client.program is None else spec.client.program.fail,
    )
    hooks = open_hooks(gathered, around, emit, is_tool)
    return hooks if hooks.groups else None, gathered.warnings, gathered.notes


def _report_exception(
    program: HostProgram | None, emit: Callable[[Event], None], failed: FailedCall
) -> str:
    from alhena.scheduler.failures import report_exception

    return report_exception(program, emit, failed)


class Folders(Value, frozen=True):
    """The workspace of a session, and where it keeps outputs of tools and approved plans."""

    workspace: Workspace
    outputs: "OutputStore"
    plans: Path


def open_folders(spec: SessionSpec, session_id: str) -> Folders:
    """Opens the workspace. Raises InputError when a directory that was named is none."""
    from alhena.tools.output_store import OutputStore

    temp = project_temp(spec.place.environ, spec.place.cwd)
    plans = temp / session_id / "plans"
    outputs = OutputStore(
        temp / "tool-outputs",
        session_id,
        threshold=_result_characters(spec),
        lines=spec.place.settings.tools.truncate_tool_output_lines or 0,
        prepare=lambda: claim_project_temp(temp, spec.place.cwd),
    )
    workspace = Workspace(
        spec.place.cwd,
        (_directory(spec.place.cwd, item) for item in spec.place.directories),
        readable=(outputs.directory, plans, temp / IMAGE_FOLDER),
        console=spec.client.console,
        editor=spec.client.editor,
        terminal=spec.client.terminal,
    )
    workspace.follow_filtering(spec.place.settings.context.file_filtering)
    return Folders(workspace, outputs, plans)


def _result_characters(spec: SessionSpec) -> int:
    """Characters of the longest result that goes to the model whole."""
    settings = spec.place.settings
    if not settings.model.is_small:
        return settings.tools.truncate_tool_output_threshold
    from alhena.agent.chat import SessionModels
    from alhena.agent.prompt_size import result_characters

    model = SessionModels(spec.model.name, spec.place.environ, settings).name
    return result_characters(settings, model)


def open_host(
    spec: SessionSpec,
    links: SessionLinks,
    folders: Folders,
    groups: "ProcessGroups | None",
) -> tuple[ToolHost, tuple[str, ...]]:
    """The services that tools work with, a sandbox among them, and notices about it."""
    workspace = folders.workspace
    sandbox, told = (None, "") if groups is None else session_sandbox(spec, workspace, groups)
    plain = PLAIN.with_tier(spec.place.settings.model.service_tier)
    model = SessionModel(links.answering, links.emit, texts=links.texts, config=plain)
    host = ToolHost(
        workspace=workspace,
        environ=spec.place.environ,
        settings=spec.place.settings,
        outputs=folders.outputs,
        groups=groups,
        sandbox=sandbox,
        models=ModelTools(
            access=model, ask=model.ask, open_fetcher=partial(open_fetcher, spec.place.environ)
        ),
    )
    return host, (told,) if told else ()


def open_toolset(
    spec: SessionSpec, links: SessionLinks, groups: "ProcessGroups | None" = None
) -> Toolset:
    """Reads the policies and makes the tools. What commands leave running goes to `groups`; without
    it the tools can be listed, not run.

    Raises ConfigError when policies cannot be used, InputError when a directory that was named is
    none, SandboxError when a sandbox was asked for and cannot be had. Rules that only permitted
    something and had to be dropped are warnings.
    """
    require_mode(spec)
    folders = open_folders(spec, links.session_id)
    policy = session_policy(spec)
    trusted = policy.trusted
    host, about_sandbox = open_host(spec, links, folders, groups)
    engine = open_engine(spec, policy)
    small = spec.place.settings.model.is_small
    wanted = BUILT_IN if spec.tools.builtin is None else frozenset(spec.tools.builtin)
    wanted = wanted & SMALL_TOOLS if small else wanted
    registry = ToolRegistry(
        (tool for tool in builtin_tools(host) if tool.name in wanted),
        declare=(*(spec.tools.builtin or ()), *(spec.place.settings.tools.core or ())),
        short=small,
    )
    hooks, warned, noted = _open_hooks(spec, links, folders.plans, groups, registry)
    agents = _open_agents(spec, wanted, groups, links.ask, trusted=trusted)
    skills = _skills(spec, trusted=trusted)
    warnings = [*warned, *agents.problems, *(() if skills is None else skills.problems)]
    sources = ToolSources()
    control = None
    if spec.tools.servers and _names_servers(spec):
        from alhena.agent.toolset.mcp import ServerPlace, open_servers

        filtering = [rule for each in policy.filters for rule in each.rules]
        place = ServerPlace(
            spec=spec,
            groups=groups,
            roots=folders.workspace.roots,
            registry=registry,
            sources=sources,
            rules=lambda: (*engine.rules, *filtering),
            saved=saved_policies_path(spec.place.environ),
            warnings=warnings,
            trusted=trusted,
            ask=links.ask,
        )
        control = open_servers(place)
    bench = Toolset(
        spec=spec,
        links=links,
        host=host,
        registry=registry,
        authority=open_authority(spec, policy, engine, host, control and control.servers),
        hooks=hooks,
        agents=agents,
        server_control=control,
        skills=skills,
        sources=sources,
        spending=Spending(spec.place.settings.model.prices),
        warnings=warnings,
        notes=(*policy.notes, *noted, *(links.memory.memory.notes if links.memory else ())),
    )
    _register_tools(bench, folders.plans, wanted)
    warnings += (f"policy: {problem}" for problem in policy.problems if not problem.quiet)
    warnings += (f"sandbox: {each}" for each in about_sandbox)
    _register_own(bench, policy.rules)
    return bench


def _open_hooks(
    spec: SessionSpec,
    links: SessionLinks,
    plans: Path,
    groups: "ProcessGroups | None",
    registry: ToolRegistry,
) -> "tuple[Hooks | None, tuple[str, ...], tuple[str, ...]]":
    """As `open_session_hooks`; none where nothing runs."""
    if groups is None:
        return None, (), ()
    return open_session_hooks(
        spec,
        (links.session_id, links.transcript),
        plans,
        groups,
        links.emit,
        lambda name: name in BUILT_IN or name in ALIASES or registry.get(name) is not None,
    )


def _register_tools(bench: Toolset, plans: Path, wanted: Collection[str]) -> None:
    """Registers the tools that need a session, and discovers those of the settings' command."""
    register_session_tools(bench, plans, wanted)
    if bench.settings.tools.discovery_command:
        from alhena.agent.toolset.discovery import add_discovery

        add_discovery(bench)


def _register_own(bench: Toolset, rules: Sequence[PolicyRule]) -> None:
    """Registers the program's own tools; warns of rules for tools that are not there."""
    spec = bench.spec
    for tool in spec.tools.own:
        require_own_name(tool.name)
        warning = bench.registry.register(tool, declared=not spec.tools.search_own)
        bench.warnings.extend(filter(None, (warning,)))
    if spec.tools.own and spec.tools.search_own:
        bench.registry.search.open()
    discovers = spec.place.settings.tools.discovery_command or spec.place.extensions
    if not (_names_servers(spec) or discovers):
        bench.warnings.extend(unknown_tools(rules, partial(_is_tool, bench), _NAMES))


_NAMES = BUILT_IN | ALIASES.keys()


def _is_tool(bench: Toolset, name: str) -> bool:
    """True for the name of a tool or an agent, wherever it is used."""
    return (
        resolve_name(name) in _NAMES
        or bench.registry.find(name, excluded=True) is not None
        or name in bench.agents.names
    )


def open_elsewhere(bench: Toolset, cwd: Path) -> Toolset:
    """A toolset for a directory in another repository: its own tools without MCP servers,
    everything else that of the session."""
    client = msgspec.structs.replace(bench.spec.client, editor=None, terminal=None)
    there = msgspec.structs.replace(
        bench.spec,
        place=msgspec.structs.replace(
            bench.spec.place,
            cwd=cwd,
            environ=without_repository(bench.spec.place.environ),
            directories=(),
        ),
        tools=msgspec.structs.replace(bench.spec.tools, servers=False),
        client=client,
    )
    own = open_toolset(there, bench.links, bench.host.groups)
    return msgspec.structs.replace(
        own,
        authority=msgspec.structs.replace(
            bench.authority, surroundings=own.authority.surroundings, servers=None
        ),
        hooks=bench.hooks,
        tracers=bench.tracers,
        agents=bench.agents,
    )


def _skills(spec: SessionSpec, *, trusted: bool) -> "Skills | None":
    """The skills of a session. Nothing of them is imported if there are no folders of skills."""
    folders = skill_folders(
        spec.place.environ, spec.place.cwd, trusted=trusted, extensions=spec.place.extensions
    )
    tools = spec.tools.builtin
    wanted = spec.place.settings.skills.enabled and (tools is None or "activate_skill" in tools)
    if not folders or not wanted:
        return None
    from alhena.skills.files import Skills

    expanders: dict[str, Callable[[str], str]] = {}
    if spec.place.extensions:
        from alhena.config.extensions import text_expanders

        expanders = text_expanders(spec.place.extensions, spec.place.cwd)
    return Skills(folders, spec.place.settings.skills.disabled, expanders)


def _open_agents(
    spec: SessionSpec,
    wanted: Collection[str],
    groups: "ProcessGroups | None",
    ask: "Ask | None",
    *,
    trusted: bool,
) -> SessionAgents:
    """The agents of the program, built-in ones and those of definition files, for which nothing is
    imported where there are none."""
    if DELEGATE not in wanted:
        return SessionAgents(local=spec.tools.agents, remote=spec.tools.remote_agents)
    builtin = _builtin_agents(spec)
    given = SessionAgents(local=(*builtin, *spec.tools.agents), remote=spec.tools.remote_agents)
    folders = agent_folders(
        spec.place.environ, spec.place.cwd, trusted=trusted, extensions=spec.place.extensions
    )
    if not folders or not spec.place.settings.agents.enabled:
        return given
    from alhena.agent.subagents.files import AgentFiles, sources_of, with_resolved_servers

    taken = [
        agent.name for agent in (*builtin_agents(), *spec.tools.agents, *spec.tools.remote_agents)
    ]
    sources = sources_of(folders, spec.place.environ, spec.place.cwd, spec.place.extensions)
    files = AgentFiles(sources, spec.place.settings.agents.overrides, taken)
    found = [
        with_resolved_servers(agent, spec.place.environ, spec.place.cwd, spec.place.extensions)
        for agent in files.usable
    ]
    local = tuple(each for each in found if isinstance(each, AgentDefinition))
    remote = tuple(each for each in found if not isinstance(each, AgentDefinition))
    servers = None
    if groups is not None and spec.tools.servers and any(each.mcp_servers for each in local):
        from alhena.agent.toolset.mcp import AgentServers

        servers = AgentServers(spec, groups, ask, trusted=trusted)
    return SessionAgents(
        local=(*given.local, *local),
        remote=(*given.remote, *remote),
        problems=tuple(files.problems),
        servers=servers,
    )


def _names_servers(spec: SessionSpec) -> bool:
    settings = spec.place.settings
    return bool(settings.mcp_servers or settings.mcp.server_command or spec.place.held_servers)


def _directory(cwd: Path, name: str) -> Path:
    path = cwd / name
    if not path.is_dir():
        raise InputError(
            f"the directory {name} to include does not exist.",
            remedy="Name an existing directory.",
        )
    return path
