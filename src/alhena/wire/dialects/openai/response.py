"""Chat completions, whole, and their tool calls as they come."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.conversation import (
    Ending,
    NewId,
    ToolNames,
    cut_call,
    ending_of,
    malformed_call,
    unique_id,
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
from alhena.wire.dialects.results import words_for
from alhena.wire.plain import as_array, as_object, scrub
from alhena.wire.response import Candidate, FinishReason, GenerateContentResponse, UsageMetadata

_MOST_TRIES = 200
_NAMELESS = "a tool without a name"


class _Call(msgspec.Struct):
    """A call as its pieces come."""

    id: str = ""
    name: str = ""
    signature: str | None = None
    texts: list[str] = msgspec.field(default_factory=list[str])
    given: dict[str, Any] | None = None
    tries: int = 0

    @property
    def begun(self) -> bool:
        """True when anything of the arguments has come."""
        return self.given is not None or any(text.strip() for text in self.texts)

    @property
    def args(self) -> dict[str, Any] | None:
        """The arguments; None while they are no JSON object."""
        return self.given if self.given is not None else answered_arguments("".join(self.texts))

    def so_far(self) -> dict[str, Any] | None:
        """The same, without reading all of a text that goes on, again and again: one that was read
        in vain so often belongs to a server that names each piece."""
        goes_on = self.texts and self.texts[0].startswith("{") and self.texts[-1][-1:] != "}"
        if goes_on or self.tries >= _MOST_TRIES:
            return self.given
        found = self.args
        self.tries += found is None
        return found


class _Piece(msgspec.Struct, frozen=True):
    """What one element of `tool_calls` holds."""

    index: int | None
    id: str
    name: str
    text: str
    given: dict[str, Any] | None
    signature: str | None

    @property
    def begun(self) -> bool:
        """True when it holds anything of the arguments."""
        return self.given is not None or bool(self.text.strip())

    @property
    def args(self) -> dict[str, Any] | None:
        """The arguments, if the piece holds them whole and not only their middle."""
        if self.given is not None:
            return self.given
        return answered_arguments(self.text) if self.text.strip() else None


class Calls:
    """The calls of one answer. `names` are those of the tools that it may call."""

    def __init__(self, names: ToolNames, new_id: NewId) -> None:
        self._names = names
        self._new_id = new_id
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def add(self, element: Fields) -> None:
        """A whole call. Raises DialectError for arguments that are neither text nor an object."""
        self._take(self._begin(), _piece(element))

    def feed(self, elements: Iterable[Fields]) -> None:
        """The pieces in one chunk. Raises DialectError as `add` does.

        A piece belongs to the call of its index. Where servers give none, or every call the same,
        a name begins the next one, unless the arguments so far go on with it, or the name does.
        """
        touched: set[int] = set()
        for element in elements:
            piece = _piece(element)
            call = self._found(piece)
            if call is None or not self._continues(call, piece, again=id(call) in touched):
                call = self._begin()
            self._take(call, piece)
            touched.add(id(call))

    def finish(self, *, cut: bool, unended: bool = False) -> tuple[list[Part], Candidate | None]:
        """The calls that can be carried out, and how the answer ends if others cannot. `cut`: it
        ended at the limit of its tokens, so that the last call may not be whole. `unended`: nothing
        said that it ended; without its last call, where nothing of that came but the name, it has
        no reason for its end."""
        parts: list[Part] = []
        taken: set[str] = set()
        end: Candidate | None = None
        for call in self._calls:
            name = self._names.wire(call.name) if call.name else _NAMELESS
            args = call.args
            missing = (cut or unended) and call is self._calls[-1] and not call.begun
            if missing and not cut:
                end = end or Candidate()
                continue
            if args is None or missing or not call.name:
                end = cut_call(name) if cut else malformed_call(name)
                continue
            made = FunctionCall(id=call.id, name=name, args=args)
            made = msgspec.structs.replace(made, id=unique_id(made, self._new_id, taken))
            parts.append(Part(function_call=made, thought_signature=call.signature))
        return parts, end

    def _found(self, piece: _Piece) -> _Call | None:
        """The call to which a piece may belong."""
        if piece.index is not None:
            found = self._at.get(piece.index)
            if found is not None or piece.name or piece.id:
                return found
        elif piece.id:
            known = self._by_id.get(piece.id)
            if known is not None:
                return known
        return self._calls[-1] if self._calls else None

    def _continues(self, call: _Call, piece: _Piece, *, again: bool) -> bool:
        """True when a piece goes on with the call that it may belong to. `again`: a piece of that
        call came in the same chunk."""
        if not piece.name or not call.name:
            return True
        other = bool(piece.id and call.id and piece.id != call.id)
        if not call.begun:
            return not other and not again and self._goes_on(call, piece)
        if piece.name != call.name:
            return False
        args = call.so_far()
        if args is None:
            return not (other or again) or piece.args is None
        if again or other or (piece.index is None and not piece.id):
            return False
        return not piece.begun or (bool(piece.id) and args in ({}, piece.args))

    def _goes_on(self, call: _Call, piece: _Piece) -> bool:
        """True when the name of a piece repeats, or goes on with, that of a call that has no
        arguments yet."""
        if piece.name == call.name:
            return piece.index is not None or bool(piece.id)
        joined = _joined(call.name, piece.name)
        if self._names.knows(piece.name):
            return joined == piece.name and not self._names.knows(call.name)
        return self._names.knows(joined) or not self._names.knows(call.name)

    def _begin(self) -> _Call:
        call = _Call()
        self._calls.append(call)
        return call

    def _take(self, call: _Call, piece: _Piece) -> None:
        if piece.index is not None:
            self._at[piece.index] = call
        if piece.id:
            self._by_id[piece.id] = call
        call.id = call.id or piece.id
        if piece.name and not call.begun:
            call.name = _joined(call.name, piece.name)
        call.signature = call.signature or piece.signature
        if piece.text:
            call.texts.append(piece.text)
        call.given = piece.given or call.given or piece.given


def _joined(name: str, more: str) -> str:
    """A name with its next piece, which some servers begin with what they said before."""
    return more if more.startswith(name) else f"{name}{more}"


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
    """`extra_content.google.thought_signature`, where Google's own endpoint keeps it (V4)."""
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
    names: ToolNames,
    new_id: NewId,
    created: int,
) -> dict[str, Any]:
    """An answer as a chat completion. `created` is in seconds since 1970.

    Raises UnusableAnswerError for an answer that ended with a call that cannot be used.
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


def message_of(parts: tuple[Part, ...], names: ToolNames, new_id: NewId) -> dict[str, Any]:
    """The message of an assistant. The signature of a text stands at the message, that of a call at
    the call."""
    thoughts = "".join(words_for(part) for part in parts if part.thought)
    texts = [part for part in parts if not part.thought and part.function_call is None]
    content = "".join(words_for(part) for part in texts)
    message: dict[str, Any] = {"role": "assistant", "content": content or None, "refusal": None}
    if thoughts:
        message["reasoning_content"] = thoughts
    signature = next((p.thought_signature for p in reversed(texts) if p.thought_signature), None)
    if signature:
        message |= signed(signature)
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
    call: FunctionCall, signature: str | None, names: ToolNames, call_id: str
) -> dict[str, Any]:
    """One element of `tool_calls`."""
    function = {"name": names.original(call.name), "arguments": write_arguments(call.args)}
    made = {"id": call_id, "type": "function", "function": function}
    return made | (signed(signature) if signature else {})


def signed(signature: str) -> dict[str, Any]:
    """The field that carries a thought signature."""
    return {"extra_content": {"google": {"thought_signature": signature}}}


def finish_reason(last: GenerateContentResponse, *, has_calls: bool) -> str:
    """The finish reason for the end of an answer."""
    match ending_of(last, has_calls=has_calls):
        case Ending.FILTERED:
            return "content_filter"
        case Ending.LENGTH:
            return "length"
        case Ending.DONE:
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
    """The token counts of a completion, as far as they make sense; None where there are none."""
    if not fields.value(key):
        return None
    usage = inner(fields, key)
    prompt, completion = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
    thoughts = count(inner(usage, "completion_tokens_details"), "reasoning_tokens")
    return UsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=max(completion - thoughts, 0),
        thoughts_token_count=thoughts,
        cached_content_token_count=count(inner(usage, "prompt_tokens_details"), "cached_tokens"),
        total_token_count=count(usage, "total_tokens") or prompt + completion,
    )


def read_response(body: object, names: ToolNames, new_id: NewId) -> GenerateContentResponse:
    """A chat completion in Gemini's terms. Raises DialectError for a body that is none.

    A call whose arguments are no JSON object ends the answer with MALFORMED_FUNCTION_CALL, or with
    MAX_TOKENS where that limit cut it off. An answer that holds something needs no finish reason:
    it is there as a whole.
    """
    fields = Fields(body)
    choices = fields.objects("choices")
    if not choices:
        raise fields.fail("choices", "holds no answer.")
    message = choices[0].object("message")
    if message is None:
        raise choices[0].fail("message", "is missing.")
    parts = said_parts(message)
    calls = Calls(names, new_id)
    for element in call_elements(message):
        calls.add(element)
    finish = read_finish(word(choices[0], "finish_reason"))
    made, end = calls.finish(cut=finish == FinishReason.MAX_TOKENS)
    parts += made
    if finish is None and parts:
        finish = FinishReason.STOP
    end = end or Candidate(finish_reason=finish)
    return GenerateContentResponse(
        candidates=(replace(end, content=Content(role=MODEL, parts=tuple(parts))),),
        usage_metadata=usage_from(fields),
        model_version=word(fields, "model"),
        response_id=word(fields, "id"),
    )


def said_parts(message: Fields) -> list[Part]:
    """The thoughts and words of a message, or of what a chunk adds to one, with their signature."""
    thought = word(message, "reasoning_content") or word(message, "reasoning")
    parts = [Part(text=thought, thought=True)] if thought else []
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
    """The calls of a message, or of what a chunk adds to one; the one in the form that was there
    before `tool_calls`, too."""
    elements = message.objects("tool_calls")
    older = as_object(message.value("function_call"))
    if older:
        elements.append(Fields({"function": older}, message.place("function_call")))
    return elements


def read_finish(reason: str | None) -> FinishReason | None:
    """Gemini's word for a finish reason, None for none. Raises DialectError for one that says that
    the answer failed."""
    if reason in _FAILED:
        raise DialectError(f'the answer ended with the finish reason "{reason}".')
    return _READ.get(reason, FinishReason.STOP) if reason else None
