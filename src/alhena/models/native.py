"""Requests of other dialects, put to any generator."""

from collections.abc import AsyncGenerator

from msgspec.structs import replace

from alhena.models.catalogue import model_info
from alhena.models.generator import ContentGenerator
from alhena.wire.calls import CallIds
from alhena.wire.conformance.contents import is_signature
from alhena.wire.conformance.gate import RequestGate
from alhena.wire.content import Content, Part
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.native import ProviderChunk, provider_chunks
from alhena.wire.dialects.results import beside_results
from alhena.wire.encoded import EncodedContent
from alhena.wire.request import GenerateContentRequest
from alhena.wire.signatures import without_thoughts


def sendable(
    request: DialectRequest, *, model: str, prompt_id: str = "", session_id: str = ""
) -> GenerateContentRequest:
    """A request of any dialect as `model` takes it, checked and repaired.

    Thoughts are left out with their signatures. A signature that cannot be one of Gemini's goes,
    too: a client has changed it. Media in tool results stand where the model looks for them. Raises
    ConformanceError for what cannot be repaired, EncodeError for what JSON cannot carry.
    """
    info = model_info(model)
    contents = request.contents if info.media_in_responses else beside_results(request.contents)
    signed = map(_without_broken_signatures, map(_without_thoughts, contents))
    plain = (content for content in signed if content.parts)
    sent = GenerateContentRequest(
        model=model,
        contents=tuple(map(EncodedContent, plain)),
        config=request.config,
        prompt_id=prompt_id,
        session_id=session_id,
    )
    admitted, _ = RequestGate().admit(
        sent, needs_signatures=info.needs_signatures, takes_signatures=info.takes_signatures
    )
    return admitted


def _without_thoughts(content: Content) -> Content:
    if not any(part.thought for part in content.parts):
        return content
    return Content(role=content.role, parts=tuple(without_thoughts(content.parts)))


def _without_broken_signatures(content: Content) -> Content:
    if all(part.thought_signature is None for part in content.parts):
        return content
    parts = [
        part
        if part.thought_signature is None or is_signature(part.thought_signature)
        else replace(part, thought_signature=None)
        for part in content.parts
    ]
    return Content(role=content.role, parts=tuple(part for part in parts if part != Part(text="")))


class NativeProvider:
    """Native tool calls for an editor that keeps its history in Anthropic's form.

    The ids it makes for calls without one are unique in and across sessions when `token` is random.
    """

    def __init__(self, generator: ContentGenerator, *, token: str) -> None:
        self._generator = generator
        self._ids = CallIds(token)

    async def create_message(self, request: DialectRequest) -> AsyncGenerator[ProviderChunk, None]:
        """The answer to a request (`wire.dialects.native.native_request`), as it comes. Raises what
        the generator raises, and what `sendable` does. Closing the iterator closes the answer."""
        sent = sendable(request, model=request.model)
        answer = self._generator.stream(sent)
        taken: set[str] = set()
        try:
            async for response in answer:
                for chunk in provider_chunks(
                    response, names=request.names, new_id=self._ids.next, taken=taken
                ):
                    yield chunk
        finally:
            if isinstance(answer, AsyncGenerator):
                await answer.aclose()
