"""Errors of session journals; those of checkpoints are in `session.checkpoints.errors`.

AlhenaError
├── JournalError               the journal cannot be written: the run ends
└── InputError
    └── SessionError           exit 42: the named session cannot be used
        ├── NoSessionError     no session has this id
        ├── NoTagError         no conversation is saved under this name
        ├── TakenTagError      the name is in use and was not to be replaced
        ├── ForeignError       the session or checkpoint belongs to another project
        └── HeldSessionError   another process writes the session
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
