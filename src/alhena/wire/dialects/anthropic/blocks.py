"""A model's parts as content blocks, told as the events of a stream; a whole answer is the blocks
that its events build."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from alhena.wire.content import Part
from alhena.wire.dialects.anthropic.signatures import (
    for_next_part,
    own_opaque,
    redacted_data,
)
from alhena.wire.dialects.conversation import NewId, unique_id
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.words import words_for
from alhena.wire.encoded import encode_value

Event = dict[str, Any]

_TEXT, _THINKING = "text", "thinking"


class BlockWriter:
    """Parts in, events of content blocks out. Text and thoughts go out as they come; a part with a
    signature is a block of its own (S2), and so is each part when the parts are `whole`. No two
    calls have one id."""

    def __init__(self, names: ToolNames, new_id: NewId, *, whole: bool = False) -> None:
        self._names = names
        self._whole_parts = whole
        self._new_id = new_id
        self._index = 0
        self._open: str | None = None
        self._taken: set[str] = set()
        self.has_calls = False

    def part(self, part: Part) -> Iterator[Event]:
        """The events of one more part."""
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
        """Whether a block of text is open."""
        return self._open == _TEXT

    def with_text(self, text: str) -> Event:
        """The event of more text for such a block."""
        return self._delta({"type": "text_delta", "text": text})

    def close(self) -> Iterator[Event]:
        """The end of the block that is open."""
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


def blocks_of(
    parts: Iterable[Part], names: ToolNames, new_id: NewId, *, joined: bool = False
) -> list[dict[str, Any]]:
    """The finished content blocks of parts: one for each, or, `joined`, as a stream has them, where
    neighbouring texts are one."""
    writer = BlockWriter(names, new_id, whole=not joined)
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
