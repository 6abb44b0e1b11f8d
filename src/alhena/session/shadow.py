"""The shadow repository of a project: what its files were, at moments to which one may return.

It has its repository beside the project, never in it, and knows the project's files by an index of
its own. A moment is a tree of git's, held by a ref of its own, so that each can go
without the others. What git ignores is left out, and so are large files; repositories within the
project are taken for what they are, files, and their `.git` is never touched.
"""

import errno
import os
import threading
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from alhena.session.errors import (
    CheckpointError,
    GitFailedError,
    HeldShadowError,
    TooMuchError,
)
from alhena.session.shadow_files import (
    FULL_NAME,
    NO_NAMES,
    RULES,
    Around,
    Snapshot,
    below,
    is_name,
    items,
    require_readable,
    rule_of,
    shown,
    trouble,
    work_tree,
)
from alhena.session.shadow_git import GitPlace, ShadowGit, search_path
from alhena.session.shadow_index import ShadowIndex, make_ready, write_whole
from alhena.session.shadow_trees import (
    TREE,
    Difference,
    damaged,
    difference,
    keep_index_anew,
    keep_trees_anew,
    unreadable,
)
from alhena.system.errors import FileError, WriteFailureError, printable
from alhena.system.files import read_small_text
from alhena.system.ignore import excludes_file
from alhena.system.locking import alone_on

REFS = "refs/alhena/"
MAX_LOOSE = 5_000
MAX_PACKS = 50
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_A_WHILE_S = 3.0
_TRIES = 3
_FULL = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT)))


class ShadowRepository:
    """The shadow repository in `directory/.git` for the files of `project`, a real path. One thread
    at a time; processes wait for each other. Each method raises CheckpointError."""

    def __init__(
        self,
        directory: Path,
        project: Path,
        environ: Mapping[str, str],
        *,
        around: Around | None = None,
        cancellation: threading.Event | None = None,
    ) -> None:
        around = around or Around()
        self.directory = directory
        self.project = project
        self.cancellation = cancellation or threading.Event()
        warnings: list[str] = []
        top, own = work_tree(project, warnings)
        self._prefix = "" if top == project else f"{project.relative_to(top)}/"
        git_dir = directory / ".git"
        mark = f"-{zlib.crc32(os.fsencode(self._prefix)):08x}" if self._prefix else ""
        self._excluded = None if own is None else own / "info" / "exclude"
        excludes = excludes_file(own, warnings, environ)
        self.git = ShadowGit(
            GitPlace(git_dir, git_dir / f"alhena-index{mark}", top),
            {"PATH": search_path(environ, _suspects(project, top, around.others, environ))},
            excludes=excludes,
            cancellation=self.cancellation,
            obstacles=around.obstacles,
        )
        self._index = ShadowIndex(self.git, project, self._prefix, around.limits)
        self._rule_files = _rule_files(top, project, (self._excluded, excludes))
        self._apart = around.apart
        self._patience_s, self._waits = around.patience_s, around.waits
        self._made = self._prepared = False

    def snapshot(self, forced: Iterable[str] = ()) -> Snapshot:
        """Keeps the files as they are now. `forced` are paths that are kept although they may be
        ignored or large, and seen to be: where what was kept of them is damaged, that is mended."""
        with self.alone():
            return self.taken(forced)

    def taken(self, forced: Iterable[str] = ()) -> Snapshot:
        """As `snapshot`, within `alone`."""
        if not self._prepared:
            self._prepare()
        wanted = tuple(forced)
        for attempt in range(1, _TRIES + 1):
            try:
                passed = self._index.update(wanted)
                tree = self._index.tree()
                self._hold(tree)
                for listed in (passed.ignored, passed.bare):
                    if listed not in ("", NO_NAMES):
                        self._hold(listed)
                left_out = (*passed.left_out, *self._unkept(tree, wanted))
                return Snapshot(tree, left_out, passed.private, passed.ignored, passed.bare)
            except GitFailedError as error:  # files come and go under its hands
                if attempt == _TRIES or self.cancellation.is_set():
                    raise
                if attempt > 1:
                    self._mend(error)
        raise AssertionError("the last try returns or raises")

    def _unkept(self, tree: str, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the paths that nobody could bring back from a tree, although what the files
        have now was kept anew."""
        if not damaged(self.git, tree, paths):
            return ()
        keep_index_anew(self.git, self._prefix)
        return tuple(map(shown, sorted(damaged(self.git, tree, paths))))

    def _mend(self, error: GitFailedError) -> None:
        """Makes good what a crash of the machine may have left of the index, and of what the files
        have now."""
        if not any(each in error.message for each in _FULL):
            with suppress(GitFailedError):
                keep_index_anew(self.git, self._prefix)
        self.git.place.index.unlink(missing_ok=True)

    @contextmanager
    def alone(self, *, ready: bool = True) -> Generator[None]:
        """Nobody else is at work on the repository for the length of a block. It is made ready for
        that, unless it need not be before `taken`."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.chmod(0o700)
            descriptor = os.open(self.directory / "alhena.lock", _LOCK, 0o600)
            try:
                with ExitStack() as stack:
                    self._wait_for(descriptor, stack)
                    self.git.held = descriptor
                    self._prepared = False
                    if ready:
                        self._prepare()
                    yield
            finally:
                self.git.held = None
                os.close(descriptor)
        except OSError as error:
            raise trouble(error, self.directory) from error
        except FileError as error:
            raise CheckpointError(error.message) from error

    def _wait_for(self, descriptor: int, stack: ExitStack) -> None:
        """Has the repository for itself until the end of the stack. Raises HeldShadowError,
        WriteFailureError when it is cancelled, OSError."""
        first = min(_A_WHILE_S, self._patience_s / 2)
        if self._got(descriptor, first, stack):
            return
        self._waits()
        if not self._got(descriptor, self._patience_s - first, stack):
            raise HeldShadowError(
                f"another process holds {printable(self.directory)}, and has not come to its end "
                f"in {self._patience_s:.0f} s.",
                remedy="See whether an alhena was stopped (`jobs`, `ps`): go on with it or end it.",
            )

    def _got(self, descriptor: int, patience_s: float, stack: ExitStack) -> bool:
        cancelled = self.cancellation
        held = alone_on(descriptor, self.directory, cancellation=cancelled, patience_s=patience_s)
        try:
            stack.enter_context(held)
        except WriteFailureError:
            if cancelled.is_set():
                raise
            return False
        return True

    def paths(self, tree: str) -> tuple[str, ...]:
        """The files of a moment."""
        listed = self.git.run(("ls-tree", "-r", "-z", "--name-only", "--full-tree", tree))
        return tuple(map(os.fsdecode, items(listed)))

    def difference(self, old: str, new: str) -> Difference:
        """The difference of two snapshots. Repairs a lost tree if the latest snapshot still has its
        files."""
        found = difference(self.git, old, new)
        if found.lost:
            keep_trees_anew(self.git, self._prefix)
            found = difference(self.git, old, new)
        return found

    def known(self, tree: str) -> bool:
        """True when the repository has that moment; one of the reference's is a commit."""
        if len(tree) != FULL_NAME or not tree.isalnum():
            return False
        try:
            return self.git.text("cat-file", "-t", tree) in ("tree", "commit")
        except GitFailedError:
            return False

    def listed(self, name: str) -> frozenset[str] | None:
        """The paths of a list that a moment has, those of directories with a slash at their ends;
        none without a name, None when the list is lost."""
        if name in ("", NO_NAMES):
            return frozenset()
        (said,) = self.git.objects((name,))
        return None if said is None else frozenset(map(os.fsdecode, items(said)))

    def ignored(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of the paths that the rules which now hold leave out."""
        write_whole(self.git.place.git_dir / "info" / "exclude", self._rules())
        # With a dot, so that no name is taken for anything but a name.
        given = tuple(b"./" + os.fsencode(self._prefix + path) for path in paths)
        if not given:
            return frozenset()
        said = self.git.run(("check-ignore", "--no-index", "-z", "--stdin"), given, accepted=(0, 1))
        start = len(self._prefix) + len("./")
        return frozenset(os.fsdecode(each)[start:] for each in items(said))

    def keep_only(self, trees: Callable[[], Iterable[str]]) -> int:
        """Lets go of every moment but these, which are asked for when nobody else is at work;
        returns of how many. Their contents stay until `collect`, which fails at a moment whose file
        a crash of the machine has emptied, and lets go of one whose file it took: these are written
        anew."""
        with self.alone():
            held, kept = self.held, frozenset(trees())
            for name in (held & kept) | self._there(kept - held):
                self._hold(name)
            gone = held - kept
            for name in gone:
                (self.git.place.git_dir / REFS / name).unlink(missing_ok=True)
            # Another program's git may have put them together in one file.
            listed = self.git.run(("for-each-ref", "--format=%(refname)", REFS)).decode().split()
            packed = {name.removeprefix(REFS) for name in listed} - kept
            if packed:
                said = [f"delete {REFS}{name}\0".encode() for name in packed]
                self.git.run(("update-ref", "-z", "--stdin"), said)
        return len(gone | packed)

    def _there(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names, of moments or of what is said of them, that the repository has."""
        chosen = frozenset(each for each in names if is_name(each))
        lost = unreadable(self.git, chosen, TREE) if chosen else chosen
        return chosen - (unreadable(self.git, lost) if lost else lost)

    def collect(self) -> None:
        """Packs what is kept, and removes what no moment needs and is a day old."""
        try:
            self.git.run(("gc", "--quiet", "--prune=1.day.ago"))
        except OSError as error:
            raise trouble(error, self.directory) from error

    @property
    def held(self) -> frozenset[str]:
        """The moments that are held by files."""
        return frozenset(_listed(self.git.place.git_dir / REFS))

    @property
    def scattered(self) -> bool:
        """True when there are so many files that they had better be packed, by those of one
        directory in 256, and by the packs."""
        objects = self.git.place.git_dir / "objects"
        loose = 256 * len(_listed(objects / "17"))
        return loose > MAX_LOOSE or len(_listed(objects / "pack")) > 2 * MAX_PACKS

    def _prepare(self) -> None:
        git_dir = self.git.place.git_dir
        require_readable((*self._rule_files, *self.git.obstacles))
        if not self._made:
            if self.directory.resolve().is_relative_to(self.project):
                raise TooMuchError(
                    f"{self.project} holds the checkpoints themselves: it is too much to keep.",
                    remedy="Work in a directory of the project's own.",
                )
            make_ready(self.git)
            self._made = True
        # Whoever made these is gone, for the repository is ours alone now.
        Path(f"{self.git.place.index}.lock").unlink(missing_ok=True)
        with suppress(FileNotFoundError), os.scandir(git_dir / REFS) as entries:
            for entry in entries:
                if entry.name.endswith(".lock"):
                    os.unlink(entry)
        write_whole(git_dir / "info" / "exclude", self._rules())
        self._prepared = True

    def _rules(self) -> str:
        """Ignore rules beyond the project's .gitignore files."""
        warnings: list[str] = []
        own = "" if self._excluded is None else read_small_text(self._excluded, warnings)
        gemini = read_small_text(self.project / ".geminiignore", warnings).splitlines()
        lines = [*own.splitlines(), *(below(self._prefix, line) for line in gemini)]
        if self._apart is not None:
            lines += rule_of(f"{self._prefix}{self._apart.relative_to(self.project)}/")
        return "".join(f"{line}\n" for line in lines)

    def _hold(self, name: str) -> None:
        """Keeps a moment, or what is said of one, from being collected."""
        ref = self.git.place.git_dir / REFS / name
        ref.parent.mkdir(parents=True, exist_ok=True)
        write_whole(ref, f"{name}\n")


def _listed(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # there is none yet, or nobody may look: nothing is known of it
        return []


def _suspects(
    project: Path, top: Path, others: Iterable[Path], environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Directories whose programs are never used as git: the project and other roots, each with its
    enclosing repository, without home directories."""
    home = Path(os.path.realpath(environ.get("HOME") or os.sep))
    around = [top]
    for other in others:
        around += (other, work_tree(other, [])[0])
    return (project, *(each for each in around if not home.is_relative_to(each)))


def _rule_files(top: Path, project: Path, others: Iterable[Path | None]) -> tuple[Path, ...]:
    """The files of rules that are known before anything is listed."""
    around = (project, *(each for each in project.parents if each.is_relative_to(top)))
    found = [directory / name for directory in around for name in RULES]
    found += (each for each in others if each is not None)
    return (*found, project / ".geminiignore")
