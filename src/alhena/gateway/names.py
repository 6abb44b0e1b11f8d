"""Which model answers under which name."""

from collections.abc import Mapping

from alhena.models.catalogue import (
    ALIASES,
    MODELS,
    SUCCESSORS,
    ModelInfo,
    model_info,
    resolved_name,
)

_GEMINI = ("gemini-", "gemma-", "learnlm-")


class ModelNames:
    """The names that clients use, and the models that answer them.

    `given` says it for single names. Of the others a Gemini name stands for itself where `gemini`
    models answer; any other one means the `configured` model, because clients of other dialects
    insist on the names they know.
    """

    def __init__(
        self, configured: str, given: Mapping[str, str] | None = None, *, gemini: bool = True
    ) -> None:
        self.configured = configured
        self.gemini = gemini
        self._given = dict(given or {})

    def model(self, name: str) -> str:
        """The model that answers for a name."""
        bare = name.removeprefix("models/")
        mapped = self._given.get(name) or self._given.get(bare)
        if mapped is not None:
            return resolved_name(mapped) if self.gemini else mapped
        if self.gemini and (_is_gemini(bare) or name.startswith("tunedModels/")):
            return resolved_name(bare)
        return self.configured

    def listed(self) -> tuple[ModelInfo, ...]:
        """The models to tell clients of: the configured one, the names that were given, and what
        is known of Gemini's."""
        found = {self.configured: model_info(self.configured)}
        for name in self._given:
            found.setdefault(name, _named(name, self.model(name)))
        for info in MODELS if self.gemini else ():
            found.setdefault(info.name, info)
        return tuple(found.values())

    def described(self, name: str) -> ModelInfo | None:
        """What is known of the model of a name; None for a name that no list would have."""
        bare = name.removeprefix("models/")
        listed = {info.name: info for info in self.listed()}
        if bare in listed:
            return listed[bare]
        if self.gemini and _is_gemini(bare):
            return _named(bare, self.model(bare))
        return None


def _named(name: str, model: str) -> ModelInfo:
    from msgspec.structs import replace

    return replace(model_info(model), name=name)


def _is_gemini(name: str) -> bool:
    return name.startswith(_GEMINI) or name in ALIASES or name in SUCCESSORS
