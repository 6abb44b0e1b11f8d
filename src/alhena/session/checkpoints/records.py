"""The checkpoint files of a project: each names a snapshot, a tool call and a conversation.

A checkpoint is a file `TIME-FILE-TOOL.json` in Gemini CLI's format with further, optional fields:
`sessionId`, `callId`, `promptId`, `paths`, `kind`, `number`, … The conversation is missing if the
journal of the session has it.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec

from alhena.session.checkpoints.errors import CheckpointError, NoCheckpointError
from alhena.system.errors import printable
from alhena.system.files import CREATE, synchronise
from alhena.wire.encoded import encode_value, mend
from alhena.wire.errors import EncodeError

SUFFIX = ".json"
KEEP = 200
"""The number of checkpoints kept for a project."""

MAX_AGE_S = 30 * 86_400.0
_NAME = 60
_MAX_NUMBER = 1 << 53
_UNWELCOME = re.compile(r"[^\w.+@-]+", re.ASCII)
_URI = "file://"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


Number = Annotated[int, msgspec.Meta(ge=0, le=_MAX_NUMBER)]


class _Numbered(msgspec.Struct):
    number: Number = 0


class _OfSession(msgspec.Struct, rename="camel"):
    session_id: str = ""


class ToolCall(msgspec.Struct, frozen=True):
    """The call that a checkpoint precedes."""

    name: str
    args: dict[str, Any] = {}


class RootSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Snapshot of one root in a checkpoint: of a workspace root beside the project (`root`, a URI)
    or of the project itself (""). `tree` and `notes` as in `Snapshot`, "" without a snapshot;
    `paths`, relative to the root, are those that the call names; `after` is the tree at the end of
    the turn, on its first checkpoint."""

    root: str = ""
    tree: str = ""
    notes: str = ""
    paths: tuple[str, ...] = ()
    after: str = ""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A checkpoint as its file has it, of the project in the folder `project`. `client_history` is
    the conversation, where the journal of `session_id` does not have it. `commit_hash` (the tree),
    `notes`, `paths` and `after` are the project's, as in `RootSnapshot`; `roots` the other
    workspace roots. The kind `restore` is made before restoring the checkpoint `back_to` or undoing
    the turn `undoes`, and is `under_way` until that is complete. Each has a greater `number` than
    the older ones; 0 if written by another program."""

    commit_hash: str = ""
    tool_call: ToolCall | None = None
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
    roots: tuple[RootSnapshot, ...] = ()
    number: Number = 0

    @property
    def all_roots(self) -> tuple[RootSnapshot, ...]:
        """The project and the other roots, also those without a snapshot."""
        project = RootSnapshot(
            tree=self.commit_hash, notes=self.notes, paths=self.paths, after=self.after
        )
        return (project, *self.roots)

    @property
    def snapshots(self) -> tuple[RootSnapshot, ...]:
        """The roots with a snapshot."""
        return tuple(each for each in self.all_roots if each.tree)

    @property
    def named(self) -> tuple[str, ...]:
        """The paths that the call names; absolute ones in other roots than the project."""
        return tuple(
            str(directory_of(each.root) / path) if each.root else path
            for each in self.all_roots
            for path in each.paths
        )

    def having(self, snapshots: Sequence[RootSnapshot]) -> "Checkpoint":
        """The same with these snapshots."""
        project = next((each for each in snapshots if not each.root), RootSnapshot())
        return msgspec.structs.replace(
            self,
            commit_hash=project.tree,
            notes=project.notes,
            paths=project.paths,
            roots=tuple(each for each in snapshots if each.root),
        )

    def ended(self, root: str) -> str:
        """The tree of a root at the end of the turn, "" if unknown."""
        return next((each.after for each in self.all_roots if each.root == root), "")


class CheckpointFiles:
    """The checkpoint files in `directory`, which need not exist."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._numbers: dict[str, tuple[tuple[int, int, int], int]] = {}

    def names(self) -> tuple[str, ...]:
        """The names, the oldest first. Raises CheckpointError."""
        return tuple(name for _, _, name in self._ordered())

    def _ordered(self) -> list[tuple[int, int, str]]:
        """Number, time and name of each, sorted. Times alone fail when a clock is set back or files
        are copied."""
        return sorted(
            (self._number(name, status), status.st_mtime_ns, name)
            for name, status in self._listed()
        )

    def _listed(self) -> list[tuple[str, os.stat_result]]:
        found: list[tuple[str, os.stat_result]] = []
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                        with suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            found.append((entry.name.removesuffix(SUFFIX), status))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise trouble(error, self.directory) from error
        return found

    def _number(self, name: str, status: os.stat_result) -> int:
        """The number of a checkpoint, cached; 0 if it has none or cannot be read."""
        state = (status.st_ino, status.st_mtime_ns, status.st_size)
        known = self._numbers.get(name)
        if known is None or known[0] != state:
            number = 0
            with suppress(OSError, *_UNREADABLE):
                data = self._path(name).read_bytes()
                number = msgspec.json.decode(data, type=_Numbered).number
            known = self._numbers[name] = (state, number)
        return known[1]

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
            found = msgspec.json.decode(path.read_bytes(), type=Checkpoint)
        except FileNotFoundError as error:
            raise NoCheckpointError(f"there is no checkpoint {printable(name)!r}.") from error
        except OSError as error:
            raise trouble(error, path) from error
        except _UNREADABLE as error:
            raise CheckpointError(f"{printable(path)} is no checkpoint: {error}.") from error
        for each in found.roots:
            directory_of(each.root)
        return found

    def all(self) -> tuple[tuple[str, Checkpoint], ...]:
        """The readable checkpoints with their names, oldest first. Raises CheckpointError."""
        found: list[tuple[str, Checkpoint]] = []
        for name in self.names():
            with suppress(CheckpointError, NoCheckpointError):
                found.append((name, self.read(name)))
        return tuple(found)

    def write(self, name: str, checkpoint: Checkpoint) -> str:
        """Writes a checkpoint as the newest; returns its name: `name`, with a number appended if
        that is taken. Other processes are excluded meanwhile. Raises CheckpointError."""
        last = max((number for number, _, _ in self._ordered()), default=0)
        data = _json(msgspec.structs.replace(checkpoint, number=min(last + 1, _MAX_NUMBER)))
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._write(name, data)
        except OSError as error:
            raise trouble(error, self.directory) from error

    def note_end(self, name: str, trees: Mapping[str, str]) -> None:
        """Adds the trees at the end of the turn to a checkpoint, by root. Raises CheckpointError,
        NoCheckpointError."""
        checkpoint = self.read(name)
        known = {each.root: each for each in checkpoint.roots}
        for root in trees:
            if root:
                known[root] = msgspec.structs.replace(
                    known.get(root, RootSnapshot(root=root)), after=trees[root]
                )
        self._rewrite(
            name,
            msgspec.structs.replace(
                checkpoint, after=trees.get("", checkpoint.after), roots=tuple(known.values())
            ),
        )

    def note_done(self, name: str) -> None:
        """Marks a restore as complete. Raises CheckpointError, NoCheckpointError."""
        self._rewrite(name, msgspec.structs.replace(self.read(name), under_way=False))

    def _rewrite(self, name: str, checkpoint: Checkpoint) -> None:
        data = _json(checkpoint)
        try:
            self._fresh(data).rename(self._path(name))
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
        for name, _ in self._listed():
            with suppress(OSError, *_UNREADABLE):
                data = self._path(name).read_bytes()
                if msgspec.json.decode(data, type=_OfSession).session_id in session_ids:
                    self.remove(name)

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}{SUFFIX}"

    def _write(self, name: str, data: bytes) -> str:
        fresh = self._fresh(data)
        try:
            number = 1
            while True:
                chosen = name if number == 1 else f"{name}-{number}"
                try:
                    os.link(fresh, self._path(chosen))
                except FileExistsError:
                    number += 1
                else:
                    return chosen
        finally:
            fresh.unlink()

    def _fresh(self, data: bytes) -> Path:
        """A new synced file with this content under a temporary name."""
        fresh = self.directory / f".{os.urandom(8).hex()}.new"
        descriptor = os.open(fresh, CREATE, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                synchronise(file.fileno())
        except BaseException:
            fresh.unlink()
            raise
        return fresh


def checkpoint_name(tool: str, paths: Sequence[str], at_ns: int | None = None) -> str:
    """The name of a checkpoint made now, before a call of `tool` on these paths."""
    seconds, nanoseconds = divmod(time.time_ns() if at_ns is None else at_ns, 1_000_000_000)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(seconds))
    words = [os.path.basename(path) for path in paths[:1]] + [tool]
    said = "-".join(_UNWELCOME.sub("_", word)[:_NAME] for word in words if word)
    return f"{stamp}_{nanoseconds // 1_000_000:03d}Z-{said}"


def _json(checkpoint: Checkpoint) -> bytes:
    """Encodes a checkpoint; repairs invalid Unicode in its call. Raises CheckpointError."""
    try:
        try:
            return encode_value(checkpoint)
        except UnicodeEncodeError:
            call = None if checkpoint.tool_call is None else mend(checkpoint.tool_call)
            return encode_value(msgspec.structs.replace(checkpoint, tool_call=call))
    except EncodeError as error:
        raise CheckpointError(f"the call has no form as JSON: {error.message}") from error


def directory_of(root: str) -> Path:
    """The directory of a root's URI. Raises CheckpointError."""
    path = Path(os.fsdecode(unquote_to_bytes(root.removeprefix(_URI))))
    plain = path.is_absolute() and os.path.normpath(path) == str(path)
    if not root.startswith(_URI) or not plain or path.as_uri() != root:
        raise CheckpointError(f"{root!r} is no root that a checkpoint can have.")
    return path


def objects_of(checkpoints: Iterable[tuple[str, Checkpoint]], root: str = "") -> frozenset[str]:
    """Names of all objects that the checkpoints need in the repository of a root."""
    return frozenset(
        name
        for _, checkpoint in checkpoints
        for snapshot in checkpoint.all_roots
        if snapshot.root == root
        for name in (snapshot.tree, snapshot.notes, snapshot.after)
        if name
    )


def shown(path: str) -> str:
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
