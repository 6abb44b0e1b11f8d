"""What stands for protected paths that are absent, so that commands cannot make them.

A mount needs something to be put on, so an empty directory (or file) is made in the workspace and
taken away again with the sandbox. Each one is locked, shared, for as long as a session needs it:
the last session takes it away, and what a user made stays.
"""

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from alhena.system.errors import SandboxError, printable
from alhena.system.sandbox.model import Filler, Protected

_CONTENT = {Filler.EMPTY_FILE: b"", Filler.SAME_DIRECTORY: b".\n"}


class Placeholders:
    """Those of one session."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, Filler]] = {}

    def fill(self, protected: Iterable[Protected]) -> None:
        """Makes what is absent. Raises SandboxError where that fails and a command might not.

        Where permissions forbid it they forbid it to commands too.
        """
        for item in protected:
            if item.filler is None or self._stands(item.path):
                continue
            try:
                made = _made(item.path, item.filler)
            except (PermissionError, FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                if error.errno == errno.EROFS:
                    continue
                raise SandboxError(
                    f"the sandbox cannot protect {printable(item.path)}: {error.strerror}."
                ) from error
            if made or _is_empty(item.path, item.filler):
                self._hold(item.path, item.filler, made=made)

    def close(self) -> None:
        """Takes away what no other session needs."""
        for path, (descriptor, filler) in self._held.items():
            if _lock(descriptor, exclusive=True) and _is_same(path, descriptor):
                _remove(path, filler)
            os.close(descriptor)
        self._held.clear()

    def _stands(self, path: str) -> bool:
        held = self._held.get(path)
        if held is None:
            return False
        if _is_same(path, held[0]):
            return True
        os.close(held[0])
        del self._held[path]
        return False

    def _hold(self, path: str, filler: Filler, *, made: bool) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # unreadable, or gone again: not ours to take away
            return
        # An empty one that nobody has locked is the user's; a file with a dot nobody else makes,
        # it is left of a session that was killed.
        ours = made or filler is Filler.SAME_DIRECTORY
        if not ours and _lock(descriptor, exclusive=True):
            os.close(descriptor)
            return
        _lock(descriptor, exclusive=False)
        self._held[path] = (descriptor, filler)


def _made(path: str, filler: Filler) -> bool:
    """Makes it; false when something stands there."""
    try:
        if filler is Filler.DIRECTORY:
            os.mkdir(path)
            return True
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return False
    try:
        os.write(descriptor, _CONTENT[filler])
    finally:
        os.close(descriptor)
    return True


def _is_empty(path: str, filler: Filler) -> bool:
    """Whether what stands there is what would be made."""
    try:
        status = os.lstat(path)
        if filler is Filler.DIRECTORY:
            return stat.S_ISDIR(status.st_mode) and not os.listdir(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size != len(_CONTENT[filler]):
            return False
        with open(path, "rb") as file:
            return file.read() == _CONTENT[filler]
    except OSError:
        return False


def _remove(path: str, filler: Filler) -> None:
    with suppress(OSError):  # somebody has put something into it
        if filler is Filler.DIRECTORY:
            os.rmdir(path)
        elif _is_empty(path, filler):
            os.unlink(path)


def _is_same(path: str, descriptor: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def _lock(descriptor: int, *, exclusive: bool) -> bool:
    """Whether it was to be had. A file system without locks has it for everybody."""
    import fcntl

    kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
