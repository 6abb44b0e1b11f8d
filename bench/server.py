"""A loopback model server on plain sockets that records the time of each request's first byte."""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, Self

Answer = Callable[[int], bytes]
"""The response's event-stream bytes for the n-th request, counted from 0."""


_EVENTS = b"text/event-stream"
_STREAMS = b":streamGenerateContent"


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"


def candidate(*parts: dict[str, Any], finish: str | None = "STOP") -> dict[str, Any]:
    found: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish:
        found["finishReason"] = finish
    return {"candidates": [found]}


def text_answer(_index: int) -> bytes:
    return event(candidate({"text": "hi"}))


class BenchServer:
    """`first_bytes[i]`, `last_bytes[i]` and `sent[i]` are perf_counter seconds of the start and the
    end of request i, and of its answer's end. `streams` is True if the last request asked for
    events, not one JSON value. With `tls` it is reached over https, after a handshake of
    `handshake_s` seconds and what TLS takes."""

    def __init__(
        self, answer: Answer, tls: ssl.SSLContext | None = None, handshake_s: float = 0.0
    ) -> None:
        self.first_bytes: list[float] = []
        self.last_bytes: list[float] = []
        self.sent: list[float] = []
        self.body_bytes: list[int] = []
        self.streams = True
        self._answer = answer
        self._tls = tls
        self._handshake_s = handshake_s
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        start = "http://127.0.0.1" if self._tls is None else "https://localhost"
        return f"{start}:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                time.sleep(self._handshake_s)
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection:
                while self._exchange(connection):
                    pass

    def _exchange(self, connection: socket.socket) -> bool:
        data = connection.recv(1 << 16)
        first = time.perf_counter()
        if not data:
            return False
        while b"\r\n\r\n" not in data:
            data += connection.recv(1 << 16)
        head, _, body = data.partition(b"\r\n\r\n")
        length = _content_length(head)
        received = len(body)
        self.streams = _STREAMS in head.partition(b"\r\n")[0]
        while received < length:
            received += len(connection.recv(1 << 20))
        index = len(self.first_bytes)
        self.first_bytes.append(first)
        self.last_bytes.append(time.perf_counter())
        self.body_bytes.append(length)
        payload = self._answer(index)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s"
            % (_EVENTS if self.streams else b"application/json", len(payload), payload)
        )
        self.sent.append(time.perf_counter())
        return True


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0
