"""The interactive terminal: start to painted prompt, and the delay of a key echo while an answer
streams."""

import contextlib
import os
import pty
import select
import socket
import statistics
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import ALHENA, PASS, environment, median_ms, row, wall
from bench.server import candidate, event

ROUNDS = 11
KEYS = 60
CHUNKS = 600
CHUNK_S = 0.01
PAINT_MS = 220
ECHO_MS = 10
PLACEHOLDER = b"Type your message"
TEXT = (
    "A paragraph of **some** words that ends soon, with `code` in it. " * 4
    + "\n\n- an item\n- another one\n\n"
    + "```python\ndef function(argument):\n    return argument\n```\n\n"
)


def run(home: Path, cwd: Path) -> None:
    env = environment(home, TERM="xterm-256color")
    bare = [wall(PASS, cwd, env) for _ in range(ROUNDS)]
    painted = [_painted([*ALHENA, "-m", "demo"], cwd, env) for _ in range(ROUNDS)]
    value, base = median_ms(painted), median_ms(bare)
    row(
        "terminal, start to painted prompt",
        f"{value:.1f} ms",
        f"python -c pass {base:.1f} ms",
        value / base,
        f"<= {PAINT_MS} ms",
        ok=value <= PAINT_MS,
    )
    idle = _echoes(cwd, env, streaming=False)
    busy = _echoes(cwd, env, streaming=True)
    value, base = median_ms(busy), median_ms(idle)
    row(
        "terminal, key to echo while streaming",
        f"{value:.1f} ms",
        f"while idle {base:.1f} ms",
        value / base,
        f"<= {ECHO_MS} ms",
        ok=value <= ECHO_MS,
    )
    worst = statistics.quantiles(busy, n=20)[-1] * 1000
    row(
        "terminal, 95 % of keys while streaming",
        f"{worst:.1f} ms",
        f"while idle {statistics.quantiles(idle, n=20)[-1] * 1000:.1f} ms",
        None,
        f"<= {2 * ECHO_MS} ms",
        ok=worst <= 2 * ECHO_MS,
    )


class Child:
    """A command on its own terminal."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._near, far = pty.openpty()
        termios.tcsetwinsize(far, (30, 100))
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=far, stdout=far, stderr=far, start_new_session=True
        )
        os.close(far)

    def write(self, data: bytes) -> float:
        os.write(self._near, data)
        return time.perf_counter()

    def until(self, marker: bytes) -> float:
        """The time when these bytes have arrived."""
        seen = b""
        while marker not in seen:
            if not select.select([self._near], [], [], 10)[0]:
                raise TimeoutError(f"no {marker!r} in {seen[-500:]!r}")
            seen += os.read(self._near, 1 << 16)
        return time.perf_counter()

    def skip(self, seconds: float) -> None:
        """Reads output for a while."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            if select.select([self._near], [], [], left)[0]:
                os.read(self._near, 1 << 16)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._near)


def _painted(command: list[str], cwd: Path, env: dict[str, str]) -> float:
    child = Child(command, cwd, env)
    try:
        return child.until(PLACEHOLDER) - child.started
    finally:
        child.close()


def _echoes(cwd: Path, env: dict[str, str], *, streaming: bool) -> list[float]:
    """Seconds from key to echo, of keys that occur nowhere else."""
    with _slow_server() as url:
        env = env | {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": url}
        child = Child([*ALHENA, "-m", "m"], cwd, env)
        try:
            child.until(b"/help lists")
            child.skip(0.5)
            if streaming:
                child.write(b"go\r")
                child.until(b"paragraph")
            taken: list[float] = []
            for number in range(KEYS):
                key = chr(0x0391 + number).encode()  # letters outside all answers
                start = child.write(key)
                taken.append(child.until(key) - start)
                child.skip(0.043)
            return taken
        finally:
            child.close()


@contextlib.contextmanager
def _slow_server() -> Iterator[str]:
    """A model that keeps answering, a little at a time; yields its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.recv(1 << 20)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"connection: close\r\n\r\n"
                )
                for number in range(CHUNKS):
                    at = number * 40 % len(TEXT)
                    piece = (TEXT + TEXT)[at : at + 40]
                    connection.sendall(event(candidate({"text": piece}, finish=None)))
                    time.sleep(CHUNK_S)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(timeout=5)
