"""Goes back to a checkpoint of a project in which no session is at work on it."""

import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from alhena.agent.checkpointing import Checkpoints, Remembered
from alhena.agent.restoring import UNDONE, Restored, open_calls, plain_call, undone_record
from alhena.agent.resuming import notices_of, told_behind
from alhena.events import CheckpointEvent, Event
from alhena.session.checkpoints import Checkpoint
from alhena.session.errors import NoSessionError
from alhena.session.records import Contents, Happened, now
from alhena.session.restorer import Restoration
from alhena.session.store import Resumed, project_store
from alhena.version import __version__
from alhena.wire.encoded import encode_value


def restore_project(cwd: Path, environ: Mapping[str, str], name: str) -> Restored:
    """Makes the files what they were at a checkpoint, and the conversation of its session, when
    that is recorded: whoever resumes it goes on from there. Raises NoCheckpointError,
    CheckpointError, HeldSessionError while a process is at work on the session, ForeignError for
    what is another project's, SessionError, JournalError."""
    checkpoints = Checkpoints(cwd, environ, "", _nobody)
    found, checkpoint = checkpoints.chosen(name)
    remembered = checkpoints.conversation(found, checkpoint)
    resumed = None if remembered is None else _held(cwd, environ, checkpoint)
    try:
        before = Checkpoint(kind="restore", session_id=checkpoint.session_id, back_to=found)
        kept, files = checkpoints.put_back(found, checkpoint, before, threading.Event())
        if resumed is not None and remembered is not None:
            _record(resumed, remembered, found, kept, files)
    finally:
        if resumed is not None:
            resumed.journal.close()
    return Restored(
        name=found,
        kept=kept,
        files=files,
        conversation=resumed is not None,
        forgotten=resumed is None,
        tool_call=plain_call(checkpoint),
        notices=() if resumed is None else notices_of(resumed),
    )


def _held(cwd: Path, environ: Mapping[str, str], checkpoint: Checkpoint) -> Resumed | None:
    """The session, for this process alone; None when it is gone."""
    try:
        return project_store(environ, cwd).resume(checkpoint.session_id, __version__)
    except NoSessionError:
        return None


def _record(
    resumed: Resumed, remembered: Remembered, name: str, kept: str, files: Restoration
) -> None:
    """Has the journal say that the conversation is what it was, every call in it answered."""
    journal = resumed.journal
    made = CheckpointEvent(name=kept, tree=files.before.tree)
    journal.append(Happened(at=now(), event=msgspec.Raw(encode_value(made))))
    journal.append(undone_record(name, open_calls(remembered)))
    ends = remembered.replay.unanswered(UNDONE)
    told = told_behind(resumed, remembered.contents, ends)
    contents = (*remembered.contents, *told)
    present = resumed.replay.contents
    keep = 0
    while keep < min(len(present), len(contents)) and present[keep] == contents[keep]:
        keep += 1
    fresh = tuple(entry.raw for entry in contents[keep:])
    journal.append(Contents(at=now(), keep=keep, contents=fresh))


def _nobody(_event: Event) -> None:
    """Nobody listens: a command says at its end what has happened."""
