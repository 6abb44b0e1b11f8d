"""How the scheduler can be used wrongly. A call that fails is a result, never one of these."""

from alhena.errors import AlhenaError


class SchedulerError(AlhenaError):
    """The scheduler was asked for something it cannot do."""

    kind = "scheduler"


class TransitionError(SchedulerError):
    """A tool call cannot go from one state to the other: a defect of the caller."""

    kind = "transition"


class ConfirmationError(SchedulerError):
    """An answer that no waiting call can take; whatever waited is still waiting."""

    kind = "confirmation"
