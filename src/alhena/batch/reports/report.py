"""The report of a run: numbers, failures by kind and by text, histograms of duration and cost. Its
size does not grow with the number of tasks."""

import re
from array import array
from collections import Counter
from collections.abc import Sequence

import msgspec

from alhena.batch.overview import counts
from alhena.batch.progress import duration
from alhena.batch.queue import Queue
from alhena.batch.results import TaskResult, all_results, result_of
from alhena.display_text import money, one_line

MOST_LISTED = 5_000
"""Tasks that a report lists, those that failed first."""
_MOST_GROUPS = 1_000
_GROUP_TEXT, _CELL_TEXT = 200, 300
_REST = "(other texts)"
_SHARES = ((50, "median"), (90, "90 %"), (100, "longest"))
_BINS = 12
_TOP_SHARE = 0.99
_CHANGING = re.compile(r"\b(?:0x)?[0-9a-f]{8,}\b|\d+")
"""Parts of an error that differ from task to task: numbers, digests, ids."""


class FailureGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Failed tasks whose errors are the same but for numbers and ids, which `text` has as `#`."""

    kind: str
    text: str
    tasks: int
    example: str


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of tasks by a measure: `bins` have the same `width`, from 0 on; the last one has also
    all that is above."""

    width: float
    bins: tuple[int, ...]


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a report: labels with values, failures by kind and by text, histograms of seconds
    and US dollars, and results of tasks, of which `left_out` are not listed."""

    numbers: tuple[tuple[str, str], ...]
    failures: tuple[tuple[str, int], ...]
    groups: tuple[FailureGroup, ...]
    durations: Histogram | None
    costs: Histogram | None
    results: tuple[TaskResult, ...]
    left_out: int


def report_of(queue: Queue) -> RunReport:
    """The report of a run as it is now. Raises QueueError."""
    found = counts(queue)
    seconds, costs = array("d"), array("d")
    kinds: Counter[str] = Counter()
    groups: dict[tuple[str, str], list[int | str]] = {}
    failed: list[TaskResult] = []
    others: list[TaskResult] = []
    for each in (result_of(ended.result) for ended in all_results(queue)):
        listed = failed if each.status == "failed" else others
        if len(listed) < MOST_LISTED:
            listed.append(_shorten_texts(each))
        if each.status != "cancelled":
            seconds.append(each.duration_s)
            if each.cost_usd is not None:
                costs.append(each.cost_usd)
        if each.status == "failed":
            kinds[each.kind or ""] += 1
            key = group_of(each)
            if key not in groups and len(groups) >= _MOST_GROUPS:
                key = (key[0], _REST)
            group = groups.setdefault(key, [0, each.id])
            group[0] = int(group[0]) + 1
    listed = (failed + others)[:MOST_LISTED]
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
    spans = sorted(seconds)
    for share, name in _SHARES if spans else ():
        at = spans[max(0, -(-len(spans) * share // 100) - 1)]
        numbers.append((f"duration, {name}", duration(at)))
    made = (
        FailureGroup(kind=kind, text=text, tasks=int(number), example=str(example))
        for (kind, text), (number, example) in groups.items()
    )
    return RunReport(
        numbers=tuple(numbers),
        failures=tuple(kinds.most_common()),
        groups=tuple(sorted(made, key=lambda each: -each.tasks)),
        durations=histogram_of(spans),
        costs=histogram_of(sorted(costs)),
        results=tuple(listed),
        left_out=found.ended - len(listed),
    )


def group_of(result: TaskResult) -> tuple[str, str]:
    """Kind and text of the failures that a failed task belongs to."""
    text = _CHANGING.sub("#", (result.error or "")[: 4 * _GROUP_TEXT])
    return result.kind or "", one_line(text, _GROUP_TEXT)


def histogram_of(values: Sequence[float]) -> Histogram | None:
    """The histogram of ordered values; None where all are 0."""
    if not values or values[-1] <= 0:
        return None
    top = values[round(_TOP_SHARE * (len(values) - 1))] or values[-1]
    width = top / _BINS
    bins = [0] * _BINS
    for value in values:
        bins[min(int(value / width), _BINS - 1)] += 1
    return Histogram(width=width, bins=tuple(bins))


def as_text(report: RunReport) -> str:
    """The report as a table."""
    rows = [*report.numbers, *((f"failed: {kind}", f"{n:,}") for kind, n in report.failures)]
    width = max(len(label) for label, _ in rows)
    return "".join(f"{label:{width}}  {value}\n" for label, value in rows)


def _shorten_texts(result: TaskResult) -> TaskResult:
    """The result with what a report shows of it."""
    return msgspec.structs.replace(
        result,
        answer=(result.answer or "")[:_CELL_TEXT],
        error=None if result.error is None else result.error[: 4 * _GROUP_TEXT],
        output=None,
        patch=None,
    )
