"""The log on its way out, in a thread of its own: a reader that does not read stops no request."""

import threading
from collections.abc import Callable
from queue import Full, Queue

import msgspec

CAPACITY = 4096
"""Lines that may wait for the reader of the log."""


class LogWriter:
    """Gives lines to `write`, which may block. When `capacity` lines wait, further ones are
    dropped; how many it were is said once there is room again."""

    def __init__(self, write: Callable[[str], None], *, capacity: int = CAPACITY) -> None:
        self._write = write
        self._lines: Queue[str | None] = Queue(capacity)
        self._dropped = 0
        self._lock = threading.Lock()
        # A reader that never reads again must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="gateway-log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Takes a line with its newline; never waits."""
        try:
            self._lines.put_nowait(line)
        except Full:
            with self._lock:
                self._dropped += 1

    def close(self, timeout_s: float) -> bool:
        """Waits until all lines are written, so long at most; whether they are."""
        try:
            self._lines.put(None, timeout=timeout_s)
        except Full:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write(line)
            self._tell_dropped()
        self._tell_dropped()

    def _tell_dropped(self) -> None:
        with self._lock:
            count, self._dropped = self._dropped, 0
        if count:
            message = f"{count} lines of this log were dropped: its reader was too slow."
            told = {"level": "warning", "message": message, "dropped": count}
            self._write(msgspec.json.encode(told).decode("utf-8") + "\n")
