"""Files on their way into another's place, and what is left of them when their writer was killed.

A writer holds the lock of its temporary file until the file has its place. The lock ends with the
process, so one that is free tells of a writer that is gone; where there are no locks nothing tells.
"""

import os
import re
import stat
import time
from contextlib import suppress

TEMPORARY = re.compile(r"\.alhena-[0-9a-f]{16}\.tmp")
_AGE_S = 60.0
"""How old one has to be: a new file is there for a moment before its lock is held."""

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def temporary_name() -> str:
    """A name for a file that will have another one."""
    return f".alhena-{os.urandom(8).hex()}.tmp"


def is_temporary(name: str) -> bool:
    """Whether a file of this name is one on its way, which concerns nobody else."""
    return name.startswith(".alhena-") and TEMPORARY.fullmatch(name) is not None


def hold(descriptor: int) -> None:
    """Shows for as long as the file is open that its writer lives, where there are locks."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_leftovers(directory: int) -> None:
    """Takes away this user's temporary files in an open directory whose writers are gone. What
    cannot be looked at or removed stays."""
    with suppress(OSError):
        # By "." and not by the descriptor, which may be for going through only.
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            names = [name for name in os.listdir(listed) if is_temporary(name)]
        finally:
            os.close(listed)
        for name in names:
            with suppress(OSError):
                _remove_if_left(directory, name)


def _remove_if_left(directory: int, name: str) -> None:
    import fcntl

    descriptor = os.open(name, _OPEN, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        mine = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if mine and time.time() - status.st_mtime > _AGE_S:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(descriptor)
