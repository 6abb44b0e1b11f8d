"""Errors of runs of many tasks."""

from alhena.agent.limits import LimitError
from alhena.errors import AlhenaError, InputError


class TaskFileError(InputError):
    """Tasks cannot be used. `problems` are lines as `FILE:LINE: FIELD: problem`."""

    page = "batch"

    problems: tuple[str, ...] = ()


class RunDirectoryError(InputError):
    """A run directory cannot be used: it is missing, in use, or something else."""

    page = "batch"


def other_format(place: object, found: object, made_by: str | None) -> RunDirectoryError:
    """The error for a run of a format that this version does not know."""
    maker = f"alhena {made_by}" if made_by else "the version of alhena"
    return RunDirectoryError(
        f"the run in {place} has another format ({found}).",
        remedy=f"Use {maker}{'' if made_by else ' that made it'}.",
    )


class QueueError(AlhenaError):
    """The queue of a run cannot be read or written."""

    kind = "queue"


class ClusterLostError(AlhenaError):
    """The cluster of a run does not answer any more."""

    kind = "cluster_lost"
    page = "batch"


class SharedLimitError(LimitError):
    """A limit shared by all tasks of a run is reached."""

    kind = "shared_limit"


class UnknownPriceError(SharedLimitError):
    """A limit of cost shared by all tasks cannot be kept: a model has no known price."""

    kind = "unknown_price"


class TaskFailedError(AlhenaError):
    """The error of a task, read from its result; `task_kind` is its kind."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.task_kind = kind


class LostLeaseError(AlhenaError):
    """A worker no longer holds its task; another one may."""

    kind = "lost_lease"
