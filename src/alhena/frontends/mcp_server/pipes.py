"""Standard input and output as the messages of an MCP client, without threads: one that waits for
a client would outlive any signal."""

import asyncio
import os
from collections.abc import Callable

from alhena.display_text import one_line
from alhena.frontends.streams import write_stderr

MAX_LINE = 32 << 20
"""Bytes of a message."""


class Incoming:
    """The messages of the client, one a line; ends when the client does, which `ended` is told."""

    def __init__(self, reader: asyncio.StreamReader, ended: Callable[[], object]) -> None:
        self._reader = reader
        self._ended = ended

    def __aiter__(self) -> "Incoming":
        return self

    async def __anext__(self) -> str:
        try:
            line = await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as ended:
            line = ended.partial
        except asyncio.LimitOverrunError as error:
            told = f"the client sent a message of more than {MAX_LINE >> 20} MB; it is not read on"
            write_stderr(f"alhena: warning: {one_line(told)}\n")
            self._ended()
            raise StopAsyncIteration from error
        if not line:
            self._ended()
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")


async def incoming(ended: Callable[[], object]) -> Incoming | None:
    """Standard input; None where it is no pipe. What is started meanwhile finds nothing there."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_LINE)
    own = os.fdopen(os.dup(0), "rb", buffering=0)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), own)
    except ValueError:  # a regular file
        own.close()
        return None
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.close(nothing)
    return Incoming(reader, ended)


class Outgoing:
    """What the client is told. Waits while it does not read, and can be cancelled then; `gone` is
    called when it never will again, and what is written after that is dropped."""

    def __init__(self, descriptor: int, gone: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._gone: Callable[[], object] | None = gone
        self._blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)

    async def write(self, text: str) -> None:
        """Writes all of a text."""
        rest = memoryview(text.encode("utf-8"))
        while rest and self._gone is not None:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                await self._writable()
            except (BrokenPipeError, ConnectionError):
                gone, self._gone = self._gone, None
                gone()

    async def flush(self) -> None:
        """Everything is written already."""

    def close(self) -> None:
        """Leaves the descriptor as it was, and closes it."""
        os.set_blocking(self._descriptor, self._blocking)
        os.close(self._descriptor)

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(self._descriptor)


def outgoing(gone: Callable[[], object]) -> Outgoing:
    """Standard output. What anything else writes there meanwhile goes to standard error."""
    own = os.dup(1)
    try:
        os.dup2(2, 1)
    except OSError:  # there is none
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nothing, 1)
        os.close(nothing)
    return Outgoing(own, gone)
