"""Request bodies for the Gemini API, joined from contents that are encoded already."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from alhena.wire.content import Content, Wire
from alhena.wire.encoded import EncodedContent, encode_value, mend
from alhena.wire.errors import EncodeError
from alhena.wire.request import (
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    Tool,
    ToolConfig,
)

__all__ = [
    "EncodedContent",
    "encode_count_tokens",
    "encode_embed",
    "encode_request",
    "resource_name",
]


class _Body(Wire, frozen=True, kw_only=True):
    """What generateContent takes; the order of the fields is that of the keys."""

    contents: tuple[msgspec.Raw, ...]
    system_instruction: Content | None = None
    tools: tuple[Tool, ...] | None = None
    tool_config: ToolConfig | None = None
    safety_settings: tuple[dict[str, Any], ...] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    generation_config: GenerationConfig | None = None
    service_tier: str | None = None
    model_armor_config: dict[str, Any] | None = None
    store: bool | None = None


class _Contents(Wire, frozen=True, kw_only=True):
    contents: tuple[msgspec.Raw, ...]


class _EmbedOne(Wire, frozen=True, kw_only=True):
    model: str
    content: msgspec.Raw


class _EmbedAll(Wire, frozen=True, kw_only=True):
    requests: tuple[_EmbedOne, ...]


def encode_request(request: GenerateContentRequest) -> bytes:
    """The body of generateContent and streamGenerateContent; what is None is absent.

    Lone surrogates in the config become U+FFFD. Raises EncodeError for a generation setting that
    is no finite number and for values without a JSON form.
    """
    config = request.config
    if config.generation_config is not None:
        _require_finite(config.generation_config)
    raws = tuple(content.raw for content in request.contents)
    try:
        return encode_value(_body(raws, config))
    except UnicodeEncodeError:
        return encode_value(_body(raws, mend(config)))


def encode_count_tokens(contents: Sequence[EncodedContent]) -> bytes:
    """The body of countTokens. The model is in the URL."""
    return encode_value(_Contents(contents=tuple(content.raw for content in contents)))


def encode_embed(contents: Sequence[EncodedContent], model: str) -> bytes:
    """The body of batchEmbedContents, one request per content; each names the model again."""
    name = resource_name(model)
    return encode_value(
        _EmbedAll(requests=tuple(_EmbedOne(model=name, content=one.raw) for one in contents))
    )


def resource_name(model: str) -> str:
    """A model as the API names it: "models/…", unless the name says its collection itself."""
    return model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"


def _body(raws: tuple[msgspec.Raw, ...], config: GenerateContentConfig) -> _Body:
    return _Body(
        contents=raws,
        system_instruction=config.system_instruction,
        tools=config.tools,
        tool_config=config.tool_config,
        safety_settings=config.safety_settings,
        cached_content=config.cached_content,
        labels=config.labels,
        generation_config=config.generation_config,
        service_tier=config.service_tier,
        model_armor_config=config.model_armor_config,
        store=config.store,
    )


def _require_finite(settings: GenerationConfig) -> None:
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise EncodeError(f"the generation setting {name} is {value}, not a finite number.")
