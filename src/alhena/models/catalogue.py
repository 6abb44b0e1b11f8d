"""The model catalogue: names, aliases, limits, parameters and fallback models.

An unlisted model is classified by its name: the series decides the form of thinking settings, and
an unknown model gets no settings that it might reject.
"""

import re
import time
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import assert_never

import msgspec
from msgspec.structs import replace

from alhena.errors import ConfigError, ModelError, ServerFaultError
from alhena.models.errors import QuotaError
from alhena.near_names import VERY_NEAR, near_name
from alhena.values import Value
from alhena.wire.request import GenerationConfig, ThinkingConfig

DEFAULT_INPUT_LIMIT = 1_048_576
"""Default input limit in tokens, for models that are not listed."""
_OUTPUT_LIMIT = 65_536

ARGON = "gemini-4-argon"
PRO, FLASH, FLASH_LITE = "gemini-3.1-pro-preview", "gemini-3.8-flash", "gemini-3.5-flash-lite"

ALIASES = {
    "auto": FLASH,
    "auto-gemini-2.5": FLASH,
    "auto-gemini-3": FLASH,
    "pro": PRO,
    "flash": FLASH,
    "flash-lite": FLASH_LITE,
}
"""Alias -> model name. The names of series are the reference's; they mean the newest served."""

OPENAI, OPENAI_RESPONSES, ANTHROPIC = "openai:", "openai-responses:", "anthropic:"
OLLAMA = "ollama:"
"""Prefixes of model names of other services, which use their own dialects. The second one asks
OpenAI's Responses API, the first one the API that the model answers to; Ollama's has the form of
OpenAI's."""
FOREIGN = (OPENAI, OPENAI_RESPONSES, ANTHROPIC, OLLAMA)
GEMINI, VERTEX = "gemini:", "vertex:"
"""Prefixes of Google's services, which are not part of the name that is sent."""
_RESPONSES_ONLY = (
    r"(?:gpt-\d[\w.]*|o\d+)(?:-[a-z\d.]+)*?-(?:codex|pro|deep-research)(?:-.+)?"
    r"|codex-.+|computer-use-preview(?:-.+)?"
)
"""Names of OpenAI's models that answer to the Responses API only."""
DEMO = "demo"
"""The model that answers from fixed rules, without a key and a network."""


class Thinking(StrEnum):
    """The form of a model's thinking settings."""

    NONE = "none"
    BUDGET = "budget"
    LEVEL = "level"


class Sampling(StrEnum):
    """Use of temperature, topP and topK: by DEFAULT ours are sent, OPTIONAL ones only if a person
    set them; REFUSED ones the model ignores or rejects."""

    DEFAULT = "default"
    OPTIONAL = "optional"
    REFUSED = "refused"


class ModelInfo(Value, frozen=True, kw_only=True):
    """Properties of a model. Limits are in tokens; None: unknown.

    `budgets` are the minimum and maximum of thinking tokens (-1 lets the model choose), `levels`
    the levels of thinking; `default_level` is sent if none is set, "" leaves it to the model.
    `needs_signatures`: the first call of each step of the current turn must be signed; without
    `takes_signatures`, thoughts and signatures are rejected. `ends`: the date (YYYY-MM-DD) after
    which the service has no such model; "" if none is announced. `listed`: the properties are
    those of the service's documents, not derived from the name.
    """

    name: str
    tier: str = "custom"
    input_limit: int = DEFAULT_INPUT_LIMIT
    output_limit: int | None = None
    thinking: Thinking = Thinking.NONE
    budgets: tuple[int, int] | None = None
    levels: tuple[str, ...] = ()
    default_level: str = ""
    sampling: Sampling = Sampling.DEFAULT
    needs_signatures: bool = False
    takes_signatures: bool = True
    preview: bool = False
    ends: str = ""
    listed: bool = False

    @property
    def media_in_responses(self) -> bool:
        """True when media go inside function responses rather than beside them, as since Gemini
        3."""
        return self.thinking is Thinking.LEVEL

    @property
    def forms_beside_functions(self) -> bool:
        """True when JSON answers and functions can be combined, as since Gemini 3."""
        return self.thinking is Thinking.LEVEL

    @property
    def takes_budgets(self) -> bool:
        """True when a number of thinking tokens may be set."""
        levelled_only = self.thinking is Thinking.LEVEL and self.sampling is Sampling.REFUSED
        return self.thinking is not Thinking.NONE and not levelled_only

    def is_served(self, today: str) -> bool:
        """True if the model has no announced end before `today` (YYYY-MM-DD)."""
        return not self.ends or today < self.ends


EMBEDDING = "embedding"
"""The tier of models that compute vectors."""
_QUICK = ("MINIMAL", "LOW", "MEDIUM", "HIGH")
_SLOW = _QUICK[1:]


def _listed_model(
    name: str, tier: str, levels: tuple[str, ...] = (), *, ends: str = "", input_limit: int = 0
) -> ModelInfo:
    """A documented model: its series gives what the arguments do not."""
    info = replace(_by_series(name, *(_version(name) or (0, 0))), tier=tier, ends=ends, listed=True)
    return replace(
        info,
        levels=levels or info.levels,
        input_limit=input_limit or info.input_limit,
    )


def _version(name: str) -> tuple[int, int] | None:
    """The version of "gemini-2.5-pro" or "gemini-3"; that of the newest series for the names of
    the newest models ("gemini-flash-latest"); None for another name."""
    if name in _NEWEST_NAMES:
        return _NEWEST
    found = re.match(_GEMINI_NAME, name)
    return None if found is None else (int(found[1]), int(found[2] or 0))


_GEMINI_NAME = r"gemini-([1-9]\d{0,1})(?:\.(\d{1,2}))?(?![\d.])"
_NEWEST_NAMES = frozenset({"gemini-flash-latest", "gemini-flash-lite-latest", "gemini-pro-latest"})
_NEWEST = (4, 0)
_BUDGETS = {"pro": (128, 32_768), "flash": (0, 24_576), "flash-lite": (0, 24_576)}
_SPEAKS_OR_PAINTS = frozenset({"tts", "image", "audio", "live", "embedding"})


def _by_series(name: str, major: int, minor: int) -> ModelInfo:
    """The properties that a series has in common; a later one is taken as the newest known.
    Speech and image models have no thinking settings."""
    silent = not _SPEAKS_OR_PAINTS.isdisjoint(name.split("-"))
    version = (major, minor)
    tier = next((word for word in ("flash-lite", "flash", "pro") if f"-{word}" in name), "custom")
    thinking = Thinking.NONE
    if not silent and version >= (3, 0):
        thinking = Thinking.LEVEL
    elif not silent and version == (2, 5):
        thinking = Thinking.BUDGET
    sampling = Sampling.DEFAULT
    if version >= (3, 6):
        sampling = Sampling.REFUSED
    elif version >= (3, 2):
        sampling = Sampling.OPTIONAL
    levels: tuple[str, ...] = ()
    if thinking is Thinking.LEVEL:
        levels = ("LOW", "HIGH") if version == (3, 0) else _SLOW
    return ModelInfo(
        name=name,
        tier=tier,
        output_limit=None if thinking is Thinking.NONE else _OUTPUT_LIMIT,
        thinking=thinking,
        budgets=_BUDGETS.get(tier) if thinking is Thinking.BUDGET else None,
        levels=levels,
        default_level="HIGH" if levels and version < (3, 2) else "",
        sampling=sampling,
        needs_signatures=version >= (3, 0),
        preview="-preview" in name or "-exp" in name,
    )


MODELS = (
    _listed_model(FLASH, "flash", _SLOW),
    _listed_model(PRO, "pro", _SLOW),
    _listed_model(f"{PRO}-customtools", "pro", _SLOW),
    _listed_model(FLASH_LITE, "flash-lite", _QUICK),
    _listed_model(ARGON, "pro", _SLOW),
    _listed_model("gemini-3.7-flash", "flash", _SLOW),
    _listed_model("gemini-3.6-flash", "flash", _QUICK),
    _listed_model("gemini-3.1-flash-lite", "flash-lite", _QUICK, ends="2027-05-07"),
    _listed_model("gemini-flash-latest", "flash"),
    _listed_model("gemini-flash-lite-latest", "flash-lite", _QUICK),
    _listed_model("gemini-pro-latest", "pro"),
    _listed_model("gemini-2.5-pro", "pro", ends="2026-12-01"),
    _listed_model("gemini-2.5-flash", "flash", ends="2026-12-01"),
    _listed_model("gemini-2.5-flash-lite", "flash-lite"),
    _listed_model("gemini-embedding-001", EMBEDDING, input_limit=2048),
)
"""The listed models, as the service documents them (2026-11-29)."""

_BY_NAME = {model.name: model for model in MODELS}
_FOREIGN_LIMITS = (
    (ANTHROPIC, 200_000),
    (f"{OPENAI}gpt-5", 272_000),
    (f"{OPENAI}gpt-4.1", 1_047_576),
    (f"{OPENAI}o1", 200_000),
    (f"{OPENAI}o3", 200_000),
    (f"{OPENAI}o4", 200_000),
    (OPENAI, 128_000),
    (OLLAMA, 128_000),
)
"""Input limits of other services by prefix of the model name, as documented. For a private server
it is a guess, which its own word (`set_window`) or `model.contextWindow` corrects."""
_WINDOWS: dict[str, int] = {}
"""Windows that servers have told this process, by model name with its prefix."""
SMALL_WINDOW = 16_384
"""Tokens of a window below which a session of another server's model has a small prompt."""
_GEMMA_LIMITS = {"3": 131_072, "4": 256_000}


def default_model() -> str:
    """The default model of a session."""
    return FLASH


def resolved_name(name: str) -> str:
    """Resolves an alias; other names are unchanged."""
    return ALIASES.get(name.removeprefix("models/"), name)


def stable_name(alias: str) -> str:
    """The newest model of an alias's tier that is no preview."""
    preferred = model_info(resolved_name(alias))
    if not preferred.preview:
        return preferred.name
    stable = [
        each for each in served_models(today()) if each.tier == preferred.tier and not each.preview
    ]
    return max(stable, key=lambda each: _version(each.name) or (0, 0), default=preferred).name


def bare_name(name: str) -> str:
    """The name of a model without the folders before it (`models/…`, `publishers/google/models/…`),
    aliases resolved; so two names of one model are equal, unless the service alone knows it."""
    return resolved_name(resolved_name(with_usual_prefix(name)).rpartition("/")[2])


def today() -> str:
    """Today's date, YYYY-MM-DD."""
    return time.strftime("%Y-%m-%d")


def is_alias(name: str) -> bool:
    """True for a name whose model we choose."""
    return name.removeprefix("models/") in ALIASES


def misspelt_model(name: str) -> str | None:
    """The name that is meant by one with a misspelt word (`gemini-3.8-flahs`); None where all words
    are known, as those of a newer version are, or none is similar."""
    names = (DEMO, *ALIASES, *_BY_NAME)
    known = {word for each in names for word in each.split("-") if word.isalpha()}
    words = [] if ":" in name else name.split("-")
    meant = [
        near_name(each, known, VERY_NEAR) or each if each.isalpha() and each not in known else each
        for each in words
    ]
    return "-".join(meant) if meant != words else None


def served_models(today: str) -> tuple[ModelInfo, ...]:
    """The listed models that are served on `today` (YYYY-MM-DD)."""
    return tuple(model for model in MODELS if model.is_served(today))


def conversing_models(today: str) -> tuple[ModelInfo, ...]:
    """The listed models that are served on `today` and answer prompts."""
    return tuple(model for model in served_models(today) if model.tier != EMBEDDING)


def is_unknown(name: str) -> bool:
    """True for a model that is not listed, of a series newer than all stable listed ones."""
    bare = resolved_name(name).rpartition("/")[2]
    version = _version(bare)
    return version is not None and version > (3, 8) and bare not in _BY_NAME


class ServedModel(Value, frozen=True, kw_only=True):
    """A model of the service's own list. Limits are in tokens; None: not said. `levels`: its levels
    of thinking, empty if not said. `title`: its name for people."""

    name: str
    title: str = ""
    input_limit: int | None = None
    output_limit: int | None = None
    levels: tuple[str, ...] = ()


_SERVED: dict[str, ModelInfo] = {}
"""Properties of unlisted models that a service has told this process, by name."""


def add_served(models: Iterable[ServedModel]) -> None:
    """Takes over what a service says about models that are not listed."""
    for each in models:
        if each.name in _BY_NAME:
            continue
        info = model_info(each.name)
        _SERVED[each.name] = replace(
            info,
            input_limit=each.input_limit or info.input_limit,
            output_limit=each.output_limit or info.output_limit,
            levels=each.levels or info.levels,
        )


def set_window(name: str, tokens: int | None) -> None:
    """Takes over the window of another service's model from its server; None: it does not say."""
    if tokens is None:
        _WINDOWS.pop(with_usual_prefix(name), None)
    else:
        _WINDOWS[with_usual_prefix(name)] = tokens


def model_info(name: str) -> ModelInfo:
    """The properties of a model by any of its names (`models/…`, `publishers/google/models/…`),
    derived from its series if it is not listed."""
    for begins, limit in _FOREIGN_LIMITS:
        if with_usual_prefix(name).startswith(begins):
            return ModelInfo(name=name, input_limit=_WINDOWS.get(with_usual_prefix(name), limit))
    bare = resolved_name(name).rpartition("/")[2]
    if (known := _BY_NAME.get(bare) or _SERVED.get(bare)) is not None:
        return known
    family, _, rest = bare.partition("-")
    if family == "gemma":
        limit = _GEMMA_LIMITS.get(rest.partition("-")[0], _GEMMA_LIMITS["3"])
        return ModelInfo(name=bare, input_limit=limit, takes_signatures=False)
    version = _version(bare)
    return ModelInfo(name=bare) if version is None else _by_series(bare, *version)


def thinking_config(name: str) -> ThinkingConfig | None:
    """The default thinking settings of a model; None if it has none (WIRE-09)."""
    info = model_info(name)
    match info.thinking:
        case Thinking.NONE:
            return None
        case Thinking.BUDGET:
            return ThinkingConfig(thinking_budget=-1, include_thoughts=True)
        case Thinking.LEVEL:
            level = info.default_level or None
            return ThinkingConfig(thinking_level=level, include_thoughts=True)
        case _:
            assert_never(info.thinking)


def service_of(written: str) -> tuple[str, str]:
    """The service that a name asks for by its prefix, and the name that it is known by: "gemini"
    and "vertex" are Google's, "" is the one that the settings choose. Raises ConfigError for an
    unknown prefix."""
    for prefix in (GEMINI, VERTEX):
        if written.startswith(prefix):
            return prefix[:-1], written.removeprefix(prefix)
    if is_foreign_model(written):
        return written.partition(":")[0], written
    found = re.match(r"[A-Za-z][\w.-]*:", written)
    if found is None:
        return "", written
    raise ConfigError(
        f"no service has the prefix {found[0]!r}, in the model name {written[:60]!r}.",
        remedy=f"Known are {', '.join((GEMINI, VERTEX, *FOREIGN))}; without one it is a Gemini "
        "model.",
    )


def is_foreign_model(name: str) -> bool:
    """True for the name of a model of another service."""
    return name.startswith(FOREIGN)


def model_name_problem(name: str) -> str | None:
    """The reason why no service has a model of this name: the prefix is none, or nothing follows
    it. Names of Google's models have no colon."""
    prefix, separator, rest = name.partition(":")
    if not separator:
        return None
    if not is_foreign_model(name):
        known = ", ".join(FOREIGN)
        return f"{name!r} begins with no known service; {prefix!r} is none of {known}"
    return None if rest.strip() else f"{name!r} names no model after its service"


def foreign_service(name: str) -> str:
    """The service of such a model, "openai" or "anthropic"; "" for other names."""
    return with_usual_prefix(name).partition(":")[0] if is_foreign_model(name) else ""


PROVIDERS = {"openai": "openai", "anthropic": "anthropic", "ollama": "ollama"}
"""Service (`foreign_service`) -> its name in OpenTelemetry's conventions."""
GOOGLE = "gcp.gen_ai"


def provider_name(model: str) -> str:
    """The provider of a model, by OpenTelemetry's conventions."""
    return PROVIDERS.get(foreign_service(model), GOOGLE)


def foreign_name(name: str) -> str:
    """The name of another service's model without its prefix."""
    return name.partition(":")[2] if is_foreign_model(name) else name


def answers_to_responses(name: str) -> bool:
    """True for one of OpenAI's models (without prefix) that answers to the Responses API only."""
    return re.fullmatch(_RESPONSES_ONLY, name) is not None


def with_usual_prefix(name: str) -> str:
    """The name of OpenAI's models with the prefix `openai:`, whichever API is asked."""
    if name.startswith(OPENAI_RESPONSES):
        return OPENAI + name.removeprefix(OPENAI_RESPONSES)
    return name


def default_generation(name: str) -> GenerationConfig:
    """The default generation settings of a conversation with a model. None for models of other
    services, whose parameters are unknown."""
    if is_foreign_model(name):
        return GenerationConfig()
    thinking = thinking_config(name)
    if model_info(name).sampling is not Sampling.DEFAULT:
        return GenerationConfig(thinking_config=thinking)
    return GenerationConfig(temperature=1.0, top_p=0.95, top_k=64, thinking_config=thinking)


SAMPLING = {"temperature": "temperature", "top_p": "topP", "top_k": "topK"}
"""Sampling settings: field of GenerationConfig -> name on the wire."""


def refused_settings(name: str, generation: GenerationConfig) -> dict[str, str]:
    """The settings that a model cannot take, by their wire names, each with the reason."""
    if name.startswith(ANTHROPIC):
        return _refused_by_claude(claude_info(name), generation)
    info = model_info(name)
    found: dict[str, str] = {}
    if info.sampling is Sampling.REFUSED:
        for field, wire_name in SAMPLING.items():
            if getattr(generation, field) is not None:
                found[wire_name] = "Gemini models have no sampling settings from 3.6 on"
        if generation.candidate_count not in {None, 1}:
            found["candidateCount"] = "it answers once"
    thinking = generation.thinking_config
    if thinking is None:
        return found
    levels = ", ".join(info.levels)
    if thinking.thinking_budget is not None and info.thinking is Thinking.LEVEL:
        if not info.takes_budgets:
            found["thinkingBudget"] = f"it takes a thinkingLevel instead ({levels})"
        elif thinking.thinking_level is not None:
            found["thinkingBudget"] = "it takes a thinkingLevel or a thinkingBudget, not both"
    level = thinking.thinking_level
    if level is not None and info.listed and level.upper() not in info.levels:
        known = f"its levels are {levels}" if info.levels else "it has no levels"
        found["thinkingLevel"] = f"{level!r}: {known}"
    return found


def _refused_by_claude(info: "ClaudeInfo", generation: GenerationConfig) -> dict[str, str]:
    found: dict[str, str] = {}
    if not info.takes_sampling:
        for field, wire_name in SAMPLING.items():
            if getattr(generation, field) is not None:
                found[wire_name] = "Claude has no sampling settings from 4.6 on"
    thinking = generation.thinking_config
    if info.adaptive and thinking is not None and (thinking.thinking_budget or 0) > 0:
        found["thinkingBudget"] = "it takes a thinkingLevel instead (LOW, MEDIUM, HIGH)"
    return found


def without_refused(name: str, generation: GenerationConfig) -> GenerationConfig:
    """The settings without those that the model cannot take (`refused_settings`)."""
    refused = refused_settings(name, generation)
    if not refused:
        return generation
    names = {field: None for field, wire_name in SAMPLING.items() if wire_name in refused}
    if "candidateCount" in refused:
        names["candidate_count"] = None
    thinking = generation.thinking_config
    if thinking is not None:
        thinking = replace(
            thinking,
            thinking_budget=None if "thinkingBudget" in refused else thinking.thinking_budget,
            thinking_level=None if "thinkingLevel" in refused else thinking.thinking_level,
        )
    return replace(generation, thinking_config=thinking, **names)


def refuse_settings(name: str, refused: Mapping[str, str], place: str) -> None:
    """Raises ConfigError for `refused_settings` of a model. `place`: where they are set, such as
    "modelConfigs"."""
    if refused:
        wrong = "; ".join(f"{setting} ({reason})" for setting, reason in refused.items())
        raise ConfigError(
            f"{name} does not take what {place} sets: {wrong}.",
            remedy="Remove it there, or choose another model with -m.",
        )


_NAME = r"claude-(?:([a-z]+)-)?(\d{1,2})(?:[.-](\d{1,2}))?(?![\d.])(?:-([a-z]+))?"
LEAST_OUTPUT = 8192
"""Output limit for an unknown model, or when the prompt leaves no room for more."""
_USUAL = 32_000


class ClaudeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A model of Anthropic, or of a compatible server.

    `most_output` is the output limit in tokens, thinking included, None if unknown;
    `default_output` is used without an explicit limit, which the service requires. `thinks`: it
    has thinking; `adaptive`: with a level of effort in place of a budget of tokens. Without
    `takes_sampling`, it rejects temperature, top_p and top_k; without `takes_prefill`, a request
    that ends with the beginning of the answer.
    """

    most_output: int | None = None
    default_output: int = LEAST_OUTPUT
    thinks: bool = True
    adaptive: bool = False
    takes_sampling: bool = True
    takes_prefill: bool = True


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
        adaptive=version >= (4, 6),
        takes_sampling=version < (4, 6),
        takes_prefill=version < (4, 6),
    )


def _most_output(family: str, version: tuple[int, int]) -> int | None:
    if version < (3, 5):
        return 4096
    if version < (3, 7):
        return 8192
    if version > (4, 5):
        return None
    return 32_000 if family == "opus" and version in {(4, 0), (4, 1)} else 64_000


def successors(model: str) -> tuple[str, ...]:
    """The chain of fallback models of `model`."""
    found: list[str] = []
    other = fallback_model(model, QuotaError("spent", status=429))
    while other is not None:
        found.append(other)
        other = fallback_model(other, QuotaError("spent", status=429))
    return tuple(found)


def fallback_model(model: str, error: ModelError) -> str | None:
    """The next model after `model`, when `error` is a quota or capacity error or a repeated
    failure; None when there is none, or it would fail too.

    A model of the pro tier is followed by the flash that aliases mean, any other by the model that
    aliases mean in its tier; so each chain ends.
    """
    bare = resolved_name(model).removeprefix("models/")
    if _version(bare) is None or _SPEAKS_OR_PAINTS.intersection(bare.split("-")):
        return None
    if not isinstance(error, QuotaError | ServerFaultError) or error.status is None:
        return None
    other = {"pro": FLASH, "flash": FLASH, "flash-lite": FLASH_LITE}.get(model_info(bare).tier)
    return None if other == bare else other
