"""alhena trace: what happened in a session, as a timeline or as a page."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.errors import AlhenaError
from alhena.frontends.streams import write_json, write_stderr, write_stdout
from alhena.session.records import NoSessionError, SessionError
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.config.effective_settings import Place
    from alhena.tracing.timeline import Timeline

USAGE = """\
usage: alhena trace [SESSION] [--html FILE] [--json]

Shows a session of this project step by step: requests to the model, tool calls with the decision
and its rule, time spent waiting for you, retries, tokens and cost. Secrets are redacted.

SESSION is a number of `alhena sessions list`, an id or its beginning; the default is the latest.
--html writes a page that needs no network to FILE (a new file or an older such page); --json prints
one document.
"""


class UnreadableError(AlhenaError):
    """Nothing of the session can be read."""

    kind = "session_unreadable"


def run(argv: list[str]) -> int:
    """Carries out `alhena trace ARGV`; returns the exit code."""
    if "-h" in argv or "--help" in argv:
        write_stdout(USAGE)
        return 0
    from alhena.config.effective_settings import open_place
    from alhena.frontends.arguments import Parser

    parser = Parser(prog="alhena trace", add_help=False, allow_abbrev=False)
    parser.add_argument("session", metavar="SESSION", nargs="?", default="latest")
    parser.add_argument("--html", metavar="FILE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-d", "--debug", action="store_true")
    options = parser.parse_args(argv)
    place = open_place(current_directory(), os.environ)
    try:
        path, timeline = _read(options.session, place)
    except NoSessionError:
        raise
    except SessionError as error:
        raise UnreadableError(error.message, remedy=error.remedy) from error
    for problem in timeline.problems:
        write_stderr(f"alhena: warning: {problem}\n")
    _show(timeline, path, place, html=options.html, json=options.json)
    return 0


def _read(session: str, place: "Place") -> "tuple[Path, Timeline]":
    from alhena.models.prices import Prices
    from alhena.session.store import project_store
    from alhena.tracing.timeline import read_timeline

    path = Path(project_store(place.environ, place.cwd).find(session).path)
    return path, read_timeline(path, Prices(place.settings.model.prices))


def _show(
    timeline: "Timeline", path: Path, place: "Place", *, html: str | None, json: bool
) -> None:
    from alhena.telemetry.records import Redaction

    redaction = Redaction(place.environ)
    if html is not None:
        from alhena.frontends.files import write_document
        from alhena.tracing.page import MARK, as_page

        page = as_page(timeline, redaction, journal_size=path.stat().st_size)
        write_document(html, page, replaces=MARK)
    if json:
        from alhena.tracing.page import as_json

        write_json(as_json(timeline, redaction) | {"path": str(path)})
    elif html is not None:
        write_stdout(f"Written to {html}.\n")
    else:
        from alhena.tracing.text import as_text

        write_stdout(as_text(timeline, redaction))
