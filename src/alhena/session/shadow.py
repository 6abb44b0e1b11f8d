"""The shadow repository of a project: what its files were, at moments to which one may return.

It has its repository beside the project, never in it, and knows the project's files by an index of
its own. A moment is a tree of git's, held by a ref of its own, so that each can go
without the others. What git ignores is left out, and so are large files; repositories within the
project are taken for what they are, files, and their `.git` is never touched.
"""

import os
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from alhena.session.errors import CheckpointError, GitFailedError, TooMuchError
from alhena.session.shadow_files import below, found, ordinary, shown, work_tree
from alhena.session.shadow_git import BRANCH, IN_ONE_PACK, LITERAL, GitPlace, ShadowGit
from alhena.system.errors import FileError, from_os_error
from alhena.system.files import read_small_text
from alhena.system.gitconfig import excludes_file
from alhena.system.locking import alone_on

REFS = "refs/alhena/"
FULL_NAME = 40
MAX_LOOSE = 5_000
MAX_PACKS = 50
MAX_PRIVATE = 1_000
ALL = "*"
_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !eol\n"
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_PATIENCE_S = 60.0
_TRIES = 3
_MAX_NESTED = 200
_MANY = 200


class Limits(msgspec.Struct, frozen=True):
    """What a snapshot takes in. A file of more than `file_bytes` is left out; when `files` files or
    `bytes` bytes are new at once, there is no snapshot."""

    file_bytes: int = 50 << 20
    files: int = 200_000
    bytes: int = 2 << 30


class Snapshot(msgspec.Struct, frozen=True):
    """A moment: its tree, what was left out because it is large or cannot be read, and the files
    that only their owner may read (`ALL`: too many to be named). Paths are relative to the project,
    as `shown`."""

    tree: str
    left_out: tuple[str, ...] = ()
    private: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True):
    """One path between two moments: modes as git has them ("000000" for nothing), names of
    contents."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str


class ShadowRepository:
    """The shadow repository in `directory/.git` for the files of `project`, a real path. One thread
    at a time; processes wait for each other. Each method raises CheckpointError."""

    def __init__(
        self,
        directory: Path,
        project: Path,
        environ: Mapping[str, str],
        *,
        limits: Limits | None = None,
        cancellation: threading.Event | None = None,
    ) -> None:
        self.directory = directory
        self.project = project
        self._limits = limits or Limits()
        self._cancellation = cancellation or threading.Event()
        warnings: list[str] = []
        top, own = work_tree(project, warnings)
        self._prefix = "" if top == project else f"{project.relative_to(top)}/"
        git_dir = directory / ".git"
        mark = f"-{zlib.crc32(os.fsencode(self._prefix)):08x}" if self._prefix else ""
        self._excluded = None if own is None else own / "info" / "exclude"
        self._environ = environ
        self._excludes = excludes_file(own, warnings, environ)
        place = GitPlace(git_dir, git_dir / f"alhena-index{mark}", top)
        self._private = Path(f"{place.index}-private")
        self.git = self._git(place)
        self._ready = False

    def snapshot(self, forced: Iterable[str] = ()) -> Snapshot:
        """Keeps the files as they are now. `forced` are paths that are kept although they may be
        ignored or large."""
        with self.alone():
            return self.taken(forced)

    def taken(self, forced: Iterable[str] = ()) -> Snapshot:
        """As `snapshot`, within `alone`."""
        wanted = tuple(forced)
        for attempt in range(1, _TRIES + 1):
            try:
                left_out, private = self._update(wanted)
                tree = self._tree()
                self._hold(tree)
                return Snapshot(tree, left_out, private)
            except GitFailedError:  # files come and go under its hands
                if attempt == _TRIES or self._cancellation.is_set():
                    raise
                if attempt > 1:  # what a crash of the machine has left of it is of no use
                    self.git.place.index.unlink(missing_ok=True)
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def alone(self) -> Generator[None]:
        """Nobody else is at work on the repository for the length of a block."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.chmod(0o700)
            descriptor = os.open(self.directory / "alhena.lock", _LOCK, 0o600)
            try:
                with alone_on(
                    descriptor,
                    self.directory,
                    cancellation=self._cancellation,
                    patience_s=_PATIENCE_S,
                ):
                    self.git.held = descriptor
                    self._prepare()
                    yield
            finally:
                self.git.held = None
                os.close(descriptor)
        except OSError as error:
            raise CheckpointError(
                str(from_os_error(error, self.directory, writing=True))
            ) from error
        except FileError as error:
            raise CheckpointError(str(error)) from error

    def paths(self, tree: str) -> tuple[str, ...]:
        """The files of a moment."""
        listed = self.git.run(("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree))
        return tuple(map(os.fsdecode, _items(listed)))

    def changes(self, old: str, new: str) -> tuple[Change, ...]:
        """What differs between two moments. What is neither a file nor a symlink (a submodule that
        another program's snapshot has) is not spoken of."""
        given = ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new)
        words = _items(self.git.run(given))
        found: list[Change] = []
        for head, path in zip(words[::2], words[1::2], strict=True):
            modes = head.decode("ascii").removeprefix(":").split()
            change = Change(os.fsdecode(path), *modes[:4])
            if "160000" not in (change.old_mode, change.new_mode):
                found.append(change)
        return tuple(found)

    def known(self, tree: str) -> bool:
        """Whether the repository has that moment; one of the reference's is a commit."""
        if len(tree) != FULL_NAME or not tree.isalnum():
            return False
        try:
            return self.git.text("cat-file", "-t", tree) in ("tree", "commit")
        except GitFailedError:
            return False

    def ignored(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of the paths that the rules which now hold leave out."""
        # With a dot, so that no name is taken for anything but a name.
        given = tuple(b"./" + os.fsencode(self._prefix + path) for path in paths)
        if not given:
            return frozenset()
        said = self.git.run(("check-ignore", "--no-index", "-z", "--stdin"), given, accepted=(0, 1))
        start = len(self._prefix) + len("./")
        return frozenset(os.fsdecode(each)[start:] for each in _items(said))

    def keep_only(self, trees: Callable[[], Iterable[str]]) -> int:
        """Lets go of every moment but these, which are asked for when nobody else is at work;
        returns of how many. Their contents stay until `collect`."""
        with self.alone():
            kept = {f"{REFS}{tree}" for tree in trees()}
            listed = self.git.run(("for-each-ref", "--format=%(refname)", REFS)).decode().split()
            gone = [name for name in listed if name not in kept]
            if gone:
                said = [f"delete {name}\0".encode() for name in gone]
                self.git.run(("update-ref", "-z", "--stdin"), said)
        return len(gone)

    def collect(self) -> None:
        """Packs what is kept, and removes what no moment needs and is a day old."""
        try:
            self.git.run(("gc", "--quiet", "--prune=1.day.ago"))
        except OSError as error:
            raise CheckpointError(
                str(from_os_error(error, self.directory, writing=True))
            ) from error

    @property
    def held(self) -> frozenset[str]:
        """The moments that are held by files."""
        return frozenset(_listed(self.git.place.git_dir / REFS))

    @property
    def scattered(self) -> bool:
        """Whether there are so many files that they had better be packed, by those of one directory
        in 256, and by the packs."""
        objects = self.git.place.git_dir / "objects"
        loose = 256 * len(_listed(objects / "17"))
        return loose > MAX_LOOSE or len(_listed(objects / "pack")) > 2 * MAX_PACKS

    def _git(self, place: GitPlace) -> ShadowGit:
        return ShadowGit(
            place, self._environ, excludes=self._excludes, cancellation=self._cancellation
        )

    def _prepare(self) -> None:
        git_dir = self.git.place.git_dir
        if not self._ready:
            if self.directory.resolve().is_relative_to(self.project):
                raise TooMuchError(
                    f"{self.project} holds the checkpoints themselves: it is too much to keep.",
                    remedy="Work in a directory of the project's own.",
                )
            attributes = git_dir / "info" / "attributes"
            if not attributes.exists():  # it comes last: without it nothing need be whole
                for name in ("HEAD", "config"):
                    (git_dir / f"{name}.lock").unlink(missing_ok=True)
                self.git.run((*BRANCH, "init", "--quiet", "--template="))
            _write(attributes, _ATTRIBUTES)
            self._ready = True
        # Whoever made these is gone, for the repository is ours alone now.
        Path(f"{self.git.place.index}.lock").unlink(missing_ok=True)
        with suppress(FileNotFoundError), os.scandir(git_dir / REFS) as entries:
            for entry in entries:
                if entry.name.endswith(".lock"):
                    os.unlink(entry)
        _write(git_dir / "info" / "exclude", self._rules())

    def _rules(self) -> str:
        """What is left out besides what the .gitignore files of the project say."""
        warnings: list[str] = []
        own = "" if self._excluded is None else read_small_text(self._excluded, warnings)
        gemini = read_small_text(self.project / ".geminiignore", warnings).splitlines()
        lines = (*own.splitlines(), *(below(self._prefix, line) for line in gemini))
        return "".join(f"{line}\n" for line in lines)

    def _update(self, forced: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Brings the index up to the files; returns what was left out of it, and what is private
        of it."""
        top = self.git.place.work_tree
        within = (self._prefix,) if self._prefix else ()
        given = ("ls-files", "-z", "-m", "-o", "--exclude-standard", "--", *within)
        names = set(_items(self.git.run((LITERAL, *given))))
        self._expand(names)
        if len(names) > self._limits.files:
            raise TooMuchError(f"there are {len(names):,} new or changed files.")
        kept = {os.fsencode(self._prefix + path) for path in forced if ordinary(self.project, path)}
        taken: list[bytes] = []
        dropped: list[bytes] = []
        left_out: list[bytes] = []
        private = set(_items(_read(self._private)))
        total = 0
        for name in names | kept:
            there = found(top, name)
            if there is None:
                (dropped if name in names else []).append(name)
            elif there.size < 0 or (there.size > self._limits.file_bytes and name not in kept):
                dropped.append(name)
                left_out.append(name)
            else:
                (private.add if there.private else private.discard)(name)
                taken.append(name)
                total += there.size
        private.difference_update(dropped)
        if total > self._limits.bytes:
            raise TooMuchError(f"there are {total // 1_000_000:,} MB of new or changed files.")
        if dropped:
            self.git.run(("update-index", "-z", "--force-remove", "--stdin"), sorted(dropped))
        if taken:
            packed = IN_ONE_PACK if len(taken) > _MANY else ()
            flags = ("--add", "--remove", "--replace", "-z", "--stdin")
            self.git.run((*packed, "update-index", *flags), sorted(taken))
        _write(self._private, os.fsdecode(b"".join(name + b"\0" for name in sorted(private))))
        told = self._told(private) if len(private) <= MAX_PRIVATE else (ALL,)
        return self._told(left_out), told

    def _told(self, names: Iterable[bytes]) -> tuple[str, ...]:
        start = len(self._prefix)
        return tuple(shown(os.fsdecode(name)[start:]) for name in sorted(names))

    def _expand(self, names: set[bytes]) -> None:
        """Puts the files of repositories within the project in the place of these, which git shows
        by their directories alone."""
        place = self.git.place
        found = [name for name in names if name.endswith(b"/")]
        names.difference_update(found)
        listing = ("ls-files", "-z", "-o", "--exclude-standard")
        nowhere = place.git_dir / "alhena-no-index"
        for count, nested in enumerate(found, start=1):
            if count > _MAX_NESTED:
                raise TooMuchError(f"there are more than {_MAX_NESTED} repositories in it.")
            inner = GitPlace(place.git_dir, nowhere, place.work_tree / os.fsdecode(nested))
            for name in _items(self.git.run(listing, place=inner)):
                if name.endswith(b"/"):
                    found.append(nested + name)
                else:
                    names.add(nested + name)

    def _hold(self, tree: str) -> None:
        """Keeps a moment from being collected."""
        ref = self.git.place.git_dir / REFS / tree
        if not ref.exists():
            ref.parent.mkdir(parents=True, exist_ok=True)
            _write(ref, f"{tree}\n")

    def _tree(self) -> str:
        if not self._prefix:
            return self.git.text("write-tree")
        if not self.git.run((LITERAL, "ls-files", "-z", "--", self._prefix)):
            return self.git.text("mktree", "-z")
        return self.git.text("write-tree", f"--prefix={self._prefix}")


def _listed(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # there is none yet, or nobody may look: nothing is known of it
        return []


def _items(said: bytes) -> list[bytes]:
    return said.split(b"\0")[:-1]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _write(path: Path, text: str) -> None:
    """Writes a small file unless it says that already."""
    data = text.encode("utf-8", "surrogateescape")
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)
