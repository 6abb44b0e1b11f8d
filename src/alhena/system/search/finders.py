"""Runs ripgrep and git grep to list files that may match.

A search needs little of a shell command's features: no live output, no kept groups. It needs a fast
start, immediate stop, and no leftovers.

Neither program matches the pattern itself (see `literals`), neither reads user or repository
configuration that could run programs, and a failure is not an error: the search then reads all
files.
"""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self

from alhena.system.environment import child_environment, shield_memory
from alhena.system.errors import ProcessStartError
from alhena.system.processes import Idle
from alhena.system.search.files import (
    TIME_LIMIT,
    Ahead,
    PythonSearch,
    Query,
    SearchBackend,
    SearchResult,
    search_files,
)
from alhena.system.search.lines import Deadline
from alhena.system.search.literals import ESCAPED, RAW, literal_source
from alhena.system.walk import EXCLUDED_DIRECTORIES

_MATCHES, _NO_MATCH = 0, 1
_CHUNK = 1 << 16
_STEP = 0.05
"""Seconds between checks for a stop."""


class Listing:
    """A running program; leaving the context kills it with its process tree.

    `environment` is its complete environment. A program that cannot be started has no output.
    `mark`, if given, is searched in its stderr; `marked` is True once it was found.
    """

    def __init__(
        self,
        argv: tuple[str | bytes, ...],
        directory: str,
        environment: dict[str, str],
        *,
        mark: bytes | None = None,
    ) -> None:
        self._mark = mark
        self.marked = False
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError, ValueError, ProcessStartError):
            shield_memory()
            self._process = subprocess.Popen(
                argv,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if mark is None else subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def output(
        self, deadline: Deadline, sink: Callable[[bytes], None] = lambda _data: None
    ) -> bytes | None:
        """Its whole stdout; None when it could not be started, failed, or waits indefinitely.

        `sink` receives the output as it arrives, even if the program fails later. Raises
        SearchTimeoutError, and SearchError when the search was stopped.
        """
        process = self._process
        if process is None or process.stdout is None:
            return None
        written = bytearray()
        said = b""
        idle = Idle(process.pid)
        with selectors.DefaultSelector() as waiting:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    waiting.register(pipe, selectors.EVENT_READ)
            while waiting.get_map():
                ready = waiting.select(min(_STEP, deadline.left()))
                if ready:
                    idle.restart()
                elif idle.seen(time.monotonic()):
                    return None  # it has opened a FIFO in place of a rules file
                for key, _ in ready:
                    data = os.read(key.fd, _CHUNK)
                    if not data:
                        waiting.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        written += data
                        sink(data)
                    else:
                        said = self._look(said + data)
        while process.poll() is None:
            # Its pipes are closed, so it is about to end.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(_STEP, deadline.left()))
        return bytes(written) if process.returncode in {_MATCHES, _NO_MATCH} else None

    def _look(self, said: bytes) -> bytes:
        """Searches for the mark; returns the possible beginning of one."""
        if self._mark is None:
            return b""
        self.marked = self.marked or self._mark in said
        return said[-len(self._mark) :]


def listing_environment(environ: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a search program: `environ` (default: this process's) without secrets.

    Variables that select another git repository are dropped, those that locate settings are kept.
    """
    return dict(_cleaned(frozenset((os.environ if environ is None else environ).items())))


@lru_cache(maxsize=4)  # used by every search; a session's environment rarely changes
def _cleaned(parent: frozenset[tuple[str, str]]) -> dict[str, str]:
    visible = {
        name: value
        for name, value in parent
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_")
    }
    fixed = {"GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C"}
    if place := visible.get("XDG_CONFIG_HOME"):  # it locates ignore rules
        fixed["XDG_CONFIG_HOME"] = place
    return child_environment(visible, extra=fixed).variables


_GITLINK = b"160000 "
_RGIGNORE = b'.rgignore")'


class _FinderSearch(ABC):
    """Reads the files listed by a program; `_find` returns their paths, None on failure."""

    name: str

    def __init__(self, program: str, *, time_limit: float = TIME_LIMIT) -> None:
        self._program = program
        self._time_limit = time_limit

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """Implements `SearchBackend.search`."""
        return await search_files(query, self._find, self.name, self._time_limit, cancellation)

    @abstractmethod
    def _find(
        self, query: Query, literals: tuple[str, ...], deadline: Deadline, ahead: Ahead
    ) -> list[str] | None: ...


class RipgrepSearch(_FinderSearch):
    """Uses ripgrep to list the files to read."""

    name = "ripgrep"

    def _find(
        self, query: Query, literals: tuple[str, ...], deadline: Deadline, ahead: Ahead
    ) -> list[str] | None:
        options = [f"--glob=!{name}/" for name in sorted(EXCLUDED_DIRECTORIES)]
        if not in_work_tree(query.path):
            # Without a repository it would read rules up to "/", above the workspace root.
            options.append("--no-ignore-parent")
        source = f"(?-u){literal_source(literals, ESCAPED)}"
        argv = (self._program, "--no-config", "--files-with-matches", "--null", "--text",
                "--hidden", "--ignore-case", "--no-messages", "--color=never", "--no-ignore-dot",
                "--no-require-git", "--encoding=none", "--debug", *options, "-e", source,
                "--", ".")  # fmt: skip
        names = _Names(str(query.path), ahead)
        # Before version 14 a .rgignore applies even with --no-ignore-dot; ignored files are then
        # reported with the position of the rule.
        environment = listing_environment(query.environ)
        with Listing(argv, names.directory, environment, mark=_RGIGNORE) as listing:
            ahead.prepare()
            output = listing.output(deadline, names.feed)
        return None if output is None or listing.marked else names.paths


class GitGrepSearch(_FinderSearch):
    """Uses `git grep` to list the files to read, in a work tree without nested repositories."""

    name = "git grep"

    def _find(
        self, query: Query, literals: tuple[str, ...], deadline: Deadline, ahead: Ahead
    ) -> list[str] | None:
        # The repository's configuration may name programs: disable them.
        git = (self._program, "--no-pager", "-c", "core.fsmonitor=", "-c",
               "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false", "-c",
               "core.quotePath=false")  # fmt: skip
        # Without the index git reads existing files, tracked or not, like the other backends.
        source = literal_source(literals, RAW).encode("latin-1")
        grep = (*git, "grep", "--no-index", "--exclude-standard", "--files-with-matches", "--null",
                "--text", "--ignore-case", "--extended-regexp", "--no-color",
                "-e", source, "--", ".")  # fmt: skip
        others = (*git, "ls-files", "-z", "--others", "--exclude-standard")
        tracked = (*git, "ls-files", "-z", "--stage")
        names = _Names(str(query.path), ahead)
        environment = listing_environment(query.environ)
        with (
            Listing(grep, names.directory, environment) as finding,
            Listing(others, names.directory, environment) as listing_others,
            Listing(tracked, names.directory, environment) as listing_tracked,
        ):
            ahead.prepare()
            if _has_inner_repositories(
                listing_others.output(deadline), listing_tracked.output(deadline)
            ):
                return None
            output = finding.output(deadline, names.feed)
        return None if output is None else names.paths


def _has_inner_repositories(others: bytes | None, tracked: bytes | None) -> bool:
    """True when rules of a nested repository would apply, or this is unknown.

    git lists an untracked repository as a directory, and a submodule by its mode.
    """
    if others is None or tracked is None:
        return True
    return b"/\0" in others or tracked.startswith(_GITLINK) or b"\0" + _GITLINK in tracked


class _Names:
    """Splits NUL-separated names, converts them to paths and passes them on."""

    def __init__(self, directory: str, ahead: Ahead) -> None:
        self.directory = directory
        self.paths: list[str] = []
        self._top = directory.rstrip("/")
        self._ahead = ahead
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Adds bytes; an incomplete name waits for more."""
        *whole, self._rest = (self._rest + data).split(b"\0")
        paths = [f"{self._top}/{os.fsdecode(name).removeprefix('./')}" for name in whole]
        self.paths += paths
        self._ahead.take(paths)


def choose_backend(
    path: Path, *, environ: Mapping[str, str] | None = None, time_limit: float = TIME_LIMIT
) -> SearchBackend:
    """Chooses the fastest search below `path`: ripgrep, in a work tree git, else Python.

    The programs are searched on the PATH of `environ`, by default this process's.
    """
    where = None if environ is None else environ.get("PATH", os.defpath)
    if program := shutil.which("rg", path=where):
        return RipgrepSearch(program, time_limit=time_limit)
    if in_work_tree(path) and (program := shutil.which("git", path=where)):
        return GitGrepSearch(program, time_limit=time_limit)
    return PythonSearch(time_limit=time_limit)


def in_work_tree(path: Path) -> bool:
    """True when `path` is in a git work tree."""
    return any(os.path.exists(above / ".git") for above in (path, *path.parents))
