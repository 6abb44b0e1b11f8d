"""The report of a run: a table, and a page with links to those of its sessions."""

import html
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from alhena.batch.overview import counts
from alhena.batch.progress import duration
from alhena.batch.queue import Queue
from alhena.batch.results import TaskResult, result_of
from alhena.config.home import path_within
from alhena.display_text import money
from alhena.models.prices import Prices
from alhena.session.records import SessionError
from alhena.telemetry.records import Redaction
from alhena.tracing.page import as_page
from alhena.tracing.timeline import read_timeline

MAX_PAGES = 1_000
"""Sessions that a report links to, those of failed tasks first."""
_SHARES = ((50, "median"), (90, "90 %"), (100, "longest"))
_STYLE = (
    "body{font:15px sans-serif;margin:2em auto;max-width:60em;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0;width:100%}"
    "th,td{border-bottom:1px solid #ccc;padding:.3em .6em;text-align:left;vertical-align:top}"
    "td.n{text-align:right}.failed,.cancelled{color:#b00}"
)


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a report: labels with values, failures by kind, and the results."""

    numbers: tuple[tuple[str, str], ...]
    failures: tuple[tuple[str, int], ...]
    results: tuple[TaskResult, ...]


def report_of(queue: Queue) -> RunReport:
    """The report of a run as it is now. Raises QueueError."""
    found = counts(queue)
    results: list[TaskResult] = []
    place = 0
    while ended := queue.results_after(place):
        results += (result_of(each.result) for each in ended)
        place = ended[-1].place
    spans = sorted(each.duration_s for each in results if each.status != "cancelled")
    rate = f"{found.done / found.ended:.1%}" if found.ended else "-"
    numbers = [
        ("tasks", f"{found.total:,}"),
        ("done", f"{found.done:,} ({rate} of those that ended)"),
        ("failed", f"{found.failed:,}"),
        ("cancelled", f"{found.cancelled:,}"),
        ("without a result", f"{found.waiting + found.running:,}"),
        ("tokens", f"{found.tokens:,}"),
        ("cost", money(found.cost)),
    ]
    if found.cost is not None and found.ended:
        numbers.append(("cost of a task", money(found.cost / found.ended)))
    for share, name in _SHARES if spans else ():
        at = spans[max(0, -(-len(spans) * share // 100) - 1)]
        numbers.append((f"duration, {name}", duration(at)))
    kinds = Counter(each.kind or "" for each in results if each.status == "failed")
    return RunReport(
        numbers=tuple(numbers), failures=tuple(kinds.most_common()), results=tuple(results)
    )


def as_text(report: RunReport) -> str:
    """The report as a table."""
    rows = [*report.numbers, *((f"failed: {kind}", f"{n:,}") for kind, n in report.failures)]
    width = max(len(label) for label, _ in rows)
    return "".join(f"{label:{width}}  {value}\n" for label, value in rows)


def write_page(
    report: RunReport, run: Path, page: Path, prices: Prices, redaction: Redaction
) -> None:
    """Writes the report as a page, and beside it, in a folder of its name, one for each session of
    which the run directory has the journal, as `alhena trace` does. Raises OSError."""
    links: dict[str, str] = {}
    folder = page.with_name(f"{page.stem}-sessions")
    for each in sorted(report.results, key=lambda result: result.status != "failed"):
        key = (each.session_id or "").rpartition("-")[0]
        journal = run / "tasks" / key / "sessions" / f"{each.session_id}.jsonl"
        if not key or not journal.is_file() or len(links) == MAX_PAGES:
            continue
        try:
            timeline = read_timeline(journal, prices)
        except SessionError:
            continue  # the report says how the task ended; its session has no link
        own = path_within(page.parent, f"{folder.name}/{key}.html")
        folder.mkdir(mode=0o700, exist_ok=True)
        own.write_bytes(as_page(timeline, redaction, journal_size=journal.stat().st_size))
        links[each.id] = f"{folder.name}/{own.name}"
    page.write_text(_as_html(report, f"Run {run.name}", links), encoding="utf-8")


def _as_html(report: RunReport, title: str, links: Mapping[str, str]) -> str:
    """The report as HTML. `links` are addresses of sessions by the id of their task."""
    numbers = "".join(_row(label, value) for label, value in report.numbers)
    failures = "".join(_row(kind, n) for kind, n in report.failures)
    tasks = "".join(
        f'<tr class="{each.status}"><td>{_task_link(each.id, links)}</td>'
        f"{_cells(each.status, each.kind or '')}"
        f'<td class="n">{each.duration_s:.1f}</td><td class="n">{money(each.cost_usd)}</td>'
        f"{_cells(each.attempts, (each.error or each.answer or '')[:300])}</tr>"
        for each in report.results
    )
    heads = ("id", "status", "kind", "seconds", "cost", "attempts", "error or answer")
    head = "".join(f"<th>{name}</th>" for name in heads)
    failed = f"<h2>Failures</h2><table>{failures}</table>" if failures else ""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1><table>{numbers}</table>{failed}"
        f"<h2>Tasks</h2><table><tr>{head}</tr>{tasks}</table></html>\n"
    )


def _row(*values: Any) -> str:
    return f"<tr>{_cells(*values)}</tr>"


def _task_link(task_id: str, links: Mapping[str, str]) -> str:
    name = html.escape(task_id)
    return f'<a href="{quote(links[task_id])}">{name}</a>' if task_id in links else name


def _cells(*values: Any) -> str:
    return "".join(f"<td>{html.escape(str(value))}</td>" for value in values)
