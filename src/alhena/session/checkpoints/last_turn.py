"""Finds the last turn of a session that changed files and was not undone."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from alhena.session.checkpoints.records import Checkpoint, RootSnapshot

Named = tuple[str, Checkpoint]


class EditedRoot(msgspec.Struct, frozen=True):
    """Changes of a turn in one root: from its first snapshot, `start`, to the tree `end` ("":
    unknown, compare with the current files). `later`: for paths that later calls named, the tree of
    the first checkpoint that names them."""

    start: RootSnapshot
    end: str
    later: dict[str, str]


class EditingTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a turn since its `first` checkpoint, called `name`."""

    name: str
    first: Checkpoint
    roots: tuple[EditedRoot, ...]


def last_turn(
    found: Sequence[Named], session_id: str, inherited: Collection[str] = ()
) -> EditingTurn | None:
    """The last turn of a session that changed files and is not undone. `found`: the project's
    checkpoints, oldest first; `inherited`: names of those that the session has from another one.
    After a restore, the turns before the restored checkpoint count."""
    stands: dict[str, str] = {}
    before: dict[str, dict[str, str]] = {}
    for name, checkpoint in found:
        if checkpoint.session_id != session_id and name not in inherited:
            continue
        prompt = checkpoint.prompt_id
        before[name] = dict(stands)
        if checkpoint.kind == "call":
            if prompt in stands:  # restoring this checkpoint leaves the first part of the turn
                before[name][prompt] = name
            stands[prompt] = ""
        elif checkpoint.under_way:  # the restore was interrupted and can be repeated
            continue
        elif checkpoint.undoes in stands:
            del stands[checkpoint.undoes]
        elif checkpoint.back_to in before:
            stands = dict(before[checkpoint.back_to])
    for prompt, cut in reversed(stands.items()):
        turn = _turn(found, prompt, cut)
        if turn is not None and any(each.end != each.start.tree for each in turn.roots):
            return turn
    return None


def named_later(found: Iterable[Named], start: RootSnapshot) -> dict[str, str]:
    """For paths of a root that `start` does not name: the tree of the first of these checkpoints
    that names them."""
    later: dict[str, str] = {}
    for _, checkpoint in found:
        for snapshot in checkpoint.snapshots:
            if snapshot.root == start.root:
                for path in snapshot.paths:
                    if path not in start.paths:
                        later.setdefault(path, snapshot.tree)
    return later


def _turn(found: Sequence[Named], prompt: str, cut: str) -> EditingTurn | None:
    """Changes of a turn, up to the checkpoint `cut` if that was restored."""
    own = [
        number
        for number, (_, each) in enumerate(found)
        if each.kind == "call" and each.prompt_id == prompt
    ]
    if not own:
        return None
    name, first = found[own[0]]
    starts: dict[str, tuple[int, RootSnapshot]] = {}
    for count, number in enumerate(own, start=1):
        for snapshot in found[number][1].snapshots:
            starts.setdefault(snapshot.root, (count, snapshot))
    after = found[own[-1] + 1 :]
    ends = {each.root: each.tree for at, one in found if at == cut for each in one.snapshots}
    roots = tuple(
        EditedRoot(
            start,
            ends.get(root) or first.ended(root) or _next_tree(after, root),
            named_later((found[number] for number in own[count:]), start),
        )
        for root, (count, start) in starts.items()
    )
    return EditingTurn(name=name, first=first, roots=roots)


def _next_tree(found: Iterable[Named], root: str) -> str:
    """The root's tree at the next checkpoint, "" if there is none: the turn of a killed process
    ended before that."""
    trees = (each.tree for _, one in found for each in one.snapshots if each.root == root)
    return next(trees, "")
