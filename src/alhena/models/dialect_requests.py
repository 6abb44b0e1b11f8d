"""Requests of other dialects in the form of a model."""

from msgspec.structs import replace

from alhena.models.catalogue import model_info
from alhena.wire.conformance.check import RequestGate
from alhena.wire.conformance.history import is_signature
from alhena.wire.content import Content
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.results import beside_results
from alhena.wire.encode import EncodedContent
from alhena.wire.request import GenerateContentRequest


def sendable(
    request: DialectRequest, *, model: str, prompt_id: str = "", session_id: str = ""
) -> GenerateContentRequest:
    """A request of any dialect in the form of `model`, checked and repaired.

    Thoughts are dropped with their signatures, and so are signatures that cannot be Gemini's: a
    client has changed them. Media in tool results are moved as the model requires. Raises
    ConformanceError for an irreparable request, EncodeError for values without a JSON form.
    """
    info = model_info(model)
    contents = request.contents if info.media_in_responses else beside_results(request.contents)
    signed = map(_without_broken_signatures, contents)
    sent = GenerateContentRequest(
        model=model,
        contents=tuple(map(EncodedContent, signed)),
        config=request.config,
        prompt_id=prompt_id,
        session_id=session_id,
    )
    admitted, _ = RequestGate().admit(
        sent, needs_signatures=info.needs_signatures, takes_signatures=info.takes_signatures
    )
    return admitted


def _without_broken_signatures(content: Content) -> Content:
    if all(part.thought_signature is None for part in content.parts):
        return content
    parts = [
        part
        if part.thought_signature is None or is_signature(part.thought_signature)
        else replace(part, thought_signature=None)
        for part in content.parts
    ]
    return Content(role=content.role, parts=tuple(parts))
