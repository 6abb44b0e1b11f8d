"""What can go wrong with the record of a session, and with its checkpoints.

AlhenaError
├── JournalError               a record cannot be written: the run ends
├── CheckpointError            files cannot be kept, or not be put back
│   ├── NoGitError             there is no git
│   ├── GitFailedError         a git command has failed
│   └── TooMuchError           there is more than can be kept
└── InputError
    ├── SessionError           exit 42: a session that was named cannot be used
    │   ├── NoSessionError     there is none
    │   └── HeldSessionError   another process writes it
    └── NoCheckpointError      exit 42: no checkpoint has this name
"""

from alhena.errors import AlhenaError, InputError


class JournalError(AlhenaError):
    """The record of the session cannot be written, so nothing more is done that it would lack."""

    kind = "journal"


class SessionError(InputError):
    """A session that was named cannot be used."""

    kind = "session"


class NoSessionError(SessionError):
    """No session has this name."""

    kind = "session_not_found"


class HeldSessionError(SessionError):
    """Another process is at work on the session."""

    kind = "session_in_use"


class CheckpointError(AlhenaError):
    """The state of the files cannot be kept, or not be put back."""

    kind = "checkpoint"


class NoGitError(CheckpointError):
    """There is no git, so there are no checkpoints."""

    kind = "no_git"


class GitFailedError(CheckpointError):
    """A git command has failed."""

    kind = "git"


class TooMuchError(CheckpointError):
    """There is more than can be kept: too many files, too large, or for too long a time."""

    kind = "too_much"


class NoCheckpointError(InputError):
    """No checkpoint has this name."""

    kind = "checkpoint_not_found"
