"""What Gemini's requests can ask for and other dialects cannot, refused where an answer would be
another one without it."""

import msgspec

from alhena.wire.dialects.errors import DialectError
from alhena.wire.request import GenerateContentConfig, GenerationConfig, Tool

_ELSEWHERE = "is not supported: another service than Gemini answers."
_SETTINGS = {
    "response_logprobs": "responseLogprobs",
    "logprobs": "logprobs",
    "speech_config": "speechConfig",
    "image_config": "imageConfig",
    "routing_config": "routingConfig",
    "model_selection_config": "modelSelectionConfig",
    "enable_affective_dialog": "enableAffectiveDialog",
}
_FORMATS = frozenset({"text/plain", "application/json"})


def refuse_lost(config: GenerateContentConfig) -> None:
    """Raises DialectError for a setting that would be lost and that changes the answer: contents
    that the service keeps, tools that it runs, other answers than one of text."""
    if config.cached_content:
        raise DialectError(_ELSEWHERE, "cachedContent")
    if config.model_armor_config:
        raise DialectError(_ELSEWHERE, "modelArmorConfig")
    for at, tool in enumerate(config.tools or ()):
        own = msgspec.structs.replace(tool, function_declarations=None)
        if own != Tool():
            (name, *_) = msgspec.to_builtins(own)
            raise DialectError(f"{name} {_ELSEWHERE}", f"tools[{at}]")
    _refuse_settings(config.generation_config or GenerationConfig())


def _refuse_settings(config: GenerationConfig) -> None:
    place = "generationConfig."
    for name, said in _SETTINGS.items():
        if getattr(config, name):
            raise DialectError(_ELSEWHERE, f"{place}{said}")
    if (config.candidate_count or 1) != 1:
        raise DialectError("only one answer can be asked for.", f"{place}candidateCount")
    if any(kind.upper() != "TEXT" for kind in config.response_modalities or ()):
        raise DialectError("answers are text.", f"{place}responseModalities")
    if config.response_mime_type and config.response_mime_type not in _FORMATS:
        raise DialectError("answers are text or JSON.", f"{place}responseMimeType")
