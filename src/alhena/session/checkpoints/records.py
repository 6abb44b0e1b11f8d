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


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A checkpoint as its file has it, of the project in the folder `project`. `client_history` is
    the conversation, where the journal of `session_id` does not have it. `commit_hash` (the tree)
    and `notes` are as in `Snapshot`, `paths` those that the call names, relative to the project;
    `after` is the tree at the end of the turn, on its first checkpoint. The kind `restore` is made
    before restoring the checkpoint `back_to` or undoing the turn `undoes`, and is `under_way` until
    that is complete."""

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
    after: str = ""
    kind: Literal["call", "restore"] = "call"
    undoes: str = ""
    back_to: str = ""
    under_way: bool = False


class CheckpointFiles:
    """The checkpoint files in `directory`, which need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def names(self) -> tuple[str, ...]:
        """The names, oldest first. Raises CheckpointError."""
        try:
            with os.scandir(self.directory) as entries:
                found = [
                    entry.name.removesuffix(SUFFIX)
                    for entry in entries
                    if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise trouble(error, self.directory) from error
        return tuple(sorted(found, key=lambda name: (_time_in_name(name), name)))

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
        path = self._path(name)
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

    def write(self, label: str, checkpoint: Checkpoint) -> str:
        """Writes a checkpoint and returns its name, `TIME-LABEL`. The time is that of the newest
        one or later, even if the clock was set back. Other processes are excluded meanwhile. Raises
        CheckpointError."""
        newest = max(map(_time_in_name, self.names()), default=0)
        seconds, rest = divmod(max(newest + 1, time.time_ns() // 1_000_000), 1_000)
        name = f"{time.strftime(_TIME, time.gmtime(seconds))}_{rest:03d}Z-{label}"
        self._put(name, checkpoint)
        return name

    def note_end(self, name: str, tree: str) -> None:
        """Adds the tree at the end of the turn to a checkpoint. Raises CheckpointError,
        NoCheckpointError."""
        self._put(name, msgspec.structs.replace(self.read(name), after=tree))

    def mark_complete(self, name: str) -> None:
        """Marks a restore as complete. Raises CheckpointError, NoCheckpointError."""
        self._put(name, msgspec.structs.replace(self.read(name), under_way=False))

    def _put(self, name: str, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint file atomically and synced."""
        data = _json(checkpoint)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = self.directory / f".{os.urandom(8).hex()}.new"
            try:
                with open(os.open(fresh, CREATE, 0o600), "wb") as file:
                    file.write(data)
                    file.flush()
                    synchronise(file.fileno())
                fresh.rename(self._path(name))
            except BaseException:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise trouble(error, self.directory) from error

    def remove(self, name: str) -> None:
        """Removes a checkpoint if it exists. Raises CheckpointError."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise trouble(error, self.directory) from error

    def prune(self, now: float, *, keep: int = KEEP, max_age_s: float = MAX_AGE_S) -> int:
        """Removes old checkpoints and the oldest above `keep`; returns how many. Raises
        CheckpointError."""
        names = self.names()
        gone = set(names[: max(0, len(names) - keep)])
        for name in names:
            with suppress(FileNotFoundError):
                if now - self._path(name).stat().st_mtime > max_age_s:
                    gone.add(name)
        for name in gone:
            self.remove(name)
        return len(gone)

    def remove_sessions(self, session_ids: Collection[str]) -> None:
        """Removes the checkpoints of sessions. Raises CheckpointError."""
        for name, checkpoint in self.all():
            if checkpoint.session_id in session_ids:
                self.remove(name)

    def _path(self, name: str) -> Path:
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
        for name in (checkpoint.commit_hash, checkpoint.notes, checkpoint.after)
        if name
    )


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
