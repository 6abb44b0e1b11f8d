"""Complete chat completions, and tool calls assembled from pieces."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.conversation import (
    NAMELESS,
    AnswerEnd,
    NewId,
    ToolNameMap,
    answer_chunk,
    count_tokens,
    cut_call,
    ending_of,
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
    write_arguments,
)
from alhena.wire.dialects.results import sole_text, words_for
from alhena.wire.dialects.tool_forms import custom_input, form_of
from alhena.wire.json_values import as_array, as_object, scrub
from alhena.wire.response import Candidate, FinishReason, GenerateContentResponse, UsageMetadata


class _PendingCall(msgspec.Struct):
    """A call under assembly."""

    id: str = ""
    name: str = ""
    signature: str | None = None
    texts: list[str] = msgspec.field(default_factory=list[str])
    given: dict[str, Any] | None = None

    @property
    def begun(self) -> bool:
        """True when part of the arguments has arrived."""
        return self.given is not None or any(text.strip() for text in self.texts)

    @property
    def args(self) -> dict[str, Any] | None:
        """The arguments; None while they are not a JSON object."""
        return self.given if self.given is not None else answered_arguments("".join(self.texts))


class _Piece(msgspec.Struct, frozen=True):
    """The content of one element of `tool_calls`."""

    index: int | None
    id: str
    name: str
    text: str
    given: dict[str, Any] | None
    signature: str | None

    @property
    def begun(self) -> bool:
        """True when it has part of the arguments."""
        return self.given is not None or bool(self.text.strip())

    @property
    def args(self) -> dict[str, Any] | None:
        """The arguments, if the piece has all of them."""
        if self.given is not None:
            return self.given
        return answered_arguments(self.text) if self.text.strip() else None


class CallAssembler:
    """The calls of an answer."""

    def __init__(self, names: ToolNameMap, new_id: NewId) -> None:
        self._names = names
        self._new_id = new_id
        self._calls: list[_PendingCall] = []
        self._at: dict[int, _PendingCall] = {}
        self._by_id: dict[str, _PendingCall] = {}

    @property
    def begun(self) -> bool:
        """True once a piece of a call has come."""
        return bool(self._calls)

    def feed(self, elements: Iterable[Fields]) -> None:
        """Adds the pieces of a chunk, or complete calls. Raises DialectError for arguments that are
        neither text nor an object.

        A piece belongs to the call of its index. Without distinct indexes a name starts the next
        call, unless it continues the arguments so far.
        """
        touched: set[int] = set()
        for element in elements:
            piece = _piece(element)
            call = self._find_call(piece)
            if call is None or not self._continues(call, piece, again=id(call) in touched):
                call = self._begin()
            self._take(call, piece)
            touched.add(id(call))

    def finish(self, *, cut: bool, unended: bool = False) -> tuple[list[Part], Candidate | None]:
        """The usable calls, and the end of the answer if others are unusable. `cut`: it ended at
        the token limit, so the last call may be incomplete. `unended`: it had no finish reason; a
        final call with only a name is then dropped, and the answer has no reason for its end."""
        parts: list[Part] = []
        taken: set[str] = set()
        end: Candidate | None = None
        for call in self._calls:
            name = self._names.wire(call.name) if call.name else NAMELESS
            args = call.args
            missing = (cut or unended) and call is self._calls[-1] and not call.begun
            if missing and not cut:
                end = end or Candidate()
                continue
            if args is None or missing or not call.name:
                end = cut_call(name) if cut else malformed_call(name)
                continue
            made = FunctionCall(id=call.id, name=name, args=args)
            made = replace(made, id=unique_id(made, self._new_id, taken))
            parts.append(Part(function_call=made, thought_signature=call.signature))
        return parts, end

    def _find_call(self, piece: _Piece) -> _PendingCall | None:
        """The call that a piece may belong to."""
        if piece.index is not None:
            found = self._at.get(piece.index)
            if found is not None or piece.name or piece.id:
                return found
        elif piece.id:
            known = self._by_id.get(piece.id)
            if known is not None:
                return known
        return self._calls[-1] if self._calls else None

    def _continues(self, call: _PendingCall, piece: _Piece, *, again: bool) -> bool:
        """True when a piece continues the call it may belong to. `again`: the same chunk had a
        piece of that call."""
        if not piece.name or not call.name:
            return True
        if piece.name != call.name:
            return False
        other = bool(piece.id and call.id and piece.id != call.id)
        marked = piece.index is not None or bool(piece.id)
        if not call.begun:
            return marked and not (other or again)
        args = call.args
        if args is None:
            return not (other or again) or piece.args is None
        if again or other or not marked:
            return False
        return not piece.begun or (bool(piece.id) and args in ({}, piece.args))

    def _begin(self) -> _PendingCall:
        call = _PendingCall()
        self._calls.append(call)
        return call

    def _take(self, call: _PendingCall, piece: _Piece) -> None:
        if piece.index is not None:
            self._at[piece.index] = call
        if piece.id:
            self._by_id[piece.id] = call
        call.id = call.id or piece.id
        call.name = call.name or piece.name
        call.signature = call.signature or piece.signature
        if piece.text:
            call.texts.append(piece.text)
        call.given = piece.given or call.given or piece.given


def _piece(element: Fields) -> _Piece:
    function = inner(element, "function")
    arguments = function.value("arguments")
    is_text = isinstance(arguments, str)
    return _Piece(
        index=number(element, "index"),
        id=word(element, "id") or _numeral(element.value("id")),
        name=word(function, "name") or "",
        text=(function.text("arguments") or "") if is_text else "",
        given=None if is_text or arguments is None else function.plain("arguments"),
        signature=signature_of(element),
    )


def _numeral(value: object) -> str:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def signature_of(holder: Fields) -> str | None:
    """`extra_content.google.thought_signature`, as in Google's own endpoint (V4)."""
    google = as_object((as_object(holder.value("extra_content")) or {}).get("google")) or {}
    return word(Fields(google), "thought_signature") or None


_READ = {
    "length": FinishReason.MAX_TOKENS,
    "model_length": FinishReason.MAX_TOKENS,
    "content_filter": FinishReason.SAFETY,
}
_FAILED = frozenset({"error", "abort"})
_WORDS = frozenset({"text", "thinking", "refusal"})


def write_response(
    response: GenerateContentResponse,
    *,
    model: str,
    names: ToolNameMap,
    new_id: NewId,
    created: int,
) -> dict[str, Any]:
    """Converts an answer to a chat completion. `created` is in seconds since 1970.

    Raises InexpressibleAnswerError for an answer that ended with an unusable call.
    """
    message = message_of(response.parts, names, new_id)
    reason = finish_reason(response, has_calls="tool_calls" in message)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return {
        "id": f"chatcmpl-{response.response_id or 'answer'}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": usage_of(response.usage_metadata),
    }


def message_of(parts: tuple[Part, ...], names: ToolNameMap, new_id: NewId) -> dict[str, Any]:
    """The message of an assistant. The signature of a text is stored in the message, that of a call
    in the call."""
    thoughts = "".join(words_for(part) for part in parts if part.thought)
    texts = [part for part in parts if not part.thought and part.function_call is None]
    content = "".join(words_for(part) for part in texts)
    message: dict[str, Any] = {"role": "assistant", "content": content or None, "refusal": None}
    if thoughts:
        message["reasoning_content"] = thoughts
    signature = next((p.thought_signature for p in reversed(texts) if p.thought_signature), None)
    if signature:
        message |= signature_field(signature)
    taken: set[str] = set()
    calls = [
        tool_call(
            part.function_call,
            part.thought_signature,
            names,
            unique_id(part.function_call, new_id, taken),
        )
        for part in parts
        if part.function_call is not None
    ]
    if calls:
        message["tool_calls"] = calls
    return message


def tool_call(
    call: FunctionCall, signature: str | None, names: ToolNameMap, call_id: str
) -> dict[str, Any]:
    """One element of `tool_calls`."""
    form = form_of(names, call.name)
    made: dict[str, Any] = {"id": call_id, "type": "custom" if form.custom else "function"}
    if form.custom:
        made["custom"] = {"name": form.name, "input": custom_input(call.args or {})}
    else:
        made["function"] = {"name": form.name, "arguments": write_arguments(call.args)}
    return made | (signature_field(signature) if signature else {})


def signature_field(signature: str) -> dict[str, Any]:
    """The field with a thought signature."""
    return {"extra_content": {"google": {"thought_signature": signature}}}


def finish_reason(last: GenerateContentResponse, *, has_calls: bool) -> str:
    """The finish reason of an answer."""
    match ending_of(last):
        case AnswerEnd.FILTERED:
            return "content_filter"
        case AnswerEnd.LENGTH:
            return "length"
        case AnswerEnd.DONE:
            return "tool_calls" if has_calls else "stop"


def usage_of(usage: UsageMetadata | None) -> dict[str, Any]:
    """Token counts."""
    usage = usage or UsageMetadata()
    prompt = usage.prompt_token_count + usage.tool_use_prompt_token_count
    completion = usage.candidates_token_count + usage.thoughts_token_count
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached_content_token_count},
        "completion_tokens_details": {"reasoning_tokens": usage.thoughts_token_count},
    }


def usage_from(fields: Fields, key: str = "usage") -> UsageMetadata | None:
    """The valid token counts of a completion; None without any."""
    if not fields.value(key):
        return None
    usage = inner(fields, key)
    cached = count(inner(usage, "prompt_tokens_details"), "cached_tokens")
    thoughts = count(inner(usage, "completion_tokens_details"), "reasoning_tokens")
    return count_tokens(
        count(usage, "prompt_tokens"),
        count(usage, "completion_tokens"),
        thoughts or count(usage, "reasoning_tokens"),
        # DeepSeek's and Moonshot's services have names of their own.
        cached or count(usage, "prompt_cache_hit_tokens") or count(usage, "cached_tokens"),
        count(usage, "total_tokens"),
    )


def read_response(body: object, names: ToolNameMap, new_id: NewId) -> GenerateContentResponse:
    """Converts a chat completion to Gemini's types. Raises DialectError for an invalid body.

    A call whose arguments are not a JSON object ends the answer with MALFORMED_FUNCTION_CALL, or
    with MAX_TOKENS if that limit cut it off. A non-empty answer needs no finish reason: it is
    complete.
    """
    fields = Fields(body)
    choices = fields.objects("choices")
    if not choices:
        raise fields.fail("choices", "contains no answer.")
    message = choices[0].object("message")
    if message is None:
        raise choices[0].fail("message", "is missing.")
    reader = EventReader(names, new_id)
    chunks = reader.feed(body)
    if not word(choices[0], "finish_reason") and (chunks or call_elements(message)):
        reader.feed({"choices": [{"finish_reason": "stop"}]})
    chunks += reader.finish()
    parts = tuple(part for chunk in chunks for part in chunk.parts)
    end = replace(chunks[-1].candidates[0], content=Content(role=MODEL, parts=parts))
    return replace(chunks[-1], candidates=(end,))


THOUGHTS = ("reasoning_content", "reasoning")
"""Fields of thoughts, by server."""


def thought_field(message: Fields) -> str:
    """The field of a message or chunk that has its thoughts; empty without any."""
    return next((name for name in THOUGHTS if word(message, name)), "")


def said_parts(message: Fields) -> list[Part]:
    """The thoughts and texts of a message or chunk, with their signature."""
    field = thought_field(message)
    parts = [Part(text=word(message, field), thought=True)] if field else []
    refusal = word(message, "refusal") or ""
    if as_array(message.value("content")) is None:
        text = (message.text("content") or "") + refusal
        parts += [Part(text=text)] if text else []
    else:
        parts += [part for item in message.objects("content") for part in _item(item)]
        parts += [Part(text=refusal)] if refusal else []
    signature = signature_of(message)
    return [*parts, Part(text="", thought_signature=signature)] if signature else parts


def _item(item: Fields) -> Iterator[Part]:
    kind = word(item, "type") or "text"
    said = "".join(_texts(item.value(kind)))
    if said and kind in _WORDS:
        yield Part(text=said, thought=True if kind == "thinking" else None)


def _texts(value: object) -> Iterator[str]:
    """The texts in an item of content: a string, or items with strings."""
    if isinstance(value, str):
        yield scrub(value)
    for item in as_array(value) or ():
        text = (as_object(item) or {}).get("text")
        if isinstance(text, str):
            yield scrub(text)


def call_elements(message: Fields) -> list[Fields]:
    """The calls of a message or chunk, including the form that preceded `tool_calls`."""
    elements = message.objects("tool_calls")
    older = as_object(message.value("function_call"))
    if older:
        elements.append(Fields({"function": older}, message.place("function_call")))
    return elements


def read_finish(reason: str | None) -> FinishReason | None:
    """Gemini's finish reason, None for none. Raises DialectError for a reason that means
    failure."""
    if reason in _FAILED:
        raise DialectError(f'the answer ended with the finish reason "{reason}".')
    return _READ.get(reason, FinishReason.STOP) if reason else None


Chunk = dict[str, Any]


class EventWriter:
    """Converts a streamed answer to chat completion chunks; the server adds `[DONE]`."""

    def __init__(
        self,
        *,
        model: str,
        names: ToolNameMap,
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
        """The final chunks. Raises InexpressibleAnswerError like `write_response`."""
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
        return delta | (signature_field(part.thought_signature) if part.thought_signature else {})

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> Chunk:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {"id": self._id, **self._base, "choices": [choice]}


class EventReader:
    """Converts chunks to Gemini's. Text is passed on as it arrives, calls at the end of the answer;
    invalid arguments of a call end it as in `read_response`. `thoughts` is the field in which
    thoughts came; empty without any."""

    def __init__(self, names: ToolNameMap, new_id: NewId) -> None:
        self.thoughts = ""
        self._calls = CallAssembler(names, new_id)
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
            if parts and parts[0].thought:
                self.thoughts = thought_field(delta)
            self._calls.feed(call_elements(delta))
            self._finish = read_finish(word(choice, "finish_reason")) or self._finish
        self._said = self._said or any(part.text and not part.thought for part in parts)
        return [self._chunk(parts)] if parts else []

    @property
    def is_counted(self) -> bool:
        """True when text and the tokens of the answer have come, and no call."""
        return self._said and self._usage is not None and not self._calls.begun

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
        return [replace(last, usage_metadata=self._usage)]

    def _chunk(self, parts: list[Part], end: Candidate | None = None) -> GenerateContentResponse:
        return answer_chunk(parts, end, model=self._model, response_id=self._response_id)
