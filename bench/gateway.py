"""The gateway's added delay in a stream, and 200 concurrent streams.

Upstream, gateway and load are separate processes; chunks include their send time on the system's
monotonic clock. Each round requests directly and through the gateway in turn, and the median of the
differences counts. A relay that only forwards bytes is measured for comparison: its cost is that of
any process in between, mostly the kernel's wake-ups.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.measure import ALHENA, environment, row

PACED, PACE_S = 100, 0.002
PACED_ROUNDS = 25
"""Many short rounds: other load then affects both halves of a round alike."""
COSTED = 400
FAST = 4000
STREAMS, EACH = 200, 500
ROUNDS = 7
_MARK = b"@"

_OPENAI = {"model": "gpt", "stream": True, "messages": [{"role": "user", "content": "go"}]}
_ANTHROPIC = {**_OPENAI, "max_tokens": 100}
_GEMINI = {"contents": [{"role": "user", "parts": [{"text": "go"}]}]}
_STREAM = "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
_KINDS: tuple[tuple[str, str, Mapping[str, object]], ...] = (
    ("anthropic", "/v1/messages", _ANTHROPIC),
    ("openai", "/v1/chat/completions", _OPENAI),
    ("gemini", _STREAM, _GEMINI),
)


class _Taken:
    """The measurements of one stream: seconds to its first byte, and the delay of each chunk."""

    def __init__(self) -> None:
        self.first_s = 0.0
        self.whole_s = 0.0
        self.chunks = 0
        self.delays: list[float] = []
        self.ended = False


async def _take(port: int, path: str, body: dict[str, object]) -> _Taken:
    taken = _Taken()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    start = time.monotonic()
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    rest = b""
    while piece := await reader.read(1 << 16):
        now = time.monotonic_ns()
        if b"HTTP/1.1 " not in piece[:9] or b"data: " in piece:
            taken.first_s = taken.first_s or time.monotonic() - start
        marks = (rest + piece).split(_MARK)
        whole = (len(marks) - 1) // 2
        rest = _MARK.join(marks[2 * whole :])
        for stamp in marks[1 : 2 * whole : 2]:
            taken.chunks += 1
            taken.delays.append((now - int(stamp)) / 1e9)
        if piece.endswith(b"0\r\n\r\n"):
            taken.ended = True
            break
    taken.whole_s = time.monotonic() - start
    writer.close()
    return taken


def _asking(kind: Mapping[str, object], prompt: str) -> dict[str, object]:
    if "contents" in kind:
        return {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    return {**kind, "messages": [{"role": "user", "content": prompt}]}


class _Running(NamedTuple):
    """Ports, and process ids."""

    upstream: int
    relay: int
    gateway: int
    relay_pid: int
    gateway_pid: int


@contextlib.contextmanager
def _processes(home: Path, cwd: Path) -> Iterator["_Running"]:
    """The processes of a measurement, stopped at its end."""
    started: list[subprocess.Popen[str]] = []
    try:
        server = [sys.executable, "-m", "bench.gateway_upstream"]
        here = environment(home, PYTHONPATH=str(Path(__file__).parent.parent))
        started.append(subprocess.Popen(server, env=here, stdout=subprocess.PIPE, text=True))
        upstream = int(_line(started[0]))
        server.append(str(upstream))
        started.append(subprocess.Popen(server, env=here, stdout=subprocess.PIPE, text=True))
        relay = int(_line(started[1]))
        env = environment(
            home, GEMINI_API_KEY="key", GOOGLE_GEMINI_BASE_URL=f"http://127.0.0.1:{upstream}"
        )
        started.append(
            subprocess.Popen(
                [*ALHENA, "serve", "--port", "0"],
                cwd=cwd,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
        gateway = int(_line(started[2]).rpartition(":")[2])
        yield _Running(upstream, relay, gateway, started[1].pid, started[2].pid)
    finally:
        for process in started:
            process.terminate()
            process.wait(timeout=10)
            if process.stdout is not None:
                process.stdout.close()


def _line(process: subprocess.Popen[str]) -> str:
    if process.stdout is None:
        raise RuntimeError("the process has no standard output")
    return process.stdout.readline()


def _peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _scheduled(pid: int) -> Path:
    return Path(f"/proc/{pid}/schedstat")


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process's main thread."""
    return int(_scheduled(pid).read_text(encoding="ascii").split()[0]) / 1e9


async def _many(port: int) -> tuple[int, int, float]:
    """The number of chunks, the number of finished streams, and the seconds of all together."""
    body = _asking(_ANTHROPIC, f"{EACH} 0")
    start = time.monotonic()
    taken = await asyncio.gather(*(_take(port, "/v1/messages", body) for _ in range(STREAMS)))
    whole = time.monotonic() - start
    return sum(one.chunks for one in taken), sum(one.ended for one in taken), whole


async def _measure(running: _Running) -> None:
    upstream, relay, gateway, _, pid = running
    paced, fast, one = f"{PACED} {PACE_S}", f"{FAST} 0", "1 0"

    async def delay(port: int, path: str, kind: Mapping[str, object]) -> float:
        return statistics.median((await _take(port, path, _asking(kind, paced))).delays)

    async def first_byte(port: int, path: str, kind: Mapping[str, object]) -> float:
        return (await _take(port, path, _asking(kind, one))).first_s

    async def at_full_speed(port: int, path: str, kind: Mapping[str, object]) -> float:
        return (await _take(port, path, _asking(kind, fast))).whole_s / FAST

    await _take(relay, _STREAM, _asking(_GEMINI, one))
    for name, path, kind in _KINDS:
        await _take(gateway, path, _asking(kind, one))
        for what, take, limit_ms, rounds in (
            ("a chunk's delay", delay, 0.15, PACED_ROUNDS),
            ("the first byte", first_byte, 5, ROUNDS),
            ("a chunk at full speed", at_full_speed, 0.15, ROUNDS),
        ):
            pairs: list[tuple[float, float]] = []
            for _ in range(rounds):
                direct = await take(upstream, _STREAM, _GEMINI)
                pairs.append((await take(gateway, path, kind), direct))
            _told(f"gateway, {name}: {what}", pairs, limit_ms)
    beside = [
        (await delay(relay, _STREAM, _GEMINI), await delay(upstream, _STREAM, _GEMINI))
        for _ in range(PACED_ROUNDS)
    ]
    _told("a bare relay: a chunk's delay", beside, None)
    await _measure_cpu(running)
    chunks, ended, seconds = await _many(gateway)
    peak = _peak_mb(pid)
    row(
        f"gateway: {STREAMS} streams of {EACH} chunks",
        f"{chunks} in {seconds:.1f} s",
        f"{STREAMS * EACH}",
        None,
        "all of them",
        ok=chunks == STREAMS * EACH and ended == STREAMS,
    )
    row("gateway: peak memory", f"{peak:.0f} MB", "", None, "<= 150 MB", ok=peak <= 150)


async def _measure_cpu(running: _Running) -> None:
    """CPU time of a paced chunk, which is more reliable than its delay on a busy machine; compared
    with the relay's, round by round."""
    if not _scheduled(running.gateway_pid).exists():
        return
    asked = f"{COSTED} {PACE_S}"

    async def cost(pid: int, port: int, path: str, kind: Mapping[str, object]) -> float:
        before = _cpu_s(pid)
        await _take(port, path, _asking(kind, asked))
        return (_cpu_s(pid) - before) / COSTED

    for name, path, kind in _KINDS:
        pairs = [
            (
                await cost(running.gateway_pid, running.gateway, path, kind),
                await cost(running.relay_pid, running.relay, _STREAM, _GEMINI),
            )
            for _ in range(ROUNDS)
        ]
        own, bare = (statistics.median(column) * 1e6 for column in zip(*pairs, strict=True))
        row(
            f"gateway, {name}: a chunk's processor time",
            f"{own:.0f} us",
            f"bare relay {bare:.0f} us",
            own / bare,
            "for comparison",
            ok=True,
        )


def _told(name: str, pairs: list[tuple[float, float]], limit_ms: float | None) -> None:
    """Prints the line for times through the gateway and direct ones, in seconds, round by round."""
    added = statistics.median(through - direct for through, direct in pairs) * 1000
    direct = statistics.median(direct for _, direct in pairs) * 1000
    row(
        name,
        f"+{added:.3f} ms",
        f"direct {direct:.3f} ms",
        (direct + added) / direct,
        f"+{limit_ms} ms" if limit_ms is not None else "for comparison",
        ok=limit_ms is None or added <= limit_ms,
    )


def run(home: Path, cwd: Path) -> None:
    with _processes(home, cwd) as running:
        asyncio.run(_measure(running))
