"""Tasks: reading them from JSON lines, CSV files, folders of prompts and patterns of files."""

import csv
import glob
import hashlib
import io
import os
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

import msgspec

from alhena.batch.errors import TaskFileError
from alhena.errors import InputError
from alhena.models.catalogue import model_name_problem
from alhena.near_names import near_name
from alhena.tools.params import schema_problem
from alhena.values import Limits
from alhena.wire.json_values import scrub

MAX_PROBLEMS = 1_000
"""Most problems that are listed; the rest is counted."""
_JSON_COLUMNS = ("limits", "output_schema", "env")
_NAME = "id: the file's name is not UTF-8"
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


Numbered = tuple[int, object]
"""The number of a line or of a file, and the fields of a task there."""
_FIELDS = frozenset(QueuedTask.__struct_fields__)
_PLAIN = {"id", "prompt"}


def read_tasks(source: str, stdin: BinaryIO | None, cwd: Path) -> list[QueuedTask]:
    """The tasks of a JSON lines file, a CSV file, a folder of prompts, or of `-`, standard input.
    Raises TaskFileError."""
    try:
        if source == "-":
            if stdin is None:
                raise TaskFileError("standard input is closed.", remedy="Pipe the tasks in.")
            return check_tasks(_json_lines(stdin), cwd, "-:{}".format)
        path = cwd / source
        if path.is_dir():
            files = sorted(
                each for each in path.iterdir() if each.is_file() and each.name[0] != "."
            )
            return check_tasks(_prompts(files), cwd, lambda number: str(files[number]))
        with path.open("rb") as file:
            read = _csv if path.suffix.lower() == ".csv" else _json_lines
            return check_tasks(read(file), cwd, lambda number: f"{source}:{number}")
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
    prompts = (
        {"id": name, "prompt": template.replace("{path}", name)} if _is_utf8(name) else _NAME
        for name in names
    )
    return check_tasks(enumerate(prompts), cwd, names.__getitem__)


def check_given_tasks(tasks: Iterable[str | Mapping[str, Any]], cwd: Path) -> list[QueuedTask]:
    """The tasks of a program: prompts, or mappings of fields. Raises TaskFileError."""
    return check_tasks(enumerate(map(_scrub_fields, tasks)), cwd, "tasks[{}]".format)


def _scrub_fields(task: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a program's task; its prompt as it is sent, without lone surrogates."""
    fields = {"prompt": task} if isinstance(task, str) else task
    prompt = fields.get("prompt")
    return {**fields, "prompt": scrub(prompt)} if isinstance(prompt, str) else fields


class _KnownIds:
    """Ids with the numbers of their tasks: 8 bytes each, for there may be a million."""

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self._numbers = array("Q")
        self._positions: dict[str, int] = {}

    def add(self, task_id: str, number: int) -> int | None:
        """Adds an id; returns the number of the task that has it already."""
        if task_id not in self.ids:
            self.ids[task_id] = None
            if self._positions:
                self._positions[task_id] = len(self._numbers)
            self._numbers.append(number)
            return None
        if not self._positions:
            self._positions = {each: at for at, each in enumerate(self.ids)}
        return self._numbers[self._positions[task_id]]


def check_tasks(
    numbered: Iterable[Numbered], cwd: Path, describe: Callable[[int], str]
) -> list[QueuedTask]:
    """The tasks, directories absolute, ids unique. `describe` makes a place, such as `tasks.csv:3`,
    of a number. Raises TaskFileError with all problems."""
    tasks: list[QueuedTask] = []
    problems: list[str] = []
    known = _KnownIds()
    check = TaskCheck(cwd)
    unusable = 0
    for number, fields in numbered:
        found, task = check.read(fields, known.ids)
        if task is not None:
            earlier = known.add(task.id, number)
            if earlier is not None:
                found = [*found, f"id: {task.id!r} is the id of {describe(earlier)} already"]
            elif not found:
                tasks.append(task)
        unusable += bool(found)
        if found:
            problems += (f"{describe(number)}: {each}" for each in found)
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

    def read(self, fields: object, known: Collection[str]) -> tuple[list[str], QueuedTask | None]:
        """The problems of a task, each beginning with its field, and the task, if it is one.
        `known` are the ids so far."""
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
            names = Limits.__struct_fields__
            problems += _unknown_fields(limits, names, "limits.")
            given["limits"] = {name: limits[name] for name in limits if name in names}
        if "id" not in given:
            given["id"] = content_id(given, known)
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
            what = "is not a directory" if os.path.exists(task.cwd) else "does not exist"
            yield f"cwd: {task.cwd} {what}"
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
            near = near_name(name, known)
            meant = f" (did you mean {near}?)" if near else ""
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
                if "matching regex" in text:
                    text = "has control characters" if name == "id" else "is empty"
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


def content_id(given: Mapping[str, Any], known: Collection[str]) -> str:
    """An id made of the content; equal tasks are numbered."""
    data = msgspec.json.encode(given, order="sorted")
    made = base = hashlib.sha256(data).hexdigest()[:12]
    number = 2
    while made in known:
        made, number = f"{base}-{number}", number + 1
    return made


def _json_lines(file: BinaryIO) -> Iterator[Numbered]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield number, f"not JSON: {error}"
        else:
            yield number, "expected an object, got str" if isinstance(value, str) else value


def _csv(file: BinaryIO) -> Iterator[Numbered]:
    csv.field_size_limit(sys.maxsize)  # prompts may be longer than the default of 131,072
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    reader = csv.DictReader(text, strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = names
        twice = [name for name, number in Counter(names).items() if name and number > 1]
        if twice:
            yield 1, f"{twice[0]}: several columns have this name"
            return
        for row in reader:
            if None in row or None in row.values():
                yield reader.line_num, "another number of columns than the first line has"
                continue
            yield reader.line_num, _cells(row)
    except csv.Error as error:
        yield reader.reader.line_num, f"not CSV: {error}"
    except UnicodeDecodeError as error:
        yield _find_undecodable_line(file), f"not CSV in UTF-8: {error.reason}"
    finally:
        text.detach()


def _find_undecodable_line(file: BinaryIO) -> int:
    """The number of the first line of a file that is not UTF-8: its text is decoded in blocks, not
    in lines."""
    file.seek(0)
    for number, line in enumerate(file, 1):
        try:
            line.decode()
        except UnicodeDecodeError:
            return number
    return 0


def _cells(row: Mapping[str, str]) -> object:
    fields: dict[str, Any] = {}
    for name, value in row.items():
        if not value.strip() and name != "prompt":
            continue
        fields[name] = value
        if name in _JSON_COLUMNS:
            try:
                fields[name] = msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError) as error:
                return f"{name}: not JSON: {error}"
    return fields


def _is_utf8(name: str) -> bool:
    """False for the name of a file with bytes that are not UTF-8: it cannot be sent or stored."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _prompts(files: Iterable[Path]) -> Iterator[Numbered]:
    for number, file in enumerate(files):
        if not _is_utf8(file.name):
            yield number, _NAME
            continue
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            yield number, f"prompt: not UTF-8: {error}"
            continue
        yield number, {"id": file.stem, "prompt": text}
