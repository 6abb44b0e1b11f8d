"""Puts a toolset together: policies, tools, hooks, a sandbox."""

import os
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.agent.limits import Spending
from alhena.agent.subagents import AgentDefinition, builtin_agents
from alhena.agent.toolset.model_access import PLAIN, SessionModel
from alhena.agent.toolset.options import SessionOptions
from alhena.agent.toolset.toolset import SessionLinks, SessionMode, Toolset, ToolSources
from alhena.config.environment import own_environment
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
from alhena.errors import ConfigError, InputError
from alhena.events import Event
from alhena.policy.engine import PolicyEngine
from alhena.policy.gather import GatheredPolicy, PolicyRequest, gather_policy, told_together
from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule, Tier
from alhena.policy.settings_rules import ToolNames, unknown_tools
from alhena.policy.surroundings import Surroundings
from alhena.system.workspace import Workspace
from alhena.tools.base import LazyTool
from alhena.tools.builtin.catalogue import ModelTools, ToolHost, builtin_tools
from alhena.tools.builtin.subagents import DelegateToAgent
from alhena.tools.contract import ExecutionContext, Tool, ToolResult
from alhena.tools.registry import (
    ALIASES,
    BUILT_IN,
    DELEGATE,
    ToolRegistry,
    declared_name,
    resolve_name,
)

if TYPE_CHECKING:
    from alhena.agent.subagents.remote import RemoteAgent
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.agent.toolset.mcp import AgentServers
    from alhena.hooks.planning import Hooks
    from alhena.policy.safety_checks import SafetyChecks
    from alhena.skills.files import Skills
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.system.web.fetch import GuardedFetcher


_ANSWERED = PolicyRule(
    decision=PolicyOutcome.ALLOW,
    priority=0,
    tool_names=("ask_user",),
    source="the program answers questions",
    layer="program",
)
"""Weaker than all of the user's rules, stronger than the denial of unattended runs:
a person is there, only not for approvals."""


def register_session_tools(
    bench: Toolset, plans: Path, wanted: Collection[str], remote: "tuple[RemoteAgent, ...]"
) -> None:
    """Adds those that are `wanted` to the toolset's registry, and the one that runs its agents
    and the `remote` ones. `plans` is where approved plans are kept."""

    def enter_plan_mode() -> Tool:
        from alhena.tools.builtin.plan_mode import EnterPlanMode

        return EnterPlanMode(bench.modes)

    def exit_plan_mode() -> Tool:
        from alhena.tools.builtin.plan_mode import ExitPlanMode

        return ExitPlanMode(bench.modes, plans)

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
        if not bench.context.interactive:
            bench.engine.add_rule(_ANSWERED)
    summaries = tuple(agent.summary for agent in (*bench.agents, *remote))
    if summaries:
        opened = _open_remote(bench, remote) if remote else None
        running = cache(lambda: bench.links.delegate(bench.links, bench, opened))

        async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
            return await running()(name, objective, context)

        bench.registry.register(DelegateToAgent(summaries, run))


def _builtin_agents(options: SessionOptions) -> "tuple[AgentDefinition, ...]":
    """The built-in agents as the settings change them."""
    overrides = options.settings.agents.overrides
    if not overrides:
        return builtin_agents()
    from alhena.agent.subagents.files import apply_overrides

    return tuple(
        apply_overrides(agent, overrides[agent.name]) if agent.name in overrides else agent
        for agent in builtin_agents()
        if agent.name not in overrides or overrides[agent.name].enabled is not False
    )


def _open_remote(bench: Toolset, agents: "tuple[RemoteAgent, ...]") -> "RemoteAgents":
    from alhena.agent.subagents.remote_agents import RemoteAgents

    remote = RemoteAgents(agents, bench.options.environ, bench.options.cwd)
    for rule in remote.rules:
        bench.engine.add_rule(rule)
    return remote


def open_fetcher(environ: Mapping[str, str]) -> "GuardedFetcher":
    """A fetcher that dials only public addresses, and none behind a proxy."""
    from alhena.http.client import proxy_for
    from alhena.http.connect import Endpoint, tls_context
    from alhena.system.web.fetch import GuardedFetcher

    return GuardedFetcher(
        lambda: tls_context(environ),
        lambda url: proxy_for(Endpoint(url.scheme, url.host, url.port), environ) is not None,
    )


def session_sandbox(
    options: SessionOptions, workspace: Workspace, groups: "ProcessGroups"
) -> "tuple[Sandbox | None, str]":
    """The sandbox of commands, closed when `groups` have ended, and a notice about it."""
    tools = options.settings.tools
    if not (options.sandbox or tools.sandbox or options.environ.get("GEMINI_SANDBOX")):
        return None, ""
    from alhena.system.sandbox.layout import choose_sandbox, is_inside

    wish = choose_sandbox(tools, options.sandbox, options.environ)
    if wish is None:
        return None, ""
    if is_inside(options.environ):
        return None, "SANDBOX is set: commands run in what this process runs in, and no other."
    from alhena.system.sandbox.opening import CommandEnvironment, open_sandbox

    roots = tuple(str(root) for root in workspace.roots)
    sandbox = open_sandbox(wish, CommandEnvironment(roots, options.environ))
    groups.when_ended(sandbox.close)
    return sandbox, sandbox.note


OWN_TOOL_PRIORITY = 60
"""In the default tier, above what its policies say of built-in tools: a name is no permission."""


def session_policy(options: SessionOptions) -> GatheredPolicy:
    """The policy of all sources.

    A file that was named must be usable. Of the others, a rule that could only have permitted
    something may be dropped with a warning; what may have restricted something may not.
    """
    gathered = gather_policy(
        PolicyRequest(
            cwd=options.cwd,
            environ=options.environ,
            settings=options.settings,
            tool_names=ToolNames(BUILT_IN, (*ALIASES, *(tool.name for tool in options.tools))),
            paths=tuple(item for item in options.policy if not isinstance(item, PolicyRule)),
            rules=tuple(item for item in options.policy if isinstance(item, PolicyRule)),
            allowed_tools=options.allowed_tools,
            skip_trust=options.skip_trust,
            extensions=tuple((each.name, each.folder / "policies") for each in options.extensions),
        )
    )
    if gathered.fatal:
        raise ConfigError(
            f"the policy cannot be used: {told_together(gathered.fatal)}.",
            remedy="Until then nothing runs." if gathered.fatal[0].remedy else "Correct it.",
        )
    return gathered


def require_own_name(name: str) -> None:
    """Refuses the other names of a built-in tool: rules for one would be rules for both."""
    declared = declared_name(name)
    if declared != name:
        raise ConfigError(
            f"a tool of the program is called {name!r}, which is another name of {declared}.",
            remedy="Give it a name of its own: @tool(name=...).",
        )


def own_tools(tools: tuple[Tool, ...], agents: "tuple[AgentDefinition, ...]") -> tuple[Tool, ...]:
    """The tools that the program wrote, for the session and for its subagents."""
    return (*tools, *(tool for agent in agents for tool in agent.own_tools))


def own_tool_rules(tool: Tool) -> tuple[PolicyRule, ...]:
    """The default rules for a tool of the program, whatever its name: not part of plan mode, and
    asked about only where `confirm` is set, or where it is no `@tool` function."""
    confirm = getattr(tool, "confirm", True)
    asked = confirm is not False
    rule = PolicyRule(
        decision=PolicyOutcome.ASK_USER if asked else PolicyOutcome.ALLOW,
        priority=OWN_TOOL_PRIORITY,
        tier=Tier.DEFAULT,
        tool_names=(tool.name,),
        modes=(ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT),
        source="the program's own tool" + (" (confirm)" if asked else ""),
    )
    unasked: tuple[PolicyRule, ...] = ()
    if callable(confirm):

        def refrains(args: dict[str, Any]) -> bool:
            return confirm(args) is False

        allow = PolicyOutcome.ALLOW
        unasked = (msgspec.structs.replace(rule, decision=allow, when=refrains),)
    return (
        *unasked,
        rule,
        msgspec.structs.replace(
            rule,
            decision=PolicyOutcome.DENY,
            modes=(ApprovalMode.PLAN,),
            deny_message="Plan mode does not run this program's own tools.",
        ),
    )


def open_session_hooks(
    options: SessionOptions,
    record: tuple[str, str],
    plans: Path,
    groups: "ProcessGroups",
    emit: Callable[[Event], None],
    is_tool: Callable[[str], bool],
) -> "tuple[Hooks | None, tuple[str, ...], tuple[str, ...]]":
    """The hooks of a session (None when there are none), warnings, and notes. `record` is the id of
    the session and the path of its journal. Nothing of hooks is imported where none can be. Raises
    ConfigError."""
    settings = options.settings
    of_extensions = any(os.path.lexists(each.hooks_file) for each in options.extensions)
    wanted = settings.hooks or options.hooks or of_extensions
    others = (
        workspace_settings_path(options.cwd),
        system_defaults_path(options.environ),
        system_settings_path(options.environ),
    )
    if not wanted and not any(map(os.path.lexists, others)):
        return None, (), ()
    from alhena.hooks.gather import HooksRequest, gather_hooks, open_hooks
    from alhena.hooks.running import HookSurroundings

    gathered = gather_hooks(
        HooksRequest(
            cwd=options.cwd,
            environ=options.environ,
            settings=settings,
            program=options.hooks,
            extensions=options.extensions,
            skip_trust=options.skip_trust,
        )
    )
    session_id, transcript = record
    cwd = str(options.cwd)
    around = HookSurroundings(
        session_id=session_id,
        cwd=cwd,
        environ=own_environment(options.environ),
        project_dir=cwd,
        plans_dir=str(plans),
        transcript_path=transcript,
        redaction=settings.security.environment_variable_redaction,
        groups=groups,
    )
    hooks = open_hooks(gathered, around, emit, is_tool)
    return hooks if hooks.groups else None, gathered.warnings, gathered.notes


def open_toolset(
    options: SessionOptions, links: SessionLinks, groups: "ProcessGroups | None" = None
) -> Toolset:
    """Reads the policies and makes the tools. What commands leave running goes to `groups`; without
    it the tools can be listed, not run.

    Raises ConfigError when policies cannot be used, InputError when a directory that was named is
    none, SandboxError when a sandbox was asked for and cannot be had. Rules that only permitted
    something and had to be dropped are warnings.
    """
    from alhena.tools.output_store import OutputStore

    require_mode(options)
    settings = options.settings
    temp = project_temp(options.environ, options.cwd)
    plans = temp / links.session_id / "plans"
    outputs = OutputStore(
        temp / "tool-outputs",
        links.session_id,
        threshold=settings.tools.truncate_tool_output_threshold,
        prepare=lambda: claim_project_temp(temp, options.cwd),
    )
    workspace = Workspace(
        options.cwd,
        (_directory(options.cwd, item) for item in options.include_directories),
        readable=(outputs.directory, plans, temp / IMAGE_FOLDER),
        console=options.console,
        editor=options.editor,
        terminal=options.terminal,
    )
    policy = session_policy(options)
    trusted = policy.trusted
    sandbox, told = (None, "") if groups is None else session_sandbox(options, workspace, groups)
    own = own_tools(options.tools, options.agents)
    engine = PolicyEngine([*policy.rules, *(rule for tool in own for rule in own_tool_rules(tool))])
    plain = PLAIN.with_tier(settings.model.service_tier)
    model = SessionModel(links.answering, links.emit, texts=links.texts, config=plain)
    host = ToolHost(
        workspace=workspace,
        environ=options.environ,
        settings=settings,
        outputs=outputs,
        groups=groups,
        sandbox=sandbox,
        models=ModelTools(
            access=model, ask=model.ask, open_fetcher=partial(open_fetcher, options.environ)
        ),
    )
    wanted = BUILT_IN if options.builtin_tools is None else frozenset(options.builtin_tools)
    registry = ToolRegistry(tool for tool in builtin_tools(host) if tool.name in wanted)
    hooks, warned, noted = None, (), ()
    if groups is not None:
        hooks, warned, noted = open_session_hooks(
            options,
            (links.session_id, links.transcript),
            plans,
            groups,
            links.emit,
            lambda name: name in BUILT_IN or name in ALIASES or registry.get(name) is not None,
        )
    warnings = list(warned)
    agent_problems: tuple[str, ...] = ()
    agent_servers: AgentServers | None = None
    if DELEGATE in wanted:
        options, agent_problems, agent_servers = _agent_files(options, groups, trusted=trusted)
        warnings += agent_problems
    skills = _skills(options, trusted=trusted)
    warnings += () if skills is None else skills.problems
    sources = ToolSources()
    saved = saved_policies_path(options.environ)
    servers, control = None, None
    if options.servers and _names_servers(options):
        from alhena.agent.toolset.mcp import ServerPlace, open_servers

        filtering = [rule for each in policy.filters for rule in each.rules]
        place = ServerPlace(
            options=options,
            groups=groups,
            roots=workspace.roots,
            registry=registry,
            sources=sources,
            rules=lambda: (*engine.rules, *filtering),
            saved=saved,
            warnings=warnings,
            trusted=trusted,
            ask=links.ask,
        )
        servers, control = open_servers(place)
    bench = Toolset(
        options=options,
        settings=settings,
        links=links,
        memory=links.memory,
        groups=groups,
        workspace=workspace,
        registry=registry,
        engine=engine,
        modes=SessionMode(
            options.approval_mode,
            allows_yolo=not settings.security.disable_yolo_mode,
            may_act=options.may_act,
        ),
        surroundings=Surroundings(workspace.cwd, workspace.roots, trusted=trusted),
        outputs=outputs,
        spending=Spending(settings.model.prices),
        saved=saved,
        sandbox="" if sandbox is None else sandbox.name,
        ask_model=model.ask,
        filters=policy.filters,
        checks=_checks(policy, options, groups),
        hooks=hooks,
        agents=(*(_builtin_agents(options) if DELEGATE in wanted else ()), *options.agents),
        agent_problems=agent_problems,
        agent_servers=agent_servers,
        servers=servers,
        server_control=control,
        skills=skills,
        sources=sources,
        warnings=warnings,
        notes=(*policy.notes, *noted, *(links.memory.memory.notes if links.memory else ())),
    )
    bench.modes.subscribe(bench.policy_changed)
    register_session_tools(bench, plans, wanted, options.remote_agents)
    if settings.tools.discovery_command:
        from alhena.agent.toolset.discovery import add_discovery

        add_discovery(bench, options, (groups, sandbox), trusted=trusted)
    warnings += (f"policy: {problem}" for problem in policy.problems)
    if told:
        warnings.append(f"sandbox: {told}")
    for tool in options.tools:
        require_own_name(tool.name)
        warnings += filter(None, (registry.register(tool),))
    if not (_names_servers(options) or settings.tools.discovery_command or options.extensions):
        warnings += unknown_tools(policy.rules, partial(_is_tool, bench), _NAMES)
    return bench


_NAMES = BUILT_IN | ALIASES.keys()


def _is_tool(bench: Toolset, name: str) -> bool:
    """True for the name of a tool or an agent, wherever it is used."""
    agents = (*bench.agents, *bench.options.agents, *bench.options.remote_agents)
    return (
        resolve_name(name) in _NAMES
        or bench.registry.find(name, excluded=True) is not None
        or any(name == agent.name for agent in agents)
    )


def open_elsewhere(bench: Toolset, cwd: Path) -> Toolset:
    """A toolset for another directory: its own tools without MCP servers, everything else that of
    the session."""
    there = msgspec.structs.replace(
        bench.options, cwd=cwd, servers=False, include_directories=(), editor=None, terminal=None
    )
    return msgspec.structs.replace(
        open_toolset(there, bench.links, bench.groups),
        engine=bench.engine,
        filters=bench.filters,
        checks=bench.checks,
        modes=bench.modes,
        hooks=bench.hooks,
        tracers=bench.tracers,
        agents=bench.agents,
    )


def _checks(
    policy: GatheredPolicy, options: SessionOptions, groups: "ProcessGroups | None"
) -> "SafetyChecks | None":
    if not policy.checkers:
        return None
    from alhena.policy.safety_checks import open_checks

    redaction = options.settings.security.environment_variable_redaction
    return open_checks(policy.checkers, options.environ, redaction, groups)


def _skills(options: SessionOptions, *, trusted: bool) -> "Skills | None":
    """The skills of a session. Nothing of them is imported if there are no folders of skills."""
    folders = skill_folders(
        options.environ, options.cwd, trusted=trusted, extensions=options.extensions
    )
    tools = options.builtin_tools
    wanted = options.settings.skills.enabled and (tools is None or "activate_skill" in tools)
    if not folders or not wanted:
        return None
    from alhena.skills.files import Skills

    return Skills(folders, options.settings.skills.disabled)


def _agent_files(
    options: SessionOptions, groups: "ProcessGroups | None", *, trusted: bool
) -> "tuple[SessionOptions, tuple[str, ...], AgentServers | None]":
    """The options with the agents of definition files, what is wrong with others, and what opens
    the MCP servers of those that have some. Nothing is imported where there are none."""
    folders = agent_folders(
        options.environ, options.cwd, trusted=trusted, extensions=options.extensions
    )
    if not folders:
        return options, (), None
    from alhena.agent.subagents.files import AgentFiles, sources_of, with_resolved_servers

    taken = [agent.name for agent in (*builtin_agents(), *options.agents, *options.remote_agents)]
    sources = sources_of(folders, options.environ, options.cwd)
    files = AgentFiles(sources, options.settings.agents.overrides, taken)
    found = [
        with_resolved_servers(agent, options.environ, options.cwd, options.extensions)
        for agent in files.usable
    ]
    local = tuple(each for each in found if isinstance(each, AgentDefinition))
    remote = tuple(each for each in found if not isinstance(each, AgentDefinition))
    servers = None
    if groups is not None and options.servers and any(each.mcp_servers for each in local):
        from alhena.agent.toolset.mcp import AgentServers

        servers = AgentServers(options, groups, trusted=trusted)
    options = msgspec.structs.replace(
        options,
        agents=(*options.agents, *local),
        remote_agents=(*options.remote_agents, *remote),
    )
    return options, tuple(files.problems), servers


def _names_servers(options: SessionOptions) -> bool:
    settings = options.settings
    return bool(settings.mcp_servers or settings.mcp.server_command or options.held_servers)


def require_mode(options: SessionOptions) -> None:
    """Raises ConfigError for yolo mode where settings forbid it."""
    if options.approval_mode is ApprovalMode.YOLO and options.settings.security.disable_yolo_mode:
        raise ConfigError(
            "yolo mode is turned off by the setting security.disableYoloMode.",
            remedy="Choose another approval mode.",
        )


def _directory(cwd: Path, name: str) -> Path:
    path = cwd / name
    if not path.is_dir():
        raise InputError(
            f"the directory {name} to include does not exist.",
            remedy="Name an existing directory.",
        )
    return path
