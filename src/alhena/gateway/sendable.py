"""A client's request as a Gemini model takes it."""

from msgspec.structs import replace

from alhena.models.catalogue import model_info
from alhena.wire.conformance.check import RequestGate
from alhena.wire.conformance.contents import is_signature
from alhena.wire.content import Content, Part, without_thoughts
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.results import beside_results
from alhena.wire.encoded import EncodedContent
from alhena.wire.request import GenerateContentRequest


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
