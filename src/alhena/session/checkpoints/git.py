"""Runs git on a private repository, without the configuration of the user or the project.

git gets no environment but the search path. Hooks, filters, attributes and file system monitors of
the project never run, and nothing converts content.
"""

import os
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from alhena.session.checkpoints.records import (
    CheckpointError,
    GitFailedError,
    NoGitError,
    SnapshotLimitError,
    trouble,
)
from alhena.system.environment import shield_memory
from alhena.system.errors import ProcessStartError, printable
from alhena.system.own_programs import git_command

PATIENCE_S = 60.0
"""Time limit of one git command."""

ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !eol\n"
"""For `info/attributes`, which overrides the .gitattributes of the project."""

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
    "core.attributesFile=/dev/null",
    "core.looseCompression=1",
    "core.fsync=loose-object,pack,pack-metadata,reference",
    "core.fsyncMethod=batch",
    "gc.auto=5000",
    "gc.autoDetach=false",
    "gc.packRefs=false",
    "index.version=2",
    "init.defaultBranch=main",
)
"""Options of every command; they override configuration files."""

IN_ONE_PACK = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")
"""Before `update-index` with many files: writes one pack, synced once."""

_STEP_S = 0.1
_GENTLE = 10
_WORDS = 500


def reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """The exit code and the error output of a command, in one line."""
    said = " ".join(done.stderr.decode("utf-8", "replace").split())
    return f"({done.returncode}): {printable(said[:_WORDS])}"


class Git:
    """Git commands on the repository `git_dir` with the index file `index` for the files of
    `work_tree`. `lock`: a descriptor that running commands inherit, so that a lock on it outlives
    this process until the last of them ends. `gentle` commands have a low priority."""

    def __init__(
        self,
        git_dir: Path,
        work_tree: Path,
        path: str,
        excludes: Path | None,
        cancellation: threading.Event,
        *,
        gentle: bool = False,
    ) -> None:
        self.git_dir = git_dir
        self.index = git_dir / "alhena-index"
        self.work_tree = work_tree
        self.lock: int | None = None
        self._path = path
        self._excludes = "/dev/null" if excludes is None else str(excludes)
        self._cancellation = cancellation
        self._gentle = gentle

    def run(self, *arguments: str, given: bytes = b"") -> bytes:
        """Runs a command with `given` as input and returns its output. Raises CheckpointError."""
        done = self.attempt(arguments, given)
        if done.returncode:
            raise GitFailedError(f"git {_name(arguments)} failed {reason(done)}")
        return done.stdout

    def object_name(self, *arguments: str, given: bytes = b"") -> str:
        """The name of the object that a command writes. Raises CheckpointError."""
        name = self.run(*arguments, given=given).decode("ascii", "replace").strip()
        if not is_object_name(name):
            raise GitFailedError(
                f"git {arguments[0]} printed no object name: {name[:60]!r}.",
                remedy="Check `git --version`; PATH decides which git runs.",
            )
        return name

    def attempt(
        self,
        arguments: Sequence[str],
        given: bytes = b"",
        *,
        nested: Path | None = None,
        output: IO[bytes] | int = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[bytes]:
        """Like `run`, whatever the exit code. `nested`: lists the files of this directory with an
        empty index instead. Raises CheckpointError."""
        with TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            with self._start(arguments, self._environment(nested), file, output) as process:
                if self._gentle:
                    with suppress(OSError):  # it has ended
                        os.setpriority(os.PRIO_PGRP, process.pid, _GENTLE)
                try:
                    written, complaints = self._communicate(process, _name(arguments))
                except BaseException:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    raise
        return subprocess.CompletedProcess(arguments, process.returncode, written, complaints)

    def _communicate(
        self, process: "subprocess.Popen[bytes]", command: str
    ) -> tuple[bytes | None, bytes]:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if self._cancellation.is_set():
                raise CheckpointError("interrupted; no file has changed.")
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=_STEP_S)
            if time.monotonic() > deadline:
                raise SnapshotLimitError(f"git {command} takes longer than {PATIENCE_S:.0f} s.")

    def _start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        given: IO[bytes],
        output: IO[bytes] | int,
    ) -> "subprocess.Popen[bytes]":
        settings = (*CONFIGURATION, f"core.excludesFile={self._excludes}")
        try:
            command = git_command(
                ("--literal-pathspecs", *arguments),
                {"PATH": self._path},
                environment,
                settings=settings,
            )
        except ProcessStartError as error:
            raise NoGitError(
                "git is not installed, so there are no checkpoints.",
                remedy="Install git, or turn general.checkpointing.enabled off.",
            ) from error
        try:
            shield_memory()
            return subprocess.Popen(
                command.argv,
                cwd=environment["GIT_WORK_TREE"],
                env=command.env,
                stdin=given,
                stdout=output,
                stderr=subprocess.PIPE,
                pass_fds=() if self.lock is None else (self.lock,),
                start_new_session=True,
            )
        except ProcessStartError as error:
            raise CheckpointError(error.message) from error
        except FileNotFoundError as error:
            raise trouble(error, self.work_tree) from error
        except OSError as error:
            raise CheckpointError(f"git cannot be started: {error.strerror or error}.") from error

    def _environment(self, nested: Path | None) -> dict[str, str]:
        return {
            "HOME": str(self.git_dir),
            "XDG_CONFIG_HOME": str(self.git_dir),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_DIR": str(self.git_dir),
            "GIT_INDEX_FILE": str(self.git_dir / "alhena-no-index" if nested else self.index),
            "GIT_WORK_TREE": str(nested or self.work_tree),
        }


class BlobContents:
    """Contents of blobs by name, in a temporary `file`. Each was compared with its name; unreadable
    ones are missing."""

    def __init__(self, git: Git, names: Iterable[str], file: IO[bytes]) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}
        # those of edits can be read without git
        rest = [name for name in sorted(names) if not self._read_loose(git.git_dir, name)]
        while rest:
            start = file.seek(0, os.SEEK_END)
            given = "".join(f"{name}\n" for name in rest).encode()
            git.attempt(("cat-file", "--batch"), given, output=file)
            # git ends at a damaged object; continue after it
            rest = rest[self._read(start, rest) + 1 :]
        file.flush()  # while there is room: before any file is changed

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> bytes:
        start, size = self._places[name]
        self._file.seek(start)
        return self._file.read(size)

    def _read_loose(self, git_dir: Path, name: str) -> bool:
        data = read_loose(git_dir, name)
        if data is None:
            return False
        self._places[name] = (self._file.seek(0, os.SEEK_END), len(data))
        self._file.write(data)
        return True

    def _read(self, start: int, names: Sequence[str]) -> int:
        """Reads the answers for these names from `start`; returns the number of whole answers."""
        self._file.seek(start)
        for done, name in enumerate(names):
            head = self._file.readline()
            if not head.endswith(b"\n"):
                return done
            fields = head.split()
            if fields[1] == b"missing":
                continue
            place, size = self._file.tell(), int(fields[2])
            data = self._file.read(size)
            if self._file.read(1) != b"\n":
                return done
            if content_name(data) == name:
                self._places[name] = (place, size)
        return len(names)


def _name(arguments: Sequence[str]) -> str:
    """The name of a git command."""
    return next(word for word in arguments if word not in IN_ONE_PACK)


def content_name(data: bytes) -> str:
    """The name of the blob with this content."""
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def read_loose(git_dir: Path, name: str) -> bytes | None:
    """The content of a blob that has a file of its own; None without one, or a damaged one."""
    try:
        whole = zlib.decompress((git_dir / "objects" / name[:2] / name[2:]).read_bytes())
    except (OSError, zlib.error):
        return None
    data = whole.partition(b"\0")[2]
    return data if content_name(data) == name else None


def is_object_name(text: str) -> bool:
    """True for a full object name, never a revision or an option."""
    return len(text) == 40 and all(char in "0123456789abcdef" for char in text)
