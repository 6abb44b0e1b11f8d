"""Which sessions are old enough to go (`general.sessionRetention.*`)."""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Thread

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.settings import Settings
from alhena.events import Event, WarningEvent
from alhena.session.errors import SessionError
from alhena.session.names import is_made_id, session_of
from alhena.session.reading import is_begun
from alhena.session.store import SessionStore, open_store

MAX_AT_ONCE = 20
"""So many are removed when a session begins; the others have their turn with the next ones."""

_UNITS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "m": 30 * 86_400, "y": 365 * 86_400}


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions at which nobody was for `max_age_s` go, and the oldest of more than `max_count`
    (None: no such limit); never one that was used within `min_s`."""

    max_age_s: float | None
    max_count: int | None
    min_s: float


def retention(*, max_age: str | None, max_count: int | None, min_retention: str) -> Retention:
    """The limits that settings ask for. Ages are like `30d`, `12h`, `2w`, `6m`, `1y`. Raises
    ConfigError for one that is not."""
    if max_count is not None and max_count < 1:
        raise ConfigError(
            f"general.sessionRetention.maxCount is {max_count}.", remedy="Give a number from 1."
        )
    return Retention(
        max_age_s=None if max_age is None else seconds(max_age, "maxAge"),
        max_count=max_count,
        min_s=seconds(min_retention, "minRetention"),
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


def outdated(
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
        files = ((path, session_of(path.name), status) for path, status in store.files())
        found = [
            (session_id, status)
            for path, session_id, status in files
            if session_id is not None and (is_made_id(session_id) or is_begun(path))
        ]
    except SessionError:
        return ()
    used = [(session_id, status.st_mtime) for session_id, status in found]
    seen = {session_id: status.st_mtime_ns for session_id, status in found}
    gone = outdated(used, limits, clock())
    return store.delete_all({each: seen[each] for each in gone if each != keep}, MAX_AT_ONCE)


def pruned_beside(
    temp: Path, settings: Settings, keep: str, emit: Callable[[Event], None]
) -> Thread | None:
    """Removes the sessions in a project's directory that are older than the settings want them, but
    for `keep`, in a thread that is returned: there may be much to be read."""
    asked = settings.general.session_retention
    if not asked.enabled:
        return None
    try:
        limits = retention(
            max_age=asked.max_age, max_count=asked.max_count, min_retention=asked.min_retention
        )
    except ConfigError as error:
        emit(WarningEvent(message=str(error)))
        return None
    work = partial(prune, open_store(temp), limits, keep)
    thread = Thread(target=work, name="alhena-retention", daemon=True)
    thread.start()
    return thread
