"""Bash as the judge: a command line run for real, among programs that only write down their call."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self

import msgspec
import pytest

from tests.support.patience import PATIENCE_S

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="bash is the judge")

_STUB = """#!/bin/sh
printf '%s\\0' x "$@" >{log}/$$-"${{0##*/}}"
printf '%s\\n' {says}
"""


class Ran(msgspec.Struct, frozen=True):
    """The calls of programs, each a name with its arguments, in no order; what is new, different or
    gone below the jail; and whether all processes ended in time."""

    calls: tuple[tuple[str, ...], ...]
    changes: tuple[str, ...]
    ended: bool

    @property
    def programs(self) -> set[str]:
        """The names of the programs that ran."""
        return {call[0] for call in self.calls}


class Jail:
    """A directory to run lines in: `work` with the given files (a target for a symbolic link, None
    for a directory), an empty `home`, and a PATH of `stubs`, which log their call and print `says`,
    and `real` programs. The log is where no line can name it. Use as a context manager."""

    def __init__(
        self,
        files: Mapping[str, str | Path | None],
        stubs: Iterable[str],
        real: Iterable[str] = (),
        says: str = "",
    ) -> None:
        self._base = TemporaryDirectory(prefix="jail-")
        self._root = Path(self._base.name, "up")
        self._files = files
        self._programs = (tuple(stubs), tuple(real))
        self._says = says
        self.work = self._root / "1/2/3/4/5/6/work"
        self.home = self._root / "home"
        self._hide()
        self._build()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._base.cleanup()
        self._hidden.cleanup()

    def _hide(self) -> None:
        """A place for programs and their log that nothing started earlier knows."""
        self._hidden = TemporaryDirectory(prefix="log-", ignore_cleanup_errors=True)
        hidden = Path(self._hidden.name)
        self.path, self._log, self._temporary = hidden / "bin", hidden / "log", hidden / "tmp"
        for folder in (self.path, self._log, self._temporary):
            folder.mkdir()
        stub = hidden / "stub"
        stub.write_text(_STUB.format(log=self._log, says=quote(self._says)), encoding="utf-8")
        stub.chmod(0o755)
        stubs, real = self._programs
        for name in stubs:
            (self.path / name).symlink_to(stub)
        for name in real:
            (self.path / name).symlink_to(shutil.which(name) or "")

    def _build(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.home.mkdir()
        for name, content in self._files.items():
            path = self.work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.mkdir(exist_ok=True)
            elif isinstance(content, Path):
                path.symlink_to(content)
            else:
                path.write_text(content, encoding="utf-8")
        self._before = _snapshot(self._root)

    def run(self, command: str, seconds: float = PATIENCE_S) -> Ran:
        """Gives the command to bash, with nothing to read, and waits for all that it starts."""
        ended = self._bash(command, seconds)
        calls = tuple(sorted(_call(file) for file in self._log.iterdir()))
        for file in self._log.iterdir():
            file.unlink()
        changes = _changes(self._before, _snapshot(self._root))
        if not ended:  # something may have got away, and must not be taken for the next line's
            self._hidden.cleanup()
            self._hide()
        if changes or not ended:
            self._build()
        return Ran(calls, changes, ended)

    def _bash(self, command: str, seconds: float) -> bool:
        # Whatever bash starts inherits the pipe; its end is the end of all of them.
        mine, theirs = os.pipe()
        try:
            child = subprocess.Popen(
                [BASH, "--norc", "--noprofile", "-c", command],
                cwd=self.work,
                env={
                    "PATH": str(self.path),
                    "HOME": str(self.home),
                    "TMPDIR": str(self._temporary),
                    "LC_ALL": "C.UTF-8",
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[theirs],
            )
        except BaseException:
            os.close(mine)
            raise
        finally:
            os.close(theirs)
        try:
            deadline = time.monotonic() + seconds
            readable, _, _ = select.select([mine], [], [], seconds)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0, deadline - time.monotonic()))
            return bool(readable) and child.returncode is not None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            os.close(mine)


def _call(file: Path) -> tuple[str, ...]:
    arguments = file.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
    return (file.name.partition("-")[2], *arguments[1:])


def _snapshot(root: Path) -> dict[str, tuple[int, int, bytes]]:
    found: dict[str, tuple[int, int, bytes]] = {}
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                state = entry.stat(follow_symlinks=False)
                content = b""
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    content = Path(entry.path).read_bytes()
                found[entry.path] = (state.st_mode, state.st_mtime_ns, content)
    return {os.path.relpath(path, root): state for path, state in found.items()}


def _changes(
    before: dict[str, tuple[int, int, bytes]], after: dict[str, tuple[int, int, bytes]]
) -> tuple[str, ...]:
    found = [f"created {path}" for path in after.keys() - before.keys()]
    found += [f"deleted {path}" for path in before.keys() - after.keys()]
    both = before.keys() & after.keys()
    found += [f"changed {path}" for path in both if before[path] != after[path]]
    return tuple(sorted(found))
