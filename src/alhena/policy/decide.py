"""May this call run? One function of the call, the rules and the circumstances (POL-01)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

import msgspec

from alhena.policy.conditions import Conditions, Match, looks_at_arguments
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyOutcome, PolicyRule, Tier
from alhena.policy.names import is_shell, names_tool

if TYPE_CHECKING:
    from alhena.policy.forms import Forms

_STRICTNESS = (PolicyOutcome.ALLOW, PolicyOutcome.ASK_USER, PolicyOutcome.DENY)
_NOBODY = "nobody can be asked in a non-interactive run, so it is denied"
_NOT_PLAIN = "only a single plain command can be allowed by rule"


def decide(call: PolicyCall, rules: Sequence[PolicyRule], context: PolicyContext) -> Decision:
    """The decision of the matching rule of highest priority; of equals, the first in `rules`.

    Without one, ask. In a non-interactive context nobody can be asked, so that is a deny (POL-07).
    A shell command is decided by its strictest piece, and allowed by a rule only when it is one
    plain command (or the rule allows everything, redirections included).
    """
    active = [
        rule
        for rule in sorted(rules, key=_by_priority)
        if is_active(rule, context) and names_tool(rule, call)
    ]
    decision = _decide_shell(call, active) if is_shell(call) else _decide_tool(call, active)
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


def describe_rule(rule: PolicyRule) -> str:
    """A rule in words: its tier and where it is written."""
    tier = min(max(int(rule.priority), Tier.DEFAULT), Tier.ADMIN)
    where = f" ({rule.source})" if rule.source else ""
    return f"a rule of the {Tier(tier).name.lower()} policies{where}"


def _by_priority(rule: PolicyRule) -> float:
    return -rule.priority


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


def _by_rule(rule: PolicyRule, parts: tuple[str, ...] = ()) -> Decision:
    reason = f"{_said(rule.decision)} by {describe_rule(rule)}"
    return Decision(outcome=rule.decision, reason=reason, rule=rule, parts=parts)


def _by_default(call: PolicyCall, parts: tuple[str, ...] = ()) -> Decision:
    return Decision(
        outcome=PolicyOutcome.ASK_USER,
        reason=f"no rule matches this call of {call.names[0]}, and asking is the default",
        parts=parts,
    )


def _decide_tool(call: PolicyCall, active: list[PolicyRule]) -> Decision:
    conditions = Conditions(call.args)
    for rule in active:
        if rule.command_prefixes or rule.command_regex:
            continue  # These look at shell commands, and this tool runs none.
        if conditions.arguments_match(rule, allow=rule.decision is PolicyOutcome.ALLOW):
            return _by_rule(rule)
    return _by_default(call)


def _decide_shell(call: PolicyCall, active: list[PolicyRule]) -> Decision:
    argument = call.args.get("command")
    command = argument if isinstance(argument, str) else "\0"  # never plain, never certain
    # Reading the command is spared when the first rule decides without looking at it.
    if active and not looks_at_arguments(active[0]):
        first = active[0]
        if first.decision is not PolicyOutcome.ALLOW or first.allow_redirection:
            return _by_rule(first, (command,))
    return _ShellDecision(call, command, active).decide()


class _ShellDecision:
    """One command against the rules: piece by piece, the strictest piece wins."""

    def __init__(self, call: PolicyCall, command: str, active: list[PolicyRule]) -> None:
        from alhena.policy.shell import hides_operators, literal_words, plain_words

        self.call = call
        self.command = command
        self.active = active
        self.conditions = Conditions(call.args)
        self.plain = plain_words(command)
        literal = self.plain or literal_words(command)
        self.literal = literal is not None and (
            self.plain is not None or not hides_operators(literal)
        )

    def decide(self) -> Decision:
        strictest: Decision | None = None
        for text, forms in _readings(self.command):
            decision = self._judge(text, forms)
            if strictest is None or _rank(decision) > _rank(strictest):
                strictest = decision
            if strictest.outcome is PolicyOutcome.DENY:
                break
        return strictest or _by_default(self.call, (self.command,))

    def _judge(self, part: str, forms: "Forms") -> Decision:
        """The decision for one piece.

        An allow that does not stand, and a restriction that may or may not be meant, both come to
        asking; the rules below are still read, for a restriction that is certain or, after an
        allow that does not stand, for one that allows everything.
        """
        tentative: Decision | None = None
        floor: Decision | None = None
        for rule in self.active:
            if rule.decision is PolicyOutcome.ALLOW:
                if self._stands(rule):
                    return floor or _by_rule(rule, (part,))
                if tentative is None and self._meant(rule, forms):
                    tentative = self._not_standing(rule, part)
                continue
            match = self.conditions.restricts(rule, self.command, forms)
            if match is Match.MAYBE:
                floor = floor or self._uncertain(rule, part)
            elif match is Match.YES:
                asked = tentative or (floor if rule.decision is PolicyOutcome.ASK_USER else None)
                return asked or _by_rule(rule, (part,))
        return floor or tentative or _by_default(self.call, (part,))

    def _stands(self, rule: PolicyRule) -> bool:
        if not looks_at_arguments(rule):
            return rule.allow_redirection or self.literal
        return self.plain is not None and self.conditions.allows_words(
            rule, self.command, self.plain
        )

    def _meant(self, rule: PolicyRule, forms: "Forms") -> bool:
        """Would the rule allow this piece, if it were all there is?"""
        return (
            self.plain is None and self.conditions.restricts(rule, self.command, forms) is Match.YES
        )

    def _not_standing(self, rule: PolicyRule, part: str) -> Decision:
        return Decision(
            outcome=PolicyOutcome.ASK_USER,
            reason=f"{describe_rule(rule)} would allow this, but {_NOT_PLAIN}",
            rule=rule,
            parts=(part,),
        )

    def _uncertain(self, rule: PolicyRule, part: str) -> Decision:
        return Decision(
            outcome=PolicyOutcome.ASK_USER,
            reason=f"{describe_rule(rule)} ({rule.decision}) may be meant for this command, "
            "which cannot be read to its end",
            rule=rule,
            parts=(part,),
        )


def _readings(command: str) -> list[tuple[str, "Forms"]]:
    """Each piece of the command with what it may run; never empty."""
    from alhena.policy.forms import Forms, forms_of
    from alhena.policy.pieces import split_pieces
    from alhena.policy.shell import MAX_COMMAND_BYTES

    if len(command.encode("utf-8", "surrogatepass")) > MAX_COMMAND_BYTES:
        return [(command, Forms((), unsure=True))]
    found = split_pieces(command)
    readings: list[tuple[str, Forms]] = []
    for piece in found.pieces:
        forms = forms_of(piece)
        readings.append((piece.text, Forms(forms.forms, unsure=forms.unsure or found.unsure)))
    return readings or [(command, Forms((), unsure=found.unsure))]


def _rank(decision: Decision) -> int:
    return _STRICTNESS.index(decision.outcome)
