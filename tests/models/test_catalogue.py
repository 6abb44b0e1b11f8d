import pytest

from alhena.models.catalogue import (
    ALIASES,
    MODELS,
    SUCCESSORS,
    Thinking,
    default_generation,
    default_model,
    model_info,
    resolved_name,
    thinking_config,
)
from alhena.wire.request import ThinkingConfig
from tests.support.each import for_each

BUDGET = ThinkingConfig(thinking_budget=-1, include_thoughts=True)
LEVEL = ThinkingConfig(thinking_level="HIGH", include_thoughts=True)


@pytest.mark.requirement("WIRE-09")
@for_each(
    ("model", "config", "signatures"),
    [
        ("gemini-2.5-pro", BUDGET, False),
        ("models/gemini-2.5-flash-lite", BUDGET, False),
        ("gemini-2.5-pro-preview-06-05", BUDGET, False),
        ("gemini-2.5-flash-image", None, False),
        ("gemini-2.5-flash-preview-tts", None, False),
        ("gemini-3-pro-preview", LEVEL, True),
        ("gemini-3-pro-image-preview", None, True),
        ("gemini-3.1-pro-preview", LEVEL, True),
        ("models/gemini-3.5-flash-lite", LEVEL, True),
        ("gemini-3", LEVEL, True),
        ("gemini-30-pro", None, False),
        ("gemini-2.50-pro", None, False),
        ("gemini-2.0-flash", None, False),
        ("gemini-1.5-pro", None, False),
        ("gemini-embedding-001", None, False),
        ("gemma-3-27b-it", None, False),
        ("my-gemini-2.5-pro", None, False),
        ("", None, False),
    ],
)
def test_the_series_of_a_model_decides_its_thinking(
    model: str, config: ThinkingConfig | None, signatures: bool
):
    assert thinking_config(model) == config
    assert model_info(model).needs_signatures is signatures


def test_a_session_without_a_chosen_model_thinks():
    assert default_model() == "gemini-2.5-pro"
    assert thinking_config(default_model()) == BUDGET


@for_each(
    ("given", "meant"),
    [
        ("auto", "gemini-2.5-pro"),
        ("auto-gemini-2.5", "gemini-2.5-pro"),
        ("auto-gemini-3", "gemini-3.1-pro-preview"),
        ("pro", "gemini-2.5-pro"),
        ("flash", "gemini-2.5-flash"),
        ("flash-lite", "gemini-2.5-flash-lite"),
        ("gemini-3-pro-preview", "gemini-3.1-pro-preview"),
        ("models/gemini-3-pro-preview", "gemini-3.1-pro-preview"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("my-custom-model", "my-custom-model"),
        ("Auto", "Auto"),
    ],
)
def test_a_name_is_resolved_or_passed_on_as_it_is(given: str, meant: str):
    assert resolved_name(given) == meant
    assert resolved_name(meant) == meant


def test_every_alias_means_a_listed_model():
    known = {model.name for model in MODELS}
    assert {*ALIASES.values(), *SUCCESSORS.values()} <= known
    assert not known & {*ALIASES, *SUCCESSORS}


def test_what_is_listed_agrees_with_what_its_name_says():
    for model in MODELS:
        info = model_info(f"models/{model.name}")
        assert info is model
        assert (model.thinking is Thinking.LEVEL) == bool(model.levels)
        assert (model.thinking is Thinking.BUDGET) == (model.budgets is not None)
        series = model_info(f"{model.name}-001")
        assert (series.thinking, series.needs_signatures) == (
            model.thinking,
            model.needs_signatures,
        )
        assert series.tier == model.tier or model.tier == "embedding"


@pytest.mark.parametrize(
    ("name", "limits", "takes_signatures"),
    [
        ("gemini-2.5-pro", (1_048_576, 65_536), True),
        ("gemini-2.0-flash", (1_048_576, 8192), True),
        ("gemma-3-27b-it", (131_072, None), False),
        ("gemma-4-31b-it", (256_000, None), False),
        ("anthropic:claude-sonnet-4-5", (200_000, None), True),
        ("openai:gpt-4.1-mini", (1_047_576, None), True),
        ("openai:o3", (200_000, None), True),
        ("openai:llama3.2", (128_000, None), True),
        ("my-custom-model", (1_048_576, None), True),
    ],
)
def test_limits_are_known_or_the_usual_ones(
    name: str, limits: tuple[int, int | None], takes_signatures: bool
):
    info = model_info(name)
    assert (info.input_limit, info.output_limit) == limits
    assert info.takes_signatures is takes_signatures


def test_a_conversation_has_the_usual_settings():
    made = default_generation("gemini-3-flash-preview")
    assert (made.temperature, made.top_p, made.top_k, made.thinking_config) == (1, 0.95, 64, LEVEL)
    assert default_generation("gemma-3-27b-it").thinking_config is None
