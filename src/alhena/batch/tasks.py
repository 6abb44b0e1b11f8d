"""Tasks: reading them from JSON lines, CSV files, folders of prompts and patterns of files."""

import csv
import glob
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

import msgspec

from alhena.batch.errors import TaskFileError
from alhena.errors import InputError
from alhena.models.catalogue import model_name_problem
from alhena.tools.params import schema_problem
from alhena.values import Limits

MAX_PROBLEMS = 1_000
"""Most problems that are listed; the rest is counted."""
_JSON_COLUMNS = ("limits", "output_schema", "env")
_OTHER_NAMES = {"serviceTier": "service_tier"}


class QueuedTask(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """A task. `repo` is a git repository (`PATH` or `PATH#COMMIT`) of which the task gets a
    worktree; `cwd` is its directory, in the worktree if there is one. `env` are further variables.
    What is None is as the command says."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
    prompt: Annotated[str, msgspec.Meta(pattern=r"\S")]
    cwd: str | None = None
    repo: str | None = None
    model: Annotated[str, msgspec.Meta(pattern=r"\S")] | None = None
    service_tier: Literal["flex", "standard", "priority"] | None = None
    approval_mode: Literal["default", "auto_edit", "yolo", "plan"] | None = None
    limits: Limits | None = None
    output_schema: dict[str, Any] | None = None
    env: dict[str, str] | None = None

    @property
    def key(self) -> str:
        """Name of the task's folder: a digest of its id."""
        return key_of(self.id)


def key_of(task_id: str) -> str:
    """Name of the folder of the task with this id."""
    return hashlib.sha256(task_id.encode("utf-8", "surrogatepass")).hexdigest()[:20]


Numbered = tuple[str | int, object]
"""A place, such as `tasks.csv:3` or the number of a line, and the fields of a task there."""
_FIELDS = frozenset(QueuedTask.__struct_fields__)
_PLAIN = {"id", "prompt"}


def read_tasks(source: str, stdin: BinaryIO | None, cwd: Path) -> list[QueuedTask]:
    """The tasks of a JSON lines file, a CSV file, a folder of prompts, or of `-`, standard input.
    Raises TaskFileError."""
    try:
        if source == "-":
            if stdin is None:
                raise TaskFileError("standard input is closed.", remedy="Pipe the tasks in.")
            return check_tasks(_json_lines(stdin), cwd, "-")
        path = cwd / source
        if path.is_dir():
            return check_tasks(_folder(path), cwd)
        with path.open("rb") as file:
            if path.suffix.lower() == ".csv":
                return check_tasks(_csv(source, file), cwd)
            return check_tasks(_json_lines(file), cwd, source)
    except OSError as error:
        raise TaskFileError(
            f"cannot read the tasks of {source}: {error.strerror or error}.",
            remedy="Name a file of JSON lines, a CSV file or a folder of prompts.",
        ) from error


def each_file(pattern: str, template: str, cwd: Path) -> list[QueuedTask]:
    """A task for each file of a pattern (`**` is any depth): the template with its path in the
    place of `{path}`. Raises TaskFileError."""
    if "{path}" not in template:
        raise TaskFileError(
            "--prompt has no {path} in it.", remedy="Write {path} where the file's path belongs."
        )
    names = sorted(
        name
        for name in glob.glob(pattern, root_dir=cwd, recursive=True)
        if os.path.isfile(cwd / name)
    )
    if not names:
        raise TaskFileError(f"no file matches {pattern!r}.", remedy="Check the pattern.")
    prompts = ({"id": name, "prompt": template.replace("{path}", name)} for name in names)
    return check_tasks(((name, fields) for name, fields in zip(names, prompts, strict=True)), cwd)


def check_given_tasks(tasks: Iterable[str | Mapping[str, Any]], cwd: Path) -> list[QueuedTask]:
    """The tasks of a program: prompts, or mappings of fields. Raises TaskFileError."""
    given = (
        (f"tasks[{index}]", {"prompt": task} if isinstance(task, str) else task)
        for index, task in enumerate(tasks)
    )
    return check_tasks(given, cwd)


def check_tasks(numbered: Iterable[Numbered], cwd: Path, source: str = "") -> list[QueuedTask]:
    """The tasks, directories absolute, ids unique. `source` is the file whose lines have numbers.
    Raises TaskFileError with all problems."""

    def describe(place: str | int) -> str:
        return place if isinstance(place, str) else f"{source}:{place}"

    tasks: list[QueuedTask] = []
    problems: list[str] = []
    places: dict[str, str | int] = {}
    check = TaskCheck(cwd)
    unusable = 0
    for place, fields in numbered:
        found, task = check.read(fields, places)
        if task is not None:
            earlier = places.setdefault(task.id, place)
            if earlier is not place:
                found = [*found, f"id: {task.id!r} is the id of {describe(earlier)} already"]
            elif not found:
                tasks.append(task)
        unusable += bool(found)
        if found:
            problems += (f"{describe(place)}: {each}" for each in found)
    if problems:
        error = TaskFileError(
            f"{unusable} unusable task(s), the first: {problems[0]}.",
            remedy="Nothing was started.",
        )
        more = len(problems) - MAX_PROBLEMS
        last = (f"{more:,} more problems follow",) if more > 0 else ()
        error.problems = (*problems[:MAX_PROBLEMS], *last)
        raise error
    if not tasks:
        raise TaskFileError("there are no tasks.", remedy="Give one JSON object a line.")
    return tasks


class TaskCheck:
    """Reads tasks, and finds everything that would make them fail before their first request. Equal
    schemas and repositories are looked at once."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._schemas: dict[bytes, str | None] = {}
        self._repositories: dict[str, str | None] = {}

    def read(
        self, fields: object, places: Mapping[str, object]
    ) -> tuple[list[str], QueuedTask | None]:
        """The problems of a task, each beginning with its field, and the task, if it is one.
        `places` has the ids so far."""
        if isinstance(fields, dict) and fields.keys() == _PLAIN:  # most of a long file
            with suppress(msgspec.ValidationError):
                return [], msgspec.convert(fields, QueuedTask)
        if isinstance(fields, str):
            return [fields], None
        if not isinstance(fields, Mapping):
            return [f"expected an object, got {type(fields).__name__}"], None
        named = {
            _OTHER_NAMES.get(str(name), str(name)): value
            for name, value in cast("Mapping[Any, Any]", fields).items()
            if value is not None
        }
        problems: list[str] = []
        given = named
        if not named.keys() <= _FIELDS:
            problems += _unknown_fields(named, QueuedTask.__struct_fields__)
            given = {name: named[name] for name in named if name in _FIELDS}
        if isinstance(limits := given.get("limits"), Mapping):
            limits = cast("Mapping[str, Any]", limits)
            known = Limits.__struct_fields__
            problems += _unknown_fields(limits, known, "limits.")
            given["limits"] = {name: limits[name] for name in limits if name in known}
        if "id" not in given:
            given["id"] = content_id(given, places)
        for name in ("cwd", "repo"):
            if isinstance(given.get(name), str):
                given[name] = os.path.normpath(self._cwd / os.path.expanduser(given[name]))
        try:
            task = msgspec.convert(given, QueuedTask)
        except msgspec.ValidationError:
            problems += _take_invalid_fields(given)
            rest = msgspec.convert({"id": "-", "prompt": "-", **given}, QueuedTask)
            return [*problems, *self._find_unusable(rest)], None
        return [*problems, *self._find_unusable(task)], task

    def _find_unusable(self, task: QueuedTask) -> Iterator[str]:
        """Values of the right type that cannot be used."""
        if task.repo is not None:
            if task.repo not in self._repositories:
                self._repositories[task.repo] = _repository_problem(task.repo)
            problem = self._repositories[task.repo]
            if problem is not None:
                yield f"repo: {problem}"
        elif task.cwd is not None and not os.path.isdir(task.cwd):
            yield f"cwd: there is no directory {task.cwd}"
        problem = None if task.model is None else model_name_problem(task.model)
        if problem is not None:
            yield f"model: {problem}"
        if task.output_schema is not None:
            key = msgspec.json.encode(task.output_schema)
            if key not in self._schemas:
                self._schemas[key] = schema_problem(task.output_schema)
            problem = self._schemas[key]
            if problem is not None:
                yield f"output_schema: {problem}"
        for name, value in (task.env or {}).items():
            if not name or "=" in name or "\0" in name + value:
                yield f"env: {name!r} cannot be an environment variable with that value"


def _unknown_fields(
    given: Mapping[str, Any], known: tuple[str, ...], before: str = ""
) -> Iterator[str]:
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f" (did you mean {near[0]}?)" if near else ""
            yield f"{before}{name}: unknown field{meant}"


def _take_invalid_fields(given: dict[str, Any]) -> Iterator[str]:
    """Removes the fields whose values have the wrong type or form, each looked at alone."""
    if "prompt" not in given:
        yield "prompt: missing"
    for name, value in tuple(given.items()):
        split = name in ("limits", "env") and isinstance(value, Mapping)
        parts = cast("Mapping[str, Any]", value if split else {"": value})
        for inner, each in parts.items():
            try:
                tried = {"id": "-", "prompt": "-", name: {inner: each} if split else each}
                msgspec.convert(tried, QueuedTask)
            except msgspec.ValidationError as error:
                text = str(error).partition(" - at `$")[0]
                field = f"{name}.{inner}" if split else name
                yield f"{field}: {text[:1].lower()}{text[1:]}"
                given.pop(name, None)


def _repository_problem(repo: str) -> str | None:
    """The reason why no worktree can be made of `PATH` or `PATH#COMMIT`."""
    from alhena.agent.subagents.worktree import run_git

    path, _, commit = repo.partition("#")
    if not os.path.isdir(path):
        return f"there is no directory {path}"
    try:
        run_git(Path(path), os.environ, "rev-parse", "--git-dir")
    except InputError:
        return f"{path} is no git repository, or git is not installed"
    try:
        wanted = f"{commit or 'HEAD'}^{{commit}}"
        run_git(Path(path), os.environ, "rev-parse", "--quiet", "--verify", wanted)
    except InputError:
        return f"{path} has no commit {commit}" if commit else f"{path} has no commit yet"
    return None


def content_id(given: Mapping[str, Any], places: Mapping[str, object]) -> str:
    """An id made of the content; equal tasks are numbered."""
    data = msgspec.json.encode(given, order="sorted")
    made = base = hashlib.sha256(data).hexdigest()[:12]
    number = 2
    while made in places:
        made, number = f"{base}-{number}", number + 1
    return made


def _json_lines(file: BinaryIO) -> Iterator[Numbered]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            yield number, msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield number, f"not JSON: {error}"


def _csv(name: str, file: BinaryIO) -> Iterator[Numbered]:
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        reader = csv.DictReader(text, strict=True)
        for row in reader:
            place = f"{name}:{reader.line_num}"
            if None in row or None in row.values():
                yield place, "another number of columns than the first line has"
                continue
            yield place, _cells(row)
    except (csv.Error, UnicodeDecodeError) as error:
        yield name, f"not CSV in UTF-8: {error}"
    finally:
        text.detach()


def _cells(row: Mapping[str, str]) -> object:
    fields: dict[str, Any] = {}
    for name, value in row.items():
        if not value.strip() and name != "prompt":
            continue
        fields[name] = value
        if name in _JSON_COLUMNS:
            try:
                fields[name] = msgspec.json.decode(value)
            except msgspec.DecodeError as error:
                return f"{name}: not JSON: {error}"
    return fields


def _folder(path: Path) -> Iterator[Numbered]:
    files = sorted(each for each in path.iterdir() if each.is_file() and each.name[0] != ".")
    for file in files:
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            yield str(file), f"prompt: not UTF-8: {error}"
            continue
        yield str(file), {"id": file.stem, "prompt": text}
