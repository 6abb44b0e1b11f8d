"""The rules of a session, and the questions put to them."""

from bisect import insort
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from alhena.policy.conditions import looks_at_arguments
from alhena.policy.decide import decide, is_active
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    Tier,
)
from alhena.policy.names import is_shell, names_tool

ALWAYS_PRIORITY = Tier.USER + 0.950
"""Where a person's "always" stands: above the user's rules up to priority 949."""


class PolicyEngine:
    """Holds rules by priority, the first loaded first among equals."""

    def __init__(self, rules: Iterable[PolicyRule] = ()) -> None:
        self._rules = sorted(rules, key=_order)

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """All rules, the strongest first."""
        return tuple(self._rules)

    def add_rule(self, rule: PolicyRule) -> None:
        """Adds a rule for the rest of the session, behind those of equal priority."""
        insort(self._rules, rule, key=_order)

    def decide(self, call: PolicyCall, context: PolicyContext) -> Decision:
        """May this call run?"""
        return decide(call, self._rules, context)

    def excluded(
        self, names: Sequence[str], context: PolicyContext, server_name: str | None = None
    ) -> bool:
        """Can a tool of these names only ever be denied here? Then it need not be declared."""
        call = PolicyCall(names=tuple(names), args={}, server_name=server_name)
        shell = is_shell(call)
        for rule in self._rules:
            if not is_active(rule, context) or not names_tool(rule, call):
                continue
            if not shell and (rule.command_prefixes or rule.command_regex):
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
    """The rule of an "always": this tool from now on; for the shell, this very command. It does
    not reach into plan mode.

    None when no rule could allow the call again, because its command is not a plain one.
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
    import re

    from alhena.policy.patterns import MAX_PATTERN_LENGTH
    from alhena.policy.shell import plain_words

    command = call.args.get("command")
    if not isinstance(command, str) or plain_words(command) is None:
        return None
    pattern = rf"{re.escape(command.strip())}\Z"
    if len(pattern) > MAX_PATTERN_LENGTH:
        return None
    return replace(rule, command_regex=pattern)


def _order(rule: PolicyRule) -> float:
    return -rule.priority
