"""Chat completions, whole."""

from typing import Any

from msgspec.structs import replace

from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects.arguments import read_arguments, write_arguments
from alhena.wire.dialects.conversation import NewId, unique_id
from alhena.wire.dialects.endings import Ending, ending_of
from alhena.wire.dialects.fields import Fields
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.words import words_for
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    UsageMetadata,
)

_READ = {"length": FinishReason.MAX_TOKENS, "content_filter": FinishReason.SAFETY}


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


def usage_from(fields: Fields | None) -> UsageMetadata | None:
    """The token counts of a completion."""
    if fields is None:
        return None
    prompt = fields.integer("prompt_tokens") or 0
    completion = fields.integer("completion_tokens") or 0
    cached = fields.object("prompt_tokens_details")
    thought = fields.object("completion_tokens_details")
    thoughts = (thought.integer("reasoning_tokens") or 0) if thought is not None else 0
    return UsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=max(completion - thoughts, 0),
        thoughts_token_count=thoughts,
        cached_content_token_count=(cached.integer("cached_tokens") or 0) if cached else 0,
        total_token_count=fields.integer("total_tokens") or prompt + completion,
    )


def read_response(body: object, names: ToolNames, new_id: NewId) -> GenerateContentResponse:
    """A chat completion in Gemini's terms. Raises DialectError; a call whose arguments are no JSON
    object ends the answer with MALFORMED_FUNCTION_CALL."""
    fields = Fields(body)
    choices = fields.objects("choices")
    choice = choices[0] if choices else Fields({}, "choices[0]")
    message = choice.object("message") or Fields({}, "choices[0].message")
    parts: list[Part] = []
    thought = message.text("reasoning_content") or message.text("reasoning")
    if thought:
        parts.append(Part(text=thought, thought=True))
    text = (message.text("content") or "") + (message.text("refusal") or "")
    if text:
        parts.append(Part(text=text))
    candidate = Candidate(finish_reason=read_finish(choice.text("finish_reason")))
    taken: set[str] = set()
    for call in message.objects("tool_calls"):
        function = call.object("function") or Fields({}, call.place("function"))
        name = names.wire(function.required_text("name"))
        args = arguments_of(function)
        if args is None:
            candidate = malformed(name)
            continue
        made = FunctionCall(id=call.text("id"), name=name, args=args)
        made = replace(made, id=unique_id(made, new_id, taken))
        parts.append(Part(function_call=made, thought_signature=signature_of(call)))
    return GenerateContentResponse(
        candidates=(
            Candidate(
                content=Content(role=MODEL, parts=tuple(parts)),
                finish_reason=candidate.finish_reason,
                finish_message=candidate.finish_message,
            ),
        ),
        usage_metadata=usage_from(fields.object("usage")),
        model_version=fields.text("model"),
        response_id=fields.text("id"),
    )


def arguments_of(function: Fields) -> dict[str, Any] | None:
    """The arguments of a call; some servers send the object itself instead of its text."""
    if isinstance(function.value("arguments"), str):
        return read_arguments(function.text("arguments") or "")
    return function.plain("arguments") or {}


def malformed(name: str) -> Candidate:
    """The end of an answer with a call that cannot be read."""
    return Candidate(
        finish_reason=FinishReason.MALFORMED_FUNCTION_CALL,
        finish_message=f"the arguments of a call to {name} are no JSON object",
    )


def signature_of(holder: Fields) -> str | None:
    """`extra_content.google.thought_signature`, where Google's own endpoint keeps it (V4)."""
    extra = holder.object("extra_content")
    google = extra.object("google") if extra is not None else None
    return (google.text("thought_signature") or None) if google is not None else None


def read_finish(reason: str | None) -> FinishReason:
    """Gemini's word for a finish reason."""
    return _READ.get(reason or "", FinishReason.STOP)
