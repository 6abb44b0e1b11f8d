"""Which turn's edits are undone next, as the checkpoints of a session tell it."""

from collections.abc import Sequence

import msgspec

from alhena.session.checkpoints import Checkpoint

Named = tuple[str, Checkpoint]


class EditingTurn(msgspec.Struct, kw_only=True):
    """What a prompt has changed: from its first checkpoint to the tree `end` ("": not known, it is
    what the files are now). Of the paths that later calls have named, `later` has the tree of the
    first checkpoint to name them."""

    name: str
    first: Checkpoint
    end: str = ""
    later: dict[str, str] = {}


def last_turn(found: Sequence[Named], session_id: str) -> EditingTurn | None:
    """The last turn of a session that has changed files and is not undone, of the checkpoints of
    its project, the oldest first."""
    stands: list[str] = []
    before: dict[str, list[str]] = {}
    prompts: dict[str, str] = {}
    first: dict[str, str] = {}
    for name, checkpoint in found:
        if checkpoint.session_id != session_id:
            continue
        if checkpoint.kind == "call":
            prompts[name] = checkpoint.prompt_id
            if checkpoint.prompt_id not in stands:
                stands.append(checkpoint.prompt_id)
            first.setdefault(checkpoint.prompt_id, name)
            continue
        before[name] = list(stands)
        if checkpoint.undoes in stands:
            stands.remove(checkpoint.undoes)
        elif checkpoint.back_to in before:
            stands = list(before[checkpoint.back_to])
        elif checkpoint.back_to in prompts:
            stands = _until(stands, prompts[checkpoint.back_to], checkpoint.back_to, first)
    for prompt in reversed(stands):
        turn = _turn(found, prompt)
        if turn is not None and turn.end != turn.first.commit_hash:
            return turn
    return None


def named_later(found: Sequence[Named], forced: Sequence[str]) -> dict[str, str]:
    """The tree of the first of these checkpoints to name a path, of those that are not forced."""
    later: dict[str, str] = {}
    for _, checkpoint in found:
        for path in checkpoint.paths:
            if path not in forced and checkpoint.commit_hash:
                later.setdefault(path, checkpoint.commit_hash)
    return later


def _until(stands: list[str], prompt: str, name: str, first: dict[str, str]) -> list[str]:
    """What stands when the files are again what they were in the middle of a prompt, or before."""
    if prompt not in stands:
        return stands
    return stands[: stands.index(prompt) + (first[prompt] != name)]


def _turn(found: Sequence[Named], prompt: str) -> EditingTurn | None:
    of_it = [
        number
        for number, (_, each) in enumerate(found)
        if each.kind == "call" and each.prompt_id == prompt
    ]
    if not of_it:
        return None
    name, first = found[of_it[0]]
    end = first.after
    if not end:  # the process was killed: at the next checkpoint at the latest it was over
        trees = (each.commit_hash for _, each in found[of_it[-1] + 1 :])
        end = next(filter(None, trees), "")
    rest = [found[number] for number in of_it[1:]]
    return EditingTurn(name=name, first=first, end=end, later=named_later(rest, first.paths))
