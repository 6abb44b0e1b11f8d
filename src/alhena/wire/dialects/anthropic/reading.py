"""Reads a Messages request."""

from collections.abc import Iterator

from alhena.wire.content import USER, Blob, Content, FunctionResponsePart, Part
from alhena.wire.dialects.anthropic.tools import DeclaredTools
from alhena.wire.dialects.conversation import ConversationBuilder, DialectRequest, ToolNameMap
from alhena.wire.dialects.fields import (
    DialectError,
    Fields,
    limit_of,
    mark_redacted,
    of_next_part,
    old_arguments,
    own_signature,
    read_effort,
    read_stops,
    refuse,
    unknown,
)
from alhena.wire.dialects.media import inline_media, media_by_url
from alhena.wire.dialects.results import Piece, to_response
from alhena.wire.request import (
    GenerateContentConfig,
    GenerationConfig,
    ServiceTier,
    ThinkingConfig,
)

PDF = "application/pdf"
_THINKING = ("enabled", "adaptive", "between_tools", "disabled")
_OF_THE_SERVICE = frozenset({"server_tool_use", "mcp_tool_use", "container_upload", "fallback"})
"""Blocks about what the service itself did, as are those that end in `_tool_result`."""
_REFUSED = ("mcp_servers", "container")
_CLEARING = "clear_"
"""Prefix of context edits that only drop parts of a history."""


def read_request(body: object) -> DialectRequest:
    """Converts the body of POST /v1/messages (or its count_tokens) to Gemini's types.

    Raises DialectError. These distinctions are lost: a string and one text block, consecutive
    messages of one role, adjacent texts in a tool result, and settings without a Gemini equivalent
    (`metadata`, `cache_control`, clearing edits of `context_management`). Title and context of a
    document become text before it. A system message after others becomes the user's. Tools that
    the service runs become Gemini's, or are left out (`DialectRequest.left_out`).
    """
    fields = Fields(body)
    for key in _REFUSED:
        refuse(fields, key, "Gemini has nothing like it")
    _refuse_edits(fields)
    names = ToolNameMap()
    tools = DeclaredTools(names)
    for tool in fields.objects("tools"):
        tools.add(tool)
    reader = _Messages(names, tools)
    contents = reader.read(fields)
    stops, others = read_stops(fields, "stop_sequences")
    choice = fields.object("tool_choice") or Fields({}, "tool_choice")
    return DialectRequest(
        model=fields.required_text("model"),
        contents=contents,
        config=GenerateContentConfig(
            system_instruction=_system(fields, [*reader.system, *tools.wishes]),
            tools=tools.declarations(),
            tool_config=tools.choice(fields),
            generation_config=_generation(fields, stops),
            service_tier=_tier(fields),
        ),
        stream=fields.flag("stream"),
        parallel_calls=not choice.flag("disable_parallel_tool_use"),
        stops=others,
        left_out=tuple(dict.fromkeys(tools.left_out)),
        server_tools=tools.server,
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


class _Messages:
    """Reads the messages. `system` has the texts of system messages before all others."""

    def __init__(self, names: ToolNameMap, tools: DeclaredTools) -> None:
        self._conversation = ConversationBuilder(names)
        self._tools = tools
        self.system: list[str] = []

    def read(self, fields: Fields) -> tuple[Content, ...]:
        """The contents."""
        if fields.array("messages") is None:
            raise fields.fail("messages", "is missing.")
        messages = fields.objects("messages")
        roles = [message.required_text("role") for message in messages]
        last_asked = max((at for at, role in enumerate(roles) if role == "user"), default=-1)
        begun = False
        for at, (message, role) in enumerate(zip(messages, roles, strict=True)):
            if role == "system":
                passed = message.text("clear_at") == "next_user_message" and at < last_asked
                self._add_system([] if passed else self._system_texts(message), begun=begun)
            elif role == "user":
                begun = True
                _add_user(self._conversation, _blocks(message), message.path)
            elif role != "assistant":
                raise unknown(message, "role", role, "there are user, assistant and system")
            elif not begun:
                raise message.fail("role", "the first message must be the user's.")
            else:
                parts = tuple(_model_parts(self._conversation, _blocks(message)))
                self._conversation.model(parts, message.path)
        if not begun and self.system:
            # Gemini requires contents, and this is the only text.
            self._conversation.user([Part(text=text) for text in self.system], "messages")
            self.system = []
        return self._conversation.finish(fields.place("messages"))

    def _add_system(self, texts: list[str], *, begun: bool) -> None:
        if begun:
            self._conversation.add_aside([Part(text=text) for text in texts])
        else:
            self.system += texts

    def _system_texts(self, message: Fields) -> list[str]:
        """The texts of a system message, whose other blocks change the tools."""
        texts: list[str] = []
        for block in _blocks(message) if message.value("content") is not None else ():
            if self._tools.change(block):
                continue
            kind = block.required_text("type")
            if kind != "text":
                raise unknown(block, "type", kind, "a system message contains text")
            texts += [part.text or "" for part in _text_part(block)]
        return texts


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
    """The parts of a block of the user's."""
    return [
        Part(text=piece)
        if isinstance(piece, str)
        else Part(inline_data=piece.inline_data, file_data=piece.file_data)
        for piece in _block_pieces(block)
        if piece
    ]


def _text_part(block: Fields) -> list[Part]:
    text = block.text("text")
    if text is None:
        raise block.fail("text", "is missing.")
    return [Part(text=text)] if text else []


def _pieces(block: Fields) -> Iterator[Piece]:
    """The pieces of a tool's result."""
    content = block.value("content")
    if isinstance(content, str) or content is None:
        yield block.text("content") or ""
        return
    for inner in block.objects("content"):
        yield from _block_pieces(inner)


def _block_pieces(block: Fields) -> Iterator[Piece]:
    """The texts and media of a block of the user's, or of a result."""
    kind = block.required_text("type")
    if kind == "text":
        text = block.text("text")
        if text is None:
            raise block.fail("text", "is missing.")
        yield text
    elif kind in {"image", "document"}:
        yield from _about(block)
        yield from _media(block, kind)
    elif kind == "search_result":
        source, title = block.text("source") or "", block.text("title") or ""
        yield f"[search result: {title} ({source})]"
        yield from _inner_pieces(block)
    elif kind == "tool_reference":
        yield f"[tool: {block.required_text('tool_name')}]"
    else:
        known = "there are text, image, document, search_result, tool_reference and tool_result"
        raise unknown(block, "type", kind, known)


def _inner_pieces(holder: Fields) -> Iterator[Piece]:
    """The pieces of blocks in the field `content`, or its text."""
    if isinstance(holder.value("content"), str):
        yield holder.text("content") or ""
        return
    for inner in holder.objects("content"):
        yield from _block_pieces(inner)


def _about(block: Fields) -> Iterator[str]:
    """Title and context of a document as text."""
    citations = block.object("citations")
    if citations is not None and citations.flag("enabled"):
        raise block.fail("citations", "enabled is not supported: answers bear no citations.")
    for key in ("title", "context"):
        text = block.text(key)
        if text:
            yield f"[document {key}: {text}]"


def _media(block: Fields, kind: str) -> Iterator[Piece]:
    source = block.object("source")
    if source is None:
        raise block.fail("source", "is missing.")
    form = source.required_text("type")
    if form == "base64":
        yield inline_media(source.required_text("media_type"), source.required_text("data"))
    elif form == "url":
        default = PDF if kind == "document" else None
        yield media_by_url(source, "url", default=default)
    elif form == "text" and kind == "document":
        yield FunctionResponsePart(inline_data=_text_document(source))
    elif form == "content" and kind == "document":
        yield from _inner_pieces(source)
    elif form == "file":
        raise source.fail("file_id", "files are not kept here; send the data or a URL.")
    else:
        known = "there are base64, url and, for documents, text and content"
        raise unknown(source, "type", form, known)


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
    if kind == "compaction":
        text = block.text("content")
        return Part(text=text) if text else None
    if kind in _OF_THE_SERVICE or kind.endswith(("_tool_result", "_tool_listing")):
        return None
    if kind != "tool_use":
        known = "an assistant's blocks are text, tool_use, thinking and redacted_thinking"
        raise unknown(block, "type", kind, known)
    call_id, name = block.required_text("id"), block.required_text("name")
    return Part(function_call=conversation.call(call_id, name, old_arguments(block.value("input"))))


def _system(fields: Fields, more: list[str]) -> Content | None:
    """The system instruction, with the texts that follow it."""
    value = fields.value("system")
    if isinstance(value, str):
        texts = [fields.text("system")]
    else:
        texts = [block.text("text") for block in fields.objects("system")]
    parts = tuple(Part(text=text) for text in [*texts, *more] if text)
    return Content(role=USER, parts=parts) if parts else None


def _generation(fields: Fields, stops: tuple[str, ...]) -> GenerationConfig | None:
    schema = _schema(fields)
    config = GenerationConfig(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        top_k=fields.integer("top_k"),
        max_output_tokens=limit_of(fields, "max_tokens"),
        stop_sequences=stops or None,
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
    """The thinking settings. `effort` limits the thinking, unless that has its own budget."""
    output = fields.object("output_config") or Fields({}, "output_config")
    effort = read_effort(output, "effort")
    thinking = fields.object("thinking")
    if thinking is None:
        return None if effort is None else ThinkingConfig(thinking_budget=effort)
    kind = thinking.required_text("type")
    if kind not in _THINKING:
        raise unknown(thinking, "type", kind, f"there are {', '.join(_THINKING)}")
    shown = None if thinking.text("display") == "omitted" else True
    if kind == "disabled":
        return ThinkingConfig(thinking_budget=0)
    budget = limit_of(thinking, "budget_tokens") if kind == "enabled" else effort
    return ThinkingConfig(thinking_budget=-1 if budget is None else budget, include_thoughts=shown)
