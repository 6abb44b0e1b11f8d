"""Snapshots of the project and of other workspace roots, each in a repository of its own.

A root inside another is saved with that one unless it is ignored there. Only this project uses the
repositories of its roots: another project's checkpoints of the same root are independent.
"""

import os
import shutil
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointError,
    RootSnapshot,
    TooMuchError,
    directory_of,
    objects_of,
    shown,
    trouble,
)
from alhena.session.checkpoints.repository import (
    PATIENCE_S,
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

_MANY = 20


class Saved(msgspec.Struct, frozen=True):
    """Snapshots of the project and of other roots, the errors of those that have none, and
    warnings."""

    snapshots: tuple[RootSnapshot, ...]
    problems: tuple[tuple[Path, CheckpointError], ...]
    warnings: tuple[str, ...]


class Roots:
    """The roots of a session: the `project` and the other `roots`, all real paths. Repositories are
    in the directory `history`. `patience_s`: seconds to wait for another process. Methods raise
    CheckpointError."""

    def __init__(
        self,
        project: Path,
        history: Path,
        environ: Mapping[str, str],
        roots: Iterable[Path] = (),
        limits: Limits | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.project = project
        self._history = history
        self._environ = environ
        others = dict.fromkeys(root for root in roots if root != project)
        self._roots = tuple(sorted(others, key=lambda root: len(root.parts)))
        self._limits = limits or Limits()
        self._patience_s = patience_s
        self._too_much: set[Path] = set()

    @contextmanager
    def saved(self, named: Iterable[Path], stop: threading.Event) -> Generator[Saved]:
        """Saves the files, including `named` ones that are ignored (paths with the real paths of
        their directories). Other processes are excluded for the block."""
        found: list[RootSnapshot] = []
        problems: list[tuple[Path, CheckpointError]] = []
        warnings: list[str] = []
        with ExitStack() as stack:
            outermost = self._outermost()
            for root, paths in _by_root(outermost, named).items():
                try:
                    repository, snapshot = self._snapshot(root, paths, stop, stack)
                except CheckpointError as error:
                    if root == self.project or stop.is_set():
                        raise
                    problems.append((root, error))
                    if isinstance(error, TooMuchError):
                        self._too_much.add(root)
                    continue
                found.append(self._root_snapshot(root, snapshot, paths))
                warnings += [repository.warning] if repository.warning else []
                lost = snapshot.left_out.intersection(map(shown, paths))
                warnings += (f"{path} cannot be saved, so it cannot be restored" for path in lost)
            yield Saved(tuple(found), tuple(problems), tuple(warnings))

    def _snapshot(
        self, root: Path, named: tuple[str, ...], stop: threading.Event, stack: ExitStack
    ) -> tuple[Repository, Snapshot]:
        if root != self.project and not is_real_directory(root):
            raise CheckpointError("it is no directory any more.")
        repository = self.repository("" if root == self.project else root.as_uri(), stop)
        stack.enter_context(repository.locked())
        try:
            return repository, repository.snapshot(named)
        except OSError as error:
            raise trouble(error, root) from error

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
            Step(self.repository(goal.start.root, stop), goal, bool(goal.start.root))
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

    def repository(self, root: str, stop: threading.Event) -> Repository:
        """The repository of a root ("": the project). `stop` cancels its work."""
        place = directory_of(root) if root else self.project
        around = Surroundings(
            limits=self._limits,
            others=tuple(each for each in (self.project, *self._roots) if each != place),
            apart=self.project if root and self.project.is_relative_to(place) else None,
            patience_s=self._patience_s,
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

    def _outermost(self) -> list[Path]:
        """The project and the roots that no other one saves."""
        found: list[Path] = []
        for root in (self.project, *self._roots):
            around = [each for each in found if root.is_relative_to(each)]
            rules = (IgnoreRules(each, environ=self._environ) for each in around)
            if root not in self._too_much and all(
                each.ignored(root, is_dir=True) for each in rules
            ):
                found.append(root)
        return found


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
