"""Which checkers are for a call?"""

from collections.abc import Iterable

from alhena.policy.filter import PolicyFilter
from alhena.policy.model import PolicyCall, PolicyContext
from alhena.policy.safety.model import SafetyChecker


class CheckerSelection:
    """Checkers, the strongest first; of equals the first that was loaded."""

    def __init__(self, checkers: Iterable[SafetyChecker]) -> None:
        ordered = sorted(checkers, key=lambda checker: -checker.rule.final_priority)
        self._checkers = [(each, PolicyFilter(each.name, [each.rule])) for each in ordered]

    def active(self, call: PolicyCall, context: PolicyContext) -> tuple[SafetyChecker, ...]:
        """Those that are for this call, also when that is not certain; nothing is run."""
        return tuple(
            checker
            for checker, condition in self._checkers
            if condition.decide(call, context) is not None
        )
