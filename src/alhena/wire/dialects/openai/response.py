"""Chat completions, whole."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.arguments import write_arguments
from alhena.wire.dialects.conversation import NewId, unique_id
from alhena.wire.dialects.endings import Ending, ending_of
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.loose import count, inner, word
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.openai.calls import Calls, signature_of
from alhena.wire.dialects.words import words_for
from alhena.wire.plain import as_array, as_object
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)
from alhena.wire.text import scrub

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
