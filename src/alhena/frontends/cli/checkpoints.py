"""`alhena sessions checkpoints` and `alhena sessions restore`: back to what the files were."""

import os
from typing import TYPE_CHECKING, Any

from alhena.config.home import project_checkpoints, project_temp
from alhena.display_text import one_line
from alhena.frontends.streams import write_json, write_stdout
from alhena.frontends.words import checkpoint_words, listed, restored_words
from alhena.session.adopting import Ownership
from alhena.session.checkpoints import Checkpoint, CheckpointFiles
from alhena.session.places import named
from alhena.session.shadow_files import shown
from alhena.system.workspace import current_directory

_TOLD = 10

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.agent.session.restoring import Restored


def show_checkpoints(options: "Namespace") -> None:
    """Prints the checkpoints of this project. Raises CheckpointError."""
    cwd = current_directory()
    temp = project_temp(os.environ, cwd)
    every = CheckpointFiles(project_checkpoints(temp)).all()
    found, foreign = Ownership(os.environ, temp, cwd).parted(every)
    if options.json:
        write_json({"checkpoints": [_as_json(name, item) for name, item in found]})
        return
    if not found:
        write_stdout("There are no checkpoints of this project.\n")
    else:
        write_stdout(f"Checkpoints of this project ({len(found)}):\n")
        write_stdout("".join(f"{each}\n" for each in listed(found)))
    if foreign:
        told = ", ".join(one_line(f"{name} ({whose})") for name, whose in foreign[:_TOLD])
        more = f" and {len(foreign) - _TOLD:,} more" if len(foreign) > _TOLD else ""
        write_stdout(f"Not listed, for they are of other projects: {told}{more}\n")


def restore(options: "Namespace") -> int:
    """Goes back to a checkpoint and prints what has come of it; the exit code, which is 1 when a
    file was left as it is. Raises what `restore_project` raises."""
    from alhena.agent.session.restoring import restore_project

    restored = restore_project(current_directory(), os.environ, options.checkpoint)
    if options.json:
        write_json(_come_to(restored))
    else:
        said = (text for _, text in restored_words(restored))
        lines = [f"Back at {one_line(restored.name)}.", *said]
        write_stdout("".join(f"{each}\n" for each in lines))
    return 1 if restored.files is None or restored.files.left else 0


def _as_json(name: str, checkpoint: Checkpoint) -> dict[str, Any]:
    call = checkpoint.tool_call
    return {
        "name": name,
        "what": checkpoint_words(checkpoint),
        "tree": checkpoint.commit_hash,
        "sessionId": checkpoint.session_id,
        "callId": checkpoint.call_id,
        "toolCall": None if call is None else {"name": call.name, "args": call.args},
        "paths": [shown(path) for path in named(checkpoint)],
    }


def _come_to(restored: "Restored") -> dict[str, Any]:
    files = restored.files
    return {
        "name": restored.name,
        "kept": restored.kept,
        "written": [] if files is None else [shown(path) for path in files.written],
        "removed": [] if files is None else [shown(path) for path in files.removed],
        "left": {} if files is None else {shown(path): why for path, why in files.left},
        "problem": restored.problem,
        "conversation": restored.conversation,
        "toolCall": restored.tool_call,
        "notices": list(restored.notices),
    }
