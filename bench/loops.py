"""The cost of loop detection: for a streamed text, and for the calls of a turn."""

import random
import time

from alhena.chat.loops import CalledTool, CallLoops, Chanting
from alhena.wire.content import FunctionResponse, Part
from bench.measure import median_ms, row

CHARACTERS = 1_000_000
PIECE = 80
TURNS = 2_000
RESULT = 40_000


def _prose() -> str:
    """Words without repetition."""
    chance = random.Random(1)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words: list[str] = []
    size = 0
    while size < CHARACTERS:
        words.append("".join(chance.choices(letters, k=chance.randint(2, 9))))
        size += len(words[-1]) + 1
    return "".join(word + chance.choice("       \n") for word in words)[:CHARACTERS]


def _seconds(text: str, piece: int) -> tuple[float, float]:
    """Seconds to check a text in pieces, and to only split it into lines."""
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    chanting, start = Chanting(), time.perf_counter()
    for each in pieces:
        assert chanting.feed(each) is None
    middle = time.perf_counter()
    assert len("".join(pieces).split("\n")) > CHARACTERS // 100
    return middle - start, time.perf_counter() - middle


def _turn(result: str, offset: int) -> list[CalledTool]:
    response = FunctionResponse(id="1", name="read_file", response={"output": result})
    return [CalledTool("read_file", {"offset": offset}, (Part(function_response=response),))]


def run() -> None:
    text = _prose()
    for name, piece, limit in (("one piece", CHARACTERS, 20), (f"pieces of {PIECE}", PIECE, 40)):
        tried = [_seconds(text, piece) for _ in range(5)]
        value, base = median_ms([mine for mine, _ in tried]), median_ms([bare for _, bare in tried])
        row(
            f"looking for chants in 1 MB, {name}",
            f"{value:.1f} ms",
            f"its lines {base:.2f} ms",
            value / base,
            f"<= {limit} ms",
            ok=value <= limit,
        )
    for name, step, limit in (("a new page", 1, 0.3), ("the same call", 0, 1.5)):
        loops, bare = CallLoops(), 0.0
        turns = [_turn(f"{n} {text[:RESULT]}", n * step) for n in range(TURNS)]
        start = time.perf_counter()
        for turn in turns:
            loops.feed(turn)
        value = (time.perf_counter() - start) * 1000 / TURNS
        start = time.perf_counter()
        for turn in turns:
            response = turn[0].result[0].function_response
            assert response is not None
            hash(response.response["output"])
        bare = (time.perf_counter() - start) * 1000 / TURNS
        row(
            f"a turn with 40 kB, {name}",
            f"{value:.3f} ms",
            f"one hash {bare:.3f} ms",
            value / bare,
            f"<= {limit} ms",
            ok=value <= limit,
        )
