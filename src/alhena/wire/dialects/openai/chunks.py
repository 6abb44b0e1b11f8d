"""Chat completion chunks."""

from typing import Any

import msgspec

from alhena.wire.content import MODEL, Content, Part
from alhena.wire.dialects.conversation import NewId, ToolNames, unique_id, words_without_reason
from alhena.wire.dialects.fields import DialectError, Fields, word
from alhena.wire.dialects.openai.response import (
    Calls,
    call_elements,
    finish_reason,
    read_finish,
    said_parts,
    signed,
    tool_call,
    usage_from,
    usage_of,
)
from alhena.wire.dialects.results import sole_text, words_for
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

Chunk = dict[str, Any]


class EventWriter:
    """Converts a streamed answer to chat completion chunks; the server adds `[DONE]`."""

    def __init__(
        self,
        *,
        model: str,
        names: ToolNames,
        new_id: NewId,
        created: int,
        include_usage: bool = False,
    ) -> None:
        self._base = {"object": "chat.completion.chunk", "created": created, "model": model}
        self._names = names
        self._new_id = new_id
        self._include_usage = include_usage
        self._usage: UsageMetadata | None = None
        self._last = GenerateContentResponse()
        self._id = ""
        self._calls = 0
        self._taken: set[str] = set()

    def feed(self, chunk: GenerateContentResponse) -> list[Chunk]:
        """Converts one of Gemini's chunks."""
        self._usage = chunk.usage_metadata or self._usage
        chunks: list[Chunk] = []
        if not self._id:
            self._id = f"chatcmpl-{chunk.response_id or 'answer'}"
            chunks.append(self._chunk({"role": "assistant", "content": ""}))
        for part in chunk.parts:
            delta = self._delta(part)
            if delta:
                chunks.append(self._chunk(delta))
        if chunk.finish_reason or chunk.prompt_feedback:
            self._last = chunk
        return chunks

    def text(self, chunk: GenerateContentResponse) -> str:
        """The text of a chunk that only adds to an answer already begun, to which it is added;
        empty for other chunks."""
        text = sole_text(chunk) if self._id else ""
        if text:
            self._usage = chunk.usage_metadata or self._usage
        return text

    def with_delta(self, delta: dict[str, Any]) -> Chunk:
        """A chunk of the answer, after its start."""
        return self._chunk(delta)

    def finish(self) -> list[Chunk]:
        """The final chunks. Raises UnusableAnswerError like `write_response`."""
        chunks = [] if self._id else self.feed(GenerateContentResponse())
        reason = finish_reason(self._last, has_calls=self._calls > 0)
        chunks.append(self._chunk({}, reason))
        if self._include_usage:
            counted: Chunk = {"id": self._id, **self._base, "choices": []}
            chunks.append({**counted, "usage": usage_of(self._usage)})
        return chunks

    def _delta(self, part: Part) -> dict[str, Any]:
        if part.function_call is not None:
            call_id = unique_id(part.function_call, self._new_id, self._taken)
            made = tool_call(part.function_call, part.thought_signature, self._names, call_id)
            call = {"index": self._calls, **made}
            self._calls += 1
            return {"tool_calls": [call]}
        text = words_for(part)
        if part.thought:
            return {"reasoning_content": text} if text else {}
        delta: dict[str, Any] = {"content": text} if text else {}
        return delta | (signed(part.thought_signature) if part.thought_signature else {})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> Chunk:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {"id": self._id, **self._base, "choices": [choice]}


class EventReader:
    """Converts chunks to Gemini's. Text is passed on as it arrives, calls at the end of the answer;
    invalid arguments of a call end it as in `read_response`."""

    def __init__(self, names: ToolNames, new_id: NewId) -> None:
        self._calls = Calls(names, new_id)
        self._usage: UsageMetadata | None = None
        self._finish: FinishReason | None = None
        self._said = False
        self._response_id: str | None = None
        self._model: str | None = None

    def feed(self, chunk: object) -> list[GenerateContentResponse]:
        """Converts one chunk. Raises DialectError, also for an error object."""
        fields = Fields(chunk, "chunk")
        error = fields.value("error")
        if error is not None:
            said = error if isinstance(error, str) else Fields(error, "chunk.error").text("message")
            raise DialectError(f"the stream ended with an error: {said or 'no message'}")
        self._usage = usage_from(fields) or self._usage
        self._response_id = word(fields, "id") or self._response_id
        self._model = word(fields, "model") or self._model
        parts: list[Part] = []
        for choice in fields.objects("choices")[:1]:
            delta = choice.object("delta") or choice.object("message") or Fields({})
            parts += said_parts(delta)
            self._calls.feed(call_elements(delta))
            self._finish = read_finish(word(choice, "finish_reason")) or self._finish
        self._said = self._said or any(part.text and not part.thought for part in parts)
        return [self._chunk(parts)] if parts else []

    def finish(self) -> list[GenerateContentResponse]:
        """The last chunk of a finished answer: the calls, the finish reason, and the token counts.
        Without a finish reason only text counts as complete (`without_reason`): calls may be
        missing."""
        unended = self._finish is None
        cut = self._finish == FinishReason.MAX_TOKENS
        parts, end = self._calls.finish(cut=cut, unended=unended)
        if end is None and unended and self._said and not parts:
            end = words_without_reason()
        last = self._chunk(parts, end or Candidate(finish_reason=self._finish))
        return [msgspec.structs.replace(last, usage_metadata=self._usage)]

    def _chunk(self, parts: list[Part], end: Candidate | None = None) -> GenerateContentResponse:
        content = Content(role=MODEL, parts=tuple(parts))
        return GenerateContentResponse(
            candidates=(msgspec.structs.replace(end or Candidate(), content=content),),
            model_version=self._model,
            response_id=self._response_id,
        )
