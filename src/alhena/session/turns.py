"""Which turn's edits are undone next, as the checkpoints of a session tell it."""

from collections.abc import Iterable, Sequence

import msgspec

from alhena.session.checkpoints import Checkpoint, KeptPlace

Named = tuple[str, Checkpoint]


class EditedPlace(msgspec.Struct, frozen=True):
    """What a prompt has changed in one place: from its first checkpoint, `start`, to the tree `end`
    ("": not known, it is what the files are now). Of the paths that later calls have named, `later`
    has the tree of the first checkpoint to name them."""

    start: KeptPlace
    end: str
    later: dict[str, str]


class EditingTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What a prompt has changed since its `first` checkpoint, called `name`."""

    name: str
    first: Checkpoint
    places: tuple[EditedPlace, ...]


def last_turn(found: Sequence[Named], session_id: str) -> EditingTurn | None:
    """The last turn of a session that has changed files and is not undone, of the checkpoints of
    its project, the oldest first. Where the files went back to a checkpoint, those turns stand that
    stood when it was made."""
    stands: dict[str, str] = {}
    before: dict[str, dict[str, str]] = {}
    for name, checkpoint in found:
        if checkpoint.session_id != session_id:
            continue
        prompt = checkpoint.prompt_id
        before[name] = dict(stands)
        if checkpoint.kind == "call":
            if prompt in stands:  # whoever goes back to here is in the middle of it
                before[name][prompt] = name
            stands[prompt] = ""
        elif checkpoint.under_way:  # it was broken off: it can be said again
            continue
        elif checkpoint.undoes in stands:
            del stands[checkpoint.undoes]
        elif checkpoint.back_to in before:
            stands = dict(before[checkpoint.back_to])
    for prompt, cut in reversed(stands.items()):
        turn = _turn(found, prompt, cut)
        if turn is not None and any(each.end != each.start.tree for each in turn.places):
            return turn
    return None


def named_later(found: Iterable[Named], start: KeptPlace) -> dict[str, str]:
    """The tree of the first of these checkpoints to name a path in a place, of those paths that it
    has not named at `start`."""
    later: dict[str, str] = {}
    for _, checkpoint in found:
        for place in checkpoint.places:
            if place.root == start.root:
                for path in place.paths:
                    if path not in start.paths:
                        later.setdefault(path, place.tree)
    return later


def _turn(found: Sequence[Named], prompt: str, cut: str) -> EditingTurn | None:
    """What a prompt has changed: as far as the checkpoint `cut`, when the files went back to that,
    in the places that it has."""
    of_it = [
        number
        for number, (_, each) in enumerate(found)
        if each.kind == "call" and each.prompt_id == prompt
    ]
    if not of_it:
        return None
    name, first = found[of_it[0]]
    starts: dict[str, tuple[int, KeptPlace]] = {}
    for count, number in enumerate(of_it, start=1):
        for place in found[number][1].places:
            starts.setdefault(place.root, (count, place))
    behind = found[of_it[-1] + 1 :]
    ends = {each.root: each.tree for at, one in found if at == cut for each in one.places}
    places = tuple(
        EditedPlace(
            start,
            ends.get(root) or first.ended(root) or _next_tree(behind, root),
            named_later((found[number] for number in of_it[count:]), start),
        )
        for root, (count, start) in starts.items()
    )
    return EditingTurn(name=name, first=first, places=places)


def _next_tree(found: Iterable[Named], root: str) -> str:
    """What a place was at the next checkpoint, "" when there is none: where a process was killed,
    its prompt was over by then at the latest."""
    trees = (place.tree for _, each in found for place in each.places if place.root == root)
    return next(trees, "")
