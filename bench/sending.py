"""What stands between a history and the first byte of its request."""

import asyncio
import time
from collections.abc import Callable

from alhena.chat.chat import Chat, ModelTraits, Outlets
from alhena.chat.history import History
from alhena.models.gemini_api import GeminiApi, service_from
from alhena.wire.calls import CallIds
from alhena.wire.conformance.gate import RequestGate
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part, text_content
from alhena.wire.encode import EncodedContent, encode_request
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    Tool,
)
from bench.measure import median_ms, row
from bench.server import BenchServer, text_answer

ROUNDS = 21
CONTENTS = 200
MEGABYTE = 1_000_000
CONFIG = GenerateContentConfig(
    system_instruction=text_content("user", "x" * 8000),
    tools=(
        Tool(
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


def history(contents: int, size: int) -> list[Content]:
    """Steps of two calls each, with results that make it `size` bytes in all."""
    text = "line of a file\n" * (2 * size // contents // 15)
    made: list[Content] = []
    while len(made) < contents:
        calls = [
            FunctionCall(id=f"{len(made)}-{n}", name=f"tool_{n}", args={"a": "x"}) for n in (0, 1)
        ]
        results = [
            FunctionResponse(id=call.id, name=call.name, response={"output": text})
            for call in calls
        ]
        made += [
            text_content("user", "go on"),
            Content(role="model", parts=tuple(Part(function_call=call) for call in calls)),
            Content(role="user", parts=tuple(Part(function_response=one) for one in results)),
            text_content("model", "done"),
        ]
    return made


def run() -> None:
    _check()
    _first_request()


def _check() -> None:
    entries = tuple(map(EncodedContent, history(CONTENTS, 100_000)))
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
        (f"check of {CONTENTS} contents, all of them new", full, 1.0),
        (f"check of {CONTENTS} contents, two of them new", further, 0.1),
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
    """CPU time of the thread that sends, for the whole exchange: more than up to the first byte."""
    contents = history(400, MEGABYTE)
    ours, base = [], []
    with BenchServer(text_answer) as server:
        environ = {"GOOGLE_GEMINI_BASE_URL": server.url}
        asyncio.run(_exchange(environ, contents[:4]))
        for _ in range(ROUNDS):
            base.append(asyncio.run(_exchange(environ, contents[:4])))
            ours.append(asyncio.run(_exchange(environ, contents)))
    value, small = median_ms(ours), median_ms(base)
    row(
        "first request of a 1 MB history, CPU time",
        f"{value:.2f} ms",
        f"of 4 contents {small:.2f} ms",
        value / small,
        "<= 3 ms",
        ok=value <= 3,
    )


async def _exchange(environ: dict[str, str], contents: list[Content]) -> float:
    async def pace() -> None:
        pass

    outlets = Outlets(lambda _event: None, pace)
    generator = GeminiApi(service_from(environ, "key"), environ=environ)
    given = History(contents)
    chat = Chat(generator, ModelTraits(name="m"), CONFIG, given, outlets, CallIds("t"))
    start = time.thread_time()
    await chat.send((Part(text="go on"),), "p")
    spent = time.thread_time() - start
    await generator.aclose()
    return spent
