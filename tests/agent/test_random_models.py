"""Whatever a model does, a run ends, every call has its answer, and nothing malformed is sent."""

import asyncio
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alhena import tool
from alhena.agent.limits import LoopError, TokenLimitError, TurnLimitError
from alhena.events import LoopDetectedEvent, ToolCallRequestEvent, ToolCallResponseEvent
from tests.agent.kit import agent, conforming, events_of
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk

CHANT = "Let me think about that once more before I go on. " * 60
TURN = st.one_of(
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.just("chant"),
    st.just("talk"),
)
RUNS = st.lists(st.tuples(TURN, st.integers(1, 12)), max_size=6)


def scripted(turn: list[int] | str) -> Script:
    used = {"promptTokenCount": 90, "candidatesTokenCount": 10, "totalTokenCount": 100}
    if isinstance(turn, str):
        said = CHANT if turn == "chant" else "That is all."
        return [chunk({"text": said}, finish="STOP", usage=used)]
    calls = [call("act", {"kind": kind}) for kind in turn]
    return [chunk(*calls, finish="STOP", usage=used)]


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(RUNS, st.integers(3, 40), st.sampled_from([None, 500, 3_000]))
def test_any_script_comes_to_an_end_in_good_order(
    project: Path, runs: list[tuple[list[int] | str, int]], max_turns: int, max_tokens: int | None
):
    count = 0

    @tool
    async def act(kind: int) -> str:
        """0 always says the same, 1 always fails alike, 2 gets on, 3 says one of two things."""
        nonlocal count
        count += 1
        if kind == 1:
            raise ValueError("no such thing")
        return {0: "the same", 2: f"step {count}", 3: f"side {count % 2}"}[kind]

    async def play() -> None:
        turns = [scripted(turn) for turn, times in runs for _ in range(times)]
        generator = ScriptedGenerator(*turns, *[scripted("talk")] * 2)
        async with agent(
            generator, tools=[act], max_turns=max_turns, max_tokens=max_tokens
        ) as running:
            events, error = await events_of(running, "go")
        assert error is None or isinstance(error, LoopError | TurnLimitError | TokenLimitError)
        asked = [event.call_id for event in events if isinstance(event, ToolCallRequestEvent)]
        answered = [event.call_id for event in events if isinstance(event, ToolCallResponseEvent)]
        assert sorted(asked) == sorted(answered)
        told = [event.action for event in events if isinstance(event, LoopDetectedEvent)]
        expected = [["corrected", "ended"]] if isinstance(error, LoopError) else [[], ["corrected"]]
        assert told in expected
        assert len(generator.requests) <= max_turns
        if max_tokens is not None:
            assert len(generator.requests) <= max_tokens // 100
        assert conforming(generator)

    asyncio.run(play())
