"""What of `modelConfigs` the chosen service does not know: it would refuse the whole request."""

from collections.abc import Mapping
from typing import Any

import msgspec

from alhena.config.settings import ModelConfigSettings
from alhena.models.auth_type import AuthType
from alhena.wire.plain import as_array, as_object

ENTRIES = ("aliases", "customAliases", "overrides", "customOverrides")
"""Where configurations of models stand in `modelConfigs`."""

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
    """The configurations without what the service that is signed in to in this way does not know,
    and a line for each key that was left out. None: a service of which nothing is known."""
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
