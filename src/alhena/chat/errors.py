"""An answer that came but cannot be used, and a request that cannot be sent."""

from alhena.errors import AlhenaError


class InvalidResponseError(AlhenaError):
    """The model's answer is empty, blocked or malformed. `reason` is a stable word for it."""

    kind = "invalid_response"

    def __init__(self, reason: str, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


class ContextOverflowError(AlhenaError):
    """A request does not fit the model's window, whatever is left out of the conversation."""

    kind = "context_window_will_overflow"


class ChantingError(AlhenaError):
    """The model's answer says the same over and over, and was broken off. Behind the first `kept`
    characters it says nothing new; `repeated` is a piece of what it repeats."""

    kind = "loop_detected"

    def __init__(self, repeated: str, kept: int) -> None:
        super().__init__("the model's answer says the same over and over.")
        self.repeated = repeated
        self.kept = kept


BROKEN_OFF = "\n[The answer was broken off here: it repeated itself.]"
"""Stands in the history behind what was kept of such an answer."""

ASKED_AGAIN = frozenset(
    {"empty_response", "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls"}
)
"""Reasons of an unusable answer for which the next one may be better. What was withheld for its
content is not asked for again."""

CALL_CUT_OFF = "call_cut_off"
"""Reason of an answer that reached its output limit in the middle of a call. The next one may be
better only if the model is told."""
