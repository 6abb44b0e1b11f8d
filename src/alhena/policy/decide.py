"""May this call run? One function of the call, the rules and the context; its reasons in words."""

from collections.abc import Sequence
from typing import assert_never

import msgspec

from alhena.policy.active import ActiveRules
from alhena.policy.conditions import Conditions, is_shell, looks_at_commands, names_tool
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyOutcome, PolicyRule

_STRICTNESS = (PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY)


def describe_rule(rule: PolicyRule) -> str:
    """A rule in words: its author and where it is written."""
    where = f" ({rule.source})" if rule.source else ""
    return f"a rule of the {rule.author} policies{where}"


def by_rule(rule: PolicyRule, parts: tuple[str, ...] = ()) -> Decision:
    """What a rule that matches decides."""
    reason = f"{_said(rule.decision)} by {describe_rule(rule)}"
    return Decision(outcome=rule.decision, reason=reason, rule=rule, parts=parts)


def by_default(call: PolicyCall, parts: tuple[str, ...] = ()) -> Decision:
    """What holds where no rule matches."""
    return Decision(
        outcome=PolicyOutcome.ASK_USER,
        reason=f"no rule matches this call of {call.names[0]}, and asking is the default",
        parts=parts,
    )


def strictness(decision: Decision) -> int:
    """Allow is 0, ask_user 1, deny 2."""
    return _STRICTNESS.index(decision.outcome)


def _said(outcome: PolicyOutcome) -> str:
    match outcome:
        case PolicyOutcome.ALLOW:
            return "allowed"
        case PolicyOutcome.ASK_USER:
            return "to be confirmed"
        case PolicyOutcome.DENY:
            return "denied"
        case _ as never:
            assert_never(never)


_NOBODY = "nobody can be asked in a non-interactive run, so it is denied"


def decide(call: PolicyCall, rules: Sequence[PolicyRule], context: PolicyContext) -> Decision:
    """The decision of the matching rule of highest priority; of equals, the first in `rules`.

    Without one, ask. In a non-interactive context nobody can be asked, so that is a deny (POL-07).
    A shell command is decided part by part, the strictest part decides.
    """
    return decide_among(call, rules_for(call, sorted(rules, key=_by_priority), context), context)


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
            [rule for rule in active.rules if rule.when is None or rule.when(call.args)]
        )
    if is_shell(call):
        from alhena.policy.command_line import decide_command

        decision = decide_command(call, active, context)
    else:
        decision = _decide_tool(call, active.rules, context)
    if decision.outcome is PolicyOutcome.ASK_USER and not context.interactive:
        return msgspec.structs.replace(
            decision,
            outcome=PolicyOutcome.DENY,
            reason=f"{decision.reason}; {_NOBODY}",
        )
    return decision


def is_active(rule: PolicyRule, context: PolicyContext) -> bool:
    """Does the rule apply in this mode (POL-06), and to a run with or without a person?"""
    return (not rule.modes or context.mode in rule.modes) and (
        rule.interactive is None or rule.interactive is context.interactive
    )


def _by_priority(rule: PolicyRule) -> float:
    return -rule.final_priority


def _decide_tool(call: PolicyCall, active: list[PolicyRule], context: PolicyContext) -> Decision:
    conditions = Conditions(call, context.surroundings)
    for rule in active:
        if looks_at_commands(rule):
            continue  # These look at shell commands, and this tool runs none.
        if conditions.hold(rule, allow=rule.decision is PolicyOutcome.ALLOW):
            return by_rule(rule)
    return by_default(call)
