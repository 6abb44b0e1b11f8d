"""The sessions of a project: which there are, which one is meant, and how one is removed."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.config.home import project_checkpoints
from alhena.session.errors import (
    CheckpointError,
    HeldSessionError,
    JournalError,
    NoSessionError,
    SessionError,
)
from alhena.session.journal import Disk, Journal
from alhena.session.names import (
    SUFFIX,
    is_damaged_end,
    is_made_id,
    is_session_id,
    session_of,
)
from alhena.session.reading import Extent, read_session
from alhena.session.records import VERSION, Continued, Header, Prompted, now, record_of
from alhena.session.replay import Replay
from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import require_regular

LATEST = "latest"

_HEAD = 1 << 18
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_TITLE = 100
_DIGITS_OF_AN_ID = 8


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it. `title` is the beginning of its first prompt; `started` is in
    ISO form, `updated` seconds since 1970, `size` bytes."""

    session_id: str
    title: str
    started: str
    updated: float
    size: int
    path: str


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """A session that goes on. `moved`: what was damaged of its record is in this file now."""

    journal: Journal
    replay: Replay
    extent: Extent
    moved: Path | None


class SessionStore:
    """The journals of one project, each a file `ID.jsonl` in `directory`, which need not exist.

    `beside` are directories that hold what else belongs to a session, in one that is called by a
    prefix and the session's id; `checkpoints` is where those of all sessions are.
    """

    def __init__(
        self,
        directory: Path,
        beside: tuple[tuple[Path, str], ...] = (),
        checkpoints: Path | None = None,
    ) -> None:
        self.directory = directory
        self._beside = beside
        self._checkpoints = checkpoints

    def path(self, session_id: str) -> Path:
        """Where the journal of a session is, or would be."""
        return self.directory / f"{session_id}{SUFFIX}"

    def files(self) -> list[tuple[Path, os.stat_result]]:
        """The journals that there are. Raises SessionError."""
        found: list[tuple[Path, os.stat_result]] = []
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if session_of(entry.name) is None:
                        continue
                    with suppress(FileNotFoundError):  # it has gone meanwhile
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(status.st_mode):
                            found.append((Path(entry.path), status))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SessionError(str(from_os_error(error, self.directory))) from error
        return found

    def summaries(self) -> tuple[SessionSummary, ...]:
        """The sessions in the order in which they began. One whose first records are damaged has
        neither time nor title; one that was killed before it wrote anything is none. Raises
        SessionError."""
        found = [_summary(path, status) for path, status in self.files() if status.st_size]
        return tuple(sorted(found, key=lambda item: (item.started, item.session_id)))

    def find(self, name: str) -> SessionSummary:
        """The session that is meant: `latest` (the one that was last at work), its number in
        `summaries` from 1, its id, or the beginning of its id. Fewer than eight digits are always
        a number, so that no number past the last one reaches a session whose id happens to begin
        with it. Raises NoSessionError."""
        found = self.summaries()
        if not found:
            raise NoSessionError(
                "there are no sessions of this project.", remedy="Begin one with alhena."
            )
        if name == LATEST:
            return max(found, key=lambda item: item.updated)
        for item in found:
            if item.session_id == name:
                return item
        if name.isdecimal() and 1 <= int(name) <= len(found):
            return found[int(name) - 1]
        begins = bool(name) and not (name.isdecimal() and len(name) < _DIGITS_OF_AN_ID)
        near = [item for item in found if item.session_id.startswith(name)] if begins else []
        if len(near) == 1:
            return near[0]
        problem = f"{len(near)} sessions begin with" if near else "no session is called"
        raise NoSessionError(
            f"{problem} {name!r}. Searched for sessions in {printable(self.directory)}.",
            remedy="See `alhena sessions list`; name one by its number or id, or say `latest`.",
        )

    def resume(self, name: str, writer: str, disk: Disk | None = None) -> Resumed:
        """Opens the session that `name` means to go on with it. Raises SessionError,
        HeldSessionError, JournalError."""
        path = Path(self.find(name).path)
        replay = Replay()

        def read(path: Path) -> Extent:
            extent = read_session(path, replay.feed)
            require_readable(path, replay.header)
            return extent

        journal, extent, moved = Journal.reopen(path, read, disk)
        replay.incomplete = extent.damage is not None and not extent.damage.torn
        dropped = 0 if extent.damage is None else extent.damage.size
        name = "" if moved is None else moved.name
        try:
            journal.append(Continued(at=now(), writer=writer, dropped=dropped, moved_to=name))
        except JournalError:
            journal.drop()
            raise
        return Resumed(journal=journal, replay=replay, extent=extent, moved=moved)

    def delete(self, session_id: str) -> None:
        """Removes a session and what belongs to it. Raises HeldSessionError while another process
        is at work on it, and SessionError."""
        if not is_session_id(session_id):
            raise NoSessionError(f"there is no session {session_id!r}.")
        path = self.path(session_id)
        try:
            descriptor = os.open(path, _LOOK)
            try:
                require_regular(os.fstat(descriptor), path)
                _require_free(descriptor, path)
                self._remove_damaged_ends(session_id)
                path.unlink()
            finally:
                os.close(descriptor)
        except FileNotFoundError as error:
            raise NoSessionError(f"there is no session {session_id}.") from error
        except FileError as error:
            raise SessionError(str(error)) from error
        except OSError as error:
            raise SessionError(str(from_os_error(error, path, writing=True))) from error
        self._remove_beside(session_id)

    def _remove_damaged_ends(self, session_id: str) -> None:
        with os.scandir(self.directory) as entries:
            gone = [entry.path for entry in entries if is_damaged_end(entry.name, session_id)]
        for path in gone:
            with suppress(FileNotFoundError):
                os.unlink(path)

    def _remove_beside(self, session_id: str) -> None:
        import shutil

        for directory, prefix in self._beside:
            if not (prefix or is_made_id(session_id)):
                continue  # other directories of the project stand there as well
            found = directory / f"{prefix}{session_id}"
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found, ignore_errors=True)
        if self._checkpoints is not None and self._checkpoints.is_dir():
            from alhena.session.checkpoints import CheckpointFiles

            with suppress(CheckpointError):  # as with the rest of what belongs to a session
                CheckpointFiles(self._checkpoints).remove_session(session_id)


def open_store(temp: Path) -> SessionStore:
    """The sessions of the project whose temporary directory this is."""
    beside = ((temp / "tool-outputs", "session-"), (temp, ""))
    return SessionStore(temp / "sessions", beside, project_checkpoints(temp))


def require_readable(path: Path, header: Header | None) -> Header:
    """The header of a journal that this version can read. Raises SessionError."""
    if header is None:
        raise SessionError(
            f"the session in {printable(path)} cannot be read: its beginning is damaged.",
            remedy="The file was left as it is; name another session.",
        )
    if header.version > VERSION:
        raise SessionError(
            f"the session in {printable(path)} was written by a later version ({header.writer}).",
            remedy="Go on with that one; the file was left as it is.",
        )
    return header


def _require_free(descriptor: int, path: Path) -> None:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HeldSessionError(
            f"the session of {printable(path)} is in use by another process.",
            remedy="End that one first.",
        ) from error


def _summary(path: Path, status: os.stat_result) -> SessionSummary:
    """Reads no further than to the first prompt."""
    header: Header | None = None
    title = ""
    seen = 0

    def take(line: bytes) -> bool:
        nonlocal header, title, seen
        seen += len(line)
        record = record_of(line)
        if isinstance(record, Header):
            header = record
        elif isinstance(record, Prompted):
            title = " ".join(record.text[: 10 * _TITLE].split())[:_TITLE]
            return True
        return seen > _HEAD

    # One that cannot be read, or has gone meanwhile, is shown with what its name says.
    with suppress(SessionError):
        read_session(path, take)
    return SessionSummary(
        session_id=path.name.removesuffix(SUFFIX),
        title=title,
        started="" if header is None else header.at,
        updated=status.st_mtime,
        size=status.st_size,
        path=str(path),
    )
