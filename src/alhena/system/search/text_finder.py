"""Finds the files that contain one of some texts, by ripgrep or GNU grep.

The program is given the files by name and only saves reading: of files in whose encoding the texts
look otherwise (UTF-16, UTF-32), and of files that it cannot read, it lists all.
"""

import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Self

from alhena.system.errors import ProcessStartError

_FILES_EACH, _BYTES_EACH = 4_000, 400_000
"""Most files, and bytes of their names, for one process."""
_STEP_S = 0.05
_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""In the byte order marks of UTF-16 and UTF-32."""
_FOLDED = {"i": ("\u0130", "\u0131"), "k": ("\u212a",), "s": ("\u017f",)}
"""Other letters that are the same as an ASCII one when case does not matter."""

Wait = Callable[[], float]
"""The seconds that are left, at most; raises when there are none, or the search was stopped."""


def find_reader(environ: Mapping[str, str], excluded: Iterable[os.PathLike[str]] = ()) -> str:
    """The path of a program that finds texts, outside the `excluded` directories; "" if there is
    none."""
    from pathlib import Path

    from alhena.system.own_programs import find_program

    places = [Path(each) for each in excluded]
    found = find_program("rg", environ, places)
    if found is None:
        found = find_program("grep", environ, places)
        if found is not None and not _is_gnu(found):
            return ""  # others are slower than reading, or know less options
    return found or ""


@cache
def _is_gnu(program: str) -> bool:
    from alhena.system.environment import shield_memory

    try:
        shield_memory()
        done = subprocess.run(
            (program, "--version"),
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ProcessStartError):
        return False
    return b"GNU grep" in done.stdout


class TextFinder:
    """Takes names of files one after another, and has several processes look into them at a time.
    `found` are the files that have to be read; `failed` if the program could not be started."""

    def __init__(
        self, program: str, texts: tuple[str, ...], environ: Mapping[str, str], wait: Wait
    ) -> None:
        self._argv = _arguments(program, texts)
        self._environ = environ
        self._wait = wait
        self._most = min(os.cpu_count() or 1, 4)
        self._running: deque[tuple[subprocess.Popen[bytes], list[str]]] = deque()
        self._names: list[str] = []
        self._room = _BYTES_EACH
        self.found: list[str] = []
        self.failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _names in self._running:  # only after a failure
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with process:
                pass

    def look_into(self, name: str) -> None:
        """Adds a file. Raises what `wait` raises."""
        self._names.append(name)
        self._room -= len(name)
        if len(self._names) == _FILES_EACH or self._room < 0:
            self._start()

    def finish(self) -> list[str]:
        """Waits for all; returns the files that have to be read. Raises what `wait` raises."""
        if self._names:
            self._start()
        while self._running:
            self._collect()
        return self.found

    def _start(self) -> None:
        names, self._names, self._room = self._names, [], _BYTES_EACH
        if not self.failed:
            while len(self._running) >= self._most:
                self._collect()
            process = self._launch(names)
            if process is not None:
                self._running.append((process, names))
                return
            self.failed = True
        self.found += names

    def _launch(self, names: list[str]) -> "subprocess.Popen[bytes] | None":
        from alhena.system.environment import child_environment, shield_memory

        env = child_environment(self._environ).variables | {"LC_ALL": "C"}
        try:
            shield_memory()
            return subprocess.Popen(
                (*self._argv, "--", *names),
                cwd="/",
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError, ProcessStartError):
            return None

    def _collect(self) -> None:
        process, names = self._running[0]
        while True:
            with suppress(subprocess.TimeoutExpired):
                output = process.communicate(timeout=min(_STEP_S, self._wait()))[0]
                break
        self._running.popleft()
        if process.returncode not in {0, 1}:  # it could not read all of them
            self.found += names
            return
        known = set(names)
        listed = (os.fsdecode(name) for name in output.split(b"\0"))
        self.found += [name for name in listed if name in known]


def _arguments(program: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    letters = [each for letter, folded in _FOLDED.items() if letter in "".join(texts)
               for each in folded]  # fmt: skip
    others = (*_MARKS, *(each.encode() for each in letters))
    if os.path.basename(program) == "rg":
        branches = [
            *(f"(?i-u:{_escape(text.encode())})" for text in texts),
            *(f"(?-u:{_escape(other)})" for other in others),
        ]
        return (
            *(program, "--no-config", "--files-with-matches", "--null", "--no-messages"),
            *("--color=never", "--encoding=none", "--no-ignore", "--hidden"),
            f"--regexp={'|'.join(branches)}",
        )
    patterns = (os.fsdecode(each) for each in (*(text.encode() for text in texts), *others))
    return (
        *(program, "--files-with-matches", "--null", "--no-messages", "--ignore-case"),
        *("--fixed-strings", "--devices=skip", "--directories=skip", "--color=never"),
        *(f"--regexp={each}" for each in patterns),
    )


def _escape(text: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text)
