"""Evaluates agents: cases, scorers, and reports that can be compared.

def correct(outcome: Outcome) -> bool:
    return outcome.result.output == outcome.task.data

cases = [Task("2 + 2?", id="sum", output=int, data=4)]
report = await evaluate(cases, lambda task: Agent(model), [correct])
print(report.table())
print(report.compare(earlier)["correct"])
"""

import html
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.agent.limits import Usage
from alhena.batch.many import Factory, GivenTask, Outcome, Task, number_tasks, run_many
from alhena.batch.reports.comparison import mean_bounds
from alhena.values import Value

__all__ = ["Comparison", "Difference", "Report", "ScoredCase", "Scorer", "evaluate"]

Scorer = Callable[[Outcome[Any]], float | Awaitable[float]]
"""A function, async or not, of an outcome that is done; it returns a bool or a number. Its name is
the name of its column."""
_REPEAT = "#"
_FEW = 10
"""Cases below which a bootstrap makes an interval that is too narrow."""


class ScoredCase(Value, frozen=True, kw_only=True):
    """A case of a report: its outcome, and its scores by scorer. One that failed or waits has 0
    everywhere. `case` is the id of the case, the same for its repetitions."""

    case: str
    outcome: Outcome[Any]
    scores: Mapping[str, float]


class Difference(Value, frozen=True, kw_only=True):
    """The mean difference of a score, paired by case, between `low` and `high` with a confidence of
    95 % (bootstrap; -inf and inf for one case). `better` and `worse` are the ids of the cases that
    moved."""

    difference: float
    low: float
    high: float
    cases: int
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()

    def __str__(self) -> str:
        cases = f"{self.cases} case{'' if self.cases == 1 else 's'}"
        few = ", too few to rely on" if self.cases < _FEW else ""
        return f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}] ({cases}{few})"


class Comparison(Mapping[str, Difference]):
    """The differences of two reports by scorer."""

    def __init__(self, differences: Mapping[str, Difference]) -> None:
        self._differences = dict(differences)

    def __getitem__(self, name: str) -> Difference:
        return self._differences[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._differences)

    def __len__(self) -> int:
        return len(self._differences)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {each}" for name, each in self.items())


class Report:
    """The scores of an evaluation. `rows` are in the order of the cases, `scorers` the names of the
    columns, `usage` is what it took."""

    def __init__(self, rows: Sequence[ScoredCase], scorers: Sequence[str]) -> None:
        self.rows = tuple(rows)
        self.scorers = tuple(scorers)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={self.mean(name):.3f}" for name in self.scorers)
        return f"Report({len(self.rows)} rows, {shown})"

    @property
    def usage(self) -> Usage:
        """The usage of all outcomes."""
        results = (row.outcome.result for row in self.rows)
        return sum((each.usage for each in results if each is not None), Usage())

    def mean(self, name: str) -> float:
        """The mean of a score; nan without rows. Raises KeyError for an unknown one."""
        scores = self.by_case(name).values()
        return sum(scores) / len(scores) if scores else float("nan")

    def table(self) -> str:
        """The scores as text: a line for each case, and the means."""
        lines = [("case", "status", *self.scorers)]
        for row in self.rows:
            scores = (format_score(row.scores[name]) for name in self.scorers)
            lines.append((row.outcome.id, row.outcome.status, *scores))
        lines.append(("mean", "", *(f"{self.mean(name):.3f}" for name in self.scorers)))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def html(self, path: str | PathLike[str]) -> None:
        """Writes the scores with prompts, outputs and errors as a page."""
        names = "".join(f"<th>{html.escape(name)}</th>" for name in self.scorers)
        means = "".join(f"<th>{self.mean(name):.3f}</th>" for name in self.scorers)
        rows = "\n".join(self._html_row(row) for row in self.rows)
        page = (
            "<!doctype html>\n<meta charset=utf-8>\n<title>Evaluation</title>\n"
            "<style>body{font:14px sans-serif}td,th{padding:4px 8px;text-align:left;"
            "vertical-align:top;border-bottom:1px solid #ddd}</style>\n<table>\n"
            f"<tr><th>case<th>status{names}<th>prompt<th>output</tr>\n{rows}\n"
            f"<tr><th>mean<th>{means}<th><th></tr>\n</table>\n"
        )
        Path(path).write_text(page, encoding="utf-8")

    def compare(self, other: "Report") -> Comparison:
        """The differences of this report to the `other` one, for the scorers and cases that both
        have. Raises ValueError when they have no case in common."""
        found: dict[str, Difference] = {}
        for name in self.scorers:
            if name not in other.scorers:
                continue
            mine, theirs = self.by_case(name), other.by_case(name)
            both = [case for case in mine if case in theirs]
            if not both:
                raise ValueError("the reports have no case in common; cases are paired by id")
            found[name] = _difference({case: mine[case] - theirs[case] for case in both})
        return Comparison(found)

    def by_case(self, name: str) -> dict[str, float]:
        """The mean score of each case over its repetitions, by id. Raises KeyError."""
        if name not in self.scorers:
            raise KeyError(name)
        scores: dict[str, list[float]] = {}
        for row in self.rows:
            scores.setdefault(row.case, []).append(row.scores[name])
        return {case: sum(each) / len(each) for case, each in scores.items()}

    def _html_row(self, row: ScoredCase) -> str:
        outcome = row.outcome
        task: object = outcome.task
        prompt = cast("Task[Any]", task).prompt if isinstance(task, Task) else task
        shown = outcome.error if outcome.result is None else outcome.result.output
        cells = (
            *(
                outcome.id,
                outcome.status,
                *(format_score(row.scores[name]) for name in self.scorers),
            ),
            *(str(prompt), str(shown)),
        )
        return f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"


async def evaluate(
    cases: Iterable[GivenTask],
    agent: Factory,
    scorers: Sequence[Scorer] | Scorer,
    *,
    run_dir: str | PathLike[str] | None = None,
    repeats: int = 1,
    **more: Any,
) -> Report:
    """Runs each case with an agent of its own, and scores the outcomes.

    Args:
        cases: as the tasks of `run_many`; `Task(data=…)` holds what a scorer compares with.
        agent: makes the agent of a Task.
        scorers: functions of an Outcome.
        run_dir: keeps outcomes: called again, only unfinished cases run; all are scored.
        repeats: how often each case runs; its scores are averaged.
        more: `concurrency`, `rpm`, `tpm`, `total_cost`, `retry_failed` of `run_many`.

    What a scorer raises is raised, with the id of its case. Raises TypeError for a score that is no
    number.
    """
    columns = _columns(scorers)
    if not isinstance(cast("object", repeats), int) or repeats < 1:
        raise ValueError(f"repeats has to be a number from 1, not {repeats!r:.60}")
    works = list(number_tasks(cases))
    tasks: list[Task[Any]] = []
    places: dict[str, tuple[int, str, Any]] = {}
    for number in range(repeats):
        for work in works:
            name = work.id if number == 0 else f"{work.id}{_REPEAT}{number + 1}"
            places[name] = (len(tasks), work.id, work.task)
            tasks.append(rename_task(work.task, name))
    rows: dict[int, ScoredCase] = {}
    async for outcome in run_many(tasks, agent=agent, run_dir=run_dir, **more):
        place, case, task = places[outcome.id]
        outcome = msgspec.structs.replace(outcome, task=task)
        scores = {name: await _score(name, scorer, outcome) for name, scorer in columns.items()}
        rows[place] = ScoredCase(case=case, outcome=outcome, scores=scores)
    return Report([rows[place] for place in sorted(rows)], list(columns))


def rename_task(task: Task[Any], name: str) -> Task[Any]:
    """The task under a name."""
    more: dict[str, Any] = {"deps": task.deps, "data": task.data, "cwd": task.cwd}
    if task.output is not str:
        more |= {"output": task.output, "check": task.check}
    return Task(task.prompt, id=name, **more)


def _columns(scorers: Sequence[Scorer] | Scorer) -> dict[str, Scorer]:
    given: Any = [scorers] if callable(scorers) else scorers
    if not isinstance(given, list | tuple):
        raise TypeError(f"scorers has to be a list of functions, not {given!r:.60}")
    found: dict[str, Scorer] = {}
    for scorer in cast("Sequence[Any]", given):
        name = getattr(scorer, "__name__", "")
        if not callable(scorer) or not name:
            raise TypeError(f"scorers: {scorer!r:.60} is no function with a name")
        if name in found:
            raise ValueError(f"scorers: two have the name {name!r}")
        found[name] = cast("Scorer", scorer)
    if not found:
        raise ValueError("scorers is empty: give at least one function")
    return found


async def _score(name: str, scorer: Scorer, outcome: Outcome[Any]) -> float:
    if outcome.status != "done":
        return 0.0
    try:
        score: Any = scorer(outcome)
        if inspect.isawaitable(score):
            score = await score
    except Exception as error:
        error.add_note(f"in the scorer {name}, for the case {outcome.id!r}")
        raise
    if not isinstance(score, bool | int | float) or not isfinite(score):
        raise TypeError(f"{name} returned {score!r:.60} for {outcome.id!r}, no bool and no number")
    return float(score)


def _difference(paired: Mapping[str, float]) -> Difference:
    values = list(paired.values())
    count = len(values)
    low, high = mean_bounds(values)
    return Difference(
        difference=sum(values) / count,
        low=low,
        high=high,
        cases=count,
        better=tuple(case for case, value in paired.items() if value > 0),
        worse=tuple(case for case, value in paired.items() if value < 0),
    )


def format_score(score: float) -> str:
    return f"{score:g}" if score == int(score) else f"{score:.3f}"
