"""`alhena batch status|tail|cancel|pause|limits DIR`: a run that another process may carry out."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.display_text import one_line
from alhena.errors import UsageError
from alhena.frontends.shared.arguments import Parser, amount, parse_arguments, whole
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.shared.streams import is_terminal, write_json, write_stderr, write_stdout
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.batch.control import Order
    from alhena.batch.queue import Queue
    from alhena.batch.store import Place

_LOOK_S, _LOOK_FAR_S = 0.5, 5.0
"""Seconds between two looks at a run: at its database, at files that have to be read again."""
_LIMITS = (
    ("concurrency", whole),
    ("rpm", whole),
    ("tpm", whole),
    ("total-cost", amount),
    ("total-seconds", amount),
)


def directory_of(words: list[str]) -> "Place":
    """The run directory that is named. Raises UsageError."""
    from alhena.batch.store import place_of

    if len(words) != 1:
        raise UsageError("name the run directory.", remedy="See alhena batch --help.")
    return place_of(words[0], current_directory())


def open_for_reading(directory: "Place") -> "closing[Queue]":
    """A run to be read, which another process may be at work on."""
    from alhena.batch.run import open_queue

    return closing(open_queue(directory))


def show_status(argv: list[str]) -> int:
    """`alhena batch status DIR [--watch] [--json]`."""
    options = parse_arguments("alhena batch status", argv, "DIR --watch --json")
    directory = directory_of([options.dir])
    if not options.watch:
        found = _read_status(directory)
        if options.json:
            write_json(found)
        else:
            write_stdout(_status_table(found, has_lock=isinstance(directory, Path)))
        return 0
    in_place = is_terminal(sys.stdout) and not options.json
    for found in _watch(directory):
        line = msgspec.json.encode(found).decode() if options.json else _status_line(found)
        write_stdout(f"\r\x1b[K{line}" if in_place else f"{line}\n")
    write_stdout("\n" if in_place else "")
    return 0


def _watch(directory: "Place") -> Iterator[dict[str, Any]]:
    """The numbers of a run whenever they have changed, until nothing runs any more."""
    last: dict[str, Any] | None = None
    while True:
        found = _read_status(directory)
        if found != last:
            yield found
        last = found
        over = not found["waiting"] and not found["running"]
        if over or (isinstance(directory, Path) and found["process"] is None):
            return
        time.sleep(_wait_of(directory))


def _wait_of(directory: "Place") -> float:
    has_files = not isinstance(directory, Path) or (directory / "run.json").exists()
    return _LOOK_FAR_S if has_files else _LOOK_S


def _read_status(directory: "Place") -> dict[str, Any]:
    from alhena.batch.overview import counts
    from alhena.batch.run import config_of
    from alhena.batch.store import lock_holder

    # Before the numbers, which are the last ones then if there is none.
    process = lock_holder(directory) if isinstance(directory, Path) else None
    with open_for_reading(directory) as queue:
        numbers = counts(queue)
        kinds = queue.rows(
            "SELECT kind, count(*) FROM tasks WHERE status = 'failed' GROUP BY kind ORDER BY 2 DESC"
        )
        shared = config_of(queue).shared
    limits = msgspec.structs.asdict(shared)
    return {
        **msgspec.structs.asdict(numbers),
        "total": numbers.total,
        "failures": dict(kinds),
        "paused": limits.pop("paused"),
        "limits": limits,
        "process": process,
    }


def _status_table(found: dict[str, Any], *, has_lock: bool) -> str:
    """A row for each kind of task that there is, for what they took, the limits and the process."""
    from alhena.display_text import money

    states = ("done", "failed", "cancelled", "pending", "running", "waiting")
    rows = [(each, f"{found[each]:,}") for each in states if found[each]]
    failures = ", ".join(f"{count:,} {kind}" for kind, count in found["failures"].items())
    rows = [(name, f"{value} ({failures})" if name == "failed" else value) for name, value in rows]
    limits = (f"{name} {value:,}" for name, value in found["limits"].items() if value is not None)
    process = found["process"]
    if has_lock and process is None and (found["running"] or found["waiting"]):
        process = "none"  # `running` is what ran when it died
    rows += [
        ("tasks", f"{found['total']:,}"),
        ("used", f"{found['tokens']:,} tokens · {money(found['cost'])}"),
        ("limits", ", ".join(limits).replace("_", " ")),
        *([] if process is None else [("process", str(process))]),
        *([("paused", "yes")] if found["paused"] else []),
    ]
    return "".join(f"{name:<10} {value}\n" for name, value in rows)


def _status_line(found: dict[str, Any]) -> str:
    from alhena.display_text import money

    ended = found["total"] - found["waiting"] - found["running"]
    parts = [
        f"{ended:,}/{found['total']:,}",
        f"{found['running']:,} running",
        f"{found['failed']:,} failed",
        f"{found['tokens']:,} tokens",
        money(found["cost"]),
        *(["paused"] if found["paused"] else []),
    ]
    return " · ".join(parts)


def cancel(argv: list[str]) -> int:
    """`alhena batch cancel DIR [ID…]`."""
    from alhena.batch.control import Order

    options = parse_arguments("alhena batch cancel", argv, "DIR [ID…]")
    directory = directory_of([options.dir])
    with open_for_reading(directory) as queue:
        if not options.id:
            query = "SELECT count(*) FROM tasks WHERE state != 'ended'"
            number = int(queue.rows(query)[0][0])
        else:
            number = sum(_has_no_result(queue, each) for each in dict.fromkeys(options.id))
    order = Order(cancel=tuple(options.id), everything=not options.id)
    _send(directory, order, lambda: _cancel_here(directory, order))
    write_stdout(f"Cancelled {count_noun(number, 'task')}.\n")
    return 0


def _has_no_result(queue: "Queue", task_id: str) -> bool:
    found = queue.rows("SELECT state FROM tasks WHERE id = ?", task_id)
    if not found:
        raise UsageError(f"no task has the id {task_id!r}.", remedy="Nothing was cancelled.")
    return found[0][0] != "ended"


def _cancel_here(directory: "Place", order: "Order") -> None:
    """Cancels tasks of a run that no process carries out."""
    from alhena.batch.control import carry_out
    from alhena.batch.results import ResultsFile
    from alhena.batch.run import clear_trees, config_of, old_run

    with old_run(directory) as queue:
        carry_out(order, queue)
        if queue.is_over():
            clear_trees(queue)
        config = config_of(queue)
        results = ResultsFile(Path(config.out), config.form)
        results.open(queue)
        while found := tuple(queue.results_after(results.place)):
            results.append(found)
        results.close()


def _send(directory: "Place", order: "Order", apply: Callable[[], None] | None) -> bool:
    """Gives an order to the process that carries out a run; True when that obeyed it."""
    from alhena.batch.control import send_order
    from alhena.batch.run import has_run, open_queue

    if not has_run(directory):
        open_queue(directory).close()  # says what is missing
    return send_order(directory, order, apply)


def pause(argv: list[str]) -> int:
    """`alhena batch pause DIR`."""
    from alhena.batch.control import Order

    options = parse_arguments("alhena batch pause", argv, "DIR")
    _send(directory_of([options.dir]), Order(limits={"paused": True}), None)
    write_stdout(
        "Paused: tasks that run are finished, no further one starts. "
        f"Continue with: alhena batch resume {one_line(options.dir)}\n"
    )
    return 0


def resume_paused(directory: "Place", given: dict[str, Any]) -> bool:
    """Continues a run that another process carries out and that is paused; False for any other.
    The options `given` change its shared limits. Raises UsageError for one that a process takes
    only when it starts."""
    from alhena.batch.control import Order
    from alhena.batch.run import config_of, has_run
    from alhena.batch.store import lock_holder

    if isinstance(directory, Path) and lock_holder(directory) is None:
        return False
    if not has_run(directory):
        return False
    with open_for_reading(directory) as queue:
        if not config_of(queue).shared.paused:
            return False
    names = [name.replace("-", "_") for name, _ in _LIMITS]
    if isinstance(directory, Path) and not given.keys() <= set(names):
        raise UsageError(
            f"a run at work takes only {', '.join(f'--{name}' for name, _ in _LIMITS)}.",
            remedy="Leave out the other options, or interrupt its process first.",
        )
    shared = {name: given[name] for name in names if name in given}
    started = False

    def leave_it() -> None:
        nonlocal started
        started = True

    _send(directory, Order(limits={**shared, "paused": False}), leave_it)
    if not started:
        write_stdout("Resumed; the process that was paused continues.\n")
    return not started


def change_limits(argv: list[str]) -> int:
    """`alhena batch limits DIR [--rpm N …]`."""
    from alhena.batch.control import Order, carry_out
    from alhena.batch.run import config_of, old_run

    parser = Parser(prog="alhena batch limits", add_help=False, allow_abbrev=False)
    parser.add_argument("dir", metavar="DIR")
    for name, kind in _LIMITS:
        parser.add_argument(f"--{name}", type=_or_none(name, kind), metavar="N|none")
    parser.add_argument("-d", "--debug", action="store_true")
    options = parser.parse_args(argv)
    directory = directory_of([options.dir])
    names = [name.replace("-", "_") for name, _ in _LIMITS]
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    order = Order(limits={name: None if each == "none" else each for name, each in given.items()})

    def apply() -> None:
        with old_run(directory) as queue:
            carry_out(order, queue)

    if "total_seconds" in given:
        with open_for_reading(directory) as queue:
            if config_of(queue).program:
                raise UsageError(
                    "--total-seconds: a run of a program has no limit of time.",
                    remedy="Give its agents Limits(seconds=…).",
                )
    if given:
        _send(directory, order, apply)
    with open_for_reading(directory) as queue:
        shared = config_of(queue).shared
    for name in names:
        value = getattr(shared, name)
        write_stdout(
            f"{name.replace('_', '-'):14} {'none' if value is None else f'{value:.12g}'}\n"
        )
    return 0


def _or_none(name: str, kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text == "none" and name != "concurrency":
            return text
        return kind(text)

    return read


def follow_task(argv: list[str]) -> int:
    """`alhena batch tail DIR ID`: the steps of a task as they come; 0 when it is done, else 1."""
    from alhena.batch.store import lock_holder
    from alhena.batch.tasks import key_of

    options = parse_arguments("alhena batch tail", argv, "DIR ID")
    directory = directory_of([options.dir])
    tail = _Tail()
    while True:
        runs = not isinstance(directory, Path) or lock_holder(directory) is not None
        with open_for_reading(directory) as queue:
            query = "SELECT state, status, kind FROM tasks WHERE id = ?"
            found = queue.rows(query, options.id)
            if not found:
                raise UsageError(f"no task has the id {options.id!r}.", remedy="Check the id.")
            state, status, kind = found[0]
            tail.show(queue, key_of(options.id), running=state == "running" and runs)
        if state == "ended":
            write_stdout(f"{status}{f': {kind}' if kind and kind != status else ''}\n")
            return 0 if status == "done" else 1
        if not runs:
            write_stderr("alhena: no process carries out this run.\n")
            return 1
        time.sleep(_wait_of(directory))


class _Tail:
    """Prints the steps of a task's session that are new or have changed."""

    def __init__(self) -> None:
        from alhena.frontends.shared.current_settings import place_here
        from alhena.models.prices import Prices
        from alhena.telemetry.records import Redaction

        place = place_here(told=False)
        self._prices = Prices(place.settings.model.prices)
        self._clean = Redaction(place.environ).text
        self._lines: list[str] = []
        self._attempt = 0

    def show(self, queue: "Queue", key: str, *, running: bool) -> None:
        """Prints what is new. Calls that have no result yet are marked while the task is
        `running`."""
        from alhena.batch.reports.journals import latest_journal
        from alhena.frontends.cli.trace import describe_step
        from alhena.session.records import SessionError
        from alhena.tracing.timeline import NO_RESULT, read_timeline

        with latest_journal(queue, key) as journal:
            if journal is None:
                return
            attempt, path = journal
            try:
                timeline = read_timeline(path, self._prices)
            except SessionError:
                return  # its first line is being written
        if attempt != self._attempt:
            self._attempt = attempt
            write_stdout(f"attempt {attempt}\n")
        lines = [describe_step(step, self._clean) for step in timeline.steps]
        if running:
            lines = [line.replace(f" · {NO_RESULT}", " · running") for line in lines]
        for number, line in enumerate(lines):
            if number >= len(self._lines) or self._lines[number] != line:
                write_stdout(f"{line}\n")
        self._lines = lines
