"""The checkpoint files of a project: each names a snapshot, a tool call and a conversation.

A checkpoint is a file `TIME-FILE-TOOL.json` in Gemini CLI's format with further, optional fields:
`sessionId`, `callId`, `promptId`, `paths`, `kind`, … The conversation is missing if the
journal of the session has it.
"""

import os
import re
import time
from calendar import timegm
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec

from alhena.errors import AlhenaError, InputError
from alhena.system.errors import printable
from alhena.system.files import CREATE, synchronise
from alhena.wire.content import encode_value, mend
from alhena.wire.errors import EncodeError


class CheckpointError(AlhenaError):
    """A snapshot cannot be taken or restored."""

    kind = "checkpoint"
    page = "checkpoints"


class NoGitError(CheckpointError):
    """git is not installed."""

    kind = "no_git"


class GitFailedError(CheckpointError):
    """A git command failed."""

    kind = "git"


class SnapshotLimitError(CheckpointError):
    """The files exceed the limits of a snapshot, or git takes too long."""

    kind = "too_much"


class LostSnapshotError(CheckpointError):
    """The snapshot is missing or damaged."""


class NoCheckpointError(InputError):
    """No checkpoint has this name."""

    kind = "checkpoint_not_found"


SUFFIX = ".json"
KEEP = 200
"""The number of checkpoints kept for a project."""

MAX_AGE_S = 30 * 86_400.0
_NAME = 60
_UNWELCOME = re.compile(r"[^\w.+@-]+", re.ASCII)
_TIME = "%Y-%m-%dT%H-%M-%S"
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)_(\d{3})Z", re.ASCII)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class CheckpointedCall(msgspec.Struct, frozen=True):
    """The call that a checkpoint precedes."""

    name: str
    args: dict[str, Any] = {}


class SavedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or symlink: git's mode ("": there is none), the name of its content; `private`:
    readable by the owner only."""

    mode: str = ""
    name: str = ""
    private: bool = False


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A checkpoint as its file has it, of the project in the folder `project`. `client_history` is
    the conversation, where the journal of `session_id` does not have it. `paths` are those that the
    call names, relative to the project; `saved` are the files that calls of the turn named so far,
    None: the tree has them. `edits`: the call changes no others. `commit_hash` (the tree) and
    `notes` are as in `Snapshot`, added when that is complete. `after` and `ended` are the tree and
    the named files at the end of the turn, on its first checkpoint. The kind `restore` is
    made before restoring the checkpoint `back_to` or undoing the turn `undoes`, and is `under_way`
    until that is complete."""

    commit_hash: str = ""
    tool_call: CheckpointedCall | None = None
    history: tuple[msgspec.Raw, ...] = ()
    client_history: tuple[msgspec.Raw, ...] | None = None
    message_id: str = ""
    session_id: str = ""
    project: str = ""
    call_id: str = ""
    prompt_id: str = ""
    notes: str = ""
    paths: tuple[str, ...] = ()
    saved: dict[str, SavedFile] | None = None
    edits: bool = False
    after: str = ""
    ended: dict[str, SavedFile] = {}
    kind: Literal["call", "restore"] = "call"
    undoes: str = ""
    back_to: str = ""
    under_way: bool = False

    @property
    def has_files(self) -> bool:
        """True for a checkpoint that files can be restored to."""
        return bool(self.commit_hash or self.saved or (self.edits and self.saved is not None))

    @property
    def forced(self) -> tuple[str, ...]:
        """The paths that the tree has although it leaves their like out."""
        return self.paths if self.saved is None else ()


class CheckpointFiles:
    """The checkpoint files in `directory`, which need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def names(self) -> tuple[str, ...]:
        """The names, oldest first. Raises CheckpointError."""
        return tuple(sorted(self._list_names(), key=lambda name: (_time_in_name(name), name)))

    def _list_names(self) -> list[str]:
        try:
            with os.scandir(self.directory) as entries:
                return [
                    entry.name.removesuffix(SUFFIX)
                    for entry in entries
                    if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise trouble(error, self.directory) from error

    def find(self, name: str, among: Callable[[], Sequence[tuple[str, Checkpoint]]]) -> str:
        """Finds a checkpoint by name, with or without `.json`, by its position from 1 in `among`,
        or `latest` for the last of that. Raises NoCheckpointError, CheckpointError."""
        wanted = name.removesuffix(SUFFIX)
        if wanted in self.names():
            return wanted
        names = tuple(each for each, _ in among())
        if names and wanted == "latest":
            return names[-1]
        if wanted.isdecimal() and 1 <= int(wanted) <= len(names):
            return names[int(wanted) - 1]
        raise NoCheckpointError(
            f"there is no checkpoint {printable(name)!r} in {printable(self.directory)}.",
            remedy="Name one of the list, by its name or its number, or say `latest`.",
        )

    def read(self, name: str) -> Checkpoint:
        """Reads a checkpoint by its full name. Raises CheckpointError, NoCheckpointError."""
        path = self.path(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=Checkpoint)
        except FileNotFoundError as error:
            raise NoCheckpointError(f"there is no checkpoint {printable(name)!r}.") from error
        except OSError as error:
            raise trouble(error, path) from error
        except _UNREADABLE as error:
            raise CheckpointError(f"{printable(path)} is no checkpoint: {error}.") from error

    def all(self) -> tuple[tuple[str, Checkpoint], ...]:
        """The readable checkpoints with their names, oldest first. Raises CheckpointError."""
        found: list[tuple[str, Checkpoint]] = []
        for name in self.names():
            with suppress(CheckpointError, NoCheckpointError):
                found.append((name, self.read(name)))
        return tuple(found)

    def write(self, label: str, checkpoint: Checkpoint, *, synced: bool = True) -> str:
        """Writes a checkpoint and returns its name, `TIME-LABEL`. The time is that of the newest
        one or later, even if the clock was set back. What a killed process leaves of one is not
        read. Raises CheckpointError."""
        data = _json(checkpoint)
        newest = max(filter(_STAMP.match, self._list_names()), default="")
        at = max(_time_in_name(newest) + 1, time.time_ns() // 1_000_000)
        while True:
            seconds, rest = divmod(at, 1_000)
            name = f"{time.strftime(_TIME, time.gmtime(seconds))}_{rest:03d}Z-{label}"
            try:
                self._create(self.path(name), data, synced=synced)
            except FileExistsError:  # another session's
                at += 1
            except OSError as error:
                raise trouble(error, self.directory) from error
            else:
                return name

    def amend(self, name: str, **changes: Any) -> None:
        """Changes fields of a checkpoint. Raises CheckpointError, NoCheckpointError."""
        self._put(name, msgspec.structs.replace(self.read(name), **changes))

    def _put(self, name: str, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint file atomically and synced."""
        data = _json(checkpoint)
        try:
            fresh = self.directory / f".{os.urandom(8).hex()}.new"
            self._create(fresh, data, synced=True)
            try:
                fresh.rename(self.path(name))
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise trouble(error, self.directory) from error

    def _create(self, path: Path, data: bytes, *, synced: bool) -> None:
        """Creates a file, whole or not at all. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, CREATE, 0o600), "wb") as file:
            try:
                file.write(data)
                file.flush()
                if synced:
                    synchronise(file.fileno())
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def remove(self, name: str) -> None:
        """Removes a checkpoint if it exists. Raises CheckpointError."""
        try:
            self.path(name).unlink(missing_ok=True)
        except OSError as error:
            raise trouble(error, self.directory) from error

    def prune(self, now: float, *, keep: int = KEEP, max_age_s: float = MAX_AGE_S) -> int:
        """Removes old checkpoints and the oldest above `keep`; returns how many. Raises
        CheckpointError."""
        names = self.names()
        gone = set(names[: max(0, len(names) - keep)])
        for name in names:
            with suppress(FileNotFoundError):
                if now - self.path(name).stat().st_mtime > max_age_s:
                    gone.add(name)
        for name in gone:
            self.remove(name)
        return len(gone)

    def remove_sessions(self, session_ids: Collection[str]) -> None:
        """Removes the checkpoints of sessions. Raises CheckpointError."""
        for name, checkpoint in self.all():
            if checkpoint.session_id in session_ids:
                self.remove(name)

    def path(self, name: str) -> Path:
        """The file of a checkpoint."""
        return self.directory / f"{name}{SUFFIX}"


def checkpoint_label(tool: str, paths: Sequence[str]) -> str:
    """The part of a checkpoint's name for a call of `tool` on these paths."""
    words = [os.path.basename(path) for path in paths[:1]] + [tool]
    return "-".join(_UNWELCOME.sub("_", word)[:_NAME] for word in words if word)


def _time_in_name(name: str) -> int:
    """The time in a name, in milliseconds; 0 if it has none."""
    found = _STAMP.match(name)
    if found is None:
        return 0
    try:
        return timegm(time.strptime(found[1], _TIME)) * 1_000 + int(found[2])
    except ValueError:
        return 0


def _json(checkpoint: Checkpoint) -> bytes:
    """Encodes a checkpoint; repairs invalid Unicode in its call. Raises CheckpointError."""
    try:
        call = None if checkpoint.tool_call is None else mend(checkpoint.tool_call)
        return encode_value(msgspec.structs.replace(checkpoint, tool_call=call))
    except EncodeError as error:
        raise CheckpointError(f"the call has no form as JSON: {error.message}") from error


def objects_of(checkpoints: Iterable[tuple[str, Checkpoint]]) -> frozenset[str]:
    """Names of all objects that the checkpoints need."""
    return frozenset(
        name
        for _, checkpoint in checkpoints
        for name in (
            checkpoint.commit_hash,
            checkpoint.notes,
            checkpoint.after,
            *(file.name for file in (checkpoint.saved or {}).values()),
        )
        if name
    )


def sync_file(path: Path) -> None:
    """Syncs a file to disk. Raises OSError."""
    with open(path, "rb") as file:
        synchronise(file.fileno())


def path_text(path: str) -> str:
    """A path as text: bytes that are not UTF-8 as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def trouble(error: OSError, path: Path) -> CheckpointError:
    """Converts an OSError about checkpoint storage or project files."""
    place = Path(os.fsdecode(error.filename or path))
    if isinstance(error, NotADirectoryError):  # a parent is the file
        place = next((each for each in (place, *place.parents) if each.is_file()), place)
    return CheckpointError(
        f"{printable(place)}: {error.strerror or error}.",
        remedy="Checkpoints need this path: move away what is there, or free disk space.",
    )
