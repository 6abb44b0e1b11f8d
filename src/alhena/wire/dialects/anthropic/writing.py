"""The side of a client: writes a Messages request, reads the answer, whole or as events."""

import base64
import binascii
from typing import Any

import msgspec

from alhena.wire.content import (
    MODEL,
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
)
from alhena.wire.dialects.anthropic.response import blocks_of
from alhena.wire.dialects.conversation import (
    DialectRequest,
    NewId,
    ToolNameMap,
    answer_schema,
    cut_call,
    declared_functions,
    malformed_call,
    system_texts,
    thinking_budget,
    unique_id,
    with_ids,
    words_without_reason,
)
from alhena.wire.dialects.fields import (
    DialectError,
    Fields,
    answered_arguments,
    count,
    inner,
    mark_redacted,
    number,
    of_next_part,
    own_signature,
    redacted_data,
    unknown,
    word,
)
from alhena.wire.dialects.results import from_response, refuse_lost, words_for
from alhena.wire.json_values import as_object
from alhena.wire.request import (
    FunctionCallingMode,
    GenerateContentConfig,
    GenerationConfig,
    ServiceTier,
)
from alhena.wire.response import Candidate, FinishReason, GenerateContentResponse, UsageMetadata

DEFAULT_MAX_TOKENS = 8192
"""The dialect requires a limit; Gemini's default has none."""

_OF_PROMPT = (
    "prompt_token_count",
    "cached_content_token_count",
    "cache_write_token_count",
    "cache_write_hour_token_count",
)
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def write_request(request: DialectRequest, *, new_id: NewId) -> dict[str, Any]:
    """Builds the body of POST /v1/messages, with thoughts and signatures in their opaque fields.
    Unsupported media become text. Raises DialectError for settings that would be lost
    (`refuse_lost`)."""
    contents = with_ids(request.contents, new_id)
    config = request.config
    refuse_lost(config)
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _messages(contents, request.names, new_id),
    }
    system = system_texts(config)
    if system:
        body["system"] = [{"type": "text", "text": text} for text in system]
    tools = _tools(config, request.names)
    if tools:
        body["tools"] = tools
    choice = _tool_choice(config, request.names)
    if choice is not None:
        body["tool_choice"] = choice
    body |= _generation(config.generation_config or GenerationConfig())
    body |= _tier(config.service_tier)
    if request.stream:
        body["stream"] = True
    return body


def _tier(tier: ServiceTier | None) -> dict[str, str]:
    if tier is None:
        return {}
    if tier is not ServiceTier.STANDARD:
        raise DialectError(f'Anthropic has no service tier "{tier}".', "serviceTier")
    return {"service_tier": "standard_only"}


def _messages(
    contents: tuple[Content, ...], names: ToolNameMap, new_id: NewId
) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for content in contents:
        if content.role == MODEL:
            role, blocks = "assistant", blocks_of(content.parts, names, new_id)
        else:
            role, blocks = "user", [block for part in content.parts for block in _user_blocks(part)]
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
    return messages


def _user_blocks(part: Part) -> list[dict[str, Any]]:
    if part.function_response is not None:
        return [_result(part.function_response)]
    media = _media(part.inline_data, part.file_data)
    if media is not None:
        return [media]
    text = words_for(part)
    return [{"type": "text", "text": text}] if text else []


def _result(answer: FunctionResponse) -> dict[str, Any]:
    pieces, failed = from_response(answer)
    blocks = [
        {"type": "text", "text": piece}
        if isinstance(piece, str)
        else _media(piece.inline_data, piece.file_data)
        or {
            "type": "text",
            "text": words_for(Part(inline_data=piece.inline_data, file_data=piece.file_data)),
        }
        for piece in pieces
        if piece != ""
    ]
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": answer.id, "content": blocks}
    if failed:
        block["is_error"] = True
    return block


def _media(data: Blob | None, file: FileData | None) -> dict[str, Any] | None:
    """The block for media; None if the dialect has none."""
    if data is not None:
        return _data_block(data)
    if file is None:
        return None
    kind = "document" if file.mime_type == "application/pdf" else "image"
    if kind == "image" and file.mime_type is not None and file.mime_type not in _IMAGES:
        return None
    return {"type": kind, "source": {"type": "url", "url": file.file_uri}}


def _data_block(data: Blob) -> dict[str, Any] | None:
    if data.mime_type == "text/plain":
        try:
            text = base64.b64decode(data.data, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return None
        source = {"type": "text", "media_type": data.mime_type, "data": text}
        return {"type": "document", "source": source}
    kind = "document" if data.mime_type == "application/pdf" else "image"
    if kind == "image" and data.mime_type not in _IMAGES:
        return None
    source = {"type": "base64", "media_type": data.mime_type, "data": data.data}
    return {"type": kind, "source": source}


def _tools(config: GenerateContentConfig, names: ToolNameMap) -> list[dict[str, Any]]:
    """The tools; only the allowed ones if one of several must be called, because the dialect cannot
    express that otherwise."""
    only = {names.original(name) for name in _allowed_functions(config)}
    return [
        {"name": name, "description": description, "input_schema": schema}
        for name, description, schema in declared_functions(config, names)
        if len(only) < 2 or name in only
    ]


def _allowed_functions(config: GenerateContentConfig) -> tuple[str, ...]:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is None or calling.mode is not FunctionCallingMode.ANY:
        return ()
    return calling.allowed_function_names or ()


def _tool_choice(config: GenerateContentConfig, names: ToolNameMap) -> dict[str, Any] | None:
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is None or calling.mode is None:
        return None
    match calling.mode:
        case FunctionCallingMode.NONE:
            return {"type": "none"}
        case FunctionCallingMode.ANY:
            only = _allowed_functions(config)
            if len(only) == 1:
                return {"type": "tool", "name": names.original(only[0])}
            return {"type": "any"}
        case FunctionCallingMode.AUTO | FunctionCallingMode.VALIDATED:
            return {"type": "auto"}


def _generation(config: GenerationConfig) -> dict[str, Any]:
    body: dict[str, Any] = {"max_tokens": config.max_output_tokens or DEFAULT_MAX_TOKENS}
    if config.temperature is not None:
        body["temperature"] = config.temperature
    if config.top_p is not None:
        body["top_p"] = config.top_p
    if config.top_k is not None:
        body["top_k"] = config.top_k
    if config.stop_sequences:
        body["stop_sequences"] = list(config.stop_sequences)
    schema = answer_schema(config)
    if schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    budget = thinking_budget(config.thinking_config)
    if budget is not None:
        body["thinking"] = _thinking(budget)
    thinking = config.thinking_config
    if thinking is not None and thinking.thinking_level and (budget or 0) < 0:
        effort = {"effort": thinking.thinking_level.lower()}
        body["output_config"] = body.get("output_config", {}) | effort
    return body


def _thinking(budget: int) -> dict[str, Any]:
    if budget == 0:
        return {"type": "disabled"}
    if budget < 0:
        return {"type": "adaptive"}
    return {"type": "enabled", "budget_tokens": budget}


class _OpenBlock(msgspec.Struct):
    """An open block: its start event, its arguments so far, the signature of its thought."""

    start: Fields
    arguments: list[str] = msgspec.field(default_factory=list[str])
    own: str | None = None


class EventReader:
    """Converts events to chunks. Text is passed on as it arrives, a call when it is complete;
    invalid arguments of a call end the answer as in `read_response`. Blocks may be interleaved and
    need no end event."""

    def __init__(self, names: ToolNameMap, new_id: NewId) -> None:
        self._calls = CallBuilder(names, new_id)
        self._blocks: dict[int, _OpenBlock] = {}
        self._last = 0
        self._signature: str | None = None
        self._empty: Part | None = None
        self._broken: str | None = None
        self._last_broken = False
        self._said = self._called = self._counted = False
        self._usage: UsageMetadata | None = None
        self._finish: FinishReason | None = None
        self._response_id: str | None = None
        self._model: str | None = None

    def feed(self, event: object) -> list[GenerateContentResponse]:
        """Converts one event to chunks. Raises DialectError, also for an `error` event."""
        fields = Fields(event, "event")
        match word(fields, "type"):
            case "message_start":
                self._start(inner(fields, "message"))
            case "content_block_start":
                return self._chunks(self._begin(fields))
            case "content_block_delta":
                return self._chunks(self._delta(fields))
            case "content_block_stop":
                return self._chunks(self._stop(self._index(fields)))
            case "message_delta":
                self._end(fields)
            case "error":
                error = inner(fields, "error")
                kind, text = word(error, "type") or "error", word(error, "message") or "no message"
                raise DialectError(f"the stream ended with {kind}: {text}")
            case _:
                pass  # ping, message_stop, and unknown events
        return []

    @property
    def is_counted(self) -> bool:
        """True when text and the tokens of the answer have come, and no call."""
        return self._said and self._counted and not self._called and not self._blocks

    def finish(self) -> list[GenerateContentResponse]:
        """The last chunk: finish reason and token counts. Without a stop reason only text counts as
        complete: calls may be missing, or the arguments of an unfinished block."""
        is_open = bool(self._blocks)
        parts = [part for index in sorted(self._blocks) for part in self._stop(index)]
        end: Candidate | None = None
        if self._empty is not None:
            if self._finish == FinishReason.MAX_TOKENS and self._empty.function_call is not None:
                # The limit may have cut off its arguments.
                self._broken, self._last_broken = self._empty.function_call.name, True
            elif self._finish is None and is_open:
                end = Candidate()
            else:
                parts.append(self._empty)
        if self._signature is not None:
            parts.append(Part(text="", thought_signature=self._signature))
        if self._broken is not None or self._finish is not None:
            end = end_of(self._finish, self._broken, last=self._last_broken)
        elif end is None and self._said and not self._called:
            end = words_without_reason()
        end = end or Candidate()
        content = Content(role=MODEL, parts=tuple(parts))
        return [self._chunk(msgspec.structs.replace(end, content=content))]

    def _start(self, message: Fields) -> None:
        self._usage = usage_from(message)
        self._response_id = word(message, "id")
        self._model = word(message, "model")

    def _index(self, event: Fields) -> int:
        """The block of an event; the latest one if it names none."""
        index = number(event, "index")
        return self._last if index is None else index

    def _begin(self, event: Fields) -> list[Part]:
        """Starts a block, with its initial content."""
        index = number(event, "index")
        self._last = max(self._blocks, default=self._last) + 1 if index is None else index
        parts = [*self._stop(self._last), *([self._empty] if self._empty is not None else [])]
        self._empty = None
        self._last_broken = False
        start = inner(event, "content_block")
        block = self._blocks[self._last] = _OpenBlock(start)
        match word(start, "type"):
            case "text":
                parts += self._text(word(start, "text") or "")
            case "thinking":
                parts += self._thought(word(start, "thinking") or "")
                self._sign(block, word(start, "signature") or "")
            case "redacted_thinking":
                thought, self._signature = hidden_thought(start)
                parts += [thought] if thought is not None else []
            case _:
                pass
        return parts

    def _delta(self, event: Fields) -> list[Part]:
        delta = inner(event, "delta")
        block = self._blocks.get(self._index(event))
        match word(delta, "type"):
            case "text_delta":
                return self._text(word(delta, "text") or "")
            case "thinking_delta":
                return self._thought(word(delta, "thinking") or "")
            case "signature_delta" if block is not None:
                self._sign(block, word(delta, "signature") or "")
            case "input_json_delta" if block is not None:
                block.arguments.append(word(delta, "partial_json") or "")
            case _:
                pass
        return []

    def _text(self, text: str) -> list[Part]:
        """The first piece of a text carries its signature."""
        if not text:
            return []
        self._said = True
        signature, self._signature = self._signature, None
        return [Part(text=text, thought_signature=signature)]

    def _thought(self, text: str) -> list[Part]:
        return [Part(text=text, thought=True)] if text else []

    def _sign(self, block: _OpenBlock, opaque: str) -> None:
        if opaque:
            self._signature = of_next_part(opaque)
            block.own = own_signature(opaque)

    def _stop(self, index: int) -> list[Part]:
        """Ends a block: returns a call, or the signature of a thought."""
        block = self._blocks.pop(index, None)
        if block is None:
            return []
        if block.own:
            return [Part(text="", thought=True, thought_signature=block.own)]
        if word(block.start, "type") != "tool_use":
            return []
        call = self._calls.call(block.start, "".join(block.arguments))
        if call is None:
            self._broken, self._last_broken = self._calls.name(block.start), True
            return []
        self._said = self._called = True
        signature, self._signature = self._signature, None
        part = Part(function_call=call, thought_signature=signature)
        before, self._empty = self._empty, None if call.args else part
        waited = [before] if before is not None else []
        return waited if self._empty is not None else [*waited, part]

    def _end(self, event: Fields) -> None:
        self._finish = finish_reason(word(inner(event, "delta"), "stop_reason")) or self._finish
        counted = usage_from(event)
        if counted is None:
            return
        self._counted = True
        before = self._usage or UsageMetadata()
        # The last event may leave out what the first one counted of the prompt.
        prompt = {name: max(getattr(before, name), getattr(counted, name)) for name in _OF_PROMPT}
        total = prompt["prompt_token_count"] + counted.candidates_token_count
        self._usage = msgspec.structs.replace(counted, **prompt, total_token_count=total)

    def _chunks(self, parts: list[Part]) -> list[GenerateContentResponse]:
        if not parts:
            return []
        return [self._chunk(Candidate(content=Content(role=MODEL, parts=tuple(parts))))]

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


_FROM_STOP_REASON = {
    "max_tokens": FinishReason.MAX_TOKENS,
    "model_context_window_exceeded": FinishReason.MAX_TOKENS,
    "refusal": FinishReason.SAFETY,
}


def usage_from(fields: Fields) -> UsageMetadata | None:
    """The valid token counts of a message; None without any."""
    if not fields.value("usage"):
        return None
    usage = inner(fields, "usage")
    cached = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    prompt = count(usage, "input_tokens") + cached + written
    output = count(usage, "output_tokens")
    hour = count(inner(usage, "cache_creation"), "ephemeral_1h_input_tokens")
    return UsageMetadata(
        prompt_token_count=prompt,
        cache_write_token_count=written,
        cache_write_hour_token_count=min(hour, written),
        cached_content_token_count=cached,
        candidates_token_count=output,
        total_token_count=prompt + output,
    )


def finish_reason(stop: str | None) -> FinishReason | None:
    """Gemini's finish reason for a stop reason, None for none."""
    return _FROM_STOP_REASON.get(stop, FinishReason.STOP) if stop else None


def end_of(finish: FinishReason | None, broken: str | None, *, last: bool) -> Candidate:
    """The end of an answer. `broken`: the tool of an incomplete call; `last`: nothing followed it,
    so the token limit may have cut it off."""
    if broken is None:
        return Candidate(finish_reason=finish)
    cut = last and finish == FinishReason.MAX_TOKENS
    return cut_call(broken) if cut else malformed_call(broken)


class CallBuilder:
    """Builds the calls of an answer, with unique ids."""

    def __init__(self, names: ToolNameMap, new_id: NewId) -> None:
        self._names = names
        self._new_id = new_id
        self._taken: set[str] = set()

    def name(self, block: Fields) -> str:
        """The tool name of a block, or a description if it has none."""
        return self._names.wire(word(block, "name") or "") or "a tool without a name"

    def call(self, block: Fields, text: str = "") -> FunctionCall | None:
        """The call of a block with arguments in `text`, or in the block itself; None if they are
        not a JSON object, or the name is missing."""
        given = block.value("input")
        if not text.strip() and isinstance(given, str):
            text = given
        args = answered_arguments(text) if text.strip() else as_object(given or {})
        if args is None or not word(block, "name"):
            return None
        call = FunctionCall(id=word(block, "id"), name=self.name(block), args=args)
        return msgspec.structs.replace(call, id=unique_id(call, self._new_id, self._taken))


def hidden_thought(block: Fields) -> tuple[Part | None, str | None]:
    """The content of a redacted thinking block: a thought that only its service can read, or the
    signature of the next part."""
    data = word(block, "data") or ""
    signature = of_next_part(data)
    if signature is not None or not data:
        return None, signature
    return Part(text="", thought=True, thought_signature=mark_redacted(data)), None


def read_response(body: object, names: ToolNameMap, new_id: NewId) -> GenerateContentResponse:
    """Converts a message to Gemini's types, as its events would be. Raises DialectError for an
    invalid body.

    A call whose arguments are not a JSON object ends the answer with MALFORMED_FUNCTION_CALL, or
    with MAX_TOKENS if that limit cut it off. A non-empty answer needs no stop reason: it is
    complete.
    """
    fields = Fields(body)
    kind = fields.text("type")
    if kind is not None and kind != "message":
        raise unknown(fields, "type", kind, "an answer is a message")
    blocks = fields.array("content")
    if blocks is None:
        raise fields.fail("content", "is missing.")
    reader = EventReader(names, new_id)
    events: list[dict[str, Any]] = [{"type": "message_start", "message": body}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_stop", "index": index})
    stop = word(fields, "stop_reason") or ("end_turn" if blocks else None)
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}})
    chunks = [chunk for event in events for chunk in reader.feed(event)] + reader.finish()
    parts: list[Part] = []
    for part in (part for chunk in chunks for part in chunk.parts):
        before = parts[-1] if parts else Part()
        signs = (
            part.thought and not part.text and redacted_data(part.thought_signature or "") is None
        )
        if signs and before.thought and not before.thought_signature:
            part = msgspec.structs.replace(parts.pop(), thought_signature=part.thought_signature)
        parts.append(part)
    content = Content(role=MODEL, parts=tuple(parts))
    end = msgspec.structs.replace(chunks[-1].candidates[0], content=content)
    return msgspec.structs.replace(chunks[-1], candidates=(end,), usage_metadata=usage_from(fields))
