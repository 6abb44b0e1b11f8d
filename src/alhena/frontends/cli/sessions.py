"""alhena sessions: the recorded sessions of this project, and their checkpoints."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alhena.config.home import project_checkpoints, project_temp
from alhena.display_text import escaped, first_of, message_line, one_line
from alhena.frontends.shared.arguments import parse_command
from alhena.frontends.shared.descriptions import (
    checkpoint_lines,
    checkpoint_words,
    restored_words,
)
from alhena.frontends.shared.listings import session_rows
from alhena.frontends.shared.streams import is_terminal, write_json, write_stdout
from alhena.session.adopting import Ownership
from alhena.session.checkpoints.records import Checkpoint, CheckpointFiles, path_text
from alhena.session.store import project_store
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.agent.restoring import Restored
    from alhena.session.store import SessionStore

_OTHERS = 5

USAGE = """\
usage: alhena sessions list [--json]
       alhena sessions show SESSION [--json]
       alhena sessions export SESSION [--format markdown|json|html] [--output FILE]
       alhena sessions delete SESSION …
       alhena sessions checkpoints [--json]
       alhena sessions restore CHECKPOINT [--json]
       alhena sessions adopt FOLDER

SESSION is a number of the list, an id or its beginning, or `latest`. To resume a session:
alhena --resume SESSION.

list: lists the sessions of this project, the newest first. Files that are no sessions are named at
the end.

show: prints a session: its facts and its conversation.

export: writes the conversation to standard output or to a new FILE. html is the page of
`alhena trace`, with secrets redacted; markdown and json contain the texts unchanged.

delete: deletes sessions with their files. A session in use stays.

checkpoints: lists the checkpoints, the newest first (general.checkpointing.enabled); as JSON the
oldest first.

restore: restores the files of this project, and the conversation, to a checkpoint (its name, its
number in the list, or `latest`). The files of now become another checkpoint. Exit code 1 when a
file could not be restored.

adopt: after you moved or renamed a project: adds the sessions, checkpoints and prompts of its old
FOLDER to those of this one. Refused while FOLDER exists.
"""
_ARGUMENTS = {
    "list": "--json",
    "show": "SESSION --json",
    "export": "SESSION --format=markdown|json|html --output=FILE",
    "delete": "SESSION…",
    "checkpoints": "--json",
    "restore": "CHECKPOINT --json",
    "adopt": "FOLDER",
}


def run(argv: list[str]) -> int:
    """Carries out `alhena sessions ARGV`; returns the exit code."""
    options = parse_command("alhena sessions", argv, _ARGUMENTS)
    store = project_store(os.environ, current_directory())
    commands: dict[str, Callable[[Namespace, SessionStore], int | None]] = {
        "list": _list,
        "show": _show,
        "export": _export,
        "delete": _delete,
        "checkpoints": _checkpoints,
        "restore": _restore,
        "adopt": _adopt,
    }
    return commands[options.command](options, store) or 0


def _list(options: "Namespace", store: "SessionStore") -> None:
    listed = store.list_sessions()
    found = listed.sessions
    rows = session_rows(found)
    if options.json:
        write_json(
            {
                "sessions": [row.facts for row in rows],
                "foreign": [row.facts for row in session_rows(listed.foreign)],
            }
        )
        return
    lines = [f"Sessions of this project ({len(found)}):\n"]
    lines += (
        f"  {number}. {row.text} ({row.state}) [{row.name}]\n"
        for number, row in reversed([*enumerate(rows, start=1)])
    )
    write_stdout("".join(lines) if found else "This project has no sessions.\n")
    if not found:
        _tell_departed()
    if listed.foreign:
        told = _join_first([f"{item.session_id} ({item.project})" for item in listed.foreign])
        write_stdout(f"Not listed, for they are of other projects: {told}\n")


def _tell_departed() -> None:
    """Names the folders that this one may have been before it was moved."""
    from alhena.session.adopting import find_missing_projects

    folders = find_missing_projects(os.environ)
    if folders:
        write_stdout(
            f"There are some of folders that are gone: {_join_first(folders)}\n"
            "If this is one of them, moved or renamed: alhena sessions adopt FOLDER\n"
        )


def _join_first(names: Sequence[str]) -> str:
    return first_of([one_line(name) for name in names], _OTHERS)


def _show(options: "Namespace", store: "SessionStore") -> None:
    from alhena.session.transcript import facts, read_transcript

    item = store.find(options.session)
    transcript = read_transcript(Path(item.path))
    known = facts(transcript) | {"path": item.path}
    if options.json:
        write_json(known)
        return
    lines = [f"{name:14}{one_line(str(value))}\n" for name, value in known.items() if value]
    for piece in transcript.pieces():
        first = message_line(piece.body, 200)
        lines.append(f"\n{piece.at}  {one_line(piece.heading)}\n  {first}\n")
    lines.append(f"\nWhole messages: alhena sessions export {item.session_id}\n")
    write_stdout("".join(lines))


def _export(options: "Namespace", store: "SessionStore") -> None:
    from alhena.config.effective_settings import open_place
    from alhena.frontends.shared.files import form_of, session_document, write_document

    journal = Path(store.find(options.session).path)
    form = options.format or form_of(options.output)
    place = open_place(current_directory(), os.environ)
    document = session_document(journal, form, place)
    if options.output is None:
        text = document.decode("utf-8")
        write_stdout(escaped(text, block=True) if is_terminal(sys.stdout) else text)
        return
    write_document(options.output, document)


def _delete(options: "Namespace", store: "SessionStore") -> None:
    chosen = {item.session_id: item for item in map(store.find, options.session)}
    for item in chosen.values():
        store.delete(item.session_id)
        write_stdout(f"Deleted session {item.session_id}: {one_line(item.title)}\n")


def _adopt(options: "Namespace", _store: "SessionStore") -> None:
    from alhena.session.adopting import adopt

    project = current_directory()
    adopt(os.environ, project, options.folder)
    count = len(project_store(os.environ, project).summaries())
    write_stdout(f"Sessions of this project ({count}): alhena sessions list\n")


def _checkpoints(options: "Namespace", _store: "SessionStore") -> None:
    cwd = current_directory()
    temp = project_temp(os.environ, cwd)
    every = CheckpointFiles(project_checkpoints(temp)).all()
    found, foreign = Ownership(os.environ, temp, cwd).split_by_project(every)
    if options.json:
        write_json({"checkpoints": [_checkpoint_json(name, item) for name, item in found]})
        return
    if not found:
        write_stdout("This project has no checkpoints.\n")
    else:
        write_stdout(f"Checkpoints of this project ({len(found)}), newest first:\n")
        write_stdout("".join(f"{each}\n" for each in checkpoint_lines(found)))
    if foreign:
        told = _join_first([f"{name} ({whose})" for name, whose in foreign])
        write_stdout(f"Not listed, for they are of other projects: {told}\n")


def _restore(options: "Namespace", _store: "SessionStore") -> int:
    from alhena.agent.restoring import restore_project

    restored = restore_project(current_directory(), os.environ, options.checkpoint)
    if options.json:
        write_json(_resolve_session(restored))
    else:
        said = (text for _, text in restored_words(restored))
        lines = [f"Back at {one_line(restored.name)}.", *said]
        write_stdout("".join(f"{each}\n" for each in lines))
    return 1 if restored.files is None or restored.files.left else 0


def _checkpoint_json(name: str, checkpoint: Checkpoint) -> dict[str, Any]:
    call = checkpoint.tool_call
    return {
        "name": name,
        "what": checkpoint_words(checkpoint),
        "tree": checkpoint.commit_hash,
        "sessionId": checkpoint.session_id,
        "callId": checkpoint.call_id,
        "toolCall": None if call is None else {"name": call.name, "args": call.args},
        "paths": [path_text(path) for path in checkpoint.paths],
    }


def _resolve_session(restored: "Restored") -> dict[str, Any]:
    files = restored.files
    return {
        "name": restored.name,
        "kept": restored.kept,
        "written": [] if files is None else [path_text(path) for path in files.written],
        "removed": [] if files is None else [path_text(path) for path in files.removed],
        "left": {} if files is None else {path_text(path): why for path, why in files.left},
        "problem": restored.problem,
        "conversation": restored.conversation,
        "toolCall": restored.tool_call,
        "notices": list(restored.notices),
    }
