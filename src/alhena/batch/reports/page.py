"""The report of a run as one page that needs no network, with links to sessions of its tasks."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alhena.batch.progress import duration
from alhena.batch.queue import Queue
from alhena.batch.reports.journals import latest_journal
from alhena.batch.reports.report import Histogram, RunReport, group_of
from alhena.batch.results import TaskResult
from alhena.batch.tasks import key_of
from alhena.config.home import path_within
from alhena.display_text import money
from alhena.models.prices import Prices
from alhena.session.records import SessionError
from alhena.telemetry.records import Redaction
from alhena.tracing.page import as_page
from alhena.tracing.timeline import read_timeline

MAX_PAGES = 1_000
"""Sessions that a report links to, those of failed tasks first."""
_TEXT = 300
_HEADS = ("id", "status", "kind", "seconds", "cost", "attempts", "error or answer")
_STYLE = """\
body{font:15px sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color-scheme:light dark}
table{border-collapse:collapse;margin:1em 0;width:100%}
th,td{border-bottom:1px solid #8886;padding:.3em .6em;text-align:left;vertical-align:top}
#tasks th{cursor:pointer}td.n{text-align:right}.failed td:nth-child(2),.cancelled td:nth-child(2)
{color:#b00}.bars{display:flex;align-items:end;gap:2px;height:8em;border-bottom:1px solid #888}
.bars div{flex:1;background:#47a;min-height:1px}.both{display:flex;gap:3em}.both section{flex:1}
.ends{display:flex;justify-content:space-between;color:#888}button,input,select{font:inherit}
[hidden]{display:none}"""
_SCRIPT = """\
const rows=[...document.querySelectorAll("#tasks tbody tr")],by=id=>document.getElementById(id);
let group="";
function show(){const text=by("text").value.toLowerCase(),status=by("status").value;let n=0;
for(const row of rows){const fits=(!status||row.className===status)
&&(!group||row.dataset.group===group)&&(!text||row.textContent.toLowerCase().includes(text));row.hidden=!fits;n+=fits}
by("count").textContent=n+" of "+rows.length+" listed tasks";by("all").hidden=!group}
by("text").oninput=by("status").onchange=show;by("all").onclick=()=>{group="";show()};
for(const each of document.querySelectorAll("button[data-group]"))each.onclick=()=>{
group=each.dataset.group;by("status").value="";show();by("tasks").scrollIntoView()};
document.querySelectorAll("#tasks th").forEach((head,place)=>{let up=false;head.onclick=()=>{up=!up;
const value=row=>{const cell=row.cells[place];return cell.dataset.v===undefined?
cell.textContent:Number(cell.dataset.v)};rows.sort((a,b)=>{const x=value(a),y=value(b);
return(x<y?-1:x>y?1:0)*(up?1:-1)});rows[0].parentNode.append(...rows)}});show();"""


def write_page(
    queue: Queue, report: RunReport, page: Path, prices: Prices, redaction: Redaction
) -> None:
    """Writes the report as a page, and beside it, in a folder of its name, one for each session of
    which the run has the journal, as `alhena trace` does. Raises OSError, QueueError."""
    links: dict[str, str] = {}
    folder = page.with_name(f"{page.stem}-sessions")
    for each in report.results:  # failed tasks come first
        if len(links) == MAX_PAGES:
            break
        key = key_of(each.id)
        with latest_journal(queue, key) as journal:
            if journal is None:
                continue
            path = journal[1]
            try:
                timeline = read_timeline(path, prices)
            except SessionError:
                continue  # the report says how the task ended; its session has no link
            own = path_within(page.parent, f"{folder.name}/{key}.html")
            folder.mkdir(mode=0o700, exist_ok=True)
            own.write_bytes(as_page(timeline, redaction, journal_size=path.stat().st_size))
            links[each.id] = f"{folder.name}/{own.name}"
    title = f"Run {str(queue.place).rstrip('/').rpartition('/')[2]}"
    page.write_text(_as_html(report, title, links), encoding="utf-8")


def _as_html(report: RunReport, title: str, links: Mapping[str, str]) -> str:
    """The report as HTML. `links` are addresses of sessions by the id of their task."""
    numbers = "".join(_row(label, value) for label, value in report.numbers)
    codes = {(each.kind, each.text): str(n) for n, each in enumerate(report.groups)}
    groups = "".join(
        f'<tr><td class="n"><button data-group="{n}">{each.tasks:,}</button></td>'
        f"{_cells(each.kind, each.text)}<td>{_task_link(each.example, links)}</td></tr>"
        for n, each in enumerate(report.groups)
    )
    heads = "<tr><th>tasks<th>kind<th>error<th>for example</tr>"
    failed = f"<h2>Failures by their text</h2><table>{heads}{groups}</table>" if groups else ""
    tasks = "".join(
        _task_row(each, codes.get(group_of(each), ""), links) for each in report.results
    )
    listed = "".join(f"<th>{name}</th>" for name in _HEADS)
    statuses = "".join(f"<option>{each}</option>" for each in ("done", "failed", "cancelled"))
    left_out = (
        f"<p>{report.left_out:,} more are in the results file.</p>" if report.left_out else ""
    )
    spreads = (
        _histogram("Duration", report.durations, duration),
        _histogram("Cost", report.costs, money),
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1><table>{numbers}</table>"
        f'<div class="both">{"".join(spreads)}</div>{failed}<h2>Tasks</h2>'
        '<p><input id="text" type="search" placeholder="text"> <select id="status">'
        f'<option value="">all</option>{statuses}</select> <span id="count"></span> '
        f'<button id="all" hidden>all failures</button></p>{left_out}'
        f'<table id="tasks"><thead><tr>{listed}</tr></thead><tbody>{tasks}</tbody></table>'
        f"<script>{_SCRIPT}</script></html>\n"
    )


def _task_row(result: TaskResult, group: str, links: Mapping[str, str]) -> str:
    own = f' data-group="{group}"' if group and result.status == "failed" else ""
    cost = "" if result.cost_usd is None else result.cost_usd
    text = (result.error or result.answer or "")[:_TEXT]
    return (
        f'<tr class="{result.status}"{own}><td>{_task_link(result.id, links)}</td>'
        f"{_cells(result.status, result.kind or '')}"
        f'<td class="n" data-v="{result.duration_s}">{result.duration_s:.1f}</td>'
        f'<td class="n" data-v="{cost}">{money(result.cost_usd)}</td>'
        f'<td class="n" data-v="{result.attempts}">{result.attempts}</td>{_cells(text)}</tr>'
    )


def _histogram(title: str, found: Histogram | None, label: Any) -> str:
    if found is None:
        return ""
    most = max(found.bins)
    bars = "".join(
        f'<div style="height:{100 * number / most:.1f}%" title="{number:,} from '
        f'{html.escape(label(place * found.width))}"></div>'
        for place, number in enumerate(found.bins)
    )
    top = html.escape(label(found.width * (len(found.bins) - 1)))
    return (
        f'<section><h2>{title}</h2><div class="bars">{bars}</div>'
        f'<div class="ends"><span>0</span><span>{top} and more</span></div></section>'
    )


def _row(*values: Any) -> str:
    return f"<tr>{_cells(*values)}</tr>"


def _task_link(task_id: str, links: Mapping[str, str]) -> str:
    name = html.escape(task_id)
    return f'<a href="{quote(links[task_id])}">{name}</a>' if task_id in links else name


def _cells(*values: Any) -> str:
    return "".join(f"<td>{html.escape(str(value))}</td>" for value in values)
