"""Messages over the standard input and output of a child: one JSON value per line, bounded.

A child that writes faster than it is read has to wait; an endless line ends the connection. The
tail of its stderr is kept. The child belongs to the session's process groups from the start: it
ends with them, and with this process, whatever happens to its client.
"""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from alhena.config.environment import without_secrets
from alhena.mcp.connection import McpConnectError, lost_body
from alhena.mcp.message_guard import MAX_MESSAGE, understood
from alhena.system.errors import ProcessStartError
from alhena.system.processes import ProcessCommand, ProcessGroups

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
import os
import signal

from alhena.system.child import Child, stop


class ServedProcess(Child):
    """A child with a pipe to its standard input. Its output goes to the sink it was started with;
    `pause` leaves it in the pipe, so that the child has to wait."""

    _input_end: int | None = None
    _output_end: int | None = None
    _paused = False
    on_output_end: Callable[[], None] = staticmethod(lambda: None)

    @property
    def output_ended(self) -> bool:
        """True when its standard output is closed."""
        return self._output_end not in self._pipes

    def start(
        self,
        sink: Callable[[bytes], None],
        errors: Callable[[bytes], None] | None = None,
        *,
        mark: int = 0,
    ) -> None:
        """Starts it. Raises ProcessStartError."""
        super().start(sink, errors, mark=mark)
        self._output_end = next(iter(self._pipes))

    async def write(self, data: bytes) -> None:
        """Returns when the pipe has taken all of `data`. Raises OSError (BrokenPipeError) when the
        child has closed its input. Must not be called by two tasks at once."""
        left = memoryview(data)
        while left:
            if self._input_end is None:
                raise BrokenPipeError("the input of the process is closed")
            try:
                left = left[os.write(self._input_end, left) :]
            except BlockingIOError:
                await self._writable(self._input_end)

    def close_input(self) -> None:
        """Closes the child's input. Can be called again."""
        pipe, self._input_end = self._input_end, None
        if pipe is not None:
            self._loop.remove_writer(pipe)
            os.close(pipe)

    def pause(self) -> None:
        """Stops reading its output for now."""
        if not self._paused and not self.output_ended and self._output_end is not None:
            self._paused = True
            self._loop.remove_reader(self._output_end)

    def resume(self) -> None:
        """Resumes reading its output."""
        if self._paused and not self.output_ended and self._output_end is not None:
            self._paused = False
            self._loop.add_reader(self._output_end, self._read, self._output_end)

    def drop_output(self) -> None:
        """Does nothing: the client still needs its output."""

    def release(self) -> None:
        """Reads the rest of its pipes and closes them; the process is reaped now or at its end."""
        if not self._loop.is_closed():
            self.close_input()
        super().release()

    def _standard_input(self) -> int | None:
        try:
            reading, writing = os.pipe()
        except OSError as error:
            raise ProcessStartError(f"No pipe for the input: {error.strerror}.") from error
        os.set_blocking(writing, False)
        self._input_end = writing
        return reading

    def _close_pipe(self, pipe: int) -> None:
        super()._close_pipe(pipe)
        if pipe == self._output_end:
            self.on_output_end()

    async def _writable(self, pipe: int) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        self._loop.add_writer(pipe, wake)
        try:
            await asyncio.wait({ready, self.exited}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._input_end == pipe:
                self._loop.remove_writer(pipe)
        if not ready.done():
            raise BrokenPipeError("the process has ended")


def start_served_process(
    command: ProcessCommand,
    groups: ProcessGroups,
    sink: Callable[[bytes], None],
    errors: Callable[[bytes], None],
) -> ServedProcess:
    """Starts `command`, ignoring its `stdin`; its stderr goes to `errors`. Raises
    ProcessStartError."""
    child = ServedProcess(command.argv, command.cwd, command.env, merge_stderr=False)
    groups.watchdog.expect()
    try:
        child.start(sink, errors, mark=groups.marks.next())
    except BaseException:
        child.close_input()
        groups.watchdog.forget()
        raise
    try:
        groups.watch(child.pid)
    except BaseException:
        child.signal(signal.SIGKILL)
        child.release()
        raise
    groups.keep(child, command.label)
    return child


async def end_served_process(
    child: ServedProcess, groups: ProcessGroups, patience_s: float
) -> None:
    """Ends it with its process tree: closes its input, waits `patience_s` seconds, then sends
    SIGTERM and SIGKILL."""
    child.close_input()
    try:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(child.exited), patience_s)
    finally:
        await stop(child)
        child.release()
        groups.unwatch(child.pid)


HELD = 1024 * 1024
"""Bytes of complete messages that may be queued before the child has to wait."""

LINE = 256
"""Cost of a line beside its bytes: a thousand short lines take as long as long ones."""

TAIL = 4096
"""Bytes of stderr kept."""

MAX_SAID = 500
"""Maximum characters of stderr in a message."""

MAX_EXCERPT = 120
"""Maximum bytes of an invalid message in an error."""

LAST_WORDS_S = 0.3
"""Seconds a child has to exit after its output ended, so that its exit status can be reported."""

PATIENCE_S = 0.5
"""Seconds a child has to exit after its input was closed."""


class LineSplitter:
    """Splits bytes into lines. `problem` is set when no further line can follow."""

    def __init__(self, limit: int = MAX_MESSAGE) -> None:
        self._limit = limit
        self._begun: list[bytes] = []
        self._length = 0
        self._whole: deque[bytes] = deque()
        self.held = 0
        self.problem = ""

    def feed(self, data: bytes) -> None:
        """Adds bytes; data after a line that is too long is dropped."""
        if self.problem:
            return
        first, *rest = data.split(b"\n")
        self._begun.append(first)
        self._length += len(first)
        for piece in rest:
            self._end_line()
            self._begun.append(piece)
            self._length = len(piece)
            if self.problem:
                return
        if self._length > self._limit:
            self._give_up()

    def take(self) -> bytes | None:
        """The next complete line; None when there is none yet."""
        if not self._whole:
            return None
        line = self._whole.popleft()
        self.held -= len(line) + LINE
        return line

    def _end_line(self) -> None:
        if self._length > self._limit:
            self._give_up()
            return
        line = b"".join(self._begun).strip()
        self._begun.clear()
        self._length = 0
        if line:
            self._whole.append(line)
            self.held += len(line) + LINE

    def _give_up(self) -> None:
        self._begun.clear()
        self.problem = f"it sent a message of more than {self._limit:,} bytes"


class Tail:
    """The last bytes of an output."""

    def __init__(self, size: int = TAIL) -> None:
        self._size = size
        self._bytes = b""
        self._cut = False

    def feed(self, data: bytes) -> None:
        """Adds bytes."""
        whole = self._bytes + data
        self._cut = self._cut or len(whole) > self._size
        self._bytes = whole[-self._size :]

    @property
    def text(self) -> str:
        """The kept text, stripped. A line without its beginning is dropped: a truncated secret
        cannot be detected."""
        kept = self._bytes
        if self._cut:
            kept = kept.partition(b"\n")[2]
        return kept.decode("utf-8", "replace").strip()


@asynccontextmanager
async def stdio_transport(
    command: ProcessCommand,
    groups: ProcessGroups,
    ended: Callable[[str], None],
    harmless: Callable[[str], str] = str,
    load: Callable[[], Awaitable[None]] | None = None,
) -> AsyncGenerator["TransportStreams"]:
    """Starts a child and yields the SDK's pair of streams; `load` imports the SDK meanwhile.
    `ended` receives the reason for the end of the messages, with the tail of stderr redacted by
    `harmless`. Raises McpConnectError."""
    talk = _Talk(command, groups, harmless)
    try:
        if load is not None:
            await load()
        async with _streams(talk, ended) as streams:
            yield streams
    finally:
        import anyio

        with anyio.CancelScope(shield=True):
            await end_served_process(talk.child, groups, PATIENCE_S)


@asynccontextmanager
async def _streams(
    talk: "_Talk", ended: Callable[[str], None]
) -> AsyncGenerator["TransportStreams"]:
    import anyio

    to_session, from_child = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    to_child, from_session = anyio.create_memory_object_stream["SessionMessage"](0)

    reporting = anyio.Lock()

    async def read() -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with to_session:
                async for line in talk.lines():
                    await to_session.send(_message(line))
                await talk.last_words()
                async with reporting:  # the caller of what could not be written hears of it first
                    ended(talk.why("its output"))

    async def write() -> None:
        async with from_session:
            async for item in from_session:
                try:
                    await talk.child.write(_encode_message(item))
                except OSError:
                    async with reporting:
                        await talk.last_words()
                        why = talk.why("its input")
                        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                            await to_session.send(_delivery_error(item, why))
                    ended(why)
                    return

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield from_child, to_child
            finally:
                tasks.cancel_scope.cancel()
    finally:
        for stream in (from_child, to_child, to_session, from_session):
            stream.close()


class _Talk:
    """A child, its output, and notifications of both."""

    def __init__(
        self, command: ProcessCommand, groups: ProcessGroups, harmless: Callable[[str], str] = str
    ) -> None:
        self._lines = LineSplitter()
        self._errors = Tail()
        self._harmless = harmless
        self._news = asyncio.Event()
        try:
            self.child = start_served_process(
                command, groups, self._receive_data, self._errors.feed
            )
        except ProcessStartError as error:
            raise McpConnectError(error.message.rstrip(".")) from error
        self.child.exited.add_done_callback(lambda _done: self._news.set())
        self.child.on_output_end = self._news.set

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields complete lines until the end."""
        over = False
        while not over and not self._lines.problem:
            self._news.clear()
            if self.child.exited.done():
                self.child.read_available()  # its last output
            over = self.child.exited.done() or self.child.output_ended
            while (line := self._lines.take()) is not None:
                if self._lines.held <= HELD:
                    self.child.resume()
                yield line
            if not over:
                await self._news.wait()

    async def last_words(self) -> None:
        """Waits for a silent child to exit, so that its exit status can be reported."""
        if not self._lines.problem:
            await asyncio.wait({self.child.exited}, timeout=LAST_WORDS_S)
            self.child.read_available()

    def why(self, closed: str) -> str:
        """The reason why there are no more lines; `closed` names the closed stream."""
        if self._lines.problem:
            return self._lines.problem
        text = cause_in(without_secrets(self._harmless(self._errors.text)))
        said = f": {text}" if text else ""
        code = self.child.reap()
        if code is None:
            return f"it closed {closed}{said}"
        how = f"signal {-code} ended it" if code < 0 else f"it exited with code {code}"
        return f"{how}{said}"

    def _receive_data(self, data: bytes) -> None:
        self._lines.feed(data)
        if self._lines.held > HELD or self._lines.problem:
            self.child.pause()
        self._news.set()


_FRAME = re.compile(r'^\s*File "[^"\n]*", line \d+')
_GROUP = re.compile(r"^ *(?:\| )+|^ *\+[-+]*[ \d.-]*\+?-*$")
_SCRIPT_ERROR = re.compile(r"^(?:Uncaught )?[A-Za-z]*Error\b")


def cause_in(text: str) -> str:
    """Finds the cause in the last output of a program: what follows the frames of a Python
    traceback, the error of a JavaScript stack, else the end."""
    lines = [_GROUP.sub("", line) for line in text.splitlines()]
    frames = [at for at, line in enumerate(lines) if _FRAME.match(line)]
    errors = [at for at, line in enumerate(lines) if _SCRIPT_ERROR.match(line)]
    if frames:
        rest = lines[frames[-1] + 1 :]
        begins = (at for at, line in enumerate(rest) if line and not line[0].isspace())
        first = next(begins, None)
        if first is not None:
            return "\n".join(line for line in rest[first:] if line)[:MAX_SAID]
    elif errors and any(line.startswith("    at ") for line in lines):
        return lines[errors[-1]][:MAX_SAID]
    return text[-MAX_SAID:]


def _message(line: bytes) -> "SessionMessage | Exception":
    """Decodes a line to a message or an error."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        message = jsonrpc_message_adapter.validate_python(understood(line)[0], by_name=False)
    except ValueError as error:
        return ValueError(f"a line that is no message: {_excerpt(line)} ({type(error).__name__})")
    return SessionMessage(message)


def _delivery_error(item: "SessionMessage", why: str) -> "SessionMessage | Exception":
    """The error for a request that could not be written: it can be sent to a new process."""
    number: object = getattr(item.message, "id", None)
    if number is None:
        return ValueError(why)
    lost = msgspec.json.decode(lost_body(why))
    return _message(msgspec.json.encode(lost | {"id": number}))


def _excerpt(line: bytes) -> str:
    """Its beginning, without a truncated word: half a secret cannot be detected."""
    text = line[:MAX_EXCERPT].decode("utf-8", "replace")
    if len(line) > MAX_EXCERPT:
        text = text.rpartition(" ")[0] + "…"
    return f"'{text}'"


def _encode_message(item: "SessionMessage") -> bytes:
    plain = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
    return msgspec.json.encode(plain) + b"\n"
