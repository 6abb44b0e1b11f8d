"""The loop's overhead per turn, the cost of many calls in one response, and many turns beside the
reference."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.measure import (
    ALHENA,
    environment,
    median_ms,
    reference,
    row,
    row_above,
    signed_in_reference,
    wall,
)
from bench.server import BenchServer, candidate, event, text_answer

TURNS = 205
WINDOW = 5
"""Figures at turn n are the median of the surrounding turns."""


def _call(path: Path, offset: int) -> dict[str, Any]:
    args = {"absolute_path": str(path), "offset": 0, "limit": 1000 + offset}
    return {"functionCall": {"name": "read_file", "args": args}}


def _gaps(server: BenchServer) -> list[float]:
    """Seconds from a response's end to the next request's first byte, turn by turn."""
    return [
        after - before for before, after in zip(server.sent, server.first_bytes[1:], strict=False)
    ]


def _spans(server: BenchServer) -> list[float]:
    """Seconds from a request's first byte to its last one, turn by turn."""
    return [last - first for first, last in zip(server.first_bytes, server.last_bytes, strict=True)]


def run(home: Path, cwd: Path) -> None:
    path = cwd / "kilobyte.txt"
    path.write_text(
        "".join(f"line {n:03} of some text\n" for n in range(44))[:1000], encoding="utf-8"
    )
    env = environment(home)

    def answer(index: int) -> bytes:
        if index >= TURNS:
            return text_answer(index)
        return event(candidate(_call(path, index)))

    with BenchServer(answer) as server:
        settings = env | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"}
        _loop(settings, cwd)
        ours, spans = _gaps(server), _spans(server)
    with BenchServer(answer) as server, BenchServer(lambda _index: b"") as collector:
        told = {
            "GOOGLE_GEMINI_BASE_URL": server.url,
            "GEMINI_TELEMETRY_ENABLED": "true",
            "GEMINI_TELEMETRY_OTLP_ENDPOINT": collector.url,
            "GEMINI_TELEMETRY_OTLP_PROTOCOL": "http",
        }
        _loop(settings | told, cwd)
        traced = _gaps(server)
    with BenchServer(answer) as server:
        port = server.url.rsplit(":", 1)[1]
        minimal = str(Path(__file__).parent / "minimal.py")
        subprocess.run([sys.executable, minimal, port, str(TURNS + 1), str(path)], check=True)
        theirs, their_spans = _gaps(server), _spans(server)
    for turn, limit in ((10, 3), (200, 6)):
        window = slice(turn - WINDOW, turn + WINDOW)
        value, base = median_ms(ours[window]), median_ms(theirs[window])
        row(
            f"loop overhead at turn {turn}, one read_file",
            f"{value:.2f} ms",
            f"minimal client {base:.2f} ms",
            value / base,
            f"<= {limit} ms",
            ok=value <= limit,
        )
    value, base = median_ms(spans), median_ms(their_spans)
    row(
        "a request at the server, first to last byte",
        f"{value:.2f} ms",
        f"minimal client {base:.2f} ms",
        value / base,
        "<= 2 ms",
        ok=value <= 2,
    )
    window = slice(100, 190)
    value, base = median_ms(traced[window]), median_ms(ours[window])
    row_above("a turn with OTLP on", value, "a turn without", base, 0.3)
    _many_calls(path, env, cwd)
    _against_reference(path, env, cwd)


def _loop(env: dict[str, str], cwd: Path) -> None:
    """A run with more turns than a prompt may take, through the library."""
    program = (
        "import asyncio\n"
        "from alhena import Agent\n"
        "async def main():\n"
        "    async with Agent('gemini-3.8-flash') as agent:\n"
        "        await agent.ask('hi')\n"
        "asyncio.run(main())\n"
    )
    wall([sys.executable, "-c", program], cwd, env)


def _many_calls(path: Path, env: dict[str, str], cwd: Path) -> None:
    def answer(index: int) -> bytes:
        if index == 1:
            return event(candidate(*(_call(path, n) for n in range(100))))
        return event(candidate(_call(path, 0))) if index == 0 else text_answer(index)

    gaps, base = [], []
    for _ in range(5):
        with BenchServer(answer) as server:
            settings = env | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"}
            wall([*ALHENA, "-m", "gemini-3.8-flash", "-p", "hi"], cwd, settings)
            gaps.append(_gaps(server)[1])
        with BenchServer(answer) as server:
            port = server.url.rsplit(":", 1)[1]
            minimal = str(Path(__file__).parent / "minimal.py")
            subprocess.run([sys.executable, minimal, port, "3", str(path)], check=True)
            base.append(_gaps(server)[1])
    beside = "minimal client"
    row_above("100 read_file calls in one response", median_ms(gaps), beside, median_ms(base), 25)


def _against_reference(path: Path, env: dict[str, str], cwd: Path) -> None:
    """Whole runs of so many reads, one a turn, by turns with the reference."""
    command = reference("sequential reads against the reference")
    if command is None:
        return
    settings, chosen = signed_in_reference(env)
    # Both would ask the model for loops, the reference from its thirtieth turn on.
    settings.write_text(
        json.dumps(chosen | {"model": {"disableLoopDetection": True}}), encoding="utf-8"
    )
    prompt = ["-m", "gemini-3.8-flash", "--skip-trust", "-p", "hi"]
    for reads, limit in ((50, 0.10), (200, 0.12)):
        ours, theirs = [], []
        for _ in range(3):
            ours.append(_reads([*ALHENA, *prompt], reads, path, env, cwd))
            theirs.append(_reads([*command, *prompt], reads, path, env, cwd))
        ratio = median_ms(ours) / median_ms(theirs)
        row(
            f"{reads} sequential reads against the reference",
            f"{median_ms(ours):.0f} ms",
            f"reference {median_ms(theirs):.0f} ms",
            ratio,
            f"<= {limit:.2f}",
            ok=ratio <= limit,
        )


def _reads(command: list[str], reads: int, path: Path, env: dict[str, str], cwd: Path) -> float:
    """Seconds of a run in which the model calls read_file `reads` times."""

    def answer(index: int) -> bytes:
        if index >= reads:
            return text_answer(index)
        args = {"file_path": str(path), "start_line": 1, "end_line": 1000 + index}
        return event(candidate({"functionCall": {"name": "read_file", "args": args}}))

    with BenchServer(answer) as server:
        loopback = env | {"GOOGLE_GEMINI_BASE_URL": server.url, "GEMINI_API_KEY": "x"}
        taken = wall(command, cwd, loopback)
        asked = len(server.first_bytes)
    if asked != reads + 1:
        raise SystemExit(f"{command[0]} sent {asked} requests for {reads} reads")
    return taken
