"""Puts a workbench together: policies, tools, hooks, a sandbox."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.agent.links import SessionLinks
from alhena.agent.model_access import SessionModel
from alhena.agent.session_hooks import HookOptions, open_session_hooks
from alhena.agent.session_policy import own_tool_rules, require_own_name, session_policy
from alhena.agent.session_sandbox import session_sandbox
from alhena.agent.session_tools import open_fetcher, register_session_tools
from alhena.agent.workbench import Workbench, WorkbenchOptions
from alhena.config.errors import ConfigError
from alhena.config.home import claim_project_temp, project_temp, saved_policies_path
from alhena.errors import InputError
from alhena.policy.engine import PolicyEngine
from alhena.policy.model import ApprovalMode, PolicyContext
from alhena.policy.surroundings import DirectorySurroundings
from alhena.system.workspace import Workspace
from alhena.tools.builtin.catalogue import ModelTools, ToolHost, builtin_tools
from alhena.tools.names import ALIASES, BUILT_IN
from alhena.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups


def open_workbench(
    options: WorkbenchOptions, links: SessionLinks, groups: "ProcessGroups | None" = None
) -> Workbench:
    """Reads the policies and makes the tools. What commands leave running goes to `groups`; without
    it the tools can be listed, not run.

    Raises ConfigError when policies cannot be used, InputError when a directory that was named is
    none, SandboxError when a sandbox was asked for and cannot be had. Rules that only permitted
    something and had to be dropped are warnings.
    """
    from alhena.tools.output_store import OutputStore

    require_mode(options)
    temp = project_temp(options.environ, options.cwd)
    plans = temp / links.session_id / "plans"
    outputs = OutputStore(
        temp / "tool-outputs",
        links.session_id,
        threshold=options.settings.tools.truncate_tool_output_threshold,
        prepare=lambda: claim_project_temp(temp, options.cwd),
    )
    workspace = Workspace(
        options.cwd,
        (_directory(options.cwd, item) for item in options.include_directories),
        readable=(outputs.directory, plans),
    )
    gathered = session_policy(options)
    sandbox, told = (None, "") if groups is None else session_sandbox(options, workspace, groups)
    rules = list(gathered.rules)
    rules += (rule for tool in options.tools for rule in own_tool_rules(tool))
    model = SessionModel(links.answering, links.emit, texts=links.texts)
    host = ToolHost(
        workspace=workspace,
        environ=options.environ,
        settings=options.settings,
        outputs=outputs,
        groups=groups,
        sandbox=sandbox,
        models=ModelTools(
            access=model, ask=model.ask, open_fetcher=partial(open_fetcher, options.environ)
        ),
    )
    context = PolicyContext(
        mode=options.mode,
        interactive=options.interactive,
        surroundings=DirectorySurroundings(
            workspace.cwd, workspace.roots, trusted=gathered.trusted
        ),
    )
    registry = ToolRegistry(builtin_tools(host))
    bench = Workbench(workspace, registry, PolicyEngine(rules), context, outputs)
    bench.filters = gathered.filters
    bench.model_configs = options.settings.model_configs
    bench.compression_threshold = options.settings.model.compression_threshold
    bench.context_window = options.settings.model.context_window
    bench.masking = options.settings.context_management.tools.output_masking
    bench.detects_loops = not options.settings.model.disable_loop_detection
    bench.saved = saved_policies_path(options.environ)
    bench.sandbox = "" if sandbox is None else sandbox.name
    if gathered.checkers:
        from alhena.policy.safety.check import open_checks

        redaction = options.settings.security.environment_variable_redaction
        bench.checks = open_checks(gathered.checkers, options.environ, redaction, groups)
    bench.notes = gathered.notes
    if groups is not None:
        _hang_hooks(bench, options, links, groups, plans)
    bench.modes.allows_yolo = not options.settings.security.disable_yolo_mode
    bench.offers_always = not options.settings.security.disable_always_allow
    register_session_tools(bench, links, plans)
    if options.settings.tools.discovery_command:
        from alhena.agent.session_discovery import add_discovery

        add_discovery(bench, options, (groups, sandbox), trusted=gathered.trusted)
    settings = options.settings
    named = settings.mcp_servers or settings.mcp.server_command or options.held_servers
    if options.servers and named:
        from alhena.agent.session_mcp import add_servers

        add_servers(bench, options, groups, trusted=gathered.trusted)
    warnings = [f"policy: {problem}" for problem in gathered.problems]
    if told:
        warnings.append(f"sandbox: {told}")
    for tool in options.tools:
        require_own_name(tool.name)
        warning = registry.register(tool)
        if warning:
            warnings.append(warning)
    bench.warnings += tuple(warnings)
    return bench


def require_mode(options: WorkbenchOptions) -> None:
    """Raises ConfigError for yolo mode where settings forbid it."""
    if options.mode is ApprovalMode.YOLO and options.settings.security.disable_yolo_mode:
        raise ConfigError(
            "yolo mode is turned off by the setting security.disableYoloMode.",
            remedy="Choose another --approval-mode.",
        )


def _hang_hooks(
    bench: Workbench,
    options: WorkbenchOptions,
    links: SessionLinks,
    groups: "ProcessGroups",
    plans: Path,
) -> None:
    """Gives the workbench the hooks of its session."""
    bench.hooks, warnings, notes = open_session_hooks(
        HookOptions(
            cwd=bench.workspace.cwd,
            environ=options.environ,
            settings=options.settings,
            session_id=links.session_id,
            plans=plans,
            transcript=links.transcript,
            program=options.hooks,
            skip_trust=options.skip_trust,
        ),
        groups,
        links.emit,
        lambda name: name in BUILT_IN or name in ALIASES or bench.registry.get(name) is not None,
    )
    bench.warnings += warnings
    bench.notes += notes


def _directory(cwd: Path, name: str) -> Path:
    path = cwd / name
    if not path.is_dir():
        raise InputError(
            f"the directory {name} to include does not exist.",
            remedy="Name an existing directory.",
        )
    return path
