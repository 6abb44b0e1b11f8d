"""Decides calls by the rules of a session; filters can make a decision stricter, never laxer."""

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from alhena.policy.conditions import (
    MAX_KNOWN,
    SECRETS,
    ActiveRules,
    Conditions,
    names_tool,
)
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
    default_decision,
    outcome_words,
    rule_decision,
    strictness,
)


def decide(call: PolicyCall, rules: Sequence[PolicyRule], context: PolicyContext) -> Decision:
    """The decision of the matching rule of highest priority; of equals, the first in `rules`.

    Without one, ask. A non-interactive context has no person to ask, so that is a deny (POL-07).
    A shell command is decided part by part, the strictest part decides.
    """
    return decide_among(call, rules_for(call, sorted(rules, key=_order), context), context)


def rules_for(
    call: PolicyCall, ordered: Sequence[PolicyRule], context: PolicyContext
) -> ActiveRules:
    """Those of the rules that speak of the tool of this call, in these circumstances."""
    return ActiveRules(
        [rule for rule in ordered if is_active(rule, context) and names_tool(rule, call)]
    )


def decide_among(call: PolicyCall, active: ActiveRules, context: PolicyContext) -> Decision:
    """The decision, given the rules for this tool (`rules_for`), the strongest first."""
    if active.with_predicates:
        active = ActiveRules(
            [rule for rule in active.rules if rule.when is None or _holds(rule.when, call)]
        )
    if call.is_shell:
        from alhena.policy.command_line import decide_command

        decision = decide_command(call, active, context)
    else:
        decision = _decide_tool(call, active.rules, context)
    return denied_if_unattended(decision, context)


def _holds(when: Callable[[dict[str, Any]], bool], call: PolicyCall) -> bool:
    """The answer of a predicate about a call. Raises TypeError for one that is async: its result
    is true whatever it says."""
    said = when(call.args)
    if hasattr(said, "__await__"):
        raise TypeError(f"Rule.when returned {type(said).__name__}, it has to be no async function")
    return bool(said)


UNATTENDED = "denied, since a non-interactive run cannot ask"
"""Ends the reason of a question that became a denial."""


def denied_if_unattended(decision: Decision, context: PolicyContext) -> Decision:
    """The decision; a question is a denial where there is no person to ask (POL-07)."""
    if decision.outcome is not PolicyOutcome.ASK_USER or context.interactive:
        return decision
    reason = f"{decision.reason}; {UNATTENDED}"
    return replace(decision, outcome=PolicyOutcome.DENY, reason=reason)


def is_active(rule: PolicyRule, context: PolicyContext) -> bool:
    """Does the rule apply in this mode (POL-06), with or without a person, and to this caller?"""
    return (
        (not rule.modes or context.mode in rule.modes)
        and (rule.interactive is None or rule.interactive is context.interactive)
        and (rule.subagent is None or rule.subagent == context.subagent)
    )


def _decide_tool(call: PolicyCall, active: list[PolicyRule], context: PolicyContext) -> Decision:
    conditions = Conditions(call, context.surroundings)
    for rule in active:
        if rule.on_commands:
            continue  # These look at shell commands, and this tool runs none.
        if conditions.hold(rule, allow=rule.decision is PolicyOutcome.ALLOW):
            decision = rule_decision(rule)
            if SECRETS not in rule.paths:
                return decision
            return replace(decision, reason=f"{decision.reason}: the file may hold secrets")
    return default_decision(call)


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
        key = (
            *(call.names, call.server_name, context.mode, context.interactive),
            context.subagent,
        )
        active = self._active.get(key)
        if active is None:
            if len(self._active) >= MAX_KNOWN:
                self._active.clear()
            active = self._active[key] = rules_for(call, self._rules, context)
        return decide_among(call, active, context)

    def excludes(
        self, names: Sequence[str], context: PolicyContext, server_name: str | None = None
    ) -> bool:
        """Can a tool of these names only ever be denied here? Then it need not be declared."""
        call = PolicyCall(names=tuple(names), args={}, server_name=server_name)
        shell = call.is_shell
        for rule in self._rules:
            if not is_active(rule, context) or not names_tool(rule, call):
                continue
            if not shell and rule.on_commands:
                continue
            denies = rule.decision is PolicyOutcome.DENY or (
                rule.decision is PolicyOutcome.ASK_USER and not context.interactive
            )
            if not rule.on_arguments:
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
    agent = call.args.get("agent_name")
    name = agent if agent in call.names else call.names[0]
    rule = PolicyRule(
        decision=PolicyOutcome.ALLOW,
        priority=ALWAYS_PRIORITY,
        tool_names=(name,),
        mcp_name=call.server_name,
        modes=(ApprovalMode.DEFAULT, ApprovalMode.AUTO_EDIT, ApprovalMode.YOLO),
        source="approved for this session",
    )
    if not call.is_shell:
        return rule
    from alhena.policy.command_prefix import always_prefixes, root_commands
    from alhena.shell.parse.analysis import analyse
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
        """Its objection to a call, or None."""
        decision = self._engine.decide(call, context)
        return None if decision.outcome is PolicyOutcome.ALLOW else decision

    def excludes(
        self, names: Sequence[str], context: PolicyContext, server_name: str | None = None
    ) -> bool:
        """Does it deny every call of a tool of these names? Then it need not be declared."""
        return self._engine.excludes(names, context, server_name)


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
            before = f"without the policy of {each.name}: {outcome_words(strictest.outcome)}"
            strictest = replace(wanted, reason=f"{wanted.reason}; {before}")
    return strictest
