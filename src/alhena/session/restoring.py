"""Puts files back to a moment of the shadow repository, each in one step and through no symlink.

What the files are before that is kept first, so that one can return from it, too. A file that is
then not what was kept is left alone, whoever has changed it.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from alhena.session.errors import CheckpointError, LostMomentError
from alhena.session.restorer import DAMAGED, Restoration, Restorer, Target
from alhena.session.shadow import ShadowRepository
from alhena.session.shadow_files import (
    EMPTY,
    NOTHING,
    Change,
    Snapshot,
    is_there,
    trouble,
)
from alhena.session.shadow_trees import Difference, HeldFile, keep_anew, unreadable
from alhena.system.replacement import open_made, remove_directory


class Step(msgspec.Struct, frozen=True):
    """One step of a restore. Without `end`, restores files to `target`. With `end`, reverts the
    changes made between `target` and that tree ("": the current files); files changed since then
    are left. A `further` root is skipped if it is not available, and created again if it is
    missing."""

    repository: ShadowRepository
    target: Target
    end: str | None = None
    further: bool = False


class Plan(msgspec.Struct, frozen=True):
    """The changes that a step comes to. `before` are the files until now, `conflicts` those that
    have changed since, `unkept` those of which the repository cannot keep what they are, `damaged`
    directories of which it is not known what they were."""

    step: Step
    before: Snapshot
    changes: Sequence[Change]
    conflicts: Sequence[str] = ()
    unkept: Sequence[str] = ()
    damaged: Sequence[str] = ()

    @property
    def place(self) -> Path:
        """Where."""
        return self.step.repository.project


def go_back(
    steps: Sequence[Step], kept: Callable[[Sequence[Plan]], object] = lambda _plans: None
) -> tuple[tuple[Path, Restoration], ...]:
    """Carries out steps of different places and returns what has come of each. `kept` is told of
    the moments before, ahead of the first change. A place is left when it is a further one that
    cannot be had, or its moment is lost. What belongs to two of them belongs to the inner one.
    Raises CheckpointError as long as no file has changed, also when every place would be left; what
    cannot be done then is left."""
    left: list[tuple[Path, Restoration]] = []
    failures: list[CheckpointError] = []
    with ExitStack() as stack:
        plans: list[Plan] = []
        for step in steps:
            inner = _inner(step.repository.project, steps)
            try:
                if step.further:
                    _require_directory(step.repository.project, stack)
                stack.enter_context(step.repository.alone())
                plans.append(_returnable(_planned(step, inner)))
            except CheckpointError as error:
                spared = step.further or isinstance(error, LostMomentError)
                if not spared or step.repository.cancellation.is_set():
                    raise
                failures.append(error)
                reason = error.message.removesuffix(".")
                found = Restoration(Snapshot(""), left=(("", reason),))
                left.append((step.repository.project, found))
        for step in steps:
            if step.repository.cancellation.is_set():
                raise CheckpointError("it was interrupted; no file has changed.")
        if failures and not plans:
            raise failures[0]
        kept(plans)
        return (*_carried_out(plans), *left)


def _planned(step: Step, inner: Collection[str]) -> Plan:
    """Plans a step, without the directories `inner`. Raises CheckpointError."""
    _require_known(step.repository, step.target.moment.tree)
    lost: set[str] = set()

    def between(old: str, new: str) -> list[Change]:
        found = step.repository.difference(old, new)
        lost.update(each for each in found.lost if not _is_in(each, inner))
        return [each for each in found.changes if not _is_in(each.path, inner)]

    plan = _restoring(step, between) if step.end is None else _undoing(step, step.end, between)
    if "" in lost:
        raise LostMomentError("what the files were is damaged in the checkpoint.")
    unknown = Difference((), frozenset(lost))
    return msgspec.structs.replace(
        plan,
        changes=[each for each in plan.changes if not unknown.hides(each.path)],
        conflicts=[each for each in plan.conflicts if not unknown.hides(each)],
        damaged=sorted(lost, key=os.fsencode),
    )


Between = Callable[[str, str], list[Change]]
"""Lists the changes between two snapshots that concern a step."""


def _undoing(step: Step, end: str, between: Between) -> Plan:
    repository, start = step.repository, step.target.moment.tree
    if end:
        _require_known(repository, end)
        changes = between(end, start)
        before = repository.taken((*step.target.named, *(change.path for change in changes)))
        since = {change.path for change in between(end, before.tree)}
    else:
        before, since = repository.taken(step.target.named), set[str]()
        changes = between(before.tree, start)
    other = since & {change.path for change in between(before.tree, start)}
    conflicts = sorted(change.path for change in changes if change.path in other)
    return Plan(step, before, [each for each in changes if each.path not in since], conflicts)


def _restoring(step: Step, between: Between) -> Plan:
    repository, start = step.repository, step.target.moment.tree
    before = repository.taken(step.target.named)
    changes = between(before.tree, start)
    hidden = [
        change.path
        for change in changes
        if change.old_mode == NOTHING and os.path.lexists(repository.project / change.path)
    ]
    if hidden:  # they are there, though ignored or large: nothing is written over unkept
        before = repository.taken((*step.target.named, *hidden))
        changes = between(before.tree, start)
    return Plan(step, before, changes)


def _returnable(plan: Plan) -> Plan:
    """The plan without the changes from which nobody could return. Raises CheckpointError."""
    ends = [(each.old_mode, each.old) for each in plan.changes]
    ends += ((each.new_mode, each.new) for each in plan.changes)
    lost = _lost(plan, [name for mode, name in ends if mode != NOTHING])
    unkept = [each for each in plan.changes if each.old_mode != NOTHING and each.old in lost]
    return msgspec.structs.replace(
        plan,
        changes=[each for each in plan.changes if each not in unkept],
        unkept=[each.path for each in unkept],
    )


def _lost(plan: Plan, wanted: Sequence[str]) -> frozenset[str]:
    """Those of the contents `wanted` that are lost. When one is, all is looked at that the files
    have now, and what is lost of that is kept anew."""
    repository = plan.step.repository
    if not unreadable(repository.git, wanted):
        return frozenset()
    files = (
        HeldFile(plan.place / each.path, each.new_mode, each.new)
        for each in repository.difference(EMPTY, plan.before.tree).changes
    )
    return keep_anew(repository.git, files, wanted)


def _carried_out(plans: Sequence[Plan]) -> list[tuple[Path, Restoration]]:
    """Carries plans to their ends, an interruption notwithstanding. Raises CheckpointError when
    git fails and no file has changed."""
    done: list[tuple[Path, Restoration]] = []
    failures: list[CheckpointError] = []
    for plan in plans:
        plan.step.repository.git.carrying = True
        restorer = Restorer(plan.step.repository, plan.before, plan.step.target)
        restorer.leave(plan.conflicts, "it has changed since that turn")
        restorer.leave(plan.damaged, DAMAGED)
        restorer.leave(plan.unkept, "what it is now cannot be kept")
        done.append((plan.place, restorer.restored(plan.changes)))
        if restorer.failure is not None:
            failures.append(restorer.failure)
    if failures and not any(each.written or each.removed for _, each in done):
        raise failures[0]
    return done


def _inner(place: Path, steps: Sequence[Step]) -> tuple[str, ...]:
    """The places of other steps within one, relative to it, each with a slash at its end."""
    others = (step.repository.project for step in steps)
    return tuple(
        f"{other.relative_to(place)}{os.sep}"
        for other in others
        if other != place and other.is_relative_to(place)
    )


def _is_in(path: str, directories: Collection[str]) -> bool:
    return any(map(path.startswith, directories))


def _require_known(repository: ShadowRepository, tree: str) -> None:
    if not repository.known(tree):
        raise LostMomentError(f"the files of the checkpoint ({tree[:12]}) are not kept any more.")


def _require_directory(place: Path, stack: ExitStack) -> None:
    """Raises CheckpointError unless a place is a directory. One that is gone is made again where
    the directory around it is there; it goes with the stack if it stays empty."""
    if os.path.lexists(place):
        if not is_there(place):
            raise CheckpointError("it is no directory any more.")
        return
    if not place.parent.is_dir():
        raise CheckpointError("it is gone, and so is the directory that it was in.")
    try:
        os.close(open_made(place, []))
    except OSError as error:
        raise trouble(error, place) from error
    stack.callback(remove_directory, place)
