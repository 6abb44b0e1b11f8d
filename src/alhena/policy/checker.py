"""Safety checkers, their questions and answers (protocol 1.0.0)."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from alhena.policy.model import ApprovalMode, PolicyOutcome, PolicyRule
from alhena.values import Value

PROTOCOL_VERSION = "1.0.0"


class CheckerType(StrEnum):
    """The kind of a checker: a function of this program, or a program of its own."""

    IN_PROCESS = "in-process"
    EXTERNAL = "external"


class ContextPart(StrEnum):
    """A part of the context that a checker can ask for."""

    ENVIRONMENT = "environment"
    HISTORY = "history"


class SafetyChecker(Value, frozen=True, kw_only=True):
    """One `[[safety_checker]]`: `rule` says for which calls, how strong (its priority) and where it
    is written; it denies. `number` counts the checkers of a file from 1. `required_context` None
    means all there is. `config` goes to the checker as it is."""

    name: str
    type: CheckerType
    rule: PolicyRule
    number: int | None = None
    required_context: tuple[ContextPart, ...] | None = None
    config: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])

    @property
    def label(self) -> str:
        """The checker in words: its name and where it is written."""
        return f'the safety checker "{self.name}" ({self.rule.source})'


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """The call: the declared name of the tool, its arguments as they will be used."""

    name: str
    args: dict[str, Any]


class Environment(Value, frozen=True, kw_only=True):
    """The directories of the session: absolute paths, symbolic links resolved."""

    cwd: str
    workspaces: tuple[str, ...]


class UserTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the user."""

    text: str


class ModelTurn(Value, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An answer of the model."""

    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()


class ConversationTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A question and its answer."""

    user: UserTurn
    model: ModelTurn


class ConversationHistory(Value, frozen=True, kw_only=True):
    """The conversation so far, the oldest turn first."""

    turns: tuple[ConversationTurn, ...] = ()


HistorySource = Callable[[], ConversationHistory]


class PolicyState(Value, frozen=True, kw_only=True):
    """The policy at the call: the approval mode, the decision so far, and the place where the rule
    that decided is written (None: no rule did)."""

    mode: ApprovalMode
    decision: PolicyOutcome
    rule: str | None = None


class CheckContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The context of a question to a checker; None for parts it did not ask for. The state of the
    policy is always there."""

    policy: PolicyState
    environment: Environment | None = None
    history: ConversationHistory | None = None


class CheckInput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A question to a checker: for an external one, the JSON object on its standard input."""

    tool_call: ToolCall
    context: CheckContext
    config: dict[str, Any]
    protocol_version: str = PROTOCOL_VERSION


class Verdict(Value, frozen=True):
    """The answer of a checker; further keys are allowed. `reason` may be missing from an allow."""

    decision: PolicyOutcome
    reason: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decision is not PolicyOutcome.ALLOW and not (self.reason or "").strip():
            raise ValueError(f"the decision {self.decision} has no reason")


class CheckerError(Exception):
    """A safety checker cannot be found, cannot be run, or gave no valid answer; the text says why.
    Whoever asked it has to take that as a denial."""
