"""`ModelSettings`: the parameters of a model's answers that a program sets."""

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec.structs import replace

from alhena.models.catalogue import (
    ANTHROPIC,
    Thinking,
    claude_info,
    foreign_name,
    is_foreign_model,
    model_info,
    without_refused,
)
from alhena.values import FieldError, Value
from alhena.wire.request import (
    GenerateContentConfig,
    GenerationConfig,
    ThinkingConfig,
    merge_extra,
)

Level = Literal["off", "minimal", "low", "medium", "high"]
_BUDGETS: dict[str, int] = {"off": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24_576}
"""Thinking tokens by level, for models that take a number."""
_COPIED = ("temperature", "top_p", "top_k", "max_output_tokens", "seed")


class ModelSettings(Value, frozen=True, kw_only=True):
    """Parameters of answers; None leaves one to the model, or to the next settings: those of a run
    go before those of its agent, these before those of the model.

        Agent("gemini-3.8-flash", model_settings=ModelSettings(thinking="low", seed=7))

    `thinking` is a number of tokens (0: off) or a level. `safety` are thresholds by category
    ("HARM_CATEGORY_HARASSMENT": "BLOCK_NONE"). `extra` is merged into the body as it is sent. A
    field that a service does not have is left out.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    thinking: int | Level | None = None
    stop_sequences: tuple[str, ...] | None = None
    seed: int | None = None
    safety: Mapping[str, str] = {}
    extra: Mapping[str, Any] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        _require("temperature", self.temperature, least=0)
        _require("top_p", self.top_p, least=0, most=1)
        for name in ("top_k", "max_output_tokens"):
            _require(name, getattr(self, name), least=1)
        for name in ("safety", "extra"):
            if not isinstance(given := cast("object", getattr(self, name)), Mapping):
                raise TypeError(f"ModelSettings.{name} has to be a mapping, not {given!r:.60}")
        if isinstance(self.thinking, int):
            _require("thinking", self.thinking, least=0)

    def merge_over(self, other: "ModelSettings") -> "ModelSettings":
        """These, and where they leave a field, the `other` ones; `safety` and `extra` together."""
        merged = {
            name: getattr(other if getattr(self, name) is None else self, name)
            for name in (*_COPIED, "thinking", "stop_sequences")
        }
        return ModelSettings(
            **merged,
            safety={**other.safety, **self.safety},
            extra=merge_extra(other.extra, self.extra),
        )

    def apply(self, config: GenerateContentConfig, model: str) -> GenerateContentConfig:
        """The settings of a request to `model` with these, as far as it takes them."""
        if self == NONE:
            return config
        generation = config.generation_config or GenerationConfig()
        given = {name: value for name in _COPIED if (value := getattr(self, name)) is not None}
        if self.stop_sequences is not None:
            given["stop_sequences"] = self.stop_sequences
        if self.thinking is not None:
            given["thinking_config"] = thinking_for(self.thinking, model)
        generation = without_refused(model, replace(generation, **given))
        if self.safety:
            named = {each.get("category"): each for each in config.safety_settings or ()}
            for category, threshold in self.safety.items():
                named[category] = {"category": category, "threshold": threshold}
            config = replace(config, safety_settings=tuple(named.values()))
        extra = merge_extra(config.extra or {}, self.extra)
        return replace(config, generation_config=generation, extra=extra or None)

    def fill(self, config: GenerateContentConfig, model: str) -> GenerateContentConfig:
        """The settings of a request to `model`, and these where it has none."""
        generation = config.generation_config or GenerationConfig()
        own = {
            name: None
            for name in (*_COPIED, "stop_sequences")
            if getattr(generation, name) is not None
        }
        if generation.thinking_config is not None:
            own["thinking"] = None
        named = {each.get("category") for each in config.safety_settings or ()}
        safety = {key: value for key, value in self.safety.items() if key not in named}
        extra = merge_extra(self.extra, config.extra)
        return replace(self, safety=safety, extra=extra, **own).apply(config, model)


def thinking_for(wanted: int | str, model: str) -> ThinkingConfig | None:
    """The thinking settings of a model for a number of tokens or a level; None for a model that
    does not think."""
    info = model_info(model)
    budget = wanted if isinstance(wanted, int) else _BUDGETS[wanted]
    thoughts = True if budget else None
    if model.startswith(ANTHROPIC) and claude_info(foreign_name(model)).adaptive and budget:
        return ThinkingConfig(thinking_level=_level(budget).upper(), include_thoughts=True)
    if is_foreign_model(model) or info.thinking is Thinking.BUDGET:
        if info.budgets is not None and budget:
            budget = min(max(budget, info.budgets[0]), info.budgets[1])
        elif info.budgets is not None:
            budget = info.budgets[0]
        return ThinkingConfig(thinking_budget=budget, include_thoughts=thoughts)
    if info.thinking is Thinking.NONE and info.listed:
        return None
    level = _level(budget)
    levels = info.levels or tuple(name.upper() for name in _BUDGETS if name != "off")
    order = [name.upper() for name in _BUDGETS]
    at = order.index(level.upper())
    nearest = min(levels, key=lambda each: abs(order.index(each) - at) if each in order else 9)
    return ThinkingConfig(thinking_level=nearest, include_thoughts=True)


def _level(budget: int) -> str:
    """The lowest level that has so many thinking tokens."""
    return next((name for name, tokens in _BUDGETS.items() if budget <= tokens), "high")


def _require(name: str, value: float | None, *, least: float, most: float = float("inf")) -> None:
    if value is not None and not least <= value <= most:
        ends = f"from {least:g} to {most:g}" if most != float("inf") else f"at least {least:g}"
        raise FieldError(f"ModelSettings.{name} cannot be {value!r}: it is {ends}.")


def settings_of(argument: str, given: object) -> ModelSettings:
    """The value of an argument; None is no settings. Raises TypeError."""
    if given is None:
        return NONE
    if not isinstance(given, ModelSettings):
        raise TypeError(f"{argument} has to be ModelSettings(…), not {given!r:.60}")
    return given


def own_settings(model: object) -> ModelSettings:
    """The settings of a model object; none for one that has none."""
    found: object = getattr(model, "settings", None)
    return found if isinstance(found, ModelSettings) else NONE


NONE = ModelSettings()
