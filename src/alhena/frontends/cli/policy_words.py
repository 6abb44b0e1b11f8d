"""Decisions and rules for people and as JSON."""

from typing import TYPE_CHECKING, Any

import msgspec

from alhena.display_text import escaped
from alhena.policy.model import Decision, PolicyRule
from alhena.policy.parse import rule_fields

if TYPE_CHECKING:
    from alhena.policy.safety.model import SafetyChecker

Checkers = tuple["SafetyChecker", ...]


def decision_json(decision: Decision, checkers: Checkers = ()) -> str:
    """`{decision, reason, rule, parts}` on a line; `rule` is null when none matched. `checkers` are
    those that would still be asked, and left out when there are none."""
    document: dict[str, Any] = {
        "decision": decision.outcome,
        "reason": decision.reason,
        "rule": None if decision.rule is None else rule_json(decision.rule),
        "parts": decision.parts,
    }
    if checkers:
        document["checkers"] = [
            {"name": each.name, "type": each.type, "source": each.rule.source} for each in checkers
        ]
    return msgspec.json.encode(document).decode("utf-8") + "\n"


def rule_json(rule: PolicyRule) -> dict[str, Any]:
    """A rule as policy files write it, with its final priority and where it stands."""
    return {
        **rule_fields(rule),
        "priority": round(rule.final_priority, 4),
        "source": rule.source,
        "tier": rule.author,
        "file": rule.file,
        "line": rule.line,
    }


def decision_sentences(decision: Decision, checkers: Checkers = ()) -> str:
    """A decision in lines of words."""
    lines = [f"{decision.outcome}: {decision.reason}."]
    if decision.deny_message:
        lines.append(f"  the rule says: {decision.deny_message}")
    lines += [f"  decided by this part of the command: {part}" for part in decision.parts]
    lines += [f"  before it runs, {checker.label} is asked" for checker in checkers]
    return "".join(f"{escaped(line)}\n" for line in lines)
