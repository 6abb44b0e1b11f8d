"""The gateway on a socket: uvicorn, with timeouts for slow clients and graceful shutdown."""

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

from alhena.errors import ConfigError
from alhena.gateway.access_log import STALLED, ChunkedProtocol, LogEntry, entry_of
from alhena.gateway.body import GatewayLimits
from alhena.gateway.exchange import AnswerTerms

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_TICKS_PER_SECOND = 10
_POLL_S = 0.005
_LAST_S = 0.5
"""Seconds for clients to read the error that ends their answer at shutdown."""
_LOGGERS = ("uvicorn.error", "asyncio", "concurrent.futures")
"""Loggers that report on the server. Without a handler Python writes their records to standard
error, which blocks the loop when it is not read."""


class StallWatch:
    """Calls `give_up` when a client accepts nothing of the data waiting in `transport` for too
    long. A slow client is not disconnected while it makes progress."""

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
        self._timer = self._start_timer()

    def stop(self) -> None:
        """Stops watching."""
        self._timer.cancel()

    def _start_timer(self) -> asyncio.TimerHandle:
        waiting = self._transport.get_write_buffer_size()
        return self._loop.call_later(self._patience_s, self._judge, waiting)

    def _judge(self, before: int) -> None:
        if self._transport.get_write_buffer_size() < before:
            self._timer = self._start_timer()
        else:
            self._give_up()


def note_stall(entry: LogEntry, log: Callable[[str], None] | None) -> None:
    """Records in a request's log entry that its client is stalled. `log` is given if the entry was
    already logged, for an answer sent at once: it is then logged again."""
    entry.outcome = STALLED
    if log is not None:
        log(entry.line())


def protocol_for(limits: GatewayLimits, log: Callable[[str], None]) -> type[H11Protocol]:
    """The HTTP protocol, which disconnects clients that send the head of a request too slowly or
    accept no data, and logs that to `log`."""

    class PatientProtocol(ChunkedProtocol):
        """One connection."""

        _head: asyncio.TimerHandle | None = None
        _stall: StallWatch | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head = _cancel_timer(self._head)
            if self._stall is not None:
                self._stall.stop()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:
                self._await_head()
            else:
                self._head = _cancel_timer(self._head)

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


def _cancel_timer(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class _Defects(logging.Handler):
    """Logs the server's own records in the form of the access log. Answers cut short by shutdown
    are not defects."""

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
    """Serves until stopped. With `signals` it shuts down gracefully at the first SIGINT or SIGTERM,
    at once at the second. `started` is called when connections are accepted; `log` gets a line of
    JSON for each defect, with its traceback."""

    def __init__(
        self,
        app: ASGIApp,
        terms: AnswerTerms,
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
        """Shuts down gracefully: current answers are finished."""
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
        """Starts listening and reports it."""
        await super().startup(sockets)
        self._tell_started()

    async def main_loop(self) -> None:
        """Waits for the end; updates the date header of answers every second."""
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += _TICKS_PER_SECOND
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._stopped.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts no more connections, and closes each after its answer. Slow answers end with an
        error. Connections whose client accepts nothing are then cut; all upstream connections are
        closed before this returns."""
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
                    else:  # its data has been sent
                        await asyncio.sleep(_POLL_S)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handles signals while the server runs; they are not raised again afterwards."""
        self._loop = asyncio.get_running_loop()
        before = {number: signal.signal(number, self.handle_exit) for number in self._signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles a signal."""
        del frame
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        if self._loop is not None:
            # A waiting loop does not notice a signal handled by Python.
            self._loop.call_soon_threadsafe(self._stopped.set)


def listening_socket(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; port 0 means any free one. Raises ConfigError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen()  # until then another gateway can be bound to it as well
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}.",
            remedy="Give another address by --host and --port; --port 0 takes a free port.",
        ) from error
    return listener


def _config(app: ASGIApp, limits: GatewayLimits, log: Callable[[str], None]) -> uvicorn.Config:
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
