"""Answers in the form of the Responses API, whole and as events, written."""

from collections.abc import Iterator
from typing import Any

import msgspec

from alhena.wire.content import SIGNATURE_SENTINEL, Part
from alhena.wire.dialects.conversation import (
    AnswerEnd,
    DialectRequest,
    NewId,
    ToolNameMap,
    ending_of,
    unique_id,
)
from alhena.wire.dialects.fields import for_next_part
from alhena.wire.dialects.responses.items import (
    TEXT_MARK,
    THOUGHT_MARK,
    Item,
    open_reasoning,
    write_call,
)
from alhena.wire.dialects.results import FoundPages, found_pages, words_for
from alhena.wire.response import GenerateContentResponse, UsageMetadata

Event = dict[str, Any]

_MESSAGE, _REASONING, _SEARCH = "message", "reasoning", "web_search_call"
_ITEM_IDS = {
    _MESSAGE: "msg",
    _REASONING: "rs",
    _SEARCH: "ws",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}


class ItemWriter:
    """Converts parts to output items and their events. Text and thoughts are passed on as they
    arrive; a signed text is its own message. `scope` makes the ids of items unique."""

    def __init__(self, names: ToolNameMap, new_id: NewId, scope: str = "answer") -> None:
        self.items: list[Item] = []
        self._names = names
        self._new_id = new_id
        self._scope = scope
        self._open: Item | None = None
        self._texts: list[str] = []
        self._phase = ""
        self._taken: set[str] = set()

    def part(self, part: Part) -> Iterator[Event]:
        """The events of the next part."""
        if part.thought:
            yield from self._write_thought(part)
            return
        signature = part.thought_signature
        carried = open_reasoning(signature)
        if carried is not None:
            yield from self.close()
            self._phase = carried.phase
            for item in carried.items:
                yield from self._write_item(item)
        elif signature and signature != SIGNATURE_SENTINEL:
            mark = TEXT_MARK + signature if part.text == "" else for_next_part(signature)
            yield from self._add_signature(mark)
        if part.function_call is not None:
            yield from self.close()
            call_id = unique_id(part.function_call, self._new_id, self._taken)
            yield from self._write_item(write_call(part.function_call, call_id, self._names))
        elif text := words_for(part):
            if self._kind != _MESSAGE:
                yield from self.close()
                yield from self._begin_message()
            self._texts.append(text)
            yield self._event_of_text("response.output_text.delta", delta=text, logprobs=[])
            if signature:
                yield from self.close()

    def search(self, found: FoundPages) -> Iterator[Event]:
        """The events of the item about a search."""
        yield from self.close()
        pages = [{"type": "url", "url": url} for url, _ in found.pages]
        action = {"type": "search", "query": "; ".join(found.queries), "sources": pages}
        began = self._begin({"type": _SEARCH, "action": action})
        yield began
        item = self._open or {}
        at = {"item_id": item["id"], "output_index": len(self.items)}
        for step in ("in_progress", "searching", "completed"):
            yield {"type": f"response.{_SEARCH}.{step}", **at}
        self._open = None
        yield from self._end_item(item)

    def close(self) -> Iterator[Event]:
        """Completes the open item."""
        item, self._open = self._open, None
        if item is None:
            return
        text, self._texts = "".join(self._texts), []
        at = {"item_id": item["id"], "output_index": len(self.items)}
        if item["type"] == _MESSAGE:
            at |= {"content_index": 0}
            piece = _output_text(text)
            item["content"] = [piece]
            yield {"type": "response.output_text.done", **at, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **at, "part": piece}
        elif text:
            piece = {"type": "summary_text", "text": text}
            item["summary"] = [piece]
            at |= {"summary_index": 0}
            yield {"type": "response.reasoning_summary_text.done", **at, "text": text}
            yield {"type": "response.reasoning_summary_part.done", **at, "part": piece}
        yield from self._end_item(item)

    @property
    def _kind(self) -> str:
        return self._open["type"] if self._open is not None else ""

    def _begin(self, item: Item) -> Event:
        """Starts an item: notes it, and returns its event."""
        prefix = _ITEM_IDS.get(item["type"], "item")
        made_id = item.get("id") or f"{prefix}_{self._scope}_{len(self.items)}"
        self._open = {"id": made_id, **item, "status": "in_progress"}
        index = len(self.items)
        shown = dict(self._open)
        return {"type": "response.output_item.added", "output_index": index, "item": shown}

    def _begin_message(self) -> Iterator[Event]:
        message: Item = {"type": _MESSAGE, "role": "assistant", "content": []}
        phase, self._phase = self._phase, ""
        yield self._begin(message | ({"phase": phase} if phase else {}))
        yield self._event_of_text("response.content_part.added", part=_output_text(""))

    def _event_of_text(self, kind: str, **more: Any) -> Event:
        """An event of the open message's text."""
        item_id = self._open["id"] if self._open is not None else ""
        at = {"item_id": item_id, "output_index": len(self.items), "content_index": 0}
        return {"type": kind, **at, **more}

    def _write_thought(self, part: Part) -> Iterator[Event]:
        text = words_for(part)
        if self._kind != _REASONING:
            yield from self.close()
            yield self._begin({"type": _REASONING, "summary": []})
        item = self._open or {}
        at = {"item_id": item["id"], "output_index": len(self.items), "summary_index": 0}
        if text and not self._texts:
            piece = {"type": "summary_text", "text": ""}
            yield {"type": "response.reasoning_summary_part.added", **at, "part": piece}
        if text:
            self._texts.append(text)
            yield {"type": "response.reasoning_summary_text.delta", **at, "delta": text}
        if part.thought_signature:
            item["encrypted_content"] = THOUGHT_MARK + part.thought_signature
            yield from self.close()

    def _add_signature(self, opaque: str) -> Iterator[Event]:
        """Puts a signature into the open reasoning item, or into one of its own."""
        if self._open is None or self._kind != _REASONING:
            yield from self.close()
            yield self._begin({"type": _REASONING, "summary": []})
        if self._open is not None:
            self._open["encrypted_content"] = opaque
        yield from self.close()

    def _write_item(self, item: Item) -> Iterator[Event]:
        """The events of a complete item: a call, or reasoning of the service itself."""
        texts = {"arguments": "response.function_call_arguments"}
        texts["input"] = "response.custom_tool_call_input"
        key = next((key for key in texts if key in item), "")
        began = self._begin(item | ({key: ""} if key else {}))
        yield began
        made = self._open or {}
        if key:
            made[key] = item[key]
            at = {"item_id": made["id"], "output_index": len(self.items)}
            yield {"type": f"{texts[key]}.delta", **at, "delta": item[key]}
            yield {"type": f"{texts[key]}.done", **at, key: item[key]}
        self._open = None
        yield from self._end_item(made)

    def _end_item(self, item: Item) -> Iterator[Event]:
        item["status"] = "completed"
        index = len(self.items)
        self.items.append(item)
        yield {"type": "response.output_item.done", "output_index": index, "item": dict(item)}


def _output_text(text: str) -> Item:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


class ResponseFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an answer that are known before it. `created` is in seconds since 1970."""

    id: str
    model: str
    created: int
    echo: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def answer_to(request: DialectRequest, answer_id: str, created: int) -> ResponseFields:
    """The known fields of the answer to a request."""
    return ResponseFields(id=answer_id, model=request.model, created=created, echo=request.echo)


class EventWriter:
    """Converts a streamed answer to events. The last one has the whole answer."""

    def __init__(self, answer: ResponseFields, *, names: ToolNameMap, new_id: NewId) -> None:
        self._answer = answer
        self._items = ItemWriter(names, new_id, answer.id)
        self._usage: UsageMetadata | None = None
        self._last = GenerateContentResponse()
        self._search: FoundPages | None = None
        self._begun = False
        self._number = 0

    def feed(self, chunk: GenerateContentResponse) -> list[Event]:
        """Converts one of Gemini's chunks."""
        self._usage = chunk.usage_metadata or self._usage
        self._search = found_pages(chunk) or self._search
        events = self._begin()
        for part in chunk.parts:
            events += map(self._number_event, self._items.part(part))
        if chunk.finish_reason or chunk.prompt_feedback:
            self._last = chunk
        return events

    def finish(self) -> list[Event]:
        """The final events. Raises InexpressibleAnswerError for an answer that ended with an
        unusable call."""
        ending = ending_of(self._last)
        events = self._begin()
        events += map(self._number_event, self._items.close())
        if self._search is not None:
            events += map(self._number_event, self._items.search(self._search))
        reason = {AnswerEnd.LENGTH: "max_output_tokens", AnswerEnd.FILTERED: "content_filter"}.get(
            ending
        )
        status = "incomplete" if reason else "completed"
        done = self._response(
            status,
            incomplete_details={"reason": reason} if reason else None,
            usage=usage_of(self._usage),
        )
        return [*events, self._number_event({"type": f"response.{status}", "response": done})]

    def fail(self, code: str, message: str) -> list[Event]:
        """The events that end a failed answer."""
        error = {"code": code, "message": message}
        failed = self._response("failed", error=error)
        return [*self._begin(), self._number_event({"type": "response.failed", "response": failed})]

    def _begin(self) -> list[Event]:
        if self._begun:
            return []
        self._begun = True
        kinds = ("response.created", "response.in_progress")
        begun = self._response("in_progress")
        return [self._number_event({"type": kind, "response": begun}) for kind in kinds]

    def _response(self, status: str, **more: Any) -> dict[str, Any]:
        answer = self._answer
        return {
            "id": answer.id,
            "object": "response",
            "created_at": answer.created,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": answer.model,
            "output": list(self._items.items),
            "usage": None,
            **answer.echo,
            **more,
        }

    def _number_event(self, event: Event) -> Event:
        number, self._number = self._number, self._number + 1
        return {**event, "sequence_number": number}


def write_response(
    response: GenerateContentResponse, answer: ResponseFields, *, names: ToolNameMap, new_id: NewId
) -> dict[str, Any]:
    """Converts an answer to a whole response. Raises InexpressibleAnswerError for an answer that
    ended with an unusable call."""
    writer = EventWriter(answer, names=names, new_id=new_id)
    writer.feed(response)
    return writer.finish()[-1]["response"]


def usage_of(usage: UsageMetadata | None) -> dict[str, Any]:
    """Token counts."""
    usage = usage or UsageMetadata()
    prompt = usage.prompt_token_count + usage.tool_use_prompt_token_count
    output = usage.candidates_token_count + usage.thoughts_token_count
    cached = usage.cached_content_token_count
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.thoughts_token_count},
        "total_tokens": prompt + output,
    }
