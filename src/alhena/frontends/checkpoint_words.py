"""Checkpoints, and going back to one, in words for people."""

from collections.abc import Sequence

from alhena.agent.restoring import Restored
from alhena.display_text import one_line
from alhena.session.checkpoints import Checkpoint
from alhena.session.shadow_files import shown

MAX_PATHS = 20

Named = tuple[str, Checkpoint]


def checkpoint_words(checkpoint: Checkpoint) -> str:
    """What a checkpoint was made before."""
    call = checkpoint.tool_call
    if checkpoint.kind == "restore":
        what = "before files were put back"
    elif call is None:
        what = "before a call"
    else:
        said = call.args.get("file_path") or call.args.get("command") or call.args.get("path") or ""
        what = f"before {call.name} {said}"
    return one_line(what, 200)


def restored_words(restored: Restored) -> list[tuple[bool, str]]:
    """What going back has come to, line by line; true for what needs a second look."""
    files = restored.files
    said: list[tuple[bool, str]] = []
    if files is None:
        said.append((True, f"The files are as they were: {restored.problem}."))
    else:
        if not (files.written or files.removed or files.left):
            said.append((False, "The files are what they were then."))
        said += ((False, each) for each in _told("Put back", files.written))
        said += ((False, each) for each in _told("Removed", files.removed))
        left = [f"{shown(path)} ({reason})" for path, reason in files.left]
        said += ((True, each) for each in _told("Left as it is", left))
    if restored.conversation:
        said.append((False, "The conversation is what it was then."))
    elif restored.forgotten:
        said.append(
            (
                True,
                "The conversation could not be brought back: nothing has a record of it any more.",
            )
        )
    if restored.kept:
        said.append((False, f"What the files were before that is kept: {restored.kept}"))
    said += ((True, one_line(f"Note: {each}", 2_000)) for each in restored.notices)
    return said


def undone_note(restored: Restored) -> str:
    """What the model is told, with the next prompt, of edits that were taken back."""
    files = restored.files
    paths = () if files is None else (*files.written, *files.removed)
    named = [one_line(shown(path), 200) for path in paths[:MAX_PATHS]]
    if len(paths) > MAX_PATHS:
        named.append(f"and {len(paths) - MAX_PATHS:,} more")
    return (
        "[The user has undone the changes of an earlier turn. These files are again what they were "
        f"before it: {', '.join(named) or 'none'}.]"
    )


def listed(found: Sequence[Named]) -> list[str]:
    """A list of checkpoints, the oldest first, with the numbers by which they may be named."""
    return [
        f"{number:>4}. {one_line(name)}  {checkpoint_words(checkpoint)}"
        for number, (name, checkpoint) in enumerate(found, start=1)
    ]


def _told(what: str, paths: Sequence[str]) -> list[str]:
    lines = [f"{what}: {one_line(shown(path), 300)}" for path in paths[:MAX_PATHS]]
    if len(paths) > MAX_PATHS:
        lines.append(f"{what}: {len(paths) - MAX_PATHS:,} more of {len(paths):,}")
    return lines
