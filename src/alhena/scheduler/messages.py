"""Questions, answers and news of a scheduler as messages that encode to JSON (SCHED-09)."""

from typing import Any

import msgspec

from alhena.events import ToolCallState
from alhena.values import Value


class Message(Value, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """Base of all messages."""


class LastingRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A saved approval that an answer would create.

    Either `rule`, with the keys of a `[[rule]]` table (`toml` is the table as text), or the
    approval `mode` to switch to. `words` describes it to people. `persist`: also saved for later
    sessions. `shown`: fingerprint of the tool descriptions of a server that the question shows; ""
    for other tools.
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
    """The answer to a waiting call. Without an `outcome`, `confirmed` means proceed_once, otherwise
    cancel. `payload` belongs to the outcome. `requires_user_confirmation`: there was no answer, for
    this `reason`; never an approval."""

    correlation_id: str
    confirmed: bool
    outcome: str | None = None
    payload: dict[str, Any] | None = None
    requires_user_confirmation: bool = False
    reason: str = ""


class ToolConfirmationRequest(Message, frozen=True, kw_only=True, tag="tool-confirmation-request"):
    """Asks for confirmation of a call.

    `name` is the name in the model's call, `tool_name` the declared name; `args` are the parameters
    under their declared names, `details` what to show. `reason` and `parts` say why confirmation is
    required. `outcomes` are the possible answers, `lasting` the approvals that some of them would
    save. `modifiable`: an approving answer may carry {newContent}. `problem` says why the call is
    asked about again.
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

    def make_refusal(self, reason: str) -> ToolConfirmationResponse:
        """The response for no answer; the call does not run."""
        return ToolConfirmationResponse(
            correlation_id=self.correlation_id,
            confirmed=False,
            requires_user_confirmation=True,
            reason=reason,
        )


class ToolPolicyRejection(Message, frozen=True, kw_only=True, tag="tool-policy-rejection"):
    """The policy denied a call; `message` goes to the model."""

    call_id: str
    name: str
    tool_name: str
    message: str
    reason: str = ""


class UpdatePolicy(Message, frozen=True, kw_only=True, tag="update-policy"):
    """An answer applies to later calls too: the policy has to be updated (SCHED-10).

    `command_prefix` is set for shell commands, `mcp_name` for tools of a server; `rule`, `mode`,
    `persist` and `shown` are those of the chosen `LastingRule`.
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


class AppliedUpdate(UpdatePolicy, frozen=True, kw_only=True, tag="update-policy"):
    """An update of a session's policy that its scheduler has applied: news, no order."""


class ToolCallsUpdate(Message, frozen=True, kw_only=True, tag="tool-calls-update"):
    """All calls of a batch, after some of them changed."""

    calls: tuple[ToolCallState, ...]


class AskUserResponse(Message, frozen=True, kw_only=True, tag="ask-user-response"):
    """Answers by the question's index as text; unanswered questions are missing. `cancelled`: the
    questions were dismissed, or there was no answer."""

    correlation_id: str
    answers: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    cancelled: bool = False


class AskUserRequest(Message, frozen=True, kw_only=True, tag="ask-user-request"):
    """Questions of the model to a person; each is an encoded `tools.contract.Question`."""

    correlation_id: str
    questions: tuple[dict[str, Any], ...]

    def make_refusal(self, reason: str) -> AskUserResponse:
        """The response without answers."""
        del reason
        return AskUserResponse(correlation_id=self.correlation_id, cancelled=True)
