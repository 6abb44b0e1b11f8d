"""Model services: the ContentGenerator protocol and its implementations.

Programs take model objects from here, and what models of their own need; they load on first use.
"""

TYPE_CHECKING = False  # type checkers read it as true
if TYPE_CHECKING:
    from alhena.models.combined import Fallback, Limited
    from alhena.models.providers.objects import (
        Anthropic,
        CodeAssist,
        Gemini,
        OpenAICompatible,
        Recorded,
        TestModel,
        Vertex,
    )
    from alhena.models.retry import RetryPolicy
    from alhena.models.settings import ModelSettings
    from alhena.wire.request import GenerateContentRequest
    from alhena.wire.response import Candidate, EmbedContentResponse, GenerateContentResponse

__all__ = [
    "Anthropic",
    "Candidate",
    "CodeAssist",
    "EmbedContentResponse",
    "Fallback",
    "Gemini",
    "GenerateContentRequest",
    "GenerateContentResponse",
    "Limited",
    "ModelSettings",
    "OpenAICompatible",
    "Recorded",
    "RetryPolicy",
    "TestModel",
    "Vertex",
]

_HOMES = {
    "Fallback": "models.combined",
    "Limited": "models.combined",
    "ModelSettings": "models.settings",
    "RetryPolicy": "models.retry",
    "Candidate": "wire.response",
    "EmbedContentResponse": "wire.response",
    "GenerateContentRequest": "wire.request",
    "GenerateContentResponse": "wire.response",
}
"""Modules of the names that are not in `models.providers.objects`."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module 'alhena.models' has no attribute {name!r}")
    return getattr(import_module(f"alhena.{_HOMES.get(name, 'models.providers.objects')}"), name)


def __dir__() -> list[str]:
    return __all__
