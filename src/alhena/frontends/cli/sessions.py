"""`alhena sessions`: the recorded sessions of this project."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alhena.config.home import project_temp
from alhena.display_text import escaped, one_line
from alhena.errors import InputError
from alhena.frontends.streams import is_terminal, write_json, write_stdout
from alhena.session.store import open_store
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from argparse import Namespace

    from alhena.session.store import SessionStore, SessionSummary

USAGE = """\
usage: alhena sessions list [--json]
       alhena sessions show SESSION [--json]
       alhena sessions export SESSION [--format markdown|json|html] [--output FILE]
       alhena sessions delete SESSION …
       alhena sessions checkpoints [--json]
       alhena sessions restore CHECKPOINT [--json]

SESSION is its number in the list, its id or the beginning of that, or `latest`. To go on with one:
alhena --resume SESSION.

list: the sessions of this project, the oldest first.

show: what there is to know of a session, and what was said in it.

export: the conversation as a document, on standard output or in a new FILE.

delete: removes sessions with what belongs to them. One that is in use stays.

checkpoints: what the files can be put back to, the oldest first (general.checkpointing.enabled).

restore: makes the files of this project what they were at a checkpoint (its name, its number in the
list, or `latest`), and the conversation that it belongs to. What they are now is kept as another.
Where a file had to be left as it is, the exit code is 1.
"""


def run(argv: list[str]) -> int:
    """Carries out `alhena sessions ARGV`; returns the exit code."""
    if "-h" in argv or "--help" in argv:
        write_stdout(USAGE)
        return 0
    options = _options(argv)
    store = open_store(project_temp(os.environ, current_directory()))
    commands: dict[str, Callable[[Namespace, SessionStore], int | None]] = {
        "list": _list,
        "show": _show,
        "export": _export,
        "delete": _delete,
        "checkpoints": _checkpoints,
        "restore": _restore,
    }
    return commands[options.command](options, store) or 0


def _options(argv: list[str]) -> "Namespace":
    from alhena.frontends.cli.arguments import Parser

    parser = Parser(prog="alhena sessions", add_help=False, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    listing, showing, exporting, deleting = (
        commands.add_parser(name, add_help=False) for name in ("list", "show", "export", "delete")
    )
    for each in (showing, exporting):
        each.add_argument("session", metavar="SESSION")
    deleting.add_argument("sessions", metavar="SESSION", nargs="+")
    exporting.add_argument("--format", choices=("markdown", "json", "html"))
    exporting.add_argument("--output", metavar="FILE")
    keeping, restoring = (
        commands.add_parser(name, add_help=False) for name in ("checkpoints", "restore")
    )
    restoring.add_argument("checkpoint", metavar="CHECKPOINT")
    for each in (listing, showing, keeping, restoring):
        each.add_argument("--json", action="store_true")
    for each in (listing, showing, exporting, deleting, keeping, restoring):
        each.add_argument("-d", "--debug", action="store_true")
    return parser.parse_args(argv)


def _list(options: "Namespace", store: "SessionStore") -> None:
    found = store.summaries()
    if options.json:
        write_json({"sessions": [_as_json(item) for item in found]})
    elif not found:
        write_stdout("There are no sessions of this project.\n")
    else:
        now = time.time()
        lines = [f"Sessions of this project ({len(found)}):\n"]
        lines += (_line(number, item, now) for number, item in enumerate(found, start=1))
        write_stdout("".join(lines))


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
        first = one_line(piece.body, 200)
        lines.append(f"\n{piece.at}  {one_line(piece.heading)}\n  {first}\n")
    write_stdout("".join(lines))


def _export(options: "Namespace", store: "SessionStore") -> None:
    from alhena.session.transcript import FORMS, read_transcript

    transcript = read_transcript(Path(store.find(options.session).path))
    form = options.format or _form_of(options.output)
    document = FORMS[form](transcript)
    if options.output is None:
        text = document.decode("utf-8")
        write_stdout(escaped(text, block=True) if is_terminal(sys.stdout) else text)
        return
    try:
        with open(options.output, "xb", opener=_private) as file:
            file.write(document)
    except OSError as error:
        raise InputError(
            f"cannot write {one_line(options.output)}: {error.strerror or error}.",
            remedy="Name a file that is not there yet.",
        ) from error


def _private(path: str, flags: int) -> int:
    """Opens a file that only its owner can read, as the session is that goes into it."""
    return os.open(path, flags, 0o600)


def _delete(options: "Namespace", store: "SessionStore") -> None:
    chosen = {item.session_id: item for item in map(store.find, options.sessions)}
    for item in chosen.values():
        store.delete(item.session_id)
        write_stdout(f"Deleted session {item.session_id}: {one_line(item.title)}\n")


def _checkpoints(options: "Namespace", _store: "SessionStore") -> None:
    from alhena.frontends.cli.checkpoints import show_checkpoints

    show_checkpoints(options)


def _restore(options: "Namespace", _store: "SessionStore") -> int:
    from alhena.frontends.cli.checkpoints import restore

    return restore(options)


def _form_of(output: str | None) -> str:
    suffix = "" if output is None else Path(output).suffix.lower()
    return {".json": "json", ".html": "html", ".htm": "html"}.get(suffix, "markdown")


def _line(number: int, item: "SessionSummary", now: float) -> str:
    title = one_line(item.title, 70) or "(nothing readable)"
    return f"  {number}. {title} ({_age(now - item.updated)}) [{one_line(item.session_id)}]\n"


def _age(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def _as_json(item: "SessionSummary") -> dict[str, Any]:
    return {
        "sessionId": item.session_id,
        "title": item.title,
        "started": item.started,
        "updated": item.updated,
        "size": item.size,
        "path": item.path,
    }
