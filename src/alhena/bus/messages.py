"""What goes over the bus (SCHED-09): values that encode to JSON as they are, `type` is the tag.

A request carries a correlation id, which its response repeats. `refused` is the response that
means no: it is what a request comes to when nobody answers.
"""

from typing import Any, Protocol, TypeVar

import msgspec

from alhena.events import ToolCallState
from alhena.values import Value

R_co = TypeVar("R_co", covariant=True)


class Message(Value, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """What all messages share."""


class Request(Protocol[R_co]):
    """A message that wants a response."""

    @property
    def correlation_id(self) -> str:
        """What the response repeats."""
        ...

    def refused(self, reason: str) -> R_co:
        """The response that means no, for this reason."""
        ...


class LastingRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an answer would make hold beyond its call.

    Either `rule`, under the keys of a `[[rule]]` table (`toml` is that table as it would be
    written), or the approval `mode` the session would go over to. `words` says it to people.
    `persist`: it is saved, and holds for later sessions, too. `shown` stands for what the question
    shows of the tools of a server; "" for other tools.
    """

    outcome: str
    words: str
    toml: str = ""
    rule: dict[str, Any] | None = None
    mode: str | None = None
    persist: bool = False
    shown: str = ""


class ToolConfirmationResponse(
    Message, frozen=True, kw_only=True, tag="tool-confirmation-response"
):
    """The answer to a call that waits. Without an `outcome`, `confirmed` means proceed_once, and
    not `confirmed` cancel. `payload` is what goes with the outcome. `requires_user_confirmation`:
    there was no answer at all, for this `reason`; that is never an approval."""

    correlation_id: str
    confirmed: bool
    outcome: str | None = None
    payload: dict[str, Any] | None = None
    requires_user_confirmation: bool = False
    reason: str = ""


class ToolConfirmationRequest(Message, frozen=True, kw_only=True, tag="tool-confirmation-request"):
    """A call waits for an answer.

    `name` is what the model called, `tool_name` the declared name of the tool; `args` are the
    parameters under their declared names, `details` what to show. `reason` and `parts` say why it
    is asked. `outcomes` are the answers it takes, `lasting` what those of them would leave that
    hold beyond the call. `modifiable`: {newContent} may come with an answer that lets the call run.
    `problem` says why it is asked once more.
    """

    call_id: str
    name: str
    tool_name: str
    args: dict[str, Any]
    details: Any
    correlation_id: str = ""
    server_name: str | None = None
    reason: str = ""
    parts: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ("proceed_once", "cancel")
    lasting: tuple[LastingRule, ...] = ()
    modifiable: bool = False
    problem: str = ""

    def refused(self, reason: str) -> ToolConfirmationResponse:
        """No answer; the call does not run."""
        return ToolConfirmationResponse(
            correlation_id=self.correlation_id,
            confirmed=False,
            requires_user_confirmation=True,
            reason=reason,
        )


class ToolPolicyRejection(Message, frozen=True, kw_only=True, tag="tool-policy-rejection"):
    """The policy does not let a call run; `message` is what the model is told."""

    call_id: str
    name: str
    tool_name: str
    message: str
    reason: str = ""


class UpdatePolicy(Message, frozen=True, kw_only=True, tag="update-policy"):
    """An answer holds beyond its call: the policy is to say so from now on (SCHED-10).

    `command_prefix` is set for shell commands, `mcp_name` for tools of a server; `rule`, `mode`,
    `persist` and `shown` are those of the `LastingRule` that was shown.
    """

    call_id: str
    tool_name: str
    outcome: str
    command_prefix: tuple[str, ...] = ()
    mcp_name: str | None = None
    rule: dict[str, Any] | None = None
    mode: str | None = None
    persist: bool = False
    shown: str = ""


class ToolCallsUpdate(Message, frozen=True, kw_only=True, tag="tool-calls-update"):
    """All calls of a batch, some of which have changed."""

    calls: tuple[ToolCallState, ...]


class AskUserResponse(Message, frozen=True, kw_only=True, tag="ask-user-response"):
    """Answers to questions, by the index of the question as text; what was left open is missing.
    `cancelled`: the questions were dismissed, or nobody answered."""

    correlation_id: str
    answers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    cancelled: bool = False


class AskUserRequest(Message, frozen=True, kw_only=True, tag="ask-user-request"):
    """The model has questions to a person; each is an encoded `tools.confirmation.Question`."""

    correlation_id: str
    questions: tuple[dict[str, Any], ...]

    def refused(self, reason: str) -> AskUserResponse:
        """No answers."""
        del reason
        return AskUserResponse(correlation_id=self.correlation_id, cancelled=True)
