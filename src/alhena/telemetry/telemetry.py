"""A session's telemetry: takes events at once, and writes them down in a thread of its own."""

import atexit
import os
import platform
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from alhena.events import Event, timestamp
from alhena.telemetry.metrics import Metrics, hr_time
from alhena.telemetry.records import PREFIX, TOLD, Record, Translation
from alhena.version import __version__


class OutFile:
    """An open file that only grows: each piece is one write at its end, so that pieces of several
    processes do not mix."""

    def __init__(self, path: Path) -> None:
        """Opens `path`, made for the user alone with the directories above it when it is not there.
        Raises OSError."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Opening a FIFO would wait for its reader.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        try:
            found = os.fstat(self._descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError("it is no regular file")
            size = found.st_size
            self._fragment = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, piece: bytes) -> None:
        """Writes whole lines; when the last piece was cut short, on a line of their own. Raises
        OSError."""
        data = memoryview(b"\n" + piece if self._fragment else piece)
        while data:
            written = os.write(self._descriptor, data)
            self._fragment = written < len(data)
            data = data[written:]

    def close(self) -> None:
        """Nothing can be appended any more."""
        os.close(self._descriptor)


SCOPE = "gemini-cli"
ATTRIBUTE_LIMIT = 128


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where records come from. `auth_type` is how the session signs in to its model, if it does."""

    session_id: str
    installation_id: str
    interactive: bool = False
    auth_type: str | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """What is in every record."""
        common: dict[str, Any] = {
            "session.id": self.session_id,
            "installation.id": self.installation_id,
            "interactive": self.interactive,
        }
        return common if self.auth_type is None else common | {"auth_type": self.auth_type}


class Form:
    """Writes out what comes from one origin."""

    def __init__(self, origin: Origin) -> None:
        self._common = origin.attributes
        self._resource = resource(origin.session_id)

    def log_record(self, record: Record, time_ns: int) -> bytes:
        """A record that was made at this time."""
        attributes: dict[str, Any] = {
            **self._common,
            "event.name": PREFIX + record.name,
            "event.timestamp": timestamp(time_ns),
            **record.attributes,
        }
        return _lines(
            {
                "hrTime": hr_time(time_ns),
                "hrTimeObserved": hr_time(time_ns),
                "resource": self._resource,
                "instrumentationScope": {"name": SCOPE},
                "attributes": attributes,
                "_body": record.body,
                "_attributesCount": len(attributes),
                "_droppedAttributesCount": 0,
                "_isReadonly": True,
                "_logRecordLimits": {
                    "attributeCountLimit": ATTRIBUTE_LIMIT,
                    "attributeValueLengthLimit": None,
                },
            }
        )

    def metrics(self, metrics: Metrics, time_ns: int) -> bytes:
        """What has been counted up to this time."""
        measured = metrics.scope_metrics(self._common, time_ns)
        scope = {"scope": {"name": SCOPE, "version": ""}, "metrics": measured}
        return _lines({"resource": self._resource, "scopeMetrics": [scope]})


def resource(session_id: str) -> dict[str, Any]:
    """This process and machine. Not its command line, which may hold a prompt."""
    return {
        "_rawAttributes": [
            ("host.name", platform.node()),
            ("host.arch", _architecture()),
            ("process.pid", os.getpid()),
            ("process.executable.name", "alhena"),
            ("process.runtime.version", platform.python_version()),
            ("process.runtime.name", sys.implementation.name),
            ("service.name", SCOPE),
            ("service.version", __version__),
            ("session.id", session_id),
        ],
        "_asyncAttributesPending": False,
    }


def _architecture() -> str:
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _lines(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


MAX_WAITING = 10_000
"""Events that may wait to be written; those past it are left out, and counted."""

CLOSE_S = 5.0
"""Seconds that a session's end waits for what is left to be written."""

_Item = tuple[int, Event | Record] | threading.Event | None
"""What waits to be written, with its time; who waits for what came before; None is the end."""


class Telemetry:
    """Subscribe `feed` to a session's events; `flush` and `close` wait for the file.

    What could not be written never stops anything: `take_problem` says so, once.
    """

    def __init__(
        self,
        outfile: OutFile,
        translation: Translation,
        form: Form,
        *,
        name: str,
        clock: Callable[[], int] = time.time_ns,
        waiting: int = MAX_WAITING,
    ) -> None:
        """`name` is what a person knows the file by; `clock` gives nanoseconds since 1970."""
        self._outfile = outfile
        self._translation = translation
        self._form = form
        self._name = name
        self._clock = clock
        self._waiting = waiting
        self._metrics = Metrics()
        self._metrics.start(clock())
        self._items: SimpleQueue[_Item] = SimpleQueue()
        self._left_out = 0
        self._lost = 0
        self._reason = ""
        self._told = False
        self._closing = False
        self._thread = threading.Thread(target=self._write_all, name="telemetry", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # for a session that nobody closes

    def feed(self, event: Event) -> None:
        """Takes note of an event. Never waits, never raises."""
        if type(event) in TOLD:  # events have no subclasses
            self._put(event)

    def record(self, record: Record) -> None:
        """Takes note of what is no event."""
        self._put(record)

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Waits until what was noted so far, and what it adds up to, is written; False when that
        takes longer."""
        if self._closing:
            return not self._thread.is_alive()
        reached = threading.Event()
        self._items.put(reached)
        return reached.wait(timeout_s)

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """Writes what is left, and closes the file; nothing is taken note of any more. False when
        that takes longer."""
        if not self._closing:
            self._closing = True
            self._items.put(None)
            atexit.unregister(self.close)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def take_problem(self) -> str | None:
        """The reason why the file is not complete, in words for people; None when it is, or when
        that has been told already."""
        if self._told or not (self._lost or self._left_out):
            return None
        self._told = True
        if self._lost:
            return f"telemetry: cannot write to {self._name}: {self._reason}; records are missing."
        return f"telemetry: {self._name} is written too slowly; records were left out."

    def _put(self, item: Event | Record) -> None:
        if self._closing:
            return
        if self._items.qsize() >= self._waiting:
            self._left_out += 1
        else:
            self._items.put((self._clock(), item))

    def _write_all(self) -> None:
        """The thread: until the end, whatever the file does."""
        while (item := self._items.get()) is not None:
            if isinstance(item, threading.Event):
                self._write_metrics()
                item.set()
            else:
                self._write(*item)
        self._write_metrics()
        try:
            self._outfile.close()
        except OSError as error:
            self._lose(error)

    def _write(self, time_ns: int, item: Event | Record) -> None:
        if isinstance(item, Record):
            records = iter((self._translation.cleaned(item),))
        else:
            records = self._translation.records(item)
        try:
            for record in records:
                self._metrics.take(record, time_ns)
                self._outfile.append(self._form.log_record(record, time_ns))
        # OSError is the file's; the others are what values that JSON cannot carry raise.
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            self._lose(error)

    def _write_metrics(self) -> None:
        if not self._metrics.changed:
            return
        try:
            self._outfile.append(self._form.metrics(self._metrics, self._clock()))
        except OSError as error:
            self._metrics.changed = True
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        self._lost += 1
        if not self._reason:
            reason = error.strerror if isinstance(error, OSError) else None
            self._reason = reason or str(error)
