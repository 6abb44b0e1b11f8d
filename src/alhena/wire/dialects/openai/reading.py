"""Reads a chat completion request: messages, tools and settings."""

from collections.abc import Iterator

from alhena.wire.content import (
    USER,
    Content,
    FunctionCall,
    FunctionResponsePart,
    Part,
    encode_value,
)
from alhena.wire.dialects.conversation import ConversationBuilder, DialectRequest
from alhena.wire.dialects.fields import (
    DialectError,
    Fields,
    content_pieces,
    describe_value,
    limit_of,
    old_arguments,
    read_effort,
    read_stops,
    refuse,
    strings,
    unknown,
    word,
)
from alhena.wire.dialects.media import inline_media, media_by_url
from alhena.wire.dialects.openai.response import signature_of
from alhena.wire.dialects.results import Piece, to_response
from alhena.wire.dialects.tool_forms import (
    INPUT,
    ClientTools,
    ToolForm,
    declare_tool,
    read_tool_choice,
)
from alhena.wire.json_values import as_array
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ServiceTier,
    ThinkingConfig,
)

TIERS = {
    "auto": None,
    "default": ServiceTier.STANDARD,
    "flex": ServiceTier.FLEX,
    "priority": ServiceTier.PRIORITY,
}
_JSON = "application/json"
_REFUSED = {
    "audio": "answers are text",
    "logit_bias": "Gemini has no such setting",
    "logprobs": "probabilities are not told",
    "top_logprobs": "probabilities are not told",
}


def _read_tools(fields: Fields, names: ClientTools) -> tuple[list[FunctionDeclaration], list[str]]:
    """The functions and custom tools, and the types of the tools that are left out."""
    if fields.value("functions") is not None:
        raise fields.fail("functions", "is not supported; use tools.")
    declarations: list[FunctionDeclaration] = []
    left_out: list[str] = []
    for tool in fields.objects("tools"):
        kind = tool.required_text("type")
        if kind not in {"function", "custom"}:
            left_out.append(kind)
            continue
        described = tool.object(kind)
        if described is None:
            raise tool.fail(kind, "is missing.")
        declarations.append(declare_tool(described, names, custom=kind == "custom"))
    return declarations, left_out


def _read_generation(fields: Fields, stops: tuple[str, ...]) -> GenerationConfig | None:
    """Reads sampling and output settings."""
    if fields.integer("n") not in {None, 1}:
        raise fields.fail("n", f"{fields.value('n')} is not supported: one answer is given.")
    for key, why in _REFUSED.items():
        refuse(fields, key, why)
    if fields.value("web_search_options") is not None:
        asked = describe_value(fields.value("web_search_options"))
        raise fields.fail("web_search_options", f"{asked} is not supported: no tools run here.")
    for item in strings(fields, "modalities") or ():
        if item != "text":
            raise unknown(fields, "modalities", item, "answers are text")
    limit = limit_of(fields, "max_completion_tokens")
    mime, schema = _format(fields)
    config = GenerationConfig(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=limit if limit is not None else limit_of(fields, "max_tokens"),
        stop_sequences=stops or None,
        presence_penalty=fields.number("presence_penalty"),
        frequency_penalty=fields.number("frequency_penalty"),
        seed=fields.integer("seed"),
        response_mime_type=mime,
        response_json_schema=schema,
        thinking_config=_thinking(fields),
    )
    return None if config == GenerationConfig() else config


def _format(fields: Fields) -> "tuple[str | None, dict[str, object] | None]":
    asked = fields.object("response_format")
    if asked is None:
        return None, None
    kind = asked.required_text("type")
    if kind == "text":
        return None, None
    if kind == "json_object":
        return _JSON, None
    if kind == "json_schema":
        described = asked.object("json_schema")
        schema = described.plain("schema") if described is not None else None
        if schema is None:
            raise DialectError("is missing.", f"{asked.path}.json_schema.schema")
        return _JSON, schema
    raise unknown(asked, "type", kind, "there are text, json_object and json_schema")


def _thinking(fields: Fields) -> ThinkingConfig | None:
    budget = read_effort(fields, "reasoning_effort")
    if budget is None:
        return None
    return ThinkingConfig(thinking_budget=budget, include_thoughts=True if budget else None)


def read_tier(fields: Fields) -> ServiceTier | None:
    """Reads `service_tier`."""
    tier = fields.text("service_tier")
    if tier is not None and tier not in TIERS:
        raise unknown(fields, "service_tier", tier, f"there are {', '.join(TIERS)}")
    return None if tier is None else TIERS[tier]


_SYSTEM = frozenset({"system", "developer"})
_THOUGHTS = frozenset({"thinking", "reasoning", "reasoning_content", "redacted_thinking"})
"""Types of an assistant's parts that are thoughts, in a field of the same name."""
_REPEATED = frozenset({"tool_use", "tool_call", "function_call"})
"""Types of an assistant's parts that repeat its `tool_calls`."""


def read_request(body: object) -> DialectRequest:
    """Converts the body of POST /v1/chat/completions to Gemini's types.

    Raises DialectError. These distinctions are lost: a string and one text part, `developer` and
    `system`, consecutive messages of one role, adjacent texts in a tool result. A system message
    after other messages, or without any, becomes the user's. Settings without a Gemini equivalent
    are dropped (`user`, `metadata`, `store`, `strict`, `detail`, `verbosity`, `prediction`, names
    of participants).
    """
    fields = Fields(body)
    names = ClientTools()
    options = fields.object("stream_options")
    declarations, left_out = _read_tools(fields, names)
    choice = read_tool_choice(fields, names, declarations)
    system, contents = _read_messages(fields, names)
    stops, others = read_stops(fields, "stop")
    parallel = fields.value("parallel_tool_calls")
    return DialectRequest(
        model=fields.required_text("model"),
        contents=contents,
        config=GenerateContentConfig(
            system_instruction=system,
            tools=choice.declare(declarations),
            tool_config=choice.config,
            generation_config=_read_generation(fields, stops),
            service_tier=read_tier(fields),
        ),
        stream=fields.flag("stream"),
        include_usage=options is not None and options.flag("include_usage"),
        parallel_calls=parallel is None or fields.flag("parallel_tool_calls"),
        stops=others,
        left_out=tuple(dict.fromkeys([*left_out, *choice.left_out])),
        names=names,
    )


def _read_messages(
    fields: Fields, names: ClientTools
) -> tuple[Content | None, tuple[Content, ...]]:
    if fields.array("messages") is None:
        raise fields.fail("messages", "is missing.")
    conversation = ConversationBuilder(names)
    system: list[Part] = []
    begun = False
    for message in fields.objects("messages"):
        role = message.required_text("role")
        if role in _SYSTEM and not begun:
            system += _texts(message)
            continue
        begun = True
        if role in _SYSTEM:
            conversation.add_aside(_texts(message))
        elif role == "user":
            conversation.user(list(_user_parts(message)), message.path)
        elif role == "assistant":
            conversation.model(list(_model_parts(names, message)), message.path)
        elif role == "tool":
            response, media = to_response(_pieces(message), failed=False)
            # Some clients leave ids out; results are then in the order of their calls.
            call_id = message.text("tool_call_id") or conversation.unanswered
            call_id = call_id or message.required_text("tool_call_id")
            conversation.result(call_id, response, media, message.path)
        else:
            raise unknown(message, "role", role, "there are system, user, assistant and tool")
    if not begun and system:
        # Gemini requires contents, and this is the only text.
        conversation.user(system, fields.place("messages"))
        system = []
    contents = conversation.finish(fields.place("messages"))
    return (Content(role=USER, parts=tuple(system)) if system else None), contents


def _texts(message: Fields) -> list[Part]:
    """The texts of a text-only message."""
    parts: list[Part] = []
    for part in _content(message):
        kind = part.required_text("type")
        if kind != "text":
            raise unknown(part, "type", kind, "this message contains only text")
        parts += _text(part)
    return parts


def _content(message: Fields) -> list[Fields]:
    return content_pieces(message, "content", "text")


def _text(part: Fields) -> list[Part]:
    text = part.text("text")
    if text is None:
        raise part.fail("text", "is missing.")
    return [Part(text=text)] if text else []


def _user_parts(message: Fields) -> Iterator[Part]:
    for part in _content(message):
        if part.required_text("type") == "text":
            yield from _text(part)
        else:
            media = _media(part)
            yield Part(inline_data=media.inline_data, file_data=media.file_data)


def _pieces(message: Fields) -> Iterator[Piece]:
    value = message.value("content")
    if value is None or not (isinstance(value, str) or as_array(value) is not None):
        yield "" if value is None else encode_value(value).decode()
        return
    for part in _content(message):
        if part.required_text("type") == "text":
            yield part.text("text") or ""
        else:
            yield _media(part)


def _media(part: Fields) -> FunctionResponsePart:
    kind = part.required_text("type")
    if kind == "image_url" and isinstance(part.value(kind), str):
        return media_by_url(part, kind)
    holder = part.object(kind) if kind in {"image_url", "input_audio", "file"} else None
    if holder is None:
        known = "there are text, image_url, input_audio and file, each with its own field"
        raise unknown(part, "type", kind, known)
    if kind == "image_url":
        return media_by_url(holder, "url")
    if kind == "input_audio":
        mime = f"audio/{holder.required_text('format')}"
        return inline_media(mime, holder.required_text("data"))
    if holder.value("file_id") is not None:
        raise holder.fail("file_id", "files are not kept here; send file_data.")
    return media_by_url(holder, "file_data", name=holder.text("filename") or "")


def _model_parts(names: ClientTools, message: Fields) -> Iterator[Part]:
    thought = word(message, "reasoning_content")
    if thought:
        yield Part(text=thought, thought=True)
    for part in _content(message):
        kind = part.required_text("type")
        if kind == "refusal":
            refusal = part.text("refusal")
            if refusal:
                yield Part(text=refusal)
            continue
        if kind in _THOUGHTS or kind in _REPEATED:
            # Clients of several services leave such parts of other answers in the history.
            thought = word(part, kind) if kind in _THOUGHTS else None
            if thought:
                yield Part(text=thought, thought=True)
            continue
        if kind != "text":
            raise unknown(part, "type", kind, "an assistant's parts are text and refusal")
        yield from _text(part)
    refusal = message.text("refusal")
    if refusal:
        yield Part(text=refusal)
    signature = signature_of(message)
    if signature:
        yield Part(text="", thought_signature=signature)
    if message.value("function_call") is not None:
        raise message.fail("function_call", "is not supported; use tool_calls.")
    for at, call in enumerate(message.objects("tool_calls")):
        yield _call(names, call, f"call_{at}")


def _call(names: ClientTools, call: Fields, default_id: str) -> Part:
    kind = call.text("type") or "function"
    described = call.object(kind) if kind in {"function", "custom"} else None
    if described is None:
        raise unknown(call, "type", kind, "only functions and custom tools can be called")
    custom = kind == "custom"
    form = ToolForm(described.required_text("name"), custom=custom)
    if custom:
        args = {INPUT: word(described, "input") or ""}
    else:
        args = old_arguments(described.value("arguments"))
    made = FunctionCall(id=call.text("id") or default_id, name=names.declare(form), args=args)
    return Part(function_call=made, thought_signature=signature_of(call))
