"""Policies that can make a decision stricter, never laxer: a workspace's, an extension's, and
settings that say what is there at all."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from alhena.policy.engine import PolicyEngine
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyOutcome, PolicyRule, Tier
from alhena.policy.words import strictness

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
