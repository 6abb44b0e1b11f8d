"""A scripted model for the web tools, and the pages they may fetch."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from alhena.errors import ModelError
from alhena.wire.content import Content
from alhena.wire.request import ToolDeclarations
from alhena.wire.response import GenerateContentResponse

RETRIEVED = "URL_RETRIEVAL_STATUS_SUCCESS"


class Asked(msgspec.Struct, frozen=True):
    """One question as the model got it."""

    text: str
    tools: tuple[ToolDeclarations, ...]
    model: str | None


class ScriptedModel:
    """Answers in order: responses, or errors to raise; a callable is awaited first."""

    def __init__(self, *answers: GenerateContentResponse | Exception) -> None:
        self.asked: list[Asked] = []
        self.entered = asyncio.Event()
        self.hold: Callable[[], Any] | None = None
        self._answers = list(answers)

    async def generate(
        self,
        contents: tuple[Content, ...],
        *,
        tools: tuple[ToolDeclarations, ...] = (),
        system: str | None = None,
        model: str | None = None,
    ) -> GenerateContentResponse:
        (content,) = contents
        assert content.role == "user"
        text = "".join(part.text or "" for part in content.parts)
        self.asked.append(Asked(text, tools, model))
        self.entered.set()
        if self.hold is not None:
            await self.hold()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def response(*parts: dict[str, Any] | str, **candidate: Any) -> GenerateContentResponse:
    """A response as the service writes it; keywords are fields of its candidate."""
    made = [{"text": part} if isinstance(part, str) else part for part in parts]
    plain = {"candidates": [{"content": {"role": "model", "parts": made}} | candidate]}
    return msgspec.convert(plain, GenerateContentResponse)


def blocked_response(reason: str, message: str = "") -> GenerateContentResponse:
    """A response to a prompt that the service does not answer."""
    feedback = {"blockReason": reason} | ({"blockReasonMessage": message} if message else {})
    return msgspec.convert({"promptFeedback": feedback}, GenerateContentResponse)


def url_metadata(**status: str) -> dict[str, Any]:
    """urlContextMetadata: host -> status."""
    entries = [
        {"retrievedUrl": f"https://{host.replace('_', '.')}/", "urlRetrievalStatus": value}
        for host, value in status.items()
    ]
    return {"urlMetadata": entries}


def failing(message: str = "the service is down.") -> ModelError:
    return ModelError(message)
