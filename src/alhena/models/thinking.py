"""What a model's name says about its thinking (WIRE-09)."""

import re

from alhena.wire.request import ThinkingConfig

_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?(?=-|$)")
_SPEAKS_OR_PAINTS = re.compile(r"-(?:tts|image|audio|live|embedding)(?:-|$)|-native-audio")

_BUDGET = ThinkingConfig(thinking_budget=-1, include_thoughts=True)
_LEVEL = ThinkingConfig(thinking_level="HIGH", include_thoughts=True)


def default_model() -> str:
    """The model of a session for which none was chosen."""
    return "gemini-2.5-pro"


def thinking_config(model: str) -> ThinkingConfig | None:
    """The thinking settings for a model, None where it takes none.

    Text models of the 2.5 series think within a budget of their own choice, those of the 3 series
    at a level; speech and image models of either take no such setting.
    """
    version = _version(model)
    if version is None or _SPEAKS_OR_PAINTS.search(model):
        return None
    if version == (2, 5):
        return _BUDGET
    return _LEVEL if version[0] == 3 else None


def wants_signatures(model: str) -> bool:
    """Whether the model refuses function calls of the current turn without a signature."""
    version = _version(model)
    return version is not None and version[0] == 3


def _version(model: str) -> tuple[int, int] | None:
    found = _VERSION.match(model.removeprefix("models/"))
    return (int(found[1]), int(found[2] or 0)) if found else None
