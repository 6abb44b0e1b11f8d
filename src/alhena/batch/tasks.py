"""Tasks: reading them from JSON lines, CSV files, folders of prompts and patterns of files."""

import csv
import glob
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

import msgspec

from alhena.batch.errors import TaskFileError
from alhena.values import Limits

MAX_PROBLEMS = 20
"""Most problems that one message lists."""
_JSON_COLUMNS = ("limits", "output_schema", "env")
_OTHER_NAMES = {"serviceTier": "service_tier"}


class QueuedTask(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
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


Numbered = tuple[str, object]
"""A place, such as `tasks.jsonl:3`, and the fields of a task there."""


def read_tasks(source: str, stdin: BinaryIO | None, cwd: Path) -> list[QueuedTask]:
    """The tasks of a JSON lines file, a CSV file, a folder of prompts, or of `-`, standard input.
    Raises TaskFileError."""
    try:
        if source == "-":
            if stdin is None:
                raise TaskFileError("standard input is closed.", remedy="Pipe the tasks in.")
            return check_tasks(_json_lines("-", stdin), cwd)
        path = cwd / source
        if path.is_dir():
            return check_tasks(_folder(path), cwd)
        with path.open("rb") as file:
            if path.suffix.lower() == ".csv":
                return check_tasks(_csv(source, file), cwd)
            return check_tasks(_json_lines(source, file), cwd)
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


def check_tasks(numbered: Iterable[Numbered], cwd: Path) -> list[QueuedTask]:
    """The tasks, directories absolute, ids unique. Raises TaskFileError with all problems."""
    tasks: list[QueuedTask] = []
    problems: list[str] = []
    places: dict[str, str] = {}
    for place, fields in numbered:
        problem, task = _task(fields, cwd, places)
        if problem is None and task is not None:
            earlier = places.setdefault(task.id, place)
            if earlier is place:
                tasks.append(task)
                continue
            problem = f"id: {task.id!r} is the id of {earlier} already"
        problems.append(f"{place}: {problem}")
        if len(problems) > MAX_PROBLEMS:
            problems[-1] = "more problems follow"
            break
    if problems:
        error = TaskFileError(
            f"{len(problems)} unusable task(s), the first: {problems[0]}.",
            remedy="Nothing was started.",
        )
        error.problems = tuple(problems)
        raise error
    if not tasks:
        raise TaskFileError("there are no tasks.", remedy="Give one JSON object a line.")
    return tasks


def _task(
    fields: object, cwd: Path, places: Mapping[str, str]
) -> tuple[str | None, QueuedTask | None]:
    """A task, or the problem with it."""
    if isinstance(fields, str):
        return fields, None
    if not isinstance(fields, Mapping):
        return f"expected an object, got {type(fields).__name__}", None
    given = {
        _OTHER_NAMES.get(str(name), str(name)): value
        for name, value in cast("Mapping[Any, Any]", fields).items()
        if value is not None
    }
    for name in given:
        if name not in QueuedTask.__struct_fields__:
            return f"{name}: unknown field", None
    if "id" not in given:
        given["id"] = content_id(given, places)
    for name in ("cwd", "repo"):
        if isinstance(given.get(name), str):
            given[name] = os.path.normpath(cwd / os.path.expanduser(given[name]))
    try:
        task = msgspec.convert(given, QueuedTask)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`").lstrip(".")
        if "missing required field" in text:
            return f"{text.split('`')[1]}: missing", None
        return f"{path or 'task'}: {text[:1].lower()}{text[1:]}", None
    return _unusable(task), task


def _unusable(task: QueuedTask) -> str | None:
    """The problem with the directories of a task."""
    if task.repo is not None:
        path = task.repo.partition("#")[0]
        return None if os.path.isdir(path) else f"repo: there is no directory {path}"
    if task.cwd is not None and not os.path.isdir(task.cwd):
        return f"cwd: there is no directory {task.cwd}"
    return None


def content_id(given: Mapping[str, Any], places: Mapping[str, str]) -> str:
    """An id made of the content; equal tasks are numbered."""
    data = msgspec.json.encode(given, order="sorted")
    made = base = hashlib.sha256(data).hexdigest()[:12]
    number = 2
    while made in places:
        made, number = f"{base}-{number}", number + 1
    return made


def _json_lines(name: str, file: BinaryIO) -> Iterator[Numbered]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        place = f"{name}:{number}"
        try:
            yield place, msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            yield place, f"not JSON: {error}"


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
