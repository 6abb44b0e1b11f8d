"""modelConfigs of the settings: named configurations, overrides, and entries without effect.

An alias has a `modelConfig` ({model, generateContentConfig}) and may extend another; an override
changes it if its `match` applies: {model (a name or an alias), overrideScope (an agent), isRetry}.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from alhena.config.errors import ConfigError
from alhena.config.settings import ModelConfigSettings
from alhena.models.auth_type import AuthType
from alhena.models.catalogue import Thinking, model_info, resolved_name, thinking_config
from alhena.wire.encoded import needs_mending
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import GenerateContentConfig, GenerationConfig, ThinkingConfig

CORE = "core"
"""The scope of the main session, as opposed to its agents."""

_BASE = {
    "base": {"modelConfig": {"generateContentConfig": {"temperature": 0, "topP": 1}}},
    "chat-base": {
        "extends": "base",
        "modelConfig": {"generateContentConfig": {"temperature": 1, "topP": 0.95, "topK": 64}},
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
    """A model under its requested name, with the settings of its requests."""

    name: str
    config: GenerateContentConfig

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
    an attempt after a failed one. Raises ConfigError.
    """
    aliases = _aliases(settings)
    chain = _chain(requested, aliases, base)
    merged: dict[str, Any] = {}
    name = ""
    for alias in chain:
        config = _config(aliases.get(alias), f"alias {alias!r}")
        name = config.get("model") or name
        merged = _merged(merged, config.get("generateContentConfig") or {})
    merged = _merged(merged, own or {})
    name = name or requested
    levels = {item: level for level, item in enumerate([*chain, name, resolved_name(name)])}
    wanted = {"overrideScope": scope, "isRetry": is_retry}
    for override in _matching((*settings.overrides, *settings.custom_overrides), levels, wanted):
        config = _config(override, "an override")
        name = config.get("model") or name
        merged = _merged(merged, config.get("generateContentConfig") or {})
    try:
        config = converted(merged)
    except msgspec.ValidationError as error:
        attempts = " for further attempts" if is_retry else ""
        raise ConfigError(
            f"modelConfigs: what is set for {requested}{attempts} cannot be used: {error}.",
            remedy="Correct that value in the settings.",
        ) from error
    return ResolvedModel(name=resolved_name(name), config=config)


def converted(settings: Mapping[str, Any]) -> GenerateContentConfig:
    """Converts a `generateContentConfig` of the settings to that of a request. Raises
    ValidationError, also for numbers outside JSON."""
    if needs_mending(settings):
        raise msgspec.ValidationError("a number in it is not finite")
    beside = {key: settings[key] for key in REQUEST_KEYS & settings.keys()}
    others = {key: value for key, value in settings.items() if key not in REQUEST_KEYS}
    return msgspec.structs.replace(
        msgspec.convert(beside, GenerateContentConfig),
        generation_config=msgspec.convert(others, GenerationConfig),
    )


def require_usable(
    requested: str, name: str, settings: ModelConfigSettings, *, alone: bool
) -> None:
    """Raises ConfigError for configurations that would fail later in a session with `requested`,
    the model `name`: on a retry or, unless it is `alone`, in a fallback model."""
    from alhena.models.catalogue import successors

    for model in (requested, *(() if alone else successors(name))):
        for is_retry in (False, True):
            resolve(model, settings, is_retry=is_retry)


def names_retries(settings: ModelConfigSettings) -> bool:
    """True when an override depends on retries."""
    matches = (
        as_object((as_object(override) or {}).get("match"))
        for override in (*settings.overrides, *settings.custom_overrides)
    )
    return any(match is not None and match.get("isRetry") is not None for match in matches)


def _aliases(settings: ModelConfigSettings) -> dict[str, Any]:
    thinking = {
        _CHAT_BASES[kind]: {
            "extends": "chat-base",
            "modelConfig": {
                "generateContentConfig": {
                    "thinkingConfig": msgspec.to_builtins(thinking_config(model))
                }
            },
        }
        for kind, model in (
            (Thinking.BUDGET, "gemini-2.5-pro"),
            (Thinking.LEVEL, "gemini-3.1-pro-preview"),
        )
    }
    return {**_BASE, **thinking, **settings.aliases, **settings.custom_aliases}


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
            )
        if name not in aliases:
            raise ConfigError(
                f"modelConfigs: the alias {chain[-1]!r} extends {name!r}, which there is not.",
                remedy="Correct its `extends`, or add that alias.",
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


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merges objects and replaces other values; null removes a setting."""
    merged = dict(one)
    for key, value in other.items():
        below, given = as_object(merged.get(key)), as_object(value)
        if value is None:
            merged.pop(key, None)
        elif below is not None and given is not None:
            merged[key] = _merged(below, given)
        else:
            merged[key] = value
    return merged


ENTRIES = ("aliases", "customAliases", "overrides", "customOverrides")
"""The entries of `modelConfigs` with model configurations."""

_SERVICES: Mapping[str, tuple[str, frozenset[str]]] = {
    **dict.fromkeys(
        (AuthType.API_KEY, AuthType.GATEWAY),
        (
            "the Gemini API",
            frozenset(
                {"modelArmorConfig", "routingConfig", "modelSelectionConfig", "audioTimestamp"}
            ),
        ),
    ),
    AuthType.VERTEX: ("Vertex AI", frozenset({"enableEnhancedCivicAnswers"})),
    **dict.fromkeys(
        (AuthType.LOGIN, AuthType.COMPUTE, AuthType.CLOUD_SHELL),
        (
            "Code Assist",
            frozenset(
                {
                    "serviceTier",
                    "modelArmorConfig",
                    "enableAffectiveDialog",
                    "enableEnhancedCivicAnswers",
                    "imageConfig",
                }
            ),
        ),
    ),
}


def known_to(
    auth_type: str | None, configs: ModelConfigSettings
) -> tuple[ModelConfigSettings, tuple[str, ...]]:
    """The configurations without entries the service of this authentication type does not support,
    and a line for each dropped key. None: an unknown service."""
    service = _SERVICES.get(auth_type or "")
    if service is None:
        return configs, ()
    name, unknown = service
    told: list[str] = []
    changed: dict[str, Any] = {}
    for entries in ENTRIES:
        field = field_of(entries)
        given = getattr(configs, field)
        if (named := as_object(given)) is not None:
            changed[field] = {
                key: _known(entry, f"{entries}.{key}", unknown, told)
                for key, entry in named.items()
            }
        else:
            changed[field] = tuple(
                _known(entry, f"{entries}[{index}]", unknown, told)
                for index, entry in enumerate(as_array(given) or ())
            )
    lines = tuple(f"modelConfigs.{place}: not sent: {name} does not know it." for place in told)
    return (msgspec.structs.replace(configs, **changed) if told else configs), lines


def field_of(entries: str) -> str:
    """The field of the settings for one of ENTRIES."""
    fields = msgspec.structs.fields(ModelConfigSettings)
    return next(field.name for field in fields if field.encode_name == entries)


def _known(entry: Any, place: str, unknown: frozenset[str], told: list[str]) -> Any:
    fields = as_object(entry) or {}
    config = as_object(fields.get("modelConfig")) or {}
    generation = as_object(config.get("generateContentConfig")) or {}
    odd = [key for key in generation if key in unknown]
    if not odd:
        return entry
    where = f"{place}.modelConfig.generateContentConfig"
    told += [f"{where}.{key}" for key in odd if generation[key] is not None]
    kept = {key: value for key, value in generation.items() if key not in unknown}
    return {**fields, "modelConfig": {**config, "generateContentConfig": kept}}


MAX_TOLD = 10
"""Maximum number reported one by one."""

_CONDITIONS: Mapping[str, tuple[type, str]] = {
    "model": (str, "a name"),
    "overrideScope": (str, "a name"),
    "isRetry": (bool, "true or false"),
}
_SETTINGS = frozenset(GenerationConfig.__struct_encode_fields__) | REQUEST_KEYS
_THINKING = frozenset(ThinkingConfig.__struct_encode_fields__)
_OURS = {
    "tools": "a conversation declares its own tools",
    "toolConfig": "a conversation sets that itself",
    "systemInstruction": "it has an instruction of its own: GEMINI_SYSTEM_MD replaces that",
    "cachedContent": "it cannot go with an instruction and tools",
    "httpOptions": "it is about the connection: GOOGLE_GEMINI_BASE_URL and "
    "GEMINI_CLI_CUSTOM_HEADERS are for that",
    "abortSignal": "it is nothing that can stand in a file",
    "automaticFunctionCalling": "calls are run here, and not by a client library",
}
"""Unsupported keys of a `generateContentConfig` that client libraries accept, with the reasons."""

_Odd = Iterator[tuple[str, str]]


def oddities(settings: ModelConfigSettings) -> tuple[str, ...]:
    """A line for each key without effect: its position, the reason, and the remedy."""
    found = [
        f"modelConfigs.{place}: {why}."
        for name in ENTRIES
        for place, why in _of_entries(name, getattr(settings, field_of(name)))
    ]
    if len(found) > MAX_TOLD:
        more = f"modelConfigs: {len(found) - MAX_TOLD} more things have no effect."
        found[MAX_TOLD:] = [more]
    return tuple(found)


def _of_entries(name: str, entries: Any) -> _Odd:
    if (aliases := as_object(entries)) is not None:
        for alias, entry in aliases.items():
            yield from _of_entry(f"{name}.{alias}", entry, frozenset({"extends", "modelConfig"}))
        return
    for index, entry in enumerate(as_array(entries) or ()):
        place = f"{name}[{index}]"
        yield from _of_entry(place, entry, frozenset({"match", "modelConfig"}))
        fields = as_object(entry) or {}
        match = as_object(fields.get("match")) or {}
        for key in _given(match):
            why = _never_fits(key, match[key])
            if why:
                why = f"{why}, so that the override never applies"
                yield f"{place}.match.{key}", f"{why}; correct or remove it in settings.json"
        if match.get("isRetry") is not None and (as_object(fields.get("modelConfig")) or {}).get(
            "model"
        ):
            why = "a further attempt asks the same model; model.fallback is about others"
            yield f"{place}.modelConfig.model", f"not used: {why}"


def _of_entry(place: str, entry: Any, known: frozenset[str]) -> _Odd:
    fields = as_object(entry) or {}
    yield from _unknown(place, fields, known)
    config = as_object(fields.get("modelConfig")) or {}
    yield from _unknown(f"{place}.modelConfig", config, {"model", "generateContentConfig"})
    generation = as_object(config.get("generateContentConfig")) or {}
    place = f"{place}.modelConfig.generateContentConfig"
    yield from _unknown(place, generation, _SETTINGS, _OURS.get)
    thinking = as_object(generation.get("thinkingConfig")) or {}
    yield from _unknown(f"{place}.thinkingConfig", thinking, _THINKING)
    try:
        converted({key: value for key, value in generation.items() if value is not None})
    except msgspec.ValidationError as error:
        yield place, f"not usable: {error}; whoever it is for is not asked"


def _never_fits(key: str, value: Any) -> str:
    """The reason why a condition never applies, "" if it can."""
    if key not in _CONDITIONS:
        return f"not known{_near(key, _CONDITIONS)}"
    kind, words = _CONDITIONS[key]
    return "" if isinstance(value, kind) else f"not {words}"


def _unknown(
    place: str,
    fields: Mapping[str, Any],
    known: Collection[str],
    reason: Callable[[str], str | None] = lambda _key: None,
) -> _Odd:
    for key in _given(fields):
        if key in known:
            continue
        why = reason(key)
        if why is not None:
            yield f"{place}.{key}", f"not sent: {why}; remove it from settings.json"
        else:
            said = f"not known{_near(key, known)}, and without effect"
            yield f"{place}.{key}", f"{said}; correct or remove it in settings.json"


def _given(fields: Mapping[str, Any]) -> list[str]:
    return [key for key, value in fields.items() if value is not None]


def _near(key: str, known: Collection[str]) -> str:
    from difflib import get_close_matches

    folded = {each.casefold(): each for each in known}
    asked = key.replace("_", "").casefold()
    found = get_close_matches(asked, sorted(folded), n=1, cutoff=0.75)
    return f" (did you mean {folded[found[0]]}?)" if found else ""
