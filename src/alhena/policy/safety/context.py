"""What a checker is told of the session."""

from alhena.policy.model import Decision, PolicyCall, PolicyContext
from alhena.policy.safety.errors import CheckerError
from alhena.policy.safety.model import (
    CheckContext,
    CheckInput,
    ContextPart,
    ConversationHistory,
    Environment,
    HistorySource,
    PolicyState,
    SafetyChecker,
    ToolCall,
)


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
