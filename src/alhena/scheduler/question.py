"""A question to a person about one call, and the answers to it."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

import msgspec

from alhena.policy.model import Decision
from alhena.scheduler.messages import LastingRule, ToolConfirmationRequest
from alhena.tools.contract import ConfirmationDetails, ProposedContents, ToolFailure
from alhena.tools.contract import ToolConfirmationOutcome as Outcome
from alhena.values import Value


class Payload(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Details of an answer.

    For proceeding outcomes: `args` replace the arguments of the call, `new_content` the whole
    content that an edit writes; `answers` are those to ask_user (index as text -> answer),
    `approval_mode` is the mode after plan mode. For cancel: `reason` (or `feedback`) is passed to
    the model, which then continues; without one, or with `scope` "all", the rest of the batch is
    cancelled and the turn ends. `approved` false refuses a plan, whatever the outcome. `result` is
    that of a call that was done elsewhere.
    """

    args: dict[str, Any] | None = None
    new_content: str | None = None
    answers: dict[str, str] | None = None
    approved: bool | None = None
    approval_mode: Literal["default", "autoEdit", "yolo"] | None = None
    feedback: str | None = None
    reason: str | None = None
    scope: Literal["call", "all"] = "call"
    result: Any = msgspec.UNSET


NOTHING = Payload()


class Answer(Value, frozen=True):
    """An answer to a confirmation, with its payload."""

    outcome: Outcome
    payload: Payload = NOTHING

    @classmethod
    def yes(cls, args: dict[str, Any] | None = None) -> "Answer":
        """Approves this call; with `args`, with these arguments instead, if the policy agrees."""
        if args is not None and not isinstance(cast("object", args), dict):
            raise TypeError(f"Answer.yes takes the arguments as a dict, not {args!r:.60}")
        return cls(Outcome.PROCEED_ONCE, Payload(args=args))

    @classmethod
    def no(cls, why: str = "", *, stop: bool = False) -> "Answer":
        """Refuses this call: with a reason, the model gets it and continues; without one, or to
        `stop`, the turn's other calls are cancelled and the turn ends."""
        if not isinstance(cast("object", why), str):
            raise TypeError(f"Answer.no takes the reason as text, not {why!r:.60}")
        return cls(Outcome.CANCEL, Payload(reason=why or None, scope="all" if stop else "call"))

    @classmethod
    def result(cls, value: Any) -> "Answer":
        """Gives the result of a call that was done elsewhere: a value as a tool returns one. The
        tool does not run."""
        return cls(Outcome.PROCEED_ONCE, Payload(result=value))

    @classmethod
    def always(cls) -> "Answer":
        """Approves this call and, for the session, similar ones."""
        return cls(Outcome.PROCEED_ALWAYS)


class ConfirmationRequest(
    ToolConfirmationRequest, frozen=True, kw_only=True, tag="tool-confirmation-request"
):
    """A question to a person, with typed `details` and the `decision` that requires it. `by_hook`:
    a hook requires it, so that no rule can settle it. `agent` is the subagent whose call it is."""

    details: ConfirmationDetails
    decision: Decision
    by_hook: bool = False
    agent: str = ""

    def find_offer(self, outcome: str) -> LastingRule | None:
        """The approval beyond the call that an answer with this outcome saves, if any."""
        return next((each for each in self.lasting if each.outcome == outcome), None)


Verdict = Answer | Outcome | bool
Approver = Callable[[ConfirmationRequest], Verdict | Awaitable[Verdict]]
"""Answers a request: an Answer, an outcome, or True for proceed_once and False for cancel. A
function that is not async runs in its own thread."""

Edit = Callable[[ProposedContents], Awaitable[str | ToolFailure]]
"""Lets a person edit the content to write; returns the whole new text or a failure."""
