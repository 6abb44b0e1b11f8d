"""Chat completions, chunk by chunk."""

from typing import Any

import msgspec

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.arguments import read_arguments
from alhena.wire.dialects.conversation import NewId, unique_id
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.openai.response import (
    finish_reason,
    malformed,
    read_finish,
    signature_of,
    signed,
    tool_call,
    usage_from,
    usage_of,
)
from alhena.wire.dialects.words import sole_text, words_for
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

Chunk = dict[str, Any]


class EventWriter:
    """A streamed answer as chat completion chunks; `[DONE]` is the server's to add."""

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
        """The chunks that one more chunk of Gemini's comes to."""
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
        """The text of a chunk that brings nothing else to an answer that has begun, which is then
        fed; empty for any other."""
        text = sole_text(chunk) if self._id else ""
        if text:
            self._usage = chunk.usage_metadata or self._usage
        return text

    def with_delta(self, delta: dict[str, Any]) -> Chunk:
        """A chunk of the answer, once it has begun."""
        return self._chunk(delta)

    def finish(self) -> list[Chunk]:
        """The chunks at the end. Raises UnusableAnswerError as `write_response` does."""
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


class _Call(msgspec.Struct):
    """A call as its pieces come."""

    id: str = ""
    name: str = ""
    signature: str | None = None
    arguments: list[str] = msgspec.field(default_factory=list[str])
    whole: dict[str, Any] | None = None


class EventReader:
    """Chunks in, chunks of Gemini's out. Text goes on as it comes, calls when the answer ends; a
    call whose arguments are no JSON object ends it with MALFORMED_FUNCTION_CALL."""

    def __init__(self, names: ToolNames, new_id: NewId) -> None:
        self._names = names
        self._new_id = new_id
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._usage: UsageMetadata | None = None
        self._finish: FinishReason | None = None
        self._response_id: str | None = None
        self._model: str | None = None

    def feed(self, chunk: object) -> list[GenerateContentResponse]:
        """The chunks that one chunk comes to. Raises DialectError, also for an error object."""
        fields = Fields(chunk, "chunk")
        error = fields.value("error")
        if error is not None:
            said = error if isinstance(error, str) else Fields(error, "chunk.error").text("message")
            raise DialectError(f"the stream ended with an error: {said or 'no message'}")
        self._usage = usage_from(fields.object("usage")) or self._usage
        self._response_id = fields.text("id") or self._response_id
        self._model = fields.text("model") or self._model
        parts: list[Part] = []
        for choice in fields.objects("choices")[:1]:
            delta = choice.object("delta") or choice.object("message") or Fields({})
            parts += self._said(delta)
            for call in delta.objects("tool_calls"):
                self._piece(call)
            if choice.text("finish_reason"):
                self._finish = read_finish(choice.text("finish_reason"))
        return [self._chunk(parts)] if parts else []

    def finish(self) -> list[GenerateContentResponse]:
        """The last chunk: the calls, how it ended, and the token counts."""
        parts: list[Part] = []
        taken: set[str] = set()
        end = Candidate(finish_reason=self._finish)
        for call in self._calls:
            args = call.whole if call.whole is not None else read_arguments("".join(call.arguments))
            name = self._names.wire(call.name)
            if args is None or not call.name:
                end = malformed(name)
                continue
            made = FunctionCall(id=call.id, name=name, args=args)
            made = msgspec.structs.replace(made, id=unique_id(made, self._new_id, taken))
            parts.append(Part(function_call=made, thought_signature=call.signature))
        last = self._chunk(parts, end)
        return [msgspec.structs.replace(last, usage_metadata=self._usage)]

    def _said(self, delta: Fields) -> list[Part]:
        parts: list[Part] = []
        thought = delta.text("reasoning_content") or delta.text("reasoning")
        if thought:
            parts.append(Part(text=thought, thought=True))
        text = (delta.text("content") or "") + (delta.text("refusal") or "")
        signature = signature_of(delta)
        if text:
            parts.append(Part(text=text))
        if signature:
            parts.append(Part(text="", thought_signature=signature))
        return parts

    def _piece(self, piece: Fields) -> None:
        """A piece of a call: it belongs to the call of its index. A name begins the next one where
        servers give no index, and with a new id where they give every call the same."""
        function = piece.object("function") or Fields({}, piece.place("function"))
        call_id = piece.text("id") or ""
        call = self._call(piece.integer("index"), call_id, function.text("name"))
        call.id = call.id or call_id
        call.name = call.name or function.text("name") or ""
        call.signature = call.signature or signature_of(piece)
        if isinstance(function.value("arguments"), str):
            call.arguments.append(function.text("arguments") or "")
        elif function.value("arguments") is not None:
            call.whole = function.plain("arguments")

    def _call(self, index: int | None, call_id: str, name: str | None) -> _Call:
        found = self._at.get(index) if index is not None else None
        if found is not None and name and call_id and found.id and call_id != found.id:
            found = None
        if index is None and self._calls and not name:
            found = self._calls[-1]
        if found is None:
            found = _Call()
            self._calls.append(found)
            if index is not None:
                self._at[index] = found
        return found

    def _chunk(self, parts: list[Part], end: Candidate | None = None) -> GenerateContentResponse:
        candidate = Candidate(
            content=Content(role=MODEL, parts=tuple(parts)),
            finish_reason=end.finish_reason if end is not None else None,
            finish_message=end.finish_message if end is not None else None,
        )
        return GenerateContentResponse(
            candidates=(candidate,), model_version=self._model, response_id=self._response_id
        )
