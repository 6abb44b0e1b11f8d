"""Which state of a tool call can follow which (SCHED-01), as data."""

from alhena.scheduler.errors import TransitionError
from alhena.scheduler.states import Status

TERMINAL = frozenset({Status.SUCCESS, Status.ERROR, Status.CANCELLED})
"""A call that is in one of these stays there."""

TRANSITIONS: dict[Status | None, frozenset[Status]] = {
    # What cannot be built never validates; what is cancelled while queued was never built.
    None: frozenset({Status.VALIDATING, Status.ERROR, Status.CANCELLED}),
    Status.VALIDATING: frozenset(
        {Status.SCHEDULED, Status.AWAITING_APPROVAL, Status.ERROR, Status.CANCELLED}
    ),
    # What a person has changed is shown once more. An approval that cannot be had ends in an error.
    Status.AWAITING_APPROVAL: frozenset(
        {Status.AWAITING_APPROVAL, Status.SCHEDULED, Status.ERROR, Status.CANCELLED}
    ),
    Status.SCHEDULED: frozenset({Status.EXECUTING, Status.CANCELLED}),
    # A running call enters its state again when it learns the id of its process. A call that a hook
    # puts in the place of one that has run is validated as any other.
    Status.EXECUTING: frozenset(
        {
            Status.EXECUTING,
            Status.VALIDATING,
            Status.SUCCESS,
            Status.ERROR,
            Status.CANCELLED,
        }
    ),
    Status.SUCCESS: frozenset(),
    Status.ERROR: frozenset(),
    Status.CANCELLED: frozenset(),
}
"""From (None: not there yet) -> to."""


def advance(old: Status | None, new: Status) -> Status:
    """`new`, when it can follow `old`; raises TransitionError when it cannot."""
    if new not in TRANSITIONS[old]:
        raise TransitionError(f"a tool call cannot go from {old or 'nothing'} to {new}")
    return new
