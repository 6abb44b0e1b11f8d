"""An answer that came but cannot be used."""

from alhena.errors import AlhenaError


class InvalidResponseError(AlhenaError):
    """The model's answer is empty, blocked or malformed. `reason` is a stable word for it."""

    kind = "invalid_response"

    def __init__(self, reason: str, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


ASKED_AGAIN = frozenset(
    {"empty_response", "malformed_function_call", "unexpected_tool_call", "too_many_tool_calls"}
)
"""Reasons of an unusable answer for which the next one may be better. What was withheld for its
content is not asked for again."""
