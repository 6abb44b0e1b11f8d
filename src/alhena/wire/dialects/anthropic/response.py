"""Messages answers, whole and as events: content blocks, and signatures in opaque fields.

Gemini's signature of a part is stored in the thinking block before that part, or in its own
`redacted_thinking` block, with the prefix `gemini:`; the signature of a thought itself has the
prefix `gemini-own:`. Other content comes from another service: it is kept with its thought, marked
as foreign, and never sent to Gemini.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from alhena.wire.content import Part, encode_value
from alhena.wire.dialects.conversation import (
    AnswerEnd,
    NewId,
    ToolNameMap,
    ending_of,
    unique_id,
)
from alhena.wire.dialects.fields import for_next_part, own_opaque, redacted_data
from alhena.wire.dialects.results import found_pages, sole_text, words_for
from alhena.wire.response import STOPPED_AT, GenerateContentResponse, UsageMetadata

Event = dict[str, Any]

_TEXT, _THINKING = "text", "thinking"


class BlockWriter:
    """Converts parts to events of content blocks. Text and thoughts are passed on as they arrive; a
    part with a signature is its own block (S2), and so is each part when the parts are `whole`. Ids
    of calls are unique."""

    def __init__(self, names: ToolNameMap, new_id: NewId, *, whole: bool = False) -> None:
        self._names = names
        self._whole_parts = whole
        self._new_id = new_id
        self._index = 0
        self._open: str | None = None
        self._taken: set[str] = set()
        self.has_calls = False
        self.searched = 0

    def part(self, part: Part) -> Iterator[Event]:
        """The events of the next part."""
        if self._whole_parts and (part.thought or self._open == _TEXT):
            yield from self.close()
        if part.thought:
            yield from self._thought(part)
            return
        if part.thought_signature:
            yield from self._signature(part.thought_signature)
        if part.function_call is not None:
            yield from self.close()
            yield from self._call(part)
            return
        text = words_for(part)
        if text:
            if self._open != _TEXT:
                yield from self.close()
                yield self._start(_TEXT, {"type": "text", "text": ""})
            yield self.with_text(text)
            if part.thought_signature:
                yield from self.close()

    @property
    def takes_text(self) -> bool:
        """True when a text block is open."""
        return self._open == _TEXT

    def with_text(self, text: str) -> Event:
        """The event of further text for such a block."""
        return self._delta({"type": "text_delta", "text": text})

    def searches(self, response: GenerateContentResponse) -> Iterator[Event]:
        """The blocks of the searches that the model made: its queries, and the pages found."""
        search = found_pages(response)
        if search is None:
            return
        yield from self.close()
        self.searched += max(len(search.queries), 1)
        call_id = f"srv{self._new_id('web_search')}"
        use: dict[str, Any] = {"type": "server_tool_use", "id": call_id, "name": "web_search"}
        use["input"] = {}
        yield self._start("server_tool_use", use)
        query = encode_value({"query": "; ".join(search.queries)}).decode()
        yield self._delta({"type": "input_json_delta", "partial_json": query})
        pages = [
            {"type": "web_search_result", "url": url, "title": title}
            | {"encrypted_content": "", "page_age": None}
            for url, title in search.pages
        ]
        result = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": pages}
        yield from self._whole(result)

    def close(self) -> Iterator[Event]:
        """Closes the open block."""
        if self._open is not None:
            self._open = None
            yield {"type": "content_block_stop", "index": self._index}
            self._index += 1

    def _thought(self, part: Part) -> Iterator[Event]:
        signature = part.thought_signature
        data = redacted_data(signature) if signature and not part.text else None
        if data is not None:
            yield from self._whole({"type": "redacted_thinking", "data": data})
            return
        if self._open != _THINKING:
            yield from self.close()
            yield self._start(_THINKING, {"type": "thinking", "thinking": "", "signature": ""})
        text = words_for(part)
        if text:
            yield self._delta({"type": "thinking_delta", "thinking": text})
        if signature:
            yield self._delta({"type": "signature_delta", "signature": own_opaque(signature)})
            yield from self.close()

    def _signature(self, signature: str) -> Iterator[Event]:
        opaque = for_next_part(signature)
        if self._open == _THINKING:
            yield self._delta({"type": "signature_delta", "signature": opaque})
            yield from self.close()
        else:
            yield from self._whole({"type": "redacted_thinking", "data": opaque})

    def _call(self, part: Part) -> Iterator[Event]:
        call = part.function_call
        if call is None:
            return
        self.has_calls = True
        block: dict[str, Any] = {
            "type": "tool_use",
            "id": unique_id(call, self._new_id, self._taken),
            "name": self._names.original(call.name),
            "input": {},
        }
        yield self._start("tool_use", block)
        args = encode_value(call.args or {}).decode()
        yield self._delta({"type": "input_json_delta", "partial_json": args})
        yield from self.close()

    def _whole(self, block: dict[str, Any]) -> Iterator[Event]:
        yield from self.close()
        yield self._start(block["type"], block)
        yield from self.close()

    def _start(self, kind: str, block: dict[str, Any]) -> Event:
        self._open = kind
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> Event:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}


def blocks_of(parts: Iterable[Part], names: ToolNameMap, new_id: NewId) -> list[dict[str, Any]]:
    """The complete content blocks of parts, one for each."""
    return _collect_blocks(BlockWriter(names, new_id, whole=True), parts)


def _collect_blocks(writer: BlockWriter, parts: Iterable[Part]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for part in parts:
        for event in writer.part(part):
            _build(blocks, event)
    for event in writer.close():
        _build(blocks, event)
    return blocks


def _build(blocks: list[dict[str, Any]], event: Event) -> None:
    if event["type"] == "content_block_start":
        blocks.append(dict(event["content_block"]))
    elif event["type"] == "content_block_delta":
        delta = event["delta"]
        match delta["type"]:
            case "text_delta":
                blocks[-1]["text"] += delta["text"]
            case "thinking_delta":
                blocks[-1]["thinking"] += delta["thinking"]
            case "signature_delta":
                blocks[-1]["signature"] = delta["signature"]
            case _:
                blocks[-1]["input"] = json.loads(delta["partial_json"])


def write_response(
    response: GenerateContentResponse, *, model: str, names: ToolNameMap, new_id: NewId
) -> dict[str, Any]:
    """Converts an answer to a message. `model` is the client's name of the model.

    Raises InexpressibleAnswerError for an answer that ended with an unusable call.
    """
    writer = BlockWriter(names, new_id)
    blocks = _collect_blocks(writer, response.parts)
    for event in writer.searches(response):
        _build(blocks, event)
    return {
        **_message(response, model),
        "content": blocks,
        **describe_stop(response, has_calls=writer.has_calls),
        "usage": usage_of(response.usage_metadata, writer.searched),
    }


class EventWriter:
    """Converts a streamed answer to the events of a message stream. Each has its name as `type`."""

    def __init__(self, *, model: str, names: ToolNameMap, new_id: NewId) -> None:
        self._model = model
        self._blocks = BlockWriter(names, new_id)
        self._usage: UsageMetadata | None = None
        self._last = GenerateContentResponse()
        self._grounded = GenerateContentResponse()
        self._started = False

    def feed(self, chunk: GenerateContentResponse) -> list[Event]:
        """Converts a chunk to events."""
        events: list[Event] = []
        self._usage = chunk.usage_metadata or self._usage
        if chunk.candidates and chunk.candidates[0].grounding_metadata:
            self._grounded = chunk
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
        """The text of a chunk that only adds to the open text block, to which it is added; empty
        for other chunks."""
        text = sole_text(chunk) if self._blocks.takes_text else ""
        if text and chunk.candidates[0].grounding_metadata:
            return ""
        if text:
            self._usage = chunk.usage_metadata or self._usage
        return text

    def with_text(self, text: str) -> Event:
        """The event of a text for the open block."""
        return self._blocks.with_text(text)

    def finish(self) -> list[Event]:
        """The final events. Raises InexpressibleAnswerError like `write_response`."""
        events = [] if self._started else self.feed(GenerateContentResponse())
        events += self._blocks.close()
        events += self._blocks.searches(self._grounded)
        delta = describe_stop(self._last, has_calls=self._blocks.has_calls)
        usage = usage_of(self._usage, self._blocks.searched)
        return [
            *events,
            {"type": "message_delta", "delta": delta, "usage": usage},
            {"type": "message_stop"},
        ]


def stop_reason(last: GenerateContentResponse, *, has_calls: bool) -> str:
    """The stop reason of an answer."""
    match ending_of(last):
        case AnswerEnd.FILTERED:
            return "refusal"
        case AnswerEnd.LENGTH:
            return "max_tokens"
        case AnswerEnd.DONE:
            return "tool_use" if has_calls else "end_turn"


def describe_stop(last: GenerateContentResponse, *, has_calls: bool) -> dict[str, str | None]:
    """The fields about the end of an answer."""
    reason = stop_reason(last, has_calls=has_calls)
    message = (last.candidates[0].finish_message if last.candidates else None) or ""
    if not message.startswith(STOPPED_AT):
        return {"stop_reason": reason, "stop_sequence": None}
    return {"stop_reason": "stop_sequence", "stop_sequence": message.removeprefix(STOPPED_AT)}


def usage_of(usage: UsageMetadata | None, searched: int = 0) -> dict[str, Any]:
    """Token counts, and searches; cached tokens are counted separately, as in the dialect."""
    usage = usage or UsageMetadata()
    cached = usage.cached_content_token_count
    prompt = usage.prompt_token_count + usage.tool_use_prompt_token_count
    told = {"web_search_requests": searched, "web_fetch_requests": 0}
    return {
        **({"server_tool_use": told} if searched else {}),
        "input_tokens": max(prompt - cached, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.candidates_token_count + usage.thoughts_token_count,
    }


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
