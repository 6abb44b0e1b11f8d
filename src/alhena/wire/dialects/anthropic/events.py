"""A stream of message events, read into the chunks of an answer."""

from typing import Any

import msgspec

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.anthropic.response import finish_reason, hidden_thought, usage_from
from alhena.wire.dialects.anthropic.signatures import of_next_part, own_signature
from alhena.wire.dialects.arguments import read_arguments
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.names import ToolNames
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)


class EventReader:
    """Events in, chunks out. Text goes on as it comes, a call when it is whole; a call whose
    arguments are no JSON object ends the answer with MALFORMED_FUNCTION_CALL."""

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._block = Fields({})
        self._arguments: list[str] = []
        self._signature: str | None = None
        self._own: str | None = None
        self._usage: UsageMetadata | None = None
        self._finish: FinishReason | None = None
        self._message = ""
        self._response_id: str | None = None
        self._model: str | None = None

    def feed(self, event: object) -> list[GenerateContentResponse]:
        """The chunks that one event comes to. Raises DialectError, also for an `error` event."""
        fields = Fields(event, "event")
        match fields.required_text("type"):
            case "message_start":
                self._start(fields.object("message") or Fields({}))
            case "content_block_start":
                self._block = fields.object("content_block") or Fields({}, "event.content_block")
                self._arguments = []
                self._own = None
                return self._given(self._block)
            case "content_block_delta":
                return self._delta(fields.object("delta") or Fields({}, "event.delta"))
            case "content_block_stop":
                return self._stop()
            case "message_delta":
                self._end(fields)
            case "error":
                error = fields.object("error") or Fields({})
                kind, text = error.text("type") or "error", error.text("message") or "no message"
                raise DialectError(f"the stream ended with {kind}: {text}")
            case _:
                pass  # ping, message_stop, and what is new
        return []

    def finish(self) -> list[GenerateContentResponse]:
        """The last chunk: how it ended, and the token counts."""
        parts: tuple[Part, ...] = ()
        if self._signature is not None:
            parts = (Part(text="", thought_signature=self._signature),)
        candidate = Candidate(
            content=Content(role=MODEL, parts=parts),
            finish_reason=self._finish,
            finish_message=self._message or None,
        )
        return [self._chunk(candidate)]

    def _start(self, message: Fields) -> None:
        self._usage = usage_from(message.object("usage"))
        self._response_id = message.text("id")
        self._model = message.text("model")

    def _given(self, block: Fields) -> list[GenerateContentResponse]:
        """What stands in a block from its beginning."""
        kind = block.text("type")
        if kind == "text" and block.text("text"):
            return self._text(block.text("text") or "")
        if kind == "redacted_thinking":
            thought, self._signature = hidden_thought(block)
            return self._parts(thought) if thought is not None else []
        return []

    def _delta(self, delta: Fields) -> list[GenerateContentResponse]:
        match delta.text("type"):
            case "text_delta":
                return self._text(delta.text("text") or "")
            case "thinking_delta":
                return self._parts(Part(text=delta.text("thinking") or "", thought=True))
            case "signature_delta":
                opaque = delta.text("signature") or ""
                self._signature = of_next_part(opaque)
                self._own = own_signature(opaque)
            case "input_json_delta":
                self._arguments.append(delta.text("partial_json") or "")
            case _:
                pass
        return []

    def _text(self, text: str) -> list[GenerateContentResponse]:
        """The first piece of a text carries the signature that belongs to it."""
        signature, self._signature = self._signature, None
        return self._parts(Part(text=text, thought_signature=signature)) if text else []

    def _stop(self) -> list[GenerateContentResponse]:
        if self._own:
            own, self._own = self._own, None
            return self._parts(Part(text="", thought=True, thought_signature=own))
        if self._block.text("type") != "tool_use":
            return []
        block, self._block = self._block, Fields({})
        text = "".join(self._arguments)
        args = read_arguments(text) if text else block.plain("input") or {}
        name = block.required_text("name")
        if args is None:
            self._finish = FinishReason.MALFORMED_FUNCTION_CALL
            self._message = f"the arguments of a call to {name} are no JSON object"
            return []
        signature, self._signature = self._signature, None
        call = FunctionCall(id=block.text("id"), name=self._names.wire(name), args=args)
        return self._parts(Part(function_call=call, thought_signature=signature))

    def _end(self, event: Fields) -> None:
        delta = event.object("delta") or Fields({})
        if self._finish is None and delta.text("stop_reason"):
            self._finish = finish_reason(delta.text("stop_reason"))
        counted = usage_from(event.object("usage"))
        if counted is None:
            return
        before = self._usage or UsageMetadata()
        prompt = counted.prompt_token_count or before.prompt_token_count
        self._usage = msgspec.structs.replace(
            counted,
            prompt_token_count=prompt,
            cached_content_token_count=counted.cached_content_token_count
            or before.cached_content_token_count,
            total_token_count=prompt + counted.candidates_token_count,
        )

    def _parts(self, *parts: Part) -> list[GenerateContentResponse]:
        return [self._chunk(Candidate(content=Content(role=MODEL, parts=parts)))]

    def _chunk(self, candidate: Candidate) -> GenerateContentResponse:
        extra: dict[str, Any] = {}
        if candidate.finish_reason is not None:
            extra["usage_metadata"] = self._usage
        return GenerateContentResponse(
            candidates=(candidate,),
            model_version=self._model,
            response_id=self._response_id,
            **extra,
        )
