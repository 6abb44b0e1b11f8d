"""Runs git on a shadow repository alone, with bounded waits and nothing of anybody's settings.

The repository's own directory is `git_dir`, the files are those of `work_tree`. Of the environment
git gets the search path and nothing else; what a project's attributes or hooks would have it run,
or change in a file, it does not.
"""

import os
import selectors
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

import msgspec

from alhena.session.errors import CheckpointError, GitFailedError, NoGitError, TooMuchError
from alhena.session.loose import loose_object
from alhena.session.shadow_files import content_name, refuse_blocking, trouble
from alhena.system.environment import shield_memory
from alhena.system.errors import ProcessStartError, printable
from alhena.system.processes import Idle

STALL_S = 3.0
"""A command that is silent for so long may be waiting for something."""

GRACE_S = 2.0
"""Seconds without output that a cancelled command may continue."""

_STEP_S = 0.1


class GitOutput:
    """The output of a process whose command is called `name`. `stalled` is asked once when nothing
    comes, and may raise what explains it. Each method raises CheckpointError when the command takes
    longer than `patience_s` or is not wanted any more; then it may still go on for `grace_s`
    without a sign of life."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        name: str,
        patience_s: float,
        cancellation: threading.Event,
        stalled: Callable[[], None],
    ) -> None:
        self.grace_s = 0.0
        self._idle = Idle(process.pid)
        self._process = process
        self._name = name
        self._patience_s = patience_s
        self._cancellation = cancellation
        self._stalled = stalled
        self._deadline = time.monotonic() + patience_s
        self._selector = selectors.DefaultSelector()
        if process.stdout is not None:
            self._selector.register(process.stdout, selectors.EVENT_READ)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._selector.close()

    def piece(self) -> bytes:
        """Reads the next piece of output, b"" at the end."""
        stream = self._process.stdout
        if stream is None:
            return b""
        self._wait(lambda: bool(self._selector.select(_STEP_S)))
        return os.read(stream.fileno(), _PIECE)

    def line(self) -> bytes:
        """The next line, with its end; less when there is no more. As `exactly`, it is waited for
        anew."""
        while b"\n" not in self._rest:
            if not self._more():
                break
        line, end, self._rest = self._rest.partition(b"\n")
        return line + end

    def exactly(self, size: int) -> bytes:
        """So many bytes, fewer when there are no more."""
        pieces = [self._rest]
        missing = size - len(self._rest)
        self._rest = b""
        while missing > 0:
            if not self._more():
                break
            pieces.append(self._rest)
            missing -= len(self._rest)
            self._rest = b""
        data = b"".join(pieces)
        self._rest = data[size:]
        return data[:size]

    def code(self) -> int:
        """The exit code, when the process has ended: one may close its output long before."""
        self._wait(self._ended)
        return self._process.wait()

    def _more(self) -> bool:
        self._deadline = time.monotonic() + self._patience_s
        piece = self.piece()
        self._rest += piece
        return bool(piece)

    def _ended(self) -> bool:
        try:
            self._process.wait(_STEP_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _wait(self, done: Callable[[], bool]) -> None:
        start = time.monotonic()
        self._idle.restart()
        asked = False
        while True:
            now = time.monotonic()
            if self._cancellation.is_set() and now - start >= self.grace_s:
                raise CheckpointError("it was interrupted.")
            if now > self._deadline:
                raise TooMuchError(f"{self._name} takes longer than {self._patience_s:.0f} s.")
            silent = now - start
            if not asked and silent > _STEP_S and (silent > STALL_S or self._idle.seen(now)):
                asked = True
                self._stalled()
            if done():
                return


PATIENCE_S = 60.0
"""So long one git command may take."""

MAX_OUTPUT = 256 << 20
_PIECE = 1 << 20
_WORDS = 500
_WANTS = (b"out of memory", b"cannot allocate memory", b"too many open files")

IDENTITY = {"NAME": "alhena", "EMAIL": "alhena@localhost"}

CONFIGURATION = (
    "core.bare=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.ignoreCase=false",
    "core.precomposeUnicode=false",
    "core.protectNTFS=false",
    "core.protectHFS=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.looseCompression=1",
    "core.fsync=loose-object,pack,pack-metadata,reference",
    "core.fsyncMethod=batch",
    "commit.gpgSign=false",
    "gc.auto=0",
    "gc.packRefs=false",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
    "index.version=2",
)
"""Options of every command; they override configuration files."""

IN_ONE_PACK = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")
"""Before a command that brings in many files: they become one, which is on the disk at once."""

LITERAL = "--literal-pathspecs"
"""Before a command whose paths are names, not patterns."""

BRANCH = ("-c", "init.defaultBranch=main")

BEFORE_A_NAME = frozenset({*IN_ONE_PACK, *BRANCH, LITERAL})


class GitPlace(msgspec.Struct, frozen=True):
    """Paths of a git command: its repository, its index file, the work tree."""

    git_dir: Path
    index: Path
    work_tree: Path


class ShadowGit:
    """Git commands on one shadow repository, from one thread. `held` is a descriptor that lives as
    long as the last of them: a lock on it outlives this process, if need be. While it is `carrying`
    what was begun to its end, an interruption ends only a command that has come to a halt."""

    def __init__(
        self,
        place: GitPlace,
        environ: Mapping[str, str],
        *,
        excludes: Path | None = None,
        cancellation: threading.Event | None = None,
        patience_s: float = PATIENCE_S,
        obstacles: set[Path] | None = None,
    ) -> None:
        self.place = place
        self.obstacles = set[Path]() if obstacles is None else obstacles
        self.held: int | None = None
        self.carrying = False
        self._path = environ.get("PATH", os.defpath)
        self._excludes = "/dev/null" if excludes is None else str(excludes)
        self._cancellation = cancellation or threading.Event()
        self._patience_s = patience_s

    def text(self, *arguments: str) -> str:
        """One line that a command says. Raises CheckpointError."""
        return self.run(arguments).decode("ascii", "replace").strip()

    def run(
        self,
        arguments: Sequence[str],
        lines: Iterable[bytes] = (),
        *,
        place: GitPlace | None = None,
        accepted: tuple[int, ...] = (0,),
    ) -> bytes:
        """Runs a command and returns its output. `lines` go to its input, each ended by a NUL.
        `accepted`: valid exit codes. Raises CheckpointError; NoGitError if git is missing."""
        return self.heard(arguments, lines, place=place, accepted=accepted)[0]

    def heard(
        self,
        arguments: Sequence[str],
        lines: Iterable[bytes] = (),
        *,
        place: GitPlace | None = None,
        accepted: tuple[int, ...] = (0,),
    ) -> tuple[bytes, bytes]:
        """As `run`, with what the command complains of, of which the end may be cut."""
        with self.begun(arguments, lines, place=place, accepted=accepted) as outcome:
            return outcome()

    @contextmanager
    def begun(
        self,
        arguments: Sequence[str],
        lines: Iterable[bytes] = (),
        *,
        place: GitPlace | None = None,
        accepted: tuple[int, ...] = (0,),
    ) -> Generator[Callable[[], tuple[bytes, bytes]]]:
        """Begins a command that goes on beside others; what is yielded waits for it and gives what
        `heard` does. One that is not waited for is ended."""
        with (
            self._running(arguments, lines, place or self.place) as (process, said),
            self._output(process, arguments) as output,
        ):

            def outcome() -> tuple[bytes, bytes]:
                written = _whole(output)
                code, complaints = output.code(), _complaints(said)
                if code not in accepted:
                    raise _failed(code, complaints, arguments)
                return written, complaints

            yield outcome

    def objects(self, names: Sequence[str], kind: str = "blob") -> Iterator[bytes | None]:
        """The contents of objects (those of files, unless another kind is meant), by their names,
        in order; None for one that is not there, damaged or of another kind. Raises
        CheckpointError, also where git had not the means to read one."""
        done = 0
        while done < len(names):  # git ends at what is damaged, and is begun again behind it
            for data in self._contents(names[done:], kind):
                if isinstance(data, bytes):
                    yield data
                else:
                    found = loose_object(self.place.git_dir, names[done], kind)
                    if found is None and data is not None:
                        raise data
                    yield found
                done += 1

    def _contents(self, names: Sequence[str], kind: str) -> Iterator[bytes | GitFailedError | None]:
        """As `objects`, up to the first at which git ends; a reason instead of it when that says
        nothing of the object."""
        given = (f"{name}\n".encode() for name in names)
        arguments = ("cat-file", "--batch")
        with (
            self._running(arguments, given, self.place, end=b"") as (process, said),
            self._output(process, arguments) as output,
        ):
            for name in names:
                head = output.line()
                if not head:
                    yield _want_of_means(output.code(), said, arguments)
                    return
                if head.endswith(b" missing\n"):
                    yield None
                    continue
                fields = head.split()
                size = int(fields[2]) if len(fields) == 3 and fields[2].isdigit() else -1
                data = output.exactly(max(0, size))
                if len(data) != size or output.exactly(1) != b"\n":
                    ended = 0 <= len(data) < size
                    yield _want_of_means(output.code(), said, arguments) if ended else None
                    return
                yield data if content_name(data, kind) == name else None

    def _output(self, process: "subprocess.Popen[bytes]", arguments: Sequence[str]) -> GitOutput:
        output = GitOutput(
            process,
            _name(arguments),
            self._patience_s,
            self._cancellation,
            lambda: refuse_blocking(self.place.work_tree, self.obstacles),
        )
        output.grace_s = GRACE_S if self.carrying else 0.0
        return output

    @contextmanager
    def _running(
        self,
        arguments: Sequence[str],
        lines: Iterable[bytes],
        place: GitPlace,
        end: bytes = b"\0",
    ) -> Generator[tuple["subprocess.Popen[bytes]", IO[bytes]]]:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
            given.writelines(line + end for line in lines)
            given.seek(0)
            process = self._started(arguments, given, said, place)
            try:
                yield process, said
            finally:
                if process.stdout is not None:
                    process.stdout.close()
                if process.poll() is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def _started(
        self, arguments: Sequence[str], given: IO[bytes], said: IO[bytes], place: GitPlace
    ) -> "subprocess.Popen[bytes]":
        configuration = (word for item in CONFIGURATION for word in ("-c", item))
        command = ["git", *configuration, "-c", f"core.excludesFile={self._excludes}"]
        try:
            shield_memory()
            return subprocess.Popen(
                [*command, *arguments],
                cwd=place.work_tree,
                env=self._environment(place),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=said,
                pass_fds=() if self.held is None else (self.held,),
                start_new_session=True,
            )
        except ProcessStartError as error:
            raise CheckpointError(error.message) from error
        except FileNotFoundError as error:
            if error.filename != "git":
                raise trouble(error, place.work_tree) from error
            raise NoGitError(
                "there is no git to keep checkpoints with.",
                remedy="Install git, or turn general.checkpointing.enabled off.",
            ) from error
        except OSError as error:
            raise CheckpointError(f"git cannot be started: {error.strerror or error}.") from error

    def _environment(self, place: GitPlace) -> dict[str, str]:
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in IDENTITY.items()
        }
        return {
            "PATH": self._path,
            "HOME": str(place.git_dir),
            "XDG_CONFIG_HOME": str(place.git_dir),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_DIR": str(place.git_dir),
            "GIT_INDEX_FILE": str(place.index),
            "GIT_WORK_TREE": str(place.work_tree),
            **who,
        }


def search_path(environ: Mapping[str, str], places: Iterable[Path]) -> str:
    """The PATH by which git is found: without what is relative, lies within `places` (a project's
    own `bin` is not the user's word on what git is), or can be written by everybody."""
    mine = tuple(places)
    kept: list[str] = []
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        if not os.path.isabs(entry):
            continue
        real = Path(os.path.realpath(entry))
        if any(real.is_relative_to(place) for place in mine) or _open_to_all(real):
            continue
        kept.append(entry)
    return os.pathsep.join(kept)


def _open_to_all(directory: Path) -> bool:
    try:
        return bool(directory.stat().st_mode & stat.S_IWOTH)
    except OSError:  # there is nothing to be found in it
        return True


def _whole(output: GitOutput) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := output.piece():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_OUTPUT:
            raise TooMuchError("there are too many files.")
    return b"".join(pieces)


def _complaints(said: IO[bytes]) -> bytes:
    said.seek(0)
    return said.read(_PIECE)


def _failed(code: int, complaints: bytes, arguments: Sequence[str]) -> GitFailedError:
    words = " ".join(complaints.decode("utf-8", "replace").split())[:_WORDS]
    return GitFailedError(f"{_name(arguments)} failed ({code}): {printable(words)}")


def _want_of_means(code: int, said: IO[bytes], arguments: Sequence[str]) -> GitFailedError | None:
    """The reason why a command that ended early did so, unless it met damage."""
    complaints = _complaints(said)
    if code == -signal.SIGKILL or any(each in complaints.lower() for each in _WANTS):
        return _failed(code, complaints, arguments)
    return None


def _name(arguments: Sequence[str]) -> str:
    """A command for people: without what stands before its name."""
    return f"git {next(word for word in arguments if word not in BEFORE_A_NAME)}"
