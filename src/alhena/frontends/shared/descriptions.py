"""Words for people, in the terminal and headless: checkpoints, masked results, ages."""

from collections.abc import Sequence

from alhena.agent.restoring import Restored
from alhena.display_text import first_of, one_line
from alhena.events import OutputsMaskedEvent
from alhena.session.checkpoints.records import Checkpoint, path_text
from alhena.tools.catalogue import plain_name

MAX_PATHS = 20

Named = tuple[str, Checkpoint]


def checkpoint_words(checkpoint: Checkpoint) -> str:
    """The change a checkpoint was made before."""
    call = checkpoint.tool_call
    if checkpoint.kind == "restore":
        what = "before files were put back"
    elif call is None:
        what = "before a call"
    else:
        said = call.args.get("file_path") or call.args.get("command") or call.args.get("path") or ""
        what = f"before {plain_name(call.name)} {said}"
    return one_line(what, 200)


def restored_words(restored: Restored) -> list[tuple[bool, str]]:
    """The result of a restore, line by line; true marks a warning."""
    files = restored.files
    said: list[tuple[bool, str]] = []
    if files is None:
        said.append((True, f"Files were not changed: {restored.problem}."))
    else:
        if not (files.written or files.removed or files.left):
            said.append((False, "Files: already as they were at the checkpoint."))
        said += ((False, each) for each in _path_lines("Put back", files.written))
        said += ((False, each) for each in _path_lines("Removed", files.removed))
        left = [f"{path_text(path)} ({reason})" for path, reason in files.left]
        said += ((True, each) for each in _path_lines("Left as it is", left))
    if restored.conversation:
        said.append((False, "The conversation is back at the checkpoint."))
    elif restored.forgotten:
        said.append(
            (
                True,
                "The conversation could not be restored: its record is gone.",
            )
        )
    if restored.kept:
        said.append((False, f"The files before this restore are kept in: {restored.kept}"))
    said += ((True, one_line(f"Note: {each}", 2_000)) for each in restored.notices)
    return said


def undone_note(restored: Restored) -> str:
    """Note to the model, sent with the next prompt, about undone edits."""
    files = restored.files
    paths = () if files is None else (*files.written, *files.removed)
    named = first_of([one_line(path_text(path), 200) for path in paths], MAX_PATHS)
    return (
        "[The user has undone the changes of an earlier turn. These files are again what they were "
        f"before it: {named or 'none'}.]"
    )


def checkpoint_lines(found: Sequence[Named]) -> list[str]:
    """A list of checkpoints, given oldest first, with the numbers by which they may be named; the
    newest comes first."""
    lines = [
        f"{number:>4}. {checkpoint_words(checkpoint)}  {one_line(name)}"
        for number, (name, checkpoint) in enumerate(found, start=1)
    ]
    return lines[::-1]


def _path_lines(what: str, paths: Sequence[str]) -> list[str]:
    lines = [f"{what}: {one_line(path_text(path), 300)}" for path in paths[:MAX_PATHS]]
    if len(paths) > MAX_PATHS:
        lines.append(f"{what}: {len(paths) - MAX_PATHS:,} more of {len(paths):,}")
    return lines


def masked_words(event: OutputsMaskedEvent) -> str:
    """The tool results that were masked for the model."""
    one = event.results == 1
    what = "old tool result" if one else "old tool results"
    where = "it is" if one else "they are"
    return f"Of {event.results} {what} the model has a preview from here on; {where} kept on disk."


def age_words(seconds: float) -> str:
    """The age of something in words."""
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"
