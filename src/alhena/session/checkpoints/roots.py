"""Snapshots of the project and of other workspace roots, each in a repository of its own.

A root inside another is saved with that one unless it is ignored there. Only this project uses the
repositories of its roots: another project's checkpoints of the same root are independent.
"""

import os
import shutil
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointError,
    NoGitError,
    RootSnapshot,
    TooMuchError,
    directory_of,
    objects_of,
    shown,
    trouble,
)
from alhena.session.checkpoints.repository import (
    EMPTY,
    Limits,
    Repository,
    Snapshot,
    Surroundings,
)
from alhena.session.checkpoints.restore import (
    Goal,
    Plan,
    Restoration,
    Step,
    is_real_directory,
    restore,
)
from alhena.system.ignore import IgnoreRules

PATIENCE_S = 60.0
"""Seconds to wait for another process."""

_MANY = 20


class Saved(msgspec.Struct, frozen=True):
    """Snapshots of the roots, at least one, the errors of the others, and warnings."""

    snapshots: tuple[RootSnapshot, ...]
    problems: tuple[tuple[Path, CheckpointError], ...]
    warnings: tuple[str, ...]


class Roots:
    """The roots of a session: the `project` and the other `roots`, all real paths. Repositories are
    in the directory `history`. `patience_s`: seconds to wait for another process; `waits` is called
    when that takes long. Methods raise CheckpointError."""

    def __init__(
        self,
        project: Path,
        history: Path,
        environ: Mapping[str, str],
        roots: Iterable[Path] = (),
        limits: Limits | None = None,
    ) -> None:
        self.project = project
        self._history = history
        self._environ = environ
        others = dict.fromkeys(root for root in roots if root != project)
        self._roots = tuple(sorted(others, key=lambda root: len(root.parts)))
        self._limits = limits or Limits()
        self.patience_s = PATIENCE_S
        self.waits: Callable[[], object] = lambda: None
        self._given_up: dict[Path, CheckpointError] = {}

    @contextmanager
    def saved(self, named: Iterable[Path], stop: threading.Event) -> Generator[Saved]:
        """Saves the files, including `named` ones that are ignored (paths with the real paths of
        their directories). Other processes are excluded for the block."""
        paths = tuple(named)
        found: dict[Path, RootSnapshot] = {}
        problems: dict[Path, CheckpointError] = {}
        warnings: list[str] = []
        with ExitStack() as stack:
            # All processes lock the project first, even if only another root can be saved.
            project = self.repository("", stop, self.waits)
            stack.enter_context(project.locked())
            # Roots inside one that cannot be saved are saved on their own.
            while rest := [each for each in self._outermost(problems) if each not in found]:
                root = rest[0]
                wanted = _by_root((*found, *rest), paths)[root]
                try:
                    repository = project
                    if root != self.project:
                        repository = self._other(root, stop, stack)
                    snapshot = repository.snapshot(wanted)
                except (CheckpointError, OSError) as failure:
                    if stop.is_set() or not is_real_directory(self.project):
                        raise
                    error = trouble(failure, root) if isinstance(failure, OSError) else failure
                    problems[root] = error
                    if isinstance(error, TooMuchError | NoGitError):
                        self._given_up[root] = error
                    continue
                found[root] = self._root_snapshot(root, snapshot, wanted)
                warnings += [repository.warning] if repository.warning else []
                lost = snapshot.left_out.intersection(map(shown, wanted))
                warnings += (f"{path} cannot be saved, so it cannot be restored" for path in lost)
            if not found:
                raise _main_error((*problems.values(), *self._given_up.values()))
            yield Saved(tuple(found.values()), tuple(problems.items()), tuple(warnings))

    @contextmanager
    def ends(self, named: Iterable[Path], stop: threading.Event) -> Generator[dict[str, str]]:
        """Saves the files like `saved`; yields the trees by root, the empty tree for a root that is
        gone."""
        with self.saved(named, stop) as saved:
            gone = (root for root, _ in saved.problems if not os.path.lexists(root))
            trees = {snapshot.root: snapshot.tree for snapshot in saved.snapshots}
            yield {**trees, **{root.as_uri(): EMPTY for root in gone}}

    def restore(
        self,
        goals: Sequence[Goal],
        stop: threading.Event,
        record: Callable[[tuple[RootSnapshot, ...]], object],
    ) -> Restoration:
        """Carries out the goals; `record` gets the snapshots made before the first change."""

        def tell(plans: Sequence[Plan]) -> None:
            record(tuple(self._root_snapshot(plan.project, plan.before) for plan in plans))

        steps = [
            Step(self.repository(goal.start.root, stop, self.waits), goal, bool(goal.start.root))
            for goal in goals
        ]
        written, removed, left = list[str](), list[str](), list[tuple[str, str]]()
        before = ""
        for root, done in restore(steps, tell):
            before = done.before if root == self.project else before
            top = "" if root == self.project else f"{root}{os.sep}"
            written += (top + path for path in done.written)
            removed += (top + path for path in done.removed)
            left += ((top + path if path else str(root), why) for path, why in done.left)
        return Restoration(before, tuple(written), tuple(removed), tuple(left))

    def tidy(
        self, found: Callable[[], Sequence[tuple[str, Checkpoint]]], stop: threading.Event
    ) -> None:
        """Deletes what none of the checkpoints needs, which are read while the lock is held."""
        try:
            self._tidy(found, stop)
        except OSError as error:
            raise trouble(error, self._history) from error

    def _tidy(
        self, found: Callable[[], Sequence[tuple[str, Checkpoint]]], stop: threading.Event
    ) -> None:
        roots = {_key(each.root): each.root for _, one in found() for each in one.roots}
        for root in ("", *roots.values()):
            if not root or is_real_directory(directory_of(root)):
                repository = self.repository(root, stop)
                gone = repository.keep_only(lambda root=root: objects_of(found(), root))
                repository.collect(*(() if gone >= _MANY else ("--auto",)))
        directory = self._history / "roots"
        if directory.is_dir() and set(os.listdir(directory)) - roots.keys():
            with self.repository("", stop).locked():  # excludes saving in any root
                needed = {_key(each.root) for _, one in found() for each in one.roots}
                for name in set(os.listdir(directory)) - needed:
                    shutil.rmtree(directory / name)

    def repository(
        self, root: str, stop: threading.Event, waits: Callable[[], object] = lambda: None
    ) -> Repository:
        """The repository of a root ("": the project). `stop` cancels its work."""
        place = directory_of(root) if root else self.project
        around = Surroundings(
            limits=self._limits,
            others=tuple(each for each in (self.project, *self._roots) if each != place),
            apart=self.project if root and self.project.is_relative_to(place) else None,
            patience_s=self.patience_s,
            waits=waits,
        )
        directory = self._history / "roots" / _key(root) if root else self._history
        try:
            return Repository(directory, place, self._environ, around, stop)
        except OSError as error:
            raise trouble(error, place) from error

    def _root_snapshot(
        self, root: Path, snapshot: Snapshot, named: tuple[str, ...] = ()
    ) -> RootSnapshot:
        uri = "" if root == self.project else root.as_uri()
        return RootSnapshot(root=uri, tree=snapshot.tree, notes=snapshot.notes, paths=named)

    def _outermost(self, failed: Collection[Path]) -> list[Path]:
        """The roots that no other one saves, without the `failed`."""
        found: list[Path] = []
        for root in (self.project, *self._roots):
            if root in failed or root in self._given_up:
                continue
            around = [each for each in found if root.is_relative_to(each)]
            rules = (IgnoreRules(each, environ=self._environ) for each in around)
            if all(each.ignored(root, is_dir=True) for each in rules):
                found.append(root)
        return found

    def _other(self, root: Path, stop: threading.Event, stack: ExitStack) -> Repository:
        if not is_real_directory(root):
            raise CheckpointError("it is no directory any more.")
        repository = self.repository(root.as_uri(), stop, self.waits)
        stack.enter_context(repository.locked())
        return repository


def _main_error(errors: Sequence[CheckpointError]) -> CheckpointError:
    """The error to report when no root is saved: preferably one that may pass."""
    passing = (each for each in errors if not isinstance(each, TooMuchError | NoGitError))
    return next(passing, errors[0])


def _key(root: str) -> str:
    return sha256(root.encode()).hexdigest()[:16]


def _by_root(roots: Sequence[Path], named: Iterable[Path]) -> dict[Path, tuple[str, ...]]:
    """Paths by the innermost root around them, relative to it."""
    found: dict[Path, dict[str, None]] = {root: {} for root in roots}
    for path in named:
        around = [root for root in roots if path.is_relative_to(root) and path != root]
        if around:
            inner = max(around, key=lambda root: len(root.parts))
            found[inner][str(path.relative_to(inner))] = None
    return {root: tuple(paths) for root, paths in found.items()}
