"""`alhena batch`: many tasks, some at a time, with results as JSON lines."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from alhena.config.home import path_within
from alhena.display_text import one_line
from alhena.errors import InputError, UsageError
from alhena.frontends.cli import batch_control
from alhena.frontends.cli.batch_control import directory_of, open_for_reading
from alhena.frontends.shared.arguments import (
    Parser,
    amount,
    parse_arguments,
    split_list,
    split_tools,
    subcommand_help,
    turns,
    whole,
)
from alhena.frontends.shared.streams import is_terminal, write_json, write_stderr, write_stdout
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.batch.engine import Engine, RunConfig
    from alhena.batch.queue import Queue
    from alhena.batch.reports.report import RunReport
    from alhena.batch.tasks import QueuedTask

T = TypeVar("T", bound=msgspec.Struct)

_INTRODUCTION = """\
usage: alhena batch TASKS --out RESULTS.jsonl [options]
       alhena batch --each-file GLOB --prompt TEMPLATE --out RESULTS.jsonl [options]
       alhena batch resume|retry-failed DIR [options]
       alhena batch status DIR [--watch] [--json]
       alhena batch cancel DIR [ID…]
       alhena batch pause DIR
       alhena batch limits DIR [--concurrency|--rpm|--tpm|--total-cost|--total-seconds N]
       alhena batch show|tail DIR ID
       alhena batch report DIR [--html FILE]
       alhena batch diff A B [--json]

Runs many tasks and writes one JSON line for each. TASKS is a file of JSON lines, a CSV file, a
folder of prompts, or - for standard input. The run directory records the run; `resume`
continues it after an interruption, with the same options unless you give others, or after a
pause.

"""

FLAGS = (
    "--approval-mode --policy --allowed-tools --skip-trust --sandbox --include-directories --model "
    "--max-turns --max-tokens --max-seconds --max-cost --service-tier --worktree --fake-responses"
)
"""Flags of a run that may stand before the command."""
_INTERRUPTED = (
    "starting no more tasks; Ctrl-C again ends those that run.",
    "ending the tasks that run; a resume continues them.",
)


def run(argv: list[str]) -> int:
    """Carries out `alhena batch ARGV`; returns the exit code."""
    if not argv or "-h" in argv or "--help" in argv:
        if argv and argv[0] in _COMMANDS:
            write_stdout(subcommand_help(_INTRODUCTION.rstrip(), argv[0]))
        else:
            write_stdout(_INTRODUCTION + _options().format_help().partition("\n\n")[2])
        return 0
    command = _COMMANDS.get(argv[0])
    return _new(argv) if command is None else command(argv[1:])


def _options() -> Parser:
    """The options of a run; None: not given."""
    parser = Parser(prog="alhena batch", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("words", nargs="*", help=argparse.SUPPRESS)
    add("--each-file", metavar="GLOB", help="a task for each file that matches")
    add("--prompt", metavar="TEMPLATE", help="its prompt; {path} is the file's path")
    add("--out", metavar="FILE", help="the results file")
    add("--run-dir", metavar="DIR", help="the run directory (default: the results file and .run)")
    add("--dry-run", action="store_true", help="list tasks and estimate cost; start nothing")
    add("--worktree", action="store_true", default=None, help="each task in its own git worktree")
    add("--format", dest="form", choices=["full", "swebench"], help="the form of the results")
    add(
        "--engine",
        choices=["local", "ray"],
        help="where tasks run: on this machine (default), or on Ray",
    )
    add("--address", metavar="HOST:PORT", help="the Ray cluster (default: one on this machine)")
    add("--workers", type=_count, metavar="N", help="worker processes; 0 (default): none")
    add("--lease", type=amount, metavar="SECONDS", help="lease of a worker on its task (30)")
    add("--concurrency", type=whole, metavar="N", help="tasks at a time (8)")
    add("--rpm", type=whole, metavar="N", help="requests a minute, of all tasks")
    add("--tpm", type=whole, metavar="N", help="tokens a minute, of all tasks")
    add("--total-cost", type=amount, metavar="USD", help="US dollars, of all tasks")
    add("--total-seconds", type=amount, metavar="N", help="seconds, of all tasks")
    add("--max-turns", type=turns, metavar="N", help="model turns of one task")
    add("--max-tokens", type=whole, metavar="N", help="tokens of one task")
    add("--max-seconds", type=amount, metavar="N", help="seconds of one task")
    add("--max-cost", type=amount, metavar="USD", help="US dollars of one task")
    add("-m", "--model", metavar="NAME", help="the model")
    add("--service-tier", choices=["flex", "standard", "priority"], help="the class of service")
    add("--approval-mode", choices=["default", "auto_edit", "yolo", "plan"])
    add("--policy", action="append", metavar="FILE", help="more policies")
    add("--allowed-tools", action="append", metavar="TOOLS", help="tools without approval")
    add("--include-directories", action="append", metavar="DIR", help="more workspace roots")
    add("--skip-trust", action="store_true", default=None, help="trust the folders of the tasks")
    add("-s", "--sandbox", action=argparse.BooleanOptionalAction, help="run commands in a sandbox")
    add("--fake-responses", metavar="FILE", help="answer from recorded responses, each task again")
    add("-d", "--debug", action="store_true", help="show tracebacks")
    return parser


def _count(text: str) -> int:
    return 0 if text == "0" else whole(text)


def _new(argv: list[str]) -> int:
    from alhena.batch.engine import RunConfig
    from alhena.batch.errors import TaskFileError
    from alhena.batch.results import require_new_file
    from alhena.batch.run import new_run, require_new
    from alhena.batch.store import place_of

    found = _options().parse_words(argv)
    if found.out is None:
        raise UsageError("--out is missing.", remedy="Name the results file: --out RESULTS.jsonl.")
    cwd = current_directory()
    try:
        tasks = _tasks(found, cwd)
    except TaskFileError as error:
        for problem in error.problems:
            write_stderr(f"{one_line(problem)}\n")
        raise
    out = cwd / found.out
    config = _with_options(RunConfig(out=str(out), cwd=str(cwd)), found)
    directory = place_of(found.run_dir or f"{found.out}.run", cwd)
    if found.run_dir is None:
        path_within(out.parent, f"{out.name}.run")
    if isinstance(directory, str) and config.engine != "ray":
        raise UsageError("a --run-dir in an object store is for --engine ray.", remedy="Add it.")
    _require_trust(config, {(task.repo, task.cwd, task.approval_mode) for task in tasks})
    if found.dry_run:
        from alhena.batch.preflight import describe_plan, plan_tasks

        write_stdout(describe_plan(asyncio.run(plan_tasks(config, tasks)), config))
        return 0
    from alhena.batch.preflight import require_usable

    require_new(directory)
    require_new_file(out)
    asyncio.run(require_usable(config, tasks))
    with new_run(directory, tasks, config) as queue:
        return _carry_out(queue, config)


def _tasks(found: argparse.Namespace, cwd: Path) -> "list[QueuedTask]":
    from alhena.batch.tasks import each_file, read_tasks

    if found.each_file is not None:
        if found.prompt is None or found.words:
            raise UsageError(
                "--each-file takes a --prompt, and no TASKS.", remedy="See alhena batch --help."
            )
        return each_file(found.each_file, found.prompt, cwd)
    if found.prompt is not None:
        raise UsageError(
            "--prompt is for --each-file: the tasks of a file or folder have prompts of their own.",
            remedy="See alhena batch --help.",
        )
    if len(found.words) != 1:
        raise UsageError("name one source of tasks.", remedy="See alhena batch --help.")
    return read_tasks(found.words[0], sys.stdin.buffer if sys.stdin else None, cwd)


def _with_options(config: "RunConfig", found: argparse.Namespace) -> "RunConfig":
    """The configuration with the options that are given."""
    given = {name: value for name, value in vars(found).items() if value is not None}
    for name, split in (
        ("policy", split_list),
        ("include_directories", split_list),
        ("allowed_tools", split_tools),
    ):
        if name in given:
            given[name] = split(given[name])
    for name in ("out", "fake_responses"):
        if name in given:
            given[name] = str(Path(given[name]).absolute())
    limits = {name.removeprefix("max_"): value for name, value in given.items()}
    given["shared"] = _replace_fields(config.shared, {**given, "paused": False})
    given["limits"] = _replace_fields(config.limits, limits)
    made = _replace_fields(config, given)
    if made.address is not None and made.engine != "ray":
        raise UsageError("--address is for --engine ray.", remedy="Add --engine ray.")
    if made.form == "swebench" and not made.out.endswith(".jsonl"):
        raise UsageError(
            f"the evaluation of SWE-bench does not read {Path(made.out).name}.",
            remedy="Name the results file *.jsonl.",
        )
    return made


def _options_by_name(found: argparse.Namespace) -> dict[str, Any]:
    """The options that are given, by name."""
    return {
        name: value
        for name, value in vars(found).items()
        if value is not None and name not in ("words", "dry_run", "debug")
    }


def _replace_fields(value: T, given: dict[str, Any]) -> T:
    """A struct with those of the values that are fields of it."""
    names = value.__struct_fields__
    return msgspec.structs.replace(value, **{name: given[name] for name in names if name in given})


def _again(argv: list[str], *, failed: bool) -> int:
    from alhena.batch.overview import retry_failed
    from alhena.batch.results import ResultsFile
    from alhena.batch.run import config_of, old_run, require_command
    from alhena.batch.stored_queue import write_changes

    found = _options().parse_words(argv)
    if found.each_file or found.prompt or found.run_dir:
        raise UsageError("the tasks of a run stay the same.", remedy="See alhena batch --help.")
    if found.engine:
        raise UsageError("the engine of a run stays the same.", remedy="Leave out --engine.")
    if found.dry_run:
        raise UsageError("--dry-run is for a new run.", remedy="See alhena batch status DIR.")
    directory = directory_of(found.words)
    if not failed and batch_control.resume_paused(directory, _options_by_name(found)):
        return 0
    with old_run(directory) as queue:
        require_command(queue)
        before = config_of(queue)
        config = _with_options(before, found)
        spec = "json_extract(CAST(spec AS TEXT), ?)"
        places = f"SELECT DISTINCT {spec}, {spec}, {spec} FROM tasks"  # noqa: S608
        _require_trust(config, queue.rows(places, "$.repo", "$.cwd", "$.approval_mode"))
        if config.out != before.out:
            ResultsFile(Path(config.out), config.form).require_own(queue)
        if config != before:
            queue.note("config", msgspec.json.encode(config))
            write_changes(queue)
            for line in _changes(before, config):
                write_stderr(f"alhena: {line}\n")
        if failed:
            number = retry_failed(queue)
            write_changes(queue)
            ResultsFile(Path(config.out), config.form).rewrite(queue)
            write_stderr(f"alhena: {number} tasks run again.\n")
        return _carry_out(queue, config)


def _require_trust(
    config: "RunConfig", places: Iterable[tuple[str | None, str | None, str | None]]
) -> None:
    """`places` are the repositories, directories and modes of the tasks. Raises
    UntrustedFolderError."""
    from alhena.config.effective_settings import open_place
    from alhena.frontends.shared.current_settings import ACTING, require_trust
    from alhena.policy.model import ApprovalMode

    for repository, cwd, given in places:
        mode = ApprovalMode(given or config.approval_mode)
        if mode not in ACTING:
            continue
        folder = Path((repository or "").partition("#")[0] or cwd or config.cwd)
        place = open_place(folder, os.environ, skip_trust=config.skip_trust, env_files=False)
        require_trust(mode, folder, place.trust)


def _changes(before: "RunConfig", after: "RunConfig") -> list[str]:
    """The limits that a resumed run has others of."""
    lines: list[str] = []
    for name in ("shared", "limits"):
        old, new = getattr(before, name), getattr(after, name)
        for field in new.__struct_fields__:
            if field == "paused":
                continue
            was, is_ = getattr(old, field), getattr(new, field)
            if was != is_:
                said = "none" if was is None else f"{was:.12g}"
                lines.append(f"{field.replace('_', '-')} is {is_:.12g} now, it was {said}.")
    return lines


def _carry_out(queue: "Queue", config: "RunConfig") -> int:
    import logging

    from alhena.batch.progress import RunProgress
    from alhena.batch.run import RunDriver

    logging.getLogger("alhena").addHandler(logging.NullHandler())  # progress is told here alone
    engine = _engine(queue, config)
    progress = RunProgress(queue, write_stderr, at_terminal=is_terminal(sys.stderr))
    head = RunDriver(queue, config, engine, progress.feed)

    async def work() -> int:
        loop = asyncio.get_running_loop()
        said = iter(_INTERRUPTED)

        def interrupt(*, at_once: bool) -> None:
            head.interrupt(at_once=at_once)
            if not at_once and (line := next(said, None)) is not None:
                write_stderr(f"\nalhena: {line}\n")

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                at_once = number != signal.SIGINT
                loop.add_signal_handler(number, partial(interrupt, at_once=at_once))
        ended = await head.carry_out()
        return 1 if ended.failed or ended.cancelled else 0

    try:
        return asyncio.run(work())
    finally:
        progress.finish()


def _engine(queue: "Queue", config: "RunConfig") -> "Engine":
    from alhena.batch.stored_queue import StoredQueue

    if isinstance(queue, StoredQueue):
        from alhena.batch.ray.engine import RayEngine

        return RayEngine(queue, config)
    from alhena.batch.local import LocalEngine

    return LocalEngine(queue, config)


def _show(argv: list[str]) -> int:
    options = parse_arguments("alhena batch show", argv, "DIR ID")
    with open_for_reading(directory_of([options.dir])) as queue:
        query = "SELECT spec, state, attempts, result FROM tasks WHERE id = ?"
        found = queue.rows(query, options.id)
    if not found:
        raise UsageError(f"no task has the id {options.id!r}.", remedy="Check the id.")
    spec, state, attempts, result = found[0]
    write_json(
        {
            "task": msgspec.json.decode(spec),
            "state": state,
            "attempts": attempts,
            "result": None if result is None else msgspec.json.decode(result),
        }
    )
    return 0


def _report(argv: list[str]) -> int:
    from alhena.batch.reports.report import as_text, report_of

    options = parse_arguments("alhena batch report", argv, "DIR --html=FILE")
    with open_for_reading(directory_of([options.dir])) as queue:
        found = report_of(queue)
        write_stdout(as_text(found))
        if options.html is not None:
            _write_page(queue, found, Path(options.html))
    return 0


def _write_page(queue: "Queue", found: "RunReport", page: Path) -> None:
    from alhena.batch.reports.page import write_page
    from alhena.frontends.shared.current_settings import place_here
    from alhena.frontends.shared.files import has_mark
    from alhena.models.prices import Prices
    from alhena.telemetry.records import Redaction

    if page.is_file() and page.stat().st_size and not has_mark(page, b"<!doctype html>"):
        raise InputError(f"{page} exists, and is no page.", remedy="Name another file.")
    place = place_here(told=False)
    prices = Prices(place.settings.model.prices)
    try:
        write_page(queue, found, page, prices, Redaction(place.environ))
    except OSError as error:
        raise InputError(
            f"cannot write {page}: {error.strerror}.", remedy="Name another file."
        ) from error


def _diff(argv: list[str]) -> int:
    from alhena.batch.reports.comparison import compare_runs, describe_comparison, read_results

    options = parse_arguments("alhena batch diff", argv, "A B --json")
    one, other = (read_results(each, current_directory()) for each in (options.a, options.b))
    found = compare_runs(one, other)
    if options.json:
        write_json(found)
    else:
        write_stdout(describe_comparison(found))
    return 0


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "status": batch_control.show_status,
    "cancel": batch_control.cancel,
    "pause": batch_control.pause,
    "limits": batch_control.change_limits,
    "tail": batch_control.follow_task,
    "show": _show,
    "report": _report,
    "diff": _diff,
    "resume": partial(_again, failed=False),
    "retry-failed": partial(_again, failed=True),
}
