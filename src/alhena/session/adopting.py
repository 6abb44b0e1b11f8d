"""The owners of sessions and checkpoints, and a moved project that takes its own along."""

import os
import shutil
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

_KEPT = ("sessions", "checkpoints", "tags", "chats")
MEMORY_FOLDER = "memory"
_REMEDY = (
    "Delete one of the two (sessions: alhena sessions delete SESSION; saved conversations: "
    "/chat delete NAME in the terminal), or move it away."
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
    `project`, with every path as it was, beside what is kept of that already. Raises SessionError,
    ConfigError."""
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
        _require_different_names(own, old)
        hand_over(old, former, project, partial(_put_aside, environ, own, old))
        return
    if old not in namesakes(environ, project).values():
        link_namesake(environ, project, old)
    hand_over(old, former, project)


def _put_aside(environ: Mapping[str, str], own: Path, old: Path) -> None:
    """Moves what is kept in a project's directory, and in its shadow history, into the one that
    takes its place, where a running session continues. Calls them by names that no project is given
    then: what is left in them is of no other. Raises OSError, FileError."""
    history = project_history(environ, own)
    number = next(
        each
        for each in count(1)
        if not (os.path.lexists(f"{own}.{each}") or os.path.lexists(f"{history}.{each}"))
    )
    link = Path(f"{own}.{number}.link")
    link.unlink(missing_ok=True)
    link.symlink_to(old.name)  # where there are no links, nothing has changed
    _merge(own, old, (PROMPT_HISTORY, MEMORY_FOLDER))
    if os.path.isdir(history):
        _merge(history, project_history(environ, old))
    for each in former_roots(own):
        note_former_root(old, each)
    own.rename(f"{own}.{number}")
    link.rename(own)
    with suppress(FileNotFoundError):
        history.rename(f"{history}.{number}")


def _merge(source: Path, target: Path, joined: tuple[str, ...] = ()) -> None:
    """Moves what is in a directory into another. A file that both have is appended if its name, or
    that of its folder, is in `joined`, else it stays, as do names that begin with a dot, except
    git's directory. Raises OSError, FileError."""
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in sorted(os.listdir(source), key=lambda name: (name not in joined, name)):
        moved, place = source / name, target / name
        if name.startswith(".") and name != ".git":
            continue
        if name == PROMPT_HISTORY in joined:
            _append(moved, place)
        elif not os.path.lexists(place):
            shutil.move(moved, place)
        elif _is_folder(moved) and _is_folder(place):
            _merge(moved, place, ("",) if name in joined else ())
        elif "" in joined:
            _append(moved, place)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _append(source: Path, target: Path) -> None:
    with open(open_regular(source), "rb") as file:
        written = file.read()
    with open(os.open(target, _APPEND, 0o600), "ab") as file:
        file.write(b"\n" + written)  # the end of what stands there may be cut off
    source.unlink()


def _require_different_names(own: Path, old: Path) -> None:
    """Raises SessionError when both directories of a project have something of the same name."""
    for name in _KEPT:
        with suppress(FileNotFoundError):
            for each in os.listdir(own / name):
                if not each.startswith(".") and os.path.lexists(old / name / each):
                    raise SessionError(
                        f"both folders have a {printable(name)}/{printable(each)}, here in "
                        f"{printable(own / name)}.",
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
