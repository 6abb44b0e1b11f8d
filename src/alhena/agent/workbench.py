"""Tools and policy over a workspace: what runs calls, with or without a model."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.agent.links import SessionLinks
from alhena.agent.model_access import SessionModel
from alhena.agent.modes import SessionMode
from alhena.agent.session_hooks import HookOptions, open_session_hooks
from alhena.agent.session_tools import open_fetcher, register_session_tools
from alhena.config.errors import ConfigError
from alhena.config.home import claim_project_temp, project_temp, saved_policies_path
from alhena.config.settings import ModelConfigSettings, Settings
from alhena.errors import InputError
from alhena.events import Event
from alhena.policy.engine import PolicyEngine
from alhena.policy.filter import PolicyFilter, tighten
from alhena.policy.gather import GatheredPolicy, PolicyRequest, gather_policy, told_together
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)
from alhena.policy.settings_rules import ToolNames
from alhena.policy.surroundings import DirectorySurroundings
from alhena.system.workspace import Workspace
from alhena.tools.builtin.catalogue import ModelTools, ToolHost, builtin_tools
from alhena.tools.contract import Tool
from alhena.tools.names import ALIASES, BUILT_IN, all_names, declared_name
from alhena.tools.registry import ToolRegistry

if TYPE_CHECKING:  # deciding and listing need no event loop
    from alhena.agent.session_memory import SessionMemory
    from alhena.bus.bus import MessageBus
    from alhena.hooks.system import Hooks
    from alhena.policy.safety.check import SafetyChecks
    from alhena.scheduler.confirm import Approver
    from alhena.scheduler.executor import Durable
    from alhena.scheduler.hooked import ToolHooks
    from alhena.scheduler.questions import Asking, Edit
    from alhena.scheduler.scheduler import Scheduler
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.tools.output_store import OutputStore

OWN_TOOL_PRIORITY = Tier.DEFAULT + 0.06
"""Above what the default policies say of built-in tools, so that a name is no permission."""

PolicySource = str | os.PathLike[str] | PolicyRule


class WorkbenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a workbench is made of. `interactive`: somebody can be asked. `sandbox`: as in
    `AgentSettings`, and `hooks`, too."""

    cwd: Path
    environ: Mapping[str, str]
    settings: Settings
    mode: ApprovalMode = ApprovalMode.DEFAULT
    interactive: bool = False
    include_directories: tuple[str, ...] = ()
    policy: tuple[PolicySource, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    tools: tuple[Tool, ...] = ()
    hooks: Mapping[str, Any] | None = None


class Workbench:
    """A workspace with the tools for it and the policy over them. `warnings` are for people,
    `notes` for those who look closer. `filters` and, where there are any,
    safety `checks` make decisions of the `engine` stricter. Where not `offers_always`, an approval
    holds for its call and no further; those that hold for good go to the file `saved`. `edit` lets
    a person change what a call would write.

    `modes.switch` changes the approval mode while the session runs.
    """

    def __init__(
        self,
        workspace: Workspace,
        registry: ToolRegistry,
        engine: PolicyEngine,
        context: PolicyContext,
        outputs: "OutputStore",
    ) -> None:
        self.workspace = workspace
        self.registry = registry
        self.engine = engine
        self.modes = SessionMode(context.mode)
        self.outputs = outputs
        self.warnings: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.filters: tuple[PolicyFilter, ...] = ()
        self.checks: SafetyChecks | None = None
        self.offers_always = True
        self.sandboxed = False
        self.saved: Path | None = None
        self.model_configs = ModelConfigSettings()
        self.edit: Edit | None = None
        self.when_closed: list[Callable[[], object]] = []
        self.hooks: Hooks | None = None
        self.memory: SessionMemory | None = None
        self.durable: Durable | None = None
        self._tool_hooks: ToolHooks | None = None
        self._watchers: dict[Callable[[], None], None] = {}
        self.modes.subscribe(self.policy_changed)
        self._interactive = context.interactive
        self._surroundings = context.surroundings

    @property
    def context(self) -> PolicyContext:
        """The circumstances of a decision that is made now."""
        return PolicyContext(
            mode=self.modes.mode, interactive=self._interactive, surroundings=self._surroundings
        )

    def decide(self, call: PolicyCall) -> Decision:
        """What the policy says of a call."""
        context = self.context
        return tighten(self.engine.decide(call, context), call, self.filters, context)

    async def check(self, call: PolicyCall, decision: Decision) -> Decision:
        """What the safety checkers make of a decision on a call."""
        if self.checks is None:
            return decision
        return await self.checks.check(call, decision, self.context)

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever the policy may decide otherwise; returns what ends that."""
        self._watchers[listener] = None
        return lambda: self._watchers.pop(listener, None)

    def policy_changed(self) -> None:
        """Tells those who watch that a rule was added, or that the mode is another."""
        for listener in tuple(self._watchers):
            listener()

    def scheduler(
        self,
        emit: Callable[[Event], None],
        approver: "Approver | None" = None,
        registry: ToolRegistry | None = None,
        bus: "MessageBus | None" = None,
    ) -> "Scheduler":
        """A scheduler over these tools, or over those of another registry; policy and hooks are the
        same. People are asked over `bus`, or else `approver` is; without either nobody is."""
        from alhena.scheduler.executor import Executor
        from alhena.scheduler.gate import Authority
        from alhena.scheduler.scheduler import Scheduler

        asking: Asking | None = None
        if bus is not None or approver is not None:
            from alhena.agent.approval import open_asking

            asking = open_asking(self, emit, approver, bus)
        executor = Executor(self.workspace.cwd, outputs=self.outputs, hooks=self._hooks_of_tools())
        executor.durable = self.durable
        executor.discover = None if self.memory is None else self.memory.conversation()
        return Scheduler(
            self.registry if registry is None else registry,
            Authority(self.decide, None if self.checks is None else self.check, self.watch),
            emit,
            executor,
            asking=asking,
        )

    def _hooks_of_tools(self) -> "ToolHooks | None":
        """The hooks around calls, one for all schedulers; None when there are none."""
        if self.hooks is not None and self._tool_hooks is None:
            from alhena.scheduler.hooked import tool_hooks

            self._tool_hooks = tool_hooks(self.hooks)
        return self._tool_hooks

    def hide_denied(self) -> None:
        """Takes the tools out of sight that could only ever be denied: they are not declared, and
        a call to one is answered as to a tool that is not there. Holds for the mode of now: to be
        called again when that has changed."""
        self.registry.hide(())
        context = self.context
        self.registry.hide(
            [
                tool.name
                for tool in self.registry.all_tools
                if any(
                    denies(all_names(tool.name), context)
                    for denies in (
                        self.engine.excluded,
                        *(item.excludes for item in self.filters),
                    )
                )
            ]
        )


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
    gathered = _gathered(options)
    sandbox, told = (None, "") if groups is None else _sandbox(options, workspace, groups)
    rules = list(gathered.rules)
    rules += (rule for tool in options.tools for rule in _own_tool(tool))
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
    bench.saved = saved_policies_path(options.environ)
    bench.sandboxed = sandbox is not None
    if gathered.checkers:
        from alhena.policy.safety.opening import open_checks

        redaction = options.settings.security.environment_variable_redaction
        bench.checks = open_checks(gathered.checkers, options.environ, redaction, groups)
    bench.notes = gathered.notes
    if groups is not None:
        _hang_hooks(bench, options, links, groups, plans)
    bench.offers_always = not options.settings.security.disable_always_allow
    register_session_tools(bench, links, plans)
    warnings = [f"policy: {problem}" for problem in gathered.problems]
    if told:
        warnings.append(f"sandbox: {told}")
    for tool in options.tools:
        _require_own_name(tool.name)
        warning = registry.register(tool)
        if warning:
            warnings.append(warning)
    bench.warnings += tuple(warnings)
    return bench


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


def _gathered(options: WorkbenchOptions) -> GatheredPolicy:
    """The policy of all sources.

    A file that was named must be usable. Of the others, a rule that could only have permitted
    something may be dropped with a warning; what may have restricted something may not.
    """
    gathered = gather_policy(
        PolicyRequest(
            cwd=options.cwd,
            environ=options.environ,
            settings=options.settings,
            tool_names=ToolNames(BUILT_IN, tuple(ALIASES)),
            paths=tuple(item for item in options.policy if not isinstance(item, PolicyRule)),
            rules=tuple(item for item in options.policy if isinstance(item, PolicyRule)),
            allowed_tools=options.allowed_tools,
            skip_trust=options.skip_trust,
        )
    )
    if gathered.fatal:
        raise ConfigError(
            f"the policy cannot be used: {told_together(gathered.fatal)}.",
            remedy="Until then nothing runs." if gathered.fatal[0].remedy else "Correct it.",
        )
    return gathered


def _sandbox(
    options: WorkbenchOptions, workspace: Workspace, groups: "ProcessGroups"
) -> "tuple[Sandbox | None, str]":
    """What commands run in, closed behind `groups`, and what a person should know of it."""
    tools = options.settings.tools
    if not (options.sandbox or tools.sandbox or options.environ.get("GEMINI_SANDBOX")):
        return None, ""
    from alhena.system.sandbox.wish import is_inside, wished

    wish = wished(tools, options.sandbox, options.environ)
    if wish is None:
        return None, ""
    if is_inside(options.environ):
        return None, "SANDBOX is set: commands run in what this process runs in, and no other."
    from alhena.system.sandbox.opening import Surroundings, open_sandbox

    roots = tuple(str(root) for root in workspace.roots)
    sandbox = open_sandbox(wish, Surroundings(roots, options.environ))
    groups.when_ended(sandbox.close)
    return sandbox, sandbox.note


def _require_own_name(name: str) -> None:
    """Refuses the other names of a built-in tool: rules for one would be rules for both."""
    declared = declared_name(name)
    if declared != name:
        raise ConfigError(
            f"a tool of the program is called {name!r}, which is another name of {declared}.",
            remedy="Give it a name of its own: @tool(name=...).",
        )


def _own_tool(tool: Tool) -> tuple[PolicyRule, ...]:
    """The default rules for a tool that the program brings, whatever its name: asked about unless
    its program says otherwise (`confirm=False`), and not part of plan mode."""
    asked = getattr(tool, "confirm", True) is not False
    rule = PolicyRule(
        decision=PolicyOutcome.ASK_USER if asked else PolicyOutcome.ALLOW,
        priority=OWN_TOOL_PRIORITY,
        tool_names=(tool.name,),
        modes=(ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT),
        source="the program's own tool" + ("" if asked else " (confirm=False)"),
    )
    return (
        rule,
        msgspec.structs.replace(
            rule,
            decision=PolicyOutcome.DENY,
            modes=(ApprovalMode.PLAN,),
            deny_message="Plan mode does not run this program's own tools.",
        ),
    )


def _directory(cwd: Path, name: str) -> Path:
    path = cwd / name
    if not path.is_dir():
        raise InputError(
            f"the directory {name} to include does not exist.",
            remedy="Name an existing directory.",
        )
    return path
