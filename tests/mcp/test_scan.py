"""How much there is in a text: functions of values."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from alhena.mcp.message_guard import MANY, MAX_DEPTH, Scan, scanned, scanned_in_steps

values = st.recursive(
    st.none() | st.integers() | st.text(st.sampled_from('"\\[]{},: aä')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('"\\[{,')), inner),
    max_leaves=30,
)


def counted(value: Any) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(counted, below))


@settings(max_examples=100)
@given(values, st.integers(1, 9), st.booleans())
@example(["\\" * 20, "[", []], 1, True)
def test_as_many_are_found_as_there_are_wherever_a_slice_ends(
    value: Any, size: int, ascii_only: bool
) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    scan = Scan(len(data))
    while data:
        piece = data[:size]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = data[: size + 1]
        scan.feed(piece)
        data = data[len(piece) :]
    empty = json.dumps(value).count("[]") + json.dumps(value).count("{}")
    assert counted(value) <= scan.values <= counted(value) + 1 + empty
    assert not scan.too_deep


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("beside", ["", '"[[[\\"",' * 20_000])
def test_depth_is_that_of_the_deepest(opening: str, closing: str, beside: str) -> None:
    for depth, too_deep in ((MAX_DEPTH, False), (MAX_DEPTH + 1, True)):
        inner = f"{opening * (depth - 1)}1{closing * (depth - 1)}"
        data = f"[{beside}{inner},{beside}[]]".encode()
        assert scanned(data, len(data)).too_deep is too_deep


async def test_a_long_text_leaves_others_their_turns_and_is_left_when_there_are_too_many() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    text = b'"' + b"x" * (8 << 20) + b'"'
    assert (await scanned_in_steps(text)).values == 1
    assert turns > 100
    turns = 0
    assert (await scanned_in_steps(b"[" + b"{}," * MANY * 100 + b"1]")).too_many
    assert turns < 5
    beside.cancel()
