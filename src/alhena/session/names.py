"""Which names are those of sessions, and of what belongs to one."""

import re

SUFFIX = ".jsonl"

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,199}")
_MADE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAKEN = frozenset({"checkpoints", "sessions", "tags", "tool-outputs"})
"""Directories of a project's own, beside those that bear the names of sessions."""


def session_of(file_name: str) -> str | None:
    """The id of the session whose journal has this name; None when it is no session's."""
    session_id = file_name.removesuffix(SUFFIX)
    return session_id if session_id != file_name and is_session_id(session_id) else None


def is_session_id(name: str) -> bool:
    """Whether a session can have this id: letters, digits, `_` and `-`, and nothing that a path
    or a pattern could mean something else by."""
    return _PLAIN.fullmatch(name) is not None and name.lower() not in _TAKEN


def is_made_id(name: str) -> bool:
    """Whether the id is one that sessions are given when they begin: a UUID, which nobody takes
    for a directory of another kind."""
    return _MADE.fullmatch(name) is not None


def damaged_name(session_id: str, number: int) -> str:
    """The file that holds the `number`-th damaged end of a session."""
    return f"{session_id}.damaged-{number}"


def is_damaged_end(file_name: str, session_id: str) -> bool:
    """Whether a file holds a damaged end of that session."""
    head, mark, number = file_name.rpartition(".damaged-")
    return bool(mark) and head == session_id and number.isascii() and number.isdecimal()
