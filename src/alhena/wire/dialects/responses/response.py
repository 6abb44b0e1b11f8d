"""Answers of the Responses API, whole and as events, read.

Unknown events and items are ignored: the service adds kinds of both.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.conversation import (
    NAMELESS,
    NewId,
    ToolNameMap,
    answer_chunk,
    count_tokens,
    cut_call,
    malformed_call,
    unique_id,
    words_without_reason,
)
from alhena.wire.dialects.fields import (
    DialectError,
    Fields,
    answered_arguments,
    count,
    inner,
    number,
    word,
)
from alhena.wire.dialects.responses.items import (
    Item,
    carried_item,
    item_texts,
    seal_reasoning,
    summary_texts,
)
from alhena.wire.dialects.tool_forms import INPUT
from alhena.wire.json_values import as_array, as_object, scrub
from alhena.wire.response import Candidate, FinishReason, GenerateContentResponse, UsageMetadata

ENDS = frozenset({"response.completed", "response.incomplete"})
"""The events that end an answer."""
_FAILURES = frozenset({"response.failed", "response.cancelled", "error"})
_FAILED = frozenset({"failed", "cancelled", "queued", "in_progress"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_THOUGHT_DELTAS = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)
_ARGUMENT_DELTAS = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)
_ARGUMENTS_DONE = frozenset(
    {"response.function_call_arguments.done", "response.custom_tool_call_input.done"}
)
_READ = {
    "max_output_tokens": FinishReason.MAX_TOKENS,
    "content_filter": FinishReason.SAFETY,
}


class _Item(msgspec.Struct):
    """An item under assembly. `said`: text or thoughts of it were passed on; `section` is the part
    of the summary that the last thought belongs to."""

    kind: str = ""
    name: str = ""
    call_id: str = ""
    phase: str = ""
    said: bool = False
    done: bool = False
    section: int = 0
    arguments: list[str] = msgspec.field(default_factory=list[str])


class EventReader:
    """Converts events to Gemini's chunks. Text and thoughts are passed on as they arrive, a call
    when its item is complete; an incomplete call, or one with invalid arguments, is dropped and
    determines the end of the answer."""

    def __init__(self, names: ToolNameMap, new_id: NewId) -> None:
        self._names = names
        self._new_id = new_id
        self._items: dict[int, _Item] = {}
        self._reasoning: list[Item] = []
        self._taken: set[str] = set()
        self._broken: str | None = None
        self._usage: UsageMetadata | None = None
        self._finish: FinishReason | None = None
        self._said = False
        self._response_id: str | None = None
        self._model: str | None = None

    def feed(self, event: object) -> list[GenerateContentResponse]:
        """Converts one event. Raises DialectError, also for a failed answer."""
        fields = Fields(event, "event")
        kind = word(fields, "type") or ""
        if kind in _FAILURES:
            raise DialectError(f"the answer failed: {_failure(fields)}")
        if kind in ENDS:
            parts = self._end(inner(fields, "response"))
        elif kind == "response.output_item.added":
            parts = self._begin(fields)
        elif kind == "response.output_item.done":
            item = inner(fields, "item")
            parts = self._complete(self._item(fields, item), item)
        elif kind in _ARGUMENTS_DONE:
            parts = self._take_arguments(fields)
        else:
            parts = self._delta(kind, fields)
        self._said = self._said or any(part.text and not part.thought for part in parts)
        return [self._chunk(parts)] if parts else []

    @property
    def is_counted(self) -> bool:
        """False: counts come with the end only."""
        return False

    def finish(self) -> list[GenerateContentResponse]:
        """The last chunk of a finished answer: the finish reason and the token counts."""
        broken = self._broken
        for item in self._items.values():
            if not item.done and item.kind in _CALLS:
                broken = item.name
        cut = self._finish == FinishReason.MAX_TOKENS
        end = Candidate(finish_reason=self._finish)
        if broken is not None:
            name = self._names.wire(broken) if broken else NAMELESS
            end = cut_call(name) if cut else malformed_call(name)
        elif self._finish is None and self._said:
            end = words_without_reason()
        return [replace(self._chunk([], end), usage_metadata=self._usage)]

    def _delta(self, kind: str, fields: Fields) -> list[Part]:
        if kind in {"response.created", "response.in_progress"}:
            self._note(inner(fields, "response"))
            return []
        text = word(fields, "delta") or ""
        if not text:
            return []
        item = self._item(fields)
        if kind in _ARGUMENT_DELTAS:
            item.arguments.append(text)
            return []
        if kind in _TEXT_DELTAS:
            return [*self._lead(item), Part(text=text)]
        if kind in _THOUGHT_DELTAS:
            section = number(fields, "summary_index") or 0
            gap = "\n\n" if item.said and section != item.section else ""
            item.said, item.section = True, section
            return [Part(text=gap + text, thought=True)]
        return []

    def _item(self, fields: Fields, given: Fields | None = None) -> _Item:
        """The item of an event; one without an index belongs to the last item."""
        at = number(fields, "output_index")
        if at is None:
            at = max(self._items, default=0)
        item = self._items.setdefault(at, _Item())
        if given is not None:
            item.kind = word(given, "type") or item.kind
            item.name = word(given, "name") or item.name
            item.call_id = word(given, "call_id") or item.call_id
            item.phase = word(given, "phase") or item.phase
        return item

    def _begin(self, fields: Fields) -> list[Part]:
        """Notes the start of an item; without an index it is a new one."""
        if number(fields, "output_index") is None:
            self._items[max(self._items, default=-1) + 1] = _Item()
        self._item(fields, inner(fields, "item"))
        return []

    def _take_arguments(self, fields: Fields) -> list[Part]:
        item = self._item(fields)
        whole = word(fields, "arguments") or word(fields, "input")
        if whole:
            item.arguments = [whole]
        return []

    def _complete(self, item: _Item, fields: Fields) -> list[Part]:
        """The parts of a complete item that were not passed on yet."""
        if item.done:
            return []
        item.done = True
        if item.kind in _CALLS:
            return self._call(item, fields)
        if item.kind == "reasoning":
            kept = carried_item(fields)
            if kept is not None:
                self._reasoning.append(kept)
            texts = summary_texts(fields) or item_texts(fields, "content")
            if item.said or not texts:
                return []
            return [Part(text="\n\n".join(texts), thought=True)]
        if item.kind == "message" and not item.said:
            text = "".join(_message_texts(fields))
            return [*self._lead(item), Part(text=text)] if text else []
        return []

    def _lead(self, item: _Item) -> list[Part]:
        """The part before the first text of a message: it carries the reasoning and the phase."""
        if item.said:
            return []
        item.said = True
        signature = self._take_reasoning(item.phase)
        return [Part(text="", thought_signature=signature)] if signature else []

    def _take_reasoning(self, phase: str = "") -> str | None:
        items, self._reasoning = self._reasoning, []
        return seal_reasoning(items, phase)

    def _call(self, item: _Item, fields: Fields) -> list[Part]:
        if item.kind == "custom_tool_call":
            text = word(fields, "input")
            args = {INPUT: "".join(item.arguments) if text is None else text}
        else:
            given = fields.value("arguments")
            text = given if isinstance(given, str) and given else "".join(item.arguments)
            args = as_object(given) or answered_arguments(scrub(text))
        if args is None or not item.name or word(fields, "status") == "incomplete":
            self._broken = item.name
            return []
        call = FunctionCall(id=item.call_id, name=self._names.wire(item.name), args=args)
        call = replace(call, id=unique_id(call, self._new_id, self._taken))
        return [Part(function_call=call, thought_signature=self._take_reasoning())]

    def _end(self, response: Fields) -> list[Part]:
        """Notes the end, and returns the parts of items that no event has completed."""
        self._note(response)
        parts: list[Part] = []
        for at, given in enumerate(as_array(response.value("output")) or ()):
            fields = Fields(as_object(given) or {}, f"output[{at}]")
            parts += self._complete(self._item(Fields({"output_index": at}), fields), fields)
        self._usage = read_usage(response) or self._usage
        reason = word(inner(response, "incomplete_details"), "reason") or ""
        self._finish = _READ.get(reason, FinishReason.STOP)
        return parts

    def _note(self, response: Fields) -> None:
        self._response_id = word(response, "id") or self._response_id
        self._model = word(response, "model") or self._model

    def _chunk(self, parts: list[Part], end: Candidate | None = None) -> GenerateContentResponse:
        return answer_chunk(parts, end, model=self._model, response_id=self._response_id)


def read_response(body: object, names: ToolNameMap, new_id: NewId) -> GenerateContentResponse:
    """Converts a whole answer to Gemini's types. Raises DialectError for an invalid body, and for
    an answer that failed or is not finished."""
    fields = Fields(body)
    status = word(fields, "status") or "completed"
    if status in _FAILED:
        raise DialectError(f'the answer has the status "{status}": {_failure(fields)}')
    if fields.array("output") is None:
        raise fields.fail("output", "is missing.")
    reader = EventReader(names, new_id)
    chunks = reader.feed({"type": "response.completed", "response": body}) + reader.finish()
    parts = tuple(part for chunk in chunks for part in chunk.parts)
    end = replace(chunks[-1].candidates[0], content=Content(role=MODEL, parts=parts))
    return replace(chunks[-1], candidates=(end,))


def read_usage(fields: Fields) -> UsageMetadata | None:
    """The token counts of an answer; None without any."""
    if not fields.value("usage"):
        return None
    usage = inner(fields, "usage")
    return count_tokens(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        count(inner(usage, "output_tokens_details"), "reasoning_tokens"),
        count(inner(usage, "input_tokens_details"), "cached_tokens"),
        count(usage, "total_tokens"),
    )


def _message_texts(fields: Fields) -> list[str]:
    """The texts and refusals of a message."""
    found = [as_object(each) or {} for each in as_array(fields.value("content")) or ()]
    texts = [each.get("text") or each.get("refusal") for each in found]
    return [scrub(text) for text in texts if isinstance(text, str)]


def _failure(fields: Fields) -> str:
    """The message of a failed answer, or of an error event."""
    holder: Any = inner(fields, "response") if fields.value("response") else fields
    said = word(inner(holder, "error"), "message") or word(fields, "message")
    return said or "no reason given"
