"""Lists the available models in each dialect."""

from collections.abc import Callable
from typing import Any

from alhena.gateway.anthropic import AnthropicSpeech
from alhena.gateway.faults import FaultKind, refused
from alhena.gateway.google import GoogleSpeech
from alhena.gateway.upstream import ModelNames
from alhena.models.catalogue import ModelInfo

_SINCE = 1735689600
"""A placeholder for the models' creation time, which both dialects require."""
_SINCE_TEXT = "2025-01-01T00:00:00Z"
_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]


Tell = Callable[[str, ModelNames, str], dict[str, Any]]
"""Lists models in a dialect, or describes the named one."""


def models(dialect: str, names: ModelNames, name: str = "") -> dict[str, Any]:
    """All models, in one page."""
    del name
    found = names.listed()
    if dialect == GoogleSpeech.name:
        return {"models": [_google(info) for info in found]}
    if dialect == AnthropicSpeech.name:
        data = [_anthropic(info) for info in found]
        first, last = data[0]["id"], data[-1]["id"]
        return {"data": data, "has_more": False, "first_id": first, "last_id": last}
    return {"object": "list", "data": [_openai(info) for info in found]}


def model(dialect: str, names: ModelNames, name: str) -> dict[str, Any]:
    """One model. Raises RefusedError."""
    info = names.described(name)
    if info is None:
        raise refused(FaultKind.NO_MODEL, f"there is no model {name[:100]!r} here.")
    if dialect == GoogleSpeech.name:
        return _google(info)
    return _anthropic(info) if dialect == AnthropicSpeech.name else _openai(info)


def _openai(info: ModelInfo) -> dict[str, Any]:
    return {"id": info.name, "object": "model", "created": _SINCE, "owned_by": "alhena"}


def _anthropic(info: ModelInfo) -> dict[str, Any]:
    return {
        "type": "model",
        "id": info.name,
        "display_name": info.name,
        "created_at": _SINCE_TEXT,
    }


def _google(info: ModelInfo) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": f"models/{info.name}",
        "displayName": info.name,
        "inputTokenLimit": info.input_limit,
        "supportedGenerationMethods": _METHODS,
    }
    if info.output_limit is not None:
        told["outputTokenLimit"] = info.output_limit
    return told
