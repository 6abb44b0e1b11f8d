"""The output of a command as text: decoded, as a screen shows it, bounded, and stored in memory or
in a file."""

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from alhena.system.errors import FileError, from_os_error

SNIFFED_BYTES = 4096
# Control characters outside text: all of C0 except NUL (counted apart), BEL..CR and ESC.
_UNTEXTUAL = bytes([*range(1, 7), *range(14, 27), *range(28, 32), 127])


def looks_binary(sample: bytes) -> bool:
    """True when these first bytes are not text in any ASCII-based encoding.

    A few NULs are separators, many are binary data; other control characters are rare in text.
    """
    controls = len(sample) - len(sample.translate(None, _UNTEXTUAL))
    nulls = sample.count(0)
    return nulls * 5 > len(sample) or (controls > 1 and controls * 20 > len(sample))


class Converter(Protocol):
    """Converts bytes to text, piece by piece."""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Returns the text known after these bytes; `final` also returns pending text."""
        ...

    @property
    def pending(self) -> str:
        """The text that may still change."""
        ...


class CapturedText(msgspec.Struct, frozen=True, kw_only=True):
    """Captured output. `omitted` counts the characters dropped between `head` and `tail`."""

    head: str
    tail: str
    omitted: int
    total_bytes: int
    binary: bool

    @property
    def text(self) -> str:
        """The whole text, or its two ends around the number of omitted characters."""
        if self.binary:
            return f"[binary output, {self.total_bytes:,} bytes, not shown]"
        if not self.omitted:
            return self.head + self.tail
        return f"{self.head}\n\n... [{self.omitted:,} characters omitted] ...\n\n{self.tail}"


class OutputCapture:
    """Keeps the first `head` and the last `tail` characters of an output of any length.

    `on_text` receives the text once it does not change any more, until the output turns out to be
    binary. `characters` counts it. `converter` makes it of the bytes.
    """

    converter: Converter

    def __init__(
        self,
        *,
        head: int = 8_000,
        tail: int = 32_000,
        on_text: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.total_bytes = 0
        self.binary = False
        self._head_size = head
        self._tail_size = tail
        self._on_text = on_text
        from alhena.system.screen_text import ScreenText

        self.converter = ScreenText(pipe=True)
        self._sample = b""
        self._head = ""
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self.characters = 0

    def feed(self, data: bytes) -> None:
        """Adds bytes of the output."""
        if len(self._sample) < SNIFFED_BYTES and not self.binary:
            self._sample += data[: SNIFFED_BYTES - len(self._sample)]
            self.binary = looks_binary(self._sample)
        self.total_bytes += len(data)
        if not self.binary:
            self._take(self.converter.feed(data))

    def finish_capture(self) -> CapturedText:
        """Finishes the capture after the end of the output."""
        if not self.binary:
            self._take(self.converter.feed(b"", final=True))
        return self.so_far()

    def so_far(self) -> CapturedText:
        """The captured part of an output that continues."""
        pending = "" if self.binary else self.converter.pending
        room = self._head_size - len(self._head)
        head = self._head + pending[:room] if room > 0 else self._head
        tail = "".join(self._tail) + pending[max(0, room) :]
        tail = tail[max(0, len(tail) - self._tail_size) :]
        return CapturedText(
            head=head,
            tail=tail,
            omitted=self.characters + len(pending) - len(head) - len(tail),
            total_bytes=self.total_bytes,
            binary=self.binary,
        )

    def _take(self, text: str) -> None:
        if not text:
            return
        self.characters += len(text)
        self._on_text(text)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if not (text and self._tail_size):
            return
        self._tail.append(text)
        self._tail_length += len(text)
        while self._tail_length - len(self._tail[0]) >= self._tail_size:
            self._tail_length -= len(self._tail.popleft())


class Timer(Protocol):
    """The handle returned by `call_later`."""

    def cancel(self) -> object:
        """Cancels the call."""
        ...


class LiveOutput:
    """Passes text on at once if nothing was passed on for `interval` seconds, else collects it.

    `clock` and `call_later` are an event loop's `time` and `call_later`. At most `limit` characters
    wait; of more the last are kept, and the next text reports the number of dropped ones.
    """

    def __init__(
        self,
        emit: Callable[[str], None],
        redraw: Callable[[str], None] | None = None,
        *,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], Timer],
        interval: float = 1.0,
        limit: int = 100_000,
    ) -> None:
        self._emit = emit
        self._redraw = redraw or emit
        self._clock = clock
        self._call_later = call_later
        self._interval = interval
        self._limit = limit
        self._last: float | None = None
        self._timer: Timer | None = None
        self._shown: Callable[[], str] | None = None
        self._waiting = ""
        self._lost = 0

    def add(self, text: str) -> None:
        """Adds text for the next update."""
        self._waiting = self._waiting + text if self._shown is None else self._shown()
        over = len(self._waiting) - self._limit
        if over > 0:
            self._lost += over
            self._waiting = self._waiting[over:]
        self._soon()

    def follow(self, shown: Callable[[], str]) -> None:
        """From now on `redraw` gets what is `shown`; added text only says that it has changed."""
        self._shown, self._emit = shown, self._redraw

    def _soon(self) -> None:
        if self._timer is None:
            elapsed = None if self._last is None else self._clock() - self._last
            if elapsed is None or elapsed >= self._interval:
                self.flush()
            else:
                self._timer = self._call_later(self._interval - elapsed, self.flush)

    def flush(self) -> None:
        """Passes on waiting text now."""
        self.stop()
        if self._waiting:
            lost = f"... [{self._lost:,} characters omitted] ...\n" if self._lost else ""
            text, self._waiting, self._lost = lost + self._waiting, "", 0
            self._last = self._clock()
            self._emit(text)

    def stop(self) -> None:
        """Stops the timer; waiting text is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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
