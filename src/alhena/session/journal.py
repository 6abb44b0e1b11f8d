"""The file of one session: append-only, written by one process, read as far as it can be trusted.

What is appended is written at once, what is added with the next `write`, so that a process that is
killed loses nothing of it; `sync` brings it to the disk, so that a machine that stops does not
either. What cannot be written is kept and tried again with the next record or `sync`, and until
then the file ends with a whole line.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from alhena.session.records import (
    Header,
    HeldSessionError,
    JournalError,
    KnownRecord,
    NoSessionError,
    SessionError,
    damaged_name,
    line_checksum,
    line_of,
    record_of,
)
from alhena.system.errors import WriteFailureError, from_os_error, printable
from alhena.system.files import (
    CREATE,
    alone_on,
    require_regular,
    synchronise,
    synchronise_directory,
)

_PIECE = 1 << 20
_HEADER = 1 << 16
_BEGIN = b'{"type":"'


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a journal that cannot be trusted: `size` bytes from `offset`. `torn`: it is one
    line that was not written to its end, and nothing that was there before is gone."""

    offset: int
    size: int
    line: int
    torn: bool = False


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """The valid part of a journal: `end` bytes; `chain` is the checksum of the last line. Not
    `ended`: that line lacks its newline."""

    end: int
    chain: int
    lines: int
    ended: bool = True
    damage: Damage | None = None


Take = Callable[[bytes], object]
"""Is given a sound line. What is true says that it has seen enough; msgspec.DecodeError that the
line is unsound all the same."""


def scan(file: BinaryIO, take: Take) -> Extent:
    """Gives each sound line, without its end, to `take`, up to the first that is not. Raises
    OSError."""
    end, chain, lines, ended = file.tell(), 0, 0, True
    while True:
        line = _next_line(file)
        if line == b"":
            return Extent(end=end, chain=chain, lines=lines, ended=ended)
        found, enough = None, False
        if line is not None:
            body = line.removesuffix(b"\n").removesuffix(b"\r")
            found = line_checksum(body, chain)
            if found is not None:
                try:
                    enough = bool(take(body))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    found = None
        if line is None or found is None:
            size = file.seek(0, 2)
            torn = line is not None and not line.endswith(b"\n")
            damage = Damage(offset=end, size=size - end, line=lines + 1, torn=torn)
            return Extent(end=end, chain=chain, lines=lines, ended=ended, damage=damage)
        end, chain, lines, ended = end + len(line), found, lines + 1, line.endswith(b"\n")
        if enough:
            return Extent(end=end, chain=chain, lines=lines, ended=ended)


def read_session(path: Path, take: Take) -> Extent:
    """As `scan`, for the file of a session. Raises NoSessionError, SessionError."""
    try:
        with path.open("rb", buffering=_PIECE) as file:
            return scan(file, take)
    except FileNotFoundError as error:
        raise NoSessionError(f"there is no session in {printable(path)}.") from error
    except RecursionError as error:
        raise SessionError(
            f"the session in {printable(path)} cannot be read: a line of it is nested too deeply.",
            remedy="The file was left as it is; name another session.",
        ) from error
    except OSError as error:
        raise SessionError(str(from_os_error(error, path))) from error


def is_begun(path: Path) -> bool:
    """True when a file begins as the journal of a session does: with a sound header. What cannot be
    read does not."""
    try:
        with path.open("rb") as file:
            line = file.readline(_HEADER).removesuffix(b"\n").removesuffix(b"\r")
    except OSError:
        return False
    try:
        return line_checksum(line, 0) is not None and isinstance(record_of(line), Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def is_torn(path: Path) -> bool:
    """True when a file holds nothing but the beginning of one line, as the `torn` end of a journal
    does. Raises OSError."""
    with path.open("rb") as file:
        line = _next_line(file)
    return bool(line) and not line.endswith(b"\n")


def _next_line(file: BinaryIO) -> bytes | None:
    """The next line with its end, b"" behind the last one; None for what can be no line. What a
    crash of the machine leaves (a long run of NULs) is not read to its end."""
    piece = file.readline(_PIECE)
    if piece.endswith(b"\n") or piece == b"":
        return piece
    if piece[: len(_BEGIN)] != _BEGIN[: len(piece)]:
        return None
    pieces = [piece]
    while piece and not piece.endswith(b"\n"):
        if b"\0" in piece:
            return None
        piece = file.readline(_PIECE)
        pieces.append(piece)
    return b"".join(pieces)


_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_COPY = 1 << 20


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The calls by which a journal is written. Each may raise OSError."""

    write: Callable[[int, bytes], int] = os.write
    truncate: Callable[[int, int], None] = os.ftruncate
    synchronise: Callable[[int], None] = synchronise


class Journal:
    """Appends records to an open, locked file. One thread appends; `synchronise` may be called in
    another one."""

    def __init__(
        self, descriptor: int, path: Path, extent: Extent, hold: ExitStack, disk: Disk
    ) -> None:
        """`extent`: what is in the file, all of it sound. `hold` is closed with the journal."""
        self.path = path
        self._descriptor = descriptor
        self._hold = hold
        self._disk = disk
        self._chain = extent.chain
        self._end = extent.end  # what is whole in the file
        self._total = extent.end  # with what has yet to be written
        self._pending: deque[bytes] = deque()
        self._unsynced: deque[tuple[int, bytes]] = deque()
        self._synced = extent.end
        self._torn = False
        self._lost = False
        self._astray = False
        self._named = True
        self._syncing = threading.Lock()
        if not extent.ended:
            self._pending.append(b"\n")
            self._total += 1

    @classmethod
    def create(cls, path: Path, disk: Disk | None = None) -> "Journal":
        """A new, empty journal that only its owner may read; its directory exists. Raises
        JournalError, HeldSessionError."""
        with ExitStack() as hold:
            try:
                descriptor = os.open(path, CREATE | os.O_APPEND, 0o600)
                hold.callback(os.close, descriptor)
                _hold(descriptor, path, hold)
            except OSError as error:
                raise _write_error(error, path) from error
            empty = Extent(end=0, chain=0, lines=0)
            journal = cls(descriptor, path, empty, hold.pop_all(), disk or Disk())
            journal._named = False
            return journal

    @classmethod
    def reopen(
        cls, path: Path, read: Callable[[Path], Extent], disk: Disk | None = None
    ) -> "tuple[Journal, Extent, Path | None]":
        """Continues a journal. `read` is called once no other process can write it, and says how
        far it can be trusted; what follows is moved to a file beside it, whose path is returned.
        Raises JournalError, HeldSessionError and what `read` raises."""
        with ExitStack() as hold:
            try:
                descriptor = os.open(path, _APPEND)
                hold.callback(os.close, descriptor)
                require_regular(os.fstat(descriptor), path)
                _hold(descriptor, path, hold)
                extent = read(path)
                moved = (
                    None
                    if extent.damage is None
                    else _set_aside(descriptor, path, extent, disk or Disk())
                )
            except OSError as error:
                raise _write_error(error, path) from error
            return cls(descriptor, path, extent, hold.pop_all(), disk or Disk()), extent, moved

    def append(self, record: KnownRecord) -> None:
        """Writes a record. Raises JournalError when it cannot be written yet; it will be tried
        again."""
        self.add(record)
        self.write()

    def add(self, record: KnownRecord) -> None:
        """Takes a record that the next `write` writes with all others that wait."""
        line, self._chain = line_of(record, self._chain)
        self._pending.append(line)
        self._total += len(line)

    def write(self) -> None:
        """Writes what is left to be written. Raises JournalError, also when the file is not what
        was written to it: then nothing is added to it."""
        try:
            sure = not (self._torn or self._lost)
            end = self._synced if self._lost else self._end
            self._require_own(os.fstat(self._descriptor), end, exact=sure)
            if self._lost:
                self._again()
            if self._torn:
                self._disk.truncate(self._descriptor, self._end)
                self._torn = False
            if self._pending:
                self._write_pending()
        except OSError as error:
            self._tear()
            raise _write_error(error, self.path) from error

    @property
    def settled(self) -> bool:
        """True when all that was appended is on the disk."""
        return self._synced == self._total and not self._torn and not self._lost

    @property
    def doubtful(self) -> bool:
        """True when what was written may not be on the disk, or not whole in the file."""
        return self._lost or self._torn or self._astray

    @property
    def waiting(self) -> bool:
        """True when there are records that have yet to be written."""
        return bool(self._pending)

    def synchronise(self) -> None:
        """Brings what is written to the disk. Raises JournalError; then it will be written again,
        since its outcome is unknown."""
        with self._syncing:
            mark = self._end
            if mark == self._synced:
                return
            self._require_place(mark)
            try:
                self._disk.synchronise(self._descriptor)
            except OSError as error:
                self._lost = True
                raise _write_error(error, self.path) from error
            if not self._named:
                _synchronise_name(self.path)
                self._named = True
            self._synced = mark
            while self._unsynced and self._unsynced[0][0] <= mark:
                self._unsynced.popleft()

    def sync(self) -> None:
        """Has everything on the disk when it returns. Raises JournalError."""
        self.write()
        self.synchronise()

    def close(self) -> None:
        """Brings everything to the disk and lets the file go. Raises JournalError; the file is let
        go all the same."""
        with self._hold:
            self.sync()

    def drop(self) -> None:
        """Lets the file go as it is."""
        self._hold.close()

    def _require_place(self, mark: int) -> None:
        """Raises JournalError unless the file still has its name and the first `mark` bytes."""
        self._astray = True
        try:
            own = os.fstat(self._descriptor)
            self._require_own(own, mark, exact=False)
            found = os.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing_file_error(self.path, "its file was removed or moved") from error
        except OSError as error:
            raise _write_error(error, self.path) from error
        if not os.path.samestat(own, found):
            raise _missing_file_error(self.path, "something else has taken its place")
        self._astray = False

    def _require_own(self, status: os.stat_result, end: int, *, exact: bool) -> None:
        """Raises JournalError unless the file has a name, and ends at `end` or (not `exact`)
        after it, where another thread may be writing."""
        if status.st_nlink == 0:
            raise _missing_file_error(self.path, "its file was removed")
        size = status.st_size
        if size < end or (exact and size > end):
            raise JournalError(
                f"the session cannot be recorded: another program has changed "
                f"{printable(self.path)}, which has {size} bytes instead of {end}.",
                remedy=f"What is left of it: alhena --resume {self.path.stem}.",
            )

    def _write_pending(self) -> None:
        rest = memoryview(b"".join(self._pending))
        while rest:
            # Until all of it is there, what is there of it is to be cut off again.
            self._torn = True
            rest = rest[self._disk.write(self._descriptor, bytes(rest)) :]
        self._torn = False
        while self._pending:
            line = self._pending.popleft()
            self._end += len(line)
            self._unsynced.append((self._end, line))

    def _tear(self) -> None:
        """Cuts off what was written of a line, if that can be done now."""
        if self._torn:
            with suppress(OSError):  # it is tried again before anything else is written
                self._disk.truncate(self._descriptor, self._end)
                self._torn = False

    def _again(self) -> None:
        """Queues the lines again that may not have reached the disk."""
        with self._syncing:
            lines = [line for end, line in self._unsynced if end > self._synced]
            self._pending.extendleft(reversed(lines))
            self._unsynced.clear()
            self._end = self._synced
            self._torn, self._lost = True, False


def _hold(descriptor: int, path: Path, hold: ExitStack) -> None:
    try:
        hold.enter_context(alone_on(descriptor, path, patience_s=0))
    except WriteFailureError as error:
        raise HeldSessionError(
            "This session is open in another terminal.",
            remedy="End that one first, or name another session.",
        ) from error


def _set_aside(descriptor: int, path: Path, extent: Extent, disk: Disk) -> Path:
    """Moves the end of a journal that cannot be trusted to a file beside it. Raises OSError, and
    then everything is as it was: nothing is cut off before the copy of it is on the disk."""
    aside, copy = _new_beside(path)
    try:
        offset = extent.end
        while data := os.pread(descriptor, _COPY, offset):
            rest = memoryview(data)
            while rest:
                rest = rest[disk.write(copy, bytes(rest)) :]
            offset += len(data)
        disk.synchronise(copy)
        _synchronise_name(aside)
        disk.truncate(descriptor, extent.end)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    finally:
        os.close(copy)
    disk.synchronise(descriptor)
    return aside


def _new_beside(path: Path) -> tuple[Path, int]:
    number = 1
    while True:
        aside = path.with_name(damaged_name(path.stem, number))
        try:
            return aside, os.open(aside, CREATE, 0o600)
        except FileExistsError:
            number += 1


def _synchronise_name(path: Path) -> None:
    with suppress(OSError):
        directory = os.open(path.parent, _DIRECTORY)
        try:
            synchronise_directory(directory)
        finally:
            os.close(directory)


def unwritable(error: OSError, path: str | Path) -> str:
    """The reason why a file of sessions cannot be written, as the end of a sentence without its
    full stop."""
    said = from_os_error(error, path, writing=True).message
    return said.removesuffix("; the old content was kept.").rstrip(".")


def _write_error(error: OSError, path: Path) -> JournalError:
    return JournalError(
        f"the session cannot be recorded: {unwritable(error, path)}. What was recorded before "
        "is kept.",
        remedy=f"When that is mended: alhena --resume {path.stem}.",
    )


def _missing_file_error(path: Path, how: str) -> JournalError:
    return JournalError(
        f"the session cannot be recorded: {how} while it was at work: {printable(path)}.",
        remedy="Put the file back in its place, or begin another session.",
    )
