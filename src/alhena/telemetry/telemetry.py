"""Receives a session's events without waiting and gives them to a sink in its own thread."""

import atexit
import errno
import os
import platform
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import msgspec

from alhena.events import Event, timestamp
from alhena.telemetry.metrics import Metrics, hr_time
from alhena.telemetry.records import TelemetryRecord, Translation
from alhena.version import __version__

# O_NONBLOCK: opening a FIFO would wait for a reader.
_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _open_below(top: Path, names: tuple[str, ...]) -> int:
    """Opens a file by its path from `top`. Raises OSError, also for a symbolic link."""
    *folders, file = names
    directory = os.open(top, _FOLDER)
    try:
        for name in folders:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=directory)
            below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=directory)
            os.close(directory)
            directory = below
        return os.open(file, _APPEND | os.O_NOFOLLOW, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise OSError("a symbolic link or a file is in its path") from error
        raise
    finally:
        os.close(directory)


class OutFile:
    """An append-only file: each piece is written with one call, so that the records of several
    processes do not mix."""

    def __init__(self, path: Path, within: Path | None = None) -> None:
        """Opens `path`; creates it and its directories readable by the user only. In the directory
        `within` no symbolic link is followed. Raises OSError."""
        if within is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, _APPEND, 0o600)
        else:
            self._descriptor = _open_below(within, path.relative_to(within).parts)
        try:
            found = os.fstat(self._descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError("it is not a regular file")
            size = found.st_size
            self._fragment = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, piece: bytes) -> None:
        """Appends whole lines; begins a new line if the last write was cut short. Raises
        OSError."""
        data = memoryview(b"\n" + piece if self._fragment else piece)
        while data:
            written = os.write(self._descriptor, data)
            self._fragment = written < len(data)
            data = data[written:]

    def close(self) -> None:
        """Closes the file; nothing can be appended afterwards."""
        os.close(self._descriptor)


SCOPE = "gemini-cli"
ATTRIBUTE_LIMIT = 128


class RecordOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Source of the records. `auth_type`: authentication method of the session's model, if any."""

    session_id: str
    installation_id: str
    interactive: bool = False
    auth_type: str | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes that every record has."""
        common: dict[str, Any] = {
            "session.id": self.session_id,
            "installation.id": self.installation_id,
            "interactive": self.interactive,
        }
        return common if self.auth_type is None else common | {"auth_type": self.auth_type}


class RecordFormatter:
    """Formats the records and metrics of one origin."""

    def __init__(self, origin: RecordOrigin) -> None:
        self._common = origin.attributes
        self._resource = resource(origin.session_id)

    def log_record(self, record: TelemetryRecord, time_ns: int) -> bytes:
        """Formats a record made at this time."""
        attributes: dict[str, Any] = {
            **self._common,
            "event.name": record.event_name,
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
        """Formats the metrics counted up to this time."""
        measured = metrics.scope_metrics(self._common, time_ns)
        scope = {"scope": {"name": SCOPE, "version": ""}, "metrics": measured}
        return _lines({"resource": self._resource, "scopeMetrics": [scope]})


def resource(session_id: str) -> dict[str, Any]:
    """Describes this process and machine. Omits the command line, which may contain a prompt."""
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


class Sink(Protocol):
    """Takes the records of a session, from one thread. Methods may raise OSError."""

    def write(self, record: TelemetryRecord, time_ns: int, context: Any = None) -> None:
        """Takes a record made at this time, in an OpenTelemetry context if there is one."""
        ...

    def flush(self, time_ns: int) -> None:
        """Writes the metrics up to this time."""
        ...

    def close(self) -> None:
        """Takes nothing from now on."""
        ...

    def problem(self) -> str | None:
        """A message saying why something was lost that no method raised."""
        ...


class FileSink:
    """Writes records and metrics to a file."""

    def __init__(self, outfile: OutFile, form: RecordFormatter, start_ns: int) -> None:
        self._outfile = outfile
        self._form = form
        self._metrics = Metrics()
        self._metrics.start(start_ns)

    def write(self, record: TelemetryRecord, time_ns: int, context: Any = None) -> None:
        """Appends a record. Raises OSError."""
        del context
        self._metrics.take(record, time_ns)
        self._outfile.append(self._form.log_record(record, time_ns))

    def flush(self, time_ns: int) -> None:
        """Appends the metrics if they changed. Raises OSError."""
        if not self._metrics.changed:
            return
        try:
            self._outfile.append(self._form.metrics(self._metrics, time_ns))
        except OSError:
            self._metrics.changed = True
            raise

    def close(self) -> None:
        """Closes the file."""
        self._outfile.close()

    def problem(self) -> str | None:
        """None: its methods raise."""
        return None


MAX_WAITING = 10_000
"""Maximum number of events in the queue; later ones are dropped and counted."""

CLOSE_S = 5.0
"""Seconds to wait at session end for the queue to be written."""

_Item = tuple[int, Event | TelemetryRecord, Any] | threading.Event | None
"""Queue item: an event or record with its time and its context; an event to set once all before it
is written; or None for the end."""


QUIET_S = 0.02
"""Seconds without a new event after which the queue is worked off: the session then waits for the
model or a person, and loses no time to it."""
BACKLOG = 1_000
"""Number of events at which the queue is worked off at once."""


class Telemetry:
    """Gives a session's telemetry to a sink, in a thread of its own. Subscribe `feed` to the
    events; `flush` and `close` wait for the sink.

    Write errors never stop the session: `take_problem` reports them once.
    """

    def __init__(
        self,
        sink: Sink,
        translation: Translation,
        *,
        name: str,
        clock: Callable[[], int] = time.time_ns,
        waiting: int = MAX_WAITING,
        close_s: float = CLOSE_S,
    ) -> None:
        """`name`: name of the file or endpoint in messages; `clock`: nanoseconds since 1970;
        `close_s`: seconds that the end of the session waits."""
        self._context: Callable[[], Any] = lambda: None
        self._close_s = close_s
        self._sink = sink
        self._translation = translation
        self._name = name
        self._clock = clock
        self._waiting = waiting
        self._items: SimpleQueue[_Item] = SimpleQueue()
        self._left_out = 0
        self._lost = 0
        self._reason = ""
        self._told = False
        self._wanted = threading.Event()
        self._latest = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._write_all, name="telemetry", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # for a session that is never closed

    def follow(self, context: Callable[[], Any]) -> None:
        """Gives each record the OpenTelemetry context that `context` returns when its event is
        fed."""
        self._context = context

    def feed(self, event: Event) -> None:
        """Queues an event. Never waits, never raises."""
        if self._translation.takes(event):
            self._enqueue(event)

    def record(self, record: TelemetryRecord) -> None:
        """Queues a record that does not come from an event."""
        self._enqueue(record)

    def flush(self, timeout_s: float = CLOSE_S) -> bool:
        """Waits until queued records and the metrics are written; False on timeout."""
        if self._closing:
            return not self._thread.is_alive()
        reached = threading.Event()
        self._items.put(reached)
        self._wanted.set()
        return reached.wait(timeout_s)

    def close(self, timeout_s: float | None = None) -> bool:
        """Writes what is queued and closes the sink; later events are ignored. False on timeout."""
        if not self._closing:
            self._closing = True
            self._items.put(None)
            self._wanted.set()
            atexit.unregister(self.close)
        self._thread.join(self._close_s if timeout_s is None else timeout_s)
        return not self._thread.is_alive()

    def take_problem(self) -> str | None:
        """A message saying why the file is incomplete; None if it is complete or after the first
        call."""
        elsewhere = None if self._told else self._sink.problem()
        late = self._closing and self._thread.is_alive()
        if self._told or not (self._lost or self._left_out or late or elsewhere):
            return None
        self._told = True
        if elsewhere:
            return elsewhere
        if self._lost:
            return f"telemetry: cannot write to {self._name}: {self._reason}; records are missing."
        return f"telemetry: {self._name} takes the records too slowly; some are missing."

    def _enqueue(self, item: Event | TelemetryRecord) -> None:
        if self._closing:
            return
        if self._items.qsize() >= self._waiting:
            self._left_out += 1
        else:
            self._items.put((self._clock(), item, self._context()))
            self._latest = time.monotonic()

    def _write_all(self) -> None:
        """Body of the thread: writes queued items until the end, whatever errors the file gives."""
        while (item := self._items.get()) is not None:
            self._let_the_session_work()
            if isinstance(item, threading.Event):
                self._flush()
                self._wanted.clear()
                item.set()
            else:
                self._write(*item)
        self._flush()
        try:
            self._sink.close()
        except OSError as error:
            self._lose(error)

    def _let_the_session_work(self) -> None:
        """Returns after a while without events, or when a task waits for the queue."""
        while self._items.qsize() < BACKLOG:
            left = self._latest + QUIET_S - time.monotonic()
            if left <= 0 or self._wanted.wait(left):
                return

    def _write(self, time_ns: int, item: Event | TelemetryRecord, context: Any) -> None:
        if isinstance(item, TelemetryRecord):
            records = iter((self._translation.redact_record(item),))
        else:
            records = self._translation.records(item)
        try:
            for record in records:
                self._sink.write(record, time_ns, context)
        # OSError comes from a file, the others from values that JSON cannot encode.
        except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
            self._lose(error)

    def _flush(self) -> None:
        try:
            self._sink.flush(self._clock())
        except OSError as error:
            self._lose(error)

    def _lose(self, error: Exception) -> None:
        self._lost += 1
        if not self._reason:
            reason = error.strerror if isinstance(error, OSError) else None
            self._reason = reason or str(error)
