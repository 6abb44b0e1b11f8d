"""The model catalogue: names, aliases, limits, thinking, fallback models and prices.

An unlisted model is classified by its name: the series decides the form of thinking settings, and
an unknown model gets no settings that it might reject.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from alhena.config.settings import LONG_PROMPT, PriceSettings
from alhena.errors import ConfigError, ModelError, ServerFaultError
from alhena.models.errors import ModelNotFoundError, QuotaError
from alhena.values import Value
from alhena.wire.request import GenerationConfig, ThinkingConfig

DEFAULT_INPUT_LIMIT = 1_048_576
"""Default input limit in tokens, for models that are not listed."""
_OUTPUT_LIMIT = 65_536

PRO, FLASH, FLASH_LITE = "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite"
PRO_3 = "gemini-3.1-pro-preview"

ALIASES = {
    "auto": PRO,
    "auto-gemini-2.5": PRO,
    "auto-gemini-3": PRO_3,
    "pro": PRO,
    "flash": FLASH,
    "flash-lite": FLASH_LITE,
}
"""Alias -> model name."""

SUCCESSORS = {"gemini-3-pro-preview": PRO_3}
"""Models now served under another name."""


OPENAI, ANTHROPIC = "openai:", "anthropic:"
"""Prefixes of model names of other services, which use their own dialects."""


class Thinking(StrEnum):
    """The form of a model's thinking settings."""

    NONE = "none"
    BUDGET = "budget"
    LEVEL = "level"


class ModelInfo(Value, frozen=True, kw_only=True):
    """Properties of a model. Limits are in tokens; None: unknown.

    `budgets` are the minimum and maximum of thinking tokens (-1 lets the model choose), `levels`
    the levels of thinking. `needs_signatures`: the first call of each step of the current turn must
    be signed; without `takes_signatures`, thoughts and signatures are rejected.
    """

    name: str
    tier: str = "custom"
    input_limit: int = DEFAULT_INPUT_LIMIT
    output_limit: int | None = None
    thinking: Thinking = Thinking.NONE
    budgets: tuple[int, int] | None = None
    levels: tuple[str, ...] = ()
    needs_signatures: bool = False
    takes_signatures: bool = True
    preview: bool = False

    @property
    def media_in_responses(self) -> bool:
        """True when media go inside function responses rather than beside them, as since Gemini
        3."""
        return self.thinking is Thinking.LEVEL

    @property
    def forms_beside_functions(self) -> bool:
        """True when JSON answers and functions can be combined, as since Gemini 3."""
        return self.thinking is Thinking.LEVEL


def _budgeted(name: str, tier: str, least: int, most: int) -> ModelInfo:
    return ModelInfo(
        name=name,
        tier=tier,
        output_limit=_OUTPUT_LIMIT,
        thinking=Thinking.BUDGET,
        budgets=(least, most),
    )


def _levelled(name: str, tier: str, *levels: str, preview: bool = True) -> ModelInfo:
    return ModelInfo(
        name=name,
        tier=tier,
        output_limit=_OUTPUT_LIMIT,
        thinking=Thinking.LEVEL,
        levels=levels,
        needs_signatures=True,
        preview=preview,
    )


_QUICK = ("MINIMAL", "LOW", "MEDIUM", "HIGH")

MODELS = (
    _budgeted(PRO, "pro", 128, 32_768),
    _budgeted(FLASH, "flash", 0, 24_576),
    _budgeted(FLASH_LITE, "flash-lite", 0, 24_576),
    _levelled(PRO_3, "pro", "LOW", "MEDIUM", "HIGH"),
    _levelled(f"{PRO_3}-customtools", "pro", "LOW", "MEDIUM", "HIGH"),
    _levelled("gemini-3-flash-preview", "flash", *_QUICK),
    _levelled("gemini-3.1-flash-lite-preview", "flash-lite", *_QUICK),
    _levelled("gemini-3.1-flash-lite", "flash-lite", *_QUICK, preview=False),
    _levelled("gemini-3.5-flash-lite", "flash-lite", *_QUICK, preview=False),
    ModelInfo(name="gemini-2.0-flash", tier="flash", output_limit=8192),
    ModelInfo(name="gemini-2.0-flash-lite", tier="flash-lite", output_limit=8192),
    ModelInfo(name="gemini-embedding-001", tier="embedding", input_limit=2048),
)
"""The listed models."""

_BY_NAME = {model.name: model for model in MODELS}
_FOREIGN_LIMITS = (
    (ANTHROPIC, 200_000),
    (f"{OPENAI}gpt-5", 272_000),
    (f"{OPENAI}gpt-4.1", 1_047_576),
    (f"{OPENAI}o1", 200_000),
    (f"{OPENAI}o3", 200_000),
    (f"{OPENAI}o4", 200_000),
    (OPENAI, 128_000),
)
"""Input limits of other services by prefix of the model name, as documented. For a private server
it is a guess, which `model.contextWindow` corrects."""
_SPEAKS_OR_PAINTS = frozenset({"tts", "image", "audio", "live", "embedding"})
_GEMMA_LIMITS = {"3": 131_072, "4": 256_000}

_THOUGHTS = {
    Thinking.BUDGET: ThinkingConfig(thinking_budget=-1, include_thoughts=True),
    Thinking.LEVEL: ThinkingConfig(thinking_level="HIGH", include_thoughts=True),
}


def default_model() -> str:
    """The default model of a session."""
    return PRO


def resolved_name(name: str) -> str:
    """Resolves an alias or a renamed model; other names are unchanged."""
    bare = name.removeprefix("models/")
    meant = ALIASES.get(bare, bare)
    meant = SUCCESSORS.get(meant, meant)
    return name if meant == bare else meant


def model_info(name: str) -> ModelInfo:
    """The properties of a model, derived from its series if it is not listed."""
    bare = resolved_name(name).removeprefix("models/")
    known = _BY_NAME.get(bare)
    if known is not None:
        return known
    for begins, limit in _FOREIGN_LIMITS:
        if bare.startswith(begins):
            return ModelInfo(name=bare, input_limit=limit)
    family, _, rest = bare.partition("-")
    if family == "gemma":
        limit = _GEMMA_LIMITS.get(rest.partition("-")[0], _GEMMA_LIMITS["3"])
        return ModelInfo(name=bare, input_limit=limit, takes_signatures=False)
    version = _version(rest) if family == "gemini" else None
    if version is None:
        return ModelInfo(name=bare)
    return _by_series(bare, *version)


def _version(rest: str) -> tuple[int, int] | None:
    """Parses the version of "2.5-pro" or "3"; None without one."""
    major, _, minor = rest.partition("-")[0].partition(".")
    if not (major.isascii() and major.isdigit() and len(major) < 4):
        return None
    if not minor:
        return (int(major), 0) if "." not in rest.partition("-")[0] else None
    return (int(major), int(minor)) if minor.isascii() and minor.isdigit() else None


def thinking_config(name: str) -> ThinkingConfig | None:
    """The default thinking settings of a model; None if it has none (WIRE-09)."""
    return _THOUGHTS.get(model_info(name).thinking)


def foreign_name(name: str) -> str:
    """The name of another service's model without its prefix."""
    return name.removeprefix(OPENAI).removeprefix(ANTHROPIC)


def default_generation(name: str) -> GenerationConfig:
    """The default generation settings of a conversation with a model. None for models of other
    services, whose parameters are unknown."""
    if name.startswith((OPENAI, ANTHROPIC)):
        return GenerationConfig()
    return GenerationConfig(
        temperature=1.0, top_p=0.95, top_k=64, thinking_config=thinking_config(name)
    )


def _by_series(name: str, major: int, minor: int) -> ModelInfo:
    """An unlisted model. Speech and image models have no thinking settings."""
    silent = not _SPEAKS_OR_PAINTS.isdisjoint(name.split("-"))
    thinking = Thinking.NONE
    if not silent and (major, minor) == (2, 5):
        thinking = Thinking.BUDGET
    elif not silent and major == 3:
        thinking = Thinking.LEVEL
    tier = next((word for word in ("flash-lite", "flash", "pro") if f"-{word}" in name), "custom")
    return ModelInfo(
        name=name,
        tier=tier,
        output_limit=None if thinking is Thinking.NONE else _OUTPUT_LIMIT,
        thinking=thinking,
        levels=("LOW", "HIGH") if thinking is Thinking.LEVEL else (),
        needs_signatures=major == 3,
        preview="-preview" in name or "-exp" in name,
    )


_NAME = r"claude-(?:([a-z]+)-)?(\d{1,2})(?:[.-](\d{1,2}))?(?![\d.])(?:-([a-z]+))?"
LEAST_OUTPUT = 8192
"""Output limit for an unknown model, or when the prompt leaves no room for more."""
_USUAL = 32_000


class ClaudeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model of Anthropic, or of a compatible server.

    `most_output` is the output limit in tokens, thinking included, None if unknown;
    `default_output` is used without an explicit limit, which the service requires. `thinks`: it
    supports thinking budgets.
    """

    most_output: int | None = None
    default_output: int = LEAST_OUTPUT
    thinks: bool = True


def claude_info(name: str) -> ClaudeInfo:
    """The properties of a model by its version. More than 32,000 output tokens are requested only
    with an explicit limit: prompt and output share the window."""
    found = re.search(_NAME, name.lower())
    if found is None:
        return ClaudeInfo()
    family = found[1] or found[4] or ""
    version = int(found[2]), int(found[3] or 0)
    most = _most_output(family, version)
    return ClaudeInfo(
        most_output=most,
        default_output=min(most or _USUAL, _USUAL),
        thinks=version >= (3, 7),
    )


def _most_output(family: str, version: tuple[int, int]) -> int | None:
    if version < (3, 5):
        return 4096
    if version < (3, 7):
        return 8192
    if version > (4, 5):
        return None
    return 32_000 if family == "opus" and version in {(4, 0), (4, 1)} else 64_000


_NAME_FALLBACK = r"gemini-\d+(?:\.\d+)?-(pro|flash-lite|flash)(-preview(?:-[\w.-]+)?)?"
_PREVIEW_FLASH = "gemini-3-flash-preview"
_STABLE = "gemini-2.5-"


def successors(model: str) -> tuple[str, ...]:
    """The chain of fallback models of `model`."""
    found: list[str] = []
    waiting = [model]
    while waiting:
        asked = waiting.pop()
        for error in (ModelNotFoundError("gone", status=404), QuotaError("spent", status=429)):
            other = fallback_model(asked, error)
            if other is not None and other not in found:
                found.append(other)
                waiting.append(other)
    return tuple(found)


def fallback_model(model: str, error: ModelError) -> str | None:
    """The next model after `model`, when `error` is a quota or capacity error, a missing model or a
    repeated failure; None when there is none, or it would fail too.

    From pro to flash of the same series, from an unavailable preview to its stable predecessor; the
    chain never returns, so it ends.
    """
    found = re.fullmatch(_NAME_FALLBACK, model.removeprefix("models/"))
    if found is None:
        return None
    size, preview = found[1], found[2]
    if isinstance(error, ModelNotFoundError):
        return f"{_STABLE}{size}" if preview else None
    if not isinstance(error, QuotaError | ServerFaultError) or error.status is None:
        return None
    if preview:
        return _PREVIEW_FLASH if size == "pro" else f"{_STABLE}{size}"
    return found[0].replace("-pro", "-flash") if size == "pro" else None


_TABLE = Path(__file__).parent / "prices.toml"
_MILLION = 1_000_000


class PriceTable(msgspec.Struct, frozen=True):
    """`prices.toml`: the source and date of the prices, and the prices by model name."""

    source: str
    date: str
    models: dict[str, PriceSettings]


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of tokens. `cached` are part of `prompt`; thinking is part of `output`."""

    prompt: int = 0
    cached: int = 0
    output: int = 0


class Prices:
    """`own` are the user's prices, which override the table. Raises ConfigError for an invalid
    one."""

    def __init__(self, own: Mapping[str, PriceSettings]) -> None:
        for name, price in own.items():
            given = (getattr(price, field) for field in price.__struct_fields__)
            if any(number is not None and not 0 <= number < float("inf") for number in given):
                raise ConfigError(
                    f"the price of {name} in model.prices is no amount of money.",
                    remedy="Give US dollars for a million tokens, 0 or more.",
                )
        self._own = own
        self._found: dict[str, PriceSettings | None] = {}

    def of(self, model: str) -> PriceSettings | None:
        """The price of a model; None if unknown."""
        if model not in self._found:
            self._found[model] = self._search(model)
        return self._found[model]

    def _search(self, model: str) -> PriceSettings | None:
        names = (model, resolved_name(model).rpartition("/")[2])
        for table in (self._own, price_table().models):
            for name in names:
                fits = [pattern for pattern in table if _fits(pattern, name)]
                if fits:
                    return table[max(fits, key=len)]
        return None

    def cost(self, model: str, tokens: Tokens, *, long: bool | None = None) -> float | None:
        """Cost in US dollars; None if the price is unknown. `long`: the prompt had more than
        LONG_PROMPT tokens, if `tokens` cover several requests."""
        price = self.of(model)
        if price is None:
            return None
        fresh, cached, output = rates(price, tokens.prompt > LONG_PROMPT if long is None else long)
        amount = (tokens.prompt - tokens.cached) * fresh + tokens.cached * cached
        return (amount + tokens.output * output) / _MILLION


def rates(price: PriceSettings, long: bool) -> tuple[float, float, float]:
    """Prices of input, cached input and output; of `long` requests with their surcharge."""
    fresh, cached, output = price.input, price.cached, price.output
    if long:
        fresh = fresh if price.long_input is None else price.long_input
        cached = cached if price.long_cached is None else price.long_cached
        output = output if price.long_output is None else price.long_output
    return fresh, fresh if cached is None else cached, output


@cache
def price_table() -> PriceTable:
    """The table included in this version."""
    return msgspec.toml.decode(_TABLE.read_bytes(), type=PriceTable)


def _fits(pattern: str, name: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name
