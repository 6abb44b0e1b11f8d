"""Tools and policy over a workspace: what runs calls, with or without a model."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.modes import SessionMode
from alhena.config.errors import ConfigError
from alhena.config.home import user_policies_path
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
from alhena.policy.sources import load_path, load_policies
from alhena.system.workspace import Workspace
from alhena.tools.builtin.catalogue import builtin_tools
from alhena.tools.confirmation import ToolConfirmationOutcome
from alhena.tools.contract import Tool
from alhena.tools.names import all_names, declared_name
from alhena.tools.registry import ToolRegistry

if TYPE_CHECKING:  # deciding and listing need no event loop
    from alhena.scheduler.confirm import Approver, ConfirmationRequest
    from alhena.scheduler.scheduler import Scheduler
    from alhena.system.processes import ProcessGroups

EXCLUDE_PRIORITY = Tier.USER + 0.9
"""Where `tools.exclude` of the settings stands: above the user's rules, below an admin's."""

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
        warnings: tuple[str, ...],
    ) -> None:
        self.workspace = workspace
        self.registry = registry
        self.engine = engine
        self.modes = SessionMode(context.mode)
        self.warnings = warnings
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
            Executor(self.workspace.cwd),
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


def open_workbench(options: WorkbenchOptions, groups: "ProcessGroups | None" = None) -> Workbench:
    """Reads the policies and registers the tools. What commands leave running goes to `groups`.

    Raises ConfigError when a policy that was named cannot be used, InputError when a directory
    that was named is none. Problems in other policy files are warnings.
    """
    workspace = Workspace(
        options.cwd, (_directory(options.cwd, item) for item in options.include_directories)
    )
    loaded = _policies(options)
    rules = [*loaded.rules, *_excluded(options.settings.tools.exclude)]
    rules += (_own_tool(tool) for tool in options.tools if not getattr(tool, "confirm", True))
    warnings = [f"policy: {problem}" for problem in loaded.problems]
    shell = options.settings.tools.shell
    registry = ToolRegistry(builtin_tools(workspace, options.environ, shell, groups))
    for tool in options.tools:
        warning = registry.register(tool)
        if warning:
            warnings.append(warning)
    context = PolicyContext(mode=options.mode, interactive=options.interactive)
    return Workbench(workspace, registry, PolicyEngine(rules), context, tuple(warnings))


def _policies(options: WorkbenchOptions) -> LoadedPolicies:
    paths = [Path(item) for item in options.policy if not isinstance(item, PolicyRule)]
    named = LoadedPolicies.joined(load_path(options.cwd / path, Tier.USER) for path in paths)
    for problem in named.problems:
        if problem.level is ProblemLevel.ERROR:
            raise ConfigError(
                f"the policy cannot be used: {problem}.", remedy="Correct it or leave it out."
            )
    own = [
        LoadedPolicies(tuple(item for item in options.policy if isinstance(item, PolicyRule))),
        load_policies(
            user_policies_path(options.environ),
            (options.cwd / path for path in options.settings.policy_paths),
        ),
    ]
    return LoadedPolicies.joined([*own, named])


def _excluded(entries: Sequence[str]) -> list[PolicyRule]:
    """The deny rules of `tools.exclude`: tool names, or `run_shell_command(prefix)`."""
    rules: list[PolicyRule] = []
    for entry in entries:
        name, bracket, rest = entry.partition("(")
        prefixes: tuple[str, ...] = (rest.removesuffix(")").strip(),) if bracket else ()
        declared = declared_name(name.strip())
        if prefixes and declared != "run_shell_command":
            raise ConfigError(
                f"settings: tools.exclude has the entry {entry!r}, but only run_shell_command "
                "takes a prefix.",
                remedy="Name the tool alone.",
            )
        rules.append(
            PolicyRule(
                decision=PolicyOutcome.DENY,
                priority=EXCLUDE_PRIORITY,
                tool_names=(declared,),
                command_prefixes=prefixes,
                source="settings: tools.exclude",
            )
        )
    return rules


def _own_tool(tool: Tool) -> PolicyRule:
    """The rule for a function that its program says needs no consent."""
    return PolicyRule(
        decision=PolicyOutcome.ALLOW,
        priority=Tier.DEFAULT + 0.05,
        tool_names=(tool.name,),
        modes=(ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO),
        source="the program's own tool (confirm=False)",
    )


def _directory(cwd: Path, name: str) -> Path:
    path = cwd / name
    if not path.is_dir():
        raise InputError(
            f"the directory {name} to include does not exist.",
            remedy="Name an existing directory.",
        )
    return path
