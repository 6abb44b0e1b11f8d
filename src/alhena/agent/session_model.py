"""Which model a session uses, and with which generation settings."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from alhena.chat.chat import ModelTraits
from alhena.config.settings import ModelConfigSettings, Settings
from alhena.models.catalogue import default_generation, default_model, model_info, resolved_name
from alhena.wire.request import GenerateContentConfig

_UNCONFIGURED = ModelConfigSettings()


class SessionModels:
    """The model that was asked for: by the program, by GEMINI_MODEL or by `model.name`; and its
    settings, which `modelConfigs` may change. Raises ConfigError when these cannot be used."""

    def __init__(self, given: str | None, environ: Mapping[str, str], settings: Settings) -> None:
        self.requested = (
            given or environ.get("GEMINI_MODEL") or settings.model.name or default_model()
        )
        self._configs = settings.model_configs
        self._left_out: tuple[str, ...] = ()
        if self._configs == _UNCONFIGURED:
            self.name = resolved_name(self.requested)
        else:
            from alhena.models.configs import require_usable, resolve

            self.name = resolve(self.requested, self._configs).name
            alone = settings.model.fallback == "never"
            require_usable(self.requested, self.name, self._configs, alone=alone)

    def served_by(self, auth_type: str | None, settings: Settings) -> Settings:
        """The settings of a session that is signed in to its model in this way: without what that
        service does not know."""
        if self._configs == _UNCONFIGURED:
            return settings
        from alhena.models.configs import known_to

        self._configs, self._left_out = known_to(auth_type, self._configs)
        return msgspec.structs.replace(settings, model_configs=self._configs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What `modelConfigs` says to no effect."""
        if self._configs == _UNCONFIGURED:
            return ()
        from alhena.models.configs import oddities

        return (*self._left_out, *oddities(self._configs))

    def config(self, model: str, *, is_retry: bool = False) -> GenerateContentConfig:
        """The settings for the conversation, which `model` answers; `is_retry`: those of an attempt
        after one that failed."""
        asked = self.requested if model == self.name else model
        return config_for(asked, self._configs, is_retry=is_retry)

    @property
    def again(self) -> Callable[[str], GenerateContentConfig] | None:
        """The settings by model for attempts after one that failed; None: they stay the same."""
        if not tells_retries_apart(self._configs):
            return None
        return lambda model: self.config(model, is_retry=True)


def tells_retries_apart(configs: ModelConfigSettings) -> bool:
    """Whether an attempt after one that failed may have other settings."""
    if configs == _UNCONFIGURED:
        return False
    from alhena.models.configs import names_retries

    return names_retries(configs)


def config_for(
    model: str,
    configs: ModelConfigSettings,
    *,
    scope: str = "core",
    is_retry: bool = False,
    own: Mapping[str, Any] | None = None,
) -> GenerateContentConfig:
    """The settings of requests to a model in a scope, the session's or an agent's. `own` are those
    that the scope has itself, by their wire names; null takes one away."""
    if configs == _UNCONFIGURED and not own:
        return GenerateContentConfig(generation_config=default_generation(model))
    from alhena.models.configs import resolve

    return resolve(model, configs, scope=scope, is_retry=is_retry, own=own).config


def traits_of(model: str) -> ModelTraits:
    """What a conversation has to know of its model."""
    known = model_info(model)
    return ModelTraits(
        name=model,
        sign_calls=known.needs_signatures,
        takes_signatures=known.takes_signatures,
    )
