"""The gateway on a socket: uvicorn, with limits of time for slow clients and an orderly end."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable, Generator
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from alhena.config.errors import ConfigError
from alhena.gateway.limits import Limits

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def protocol_for(limits: Limits) -> type[H11Protocol]:
    """The HTTP protocol, which gives up clients that send the head of a request too slowly, and
    those that do not take what is sent to them."""

    class PatientProtocol(H11Protocol):
        """One connection."""

        _head: asyncio.TimerHandle | None = None
        _stall: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head = _cancelled(self._head)
            self._stall = _cancelled(self._stall)
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:
                self._await_head()
            else:
                self._head = _cancelled(self._head)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stall = self.loop.call_later(limits.stall_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stall = _cancelled(self._stall)

        def _await_head(self) -> None:
            if self._head is None:
                self._head = self.loop.call_later(limits.head_s, self.transport.abort)

    return PatientProtocol


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class GatewayServer(uvicorn.Server):
    """Serves until it is stopped. With `signals` it ends in good order at the first SIGINT or
    SIGTERM, at once at the second. `started` is called when connections are accepted."""

    def __init__(
        self, app: ASGIApp, limits: Limits, started: Callable[[], None], *, signals: bool = False
    ) -> None:
        super().__init__(_config(app, limits))
        self._tell_started = started
        self._signals = _SIGNALS if signals else ()

    def stop(self) -> None:
        """Ends the server in good order: answers under way are finished."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen, and says so."""
        await super().startup(sockets)
        self._tell_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Takes the signals while the server runs; they are not raised again behind it."""
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


def _config(app: ASGIApp, limits: Limits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol_for(limits),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=max(1, round(limits.keep_alive_s)),
        timeout_graceful_shutdown=max(1, round(limits.stop_s)),
        h11_max_incomplete_event_size=limits.head_bytes,
    )
