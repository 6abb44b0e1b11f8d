"""Contents and their parts, including media and thought signatures, as documented by the Gemini
API.

Every type ignores unknown fields when decoding and never emits them, so requests contain documented
keys only (conformance C4). An `EncodedContent` is encoded once at creation and joined into
requests. Values that JSON or UTF-8 cannot represent are replaced there, so that the stored content
equals the sent one: lone surrogates become U+FFFD; non-finite numbers become the strings "NaN",
"Infinity" and "-Infinity", as in protocol buffers (conformance F8).
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec

from alhena.values import Value
from alhena.wire.errors import EncodeError
from alhena.wire.json_values import as_array, as_object, scrub


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Base of all wire types: camelCase on the wire, defaults omitted."""


class Blob(Wire, frozen=True, kw_only=True):
    """Inline bytes; `data` is standard base64."""

    mime_type: str
    data: str
    display_name: str | None = None


class FileData(Wire, frozen=True, kw_only=True):
    """A file the API stores or can fetch, by URI."""

    file_uri: str
    mime_type: str | None = None
    display_name: str | None = None


class FunctionCall(Wire, frozen=True, kw_only=True):
    """A call the model asks for. `args` is absent on the wire when there are none."""

    id: str | None = None
    name: str = ""
    args: dict[str, Any] | None = None
    partial_args: list[Any] | None = None
    will_continue: bool | None = None


class FunctionResponsePart(Wire, frozen=True, kw_only=True):
    """Media inside a function response (Gemini 3 and later)."""

    inline_data: Blob | None = None
    file_data: FileData | None = None


class FunctionResponse(Wire, Value, frozen=True, kw_only=True):
    """The response to a call. `response` has `output` on success, `error` on failure."""

    id: str | None = None
    name: str = ""
    response: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    parts: tuple[FunctionResponsePart, ...] | None = None
    will_continue: bool | None = None
    scheduling: str | None = None


class ExecutableCode(Wire, frozen=True, kw_only=True):
    """Code the model wrote for server-side execution."""

    language: str = ""
    code: str = ""
    id: str | None = None


class CodeExecutionResult(Wire, frozen=True, kw_only=True):
    """The output of executed code."""

    outcome: str = ""
    output: str | None = None
    id: str | None = None


class ServerToolCall(Wire, frozen=True, kw_only=True):
    """A call executed by the server itself."""

    id: str | None = None
    tool_type: str | None = None
    args: dict[str, Any] | None = None


class ServerToolResponse(Wire, frozen=True, kw_only=True):
    """The server's answer to its own call."""

    id: str | None = None
    tool_type: str | None = None
    response: dict[str, Any] | None = None


class VideoMetadata(Wire, frozen=True, kw_only=True):
    """A range of a video; offsets like "12.5s"."""

    start_offset: str | None = None
    end_offset: str | None = None
    fps: float | None = None


class Part(Wire, frozen=True, kw_only=True):
    """One piece of a content: exactly one data field (`DATA_FIELDS`), plus metadata.

    `thought_signature` is opaque base64 and is returned verbatim on its own part (conformance S2).
    """

    text: str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: ExecutableCode | None = None
    code_execution_result: CodeExecutionResult | None = None
    tool_call: ServerToolCall | None = None
    tool_response: ServerToolResponse | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    video_metadata: VideoMetadata | None = None
    media_resolution: dict[str, Any] | None = None
    part_metadata: dict[str, Any] | None = None


DATA_FIELDS = (
    "text",
    "inline_data",
    "file_data",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
    "tool_call",
    "tool_response",
)
"""The attributes of `Part` of which exactly one is set."""


def holds_data(part: Part) -> bool:
    """True when any of `DATA_FIELDS` is set."""
    return any(getattr(part, field) is not None for field in DATA_FIELDS)


class Content(Wire, Value, frozen=True, kw_only=True):
    """The parts of one turn; `role` is "user" or "model". `signed_by` are the names of the model
    that made its signatures, if that is known; it is not sent."""

    parts: tuple[Part, ...] = ()
    role: str | None = None
    signed_by: tuple[str, ...] | None = None


SIGNATURE_SENTINEL = "skip_thought_signature_validator"
"""The documented placeholder for a signature that a call never had (conformance S4)."""

USER = "user"
MODEL = "model"


def text_content(role: str, *texts: str) -> Content:
    """Builds a content of text parts."""
    return Content(role=role, parts=tuple(Part(text=text) for text in texts))


MEDIA_TYPES = frozenset(
    {
        *("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
        *("audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg"),
        *("audio/flac", "audio/mp4", "audio/m4a", "audio/opus", "audio/webm"),
        *("video/mp4", "video/mpeg", "video/mov", "video/quicktime", "video/avi", "video/x-flv"),
        *("video/mpg", "video/webm", "video/wmv", "video/3gpp"),
        "application/pdf",
    }
)


def takes_media(mime_type: str) -> bool:
    """True when a call's result may contain data of this type (conformance F13)."""
    kind = mime_type.partition(";")[0].strip().lower()
    return kind in MEDIA_TYPES or kind.startswith("text/")


def media_label(answer: FunctionResponse) -> str:
    """The line before media of a result that stand behind the results of several calls."""
    return f"[media of the result of {answer.name}, call {answer.id}]"


def without_thoughts(parts: Iterable[Part]) -> list[Part]:
    """The parts without thoughts. A thought's signature is dropped with it: no other part may carry
    it (conformance S2)."""
    return [part for part in parts if not part.thought]


def sign_first_call(parts: list[Part]) -> bool:
    """Adds the documented placeholder to the first function call if it has no signature; True if
    added (conformance S4)."""
    for index, part in enumerate(parts):
        if part.function_call is not None:
            if part.thought_signature:
                return False
            parts[index] = msgspec.structs.replace(part, thought_signature=SIGNATURE_SENTINEL)
            return True
    return False


INTERRUPTED = "[The previous response was interrupted before it completed.]"


def is_signed(content: Content) -> bool:
    """True if the content has signatures, which only the model that made them can verify."""
    return any(part.thought_signature for part in content.parts)


def for_another_model(content: Content, *, sign_calls: bool) -> Content:
    """`content` without the thoughts and signatures of its model, which no other model can verify.

    Calls and results stay, so that pending calls are answered. With `sign_calls` the first call
    gets the documented sentinel (conformance S4). Parts that held only a signature are removed; the
    content is never empty.
    """
    if content.role != MODEL:
        return content
    parts = [
        msgspec.structs.replace(part, thought_signature=None) if part.thought_signature else part
        for part in content.parts
        if not part.thought
    ]
    parts = [part for part in parts if part.text != "" and holds_data(part)]
    if not parts:
        return text_content(MODEL, INTERRUPTED)
    if sign_calls:
        sign_first_call(parts)
    return msgspec.structs.replace(content, parts=tuple(parts))


class ToolCallRequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A call to schedule. `call_id` is the model's id, or one from `CallIds`. `called_as`: the name
    that the model called when that is not the tool's own."""

    call_id: str
    name: str
    args: dict[str, Any]
    is_client_initiated: bool = False
    prompt_id: str = ""
    checkpoint: str | None = None
    trace_id: str | None = None
    parent_call_id: str | None = None
    scheduler_id: str | None = None
    called_as: str = ""

    @property
    def answered_name(self) -> str:
        """The name that the response to the model carries."""
        return self.called_as or self.name


CALL_TOOL = "call_tool"
"""The declared tool that calls those which are found by search."""


def meant_call(call: FunctionCall) -> FunctionCall:
    """The call that is meant by one of `call_tool`, whose `args` may be called `arguments`, as MCP
    does. Others, and one that does not say a tool and its arguments, as they are."""
    if call.name != CALL_TOOL or not isinstance(call.args, dict):
        return call
    name: object = call.args.get("name")
    args: object = call.args.get("args", call.args.get("arguments"))
    if isinstance(args, str):
        try:
            args = msgspec.json.decode(args) if args.strip() else {}
        except msgspec.DecodeError:
            return call
    known = call.args.keys() <= {"name", "args"} or call.args.keys() == {"name", "arguments"}
    if not known or not isinstance(name, str) or not isinstance(args, dict | None):
        return call
    if name.strip() in ("", CALL_TOOL):
        return call
    given = cast("dict[str, Any]", args or {})
    return msgspec.structs.replace(call, name=name.strip(), args=given)


class CallIds:
    """Generates ids for calls without one: unique in and across sessions, never from a clock."""

    def __init__(self, token: str) -> None:
        """`token` is random text, new for each process that adds to a session."""
        self._token = token
        self._count = 0

    def next(self, name: str) -> str:
        """A new id for a call to `name`."""
        self._count += 1
        return f"{name}-{self._token}-{self._count}"


def request_info(
    call: FunctionCall,
    call_id: str,
    prompt_id: str,
    trace_id: str | None = None,
    *,
    searching: bool = False,
) -> ToolCallRequestInfo:
    """The schedulable form of a model's function call. `trace_id` is that of its response. With
    `searching` a call of `call_tool` is one of the tool that it names."""
    meant = meant_call(call) if searching else call
    return ToolCallRequestInfo(
        call_id=call_id,
        name=meant.name,
        args=meant.args or {},
        prompt_id=prompt_id,
        trace_id=trace_id,
        called_as="" if meant is call else call.name,
    )


T = TypeVar("T")

_encoder = msgspec.json.Encoder()


def encode_value(value: Any) -> bytes:
    """The JSON bytes of a wire value; UnicodeEncodeError for a lone surrogate.

    Raises EncodeError for values without a JSON form: unknown types, cycles, endless nesting.
    """
    return _encode_value(_encoder.encode, value)


def many_encoder() -> Callable[[Any], bytes]:
    """An `encode_value` for many values in one thread: all are first written to the same buffer, so
    that none allocates memory as it grows."""
    place = bytearray()

    def encode(value: Any) -> bytes:
        _encoder.encode_into(value, place)
        return bytes(place)

    return lambda value: _encode_value(encode, value)


def _encode_value(encode: Callable[[Any], bytes], value: Any) -> bytes:
    try:
        return encode(value)
    except RecursionError as error:
        raise EncodeError("a value to send is nested too deeply, or contains itself.") from error
    except (TypeError, OverflowError) as error:
        raise EncodeError(f"a value to send has no JSON form: {error}.") from error


class EncodedContent:
    """A content with its JSON bytes. Equal if the bytes are. `content` is their decoded form.

    Raises EncodeError for a value without a JSON form.
    """

    __slots__ = ("content", "raw", "size")

    def __init__(self, content: Content, encode: Callable[[Content], bytes] = encode_value) -> None:
        if content.signed_by is not None:
            content = msgspec.structs.replace(content, signed_by=None)
        if not _holds_texts_alone(content) and _holds_what_needs_mending(content):
            content = mend(content)
        try:
            raw = encode(content)
        except UnicodeEncodeError:
            content = mend(content)
            raw = encode(content)
        self.content = content
        self.size = len(raw)
        self.raw = msgspec.Raw(raw)

    def __len__(self) -> int:
        """The number of encoded bytes."""
        return self.size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EncodedContent) and bytes(self.raw) == bytes(other.raw)

    def __hash__(self) -> int:
        return hash(bytes(self.raw))

    def __repr__(self) -> str:
        return f"EncodedContent({bytes(self.raw)!r})"


def mend(value: T) -> T:
    """A wire value with scrubbed strings and non-finite numbers as strings."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True)
        return msgspec.convert(_mend_plain(plain), type(value))
    except RecursionError as error:
        raise EncodeError("a value to send is nested too deeply, or contains itself.") from error
    except (TypeError, msgspec.ValidationError) as error:
        raise EncodeError(f"a value to send has no JSON form: {error}.") from error


def _mend_plain(value: object) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if (fields := as_object(value)) is not None:
        return {scrub(key): _mend_plain(item) for key, item in fields.items()}
    if (array := as_array(value)) is not None:
        return [_mend_plain(item) for item in array]
    return value


def _holds_texts_alone(content: Content) -> bool:
    """True when only texts of a content can need repair. That is quickly decided for most, and this
    runs for a whole history before its first send."""
    for part in content.parts:
        if part.part_metadata is not None:
            return False
        if (response := part.function_response) is not None:
            values: object = response.response
        elif (call := part.function_call) is not None:
            values = (call.args or {}) if call.partial_args is None else None
        elif part.text is not None:
            continue
        else:
            return False
        if type(values) is not dict:
            return False
        for value in cast("dict[str, object]", values).values():
            if type(value) is not str:
                return False
    return True


def _holds_what_needs_mending(content: Content) -> bool:
    """Checks the free-form values in a content: they may contain numbers."""
    for part in content.parts:
        call, response = part.function_call, part.function_response
        if call is not None:
            found = needs_mending(call.args) or needs_mending(call.partial_args)
        elif response is not None:
            found = needs_mending(response.response)
        else:
            found = needs_mending(part.tool_call and part.tool_call.args) or needs_mending(
                part.tool_response and part.tool_response.response
            )
        if found or (part.part_metadata is not None and needs_mending(part.part_metadata)):
            return True
    return False


def needs_mending(value: Any) -> bool:
    """True when the encoder would write null for a number in `value`. Types that only msgspec can
    traverse count as True."""
    if not value:
        return False
    waiting: list[Any] = [value]
    seen = 0
    while waiting:
        seen += 1
        item: object = waiting.pop()
        if item is None or isinstance(item, (str, int)):
            continue
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif (fields := as_object(item)) is not None:
            waiting.extend(fields.values())
        elif (array := as_array(item)) is not None:
            waiting.extend(array)
        else:
            return True
        if seen > _MANY:
            return True
    return False


_MANY = 1_000_000
"""Values above this number are left to `mend`, which detects cycles."""
