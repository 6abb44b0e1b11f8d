"""Messages answers, whole and as events."""

from typing import Any

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.anthropic.blocks import BlockWriter, Event, blocks_of
from alhena.wire.dialects.anthropic.signatures import of_next_part, own_signature, redacted
from alhena.wire.dialects.conversation import NewId
from alhena.wire.dialects.endings import Ending, ending_of
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.words import sole_text
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

_FROM_STOP_REASON = {
    "max_tokens": FinishReason.MAX_TOKENS,
    "model_context_window_exceeded": FinishReason.MAX_TOKENS,
    "refusal": FinishReason.SAFETY,
}


def write_response(
    response: GenerateContentResponse, *, model: str, names: ToolNames, new_id: NewId
) -> dict[str, Any]:
    """An answer as a message. `model` is the name the client asked for.

    Raises UnusableAnswerError for an answer that ended with a call that cannot be used.
    """
    blocks = blocks_of(response.parts, names, new_id)
    has_calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        **_message(response, model),
        "content": blocks,
        "stop_reason": stop_reason(response, has_calls=has_calls),
        "usage": usage_of(response.usage_metadata),
    }


class EventWriter:
    """A streamed answer as the events of a message stream. Each has its name as `type`."""

    def __init__(self, *, model: str, names: ToolNames, new_id: NewId) -> None:
        self._model = model
        self._blocks = BlockWriter(names, new_id)
        self._usage: UsageMetadata | None = None
        self._last = GenerateContentResponse()
        self._started = False

    def feed(self, chunk: GenerateContentResponse) -> list[Event]:
        """The events that one more chunk comes to."""
        events: list[Event] = []
        self._usage = chunk.usage_metadata or self._usage
        if not self._started:
            self._started = True
            message = _message(chunk, self._model)
            message["usage"] = {**usage_of(self._usage), "output_tokens": 0}
            events.append({"type": "message_start", "message": message})
        for part in chunk.parts:
            events += self._blocks.part(part)
        if chunk.finish_reason or chunk.prompt_feedback:
            self._last = chunk
        return events

    def text(self, chunk: GenerateContentResponse) -> str:
        """The text of a chunk that brings nothing else to the block of text that is open, which is
        then fed; empty for any other."""
        text = sole_text(chunk) if self._blocks.takes_text else ""
        if text:
            self._usage = chunk.usage_metadata or self._usage
        return text

    def with_text(self, text: str) -> Event:
        """The event of a text for the block that is open."""
        return self._blocks.with_text(text)

    def finish(self) -> list[Event]:
        """The events at the end. Raises UnusableAnswerError as `write_response` does."""
        events = [] if self._started else self.feed(GenerateContentResponse())
        events += self._blocks.close()
        reason = stop_reason(self._last, has_calls=self._blocks.has_calls)
        delta = {"stop_reason": reason, "stop_sequence": None}
        usage = usage_of(self._usage)
        return [
            *events,
            {"type": "message_delta", "delta": delta, "usage": usage},
            {"type": "message_stop"},
        ]


def stop_reason(last: GenerateContentResponse, *, has_calls: bool) -> str:
    """The stop reason for the end of an answer."""
    match ending_of(last, has_calls=has_calls):
        case Ending.FILTERED:
            return "refusal"
        case Ending.LENGTH:
            return "max_tokens"
        case Ending.DONE:
            return "tool_use" if has_calls else "end_turn"


def usage_of(usage: UsageMetadata | None) -> dict[str, Any]:
    """Token counts; what came from the cache is counted apart, as there."""
    usage = usage or UsageMetadata()
    cached = usage.cached_content_token_count
    prompt = usage.prompt_token_count + usage.tool_use_prompt_token_count
    return {
        "input_tokens": max(prompt - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.candidates_token_count + usage.thoughts_token_count,
    }


def usage_from(fields: Fields | None) -> UsageMetadata | None:
    """The token counts of a message."""
    if fields is None:
        return None
    cached = fields.integer("cache_read_input_tokens") or 0
    written = fields.integer("cache_creation_input_tokens") or 0
    prompt = (fields.integer("input_tokens") or 0) + cached + written
    output = fields.integer("output_tokens") or 0
    return UsageMetadata(
        prompt_token_count=prompt,
        cached_content_token_count=cached,
        candidates_token_count=output,
        total_token_count=prompt + output,
    )


def finish_reason(stop: str | None) -> FinishReason:
    """Gemini's word for a stop reason."""
    return _FROM_STOP_REASON.get(stop or "", FinishReason.STOP)


def read_response(body: object, names: ToolNames) -> GenerateContentResponse:
    """A message in Gemini's terms. Raises DialectError."""
    fields = Fields(body)
    parts: list[Part] = []
    signature: str | None = None
    for block in fields.objects("content"):
        part, signature = _part(block, names, signature)
        if part is not None:
            parts.append(part)
    if signature is not None:
        parts.append(Part(text="", thought_signature=signature))
    candidate = Candidate(
        content=Content(role=MODEL, parts=tuple(parts)),
        finish_reason=finish_reason(fields.text("stop_reason")),
    )
    return GenerateContentResponse(
        candidates=(candidate,),
        usage_metadata=usage_from(fields.object("usage")),
        model_version=fields.text("model"),
        response_id=fields.text("id"),
    )


def _part(block: Fields, names: ToolNames, signature: str | None) -> tuple[Part | None, str | None]:
    """The part of one block, and the signature for the part behind it. Blocks of server tools have
    no part here."""
    match block.required_text("type"):
        case "text":
            text = block.text("text")
            return (Part(text=text, thought_signature=signature) if text else None), None
        case "tool_use":
            name = names.wire(block.required_text("name"))
            args = block.plain("input") or {}
            call = FunctionCall(id=block.required_text("id"), name=name, args=args)
            return Part(function_call=call, thought_signature=signature), None
        case "thinking":
            opaque = block.text("signature") or ""
            own = own_signature(opaque)
            text = block.text("thinking") or ""
            return Part(text=text, thought=True, thought_signature=own), of_next_part(opaque)
        case "redacted_thinking":
            return hidden_thought(block)
        case _:
            return None, signature


def hidden_thought(block: Fields) -> tuple[Part | None, str | None]:
    """What a block of redacted thinking holds: a thought that only its service can read, or the
    signature of the part behind it."""
    data = block.text("data") or ""
    signature = of_next_part(data)
    if signature is not None or not data:
        return None, signature
    return Part(text="", thought=True, thought_signature=redacted(data)), None


def _message(response: GenerateContentResponse, model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{response.response_id or 'answer'}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
