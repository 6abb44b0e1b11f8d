"""The sessions of a project: listed, found by name, kept and removed by age."""

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import msgspec

from alhena.config.home import project_checkpoints, project_temp
from alhena.config.settings import SessionRetention, Settings
from alhena.errors import ConfigError
from alhena.events import Event, WarningEvent
from alhena.session.journal import Disk, Extent, Journal, is_begun, is_torn, read_session
from alhena.session.records import (
    SUFFIX,
    VERSION,
    Continued,
    Header,
    HeldSessionError,
    JournalError,
    NoSessionError,
    Prompted,
    SessionError,
    is_damaged_end,
    is_made_id,
    is_session_id,
    now,
    record_of,
    session_of,
    title_of,
)
from alhena.session.replay import Replay
from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import require_regular

if TYPE_CHECKING:
    from alhena.session.adopting import Ownership

LATEST = "latest"
_HEAD = 1 << 18
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_DIGITS_OF_AN_ID = 8


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A session as a list shows it. `title` is the beginning of its first prompt; `started` is in
    ISO form, `updated` seconds since 1970, `size` bytes. `project` is what its header says,
    `forked_from` the session it is a fork of."""

    session_id: str
    title: str
    project: str
    started: str
    updated: float
    size: int
    path: str
    forked_from: str = ""


class Listed(msgspec.Struct, frozen=True):
    """The sessions of a project in the order in which they began. `foreign` are those that say that
    they are another project's."""

    sessions: tuple[SessionSummary, ...]
    foreign: tuple[SessionSummary, ...]


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """A resumed session. `extent`: its record before that."""

    journal: Journal
    replay: Replay
    extent: Extent


class SessionStore:
    """The journals of one project, each a file `ID.jsonl` in `directory`, which need not exist.

    `beside` are directories that hold what else belongs to a session, in one that is called by a
    prefix and the session's id; `checkpoints` is where those of all sessions are. `owner` tells
    them from those of other projects that have come to be among them.
    """

    def __init__(
        self,
        directory: Path,
        beside: tuple[tuple[Path, str], ...] = (),
        checkpoints: Path | None = None,
        owner: "Ownership | None" = None,
    ) -> None:
        self.directory = directory
        self._owner = owner
        self._beside = beside
        self._checkpoints = checkpoints

    def path(self, session_id: str) -> Path:
        """Path of a session's journal, existing or not."""
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

    def list_sessions(self) -> Listed:
        """Lists the sessions. Skips those that wrote nothing. A session whose first records are
        damaged has neither time nor title and is recognised by a generated id only. Raises
        SessionError."""
        found: list[SessionSummary] = []
        foreign: list[SessionSummary] = []
        for path, status in self.files():
            if not status.st_size:
                continue
            item, begun = _summary(path, status)
            if not (begun or is_made_id(item.session_id)):
                continue
            if self._owner is None or self._owner.has(item.project):
                found.append(item)
            else:
                foreign.append(item)
        for each in (found, foreign):
            each.sort(key=lambda item: (item.started, item.session_id))
        return Listed(tuple(found), tuple(foreign))

    def summaries(self) -> tuple[SessionSummary, ...]:
        """The sessions of `listed`. Raises SessionError."""
        return self.list_sessions().sessions

    def find(self, name: str) -> SessionSummary:
        """The session that is meant: `latest` (the one that was last at work), its number in
        `summaries` from 1, its id, or the beginning of its id. Fewer than eight digits are always a
        number, so that no number past the last one reaches a session whose id happens to begin with
        it. One of another project goes by its whole id alone. Raises SessionError."""
        listed = self.list_sessions()
        found = listed.sessions
        for item in (*listed.foreign, *found):
            if item.session_id == name:
                return item
        if name != LATEST and is_session_id(name) and _has_content(self.path(name)):
            raise NoSessionError(
                f"{printable(self.path(name))} does not begin as a session does: it is something "
                "else, or its beginning is damaged.",
                remedy="The file was left as it is.",
            )
        if not found:
            raise NoSessionError(
                "there are no sessions of this project.", remedy="Begin one with alhena."
            )
        if name == LATEST:
            return max(found, key=lambda item: item.updated)
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

    def require_new(self, session_id: str) -> None:
        """Raises SessionError for what can be no id of a new session, or is that of another."""
        if not is_session_id(session_id) or session_id == LATEST:
            raise SessionError(
                f"{printable(session_id)!r} is no id for a session.",
                remedy="Use letters, digits, - and _, beginning with a letter or a digit.",
            )
        if os.path.lexists(self.path(session_id)):
            raise SessionError(
                f"there is a session {session_id} already.",
                remedy=f"Continue with it by --resume {session_id}, or give another id.",
            )

    def resume(self, name: str, writer: str, disk: Disk | None = None) -> Resumed:
        """Opens the session `name` to resume it. Raises SessionError, ForeignError
        for one of another project, HeldSessionError, JournalError."""
        item = self.find(name)
        path = Path(item.path)
        replay = Replay()

        def read(path: Path) -> Extent:
            extent = read_session(path, replay.feed)
            header = require_readable(path, replay.header)
            if self._owner is not None:
                self._owner.require(header.project, f"the session {item.session_id}")
            return extent

        journal, extent, _ = Journal.reopen(path, read, disk)
        try:
            for record in self._continuation_records(item.session_id, writer, replay):
                journal.add(record)
                replay.take(record)
            journal.write()
        except JournalError:
            journal.drop()
            raise
        except OSError as error:
            journal.drop()
            raise SessionError(str(from_os_error(error, path))) from error
        return Resumed(journal=journal, replay=replay, extent=extent)

    def _continuation_records(
        self, session_id: str, writer: str, replay: Replay
    ) -> Iterator[Continued]:
        """Records for a run that continues another. A damaged end the journal does not mention was
        moved just now, or by a run that stopped there. Raises OSError."""
        for name in self._damaged_ends(session_id):
            path = self.directory / name
            size = path.stat().st_size
            if size and name not in replay.moved:
                torn = is_torn(path)
                yield Continued(at=now(), writer=writer, dropped=size, moved_to=name, torn=torn)
        yield Continued(at=now(), writer=writer)

    def delete(self, session_id: str) -> None:
        """Removes a session and what belongs to it. Raises HeldSessionError while another process
        is at work on it, and SessionError, also for a file that is no session."""
        self._delete_record(session_id)
        self._remove_checkpoints((session_id,))

    def delete_all(self, unused: Mapping[str, int], at_most: int) -> tuple[str, ...]:
        """As `delete`, for the first of these that can be removed; which these are. None is that
        was at work since the time (st_mtime_ns) that is given with it."""
        gone: list[str] = []
        for session_id, seen_ns in unused.items():
            if len(gone) == at_most:
                break
            with suppress(SessionError):
                self._delete_record(session_id, seen_ns)
                gone.append(session_id)
        if gone:
            self._remove_checkpoints(gone)
        return tuple(gone)

    def _delete_record(self, session_id: str, seen_ns: int | None = None) -> None:
        if not is_session_id(session_id):
            raise NoSessionError(f"there is no session {session_id!r}.")
        path = self.path(session_id)
        try:
            descriptor = os.open(path, _LOOK)
            try:
                require_regular(os.fstat(descriptor), path)
                if not (is_made_id(session_id) or is_begun(path)):
                    raise NoSessionError(f"{printable(path)} is no session.")
                _require_free(descriptor, path)
                if seen_ns not in (None, os.fstat(descriptor).st_mtime_ns):
                    raise SessionError(f"the session of {printable(path)} was at work just now.")
                for name in self._damaged_ends(session_id):
                    with suppress(FileNotFoundError):
                        os.unlink(self.directory / name)
                self._remove_beside(session_id)
                path.unlink()  # last: until then the session is found, and removed again
            finally:
                os.close(descriptor)
        except FileNotFoundError as error:
            raise NoSessionError(f"there is no session {session_id}.") from error
        except FileError as error:
            raise SessionError(str(error)) from error
        except OSError as error:
            raise SessionError(str(from_os_error(error, path, writing=True))) from error

    def _damaged_ends(self, session_id: str) -> list[str]:
        """The names of the files that hold them. Raises OSError."""
        names = os.listdir(self.directory)
        return sorted(name for name in names if is_damaged_end(name, session_id))

    def _remove_beside(self, session_id: str) -> None:
        import shutil

        for directory, prefix in self._beside:
            if not (prefix or is_made_id(session_id)):
                continue  # other directories of the project stand there as well
            found = directory / f"{prefix}{session_id}"
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found, ignore_errors=True)

    def _remove_checkpoints(self, session_ids: Collection[str]) -> None:
        if self._checkpoints is not None and self._checkpoints.is_dir():
            from alhena.session.checkpoints.records import CheckpointError, CheckpointFiles

            with suppress(CheckpointError):  # as with the rest of what belongs to a session
                CheckpointFiles(self._checkpoints).remove_sessions(session_ids)


def open_store(temp: Path, owner: "Ownership | None" = None) -> SessionStore:
    """The sessions of the project whose temporary directory this is, told from others by
    `owner`."""
    beside = ((temp / "tool-outputs", "session-"), (temp, ""))
    return SessionStore(temp / "sessions", beside, project_checkpoints(temp), owner)


def project_store(environ: Mapping[str, str], project: Path) -> SessionStore:
    """The sessions of a project. Raises ConfigError."""
    from alhena.session.adopting import Ownership

    temp = project_temp(environ, project)
    return open_store(temp, Ownership(environ, temp, project))


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
            remedy="Continue with that one; the file was left as it is.",
        )
    return header


def _require_free(descriptor: int, path: Path) -> None:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HeldSessionError(
            "This session is open in another terminal.",
            remedy=f"End that one first ({printable(path)}).",
        ) from error


def _summary(path: Path, status: os.stat_result) -> tuple[SessionSummary, bool]:
    """The summary for lists, read up to the first prompt; and True if the file begins like a
    session."""
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
            title = title_of(record.text)
            return True
        return seen > _HEAD

    # One that cannot be read, or has gone meanwhile, is shown with what its name says.
    with suppress(SessionError):
        read_session(path, take)
    summary = SessionSummary(
        session_id=path.name.removesuffix(SUFFIX),
        title=title,
        project="" if header is None else header.project,
        started="" if header is None else header.at,
        updated=status.st_mtime,
        size=status.st_size,
        path=str(path),
        forked_from="" if header is None else header.forked_from,
    )
    return summary, header is not None


MAX_AT_ONCE = 20
"""So many are removed when a session begins; the others have their turn with the next ones."""

_UNITS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions unused for `max_age_s` go, and the oldest of more than `max_count`
    (None: no such limit); never one that was used within `min_s`."""

    max_age_s: float | None
    max_count: int | None
    min_s: float


def retention(asked: SessionRetention) -> Retention:
    """The limits that settings ask for. Ages are like `30d`, `12h`, `2w`, `6m`, `1y`. Raises
    ConfigError for one that is not."""
    if asked.max_count is not None and asked.max_count < 1:
        raise ConfigError(
            f"general.sessionRetention.maxCount is {asked.max_count}.",
            remedy="Give a number from 1.",
        )
    return Retention(
        max_age_s=None if asked.max_age is None else seconds(asked.max_age, "maxAge"),
        max_count=asked.max_count,
        min_s=seconds(asked.min_retention, "minRetention"),
    )


def seconds(age: str, key: str) -> float:
    """An age in seconds. Raises ConfigError, which names the key."""
    found = re.fullmatch(r"([0-9]{1,6})([hdwmy])", age.strip().lower())
    if found is None:
        raise ConfigError(
            f"general.sessionRetention.{key} is {age!r}, which is no age.",
            remedy="Write a number and a unit: 12h, 30d, 4w, 6m, 1y.",
        )
    return int(found[1]) * float(_UNITS[found[2]])


def find_outdated(
    sessions: Sequence[tuple[str, float]], limits: Retention, now: float
) -> tuple[str, ...]:
    """The ids of those that may go, the oldest first. `sessions` are ids with the time at which
    each was last used."""
    newest = sorted(sessions, key=lambda item: item[1], reverse=True)
    gone: list[str] = []
    for place, (session_id, used) in enumerate(newest):
        age = now - used
        if age < limits.min_s:
            continue
        too_old = limits.max_age_s is not None and age > limits.max_age_s
        too_many = limits.max_count is not None and place >= limits.max_count
        if too_old or too_many:
            gone.append(session_id)
    return tuple(reversed(gone))


def prune(
    store: SessionStore,
    limits: Retention,
    keep: str,
    clock: Callable[[], float] = time.time,
) -> tuple[str, ...]:
    """Removes sessions that may go, but for `keep` and those at which a process is at work; returns
    their ids. What cannot be removed, or was used meanwhile, is left for another time. A file
    counts as a session where it begins as one, or has an id that sessions are given, whatever has
    become of what was in it."""
    try:
        found = [each for each in store.files() if is_made_id(each[0].stem) or is_begun(each[0])]
    except SessionError:
        return ()
    used = [(path.stem, status.st_mtime) for path, status in found]
    seen = {path.stem: status.st_mtime_ns for path, status in found}
    gone = find_outdated(used, limits, clock())
    return store.delete_all({each: seen[each] for each in gone if each != keep}, MAX_AT_ONCE)


def prune_in_background(
    temp: Path, settings: Settings, keep: str, emit: Callable[[Event], None]
) -> Thread | None:
    """Removes the sessions in a project's directory that are older than the settings want them, but
    for `keep`, in a thread that is returned: there may be much to be read."""
    asked = settings.general.session_retention
    if not asked.enabled:
        return None
    try:
        limits = retention(asked)
    except ConfigError as error:
        emit(WarningEvent(message=str(error)))
        return None
    work = partial(prune, open_store(temp), limits, keep)
    thread = Thread(target=work, name="alhena-retention", daemon=True)
    thread.start()
    return thread


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
