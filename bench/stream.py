"""The cost of 2,000 streamed chunks from bytes to events."""

import json
import time

from alhena.chat.turn import AnswerCollector
from alhena.wire.content import CallIds
from alhena.wire.encode import decode_response
from alhena.wire.sse import SseDecoder
from bench.measure import median_ms, row
from bench.server import candidate, event

CHUNKS = 2000
ROUNDS = 9


def run() -> None:
    chunks = [event(candidate({"text": f"word {n} "}, finish=None)) for n in range(CHUNKS)]
    payloads = [chunk.removeprefix(b"data: ") for chunk in chunks]
    ours, base = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for payload in payloads:
            json.loads(payload)
        base.append(time.perf_counter() - start)
        start = time.perf_counter()
        decoder, events = SseDecoder(), []
        turn = AnswerCollector("p", CallIds("t"), events.append)
        for chunk in chunks:
            for payload in decoder.feed(chunk):
                turn.feed(decode_response(payload))
        ours.append(time.perf_counter() - start)
        assert len(events) == CHUNKS
    value, theirs = median_ms(ours), median_ms(base)
    row(
        "2,000 chunks, bytes to events",
        f"{value:.1f} ms",
        f"json.loads alone {theirs:.1f} ms",
        value / theirs,
        "<= 20 ms",
        ok=value <= 20,
    )
