"""The owners of sessions and checkpoints, and a moved project that takes its own along."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.config.home import (
    PROMPT_HISTORY,
    claimed_project_temp,
    former_roots,
    hand_over,
    link_namesake,
    namesakes,
    note_former_root,
    project_history,
    project_of,
    project_temp,
    real_temp,
    root_of,
    temps,
)
from alhena.session.records import (
    SUFFIX,
    ForeignError,
    NoSessionError,
    SessionError,
    is_session_id,
    session_of,
)
from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import open_regular
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.session.checkpoints.records import Checkpoint

_KEPT = ("sessions", "checkpoints", "memory", "tags", "chats")
_REMEDY = (
    "Delete it first (sessions: alhena sessions delete SESSION; saved conversations: /chat delete "
    "NAME in the terminal), or move it away."
)
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def find_missing_projects(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The folders that are not there any more, or are a link now, and of which sessions are kept;
    that of the last one first."""
    found: list[tuple[float, str]] = []
    for temp, root in _roots(environ):
        journals = _journals(temp)
        if journals and (not os.path.isdir(root) or os.path.realpath(root) != root):
            found.append((max(_last_use(each) for each in journals), root))
    return tuple(root for _, root in sorted(found, reverse=True))


def adopt(environ: Mapping[str, str], project: Path, former: str) -> None:
    """Has what is kept of the project that was in the folder `former` be that of the one in
    `project`, with every path as it was. Raises SessionError, ConfigError."""
    former = os.path.abspath(former)
    left_link = os.path.realpath(former) == os.path.realpath(project) and former != str(project)
    if os.path.isdir(former) and not left_link:
        raise SessionError(
            f"{printable(former)} is still there: what is kept of it belongs to that folder.",
            remedy="Change to it, and continue there.",
        )
    try:
        _adopt(environ, project, former)
    except OSError as error:
        path = error.filename or project_temp(environ, project)
        raise SessionError(str(from_os_error(error, path, writing=True))) from error
    except FileError as error:
        raise SessionError(str(error)) from error


def _adopt(environ: Mapping[str, str], project: Path, former: str) -> None:
    own = project_temp(environ, project)
    old = next((temp for temp, root in _roots(environ) if root == former), None)
    if old is None:
        if former not in map(project_of, _journals(own)):
            raise NoSessionError(
                f"nothing is stored of the folder {printable(former)}.",
                remedy="Name the folder as it was, with its whole path.",
            )
        note_former_root(claimed_project_temp(environ, project), former)
        return
    if root_of(own) == str(project):
        _require_nothing(own)
        hand_over(old, former, project, partial(_put_aside, environ, own, old))
        return
    if old not in namesakes(environ, project).values():
        link_namesake(environ, project, old)
    hand_over(old, former, project)


def _put_aside(environ: Mapping[str, str], own: Path, old: Path) -> None:
    """Calls a project's directory, and its shadow history, by names that no project is given: what
    is left in them is of no other. What was typed goes along, and a running session there continues
    in the one that takes its place. Raises OSError, FileError."""
    _take_prompts(own, old)
    history = project_history(environ, own)
    number = next(
        each
        for each in count(1)
        if not (os.path.lexists(f"{own}.{each}") or os.path.lexists(f"{history}.{each}"))
    )
    aside = own.rename(f"{own}.{number}")
    try:
        own.symlink_to(old.name)
    except OSError:
        aside.rename(own)
        raise
    with suppress(FileNotFoundError):
        history.rename(f"{history}.{number}")


def _take_prompts(own: Path, old: Path) -> None:
    if not os.path.lexists(own / PROMPT_HISTORY):
        return
    with open(open_regular(own / PROMPT_HISTORY), "rb") as file:
        typed = file.read()
    with open(os.open(old / PROMPT_HISTORY, _APPEND, 0o600), "ab") as file:
        file.write(b"\n" + typed)  # of what stands there, the end may be cut off


def _require_nothing(own: Path) -> None:
    """Raises SessionError when something is kept of a project that it would not have any more."""
    for name in _KEPT:
        with suppress(FileNotFoundError):
            if any(not each.startswith(".") for each in os.listdir(own / name)):
                raise SessionError(
                    f"this project has something of its own in {printable(own / name)}.",
                    remedy=_REMEDY,
                )


def _roots(environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """The temporary directories of projects, with their folders."""
    base = temps(environ)
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(base)):
            temp = base / name
            if "." in name or real_temp(temp) != temp:  # put aside, or another name of one
                continue
            root = root_of(temp)
            if root:
                yield temp, root


def _journals(temp: Path) -> list[Path]:
    with suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(temp / "sessions")
        return [temp / "sessions" / name for name in names if session_of(name) is not None]
    return []


def _last_use(path: Path) -> float:
    try:
        return path.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0


class Ownership:
    """Tells what belongs to the project at `project`, whose temporary directory is `temp`."""

    def __init__(self, environ: Mapping[str, str], temp: Path, project: Path) -> None:
        self._environ = environ
        self._temp = temp
        self._project = project

    def has(self, said: str) -> bool:
        """True when what says that it is of the project `said` belongs to this one: it is the same
        folder, or one that this project was in before. What says nothing does."""
        if said in ("", scrub(str(self._project))):
            return True
        if os.path.realpath(said) == os.path.realpath(self._project):
            return True
        return said in map(scrub, former_roots(self._temp))

    def checkpoint_project(self, checkpoint: "Checkpoint") -> str:
        """The project that a checkpoint says it is of, itself or by its session's record; ""."""
        session_id = checkpoint.session_id
        if checkpoint.project or not is_session_id(session_id):
            return checkpoint.project
        return project_of(self._temp / "sessions" / f"{session_id}{SUFFIX}")

    def split_by_project(
        self, checkpoints: "Iterable[tuple[str, Checkpoint]]"
    ) -> "tuple[tuple[tuple[str, Checkpoint], ...], tuple[tuple[str, str], ...]]":
        """Those that belong to the project; and the names of the others, with whose they are."""
        own: list[tuple[str, Checkpoint]] = []
        foreign: list[tuple[str, str]] = []
        for name, checkpoint in checkpoints:
            said = self.checkpoint_project(checkpoint)
            if self.has(said):
                own.append((name, checkpoint))
            else:
                foreign.append((name, said))
        return tuple(own), tuple(foreign)

    def require(self, said: str, what: str) -> None:
        """Raises ForeignError unless `what` belongs to the project."""
        if self.has(said):
            return
        folder = printable(said)
        remedy = f"Use it in that folder; if that was moved here: alhena sessions adopt {folder}."
        raise ForeignError(f"{what} is of another project: {folder}.", remedy=remedy)
