"""Puts calls to the safety checkers they are for; the answers make a decision stricter, never
laxer."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, assert_never

import msgspec
from msgspec.structs import replace

from alhena.config.home import user_checkers_path
from alhena.config.settings import EnvironmentRedaction
from alhena.display_text import one_line
from alhena.policy.engine import PolicyFilter
from alhena.policy.model import Decision, PolicyCall, PolicyContext, PolicyOutcome
from alhena.policy.patterns import stable_json
from alhena.policy.safety.allowed_path import check_paths
from alhena.policy.safety.model import (
    CheckContext,
    CheckerError,
    CheckerType,
    CheckInput,
    ContextPart,
    ConversationHistory,
    Environment,
    HistorySource,
    PolicyState,
    SafetyChecker,
    ToolCall,
    Verdict,
)
from alhena.policy.safety.runner import CheckerRegistry, ExternalRunner
from alhena.system.environment import child_environment

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups


def no_history() -> ConversationHistory:
    """The history of what is no conversation."""
    return ConversationHistory()


def check_input(
    checker: SafetyChecker,
    call: PolicyCall,
    decision: Decision,
    context: PolicyContext,
    history: HistorySource,
) -> CheckInput:
    """The question to `checker` about a call and the decision so far, with the parts of the context
    that it wants, or with all.

    Raises CheckerError when one of them is not known.
    """
    wanted = tuple(ContextPart) if checker.required_context is None else checker.required_context
    return CheckInput(
        tool_call=ToolCall(name=call.names[0], args=call.args),
        context=CheckContext(
            policy=PolicyState(
                mode=context.mode,
                decision=decision.outcome,
                rule=None if decision.rule is None else decision.rule.source,
            ),
            environment=_environment(context) if ContextPart.ENVIRONMENT in wanted else None,
            history=history() if ContextPart.HISTORY in wanted else None,
        ),
        config=checker.config,
    )


def _environment(context: PolicyContext) -> Environment:
    if context.surroundings is None:
        raise CheckerError("the directories of the session are not known")
    roots = tuple(dict.fromkeys(context.surroundings.roots))
    return Environment(cwd=context.surroundings.cwd, workspaces=roots)


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


def open_checks(
    checkers: tuple[SafetyChecker, ...],
    environ: Mapping[str, str],
    redaction: EnvironmentRedaction,
    groups: "ProcessGroups | None" = None,
) -> SafetyChecks:
    """The checkers, with the user's programs and an environment without secrets. `groups` ends
    those at work when this process is killed."""
    env = child_environment(environ, redaction).variables
    return SafetyChecks(
        checkers,
        CheckerRegistry(user_checkers_path(environ)),
        ExternalRunner(env, groups=groups),
    )
