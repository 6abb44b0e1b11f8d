"""alhena trace: what happened in a session, as a timeline or as a page."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from alhena.display_text import message_line, money, one_line
from alhena.errors import AlhenaError
from alhena.frontends.shared.streams import write_json, write_stderr, write_stdout
from alhena.session.records import SessionError, title_of
from alhena.system.workspace import current_directory
from alhena.telemetry.records import Redaction
from alhena.tracing.timeline import Step, StepKind, Timeline, read_timeline

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
    from alhena.config.effective_settings import open_place
    from alhena.frontends.shared.arguments import parse_arguments
    from alhena.frontends.shared.files import write_document
    from alhena.models.prices import Prices
    from alhena.session.store import project_store
    from alhena.tracing.page import MARK, as_json, as_page

    options = parse_arguments("alhena trace", argv, "[SESSION] --html=FILE --json")
    place = open_place(current_directory(), os.environ)
    path = Path(project_store(place.environ, place.cwd).find(options.session or "latest").path)
    try:
        timeline = read_timeline(path, Prices(place.settings.model.prices))
    except SessionError as error:
        raise UnreadableError(error.message, remedy=error.remedy) from error
    for problem in timeline.problems:
        write_stderr(f"alhena: warning: {problem}\n")
    redaction = Redaction(place.environ)
    if options.html is not None:
        page = as_page(timeline, redaction, journal_size=path.stat().st_size)
        write_document(options.html, page, replaces=MARK)
    if options.json:
        write_json(as_json(timeline, redaction) | {"path": str(path)})
    elif options.html is not None:
        write_stdout(f"Written to {options.html}.\n")
    else:
        write_stdout(as_text(timeline, redaction))
    return 0


_LONGEST = 120
_AHEAD = 4_096
"""Characters of a text that are read: a secret must not be cut before it is found."""


def as_text(timeline: Timeline, redaction: Redaction) -> str:
    """The totals and a line for each step, without secrets."""
    return "".join(f"{line}\n" for line in _lines(timeline, redaction.text))


def _lines(timeline: Timeline, clean: Callable[[str], str]) -> Iterator[str]:
    transcript, totals = timeline.transcript, timeline.totals
    header = transcript.header
    end = max((step.end for step in timeline.steps), default=0.0)
    title = title_of(clean(transcript.first[:_AHEAD]))
    model = one_line(transcript.model) or "no model"
    yield f"Session {header.session_id}  {one_line(title)}"
    yield f"{header.at}  {duration(end)}  {model}"
    yield (
        f"model {duration(totals.model_time)} in {_count(totals.requests, 'request')} · "
        f"tools {duration(totals.tool_time)} in {_count(totals.calls, 'call')} "
        f"({totals.failed_calls} failed) · waiting for a person "
        f"{duration(totals.waiting)} · {_count(totals.retries, 'retry', 'retries')}"
    )
    unpriced = f" without {_count(totals.unpriced, 'request')}" if totals.unpriced else ""
    yield (
        f"tokens {totals.input_tokens:,} in ({totals.cached_tokens:,} cached), "
        f"{totals.output_tokens:,} out · cost {money(totals.cost)}{unpriced}"
    )
    yield ""
    yield f"{'at':>10} {'took':>8}"
    for step in timeline.steps:
        lane = f"  [{one_line(clean(timeline.lanes[step.lane]))}] " if step.lane else ""
        took = duration(step.took) if step.took else ""
        yield f"{_offset(step.at):>10} {took:>8}  {lane}{describe_step(step, clean)}".rstrip()


def describe_step(step: Step, clean: Callable[[str], str]) -> str:
    """A step as a line, without secrets."""
    text = message_line(clean(step.text), _LONGEST)
    status = "" if step.status in ("success", "STOP") else one_line(step.status)
    name = one_line(clean(step.name))
    match step.kind:
        case StepKind.MODEL:
            told = (f"model {name}", *_usage(step), status, text)
        case StepKind.TOOL:
            waited = f"waited {duration(step.wait)}" if step.wait else ""
            told = (f"{name} {text}", status, waited, clean(decision(step)))
        case _:
            kind = "" if step.kind in (StepKind.PROMPT, StepKind.NOTE) else f"{step.kind} "
            told = (f"{kind}{name}", status, text)
    return " · ".join(filter(None, told))


def _usage(step: Step) -> Iterator[str]:
    if step.tokens is not None:
        yield f"{step.tokens.prompt:,} tokens in, {step.tokens.output:,} out"
    yield money(step.cost)


def decision(step: Step) -> str:
    """The decision on a call with the reason of the policy."""
    reason = one_line(step.reason)
    if not reason or reason.startswith(step.decision):
        return reason or step.decision
    return f"{step.decision} ({reason})"


def duration(milliseconds: float) -> str:
    """A time in the unit that suits it."""
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number:,} {one if number == 1 else more or f'{one}s'}"


def _offset(milliseconds: float) -> str:
    minutes, rest = divmod(milliseconds / 1_000, 60)
    return f"{minutes:.0f}:{rest:06.3f}"
