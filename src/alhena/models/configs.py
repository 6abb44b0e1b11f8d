"""modelConfigs of the settings: named configurations, overrides, and unknown keys.

An alias has a `modelConfig` ({model, generateContentConfig}) and may extend another; an override
changes it if its `match` applies: {model (a name or an alias), overrideScope (an agent), isRetry}.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from alhena.config.documents import read_value
from alhena.config.settings import ModelConfigSettings
from alhena.errors import ConfigError
from alhena.models.catalogue import (
    SAMPLING,
    Sampling,
    Thinking,
    model_info,
    refuse_settings,
    refused_settings,
    resolved_name,
    without_refused,
)
from alhena.wire.content import needs_mending
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ThinkingConfig

CORE = "core"
"""The scope of the main session, as opposed to its agents."""

_BUILT_IN: dict[str, Any] = {
    "base": {"modelConfig": {"generateContentConfig": {"temperature": 0, "topP": 1}}},
    "chat-base": {
        "extends": "base",
        "modelConfig": {"generateContentConfig": {"temperature": 1, "topP": 0.95, "topK": 64}},
    },
    "chat-base-2.5": {
        "extends": "chat-base",
        "modelConfig": {
            "generateContentConfig": {
                "thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}
            }
        },
    },
    "chat-base-3": {
        "extends": "chat-base",
        "modelConfig": {
            "generateContentConfig": {
                "thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}
            }
        },
    },
}
_CHAT_BASES = {
    Thinking.NONE: "chat-base",
    Thinking.BUDGET: "chat-base-2.5",
    Thinking.LEVEL: "chat-base-3",
}


REQUEST_KEYS = frozenset({"safetySettings", "labels", "serviceTier", "modelArmorConfig"})
"""Keys of `generateContentConfig` that are placed beside the generation settings in a request."""


class ResolvedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model under its requested name, with the settings of its requests. `refused`: the user's
    settings that it cannot take, by wire name, each with the reason; they are not in `config`."""

    name: str
    config: GenerateContentConfig
    refused: Mapping[str, str] = {}

    @property
    def generation(self) -> GenerationConfig:
        """The generation settings."""
        return self.config.generation_config or GenerationConfig()


def resolve(
    requested: str,
    settings: ModelConfigSettings,
    *,
    scope: str = CORE,
    is_retry: bool = False,
    base: str | None = None,
    own: Mapping[str, Any] | None = None,
) -> ResolvedModel:
    """Resolves `requested`, an alias or a name, to a model and its configuration.

    A model without an alias extends `base`; None is the chat base of its series (`chat-base-2.5`,
    `chat-base-3` or `chat-base`). `own` are the caller's settings; overrides apply after them.
    Later and more specific ones win, and those of an alias over those of its base. `is_retry`: for
    an attempt after a failed one. Settings that the model cannot take are left out; `refused` names
    the user's. Raises ConfigError.
    """
    aliases = _aliases(settings)
    chain = _chain(requested, aliases, base)
    configs = {alias: _config(aliases.get(alias), f"alias {alias!r}") for alias in chain}
    name = next((model for alias in chain[::-1] if (model := configs[alias].get("model"))), "")
    name = name or requested
    levels = {item: level for level, item in enumerate([*chain, name, resolved_name(name)])}
    wanted = {"overrideScope": scope, "isRetry": is_retry}
    found = _matching((*settings.overrides, *settings.custom_overrides), levels, wanted)
    changes = [_config(override, "an override") for override in found]
    name = next((model for change in changes[::-1] if (model := change.get("model"))), name)
    merged: dict[str, Any] = {}
    for alias in chain:
        change: dict[str, Any] = configs[alias].get("generateContentConfig") or {}
        is_ours = aliases.get(alias) is _BUILT_IN.get(alias)
        merged = _merge_settings(
            merged, _remove_refused(change, name, is_default=True) if is_ours else change
        )
    merged = _merge_settings(merged, _remove_refused(own or {}, name))
    for change in changes:
        merged = _merge_settings(merged, change.get("generateContentConfig") or {})
    try:
        config = convert_config(merged)
    except msgspec.ValidationError as error:
        attempts = " for further attempts" if is_retry else ""
        raise ConfigError(
            f"modelConfigs: what is set for {requested}{attempts} cannot be used: {error}.",
            remedy="Correct that value in the settings.",
        ) from error
    name = resolved_name(name)
    generation = config.generation_config or GenerationConfig()
    refused = refused_settings(name, generation)
    config = msgspec.structs.replace(config, generation_config=without_refused(name, generation))
    return ResolvedModel(name=name, config=config, refused=refused)


def _remove_refused(
    settings: Mapping[str, Any], name: str, *, is_default: bool = False
) -> dict[str, Any]:
    """Settings without those that a model cannot take or, of our defaults, that are left to it."""
    generation = read_value(
        {key: value for key, value in settings.items() if key not in REQUEST_KEYS},
        GenerationConfig,
    )
    refused = refused_settings(resolved_name(name), generation)
    info = model_info(name)
    if is_default and not info.default_level:
        refused["thinkingLevel"] = "left to the model"
    if is_default and info.sampling is not Sampling.DEFAULT:
        refused |= dict.fromkeys(SAMPLING.values(), "left to the model")
    kept = {key: value for key, value in settings.items() if key not in refused}
    if (thinking := as_object(kept.get("thinkingConfig"))) is not None:
        kept["thinkingConfig"] = {
            key: value for key, value in thinking.items() if key not in refused
        }
    return kept


def convert_config(settings: Mapping[str, Any]) -> GenerateContentConfig:
    """Converts a `generateContentConfig` of the settings to that of a request. Raises
    ValidationError, also for numbers outside JSON."""
    if needs_mending(settings):
        raise msgspec.ValidationError("a number in it is not finite")
    beside = {key: settings[key] for key in REQUEST_KEYS & settings.keys()}
    others = {key: value for key, value in settings.items() if key not in REQUEST_KEYS}
    return msgspec.structs.replace(
        read_value(beside, GenerateContentConfig),
        generation_config=read_value(others, GenerationConfig),
    )


def require_usable(
    requested: str, name: str, settings: ModelConfigSettings, *, alone: bool
) -> None:
    """Raises ConfigError for configurations that would fail in a session with `requested`, the
    model `name`: settings that it cannot take, and what would fail on a retry or, unless it is
    `alone`, in a fallback model."""
    from alhena.models.catalogue import successors

    for is_retry in (False, True):
        found = resolve(requested, settings, is_retry=is_retry)
        refuse_settings(found.name, found.refused, "modelConfigs")
        for model in () if alone else successors(name):
            resolve(model, settings, is_retry=is_retry)


def names_retries(settings: ModelConfigSettings) -> bool:
    """True when an override depends on retries."""
    matches = (
        as_object((as_object(override) or {}).get("match"))
        for override in (*settings.overrides, *settings.custom_overrides)
    )
    return any(match is not None and match.get("isRetry") is not None for match in matches)


def _aliases(settings: ModelConfigSettings) -> dict[str, Any]:
    return {**_BUILT_IN, **settings.aliases, **settings.custom_aliases}


def _chain(requested: str, aliases: Mapping[str, Any], base: str | None) -> list[str]:
    """The aliases of a configuration, most general first."""
    chain: list[str] = []
    name: str | None = requested
    if requested not in aliases:
        chain.append(requested)
        meant = resolved_name(requested)
        if meant in aliases:
            name = meant
        else:
            name = base or _CHAT_BASES[model_info(requested).thinking]
    while name is not None:
        if name in chain:
            raise ConfigError(
                f"modelConfigs: the alias {name!r} extends itself.",
                remedy="Correct its `extends`.",
                page="models",
            )
        if name not in aliases:
            raise ConfigError(
                f"modelConfigs: the alias {chain[-1]!r} extends {name!r}, which there is not.",
                remedy="Correct its `extends`, or add that alias.",
                page="models",
            )
        chain.append(name)
        extended = (as_object(aliases[name]) or {}).get("extends")
        name = extended if isinstance(extended, str) else None
    return chain[::-1]


def _config(entry: Any, what: str) -> dict[str, Any]:
    """The modelConfig of an alias or an override."""
    if entry is None:
        return {}
    fields = as_object(entry)
    config = as_object(fields.get("modelConfig", {})) if fields is not None else None
    generation = config.get("generateContentConfig", {}) if config is not None else None
    model = config.get("model") if config is not None else None
    if config is None or as_object(generation) is None or not isinstance(model, str | None):
        raise ConfigError(
            f"modelConfigs: the modelConfig of {what} is not "
            "{model: text, generateContentConfig: object}.",
            remedy="Correct it in the settings.",
        )
    return config


def _matching(
    overrides: Sequence[Any], levels: Mapping[str, int], wanted: Mapping[str, Any]
) -> list[Any]:
    """The matching overrides, in order of application."""
    found: list[tuple[int, int, int, Any]] = []
    for index, override in enumerate(overrides):
        match = as_object((as_object(override) or {}).get("match"))
        if match is None:
            raise ConfigError(
                f"modelConfigs: override {index + 1} has no `match`.",
                remedy="Say in it for which model it is, as in {match: {model: ...}}.",
                page="models",
            )
        conditions = {key: value for key, value in match.items() if value is not None}
        model = conditions.pop("model", None)
        level = -1 if model is not None else 0
        if isinstance(model, str):
            level = levels.get(model, -1)
        fits = level >= 0 and all(wanted.get(key) == value for key, value in conditions.items())
        fits = fits and isinstance(conditions.get("isRetry", False), bool)  # 1 equals true
        if fits and (model is not None or conditions):
            found.append((level, len(conditions) + (model is not None), index, override))
    return [override for *_, override in sorted(found, key=lambda item: item[:3])]


def _merge_settings(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merges objects and replaces other values; null removes a setting."""
    merged = dict(one)
    for key, value in other.items():
        below, given = as_object(merged.get(key)), as_object(value)
        if value is None:
            merged.pop(key, None)
        elif below is not None and given is not None:
            merged[key] = _merge_settings(below, given)
        else:
            merged[key] = value
    return merged


_Keys = dict[str, Any]
ENTRIES = ("aliases", "customAliases", "overrides", "customOverrides")
"""The entries of `modelConfigs` with model configurations."""


def field_of(entries: str) -> str:
    """The field of the settings for one of ENTRIES."""
    fields = msgspec.structs.fields(ModelConfigSettings)
    return next(field.name for field in fields if field.encode_name == entries)


_NAMES = frozenset(GenerationConfig.__struct_encode_fields__) | REQUEST_KEYS
_THINKING = dict.fromkeys(ThinkingConfig.__struct_encode_fields__, _Keys())
_KNOWN: _Keys = {
    "extends": {},
    "match": {"model": {}, "overrideScope": {}, "isRetry": {}},
    "modelConfig": {
        "model": {},
        "generateContentConfig": {**dict.fromkeys(_NAMES, _Keys()), "thinkingConfig": _THINKING},
    },
}
"""The keys of an entry, each with those below it; with none, all are known."""


def unknown_keys(settings: ModelConfigSettings) -> tuple[str, ...]:
    """A line for each key that is not known."""
    places: list[tuple[str, Any]] = []
    for name in ENTRIES:
        entries = getattr(settings, field_of(name))
        if (named := as_object(entries)) is not None:
            places += [(f"{name}.{key}", entry) for key, entry in named.items()]
        else:
            listed = enumerate(as_array(entries) or ())
            places += [(f"{name}[{index}]", entry) for index, entry in listed]
    return tuple(line for place, entry in places for line in _unknown(place, entry, _KNOWN))


def _unknown(place: str, entry: Any, known: _Keys) -> Iterator[str]:
    for key, value in (as_object(entry) or {}).items():
        if value is not None and key not in known:
            yield f"modelConfigs.{place}.{key}: not known, and not sent."
        elif known.get(key):
            yield from _unknown(f"{place}.{key}", value, known[key])
