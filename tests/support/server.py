"""A loopback HTTP server that plays a script and records what it was sent."""

import json
import socket
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Reply:
    """A scripted reply. `pieces` are written and flushed one by one; with `cut` the connection is
    dropped after them; `hold` is waited for before the last piece."""

    status: int = 200
    content_type: str = "application/json"
    pieces: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hold: threading.Event | None = None


def sse(*chunks: Any, **options: Any) -> Reply:
    """A stream of JSON chunks as server-sent events."""
    pieces = [b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks]
    return Reply(content_type="text/event-stream", pieces=pieces, **options)


def json_reply(value: Any, status: int = 200, **options: Any) -> Reply:
    return Reply(status=status, pieces=[json.dumps(value).encode()], **options)


def chunk(*parts: dict[str, Any], finish: str | None = None, usage: Any = None) -> dict[str, Any]:
    """One GenerateContentResponse in wire form."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    response: dict[str, Any] = {"candidates": [candidate]}
    if usage:
        response["usageMetadata"] = usage
    return response


def text(value: str, finish: str | None = "STOP") -> dict[str, Any]:
    return chunk({"text": value}, finish=finish)


def call(name: str, args: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """A functionCall part; `id=` and `thoughtSignature=` as extras."""
    part: dict[str, Any] = {"functionCall": {"name": name, "args": args}}
    if "id" in extra:
        part["functionCall"]["id"] = extra.pop("id")
    return part | extra


class Handler(BaseHTTPRequestHandler):
    """Plays the script of the ScriptedServer it belongs to."""

    protocol_version = "HTTP/1.1"
    script: "ScriptedServer"

    def setup(self) -> None:
        super().setup()
        self.script.connections += 1
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def finish(self) -> None:
        super().finish()
        self.script.closed.release()

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionResetError:
            self.script.disconnected.set()

    def log_message(self, *_args: Any) -> None:
        pass

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {key.lower(): value for key, value in self.headers.items()}
        reply = self.script.take(Received(self.command, self.path, headers, body))
        try:
            self._write(reply)
        except (BrokenPipeError, ConnectionResetError):
            self.script.disconnected.set()
            self.close_connection = True

    do_POST = do_GET

    def _write(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        for key, value in reply.headers.items():
            self.send_header(key, value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for position, piece in enumerate(reply.pieces):
            if reply.hold and position == len(reply.pieces) - 1:
                self._hold(reply.hold)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if reply.cut:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _hold(self, hold: threading.Event) -> None:
        """Waits for the test, noticing a client that goes away."""
        self.connection.settimeout(0.02)
        while not hold.is_set():
            try:
                if self.connection.recv(1, socket.MSG_PEEK) == b"":
                    raise BrokenPipeError
            except TimeoutError:
                continue
        self.connection.settimeout(None)


WINDOW_PATHS = ("/v1/models", "/props", "/api/show", "/api/ps")
"""The paths at which servers tell the windows of their models."""


class Listener(ThreadingHTTPServer):
    """Has room for hundreds of connections at once; the usual 5 make each further one wait for the
    kernel's retransmissions, up to a minute."""

    request_queue_size = 1024
    daemon_threads = True


class ScriptedServer:
    """`reply()` queues answers in order; a request past the script is answered 599."""

    def __init__(self, *, host: str = "127.0.0.1") -> None:
        self.requests: list[Received] = []
        self.connections = 0
        self.closed = threading.Semaphore(0)
        """Released for each connection that has been closed."""
        self.disconnected = threading.Event()
        self.hides_windows = True
        self._replies: deque[Reply] = deque()
        handler = type("BoundHandler", (Handler,), {"script": self})
        self._server = Listener((host, 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def reply(self, *replies: Reply) -> None:
        self._replies.extend(replies)

    def take(self, received: Received) -> Reply:
        """Records a request and hands out the next reply of the script. Questions for a model's
        window are no part of it."""
        if received.path in WINDOW_PATHS and self.hides_windows:
            return Reply(status=404)
        self.requests.append(received)
        return self._replies.popleft() if self._replies else Reply(status=599)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
