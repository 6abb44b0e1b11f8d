"""Requests to the Responses API, read: input items, tools and settings."""

from collections.abc import Iterator
from typing import Any

from alhena.wire.content import USER, Content, FunctionCall, FunctionResponsePart, Part
from alhena.wire.dialects.conversation import ConversationBuilder, DialectRequest
from alhena.wire.dialects.fields import (
    Fields,
    content_pieces,
    limit_of,
    of_next_part,
    old_arguments,
    read_effort,
    refuse,
    unknown,
    word,
)
from alhena.wire.dialects.media import media_by_url
from alhena.wire.dialects.openai.reading import read_tier
from alhena.wire.dialects.responses.items import (
    TEXT_MARK,
    THOUGHT_MARK,
    Item,
    carried_item,
    item_texts,
    seal_reasoning,
    summary_texts,
)
from alhena.wire.dialects.results import Piece, to_response
from alhena.wire.dialects.tool_forms import (
    INPUT,
    ClientTools,
    ToolForm,
    declare_tool,
    read_tool_choice,
)
from alhena.wire.json_values import as_object
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ThinkingConfig,
    ToolDeclarations,
)

_SYSTEM = frozenset({"system", "developer"})
_TEXTS = frozenset({"input_text", "output_text", "text"})
_REFUSED = {
    "previous_response_id": "no answers are stored here; send the whole conversation",
    "conversation": "no conversations are stored here; send the whole conversation",
    "background": "answers are not kept for later",
    "prompt": "no prompts are stored here",
    "top_logprobs": "probabilities are not told",
}
_SEARCH = "web_search"
"""Prefix of the types of OpenAI's search."""
_ADDED_TOOLS = "additional_tools"
_LEFT_OUT = frozenset(
    {
        *(_ADDED_TOOLS, "configuration_update", "compaction", "compaction_trigger"),
        *("web_search_call", "file_search_call", "code_interpreter_call", "computer_call"),
        *("computer_call_output", "image_generation_call", "mcp_list_tools", "mcp_call"),
        *("mcp_approval_request", "mcp_approval_response", "tool_search_call"),
        *("tool_search_output", "program", "program_output", "local_shell_call"),
        *("local_shell_call_output", "shell_call", "shell_call_output"),
        *("apply_patch_call", "apply_patch_call_output"),
    }
)
"""Items that are no part of the conversation: tools (read before it), settings, and the work of
tools that are left out."""
_ECHO: dict[str, Any] = {
    "instructions": None,
    "metadata": {},
    "temperature": None,
    "top_p": None,
    "max_output_tokens": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "truncation": "disabled",
}
"""The settings that an answer repeats, with their defaults."""


def read_request(body: object) -> DialectRequest:
    """Converts the body of POST /v1/responses to Gemini's types.

    Raises DialectError. `custom` tools become functions with one text, `web_search` is Gemini's
    search, and other tools that the service runs itself are left out (`DialectRequest.left_out`).
    Settings without a Gemini equivalent are dropped (`store`, `include`, `truncation`, `metadata`,
    `verbosity`, `strict`).
    """
    fields = Fields(body)
    for key, why in _REFUSED.items():
        refuse(fields, key, why)
    names = ClientTools()
    declarations, others = _read_tools(fields, names)
    choice = read_tool_choice(fields, names, declarations)
    others = [*others, *choice.left_out]
    searches = [kind for kind in others if kind.startswith(_SEARCH)]
    search = (ToolDeclarations(google_search={}),) if searches else ()
    system, contents = _Items(names).read(fields)
    parallel = fields.value("parallel_tool_calls")
    return DialectRequest(
        model=fields.required_text("model"),
        contents=contents,
        config=GenerateContentConfig(
            system_instruction=system,
            tools=(*(choice.declare(declarations) or ()), *search) or None,
            tool_config=choice.config,
            generation_config=_read_generation(fields),
            service_tier=read_tier(fields),
        ),
        stream=fields.flag("stream"),
        include_usage=True,
        parallel_calls=parallel is None or fields.flag("parallel_tool_calls"),
        left_out=tuple(dict.fromkeys(kind for kind in others if kind not in searches)),
        server_tools={"googleSearch": searches[0]} if searches else {},
        echo=_read_echo(fields),
        items=tuple(input_items(fields)),
        names=names,
    )


def _read_echo(fields: Fields) -> dict[str, Any]:
    echo = {
        key: default if fields.value(key) is None else fields.value(key)
        for key, default in _ECHO.items()
    }
    text = echo["text"]
    return echo if "format" in text else echo | {"text": {**text, **_ECHO["text"]}}


def _read_tools(fields: Fields, names: ClientTools) -> tuple[list[FunctionDeclaration], list[str]]:
    """The functions, and the types of the tools that are left out."""
    declarations: list[FunctionDeclaration] = []
    left_out: list[str] = []
    for tool in _tools(fields):
        kind = tool.required_text("type")
        if kind == "namespace":
            space = tool.required_text("name")
            inner = [_declare(each, names, space) for each in tool.objects("tools")]
            declarations += [each for each in inner if each is not None]
            continue
        declared = _declare(tool, names)
        if declared is None:
            left_out.append(kind)
        else:
            declarations.append(declared)
    return declarations, left_out


def _tools(fields: Fields) -> Iterator[Fields]:
    """The tools of a request, and those that its items add."""
    yield from fields.objects("tools")
    for at, item in enumerate(input_items(fields)):
        if (as_object(item) or {}).get("type") == _ADDED_TOOLS:
            yield from Fields(item, f"{fields.place('input')}[{at}]").objects("tools")


def _declare(tool: Fields, names: ClientTools, space: str = "") -> FunctionDeclaration | None:
    """The declaration of a function or a custom tool; None for other tools."""
    kind = tool.required_text("type")
    if kind not in {"function", "custom"}:
        return None
    return declare_tool(tool, names, space, custom=kind == "custom")


def _read_generation(fields: Fields) -> GenerationConfig | None:
    mime, schema = _read_format(fields)
    config = GenerationConfig(
        temperature=fields.number("temperature"),
        top_p=fields.number("top_p"),
        max_output_tokens=limit_of(fields, "max_output_tokens"),
        response_mime_type=mime,
        response_json_schema=schema,
        thinking_config=_read_thinking(fields),
    )
    return None if config == GenerationConfig() else config


def _read_format(fields: Fields) -> tuple[str | None, dict[str, Any] | None]:
    text = fields.object("text")
    asked = text.object("format") if text is not None else None
    kind = asked.required_text("type") if asked is not None else "text"
    if asked is None or kind == "text":
        return None, None
    if kind == "json_object":
        return "application/json", None
    if kind != "json_schema":
        raise unknown(asked, "type", kind, "there are text, json_object and json_schema")
    schema = asked.plain("schema")
    if schema is None:
        raise asked.fail("schema", "is missing.")
    return "application/json", schema


def _read_thinking(fields: Fields) -> ThinkingConfig | None:
    reasoning = fields.object("reasoning")
    if reasoning is None:
        return None
    budget = read_effort(reasoning, "effort")
    asked = reasoning.text("summary") or reasoning.text("generate_summary")
    shown = True if asked and asked != "none" and budget != 0 else None
    if budget is None and shown is None:
        return None
    return ThinkingConfig(thinking_budget=budget, include_thoughts=shown)


class _Items:
    """Builds the contents from the input items. The items of one answer become one content;
    `_signature` and `_reasoning` wait for the part that they precede; `_dropped` are the ids of
    calls that are left out, whose outputs are left out too."""

    def __init__(self, names: ClientTools) -> None:
        self._names = names
        self._conversation = ConversationBuilder(names)
        self._system: list[Part] = []
        self._begun = False
        self._parts: list[Part] = []
        self._place = ""
        self._signature: str | None = None
        self._reasoning: list[Item] = []
        self._dropped: set[str] = set()

    def read(self, fields: Fields) -> tuple[Content | None, tuple[Content, ...]]:
        """The system instruction and the contents."""
        instructions = fields.text("instructions")
        if instructions:
            self._system.append(Part(text=instructions))
        place = fields.place("input")
        for at, item in enumerate(input_items(fields)):
            self._take(Fields(item, f"{place}[{at}]"))
        self._flush()
        if not self._begun and self._system:
            # Gemini requires contents, and this is the only text.
            self._conversation.user(self._system, place)
            self._system = []
        contents = self._conversation.finish(place)
        return (Content(role=USER, parts=tuple(self._system)) if self._system else None), contents

    def _take(self, item: Fields) -> None:
        kind = item.text("type") or ("message" if item.value("role") is not None else "")
        if kind == "message":
            self._message(item)
        elif kind == "reasoning":
            self._answer(item, [])
            self._take_reasoning(item)
        elif kind in {"function_call", "custom_tool_call"}:
            call = self._call(item, kind)
            self._answer(item, [call])
        elif kind in {"function_call_output", "custom_tool_call_output"}:
            self._output(item)
        elif kind in _LEFT_OUT:
            self._dropped.add(word(item, "call_id") or "")
        else:
            known = (
                "there are message, reasoning, function_call, custom_tool_call and their outputs"
            )
            raise unknown(item, "type", kind, known)

    def _output(self, item: Fields) -> None:
        call_id = item.required_text("call_id")
        if call_id in self._dropped:
            return
        self._flush()
        response, media = to_response(_pieces(item), failed=False)
        self._conversation.result(call_id, response, media, item.path)

    def _message(self, item: Fields) -> None:
        role = item.required_text("role")
        if role in _SYSTEM and not self._begun:
            self._system += _texts_of(item)
        elif role == "assistant":
            self._answer(item, self._signed_texts(item))
        elif role in _SYSTEM or role == "user":
            self._begun = True
            self._flush()
            # The API takes messages between calls and their outputs, too.
            parts = _texts_of(item) if role in _SYSTEM else list(_user_parts(item))
            self._conversation.add_aside(parts)
        else:
            raise unknown(item, "role", role, "there are system, developer, user and assistant")

    def _answer(self, item: Fields, parts: list[Part]) -> None:
        """Adds parts to the open answer."""
        self._begun = True
        self._place = self._place or item.path
        self._parts += parts

    def _flush(self) -> None:
        """Ends the open answer. A signature without a part after it stays on an empty text."""
        if self._signature:
            self._parts.append(Part(text="", thought_signature=self._signature))
        if self._parts:
            self._conversation.model(self._parts, self._place)
        self._parts, self._place = [], ""
        self._signature, self._reasoning = None, []

    def _take_reasoning(self, item: Fields) -> None:
        opaque = word(item, "encrypted_content") or ""
        thought = "\n\n".join(summary_texts(item) or item_texts(item, "content"))
        if opaque.startswith(THOUGHT_MARK):
            signature = opaque.removeprefix(THOUGHT_MARK)
            self._parts.append(Part(text=thought, thought=True, thought_signature=signature))
            return
        own = of_next_part(opaque) or ""
        marked = bool(own) or opaque.startswith(TEXT_MARK)
        kept = None if marked else carried_item(item)
        if kept is not None:
            self._reasoning.append(kept)
            return
        if thought:
            self._parts.append(Part(text=thought, thought=True))
        if own:
            self._signature = own
        elif marked:
            signature = opaque.removeprefix(TEXT_MARK)
            self._parts.append(Part(text="", thought_signature=signature))

    def _signed_texts(self, item: Fields) -> list[Part]:
        """The texts of an assistant's message, the first one with the waiting signature."""
        parts = _texts_of(item)
        phase = word(item, "phase") or ""
        lead = seal_reasoning(self._reasoning, phase) if parts else None
        if parts and self._signature:
            parts[0] = Part(text=parts[0].text, thought_signature=self._signature)
            self._signature = None
        if lead is not None:
            self._reasoning = []
            parts.insert(0, Part(text="", thought_signature=lead))
        return parts

    def _call(self, item: Fields, kind: str) -> Part:
        custom = kind == "custom_tool_call"
        args: dict[str, Any]
        if custom:
            args = {INPUT: word(item, "input") or ""}
        else:
            args = old_arguments(item.value("arguments"))
        form = ToolForm(item.required_text("name"), item.text("namespace") or "", custom)
        name = self._names.declare(form)
        call = FunctionCall(id=item.required_text("call_id"), name=name, args=args)
        signature = seal_reasoning(self._reasoning) or self._signature
        self._signature, self._reasoning = None, []
        return Part(function_call=call, thought_signature=signature)


def input_items(fields: Fields) -> list[Any]:
    """The input items of a request; a text is one message of the user. Raises DialectError."""
    if isinstance(fields.value("input"), str):
        return [{"role": "user", "content": fields.text("input")}]
    items = fields.array("input")
    if items is None:
        raise fields.fail("input", "is missing.")
    return items


def _content(item: Fields, key: str = "content") -> list[Fields]:
    """The pieces of a message or an output; a text is one piece."""
    return content_pieces(item, key, "input_text")


def _texts_of(item: Fields) -> list[Part]:
    """The texts of a text-only message."""
    parts: list[Part] = []
    for piece in _content(item):
        kind = piece.required_text("type")
        if kind not in _TEXTS and kind != "refusal":
            raise unknown(piece, "type", kind, "this message contains only text")
        text = piece.text("refusal" if kind == "refusal" else "text")
        parts += [Part(text=text)] if text else []
    return parts


def _user_parts(item: Fields) -> Iterator[Part]:
    for piece in _content(item):
        if piece.required_text("type") in _TEXTS:
            text = piece.text("text")
            if text is None:
                raise piece.fail("text", "is missing.")
            if text:
                yield Part(text=text)
        else:
            media = _media(piece)
            yield Part(inline_data=media.inline_data, file_data=media.file_data)


def _pieces(item: Fields) -> Iterator[Piece]:
    """The output of a call."""
    for piece in _content(item, "output"):
        if piece.required_text("type") in _TEXTS:
            yield piece.text("text") or ""
        else:
            yield _media(piece)


def _media(piece: Fields) -> FunctionResponsePart:
    kind = piece.required_text("type")
    if kind == "input_image" and piece.value("image_url") is not None:
        return media_by_url(piece, "image_url")
    if kind == "input_file":
        for key in ("file_data", "file_url"):
            if piece.value(key) is not None:
                return media_by_url(piece, key, name=piece.text("filename") or "")
    if kind in {"input_image", "input_file"}:
        raise piece.fail("file_id", "files are not kept here; send the data or a URL.")
    raise unknown(piece, "type", kind, "there are input_text, input_image and input_file")
