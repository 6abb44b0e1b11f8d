"""Standard input and output as the messages of an MCP client, without threads: one that waits for
a client would outlive any signal."""

import asyncio
import os
import stat
import sys
from collections.abc import Callable

from alhena.display_text import one_line
from alhena.errors import AlhenaError, InputError
from alhena.frontends.shared.streams import StreamError, write_stderr

MAX_LINE = 32 << 20
"""Bytes of a message."""
PIECE = 1 << 16
"""Bytes that are read at once."""

Ended = Callable[[AlhenaError | None], object]
"""Told that one direction is over: an error, or None where the client has gone."""


def check_streams(protocol: str = "MCP") -> None:
    """Raises InputError or OutputError where standard input and output lead to no client.

    A standard error that is closed is open to nothing afterwards: its number would be that of the
    next file that is opened, and have what others write to it.
    """
    if sys.stdin is None:
        raise _no_client(protocol, "is closed")
    if sys.stdout is None:
        raise StreamError("standard output is closed.")
    mode = os.fstat(0).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0)):
        raise _no_client(protocol, "is no pipe")
    try:
        os.fstat(2)
    except OSError:
        _redirect_to_null(2, os.O_WRONLY)


def _no_client(protocol: str, what: str) -> InputError:
    return InputError(
        f"there is no {protocol} client: standard input {what}.",
        remedy="Name this command in the settings of a client, which starts it with two pipes "
        "(`docker run` passes them with -i).",
    )


class Incoming:
    """The messages of the client, one a line; ends with the client; then calls `ended`."""

    def __init__(self, descriptor: int, ended: Ended, most: int = MAX_LINE) -> None:
        self._descriptor = descriptor
        self._ended = ended
        self._most = most
        self._blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)
        self._held = bytearray()
        self._over = False

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> str:
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0 and not self._over:
            searched = len(self._held)
            if searched > self._most:
                told = f"the client sent a message of more than {self._most >> 20} MB"
                write_stderr(f"alhena: warning: {one_line(told)}; it is not read on\n")
                self._end(None)
                self._held.clear()
                break
            self._held += await self._piece()
        size = end + 1 if end >= 0 else len(self._held)
        if not size:
            raise StopAsyncIteration
        line = self._held[:size]
        del self._held[:size]
        return line.decode("utf-8", "replace")

    def close(self) -> None:
        """Leaves the descriptor as it was, and closes it."""
        os.set_blocking(self._descriptor, self._blocking)
        os.close(self._descriptor)

    async def _piece(self) -> bytes:
        """The next bytes as soon as there are any; empty at the end of the input."""
        while True:
            try:
                found = os.read(self._descriptor, PIECE)
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _wait_ready(loop.add_reader, loop.remove_reader, self._descriptor)
                continue
            except ConnectionError:
                found = b""
            except OSError as error:
                reason = error.strerror or str(error)
                self._end(InputError(f"cannot read what the client sends: {reason}."))
                return b""
            if not found:
                self._end(None)
            return found

    def _end(self, error: AlhenaError | None) -> None:
        self._over = True
        self._ended(error)


def open_incoming(ended: Ended, most: int = MAX_LINE) -> Incoming:
    """Standard input, with messages of at most that many bytes. What is started meanwhile finds
    nothing there."""
    own = os.dup(0)
    _redirect_to_null(0, os.O_RDONLY)
    return Incoming(own, ended, most)


class Outgoing:
    """Messages to the client. Writing waits while the client does not read, and can be cancelled;
    once the client never reads again, `ended` is called and later messages are dropped."""

    def __init__(self, descriptor: int, ended: Ended) -> None:
        self._descriptor = descriptor
        self._ended: Ended | None = ended
        self._blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)

    async def write(self, text: str) -> None:
        """Writes all of a text."""
        rest = memoryview(text.encode("utf-8"))
        while rest and self._ended is not None:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                loop = asyncio.get_running_loop()
                await _wait_ready(loop.add_writer, loop.remove_writer, self._descriptor)
            except OSError as error:
                ended, self._ended = self._ended, None
                ended(_write_error(error))

    async def flush(self) -> None:
        """Everything is written already."""

    def close(self) -> None:
        """Leaves the descriptor as it was, and closes it."""
        os.set_blocking(self._descriptor, self._blocking)
        os.close(self._descriptor)


async def _wait_ready(
    watch: Callable[[int, Callable[[], None]], object],
    forget: Callable[[int], object],
    descriptor: int,
) -> None:
    """Waits until the loop says so of a descriptor."""
    ready = asyncio.Event()
    watch(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        forget(descriptor)


def _write_error(error: OSError) -> StreamError | None:
    """None where there is no client any more."""
    if isinstance(error, ConnectionError):
        return None
    return StreamError(f"cannot write to the client: {error.strerror or error}.")


def open_outgoing(ended: Ended) -> Outgoing:
    """Standard output. What anything else writes there meanwhile goes to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    return Outgoing(own, ended)


def _redirect_to_null(descriptor: int, flags: int) -> None:
    nothing = os.open(os.devnull, flags | os.O_CLOEXEC)
    if nothing == descriptor:
        os.set_inheritable(nothing, True)
        return
    os.dup2(nothing, descriptor)
    os.close(nothing)
