"""Errors that end a run before its answer."""

from alhena.errors import AlhenaError

REASONS = frozenset(
    {"turn_limit", "token_limit", "time_limit", "cost_limit", "loop_detected", "interrupted"}
)
"""Kinds of errors that are the `reason` of a run's last event; that of any other is "error"."""


class LimitError(AlhenaError):
    """A run has used up what it may use; what was done until then stands."""

    exit_code = 53
    kind = "limit"


class TurnLimitError(LimitError):
    """The model asked for more turns than the limit allows."""

    kind = "turn_limit"


class TokenLimitError(LimitError):
    """The requests of a session took more tokens than they may."""

    kind = "token_limit"


class TimeLimitError(LimitError):
    """A run took longer than it may."""

    kind = "time_limit"


class CostLimitError(LimitError):
    """The requests of a session cost more than they may."""

    kind = "cost_limit"


class LoopError(AlhenaError):
    """The model goes in circles, and went on doing so when it was told."""

    kind = "loop_detected"


class BusyError(AlhenaError):
    """An agent was given a second prompt while it works on the first, or used when closed."""

    kind = "busy"
