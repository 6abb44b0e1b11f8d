"""What can go wrong with the record of a session.

AlhenaError
├── JournalError               a record cannot be written: the run ends
├── InputError
│   └── SessionError           exit 42: a session that was named cannot be used
│       ├── NoSessionError     there is none
│       └── HeldSessionError   another process writes it
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
