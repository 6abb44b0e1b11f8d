"""Decisions in words: who said what."""

from typing import assert_never

from alhena.policy.model import Decision, PolicyCall, PolicyOutcome, PolicyRule

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
