"""Errors of checkpoints.

AlhenaError
├── CheckpointError            a snapshot cannot be taken or restored
│   ├── NoGitError             git is not installed
│   ├── GitFailedError         a git command failed
│   ├── LostSnapshotError      the snapshot is missing or damaged
│   ├── HeldRepositoryError    another process uses the repository
│   └── TooMuchError           the files exceed the limits of a snapshot
└── InputError
    └── NoCheckpointError      exit 42: no checkpoint has this name
"""

from alhena.errors import AlhenaError, InputError


class CheckpointError(AlhenaError):
    """A snapshot cannot be taken or restored."""

    kind = "checkpoint"


class NoGitError(CheckpointError):
    """git is not installed."""

    kind = "no_git"


class GitFailedError(CheckpointError):
    """A git command failed."""

    kind = "git"


class TooMuchError(CheckpointError):
    """The files exceed the limits of a snapshot, or git takes too long."""

    kind = "too_much"


class LostSnapshotError(CheckpointError):
    """The snapshot is missing or damaged."""


class HeldRepositoryError(CheckpointError):
    """Another process uses the repository of the checkpoints for too long."""


class NoCheckpointError(InputError):
    """No checkpoint has this name."""

    kind = "checkpoint_not_found"
