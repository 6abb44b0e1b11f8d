"""A chat completion request, read."""

import re
from collections.abc import Iterator

from alhena.wire.content import USER, Blob, Content, FileData, FunctionResponsePart, Part
from alhena.wire.dialects.arguments import read_arguments
from alhena.wire.dialects.conversation import Conversation, DialectRequest
from alhena.wire.dialects.errors import DialectError
from alhena.wire.dialects.fields import Fields, unknown
from alhena.wire.dialects.names import ToolNames
from alhena.wire.dialects.openai.calls import signature_of
from alhena.wire.dialects.openai.settings import (
    read_generation,
    read_tool_choice,
    read_tools,
)
from alhena.wire.dialects.results import Piece, to_response
from alhena.wire.request import GenerateContentConfig
from alhena.wire.text import excerpt

_DATA_URL = re.compile(r"data:([^;,\s]+)(?:;[^;,]+)*;base64,(.*)", re.DOTALL)
_SYSTEM = frozenset({"system", "developer"})


def read_request(body: object) -> DialectRequest:
    """The body of POST /v1/chat/completions, in Gemini's terms.

    Raises DialectError. Told apart no longer are: a string and one text part, `developer` and
    `system`, messages of one role in a row, texts side by side in a tool result. A system message
    behind others, or where there are no others, becomes the user's. What Gemini has no word for is
    left out (`user`, `metadata`, `store`, `parallel_tool_calls`, `strict`, `detail`, `verbosity`,
    `prediction`, names of participants).
    """
    fields = Fields(body)
    names = ToolNames()
    options = fields.object("stream_options")
    tools = read_tools(fields, names)
    system, contents = _read_messages(fields, names)
    return DialectRequest(
        model=fields.required_text("model"),
        contents=contents,
        config=GenerateContentConfig(
            system_instruction=system,
            tools=tools,
            tool_config=read_tool_choice(fields, names, any_tools=tools is not None),
            generation_config=read_generation(fields),
        ),
        stream=fields.flag("stream"),
        include_usage=options is not None and options.flag("include_usage"),
        names=names,
    )


def _read_messages(fields: Fields, names: ToolNames) -> tuple[Content | None, tuple[Content, ...]]:
    if fields.array("messages") is None:
        raise fields.fail("messages", "is missing.")
    conversation = Conversation(names)
    system: list[Part] = []
    begun = False
    for message in fields.objects("messages"):
        role = message.required_text("role")
        if role in _SYSTEM and not begun:
            system += _texts(message)
            continue
        begun = True
        if role in _SYSTEM:
            conversation.user(_texts(message), message.path)
        elif role == "user":
            conversation.user(list(_user_parts(message)), message.path)
        elif role == "assistant":
            conversation.model(list(_model_parts(conversation, message)), message.path)
        elif role == "tool":
            response, media = to_response(_pieces(message), failed=False)
            call_id = message.required_text("tool_call_id")
            conversation.result(call_id, response, media, message.path)
        else:
            raise unknown(message, "role", role, "there are system, user, assistant and tool")
    if not begun and system:
        # Gemini answers contents only, and these are all the words there are.
        conversation.user(system, fields.place("messages"))
        system = []
    contents = conversation.finish(fields.place("messages"))
    return (Content(role=USER, parts=tuple(system)) if system else None), contents


def _texts(message: Fields) -> list[Part]:
    """The texts of a message that can hold nothing else."""
    parts: list[Part] = []
    for part in _content(message):
        kind = part.required_text("type")
        if kind != "text":
            raise unknown(part, "type", kind, "this message holds text only")
        parts += _text(part)
    return parts


def _content(message: Fields) -> list[Fields]:
    value = message.value("content")
    if isinstance(value, str):
        return [Fields({"type": "text", "text": value}, message.place("content"))]
    return message.objects("content")


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
    if message.value("content") is None:
        yield ""
        return
    for part in _content(message):
        if part.required_text("type") == "text":
            yield part.text("text") or ""
        else:
            yield _media(part)


def _media(part: Fields) -> FunctionResponsePart:
    kind = part.required_text("type")
    holder = part.object(kind) if kind in {"image_url", "input_audio", "file"} else None
    if holder is None:
        known = "there are text, image_url, input_audio and file, each with its own field"
        raise unknown(part, "type", kind, known)
    if kind == "image_url":
        return _by_url(holder, "url")
    if kind == "input_audio":
        mime = f"audio/{holder.required_text('format')}"
        return _inline(mime, holder.required_text("data"))
    if holder.value("file_id") is not None:
        raise holder.fail("file_id", "files are not kept here; send file_data.")
    return _by_url(holder, "file_data")


def _by_url(holder: Fields, key: str) -> FunctionResponsePart:
    url = holder.required_text(key)
    if not url.startswith("data:"):
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url) is None:
            raise holder.fail(key, f'"{excerpt(url, 40)}" is no URL.')
        return FunctionResponsePart(file_data=FileData(file_uri=url))
    found = _DATA_URL.fullmatch(url)
    if found is None:
        raise holder.fail(key, "must be of the form data:TYPE;base64,DATA.")
    return _inline(found[1], found[2])


def _inline(mime: str, data: str) -> FunctionResponsePart:
    return FunctionResponsePart(inline_data=Blob(mime_type=mime, data=data))


def _model_parts(conversation: Conversation, message: Fields) -> Iterator[Part]:
    thought = message.text("reasoning_content")
    if thought:
        yield Part(text=thought, thought=True)
    for part in _content(message):
        kind = part.required_text("type")
        if kind == "refusal":
            refusal = part.text("refusal")
            if refusal:
                yield Part(text=refusal)
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
    for call in message.objects("tool_calls"):
        yield _call(conversation, call)


def _call(conversation: Conversation, call: Fields) -> Part:
    kind = call.text("type") or "function"
    function = call.object("function")
    if kind != "function" or function is None:
        raise unknown(call, "type", kind, "only functions can be called")
    args = read_arguments(function.text("arguments") or "")
    if args is None:
        raise DialectError("is no JSON object.", function.place("arguments"))
    made = conversation.call(call.required_text("id"), function.required_text("name"), args)
    return Part(function_call=made, thought_signature=signature_of(call))
