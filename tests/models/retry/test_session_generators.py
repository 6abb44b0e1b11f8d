"""Generators of a session that retry."""

import pytest

from alhena.models.providers.demo import DemoGenerator
from alhena.models.providers.gemini_api import GeminiApi
from alhena.models.providers.select import ModelChoice, choose_generator
from alhena.models.retry import RetryingGenerator, RetryPolicy

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
