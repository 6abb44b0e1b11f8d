"""Generated runs: whatever a model does and wherever a run ends, no request breaks a rule."""

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from alhena import tool
from alhena.errors import AlhenaError, NetworkError
from alhena.events import Event, RunFinishedEvent, ToolCallRequestEvent, ToolCallResponseEvent
from alhena.wire.conformance.check import check_request
from alhena.wire.errors import Severity
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk


@tool
def works(word: str = "") -> str:
    """Answers."""
    return f"worked {word}"


@tool
def fails() -> str:
    """Fails."""
    raise RuntimeError("it broke")


@tool
async def waits() -> str:
    """Gives others a turn."""
    for _ in range(3):
        await asyncio.sleep(0)
    return "waited"


@tool(confirm=True)
def needs_consent() -> str:
    """Would have to be approved."""
    return "never"


TOOLS = (works, fails, waits, needs_consent)

calls = st.builds(
    call,
    st.sampled_from(["works", "fails", "waits", "needs_consent", "unknown", ""]),
    st.sampled_from([{}, {"word": "a"}, {"word": 1}, {"other": None}]),
)
signed = st.builds(lambda part: part | {"thoughtSignature": "c2ln"}, calls)
identified = st.builds(
    lambda part, name: part | {"functionCall": part["functionCall"] | {"id": name}},
    calls,
    st.sampled_from(["a", "b"]),
)
texts = st.sampled_from([{"text": "word "}, {"text": ""}, {"text": "**T** x", "thought": True}])
parts = st.lists(st.one_of(texts, calls, signed, identified), max_size=4)
chunks = st.builds(lambda found, finish: chunk(*found, finish=finish), parts, st.just(None))
ends = st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", None])
faults = st.sampled_from([None, None, None, NetworkError("gone")])
turns = st.builds(
    lambda found, end, fault: [*found, *([fault] if fault else []), chunk(finish=end)],
    st.lists(chunks, max_size=3),
    ends,
    faults,
)


async def _prompts(generator: ScriptedGenerator, model: str, cut_after: int) -> list[list[Event]]:
    """Three prompts to one agent; the second is interrupted after so many events."""
    runs: list[list[Event]] = []
    options = {"generator": generator, "max_turns": 4, "environ": {"HOME": "/nonexistent"}}
    async with scripted_agent(model=model, tools=TOOLS, **options) as running:
        for number in range(3):
            events: list[Event] = []
            try:
                async for event in running.run(f"prompt {number}"):
                    events.append(event)
                    if number == 1 and len(events) == cut_after:
                        running.interrupt()
            except AlhenaError:
                pass
            runs.append(events)
    return runs


@settings(max_examples=20, deadline=None)
@given(st.lists(turns, min_size=12, max_size=12), st.booleans(), st.integers(1, 30))
def test_every_request_conforms_and_every_call_is_answered_once(
    script: list[list[Any]], new_model: bool, cut_after: int
):
    generator = ScriptedGenerator(*script)
    model = "gemini-3-pro-preview" if new_model else "gemini-2.5-flash"
    runs = asyncio.run(_prompts(generator, model, cut_after))
    for request in generator.requests:
        found = check_request(request, needs_signatures=new_model)
        assert [item for item in found if item.level is Severity.ERROR] == []
    for events in runs:
        asked = [event.call_id for event in events if isinstance(event, ToolCallRequestEvent)]
        answered = [event.call_id for event in events if isinstance(event, ToolCallResponseEvent)]
        assert Counter(answered) == Counter(asked)
        assert isinstance(events[-1], RunFinishedEvent)
