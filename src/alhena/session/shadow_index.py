"""Makes the shadow repository and brings its index up to the project's files."""

import os
import re
import stat
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from alhena.session.errors import GitFailedError, TooMuchError
from alhena.session.loose import keep_loose
from alhena.session.shadow_files import (
    ALL,
    ANY,
    NO_NAMES,
    Limits,
    found,
    items,
    object_name,
    ordinary,
    shown,
    within,
)
from alhena.session.shadow_git import BRANCH, IN_ONE_PACK, LITERAL, GitPlace, ShadowGit

_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !eol\n"
_HEAD = re.compile(rb"ref: refs/[\x21-\x7e]+\n?|[0-9a-f]{40}\n?")
_MAX_HEAD = 1_000


def make_ready(git: ShadowGit) -> None:
    """Makes the repository when there is none. Of one that lacks what git needs that is made again;
    one that still is none is moved aside, and a new one takes its place. Nobody else is at work on
    it. Raises CheckpointError, OSError."""
    git_dir = git.place.git_dir
    if os.path.lexists(git_dir) and not stat.S_ISDIR(git_dir.lstat().st_mode):
        _move_aside(git_dir)
    attributes = git_dir / "info" / "attributes"
    if not _whole(git_dir):  # the attributes come last: without them nothing need be whole
        if os.path.lexists(git_dir):
            _clear(git_dir)
        try:
            _init(git)
        except GitFailedError:
            if not os.path.lexists(attributes):
                raise
            _move_aside(git_dir)
            _init(git)
    write_whole(attributes, _ATTRIBUTES)


def write_whole(path: Path, text: str) -> None:
    """Writes a small file, in one step, unless it says that already. Raises OSError."""
    data = text.encode("utf-8", "surrogateescape")
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)


def _whole(git_dir: Path) -> bool:
    needed = (git_dir / "info" / "attributes", git_dir / "config")
    directories = (git_dir / "objects", git_dir / "refs")
    return (
        all(map(os.path.isfile, needed)) and all(map(os.path.isdir, directories)) and _head(git_dir)
    )


def _head(git_dir: Path) -> bool:
    """True when HEAD is one: without it git takes the directory for no repository."""
    try:
        with (git_dir / "HEAD").open("rb") as file:
            return bool(_HEAD.fullmatch(file.read(_MAX_HEAD)))
    except OSError:
        return False


def _clear(git_dir: Path) -> None:
    """Takes away what keeps git from making a repository: locks of a process that is gone, and a
    HEAD that is none."""
    for name in ("HEAD", "config"):
        (git_dir / f"{name}.lock").unlink(missing_ok=True)
    if not _head(git_dir):
        with suppress(IsADirectoryError, PermissionError):  # then git says so, and it is moved
            (git_dir / "HEAD").unlink(missing_ok=True)


def _init(git: ShadowGit) -> None:
    git.run((*BRANCH, "init", "--quiet", "--template="))
    if not _head(git.place.git_dir):
        raise GitFailedError(
            "git init has made no repository.",
            remedy="See whether `git --version` works; which git is found depends on PATH.",
        )


def _move_aside(git_dir: Path) -> None:
    number = 1
    while os.path.lexists(aside := git_dir.with_name(f"{git_dir.name}.damaged-{number}")):
        number += 1
    git_dir.rename(aside)


MAX_PRIVATE = 1_000
_MAX_NESTED = 200
_MANY = 200
_FRESH = ("ls-files", "-z", "-m", "-o", "--exclude-standard")
_OTHERS = ("ls-files", "-z", "-o", "--exclude-standard")
_IGNORED = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
_BARE = ("ls-files", "-z", "-o", "--exclude-standard", "--directory")
_UNLISTED = b"could not open directory '"
_GONE = re.compile(
    rb"could not open directory '.*': (?:No such file or|Not a) directory$", re.MULTILINE
)
_UNLISTED_LINE = re.compile(rb"^warning: could not open directory '(.*)': [^':]+$", re.MULTILINE)


class Passed(msgspec.Struct, frozen=True):
    """Paths that the index omits or cannot express, as in a `Snapshot`."""

    left_out: tuple[str, ...]
    private: tuple[str, ...]
    ignored: str
    bare: str


class ShadowIndex:
    """The index of a shadow repository for the project in the directory `prefix` (with a slash at
    its end, "" for the top itself) of the work tree. Each method raises CheckpointError."""

    def __init__(self, git: ShadowGit, project: Path, prefix: str, limits: Limits) -> None:
        self._git = git
        self._project = project
        self._prefix = prefix
        self._limits = limits
        self._private = Path(f"{git.place.index}-private")
        self._unlisted: set[bytes] = set()

    def update(self, forced: tuple[str, ...]) -> Passed:
        """Takes in what has changed. `forced` are paths that are kept although they may be ignored
        or large."""
        self._unlisted = set()
        with (  # beside the other, which takes as long
            self._listing(_IGNORED, b"") as ignored,
            self._listing(_BARE, b"") as untracked,
        ):
            names = set(items(self._listed(_FRESH, b"")))
            nested = self._expand(names)
            passed = set(items(ignored()))
            bare = _directories(untracked())
        if len(names) > self._limits.files:
            raise TooMuchError(f"there are {len(names):,} new or changed files.")
        kept = {
            os.fsencode(self._prefix + path) for path in forced if ordinary(self._project, path)
        }
        left_out, private, dropped = self._take(names, kept)
        told = self._told(private) if len(private) <= MAX_PRIVATE else (ALL,)
        for inner in nested:
            passed.update(inner + name for name in items(self._listed(_IGNORED, inner)))
        if dropped or any(within(os.fsdecode(name), bare) for name in names):
            bare = _directories(self._listed(_BARE, b""))
        return Passed(
            self._told({*left_out, *self._unlisted}),
            told,
            self._keep_list(passed),
            "" if self._prefix in bare else self._keep_list(map(os.fsencode, bare)) or NO_NAMES,
        )

    def tree(self) -> str:
        """The tree of the project's files."""
        if not self._prefix:
            return object_name(self._git.text("write-tree"), "write-tree")
        if not self._git.run((LITERAL, "ls-files", "-z", "--", self._prefix)):
            return object_name(self._git.text("mktree", "-z"), "mktree")
        return object_name(self._git.text("write-tree", f"--prefix={self._prefix}"), "write-tree")

    def _take(
        self, names: set[bytes], kept: set[bytes]
    ) -> tuple[list[bytes], set[bytes], list[bytes]]:
        """Puts these names into the index; returns what was left out of it, what is private of it,
        and what is no more in it."""
        top = self._git.place.work_tree
        taken: list[bytes] = []
        dropped: list[bytes] = []
        left_out: list[bytes] = []
        private = set(items(_read(self._private)))
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
            self._git.run(("update-index", "-z", "--force-remove", "--stdin"), sorted(dropped))
        if taken:
            packed = IN_ONE_PACK if len(taken) > _MANY else ()
            flags = ("--add", "--remove", "--replace", "-z", "--stdin")
            self._git.run((*packed, "update-index", *flags), sorted(taken))
        write_whole(self._private, os.fsdecode(b"".join(name + b"\0" for name in sorted(private))))
        return left_out, private, dropped

    def _expand(self, names: set[bytes]) -> list[bytes]:
        """Puts the files of repositories within the project in the place of these, which git shows
        by their directories alone; returns the directories."""
        found = [name for name in names if name.endswith(b"/")]
        names.difference_update(found)
        for count, nested in enumerate(found, start=1):
            if count > _MAX_NESTED:
                raise TooMuchError(f"there are more than {_MAX_NESTED} repositories in it.")
            for name in items(self._listed(_OTHERS, nested)):
                if name.endswith(b"/"):
                    found.append(nested + name)
                else:
                    names.add(nested + name)
        return found

    def _keep_list(self, names: Iterable[bytes]) -> str:
        """Keeps a list of what is there; its name, "" for none."""
        found = sorted(names)
        if not found:
            return ""
        start = len(os.fsencode(self._prefix))
        data = b"".join(name[start:] + b"\0" for name in found)
        return keep_loose(self._git.place.git_dir, data, "blob")

    def _listed(self, command: tuple[str, ...], nested: bytes) -> bytes:
        """Output of a listing command for the project or a repository within it."""
        with self._listing(command, nested) as listed:
            return listed()

    @contextmanager
    def _listing(self, command: tuple[str, ...], nested: bytes) -> Generator[Callable[[], bytes]]:
        """Begins a listing; what is yielded gives it. Which directories could not be listed is
        noted."""
        place = self._git.place
        if nested:
            index = place.git_dir / "alhena-no-index"
            place = GitPlace(place.git_dir, index, place.work_tree / os.fsdecode(nested))
            given = command
        else:
            given = (LITERAL, *command, "--", *((self._prefix,) if self._prefix else ()))
        with self._git.begun(given, place=place) as outcome:

            def listed() -> bytes:
                found, complaints = outcome()
                self._note_unlisted(nested, complaints)
                return found

            yield listed

    def _note_unlisted(self, nested: bytes, complaints: bytes) -> None:
        missed = complaints.count(_UNLISTED) - len(_GONE.findall(complaints))
        if not missed:
            return
        top = os.fsencode(self._git.place.work_tree)
        start = os.fsencode(self._prefix)
        for match in _UNLISTED_LINE.finditer(complaints):
            name = nested + match[1].rstrip(b"/") + b"/"
            # git does not write every name as it is, and not only of what is in the project
            if os.path.isdir(os.path.join(top, name)):
                missed -= 1
                if name.startswith(start) and name not in (start, b"./", b"/"):
                    self._unlisted.add(name)
                elif start.startswith(name) or name in (start, b"./", b"/"):
                    self._unlisted.add(start + os.fsencode(ANY))
        if missed:
            self._unlisted.add(start + os.fsencode(ANY))

    def _told(self, names: Iterable[bytes]) -> tuple[str, ...]:
        start = len(os.fsencode(self._prefix))
        return tuple(shown(os.fsdecode(name[start:])) for name in sorted(names))


def _directories(said: bytes) -> frozenset[str]:
    return frozenset(os.fsdecode(name) for name in items(said) if name.endswith(b"/"))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
