"""The places whose files the checkpoints of a project keep: the project, and other workspace roots.

Each has a shadow repository that only this project uses: what another one keeps of the same root
can neither go with this one's checkpoints nor stay with them. A root within another place is kept
as a part of that, unless it is left out there.
"""

import os
import shutil
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from alhena.session.checkpoints import Checkpoint, KeptPlace, directory_of, moments
from alhena.session.errors import CheckpointError, NoGitError, TooMuchError
from alhena.session.restorer import Restoration, Target
from alhena.session.restoring import Plan, Step, go_back
from alhena.session.shadow import ShadowRepository
from alhena.session.shadow_files import EMPTY, Around, Limits, Snapshot, is_there, trouble
from alhena.system.ignore import IgnoreRules

MANY_GONE = 20
"""Of so many checkpoints that have gone, the contents are removed, too."""

PATIENCE_S = 60.0
"""So long another process is waited for."""

_GONE = ".gone"


class Goal(msgspec.Struct, frozen=True):
    """Goal for one root: restore to snapshot `start`; `later` and `end` as in `Target` and
    `Step`."""

    start: KeptPlace
    later: Mapping[str, str]
    end: str | None = None


class Kept(msgspec.Struct, frozen=True):
    """Snapshots of the roots, at least one, and the errors of the others."""

    places: tuple[KeptPlace, ...]
    problems: tuple[tuple[Path, CheckpointError], ...]


class Places:
    """The places of a `project`, whose repositories are in the directory `history`. `roots` are
    those of the session beside it; all are real paths. Another process is waited for `patience_s`;
    `waits` is called when a checkpoint, or going back, does so for a while. Methods raise
    CheckpointError."""

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
        self._obstacles: set[Path] = set()
        self.patience_s = PATIENCE_S
        self.waits: Callable[[], object] = lambda: None
        self._given_up: dict[Path, CheckpointError] = {}

    @contextmanager
    def kept(self, named: Iterable[Path], stop: threading.Event) -> Generator[Kept]:
        """Keeps the files as they are, also those that are `named` (with the real paths of their
        directories) and ignored. Nobody else is at work for the length of the block."""
        paths = tuple(named)
        found: dict[Path, KeptPlace] = {}
        problems: dict[Path, CheckpointError] = {}
        with ExitStack() as stack:
            # Whoever keeps a root has the project first, also when that itself cannot be kept.
            project = self.repository("", stop, self.waits)
            stack.enter_context(project.alone(ready=False))
            # What cannot be kept holds no other: those within it come next.
            while rest := [each for each in self._own(problems) if each not in found]:
                place = rest[0]
                wanted = _shared_out((*found, *rest), paths)[place]
                try:
                    if place == self.project:
                        found[place] = _place("", wanted, project.taken(wanted))
                    else:
                        found[place] = self._taken(place, wanted, stop, stack)
                except (CheckpointError, OSError) as failure:
                    if stop.is_set() or not is_there(self.project):
                        raise
                    error = trouble(failure, place) if isinstance(failure, OSError) else failure
                    problems[place] = error
                    if isinstance(error, TooMuchError | NoGitError):
                        self._given_up[place] = error
            if not found:
                raise _why((*problems.values(), *self._given_up.values()))
            yield Kept(tuple(found.values()), tuple(problems.items()))

    @contextmanager
    def ends(self, named: Iterable[Path], stop: threading.Event) -> Generator[dict[str, str]]:
        """The trees of the places now, by their roots; of one that is gone, that of no files. As
        `kept`."""
        with self.kept(named, stop) as kept:
            gone = (root for root, _ in kept.problems if not os.path.lexists(root))
            trees = {place.root: place.tree for place in kept.places}
            yield {**trees, **{root.as_uri(): EMPTY for root in gone}}

    def go_back(
        self,
        goals: Sequence[Goal],
        stop: threading.Event,
        kept: Callable[[tuple[KeptPlace, ...]], object],
    ) -> Restoration:
        """Carries out what is wanted of the project and of other places, as `restoring.go_back`
        does. `kept` is told what the files are before that."""

        def tell(plans: Sequence[Plan]) -> None:
            kept(tuple(_place(self._root(each.place), (), each.before) for each in plans))

        return self._joined(go_back([self._step(goal, stop) for goal in goals], tell))

    def tidy(
        self, found: Callable[[], Sequence[tuple[str, Checkpoint]]], stop: threading.Event
    ) -> None:
        """Lets go of what no checkpoint needs of those that are `found`."""
        self._tidy_one("", found, stop)
        try:
            there = os.listdir(self._history / "roots")
        except FileNotFoundError:
            return
        except OSError as error:
            raise trouble(error, self._history) from error
        if there:
            with self.repository("", stop).alone(ready=False):  # as whoever keeps a root
                needed = _keys(found())
                for name in there:
                    if name not in needed:
                        self._remove(name)
            for root in needed.values():
                if is_there(directory_of(root)):
                    self._tidy_one(root, found, stop)

    def repository(
        self, root: str, stop: threading.Event, waits: Callable[[], object] = lambda: None
    ) -> ShadowRepository:
        """The repository of a place, which is ended by `stop`."""
        place = directory_of(root) if root else self.project
        around = Around(
            limits=self._limits,
            others=tuple(each for each in (self.project, *self._roots) if each != place),
            apart=self.project if root and self.project.is_relative_to(place) else None,
            obstacles=self._obstacles,
            patience_s=self.patience_s,
            waits=waits,
        )
        directory = self._history / "roots" / _key(root) if root else self._history
        try:
            return ShadowRepository(
                directory, place, self._environ, around=around, cancellation=stop
            )
        except OSError as error:
            raise trouble(error, place) from error

    def _root(self, place: Path) -> str:
        return "" if place == self.project else place.as_uri()

    def _joined(self, done: Sequence[tuple[Path, Restoration]]) -> Restoration:
        """Joins the results of all roots into one."""
        written, removed, left = list[str](), list[str](), list[tuple[str, str]]()
        for place, each in done:
            top = "" if place == self.project else f"{place}{os.sep}"
            written += (top + path for path in each.written)
            removed += (top + path for path in each.removed)
            left += ((top + path if path else str(place), why) for path, why in each.left)
        before = next((each.before for place, each in done if place == self.project), Snapshot(""))
        return Restoration(before, tuple(written), tuple(removed), tuple(left))

    def _own(self, failed: Collection[Path]) -> list[Path]:
        """The project, and the roots that no other place has already, without what has `failed`."""
        found: list[Path] = []
        for root in (self.project, *self._roots):
            if root in failed or root in self._given_up:
                continue
            if root == self.project:
                found.append(root)
                continue
            around = (each for each in found if root.is_relative_to(each))
            if all(self._leaves_out(each, root) for each in around):
                found.append(root)
        return found

    def _leaves_out(self, place: Path, root: Path) -> bool:
        return IgnoreRules(place, environ=self._environ).ignored(root, is_dir=True)

    def _taken(
        self, place: Path, named: tuple[str, ...], stop: threading.Event, stack: ExitStack
    ) -> KeptPlace:
        if not is_there(place):
            raise CheckpointError("it is no directory any more.")
        repository = self.repository(self._root(place), stop, self.waits)
        stack.enter_context(repository.alone())
        return _place(self._root(place), named, repository.taken(named))

    def _step(self, goal: Goal, stop: threading.Event) -> Step:
        start = goal.start
        moment = Snapshot(start.tree, start.left_out, start.private, start.ignored, start.bare)
        target = Target(moment=moment, forced=frozenset(start.paths), later=goal.later)
        repository = self.repository(start.root, stop, self.waits)
        return Step(repository, target, goal.end, further=bool(start.root))

    def _tidy_one(
        self,
        root: str,
        found: Callable[[], Sequence[tuple[str, Checkpoint]]],
        stop: threading.Event,
    ) -> None:
        repository = self.repository(root, stop)
        gone, scattered = 0, repository.scattered
        if scattered or repository.held - moments(found(), root):
            gone = repository.keep_only(lambda: moments(found(), root))
        if gone >= MANY_GONE or scattered:
            repository.collect()

    def _remove(self, name: str) -> None:
        """Removes the repository of a root, in one step for whoever wants to make it anew."""
        there = self._history / "roots" / name
        aside = there.with_name(f"{name.removesuffix(_GONE)}{_GONE}")
        try:
            if aside != there:
                if aside.exists():
                    shutil.rmtree(aside)
                there.rename(aside)
            shutil.rmtree(aside)
        except OSError as error:
            raise trouble(error, there) from error


def named(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The paths that the call of a checkpoint was about, those in other roots than the project
    absolute."""
    return tuple(
        str(directory_of(place.root) / path) if place.root else path
        for place in checkpoint.everywhere
        for path in place.paths
    )


def _why(errors: Sequence[CheckpointError]) -> CheckpointError:
    """The reason why nothing can be kept: what may pass counts for more than what will not."""
    passing = (each for each in errors if not isinstance(each, TooMuchError | NoGitError))
    return next(passing, errors[0])


def _key(root: str) -> str:
    return sha256(root.encode()).hexdigest()[:16]


def _keys(found: Iterable[tuple[str, Checkpoint]]) -> dict[str, str]:
    """The roots that checkpoints have, by the names of their repositories."""
    return {_key(each.root): each.root for _, one in found for each in one.roots}


def _shared_out(places: Sequence[Path], named: Iterable[Path]) -> dict[Path, tuple[str, ...]]:
    """Paths by the places they are in, the innermost of each, relative to it."""
    found: dict[Path, dict[str, None]] = {place: {} for place in places}
    for path in named:
        around = [place for place in places if path.is_relative_to(place) and path != place]
        if around:
            inner = max(around, key=lambda place: len(place.parts))
            found[inner][str(path.relative_to(inner))] = None
    return {place: tuple(paths) for place, paths in found.items()}


def _place(root: str, named: tuple[str, ...], moment: Snapshot) -> KeptPlace:
    return KeptPlace(
        root=root,
        tree=moment.tree,
        paths=named,
        left_out=moment.left_out,
        private=moment.private,
        ignored=moment.ignored,
        bare=moment.bare,
    )
