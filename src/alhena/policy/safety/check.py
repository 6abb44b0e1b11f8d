"""What safety checkers make of a decision: the same or a stricter one, never a laxer."""

from collections.abc import Iterable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from alhena.display_text import one_line
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyOutcome
from alhena.policy.safety.allowed_path import check_paths
from alhena.policy.safety.context import check_input, no_history
from alhena.policy.safety.errors import CheckerError
from alhena.policy.safety.model import (
    CheckerType,
    CheckInput,
    HistorySource,
    SafetyChecker,
    Verdict,
)
from alhena.policy.safety.registry import CheckerRegistry
from alhena.policy.safety.runner import ExternalRunner
from alhena.policy.safety.selection import CheckerSelection
from alhena.policy.stable_json import stable_json

MAX_REASON = 1000
_NOBODY = "nobody can be asked in a non-interactive run, so it is denied"


class SafetyChecks:
    """The checkers of a session, asked in the order of their priorities.

    `history` tells the conversation to those that want to know it; it can be set later.
    """

    def __init__(
        self,
        checkers: Iterable[SafetyChecker],
        registry: CheckerRegistry,
        runner: ExternalRunner,
        history: HistorySource = no_history,
    ) -> None:
        self._selection = CheckerSelection(checkers)
        self._registry = registry
        self._runner = runner
        self.history = history

    async def check(self, call: PolicyCall, decision: Decision, context: PolicyContext) -> Decision:
        """`decision`, or what the checkers for this call want instead. One that fails denies, and
        the first denial ends it; an allow changes nothing."""
        if decision.outcome is PolicyOutcome.DENY:
            return decision
        for checker in self._selection.active(call, context):
            verdict = await self._verdict(checker, call, decision, context)
            decision = _applied(decision, checker, verdict)
            if decision.outcome is PolicyOutcome.DENY:
                return decision
        if decision.outcome is PolicyOutcome.ASK_USER and not context.interactive:
            reason = f"{decision.reason}; {_NOBODY}"
            return replace(decision, outcome=PolicyOutcome.DENY, reason=reason)
        return decision

    async def _verdict(
        self, checker: SafetyChecker, call: PolicyCall, decision: Decision, context: PolicyContext
    ) -> Verdict:
        try:
            question = check_input(checker, call, decision, context, self.history)
            return await self._asked(checker, question)
        except CheckerError as error:
            return Verdict(PolicyOutcome.DENY, f"it failed, which counts as a denial: {error}")

    async def _asked(self, checker: SafetyChecker, question: CheckInput) -> Verdict:
        match checker.type:
            case CheckerType.IN_PROCESS:
                return check_paths(question)
            case CheckerType.EXTERNAL:
                program = self._registry.program(checker)
                return await self._runner.run(program, _encoded(question))
            case _:
                assert_never(checker.type)


def _encoded(question: CheckInput) -> bytes:
    """The question as JSON. Raises CheckerError."""
    try:
        return stable_json(msgspec.to_builtins(question)).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckerError(f"it cannot be asked: {error}") from error


def _applied(decision: Decision, checker: SafetyChecker, verdict: Verdict) -> Decision:
    """`decision`, as strict as the verdict wants it; its rule has the words for the model."""
    said = one_line(verdict.reason or "")
    if len(said) > MAX_REASON:
        said = f"{said[:MAX_REASON]}…"
    rule = replace(checker.rule, deny_message=f'Safety checker "{checker.name}": {said}')
    reason = f"{checker.label}: {said.rstrip('.')}"
    match verdict.decision:
        case PolicyOutcome.ALLOW:
            return decision
        case PolicyOutcome.ASK_USER:
            if decision.outcome is PolicyOutcome.ASK_USER:
                reason = f"{reason}; besides, {decision.reason}"
            return replace(
                decision,
                outcome=PolicyOutcome.ASK_USER,
                reason=f"to be confirmed for {reason}",
                rule=replace(rule, decision=PolicyOutcome.ASK_USER),
            )
        case PolicyOutcome.DENY:
            return replace(
                decision, outcome=PolicyOutcome.DENY, reason=f"denied by {reason}", rule=rule
            )
        case _:
            assert_never(verdict.decision)
