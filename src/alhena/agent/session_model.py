"""Which model a session uses, and with which generation settings."""

from collections.abc import Mapping
from typing import Any

from alhena.chat.chat import ModelTraits
from alhena.config.settings import ModelConfigSettings, Settings
from alhena.models.catalogue import default_generation, default_model, model_info, resolved_name
from alhena.wire.request import GenerationConfig

_UNCONFIGURED = ModelConfigSettings()


class SessionModels:
    """The model that was asked for: by the program, by GEMINI_MODEL or by `model.name`; and its
    settings, which `modelConfigs` may change. Raises ConfigError when these cannot be used."""

    def __init__(self, given: str | None, environ: Mapping[str, str], settings: Settings) -> None:
        self.requested = (
            given or environ.get("GEMINI_MODEL") or settings.model.name or default_model()
        )
        self._configs = settings.model_configs
        if self._configs == _UNCONFIGURED:
            self.name = resolved_name(self.requested)
        else:
            from alhena.models.configs import resolve

            self.name = resolve(self.requested, self._configs).name

    def generation(self, model: str) -> GenerationConfig:
        """The settings for the conversation, which `model` answers."""
        asked = self.requested if model == self.name else model
        return generation_for(asked, self._configs)


def generation_for(
    model: str,
    configs: ModelConfigSettings,
    *,
    scope: str = "core",
    own: Mapping[str, Any] | None = None,
) -> GenerationConfig:
    """The generation settings for a model in a scope, the session's or an agent's. `own` are those
    that the scope has itself, by their wire names; null takes one away."""
    if configs == _UNCONFIGURED and not own:
        return default_generation(model)
    from alhena.models.configs import resolve

    return resolve(model, configs, scope=scope, own=own).generation


def traits_of(model: str) -> ModelTraits:
    """What a conversation has to know of its model."""
    known = model_info(model)
    return ModelTraits(
        name=model,
        sign_calls=known.needs_signatures,
        takes_signatures=known.takes_signatures,
    )
