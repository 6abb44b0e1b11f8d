import re
from pathlib import Path

import pytest

from alhena.models.catalogue import (
    ALIASES,
    ARGON,
    FLASH,
    FLASH_LITE,
    MODELS,
    PRO,
    Sampling,
    Thinking,
    default_generation,
    default_model,
    model_info,
    resolved_name,
    served_models,
    thinking_config,
    today,
)
from alhena.wire.request import GenerationConfig, ThinkingConfig
from tests.support.each import for_each

BUDGET = ThinkingConfig(thinking_budget=-1, include_thoughts=True)
HIGH = ThinkingConfig(thinking_level="HIGH", include_thoughts=True)
OWN = ThinkingConfig(include_thoughts=True)


@pytest.mark.requirement("WIRE-09", "TODAY-02")
@for_each(
    ("model", "config", "signatures"),
    [
        ("gemini-2.5-pro", BUDGET, False),
        ("models/gemini-2.5-flash-lite", BUDGET, False),
        ("gemini-2.5-pro-preview-06-05", BUDGET, False),
        ("gemini-2.5-flash-image", None, False),
        ("gemini-2.5-flash-preview-tts", None, False),
        ("gemini-3-pro-preview", HIGH, True),
        ("gemini-3-pro-image-preview", None, True),
        ("gemini-3.1-pro-preview", HIGH, True),
        ("gemini-3.1-flash-lite", HIGH, True),
        ("models/gemini-3.5-flash-lite", OWN, True),
        ("publishers/google/models/gemini-3.8-flash", OWN, True),
        ("projects/p/locations/l/publishers/google/models/gemini-3.6-flash-001", OWN, True),
        ("gemini-3.10-flash", OWN, True),
        ("gemini-4-argon", OWN, True),
        ("gemini-5", OWN, True),
        ("gemini-30-pro", OWN, True),
        ("gemini-flash-latest", OWN, True),
        ("gemini-pro-latest", OWN, True),
        ("gemini-7-live", None, True),
        ("gemini-3", HIGH, True),
        ("gemini-2.50-pro", None, False),
        ("gemini-2.0-flash", None, False),
        ("gemini-1.5-pro", None, False),
        ("gemini-0-pro", None, False),
        ("gemini-3.1.1-pro", None, False),
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
    info = model_info(model)
    assert info.needs_signatures is signatures
    assert info.media_in_responses is (info.thinking is Thinking.LEVEL)


@pytest.mark.requirement("TODAY-02")
@for_each("model", [ARGON, "gemini-4-neon", "gemini-5.2-flash", "models/gemini-9-pro-preview"])
def test_an_unlisted_model_is_taken_as_the_newest_series(model: str):
    info = model_info(model)
    assert info.needs_signatures
    assert info.media_in_responses
    assert info.forms_beside_functions
    assert not info.takes_budgets
    assert info.sampling is Sampling.REFUSED
    assert "MINIMAL" not in info.levels


@pytest.mark.requirement("TODAY-02")
@for_each(
    ("model", "levels"),
    [
        ("gemini-2.5-pro", ()),
        ("gemini-3-pro-preview", ("LOW", "HIGH")),
        ("gemini-3-pro-image-preview", ()),
        ("gemini-3.1-pro-preview", ("LOW", "MEDIUM", "HIGH")),
        ("gemini-3.1-flash-lite", ("MINIMAL", "LOW", "MEDIUM", "HIGH")),
        ("gemini-9-pro", ("LOW", "MEDIUM", "HIGH")),
    ],
)
def test_a_model_has_the_levels_of_its_series(model: str, levels: tuple[str, ...]):
    assert model_info(model).levels == levels


def test_a_session_without_a_chosen_model_thinks():
    assert default_model() == FLASH == "gemini-3.8-flash"
    assert thinking_config(default_model()) == OWN


@pytest.mark.requirement("TODAY-01")
@for_each(
    ("given", "meant"),
    [
        ("auto", FLASH),
        ("auto-gemini-2.5", FLASH),
        ("auto-gemini-3", FLASH),
        ("pro", "gemini-3.1-pro-preview"),
        ("flash", FLASH),
        ("flash-lite", "gemini-3.5-flash-lite"),
        ("models/flash", FLASH),
        ("gemini-3-pro-preview", "gemini-3-pro-preview"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("my-custom-model", "my-custom-model"),
        ("Auto", "Auto"),
    ],
)
def test_an_alias_is_resolved_and_a_written_name_is_passed_on_as_it_is(given: str, meant: str):
    assert resolved_name(given) == meant
    assert resolved_name(meant) == meant


@pytest.mark.requirement("TODAY-01")
def test_the_default_and_every_alias_mean_a_listed_model_without_an_end():
    known = {model.name: model for model in MODELS}
    assert {*ALIASES.values(), default_model()} <= known.keys()
    assert not known.keys() & {*ALIASES}
    assert not any(known[name].ends for name in ALIASES.values())


@pytest.mark.requirement("TODAY-01")
def test_a_model_is_served_until_its_announced_end():
    names = [{model.name for model in served_models(day)} for day in ("2026-11-30", "2026-12-01")]
    assert names[0] - names[1] == {"gemini-2.5-pro", "gemini-2.5-flash"}
    assert {PRO, FLASH, FLASH_LITE, ARGON} <= names[1]


def test_what_is_listed_agrees_with_what_its_name_says():
    for model in MODELS:
        info = model_info(f"models/{model.name}")
        assert info is model
        assert (model.thinking is Thinking.LEVEL) == bool(model.levels)
        assert (model.thinking is Thinking.BUDGET) == (model.budgets is not None)
        if model.name.endswith("-latest"):
            continue
        series = model_info(f"{model.name}-001")
        assert (series.thinking, series.needs_signatures, series.sampling) == (
            model.thinking,
            model.needs_signatures,
            model.sampling,
        )
        assert series.tier == model.tier or model.name in {ARGON, "gemini-embedding-001"}


@pytest.mark.parametrize(
    ("name", "limits", "takes_signatures"),
    [
        (FLASH, (1_048_576, 65_536), True),
        (ARGON, (1_048_576, 65_536), True),
        ("gemini-2.5-flash-lite", (1_048_576, 65_536), True),
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


@pytest.mark.requirement("TODAY-02")
def test_sampling_settings_of_ours_are_sent_up_to_3_1_only():
    made = default_generation("gemini-3.1-pro-preview")
    assert (made.temperature, made.top_p, made.top_k, made.thinking_config) == (1, 0.95, 64, HIGH)
    assert default_generation("gemma-3-27b-it").thinking_config is None
    for name in ("gemini-3.5-flash-lite", "gemini-3.6-flash", FLASH, ARGON, "gemini-pro-latest"):
        assert default_generation(name) == GenerationConfig(thinking_config=OWN)


ROOT = Path(__file__).parents[2]


@pytest.mark.requirement("TODAY-01")
def test_every_model_that_the_documents_name_is_served():
    """Fails on the day when a named model ends: name its successor there."""
    served = {model.name for model in served_models(today())} | {*ALIASES}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    missing = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"\bgemini-\d[\w.]*(?:-[a-z\d]+)*", page.read_text("utf-8"))
        if name not in served
    }
    assert {name for page, name in missing if page != "models.md"} == set()
    # docs/models.md also says what holds for a series, "from gemini-3.6 on".
    assert all(re.fullmatch(r"gemini-\d(\.\d)?", name) for _, name in missing)
