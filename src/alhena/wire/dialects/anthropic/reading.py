"""Reads a Messages request."""

from collections.abc import Iterator

from alhena.wire.content import (
    USER,
    Blob,
    Content,
    FileData,
    FunctionResponsePart,
    Part,
)
from alhena.wire.dialects.conversation import ConversationBuilder, DialectRequest, ToolNameMap
from alhena.wire.dialects.fields import (
    DialectError,
    Fields,
    limit_of,
    mark_redacted,
    of_next_part,
    own_signature,
    refuse,
    strings,
    unknown,
)
from alhena.wire.dialects.results import Piece, to_response
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ServiceTier,
    ThinkingConfig,
    ToolConfig,
    ToolDeclarations,
)

PDF = "application/pdf"
_REFUSED = ("mcp_servers", "container")
_CLEARING = "clear_"
"""Prefix of context edits that only drop parts of a history."""


def read_request(body: object) -> DialectRequest:
    """Converts the body of POST /v1/messages (or its count_tokens) to Gemini's types.

    Raises DialectError. These distinctions are lost: a string and one text block, consecutive
    messages of one role, adjacent texts in a tool result, and settings without a Gemini equivalent
    (`metadata`, `cache_control`, `disable_parallel_tool_use`, `effort`, clearing
    edits of `context_management`). The title and context of a document become text before it.
    """
    fields = Fields(body)
    for key in _REFUSED:
        refuse(fields, key, "Gemini has nothing like it")
    _refuse_edits(fields)
    names = ToolNameMap()
    tools = tuple(_declaration(tool, names) for tool in fields.objects("tools"))
    return DialectRequest(
        model=fields.required_text("model"),
        contents=_contents(fields, names),
        config=GenerateContentConfig(
            system_instruction=_system(fields),
            tools=(ToolDeclarations(function_declarations=tools),) if tools else None,
            tool_config=_tool_config(fields, names),
            generation_config=_generation(fields),
            service_tier=_tier(fields),
        ),
        stream=fields.flag("stream"),
        names=names,
    )


def _tier(fields: Fields) -> ServiceTier | None:
    tier = fields.text("service_tier")
    if tier not in (None, "auto", "standard_only"):
        raise unknown(fields, "service_tier", tier, "there are auto and standard_only")
    return ServiceTier.STANDARD if tier == "standard_only" else None


def _refuse_edits(fields: Fields) -> None:
    """Rejects edits of the history other than clearing ones. Clearing saves tokens; without it the
    model reads more, with the same result for the client. Other edits change the answer."""
    management = fields.object("context_management") or Fields({})
    for edit in management.objects("edits"):
        kind = edit.required_text("type")
        if not kind.startswith(_CLEARING):
            raise unknown(edit, "type", kind, "there are edits that only clear")


def _contents(fields: Fields, names: ToolNameMap) -> tuple[Content, ...]:
    if fields.array("messages") is None:
        raise fields.fail("messages", "is missing.")
    conversation = ConversationBuilder(names)
    for at, message in enumerate(fields.objects("messages")):
        role = message.required_text("role")
        blocks = _blocks(message)
        if role == "user":
            _add_user(conversation, blocks, message.path)
        elif role == "assistant" and at == 0:
            raise message.fail("role", "the first message must be the user's.")
        elif role == "assistant":
            parts = tuple(_model_parts(conversation, blocks))
            conversation.model(parts, message.path)
        else:
            raise unknown(message, "role", role, "there are user and assistant")
    return conversation.finish(fields.place("messages"))


def _blocks(message: Fields) -> list[Fields]:
    content = message.value("content")
    if isinstance(content, str):
        return [Fields({"type": "text", "text": content}, message.place("content"))]
    if message.array("content") is None:
        raise message.fail("content", "is missing.")
    return message.objects("content")


def _add_user(conversation: ConversationBuilder, blocks: list[Fields], path: str) -> None:
    """Adds results first, then the user's text (V2)."""
    prompt: list[Part] = []
    for block in blocks:
        if block.required_text("type") != "tool_result":
            prompt += _user_part(block)
            continue
        if prompt:
            raise DialectError("a tool_result comes after other content.", block.path)
        response, media = to_response(_pieces(block), failed=block.flag("is_error"))
        conversation.result(block.required_text("tool_use_id"), response, media, block.path)
    conversation.user(prompt, path)


def _user_part(block: Fields) -> list[Part]:
    kind = block.required_text("type")
    if kind == "text":
        return _text_part(block)
    media = _media(block, kind)
    said = [Part(text=text) for text in _about(block)]
    return [*said, Part(inline_data=media.inline_data, file_data=media.file_data)]


def _text_part(block: Fields) -> list[Part]:
    text = block.text("text")
    if text is None:
        raise block.fail("text", "is missing.")
    return [Part(text=text)] if text else []


def _pieces(block: Fields) -> Iterator[Piece]:
    content = block.value("content")
    if isinstance(content, str) or content is None:
        yield block.text("content") or ""
        return
    for inner in block.objects("content"):
        kind = inner.required_text("type")
        if kind == "text":
            yield inner.text("text") or ""
        else:
            media = _media(inner, kind)
            yield from _about(inner)
            yield media


def _about(block: Fields) -> Iterator[str]:
    """Title and context of a document as text."""
    citations = block.object("citations")
    if citations is not None and citations.flag("enabled"):
        raise block.fail("citations", "is not supported: answers bear no citations.")
    for key in ("title", "context"):
        text = block.text(key)
        if text:
            yield f"[document {key}: {text}]"


def _media(block: Fields, kind: str) -> FunctionResponsePart:
    if kind not in {"image", "document"}:
        known = "there are text, image, document, tool_use, tool_result and thinking"
        raise unknown(block, "type", kind, known)
    source = block.object("source")
    if source is None:
        raise block.fail("source", "is missing.")
    form = source.required_text("type")
    if form == "base64":
        data = Blob(mime_type=source.required_text("media_type"), data=source.required_text("data"))
        return FunctionResponsePart(inline_data=data)
    if form == "url":
        mime = PDF if kind == "document" else None
        uri = source.required_text("url")
        return FunctionResponsePart(file_data=FileData(file_uri=uri, mime_type=mime))
    if form == "text" and kind == "document":
        return FunctionResponsePart(inline_data=_text_document(source))
    raise unknown(source, "type", form, "there are base64, url and, for documents, text")


def _text_document(source: Fields) -> Blob:
    from base64 import b64encode

    data = b64encode(source.required_text("data").encode("utf-8")).decode("ascii")
    return Blob(mime_type="text/plain", data=data)


def _model_parts(conversation: ConversationBuilder, blocks: list[Fields]) -> Iterator[Part]:
    """The parts of an answer. A signature block precedes its part; without a following part, the
    signature is put on an empty text part (S2)."""
    signature: str | None = None
    for block in blocks:
        kind = block.required_text("type")
        if kind in {"thinking", "redacted_thinking"}:
            if signature is not None:
                yield Part(text="", thought_signature=signature)
            thought, signature = _thought(block, kind)
            if thought is not None:
                yield thought
            continue
        part = _read_block(conversation, block, kind)
        if part is not None:
            yield part if signature is None else _add_signature(part, signature)
            signature = None
    if signature is not None:
        yield Part(text="", thought_signature=signature)


def _add_signature(part: Part, signature: str) -> Part:
    return Part(text=part.text, function_call=part.function_call, thought_signature=signature)


def _thought(block: Fields, kind: str) -> tuple[Part | None, str | None]:
    """A thought, and the signature it carries for the next part."""
    if kind == "redacted_thinking":
        data = block.required_text("data")
        signature = of_next_part(data)
        if signature is not None:
            return None, signature
        return Part(text="", thought=True, thought_signature=mark_redacted(data)), None
    text = block.text("thinking") or ""
    opaque = block.text("signature") or ""
    thought = Part(text=text, thought=True, thought_signature=own_signature(opaque))
    return thought, of_next_part(opaque)


def _read_block(conversation: ConversationBuilder, block: Fields, kind: str) -> Part | None:
    if kind == "text":
        return next(iter(_text_part(block)), None)
    if kind != "tool_use":
        known = "an assistant's blocks are text, tool_use, thinking and redacted_thinking"
        raise unknown(block, "type", kind, known)
    call_id, name = block.required_text("id"), block.required_text("name")
    args = block.plain("input")
    if args is None:
        raise block.fail("input", "is missing.")
    return Part(function_call=conversation.call(call_id, name, args))


def _system(fields: Fields) -> Content | None:
    value = fields.value("system")
    if isinstance(value, str):
        texts = [fields.text("system")]
    else:
        texts = [block.text("text") for block in fields.objects("system")]
    parts = tuple(Part(text=text) for text in texts if text)
    return Content(role=USER, parts=parts) if parts else None


def _declaration(tool: Fields, names: ToolNameMap) -> FunctionDeclaration:
    kind = tool.text("type") or "custom"
    if kind != "custom":
        raise unknown(tool, "type", kind, "only tools of the client (custom) can be called")
    schema = tool.plain("input_schema")
    return FunctionDeclaration(
        name=names.wire(tool.required_text("name")),
        description=tool.text("description") or "",
        parameters_json_schema=schema if schema is not None else {"type": "object"},
    )


def _tool_config(fields: Fields, names: ToolNameMap) -> ToolConfig | None:
    choice = fields.object("tool_choice")
    if choice is None:
        return None
    kind = choice.required_text("type")
    only: tuple[str, ...] | None = None
    if kind == "auto":
        mode = FunctionCallingMode.AUTO
    elif kind == "none":
        mode = FunctionCallingMode.NONE
    elif kind in {"any", "tool"}:
        mode = FunctionCallingMode.ANY
        only = (names.wire(choice.required_text("name")),) if kind == "tool" else None
    else:
        raise unknown(choice, "type", kind, "there are auto, any, none and tool")
    config = FunctionCallingConfig(mode=mode, allowed_function_names=only)
    return ToolConfig(function_calling_config=config)


def _generation(fields: Fields) -> GenerationConfig | None:
    schema = _schema(fields)
    config = GenerationConfig(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        top_k=fields.integer("top_k"),
        max_output_tokens=limit_of(fields, "max_tokens"),
        stop_sequences=strings(fields, "stop_sequences") or None,
        response_mime_type="application/json" if schema is not None else None,
        response_json_schema=schema,
        thinking_config=_thinking(fields),
    )
    return None if config == GenerationConfig() else config


def _schema(fields: Fields) -> "dict[str, object] | None":
    """The schema of the answer; `output_format` is an older name of the field."""
    output = fields.object("output_config")
    asked = output.object("format") if output is not None else fields.object("output_format")
    if asked is None:
        return None
    kind = asked.required_text("type")
    if kind != "json_schema":
        raise unknown(asked, "type", kind, "there is json_schema")
    schema = asked.plain("schema")
    if schema is None:
        raise asked.fail("schema", "is missing.")
    return schema


def _thinking(fields: Fields) -> ThinkingConfig | None:
    thinking = fields.object("thinking")
    if thinking is None:
        return None
    kind = thinking.required_text("type")
    if kind == "disabled":
        return ThinkingConfig(thinking_budget=0)
    if kind == "adaptive":
        return ThinkingConfig(thinking_budget=-1, include_thoughts=True)
    if kind == "enabled":
        budget = limit_of(thinking, "budget_tokens")
        return ThinkingConfig(thinking_budget=budget, include_thoughts=True)
    raise unknown(thinking, "type", kind, "there are enabled, adaptive and disabled")
