"""Tools and policy over a workspace: what runs calls, with or without a model."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.links import SessionLinks
from alhena.agent.model_access import SessionModel
from alhena.agent.modes import SessionMode
from alhena.agent.session_tools import open_fetcher, register_session_tools
from alhena.config.errors import ConfigError
from alhena.config.home import claim_project_temp, project_temp, user_policies_path
from alhena.config.settings import Settings
from alhena.errors import InputError
from alhena.events import Event
from alhena.policy.engine import PolicyEngine, always_rule
from alhena.policy.load import LoadedPolicies, ProblemLevel
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)
from alhena.policy.settings_rules import excluded_rules
from alhena.policy.sources import load_path, load_policies
from alhena.system.workspace import Workspace
from alhena.tools.builtin.catalogue import ModelTools, ToolHost, builtin_tools
from alhena.tools.confirmation import ToolConfirmationOutcome
from alhena.tools.contract import Tool
from alhena.tools.names import all_names, declared_name
from alhena.tools.registry import ToolRegistry

if TYPE_CHECKING:  # deciding and listing need no event loop
    from alhena.scheduler.confirm import Approver, ConfirmationRequest
    from alhena.scheduler.scheduler import Scheduler
    from alhena.system.processes import ProcessGroups
    from alhena.tools.output_store import OutputStore

OWN_TOOL_PRIORITY = Tier.DEFAULT + 0.06
"""Above what the default policies say of built-in tools, so that a name is no permission."""

PolicySource = str | os.PathLike[str] | PolicyRule


class WorkbenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a workbench is made of. `interactive`: somebody can be asked."""

    cwd: Path
    environ: Mapping[str, str]
    settings: Settings
    mode: ApprovalMode = ApprovalMode.DEFAULT
    interactive: bool = False
    include_directories: tuple[str, ...] = ()
    policy: tuple[PolicySource, ...] = ()
    tools: tuple[Tool, ...] = ()


class Workbench:
    """A workspace with the tools for it and the policy over them. `warnings` are for people.

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
        self._interactive = context.interactive

    @property
    def context(self) -> PolicyContext:
        """The circumstances of a decision that is made now."""
        return PolicyContext(mode=self.modes.mode, interactive=self._interactive)

    def decide(self, call: PolicyCall) -> Decision:
        """What the policy says of a call."""
        return self.engine.decide(call, self.context)

    def scheduler(
        self,
        emit: Callable[[Event], None],
        approver: "Approver | None" = None,
        registry: ToolRegistry | None = None,
    ) -> "Scheduler":
        """A scheduler over these tools, or over those of another registry; the policy is the
        same."""
        from alhena.scheduler.executor import Executor
        from alhena.scheduler.scheduler import Scheduler

        return Scheduler(
            self.registry if registry is None else registry,
            self.decide,
            emit,
            Executor(self.workspace.cwd, outputs=self.outputs),
            approver=approver,
            remember=self.remember,
        )

    def remember(self, request: "ConfirmationRequest", outcome: ToolConfirmationOutcome) -> None:
        """Makes an "always" hold for the rest of the session."""
        del outcome  # there is only one that is remembered so far
        rule = always_rule(
            PolicyCall(
                names=all_names(request.tool_name),
                args=request.args,
                server_name=request.server_name,
            )
        )
        if rule is not None:
            self.engine.add_rule(rule)

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
                if self.engine.excluded(all_names(tool.name), context)
            ]
        )


def open_workbench(
    options: WorkbenchOptions, links: SessionLinks, groups: "ProcessGroups | None" = None
) -> Workbench:
    """Reads the policies and makes the tools. What commands leave running goes to `groups`; without
    it the tools can be listed, not run.

    Raises ConfigError when policies cannot be used, InputError when a directory that was named is
    none. Rules that only permitted something and had to be dropped are warnings.
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
    loaded = _policies(options)
    rules = [*loaded.rules, *excluded_rules(options.settings.tools.exclude)]
    rules += (rule for tool in options.tools for rule in _own_tool(tool))
    model = SessionModel(links.answering, links.emit)
    host = ToolHost(
        workspace=workspace,
        environ=options.environ,
        settings=options.settings,
        outputs=outputs,
        groups=groups,
        models=ModelTools(
            access=model, ask=model.ask, open_fetcher=partial(open_fetcher, options.environ)
        ),
    )
    context = PolicyContext(mode=options.mode, interactive=options.interactive)
    registry = ToolRegistry(builtin_tools(host))
    bench = Workbench(workspace, registry, PolicyEngine(rules), context, outputs)
    register_session_tools(bench, links, plans)
    warnings = [f"policy: {problem}" for problem in loaded.problems]
    for tool in options.tools:
        _require_own_name(tool.name)
        warning = registry.register(tool)
        if warning:
            warnings.append(warning)
    bench.warnings = tuple(warnings)
    return bench


def _policies(options: WorkbenchOptions) -> LoadedPolicies:
    """All rules of files and programs.

    A file that was named must be usable. Of the others, a rule that could only have permitted
    something may be dropped with a warning; what may have restricted something may not.
    """
    named = [
        load_path(options.cwd / item, Tier.USER)
        for item in options.policy
        if not isinstance(item, PolicyRule)
    ]
    given = tuple(item for item in options.policy if isinstance(item, PolicyRule))
    extra = (options.cwd / path for path in options.settings.policy_paths)
    found = load_policies(user_policies_path(options.environ), extra)
    loaded = LoadedPolicies.joined([LoadedPolicies(given), found, *named])
    strict = {id(problem) for part in named for problem in part.problems}
    for problem in loaded.problems:
        if problem.level is ProblemLevel.ERROR and (problem.weakens or id(problem) in strict):
            raise ConfigError(
                f"the policy cannot be used: {str(problem).rstrip('.')}.",
                remedy="Correct it or leave it out.",
            )
    return loaded


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
