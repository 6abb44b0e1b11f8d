"""Stores a text of any length: in memory while it is short, then in a file."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from alhena.system.errors import FileError, from_os_error


class CreatedFile(msgspec.Struct, frozen=True):
    """A new file, open for writing."""

    path: Path
    descriptor: int


class TextSpool:
    """Collects a text piece by piece. Beyond `keep` characters it moves to the UTF-8 file created
    by `create`, beginning with `prefix`, which does not count.

    With `most` the file ends after so many bytes, and `full` is True once text is missing. When
    that file cannot be created or written, `problem` has the reason, the file keeps its content,
    and the rest is dropped: the writer of the text must not fail. `saved` counts the characters on
    disk.
    """

    def __init__(
        self, keep: int, create: Callable[[], CreatedFile], *, prefix: str = "", most: int = 0
    ) -> None:
        self.path: Path | None = None
        self.problem = ""
        self.full = False
        self.saved = 0
        self.length = 0
        self._most = most
        self._bytes = 0
        self._before = len(prefix)
        self._keep = keep
        self._create = create
        self._waiting = [prefix]
        self._descriptor: int | None = None
        self._closed = False

    @property
    def spilled(self) -> bool:
        """True when the text has exceeded the memory limit."""
        return self.length > self._keep

    def add(self, text: str) -> None:
        """Adds a piece."""
        if self._closed:
            return
        self.length += len(text)
        if self.full:
            return
        if self._descriptor is None and not self.problem:
            self._waiting.append(text)
            if self.spilled:
                self._open()
        else:
            self._write_most(text)

    def finish(self, suffix: str = "", *, tail: str = "") -> None:
        """Writes `suffix` after the text, if it is in a file, and closes that. Later pieces are
        ignored. A full file gets `tail`, the end of the text, after a line with the amount of
        missing text."""
        if self.full:
            missing = self.length - (self.saved - self._before)
            lost = missing - len(tail)
            self.full = lost > 0
            note = f"\n\n... [{lost:,} characters omitted] ...\n\n"
            self._write(f"{note}{tail}" if self.full else tail[-missing:])
        self._write(suffix)
        self._close()

    def discard(self) -> None:
        """Closes and removes the file."""
        self._close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            self.path = None

    def _open(self) -> None:
        text = "".join(self._waiting)
        self._waiting = []
        try:
            created = self._create()
        except FileError as error:
            self.problem = str(error)
            return
        self.path, self._descriptor = created.path, created.descriptor
        self._write_most(text)

    def _write_most(self, text: str) -> None:
        room = self._most - self._bytes
        if not self._most or len(text) * 4 <= room:
            self._write(text)
            return
        data = text.encode("utf-8", "replace")
        self.full = len(data) > room
        self._write(data[:room].decode("utf-8", "ignore"))

    def _write(self, text: str) -> None:
        if self._descriptor is None or self.path is None:
            return
        data = memoryview(text.encode("utf-8", "replace"))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            self.problem = str(from_os_error(error, self.path, writing=True))
            self.saved += len(bytes(data[:written]).decode("utf-8", "ignore"))
            self._close()
            return
        self._bytes += len(data)
        self.saved += len(text)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        self._waiting = []
        self._closed = True
        if descriptor is None or self.path is None:
            return
        try:
            os.close(descriptor)
        except OSError as error:  # a network file system tells of a full disk only now
            self.problem = self.problem or str(from_os_error(error, self.path, writing=True))
