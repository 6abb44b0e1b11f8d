"""Contents and their parts, including media and thought signatures, as documented by the Gemini
API.

Every type ignores unknown fields when decoding and never emits them, so requests contain documented
keys only (conformance C4).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from alhena.values import Value


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
    """The parts of one turn; `role` is "user" or "model"."""

    parts: tuple[Part, ...] = ()
    role: str | None = None


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


class ToolCallRequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A call to schedule. `call_id` is the model's id, or one from `CallIds`."""

    call_id: str
    name: str
    args: dict[str, Any]
    is_client_initiated: bool = False
    prompt_id: str = ""
    checkpoint: str | None = None
    trace_id: str | None = None
    parent_call_id: str | None = None
    scheduler_id: str | None = None


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
    call: FunctionCall, call_id: str, prompt_id: str, trace_id: str | None = None
) -> ToolCallRequestInfo:
    """The schedulable form of a model's function call. `trace_id` is that of its response."""
    return ToolCallRequestInfo(
        call_id=call_id,
        name=call.name,
        args=call.args or {},
        prompt_id=prompt_id,
        trace_id=trace_id,
    )
