"""Compares the results of two runs, task by task."""

import random
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import mean, stdev

import msgspec

from alhena.batch.errors import RunDirectoryError
from alhena.batch.results import TaskResult, all_results, result_of
from alhena.batch.run import has_run, open_queue
from alhena.batch.store import place_of
from alhena.display_text import one_line

_SAMPLES, _MOST_SAMPLED = 2_000, 1_000
"""Samples of a bootstrap; with more tasks than this, means are distributed normally."""
_CONFIDENCE = 1.96
_LOW, _HIGH = 0.025, 0.975
_LISTED = 20
"""Tasks of one kind that are named in text."""
_MEASURES = ("done", "cost_usd", "duration_s", "tokens")


class PairedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The mean of a measure in two runs over the `tasks` that have it in both, and the mean
    difference (second minus first), which is between `low` and `high` with a confidence of 95 %."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    tasks: int

    @property
    def is_clear(self) -> bool:
        """True when chance does not explain the difference."""
        return self.low > 0 or self.high < 0


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs. `better` and `worse` are the ids of tasks that are done in the second run only, or
    in the first only; `changed` those done in both with another answer, output or patch; `added`
    and `removed` have a result in one run only. `measures` are by name: the share that is done, and
    of tasks done in both the cost, seconds and tokens."""

    tasks: int
    better: tuple[str, ...]
    worse: tuple[str, ...]
    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    measures: dict[str, PairedDifference]


def read_results(name: str, cwd: Path) -> dict[str, TaskResult]:
    """The results by id of a run directory, or of a results file. Raises RunDirectoryError,
    QueueError."""
    place = place_of(name, cwd)
    found: dict[str, TaskResult] = {}
    if isinstance(place, Path) and place.is_file():
        try:
            with place.open("rb") as lines:
                found = {each.id: each for each in map(result_of, lines)}
        except (OSError, msgspec.DecodeError) as error:
            raise RunDirectoryError(
                f"{name} is no results file: {error}.",
                remedy="Name a run directory, or a file of results that is not for SWE-bench.",
            ) from error
        return found
    if not has_run(place):
        raise RunDirectoryError(
            f"there is no run in {name}.", remedy="Name a run directory or a results file."
        )
    queue = open_queue(place)
    try:
        found = {each.id: result_of(each.result) for each in all_results(queue)}
    finally:
        queue.close()
    return found


def compare_runs(
    first: Mapping[str, TaskResult], second: Mapping[str, TaskResult]
) -> RunComparison:
    """The differences of the second run to the first."""
    both = [name for name in first if name in second]
    pairs = {name: (first[name], second[name]) for name in both}
    done = {
        name: (one.status == "done", two.status == "done") for name, (one, two) in pairs.items()
    }
    good = [name for name, each in done.items() if all(each)]
    values: dict[str, list[tuple[float, float]]] = {name: [] for name in _MEASURES}
    values["done"] = [(float(one), float(two)) for one, two in done.values()]
    for name in good:
        one, two = pairs[name]
        values["duration_s"].append((one.duration_s, two.duration_s))
        values["tokens"].append((_tokens(one), _tokens(two)))
        if one.cost_usd is not None and two.cost_usd is not None:
            values["cost_usd"].append((one.cost_usd, two.cost_usd))
    return RunComparison(
        tasks=len(both),
        better=tuple(name for name, each in done.items() if each == (False, True)),
        worse=tuple(name for name, each in done.items() if each == (True, False)),
        changed=tuple(
            name for name in good if _content(pairs[name][0]) != _content(pairs[name][1])
        ),
        added=tuple(name for name in second if name not in first),
        removed=tuple(name for name in first if name not in second),
        measures={name: paired_difference(each) for name, each in values.items() if each},
    )


def paired_difference(pairs: Sequence[tuple[float, float]]) -> PairedDifference:
    """The difference of pairs, with its bounds by bootstrap; the same for the same pairs."""
    count = len(pairs)
    differences = [second - first for first, second in pairs]
    low, high = mean_bounds(differences)
    return PairedDifference(
        first=sum(first for first, _ in pairs) / count,
        second=sum(second for _, second in pairs) / count,
        difference=sum(differences) / count,
        low=low,
        high=high,
        tasks=count,
    )


def mean_bounds(values: Sequence[float]) -> tuple[float, float]:
    """The bounds of the mean of values with a confidence of 95 %, by bootstrap; the same for the
    same values. A single value says nothing about others."""
    count = len(values)
    if count == 1:
        return -inf, inf
    if count > _MOST_SAMPLED:
        middle, reach = mean(values), _CONFIDENCE * stdev(values) / count**0.5
        return middle - reach, middle + reach
    chance = random.Random(count)  # noqa: S311  no secret
    means = sorted(sum(chance.choices(values, k=count)) / count for _ in range(_SAMPLES))
    return means[int(_LOW * (_SAMPLES - 1))], means[round(_HIGH * (_SAMPLES - 1))]


def describe_comparison(found: RunComparison) -> str:
    """The comparison as text."""
    lines = [f"{found.tasks:,} tasks have a result in both runs."]
    lines += (
        f"  {name:10}  {each.first:>12,.4g} -> {each.second:<12,.4g}  {each.difference:+,.4g} "
        f"[{each.low:+,.4g}, {each.high:+,.4g}]{'' if each.is_clear else '  (may be chance)'}"
        for name, each in found.measures.items()
    )
    for label in ("worse", "better", "changed", "added", "removed"):
        ids: tuple[str, ...] = getattr(found, label)
        if ids:
            more = f", and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
            named = ", ".join(one_line(each, 60) for each in ids[:_LISTED])
            lines.append(f"{label}: {len(ids):,} ({named}{more})")
    return "".join(f"{line}\n" for line in lines)


def _tokens(result: TaskResult) -> float:
    names = ("input_tokens", "output_tokens", "thought_tokens")
    return float(sum(result.usage.get(name, 0) for name in names))


def _content(result: TaskResult) -> tuple[object, ...]:
    return result.answer, result.output, result.patch
