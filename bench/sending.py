"""The time from a history to the first byte of its request."""

import asyncio
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from random import Random
from typing import Self

from msgspec.structs import replace

from alhena.chat.chat import Chat, Outlets
from alhena.chat.history import History
from alhena.chat.turn import ModelTraits
from alhena.http.connect import Channel
from alhena.models.providers.vertex import VertexApi, vertex_service
from alhena.models.service import FixedAccess
from alhena.wire.conformance.check import RequestGate
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part, text_content
from alhena.wire.encode import EncodedContent, encode_request
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    ToolDeclarations,
)
from bench.measure import median_ms, row
from bench.server import BenchServer, text_answer

ROUNDS = 21
FRESH = 7
CONTENTS = 200
MEGABYTE = 1_000_000
CONFIG = GenerateContentConfig(
    system_instruction=text_content("user", "x" * 8000),
    tools=(
        ToolDeclarations(
            function_declarations=tuple(
                FunctionDeclaration(
                    name=f"tool_{n}",
                    description="d" * 500,
                    parameters_json_schema={
                        "type": "object",
                        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                    },
                )
                for n in range(17)
            )
        ),
    ),
)


def history(contents: int, size: int, *, calls: int = 2, signed: int = 0) -> list[Content]:
    """Steps of some calls each, with results for a total of `size` bytes. With `signed` the first
    call of each step has a unique signature of that many bytes."""
    text = "line of a file\n" * (4 * size // contents // calls // 15)
    random = Random(contents)
    made: list[Content] = []
    while len(made) < contents:
        asked = [
            FunctionCall(id=f"{len(made)}-{n}", name=f"tool_{n}", args={"a": "x"})
            for n in range(calls)
        ]
        results = [
            FunctionResponse(id=call.id, name=call.name, response={"output": text})
            for call in asked
        ]
        parts = [Part(function_call=call) for call in asked]
        if signed:
            signature = b64encode(random.randbytes(signed * 3 // 4)).decode("ascii")
            parts[0] = replace(parts[0], thought_signature=signature)
        made += [
            text_content("user", "go on"),
            Content(role="model", parts=tuple(parts)),
            Content(role="user", parts=tuple(Part(function_response=one) for one in results)),
            text_content("model", "done"),
        ]
    return made


def wordy(contents: int, pieces: int) -> list[Content]:
    """Prompts, and answers streamed in many pieces."""
    answer = text_content("model", *(f"piece {n}" for n in range(pieces)))
    return [text_content("user", "go on"), answer] * (contents // 2)


def run() -> None:
    for name, contents in (
        ("", history(CONTENTS, 100_000)),
        (" with signatures of 1200 bytes", history(CONTENTS, 100_000, signed=1200)),
        (" with 8 calls a step", history(CONTENTS, 100_000, calls=8)),
        (" of 20 texts in each answer", wordy(CONTENTS, 20)),
    ):
        _check(name, contents)
    _first_request()


def _check(kind: str, contents: list[Content]) -> None:
    entries = tuple(map(EncodedContent, contents))
    more = tuple(EncodedContent(text_content(role, "x")) for role in ("user", "model", "user"))
    full, further, base = [], [], []
    for _ in range(ROUNDS):
        gate = RequestGate()
        first = GenerateContentRequest(model="m", contents=(*entries, more[0]), config=CONFIG)
        then = GenerateContentRequest(model="m", contents=(*entries, *more), config=CONFIG)
        full.append(_time(lambda gate=gate, first=first: gate.admit(first)))
        further.append(_time(lambda gate=gate, then=then: gate.admit(then)))
        base.append(_time(lambda then=then: encode_request(then)))
    join = median_ms(base)
    for name, times, limit in (
        (f"check of {CONTENTS} contents{kind}, all of them new", full, 1.0),
        (f"check of {CONTENTS} contents{kind}, two of them new", further, 0.1),
    ):
        value = median_ms(times)
        row(
            name,
            f"{value:.3f} ms",
            f"joining the body {join:.3f} ms",
            value / join,
            f"<= {limit} ms",
            ok=value <= limit,
        )


def _time(work: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def _first_request() -> None:
    """CPU time of the sending thread, from plain contents to the first bytes passed to a
    connection: encoding, checking, and joining the first piece of the body. Once in a process that
    has allocated the memory before, and once as the first request of a process."""
    ours, base = [], []
    with BenchServer(text_answer) as server:
        environ = {"GOOGLE_VERTEX_BASE_URL": server.url}
        asyncio.run(_until_sent(environ, history(4, 10_000)))
        for _ in range(ROUNDS):
            base.append(asyncio.run(_until_sent(environ, history(4, 10_000))))
            ours.append(asyncio.run(_until_sent(environ, history(400, MEGABYTE))))
        fresh = [_in_a_fresh_process(server.url) for _ in range(FRESH)]
    small = median_ms([cpu_s for cpu_s, _ in base])
    for name, times, limit in (
        ("first request of a 1 MB history, CPU time before its first byte", ours, 3.0),
        ("the same, as the first of a process", fresh, 5.0),
    ):
        value = median_ms([cpu_s for cpu_s, _ in times])
        wall = median_ms([wall_s for _, wall_s in times])
        row(
            name,
            f"{value:.2f} ms",
            f"wall {wall:.2f} ms, of 4 contents {small:.2f} ms",
            value / small,
            f"<= {limit:g} ms",
            ok=value <= limit,
        )


def _in_a_fresh_process(url: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.sending", url]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    cpu_s, wall_s = map(float, run.stdout.split())
    return cpu_s, wall_s


class _Clock:
    """Records the time of the first bytes passed to a connection."""

    def __init__(self) -> None:
        self.sent: tuple[float, float] | None = None
        self._write = Channel.write

    def __enter__(self) -> Self:
        async def write(channel: Channel, data: bytes, idle: float) -> None:
            if self.sent is None:
                self.sent = (time.thread_time(), time.perf_counter())
            await self._write(channel, data, idle)

        Channel.write = write  # pyright: ignore[reportAttributeAccessIssue]
        return self

    def __exit__(self, *_: object) -> None:
        Channel.write = self._write


async def _until_sent(environ: dict[str, str], contents: list[Content]) -> tuple[float, float]:
    """Seconds of CPU time, and of wall time."""
    access = FixedAccess({"x-goog-api-key": "key"}, remedy="")
    generator = VertexApi(vertex_service(environ), access, environ=environ)
    await _send(generator, [])  # connects
    with _Clock() as clock:
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        await _send(generator, contents)
    await generator.aclose()
    if clock.sent is None:
        raise AssertionError("no request was sent")
    return clock.sent[0] - cpu_s, clock.sent[1] - wall_s


async def _send(generator: VertexApi, contents: list[Content]) -> None:
    async def pace() -> None:
        pass

    outlets = Outlets(lambda _event: None, pace)
    given = History(contents)
    chat = Chat(generator, ModelTraits(name="m"), CONFIG, given, outlets)
    await chat.send((Part(text="go on"),), "p")


if __name__ == "__main__":  # a process whose first request has a long history
    found = asyncio.run(
        _until_sent({"GOOGLE_VERTEX_BASE_URL": sys.argv[1]}, history(400, MEGABYTE))
    )
    print(*found)
