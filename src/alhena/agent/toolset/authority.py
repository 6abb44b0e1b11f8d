"""The permissions of a session: its approval mode, and the policy over its calls."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.agent.subagents import AgentDefinition
from alhena.agent.toolset.options import SessionSpec
from alhena.config.home import saved_policies_path
from alhena.errors import ConfigError
from alhena.policy.engine import PolicyEngine, PolicyFilter, tighten
from alhena.policy.gather import (
    GatheredPolicy,
    PolicyRequest,
    excluded_tools,
    gather_policy,
    join_problems,
)
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
from alhena.policy.surroundings import Surroundings
from alhena.tools.catalogue import ToolHost
from alhena.tools.contract import Tool
from alhena.tools.registry import ALIASES, BUILT_IN, READ_RESOURCE, declared_name

if TYPE_CHECKING:
    from alhena.mcp.servers import Servers
    from alhena.policy.safety_checks import SafetyChecks
    from alhena.scheduler.scheduler import Caller
    from alhena.system.processes import ProcessGroups


class SessionMode:
    """The mode now, and the one that leaving plan mode leads back to. Satisfies
    `tools.plan_mode.ModeSwitch`. `allows_yolo`: whether everything may run without asking;
    `may_act`: whether anything that changes files may, as in a trusted folder."""

    def __init__(
        self,
        mode: ApprovalMode = ApprovalMode.DEFAULT,
        *,
        allows_yolo: bool = True,
        may_act: bool = True,
    ) -> None:
        self.allows_yolo = allows_yolo
        self.may_act = may_act
        self._mode = mode
        self._work_mode = ApprovalMode.DEFAULT if mode is ApprovalMode.PLAN else mode
        self._listeners: list[Callable[[], None]] = []

    @property
    def mode(self) -> ApprovalMode:
        """The mode now."""
        return self._mode

    @property
    def planning(self) -> bool:
        """True when plan mode is on."""
        return self._mode is ApprovalMode.PLAN

    @property
    def next_mode(self) -> str:
        """The mode that leaving plan mode leads to: the one before it."""
        return self._work_mode

    def allows(self, mode: ApprovalMode) -> bool:
        """True for a mode that the session may be switched to."""
        if mode is ApprovalMode.YOLO:
            return self.allows_yolo and self.may_act
        return self.may_act or mode is not ApprovalMode.AUTO_EDIT

    @property
    def reachable(self) -> tuple[ApprovalMode, ...]:
        """The modes that the session may be switched to."""
        return tuple(filter(self.allows, ApprovalMode))

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after every change."""
        self._listeners.append(listener)

    def switch(self, mode: ApprovalMode) -> None:
        """Changes the mode; holds for every decision from now on, also in the turn that runs. The
        default takes the place of a mode that is not allowed."""
        if not self.allows(mode):
            mode = ApprovalMode.DEFAULT
        if mode is self._mode:
            return
        self._mode = mode
        if mode is not ApprovalMode.PLAN:
            self._work_mode = mode
        for listener in self._listeners:
            listener()

    def enter_plan_mode(self) -> None:
        """Turns plan mode on."""
        self.switch(ApprovalMode.PLAN)

    def leave_plan_mode(self, mode: str | None = None) -> None:
        """Turns plan mode off, into `mode`, or `next_mode` without one; nothing changes when it is
        off."""
        if self.planning:
            self.switch(self._work_mode if mode is None else ApprovalMode(mode))


"""Tools for what only commands of the shell leave behind."""


def exact_command(call: PolicyCall) -> tuple[str, ...]:
    """The text of a shell call's command with where and how it runs; () for other calls."""
    command = call.args.get("command")
    if not call.is_shell or not isinstance(command, str):
        return ()
    where = call.args.get("directory") or call.args.get("dir_path") or ""
    return command, str(where), str(bool(call.args.get("is_background")))


class Authority(msgspec.Struct, kw_only=True, eq=False):
    """Decides on the calls of a session, or of an agent in it.

    `filters` and, where there are any, safety `checks` make decisions of the `engine` stricter.
    `modes.switch` changes the approval mode while the session runs; `interactive`: someone can be
    asked. Permanent approvals go to the file `saved`. `servers` are the session's, `own_servers`
    those of the agent that this is for. `granted` are shell commands, word for word, that a person
    approved for the session (`exact_command`).
    """

    engine: PolicyEngine
    modes: SessionMode
    surroundings: Surroundings
    interactive: bool
    saved: Path
    filters: list[PolicyFilter] = []
    checks: "SafetyChecks | None" = None
    servers: "Servers | None" = None
    own_servers: "Servers | None" = None
    watchers: dict[Callable[[], None], None] = {}
    granted: set[tuple[str, ...]] = set()

    @property
    def context(self) -> PolicyContext:
        """The circumstances of a decision that is made now."""
        return PolicyContext(
            mode=self.modes.mode,
            interactive=self.interactive,
            surroundings=self.surroundings,
        )

    def decide(self, call: PolicyCall) -> Decision:
        """The policy's decision on a call."""
        context = self.context
        return self._apply_grants(self.decide_by(self.engine, call, context), call, context)

    def decide_for(self, caller: "Caller | None") -> Callable[[PolicyCall], Decision]:
        """Returns the function that decides on the calls of `caller`."""
        if caller is None:
            return self.decide
        name = caller.name

        def decide(call: PolicyCall) -> Decision:
            context = msgspec.structs.replace(self.context, subagent=name)
            return self._apply_grants(self.decide_by(self.engine, call, context), call, context)

        return decide

    def _apply_grants(
        self, decision: Decision, call: PolicyCall, context: PolicyContext
    ) -> Decision:
        """Allows a command that was approved word for word, where a grant may."""
        if (
            not self.granted
            or exact_command(call) not in self.granted
            or not self.may_grant(decision, call, context)
        ):
            return decision
        return Decision(outcome=PolicyOutcome.ALLOW, reason="approved for this session")

    def may_grant(self, decision: Decision, call: PolicyCall, context: PolicyContext) -> bool:
        """True where only a default rule asks about a call, and not in plan mode."""
        return (
            decision.outcome is PolicyOutcome.ASK_USER
            and (decision.rule is None or decision.rule.author == "default")
            and context.mode is not ApprovalMode.PLAN
            and all(each.decide(call, context) is None for each in self.filters)
        )

    def decide_by(self, engine: PolicyEngine, call: PolicyCall, context: PolicyContext) -> Decision:
        """The policy's decision on a call with the rules of `engine` in a `context`."""
        servers = self.servers_of(call.server_name, call.names)
        if servers is not None and servers is self.own_servers:
            from alhena.policy.settings_rules import rules_for_own

            trusted = (name for name, each in servers.servers.items() if each.config.trust)
            engine = PolicyEngine(rules_for_own(engine.rules, trusted))
        decision = tighten(engine.decide(call, context), call, self.filters, context)
        if servers is None:
            return decision
        if call.server_name is not None:
            from alhena.agent.toolset.mcp_review import drop_unsure_names, review_call

            sure = drop_unsure_names(decision, call, servers)
            if sure is not None:
                decision = tighten(engine.decide(sure, context), sure, self.filters, context)
            return review_call(decision, call, servers, context, self.saved)
        if READ_RESOURCE not in call.names:
            return decision
        from alhena.agent.toolset.mcp_review import review_reading

        return review_reading(
            decision, call, servers, lambda each: self.decide_by(engine, each, context)
        )

    def servers_of(self, name: str | None, names: tuple[str, ...] = ()) -> "Servers | None":
        """The servers that the one called `name`, or a call to read a resource, belongs to."""
        own = self.own_servers
        if own is None:
            return self.servers
        from alhena.mcp.resources import offers_resources

        reads = READ_RESOURCE in names and offers_resources(own.servers)
        return own if name in own.servers or reads else self.servers

    @contextmanager
    def stricter(self, rules: PolicyFilter) -> Generator[None]:
        """Decides by these rules, too, for a while."""
        self.filters.append(rules)
        try:
            yield
        finally:
            self.filters.remove(rules)

    async def check(self, call: PolicyCall, decision: Decision) -> Decision:
        """The decision after the safety checkers."""
        if self.checks is None:
            return decision
        return await self.checks.check(call, decision, self.context)

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever the policy may decide otherwise; returns what ends that."""
        self.watchers[listener] = None
        return lambda: self.watchers.pop(listener, None)

    def policy_changed(self) -> None:
        """Tells those who watch that a rule was added, or that the mode is another."""
        for listener in tuple(self.watchers):
            listener()

    def excludes(self, names: tuple[str, ...], server: str | None, context: PolicyContext) -> bool:
        """True for a tool of these names that could only ever be denied."""
        return self.engine.excludes(names, context, server) or any(
            each.excludes(names, context, server) for each in self.filters
        )

    def extend_roots(self, roots: tuple[Path, ...]) -> None:
        """Lets the policy know that the workspace has these directories now."""
        self.surroundings = Surroundings(roots[0], roots, trusted=self.surroundings.trusted)
        self.policy_changed()


OWN_TOOL_PRIORITY = 60
"""In the default tier, above what its policies say of built-in tools: a name is no permission."""


def session_policy(spec: SessionSpec) -> GatheredPolicy:
    """The policy of all sources.

    A file that was named must be usable. Of the others, a rule that could only have permitted
    something may be dropped with a warning; what may have restricted something may not.
    """
    gathered = gather_policy(
        PolicyRequest(
            cwd=spec.place.cwd,
            environ=spec.place.environ,
            settings=spec.place.settings,
            tool_names=ToolNames(BUILT_IN, (*ALIASES, *(tool.name for tool in spec.tools.own))),
            paths=tuple(
                item for item in spec.permissions.policy if not isinstance(item, PolicyRule)
            ),
            rules=tuple(item for item in spec.permissions.policy if isinstance(item, PolicyRule)),
            allowed_tools=spec.permissions.allowed_tools,
            skip_trust=spec.place.skip_trust,
            extensions=tuple(
                (each.name, each.folder / "policies") for each in spec.place.extensions
            ),
            excluded=excluded_tools(spec.place.extensions),
        )
    )
    if gathered.fatal:
        raise ConfigError(
            f"the policy cannot be used: {join_problems(gathered.fatal)}.",
            remedy="Until then nothing runs." if gathered.fatal[0].remedy else "Correct it.",
            page="policy",
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


def own_tools(tools: tuple[Tool, ...], agents: tuple[AgentDefinition, ...]) -> tuple[Tool, ...]:
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


def require_mode(spec: SessionSpec) -> None:
    """Raises ConfigError for yolo mode where settings forbid it."""
    if (
        spec.permissions.approval_mode is ApprovalMode.YOLO
        and spec.place.settings.security.disable_yolo_mode
    ):
        raise ConfigError(
            "yolo mode is turned off by the setting security.disableYoloMode.",
            remedy="Choose another approval mode.",
            page="policy",
        )


def open_engine(spec: SessionSpec, policy: GatheredPolicy) -> PolicyEngine:
    """The rules of all sources and those for the program's own tools."""
    own = own_tools(spec.tools.own, spec.tools.agents)
    return PolicyEngine([*policy.rules, *(rule for tool in own for rule in own_tool_rules(tool))])


def open_authority(
    spec: SessionSpec,
    policy: GatheredPolicy,
    engine: PolicyEngine,
    host: ToolHost,
    servers: "Servers | None",
) -> Authority:
    """The policy over the calls of a session, and its approval mode."""
    workspace = host.workspace
    authority = Authority(
        engine=engine,
        modes=SessionMode(
            spec.permissions.approval_mode,
            allows_yolo=not spec.place.settings.security.disable_yolo_mode,
            may_act=spec.permissions.may_act,
        ),
        surroundings=Surroundings(workspace.cwd, workspace.roots, trusted=policy.trusted),
        interactive=spec.people.interactive,
        saved=saved_policies_path(spec.place.environ),
        filters=list(policy.filters),
        checks=_checks(policy, spec, host.groups),
        servers=servers,
    )
    authority.modes.subscribe(authority.policy_changed)
    return authority


def _checks(
    policy: GatheredPolicy, spec: SessionSpec, groups: "ProcessGroups | None"
) -> "SafetyChecks | None":
    if not policy.checkers:
        return None
    from alhena.policy.safety_checks import open_checks

    redaction = spec.place.settings.security.environment_variable_redaction
    return open_checks(policy.checkers, spec.place.environ, redaction, groups)
