"""Errors of session journals and checkpoints.

AlhenaError
├── JournalError               the journal cannot be written: the run ends
├── CheckpointError            a snapshot cannot be taken or restored
│   ├── NoGitError             git is not installed
│   ├── GitFailedError         a git command failed
│   ├── LostMomentError        the snapshot is missing or damaged
│   ├── HeldShadowError        another process uses the shadow repository
│   └── TooMuchError           the files exceed the limits of a snapshot
└── InputError
    ├── SessionError           exit 42: the named session cannot be used
    │   ├── NoSessionError     no session has this id
    │   ├── NoTagError         no conversation is saved under this name
    │   ├── TakenTagError      the name is in use and was not to be replaced
    │   ├── ForeignError       the session or checkpoint belongs to another project
    │   └── HeldSessionError   another process writes the session
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


class NoTagError(SessionError):
    """No conversation is saved under this name."""

    kind = "tag_not_found"


class TakenTagError(SessionError):
    """A conversation is saved under this name already."""

    kind = "tag_taken"


class ForeignError(SessionError):
    """A session or a checkpoint is another project's."""

    kind = "session_of_another_project"


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


class LostMomentError(CheckpointError):
    """The snapshot is missing or damaged."""


class HeldShadowError(CheckpointError):
    """Another process is at work on a shadow repository, and does not come to an end."""


class NoCheckpointError(InputError):
    """No checkpoint has this name."""

    kind = "checkpoint_not_found"
