"""`modelConfigs`: named configurations and what is changed for whom."""

from typing import Any

import msgspec
import pytest

from alhena.agent.chat import SessionModels, config_for
from alhena.config.settings import ModelConfigSettings, Settings, settings_of
from alhena.errors import ConfigError
from alhena.models.catalogue import FLASH, FLASH_LITE, MODELS, PRO, default_generation
from alhena.models.configs import resolve
from alhena.wire.request import GenerationConfig, ThinkingConfig
from tests.support.each import for_each


def configs(**fields: Any) -> ModelConfigSettings:
    return settings_of({"modelConfigs": fields}, "settings.json").model_configs


def generating(**settings: Any) -> dict[str, Any]:
    return {"modelConfig": {"generateContentConfig": settings}}


def sent(made: Any) -> dict[str, Any]:
    return msgspec.to_builtins(made)


@for_each("name", [*(model.name for model in MODELS), "custom", "demo"])
def test_with_nothing_configured_a_model_has_the_usual_settings(name: str):
    resolved = resolve(name, ModelConfigSettings())
    assert sent(resolved.generation) == sent(default_generation(name))
    assert resolved.name == name


@pytest.mark.requirement("TODAY-02")
def test_an_alias_names_a_model_and_adds_to_what_it_extends():
    settings = configs(
        customAliases={
            "precise": {
                "extends": "chat-base-2.5",
                "modelConfig": {
                    "model": "gemini-2.5-flash-lite",
                    "generateContentConfig": {
                        "temperature": 0.2,
                        "topK": None,
                        "thinkingConfig": {"thinkingBudget": 512},
                    },
                },
            },
            "sharper": {"extends": "precise", **generating(maxOutputTokens=100)},
        }
    )
    resolved = resolve("sharper", settings)
    assert resolved.name == "gemini-2.5-flash-lite"
    assert sent(resolved.generation) == {
        "temperature": 0.2,
        "topP": 0.95,
        "maxOutputTokens": 100,
        "thinkingConfig": {"thinkingBudget": 512, "includeThoughts": True},
    }


def test_what_is_changed_for_a_series_holds_for_its_models():
    settings = configs(
        customAliases={"chat-base-3": {"extends": "chat-base", **generating(topP=0.5)}}
    )
    assert resolve("gemini-3-flash-preview", settings).generation.top_p == 0.5
    assert resolve("gemini-2.5-pro", settings).generation.top_p == 0.95


def test_an_alias_of_a_models_own_name_configures_that_model():
    own = {"extends": "chat-base-2.5", **generating(seed=7)}
    settings = configs(customAliases={PRO: own})
    assert resolve("pro", settings).generation.seed == 7
    assert resolve("pro", settings).name == PRO
    assert resolve("flash", settings).generation.seed is None


def override(match: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"match": match, **generating(**settings)}


@pytest.mark.requirement("TODAY-02")
def test_overrides_apply_where_they_match_the_more_specific_last():
    settings = configs(
        overrides=[
            override({"model": PRO, "overrideScope": "core"}, temperature=0.3),
            override({"model": PRO}, temperature=0.7, topK=10),
            override({"model": "chat-base"}, temperature=0.9, seed=1),
            override({"overrideScope": "agent"}, seed=2),
            override({"model": "gemini-2.5-flash"}, seed=3),
            override({}, seed=4),
        ],
        customOverrides=[override({"isRetry": True}, temperature=1.5)],
    )
    made = resolve(PRO, settings).generation
    assert (made.temperature, made.top_k, made.seed) == (0.3, 10, 1)
    assert resolve("pro", settings).generation == made
    assert resolve("custom", settings, scope="agent").generation.seed == 1
    assert resolve(PRO, settings, is_retry=True).generation.temperature == 0.3
    assert resolve("gemini-2.5-flash", settings).generation.seed == 3


def test_an_override_may_put_another_model_in_place():
    settings = configs(
        overrides=[
            {"match": {"overrideScope": "reviewer"}, "modelConfig": {"model": "flash-lite"}},
        ]
    )
    assert resolve("pro", settings, scope="reviewer").name == FLASH_LITE
    assert resolve("pro", settings).name == PRO


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"customAliases": {"a": {"extends": "b"}}}, "which there is not"),
        ({"customAliases": {"a": {"extends": "b"}, "b": {"extends": "a"}}}, "extends itself"),
        ({"customAliases": {"a": 7}}, "modelConfig of alias 'a'"),
        ({"customAliases": {"a": {"modelConfig": {"model": 7}}}}, "modelConfig of alias 'a'"),
        ({"customAliases": {"a": generating(temperature="hot")}}, "cannot be used"),
        ({"overrides": [7]}, "override 1 has no `match`"),
        ({"overrides": [{"match": {"model": "a"}, "modelConfig": []}]}, "an override"),
        ({"overrides": [override({"model": "a"}, thinkingConfig="much")]}, "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_named(fields: dict[str, Any], told: str):
    with pytest.raises(ConfigError, match=told):
        resolve("a", configs(**fields))


def test_settings_of_the_wrong_shape_are_named_when_they_are_read():
    with pytest.raises(ConfigError, match="customAliases"):
        configs(customAliases=[7])


def test_the_model_of_a_session_is_the_first_that_is_named():
    def named(given: str | None, environ: dict[str, str], **fields: Any) -> tuple[str, str]:
        models = SessionModels(given, environ, settings_of(fields, "s"))
        return models.requested, models.name

    setting = {"model": {"name": "flash-lite"}}
    assert named("pro", {"GEMINI_MODEL": "flash"}, **setting) == ("pro", PRO)
    assert named(None, {"GEMINI_MODEL": "flash"}, **setting) == ("flash", FLASH)
    assert named(None, {"GEMINI_MODEL": ""}, **setting)[1] == FLASH_LITE
    assert named(None, {}) == (FLASH, FLASH)
    alias = {"customAliases": {"mine": {"modelConfig": {"model": "tunedModels/m"}}}}
    assert named("mine", {}, modelConfigs=alias) == ("mine", "tunedModels/m")


def test_a_session_keeps_its_aliases_settings_until_another_model_takes_over():
    alias = {"mine": {"modelConfig": {"model": "flash", "generateContentConfig": {"seed": 1}}}}
    models = SessionModels(
        "mine", {}, Settings(model_configs=ModelConfigSettings(custom_aliases=alias))
    )
    own = models.config(FLASH).generation_config
    assert own is not None
    assert own.seed == 1
    other = models.config(FLASH_LITE).generation_config
    assert other == default_generation("flash-lite")


@pytest.mark.requirement("TODAY-02")
def test_an_agent_has_settings_of_its_own_which_overrides_may_change():
    own = {"temperature": 0.4, "topK": None}

    def of(settings: ModelConfigSettings, scope: str) -> GenerationConfig:
        made = config_for("pro", settings, scope=scope, own=own).generation_config
        assert made is not None
        return made

    made = of(ModelConfigSettings(), "a")
    thinking = ThinkingConfig(thinking_level="HIGH", include_thoughts=True)
    assert (made.temperature, made.top_k, made.thinking_config) == (0.4, None, thinking)
    settings = configs(overrides=[override({"overrideScope": "a"}, temperature=0.1)])
    assert of(settings, "a").temperature == 0.1
    assert of(settings, "b").temperature == 0.4


def test_overrides_may_hold_for_retries_or_first_attempts_alone():
    settings = configs(
        overrides=[
            override({"isRetry": True}, seed=1, safetySettings=[{"category": "C"}]),
            override({"isRetry": False}, seed=2),
        ]
    )
    assert resolve("pro", settings).generation.seed == 2
    assert resolve("pro", settings).config.safety_settings is None
    again = resolve("pro", settings, is_retry=True)
    assert again.generation.seed == 1
    assert again.config.safety_settings == ({"category": "C"},)


def test_safety_settings_of_the_wrong_shape_are_named():
    with pytest.raises(ConfigError, match="cannot be used"):
        resolve("pro", configs(overrides=[override({"model": "pro"}, safetySettings="none")]))


@for_each(
    ("match", "told"),
    [
        ({"isRetry": True}, "set for pro for further attempts cannot be used"),
        ({"model": FLASH}, f"set for {FLASH} cannot be used"),
        ({"model": FLASH, "isRetry": True}, f"{FLASH} for further attempts"),
        ({"model": PRO, "isRetry": True}, "set for pro for further attempts"),
    ],
)
@for_each("value", ["hot", float("inf"), float("nan")])
def test_what_only_a_later_request_would_have_is_looked_at_before_the_first(
    match: dict[str, Any], told: str, value: object
):
    fields = {"modelConfigs": {"overrides": [override(match, temperature=value)]}}
    with pytest.raises(ConfigError, match=told):
        SessionModels("pro", {}, settings_of(fields, "s"))


@pytest.mark.requirement("TODAY-02")
@for_each(
    ("model", "settings", "refused"),
    [
        ("flash", {"temperature": 0.2}, {"temperature"}),
        ("gemini-4-argon", {"topP": 0.2, "topK": 3}, {"topP", "topK"}),
        ("flash", {"thinkingConfig": {"thinkingBudget": 512}}, {"thinkingBudget"}),
        ("flash", {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}, {"thinkingLevel"}),
        ("flash", {"thinkingConfig": {"thinkingLevel": "low"}}, set()),
        ("flash-lite", {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}, set()),
        ("flash-lite", {"temperature": 0.2}, set()),
        ("pro", {"temperature": 0.2, "thinkingConfig": {"thinkingLevel": "LOW"}}, set()),
        ("pro", {"thinkingConfig": {"thinkingBudget": 5, "thinkingLevel": None}}, set()),
        ("pro", {"thinkingConfig": {"thinkingBudget": 5}}, {"thinkingBudget"}),
        ("flash", {"candidateCount": 2}, {"candidateCount"}),
        ("gemini-7-xenon", {"temperature": 0.2}, {"temperature"}),
        ("gemini-7-xenon", {"thinkingConfig": {"thinkingLevel": "MINIMAL"}}, set()),
        ("gemini-2.5-flash-lite", {"thinkingConfig": {"thinkingLevel": "LOW"}}, {"thinkingLevel"}),
        ("anthropic:claude-opus-4-7", {"temperature": 0.2}, {"temperature"}),
        (
            "anthropic:claude-sonnet-5",
            {"thinkingConfig": {"thinkingBudget": 4096}},
            {"thinkingBudget"},
        ),
        ("anthropic:claude-sonnet-4-5", {"temperature": 0.2}, set()),
        ("openai:gpt-4.1", {"temperature": 0.2}, set()),
    ],
)
def test_a_setting_that_the_model_cannot_take_is_named_before_anything_is_sent(
    model: str, settings: dict[str, Any], refused: set[str]
):
    fields = {"modelConfigs": {"overrides": [override({"model": model}, **settings)]}}
    if not refused:
        SessionModels(model, {}, settings_of(fields, "s"))
        return
    with pytest.raises(ConfigError) as caught:
        SessionModels(model, {}, settings_of(fields, "s"))
    assert all(f"{name} (" in str(caught.value) for name in refused)


@pytest.mark.requirement("TODAY-02")
def test_settings_of_ours_and_of_agents_that_a_model_cannot_take_are_left_out():
    made = config_for("flash", ModelConfigSettings(), scope="a", own={"temperature": 0.4})
    assert made.generation_config == default_generation("flash")
    assert sent(default_generation("flash")) == {"thinkingConfig": {"includeThoughts": True}}
