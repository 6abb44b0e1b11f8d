"""Requests of clients that do not know which model answers, made to fit it."""

from msgspec.structs import replace

from alhena.models.catalogue import ModelInfo, Thinking
from alhena.wire.dialects.results import is_formed, with_form_in_words
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ThinkingConfig

_LOW, _MEDIUM = 1024, 8192
"""Up to so many tokens of thinking are what these levels stand for."""
_INT32 = 2**31 - 1
"""The largest of Gemini's whole numbers. Other dialects have larger ones."""
_LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")


def fitted(config: GenerateContentConfig, info: ModelInfo) -> GenerateContentConfig:
    """The config of a request in another dialect, within what the model takes: its limit of output
    tokens, its way and its bounds of thinking. Where it takes no form for its answers beside tools,
    that is said in words. A penalty of zero, which is none, is left out. Of numbers that Gemini's
    fields cannot hold, limits become the largest that they can, and a seed another one, each time
    the same."""
    if config.function_names() and is_formed(config) and not info.forms_beside_functions:
        config = with_form_in_words(config)
    given = config.generation_config
    if given is None:
        return config
    limit = _bounded(given.max_output_tokens)
    if limit is not None and info.output_limit is not None:
        limit = min(limit, info.output_limit)
    made = replace(
        given,
        max_output_tokens=limit,
        top_k=_bounded(given.top_k),
        seed=_folded(given.seed),
        presence_penalty=given.presence_penalty or None,
        frequency_penalty=given.frequency_penalty or None,
        thinking_config=fitted_thinking(given.thinking_config, info),
    )
    if made == given:
        return config
    return replace(config, generation_config=None if made == GenerationConfig() else made)


def _bounded(number: int | None) -> int | None:
    return None if number is None else max(-_INT32, min(number, _INT32))


def _folded(seed: int | None) -> int | None:
    return seed if seed is None or abs(seed) <= _INT32 else seed & _INT32


def fitted_thinking(given: ThinkingConfig | None, info: ModelInfo) -> ThinkingConfig | None:
    """Settings of thinking, a number of tokens in other dialects, as the model has them."""
    budget = _bounded(given.thinking_budget) if given is not None else None
    if given is None or budget is None:
        return given
    if info.thinking is Thinking.NONE:
        return None
    if info.thinking is Thinking.LEVEL:
        level = _level(budget, info.levels)
        return ThinkingConfig(thinking_level=level, include_thoughts=given.include_thoughts)
    if budget < 0:
        budget = -1  # the one below 0 that there is: as much as the model likes
    elif info.budgets is not None:
        least, most = info.budgets
        budget = min(max(budget, least), most)
    return replace(given, thinking_budget=budget)


def _level(budget: int, levels: tuple[str, ...]) -> str | None:
    """The level for a budget, or the nearest above it that the model has."""
    wished = "HIGH"
    if budget == 0:
        wished = "MINIMAL"
    elif 0 < budget <= _LOW:
        wished = "LOW"
    elif 0 < budget <= _MEDIUM:
        wished = "MEDIUM"
    above = _LEVELS[_LEVELS.index(wished) :]
    return next((level for level in above if level in levels), None)
