"""Generators of a session that retry."""

from pathlib import Path

import pytest

from alhena.models.providers.demo import DemoGenerator
from alhena.models.providers.gemini_api import GeminiApi
from alhena.models.providers.recorded import Recorder
from alhena.models.providers.select import ModelChoice, choose_generator
from alhena.models.retry import REPLAY, RetryingGenerator, RetryPolicy

POLICY = RetryPolicy(max_attempts=3)
KEY = {"GEMINI_API_KEY": "k"}


def test_a_service_is_asked_again_within_the_limits_given():
    chosen = choose_generator(ModelChoice(model="m", environ=KEY, retry=POLICY)).generator
    assert isinstance(chosen, RetryingGenerator)
    assert isinstance(chosen.inner, GeminiApi)
    assert chosen.policy is POLICY


def test_without_limits_it_is_asked_once():
    assert isinstance(choose_generator(ModelChoice(model="m", environ=KEY)).generator, GeminiApi)


@pytest.mark.parametrize(
    "choice",
    [
        ModelChoice(model="demo", environ=KEY, retry=POLICY),
        ModelChoice(model="m", environ={}, is_terminal=True, retry=POLICY),
    ],
)
def test_the_demo_model_never_fails_and_is_not_asked_again(choice: ModelChoice):
    assert isinstance(choose_generator(choice).generator, DemoGenerator)


async def test_each_attempt_is_recorded_and_plays_without_waits(tmp_path: Path):
    path = str(tmp_path / "r.jsonl")
    recorder = choose_generator(
        ModelChoice(model="m", environ=KEY, record_responses=path, retry=POLICY)
    ).generator
    assert isinstance(recorder, RetryingGenerator)
    assert isinstance(recorder.inner, Recorder)
    await recorder.aclose()
    Path(path).write_text('{"method": "generateContentStream", "response": []}\n', encoding="utf-8")
    played = choose_generator(
        ModelChoice(model="m", environ={}, fake_responses=path, retry=POLICY)
    ).generator
    assert isinstance(played, RetryingGenerator)
    assert played.policy is REPLAY
    await played.aclose()
