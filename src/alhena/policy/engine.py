"""The rules of a session, and filters that can make a decision stricter, never laxer."""

from bisect import insort
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from alhena.policy.active import ActiveRules
from alhena.policy.conditions import is_shell, looks_at_arguments, looks_at_commands, names_tool
from alhena.policy.decide import decide_among, is_active, rules_for, strictness
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)

MAX_KNOWN = 4096
ALWAYS_PRIORITY = 950
"""A person's "always": stronger than the user's rules up to priority 949."""


class PolicyEngine:
    """Holds rules by priority, the first loaded first among equals.

    Which of them speak of a tool is looked up once for each tool, mode and kind of run.
    """

    def __init__(self, rules: Iterable[PolicyRule] = ()) -> None:
        self._rules = sorted(rules, key=_order)
        self._active: dict[tuple[object, ...], ActiveRules] = {}

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """All rules, the strongest first."""
        return tuple(self._rules)

    def add_rule(self, rule: PolicyRule) -> None:
        """Adds a rule for the rest of the session, behind those of equal priority."""
        insort(self._rules, rule, key=_order)
        self._active.clear()

    def decide(self, call: PolicyCall, context: PolicyContext) -> Decision:
        """May this call run?"""
        key = (call.names, call.server_name, context.mode, context.interactive)
        active = self._active.get(key)
        if active is None:
            if len(self._active) >= MAX_KNOWN:  # names that a model makes up are not kept for ever
                self._active.clear()
            active = self._active[key] = rules_for(call, self._rules, context)
        return decide_among(call, active, context)

    def excluded(
        self, names: Sequence[str], context: PolicyContext, server_name: str | None = None
    ) -> bool:
        """Can a tool of these names only ever be denied here? Then it need not be declared."""
        call = PolicyCall(names=tuple(names), args={}, server_name=server_name)
        shell = is_shell(call)
        for rule in self._rules:
            if not is_active(rule, context) or not names_tool(rule, call):
                continue
            if not shell and looks_at_commands(rule):
                continue
            denies = rule.decision is PolicyOutcome.DENY or (
                rule.decision is PolicyOutcome.ASK_USER and not context.interactive
            )
            if not looks_at_arguments(rule):
                return denies
            if not denies:
                return False
        return not context.interactive


def always_rule(call: PolicyCall) -> PolicyRule | None:
    """The rule of an "always": this tool from now on; for the shell, commands that begin like each
    part of this one. It does not reach into plan mode.

    None when it would be too broad, could not allow the call again, or when the command is not what
    it looks like to whoever says "always".
    """
    name = call.names[0]
    rule = PolicyRule(
        decision=PolicyOutcome.ALLOW,
        priority=ALWAYS_PRIORITY,
        tool_names=(name,),
        mcp_name=call.server_name,
        modes=(ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO),
        source="approved for this session",
    )
    if not is_shell(call):
        return rule
    from alhena.policy.bash.reader import analyse
    from alhena.policy.suggest import always_prefixes, root_commands
    from alhena.suspicious_text import suspicious

    command = call.args.get("command")
    analysis = analyse(command) if isinstance(command, str) else None
    if analysis is None or suspicious(str(command), root_commands(analysis)):
        return None
    prefixes = always_prefixes(analysis)
    return replace(rule, command_prefixes=prefixes) if prefixes else None


def _order(rule: PolicyRule) -> float:
    return -rule.final_priority


_SILENCE = PolicyRule(
    decision=PolicyOutcome.ALLOW, priority=0, tier=Tier.DEFAULT, allow_redirection=True
)
"""Below all rules of a filter: what none of them speaks of is none of its business."""


class PolicyFilter:
    """Rules of one source, by the name `name`. Its allow rules only shield calls from its own
    weaker rules."""

    def __init__(self, name: str, rules: Iterable[PolicyRule]) -> None:
        self.name = name
        self._engine = PolicyEngine((*rules, _SILENCE))

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """Its rules, the strongest first."""
        return tuple(rule for rule in self._engine.rules if rule is not _SILENCE)

    def decide(self, call: PolicyCall, context: PolicyContext) -> Decision | None:
        """What it has against a call; None for nothing."""
        decision = self._engine.decide(call, context)
        return None if decision.outcome is PolicyOutcome.ALLOW else decision

    def excludes(
        self, names: Sequence[str], context: PolicyContext, server_name: str | None = None
    ) -> bool:
        """Does it deny every call of a tool of these names? Then it need not be declared."""
        return self._engine.excluded(names, context, server_name)


def tighten(
    decision: Decision,
    call: PolicyCall,
    filters: Iterable[PolicyFilter],
    context: PolicyContext,
) -> Decision:
    """`decision`, or the strictest that a filter wants instead; of equals the earlier one. Its
    reason names the filter, and what would have been decided without it."""
    strictest = decision
    for each in filters:
        if strictest.outcome is PolicyOutcome.DENY:
            break
        wanted = each.decide(call, context)
        if wanted is not None and strictness(wanted) > strictness(strictest):
            before = f"without the policy of {each.name} it would be {_said(strictest)}"
            strictest = replace(wanted, reason=f"{wanted.reason}; {before}")
    return strictest


def _said(decision: Decision) -> str:
    """A decision that is not the strictest, in words."""
    return "allowed" if decision.outcome is PolicyOutcome.ALLOW else "asked about"
