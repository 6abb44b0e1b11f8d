"""Requests that the service refuses as too large: what it said is learned, and they are made to
fit."""

from pathlib import Path
from typing import Any

import pytest

from alhena.agent.between_prompts import compress
from alhena.agent.compression import question_limit
from alhena.chat.compression import TooLarge, too_large
from alhena.errors import AlhenaError, InterruptedRunError
from alhena.events import CompressedEvent
from alhena.models.errors import QuotaError, RequestRejectedError
from tests.agent.kit import agent, conforming, events_of
from tests.agent.test_compression import LONG, SNAPSHOT, compression_events, set_to
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text

GEMINI = "The input token count ({}) exceeds the maximum number of tokens allowed ({})."


def refusal_script(used: int, most: int) -> list[Any]:
    return [RequestRejectedError(f"rejected ({GEMINI.format(used, most)})", status=400)]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (GEMINI.format(1_058_724, 1_048_576), TooLarge(1_058_724, 1_048_576)),
        (
            "The input token count exceeds the maximum number of tokens allowed 1048576.",
            TooLarge(None, 1_048_576),
        ),
        (
            "This model's maximum context length is 8,192 tokens. However, you sent 9,000 tokens.",
            TooLarge(9_000, 8_192),
        ),
        ("prompt is too long: 210000 tokens > 200000 maximum", TooLarge(210_000, 200_000)),
        ("Prompt is too long", TooLarge(None, None)),
        (
            "input length and `max_tokens` exceed context limit: 181,488 + 32000 > 200000, decrease",
            TooLarge(181_488, 168_000),
        ),
        ("the request exceeds the available context size (4096 tokens)", TooLarge(None, 4_096)),
        (
            (
                "You passed 9,001 input tokens and requested 100 output tokens. However, the model's "
                "context length is only 4096 tokens."
            ),
            TooLarge(9_001, 4_096),
        ),
        ("Requested tokens (9000) exceed context window of 4096", TooLarge(9_000, 4_096)),
        (
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
                "Given: 9000 `inputs` tokens and 100 `max_new_tokens`"
            ),
            TooLarge(9_000, 4_096),
        ),
        (
            (
                "The number of tokens to keep from the initial prompt is greater than the context "
                "length (n_keep: 9000>= n_ctx: 4096)."
            ),
            TooLarge(9_000, 4_096),
        ),
        ("Reached context length of 4096 tokens with model (arch: x)", TooLarge(None, 4_096)),
        ("Your messages exceed the context window of this model.", TooLarge(None, None)),
        ("context length must be positive", None),
        ("Invalid argument: temperature", None),
        ("max_tokens is too large: 4096", None),
    ],
)
def test_what_services_say_is_understood(message: str, said: TooLarge | None):
    assert too_large(RequestRejectedError(message, status=400)) == said


@pytest.mark.parametrize(
    ("name", "window", "limit"),
    [
        ("anthropic:claude-sonnet-4-5", None, 191_808),
        ("anthropic:claude-sonnet-4-5", 1_000_000, 991_808),
        ("anthropic:mine", 4_096, 3_072),
        ("openai:mine", 4_096, 4_096),
        ("gemini-2.5-pro", None, 1_048_576),
    ],
)
def test_beside_what_claude_is_asked_there_is_room_for_an_answer(
    name: str, window: int | None, limit: int
):
    assert question_limit(name, window) == limit


def test_other_errors_are_of_no_account():
    assert too_large(QuotaError("prompt is too long", status=429)) is None
    assert too_large(InterruptedRunError("prompt is too long")) is None


@pytest.mark.parametrize("threshold", [0.5, 0.0])
async def test_a_request_that_is_refused_is_made_to_fit_and_sent_again(threshold: float):
    summary = [[text(SNAPSHOT)], [text(SNAPSHOT)]] if threshold else []
    generator = ScriptedGenerator(
        [text("one")],
        [text("two")],
        refusal_script(90_000, 60_000),
        *summary,
        [text("three")],
        [text("4")],
    )
    async with agent(generator, settings=set_to(threshold)) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        events, error = await events_of(running, "third")
        assert error is None
        expected = "compressed" if threshold else "content_truncated"
        assert [event.status for event in compression_events(events)] == [expected]
        sent = generator.seen(-1)
        assert sent[-1]["parts"] == [{"text": "third"}]
        assert LONG not in str(sent)
        assert await running.ask("fourth") == "4"
    assert conforming(generator)


async def test_a_request_for_a_summary_that_is_refused_is_made_with_less_in_it():
    generator = ScriptedGenerator(
        [text("one")],
        [text("two")],
        refusal_script(40_000, 30_000),
        [text(SNAPSHOT)],
        [text(SNAPSHOT)],
    )
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        event = await compress(running)
    assert event.status == "compressed"
    assert LONG in str(generator.seen(2))
    assert LONG not in str(generator.seen(3))
    assert LONG[:1_000] in str(generator.seen(3))
    assert conforming(generator)


async def test_results_that_are_too_large_for_a_small_window_are_masked(project: Path):
    (project / "a.txt").write_text("alpha\n" * 1_900, encoding="utf-8")
    read = [chunk(call("read_file", {"absolute_path": "a.txt"}, id="c"), finish="STOP")]
    generator = ScriptedGenerator(read, refusal_script(9_000, 8_192), [text("seen")])
    async with agent(generator, settings=set_to(0)) as running:
        events, error = await events_of(running, "read it")
    assert error is None
    assert [event.status for event in compression_events(events)] == ["content_truncated"]
    output = generator.seen(-1)[-1]["parts"][0]["functionResponse"]["response"]["output"]
    assert "Full output available at:" in output
    assert conforming(generator)


async def test_what_cannot_be_made_to_fit_is_an_error_and_the_prompt_is_taken_back():
    generator = ScriptedGenerator([text("one")], refusal_script(90_000, 1_000), [text("two")])
    async with agent(generator) as running:
        await running.ask("first")
        before = running.history
        _, error = await events_of(running, "second")
        assert isinstance(error, AlhenaError)
        assert error.kind == "context_window_will_overflow"
        assert running.history == before


async def test_a_second_refusal_ends_the_run_and_other_refusals_are_not_sent_again():
    other = RequestRejectedError("rejected (temperature)", status=400)
    generator = ScriptedGenerator(
        [text("one")],
        refusal_script(90_000, 60_000),
        refusal_script(90_000, 60_000),
        [other],
        [text("two")],
    )
    async with agent(generator, settings=set_to(0)) as running:
        await running.ask("first " + LONG)
        for _ in range(2):
            events, error = await events_of(running, "second")
            assert isinstance(error, RequestRejectedError)
            assert running.history[-1].role == "model"
            assert len([each for each in events if isinstance(each, CompressedEvent)]) <= 1
        assert await running.ask("third") == "two"
    assert conforming(generator)
