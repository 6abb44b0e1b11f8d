"""The gateway on a socket: uvicorn, with limits of time for slow clients and an orderly end."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import traceback
from collections.abc import Callable, Generator
from types import FrameType

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from alhena.config.errors import ConfigError
from alhena.gateway.access_log import STALLED, Entry, LiningProtocol, entry_of
from alhena.gateway.body import Limits
from alhena.gateway.exchange import Terms

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TICKS_PER_SECOND = 10
_POLL_S = 0.005
_LAST_S = 0.5
"""How long clients have to take the error that ends their answer when the gateway stops."""
_LOGGERS = ("uvicorn.error", "asyncio", "concurrent.futures")
"""Who else has something to say of the server. Without a reader of its own Python writes it to
standard error, which stops the loop when nobody reads that."""


class StallWatch:
    """Calls `give_up` when a client takes nothing of what waits in `transport` for so long. One
    that takes a little is waited for, however slow it is."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.WriteTransport,
        patience_s: float,
        give_up: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._patience_s = patience_s
        self._give_up = give_up
        self._timer = self._begun()

    def stop(self) -> None:
        """Ends the watch."""
        self._timer.cancel()

    def _begun(self) -> asyncio.TimerHandle:
        waiting = self._transport.get_write_buffer_size()
        return self._loop.call_later(self._patience_s, self._judge, waiting)

    def _judge(self, before: int) -> None:
        if self._transport.get_write_buffer_size() < before:
            self._timer = self._begun()
        else:
            self._give_up()


def note_stall(entry: Entry, log: Callable[[str], None] | None) -> None:
    """Notes in the entry of a request that its client takes nothing. `log` is there when the entry
    is in the log already, as that of an answer sent whole: it is then written once more."""
    entry.outcome = STALLED
    if log is not None:
        log(entry.line())


def protocol_for(limits: Limits, log: Callable[[str], None]) -> type[H11Protocol]:
    """The HTTP protocol, which gives up clients that send the head of a request too slowly, and
    those that take nothing of what is sent to them, as `log` then says."""

    class PatientProtocol(LiningProtocol):
        """One connection."""

        _head: asyncio.TimerHandle | None = None
        _stall: StallWatch | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head = _cancelled(self._head)
            if self._stall is not None:
                self._stall.stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:
                self._await_head()
            else:
                self._head = _cancelled(self._head)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stall = StallWatch(self.loop, self.transport, limits.stall_s, self._give_up)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._stall is not None:
                self._stall.stop()

        def _give_up(self) -> None:
            note_stall(entry_of(self.scope), log if self.cycle.response_complete else None)
            self.transport.abort()

        def _await_head(self) -> None:
            if self._head is None:
                self._head = self.loop.call_later(limits.head_s, self.transport.abort)

    return PatientProtocol


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class _Defects(logging.Handler):
    """What the server itself has to say, in the form of the access log. Answers that the end of
    the server cuts short are no defects."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):
            return
        told = {"level": record.levelname.lower(), "message": record.getMessage()}
        if error is not None:
            told["traceback"] = "".join(traceback.format_exception(error))
        self._log(msgspec.json.encode(told).decode("utf-8") + "\n")


class GatewayServer(uvicorn.Server):
    """Serves until it is stopped. With `signals` it ends in good order at the first SIGINT or
    SIGTERM, at once at the second. `started` is called when connections are accepted; `log` gets a
    line of JSON for each defect, with its traceback."""

    def __init__(
        self,
        app: ASGIApp,
        terms: Terms,
        *,
        started: Callable[[], None],
        log: Callable[[str], None],
        signals: bool = False,
    ) -> None:
        super().__init__(_config(app, terms.limits, log))
        self._tell_started = started
        self._defects = _Defects(log)
        self._signals = _SIGNALS if signals else ()
        self._stop_s = terms.limits.stop_s
        self._closing = terms.closing
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Ends the server in good order: answers under way are finished."""
        self.should_exit = True
        self._stopped.set()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves on bound sockets."""
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addHandler(self._defects)
        try:
            await super().serve(sockets)
        finally:
            for logger in loggers:
                logger.removeHandler(self._defects)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen, and says so."""
        await super().startup(sockets)
        self._tell_started()

    async def main_loop(self) -> None:
        """Waits for the end; once a second the date that answers bear is renewed."""
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += _TICKS_PER_SECOND
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._stopped.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes no more connections, and closes each when its answer has been sent. Answers that
        take too long end with an error. What is left then, since its client takes nothing, is cut
        off; all has closed what stands behind it before this returns."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        await self._until_still(self._stop_s)
        self._closing.close()
        await self._until_still(_LAST_S)
        late = list(state.tasks)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for connection in list(state.connections):
            connection.transport.abort()

    async def _until_still(self, seconds: float) -> None:
        state = self.server_state
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while state.tasks or state.connections:
                    if state.tasks:
                        await asyncio.wait(set(state.tasks))
                    else:  # what has been written is on its way
                        await asyncio.sleep(_POLL_S)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Takes the signals while the server runs; they are not raised again behind it."""
        self._loop = asyncio.get_running_loop()
        before = {number: signal.signal(number, self.handle_exit) for number in self._signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Takes a signal."""
        del frame
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        if self._loop is not None:
            # The loop may be waiting, and does not see a signal that Python handles.
            self._loop.call_soon_threadsafe(self._stopped.set)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 is any that is free. Raises ConfigError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}.",
            remedy="Give another address by --host and --port; --port 0 takes a free port.",
        ) from error
    return listener


def _config(app: ASGIApp, limits: Limits, log: Callable[[str], None]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol_for(limits, log),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=max(1, round(limits.keep_alive_s)),
        h11_max_incomplete_event_size=limits.head_bytes,
    )
