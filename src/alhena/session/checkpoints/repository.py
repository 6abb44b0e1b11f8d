"""The private git repository of a project: snapshots of its files, each a tree held by a ref.

It lives outside the project and has an index of its own; the project's `.git` is never written.
Ignored and large files are left out; repositories inside the project are saved as files.
"""

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

import msgspec

from alhena.session.checkpoints.git import (
    ATTRIBUTES,
    IN_ONE_PACK,
    BlobContents,
    Git,
    content_name,
    is_object_name,
    reason,
)
from alhena.session.checkpoints.records import (
    CheckpointError,
    GitFailedError,
    LostSnapshotError,
    SavedFile,
    SnapshotLimitError,
    path_text,
    trouble,
)
from alhena.session.checkpoints.saved import REFS, is_savable, read_files, store
from alhena.system.errors import FileError, printable
from alhena.system.files import alone_on, read_small_text
from alhena.system.ignore import IgnoreRules, excludes_file, git_directory
from alhena.system.own_programs import search_path

_NOTHING = "000000"
_SUBMODULE = "160000"
PATIENCE_S = 30.0
"""Seconds to wait for another process."""

_COARSE_NS = 20_000_000
"""The time of a change may be that much before the clock's."""
_NEW_S = 3600.0
_MANY = 200
_MAX_NESTED = 200
_NEW_INDEX = 2
_ATTEMPTS = 4
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))
_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\*?[]"})
_UNLISTED = re.compile(rb"could not open directory '(.*?)/?': [^:]*$", re.MULTILINE)
_OTHERS = ("ls-files", "-z", "-o", "--exclude-standard")
_CHANGES = (*_OTHERS, "-m")
_IGNORED = (*_OTHERS, "-i", "--directory")


class SnapshotLimits(msgspec.Struct, frozen=True):
    """Limits of a snapshot. Files larger than `file_bytes` are left out; more than `files` new
    files or `bytes` new bytes at once prevent the snapshot."""

    file_bytes: int = 50 << 20
    files: int = 200_000
    bytes: int = 1 << 30


class RepositorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a repository. Programs in `others`, directories beside the project, never run as
    git. `patience_s`: seconds to wait for another process. `gentle`: git has a low priority.
    `changed_since` returns the time, in nanoseconds, at which a command began that may be changing
    files meanwhile; what may have changed since then is left out of a snapshot."""

    limits: SnapshotLimits = SnapshotLimits()
    others: tuple[Path, ...] = ()
    patience_s: float = PATIENCE_S
    gentle: bool = False
    changed_since: Callable[[], int | None] = lambda: None


class TreeEntry(msgspec.Struct, frozen=True):
    """A file or symlink of a snapshot: git's mode and the name of its content."""

    mode: str
    name: str


class Change(msgspec.Struct, frozen=True):
    """A file before and after; None: no file."""

    path: str
    old: TreeEntry | None
    new: TreeEntry | None


class Notes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Paths that a tree cannot express, as `shown`, relative to the project; a directory ends in a
    slash. `left_out`: large or unreadable; `private`: readable by the owner only; `ignored`:
    existing but ignored."""

    left_out: frozenset[str] = frozenset()
    private: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    def omits(self, path: str) -> bool:
        """True for a path that may have existed although the snapshot does not have it."""
        parts = path_text(path).split("/")
        found = {"/".join(parts[:count]) + "/" for count in range(1, len(parts))} | {
            path_text(path)
        }
        return not (found.isdisjoint(self.ignored) and found.isdisjoint(self.left_out))


class Snapshot(msgspec.Struct, frozen=True):
    """The names of a tree and of the blob with its notes ("": none); the paths left out. A
    snapshot of single files has no tree, but these in `saved`."""

    tree: str
    notes: str = ""
    left_out: frozenset[str] = frozenset()
    saved: Mapping[str, SavedFile] = {}


class Repository:
    """The repository in `directory/.git` for the files of `project`, a real path. For one thread;
    processes wait for each other in `locked`, inside which the other methods are called. `warning`
    names a damaged repository that was set aside. Methods raise CheckpointError."""

    def __init__(
        self,
        directory: Path,
        project: Path,
        environ: Mapping[str, str],
        around: RepositorySettings | None = None,
        cancellation: threading.Event | None = None,
    ) -> None:
        self.directory = directory
        self.project = project
        self.cancellation = cancellation or threading.Event()
        self.warning = ""
        self._around = around or RepositorySettings()
        warnings: list[str] = []
        top, own = _work_tree(project, warnings)
        self._prefix = "" if top == project else f"{project.relative_to(top)}/"
        self._exclude = None if own is None else own / "info" / "exclude"
        untrusted = _untrusted_folders(project, top, self._around.others, environ)
        self.git = Git(
            directory / ".git",
            top,
            search_path(environ, untrusted),
            excludes_file(own, warnings, environ),
            self.cancellation,
            gentle=self._around.gentle,
        )

    @contextmanager
    def hold_lock(self) -> Generator[None]:
        """Excludes other processes for a block."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.chmod(0o700)
            descriptor = os.open(self.directory / "alhena.lock", _LOCK, 0o600)
            try:
                with alone_on(
                    descriptor,
                    self.directory,
                    cancellation=self.cancellation,
                    patience_s=self._around.patience_s,
                ):
                    self.git.lock = descriptor
                    yield
            finally:
                self.git.lock = None
                os.close(descriptor)
        except OSError as error:
            raise trouble(error, self.directory) from error
        except FileError as error:
            raise CheckpointError(error.message) from error

    def snapshot(self, named: Collection[str] = ()) -> Snapshot:
        """Saves the files as they are; `named` paths even if they are ignored or large."""
        for attempt in range(1, _ATTEMPTS):  # the first failure may come of files that change
            try:
                return self._take(named)
            except GitFailedError as error:
                if self.cancellation.is_set() or any(each in error.message for each in _FULL):
                    raise
                if attempt == _NEW_INDEX:  # a crash may have damaged it
                    self.git.index.unlink(missing_ok=True)
                elif attempt > _NEW_INDEX:
                    if not self._set_aside():
                        raise
                    self.warning = f"{self.warning} ({error.message})"
        return self._take(named)

    def changes(self, old: str, new: str) -> dict[str, Change]:
        """The files that differ between two trees or commits, by path. Raises LostSnapshotError."""
        for tree in (old, new):
            if not is_object_name(tree):
                raise LostSnapshotError(f"{tree[:12]!r} names no snapshot.")
        compared = self.git.attempt(("diff-tree", "-r", "-z", old, new))
        if compared.returncode:
            message = f"the files of the checkpoint ({new[:12]}) are not saved any more."
            damaged = self._set_aside() or self.warning
            raise LostSnapshotError(f"{self.warning}." if damaged else message)
        found: dict[str, Change] = {}
        items = iter(_items(compared.stdout))
        for head, name in zip(items, items, strict=True):
            modes = head[1:].decode("ascii").split()
            was, now = (_entry(*modes[each:4:2]) for each in (0, 1))
            if was != now:
                path = os.fsdecode(name)
                found[path] = Change(path, was, now)
        return found

    def save(self, paths: Iterable[str]) -> Snapshot:
        """Saves single files, without git."""
        found = read_files(self.project, paths)
        try:
            store(self.git.git_dir, found.contents)
        except OSError as error:
            raise trouble(error, self.directory) from error
        return Snapshot("", saved=found.files)

    def entries(self, tree: str, paths: Collection[str]) -> dict[str, TreeEntry]:
        """The files of a tree among these paths."""
        if not paths:
            return {}
        listed = self.git.run("ls-tree", "-z", "--full-tree", tree, "--", *paths)
        found: dict[str, TreeEntry] = {}
        for item in _items(listed):
            head, _, name = item.partition(b"\t")
            mode, kind, content = head.decode("ascii").split()
            if kind == "blob":
                found[os.fsdecode(name)] = TreeEntry(mode, content)
        return found

    def notes(self, name: str) -> Notes:
        """The notes of a snapshot. Raises LostSnapshotError."""
        if not name:
            return Notes()
        with self.contents({name}) as contents:
            try:
                return msgspec.json.decode(contents[name], type=Notes)
            except (KeyError, msgspec.DecodeError) as error:
                raise LostSnapshotError("the notes of the checkpoint are damaged.") from error

    @contextmanager
    def contents(self, names: Iterable[str]) -> Generator[BlobContents]:
        """The contents of these blobs that can be read."""
        with TemporaryFile(dir=self.directory) as file:
            yield BlobContents(self.git, names, file)

    def keep_only(self, needed: Callable[[], Collection[str]], *, new_s: float = _NEW_S) -> int:
        """Releases all objects but the `needed` and those of the last `new_s` seconds, whose
        checkpoint may be about to be written; returns how many. `collect` deletes them."""
        if not (self.git.git_dir / "HEAD").exists():
            return 0
        with self.hold_lock():
            old = {name for name in self.object_names() if self._age_s(name) >= new_s}
            gone = old - set(needed())
            self._update_refs("delete {}\n", gone)
        return len(gone)

    def object_names(self) -> frozenset[str]:
        """The names of all objects of snapshots."""
        refs = self.git.run("for-each-ref", "--format=%(refname)", REFS).decode().split()
        return frozenset(ref.removeprefix(REFS) for ref in refs)

    def size(self) -> int:
        """The bytes of all objects."""
        total = 0
        for directory, _, names in os.walk(self.git.git_dir / "objects"):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(directory, name)).st_size
        return total

    def collect(self, *options: str) -> None:
        """Runs `git gc`; what no snapshot needs is deleted after a day."""
        if (self.git.git_dir / "HEAD").exists():
            self.git.run("gc", "--quiet", "--prune=1.day.ago", *options)

    def _take(self, named: Iterable[str]) -> Snapshot:
        self._prepare()
        unlisted: set[bytes] = set()
        changed = self._list(_CHANGES, unlisted)
        ignored = self._list(_IGNORED, unlisted)
        nested = sorted(name for name in changed if name.endswith(b"/"))
        changed.difference_update(nested)
        for count, directory in enumerate(nested, start=1):
            if count > _MAX_NESTED:
                raise SnapshotLimitError(f"it contains more than {_MAX_NESTED} repositories.")
            for name in self._list(_OTHERS, unlisted, directory):
                if name.endswith(b"/"):
                    nested.append(name)
                else:
                    changed.add(name)
            ignored |= self._list(_IGNORED, unlisted, directory)
        if len(changed) > self._around.limits.files:
            raise SnapshotLimitError(f"there are {len(changed):,} new or changed files.")
        forced = {
            os.fsencode(self._prefix + path) for path in named if is_savable(self.project, path)
        }
        left_out, private = self._update_index(changed, forced)
        notes = Notes(
            *(self._relative_names(each) for each in (left_out | unlisted, private, ignored))
        )
        return self._keep_snapshot(self._write_tree(), notes)

    def _prepare(self) -> None:
        """Creates the repository, and removes locks of killed processes."""
        if self.directory.resolve().is_relative_to(self.project):
            raise SnapshotLimitError(
                f"{self.project} contains the checkpoints themselves.",
                remedy="Work in a directory of the project's own.",
            )
        git_dir = self.git.git_dir
        for lock in (*git_dir.glob("*.lock"), *git_dir.glob(f"{REFS}*.lock")):
            lock.unlink(missing_ok=True)  # `git gc` takes no turn, and removes its own
        needed = ("HEAD", "config", "objects", "refs", "info/attributes")
        if not all((git_dir / name).exists() for name in needed):
            self.git.run("init", "--quiet", "--template=")
            _write(git_dir / "info" / "attributes", ATTRIBUTES)
        _write(git_dir / "info" / "exclude", self._rules())

    def _rules(self) -> str:
        """Ignore rules beyond the project's .gitignore files."""
        warnings: list[str] = []
        own = "" if self._exclude is None else read_small_text(self._exclude, warnings)
        gemini = read_small_text(self.project / ".geminiignore", warnings).splitlines()
        lines = [*own.splitlines(), *(_rule_below(self._prefix, line) for line in gemini)]
        return "".join(f"{line}\n" for line in lines)

    def _list(
        self, command: tuple[str, ...], unlisted: set[bytes], directory: bytes = b""
    ) -> set[bytes]:
        """Output of a listing, for the project or a repository in it; adds the directories that
        cannot be read to `unlisted`."""
        if directory:
            nested = self.git.work_tree / os.fsdecode(directory)
            outcome = self.git.attempt(command, nested=nested)
        else:
            paths = ("--", self._prefix) if self._prefix else ()
            outcome = self.git.attempt((*command, *paths))
        if outcome.returncode:
            raise GitFailedError(f"git ls-files failed {reason(outcome)}")
        found = _UNLISTED.findall(outcome.stderr)
        unlisted.update(directory + name + b"/" for name in found)
        return {directory + name for name in _items(outcome.stdout)}

    def _update_index(
        self, changed: set[bytes], forced: set[bytes]
    ) -> tuple[set[bytes], set[bytes]]:
        """Saves these files; returns those left out of the index and the private ones in it."""
        added: list[bytes] = []
        dropped: list[bytes] = []
        left_out: set[bytes] = set()
        memory = self.git.index.with_name(f"{self.git.index.name}-private")
        private = set(_items(memory.read_bytes())) if memory.exists() else set[bytes]()
        total = 0
        limits = self._around.limits
        for name in changed | forced:
            path = os.path.join(os.fsencode(self.git.work_tree), name)
            status = _status(path)
            private.discard(name)
            if status is None:
                if name in changed and not self._removed_lately(path):
                    dropped.append(name)
            elif not _readable(path, status) or (
                status.st_size > limits.file_bytes and name not in forced
            ):
                dropped.append(name)
                left_out.add(name)
            else:
                added.append(name)
                total += status.st_size
                if stat.S_ISREG(status.st_mode) and not status.st_mode & 0o077:
                    private.add(name)
        if total > limits.bytes:
            raise SnapshotLimitError(
                f"there are {total // 1_000_000:,} MB of new or changed files."
            )
        self._drop(dropped)
        if added:
            packed = IN_ONE_PACK if len(added) > _MANY else ()
            flags = ("--add", "--remove", "--replace", "-z", "--stdin")
            self.git.run(*packed, "update-index", *flags, given=_join_names(added))
        late = set(filter(self._changed_lately, added))
        self._drop(late)
        private -= late
        _write(memory, os.fsdecode(_join_names(private)))
        return left_out | late, private

    def _drop(self, names: Collection[bytes]) -> None:
        if names:
            self.git.run(
                "update-index", "-z", "--force-remove", "--stdin", given=_join_names(names)
            )

    def _changed_lately(self, name: bytes) -> bool:
        """True for a file that the command which is at work meanwhile may have changed before it
        was saved. No program can set the time of such a change."""
        since = self._around.changed_since()
        if since is None:
            return False
        status = _status(os.path.join(os.fsencode(self.git.work_tree), name))
        return status is None or status.st_ctime_ns >= since - _COARSE_NS

    def _removed_lately(self, path: bytes) -> bool:
        """True for a missing file that this command may have removed: the index still has it."""
        since = self._around.changed_since()
        if since is None:
            return False
        try:
            return os.lstat(os.path.dirname(path)).st_ctime_ns >= since - _COARSE_NS
        except OSError:
            return True

    def _write_tree(self) -> str:
        if not self._prefix:
            return self.git.object_name("write-tree")
        if not self.git.run("ls-files", "-z", "--", self._prefix):
            return self.git.object_name("mktree", "-z")
        return self.git.object_name("write-tree", f"--prefix={self._prefix}")

    def _keep_snapshot(self, tree: str, notes: Notes) -> Snapshot:
        """The snapshot, safe from `collect`."""
        objects = [tree]
        name = ""
        if notes != Notes():
            data = msgspec.json.encode(notes, order="deterministic")
            name = content_name(data)
            objects.append(name)
            if not self._has_ref(name):
                self.git.object_name("hash-object", "-w", "--stdin", given=data)
        new = [each for each in objects if not self._touch_ref(each)]
        self._update_refs("update {0} {1}\n", new)
        return Snapshot(tree, name, notes.left_out)

    def _has_ref(self, name: str) -> bool:
        return (self.git.git_dir / REFS / name).exists()

    def _touch_ref(self, name: str) -> bool:
        """Makes a ref count as new; False if there is none."""
        try:
            os.utime(self.git.git_dir / REFS / name)
        except FileNotFoundError:
            return False
        return True

    def _age_s(self, name: str) -> float:
        """Seconds since a ref was written."""
        try:
            return time.time() - (self.git.git_dir / REFS / name).stat().st_mtime
        except FileNotFoundError:  # packed with others
            return float("inf")

    def _update_refs(self, line: str, names: Iterable[str]) -> None:
        lines = "".join(line.format(REFS + name, name) for name in sorted(names))
        if lines:
            self.git.run("update-ref", "--stdin", given=lines.encode())

    def _set_aside(self) -> bool:
        """Renames the repository and returns True if it is damaged."""
        git_dir = self.git.git_dir
        works = self.git.attempt(("--version",)).stdout.startswith(b"git version")
        if not works or not os.path.lexists(git_dir):
            return False
        if not self.git.attempt(("fsck", "--full", "--no-dangling")).returncode:
            return False
        number = 1
        while os.path.lexists(aside := git_dir.with_name(f"{git_dir.name}.damaged-{number}")):
            number += 1
        git_dir.rename(aside)
        self.warning = (
            "the repository of this project's checkpoints was damaged; a new one is begun. "
            f"The damaged one is {printable(aside)}"
        )
        return True

    def _relative_names(self, names: Iterable[bytes]) -> frozenset[str]:
        prefix = os.fsencode(self._prefix)
        inside = (name.removeprefix(prefix) for name in names if name.startswith(prefix))
        return frozenset(path_text(os.fsdecode(name)) for name in inside)


def _items(output: bytes) -> list[bytes]:
    return output.split(b"\0")[:-1]


def _entry(mode: str, name: str) -> TreeEntry | None:
    return TreeEntry(mode, name) if mode not in (_NOTHING, _SUBMODULE) else None


def _join_names(names: Iterable[bytes]) -> bytes:
    return b"".join(name + b"\0" for name in sorted(names))


def _write(path: Path, text: str) -> None:
    """Writes a small file atomically if its content differs."""
    data = text.encode("utf-8", "surrogateescape")
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)


def _status(path: bytes) -> os.stat_result | None:
    """The status of a file or symlink; None if it is missing or a directory."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if stat.S_ISDIR(status.st_mode) else status


def _readable(path: bytes, status: os.stat_result) -> bool:
    if stat.S_ISLNK(status.st_mode):
        return True
    return stat.S_ISREG(status.st_mode) and os.access(path, os.R_OK)


def _work_tree(project: Path, warnings: list[str]) -> tuple[Path, Path | None]:
    """The top of the repository around the project, unless it ignores the project, and its git
    directory."""
    for top in (project, *project.parents):
        found = git_directory(top, warnings)
        if found is not None:
            if top != project and IgnoreRules(top).is_ignored(project, is_dir=True):
                break
            return top, found
    return project, None


def _untrusted_folders(
    project: Path, top: Path, others: Iterable[Path], environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Directories whose programs never run as git: the project and other roots with the
    repositories around them, except home directories."""
    home = Path(os.path.realpath(environ.get("HOME") or os.sep))
    around = [top]
    for other in others:
        around += (other, _work_tree(other, [])[0])
    return (project, *(each for each in around if not home.is_relative_to(each)))


def _rule_below(prefix: str, line: str) -> str:
    """A rule of an ignore file in the directory `prefix` for use in a file at the top."""
    rule = line.rstrip("\r")
    if not prefix or not rule.strip() or rule.startswith("#"):
        return rule
    sign = "!" if rule.startswith("!") else ""
    pattern = rule.removeprefix("!")
    anchored = "/" in pattern.rstrip().rstrip("/")
    middle = "" if anchored else "**/"
    return f"{sign}/{prefix.translate(_SPECIAL)}{middle}{pattern.removeprefix('/')}"
