"""Tools of servers, their calls, and results as parts (MCP-04 to MCP-06)."""

import binascii
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from alhena.display_text import exact
from alhena.mcp.connection import ListedTool, McpError
from alhena.mcp.listing import visible_description
from alhena.mcp.server import Server
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecutionContext,
    Kind,
    LlmContent,
    McpConfirmation,
    ToolErrorType,
    ToolInvocation,
    ToolResult,
)
from alhena.wire.content import Blob, Part
from alhena.wire.json_values import as_array, as_object

MAX_MEDIA = 10 * 1024 * 1024
"""Maximum characters of base64 in one result; further media are only named."""

UNREADABLE = "[Error: Could not parse tool response]"


def content_of(tool: str, result: dict[str, Any]) -> LlmContent:
    """The parts of a result, in order. The name of `tool` precedes media. A result without blocks
    is represented by its structured content."""
    blocks = as_array(result.get("content"))
    if blocks is None and result.get("content") is not None:
        return UNREADABLE
    room = _Room(MAX_MEDIA)
    parts = tuple(part for block in blocks or () for part in _parts(tool, _fields(block), room))
    if parts:
        return parts
    structured = result.get("structuredContent")
    return "" if structured is None else _json(structured)


def text_of(result: dict[str, Any]) -> str:
    """The text of a result for people: media and links as short notes in brackets."""
    blocks = as_array(result.get("content")) or []
    lines = [line for block in blocks if (line := _describe_block(_fields(block)))]
    if not lines and result.get("structuredContent") is not None:
        return _json(result["structuredContent"])
    return "\n".join(lines)


class _Room(msgspec.Struct):
    """Remaining characters for media."""

    left: int


def _parts(tool: str, block: dict[str, Any], room: _Room) -> Iterator[Part]:
    match block.get("type"):
        case "text":
            yield Part(text=_text(block, "text"))
        case "image" | "audio" as kind:
            what = f"{kind} data"
            yield from _media(tool, what, block.get("mimeType"), block.get("data"), room)
        case "resource":
            resource = _fields(block.get("resource"))
            if isinstance(resource.get("text"), str):
                yield Part(text=resource["text"])
            elif "blob" in resource:
                mime = resource.get("mimeType") or "application/octet-stream"
                yield from _media(tool, "embedded resource", mime, resource["blob"], room)
        case "resource_link":
            name = _text(block, "title") or _text(block, "name")
            yield Part(text=f"Resource Link: {name} at {_text(block, 'uri')}")
        case _:
            return


def _media(tool: str, what: str, mime: object, data: object, room: _Room) -> Iterator[Part]:
    kind = mime if isinstance(mime, str) and mime else "application/octet-stream"
    note = f"[Tool '{tool}' provided the following {what} with mime-type: {kind}]"
    if not isinstance(data, str) or not is_base64(data):
        yield Part(text=f"{note[:-1]}, but it is not valid base64 and is left out]")
    elif len(data) > room.left:
        yield Part(text=f"{note[:-1]}, but it is too large ({len(data):,} characters)]")
    else:
        room.left -= len(data)
        yield Part(text=note)
        yield Part(inline_data=Blob(mime_type=kind, data=data))


def is_base64(data: str) -> bool:
    """True for strict base64, as models require it."""
    try:
        binascii.a2b_base64(data.encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        return False
    return True


def _describe_block(block: dict[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return _text(block, "text")
        case "image":
            return f"[Image: {block.get('mimeType')}]"
        case "audio":
            return f"[Audio: {block.get('mimeType')}]"
        case "resource_link":
            name = _text(block, "title") or _text(block, "name")
            return f"[Link to {name}: {_text(block, 'uri')}]"
        case "resource":
            resource = _fields(block.get("resource"))
            if isinstance(resource.get("text"), str):
                return resource["text"]
            return f"[Embedded Resource: {resource.get('mimeType') or 'unknown type'}]"
        case other:
            return f"[Unknown content type: {other}]"


def _fields(value: object) -> dict[str, Any]:
    return as_object(value) or {}


def _text(fields: dict[str, Any], key: str) -> str:
    value: object = fields.get(key)
    return value if isinstance(value, str) else ""


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")


MAX_SHOWN_ARGS = 2_000
MAX_TOLD_ERROR = 100_000
MAX_PROGRESS = 1_000
"""Maximum progress lines shown per call."""

Changes = Callable[[Server, ListedTool], str]
"""Returns the changes of a server's tool since its approval as a diff; "" if unchanged."""
Shown = Callable[[Server], tuple[str, ...]]
"""Describes a server by its identifying settings, without secrets."""


def _limit_output(output: Callable[[str], None]) -> Callable[[str], None]:
    """Limits `output` to a number of lines: a server may report without end."""
    left = MAX_PROGRESS

    def show(text: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            output(text if left else f"{text}… further progress is not shown\n")

    return show


class McpTool(DeclarativeTool):
    """A tool of `server`, declared under `name`. `changes` and `shown` supply the changes and the
    server's description for the confirmation."""

    kind = Kind.OTHER
    is_output_markdown = True
    can_update_output = True
    fills_defaults = True

    def __init__(
        self, name: str, server: Server, listed: ListedTool, changes: Changes, shown: Shown
    ) -> None:
        self.name = name
        self.server = server
        self.listed = listed
        self.display_name = f"{listed.title or listed.name} ({server.name} MCP Server)"
        self.parameter_schema = listed.schema
        self._changes = changes
        self.shown = shown
        self._description = visible_description(listed)

    @property
    def description(self) -> str:
        """The server's description with hidden characters made visible."""
        return self._description

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return _McpCall(self, params, self._changes)


class _McpCall(BaseInvocation):
    def __init__(self, tool: McpTool, params: dict[str, Any], changes: Changes) -> None:
        super().__init__(params)
        self._tool = tool
        self._changes = changes

    def describe(self) -> str:
        """Describes the call in one line."""
        told = msgspec.json.encode(self.params).decode("utf-8")
        return told if len(told) <= MAX_SHOWN_ARGS else told[:MAX_SHOWN_ARGS] + "…"

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """Shows the call, the server, the tool's description, and its changes since the
        approval."""
        del context
        tool = self._tool
        return McpConfirmation(
            title="Confirm MCP Tool Execution",
            server_name=tool.server.name,
            server=tool.shown(tool.server),
            tool_name=tool.listed.name,
            tool_display_name=tool.name,
            tool_args=self.params,
            tool_description=tool.listed.description,
            tool_parameter_schema=tool.listed.schema,
            changed=self._changes(tool.server, tool.listed),
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Calls the tool on the server."""
        tool = self._tool
        name = tool.listed.name
        try:
            told = _limit_output(context.update_output)
            result = await tool.server.call_tool(name, self.params, told, context.traceparent)
        except McpError as error:
            message = f"MCP tool '{name}' of the server '{tool.server.name}' failed: {error}"
            return ToolResult.from_failure(message, ToolErrorType.MCP_TOOL_ERROR)
        if result.get("isError") in (True, "true"):
            called = f"{tool.name}({self.describe()})"
            message = (
                f"MCP tool '{name}' reported tool error for function call: {called} "
                f"with response: {text_of(result)[:MAX_TOLD_ERROR]}"
            )
            return ToolResult.from_failure(message, ToolErrorType.MCP_TOOL_ERROR)
        return ToolResult(llm_content=content_of(name, result), display=text_of(result))


MAX_ONE = 8_000
MAX_ALL = 24_000
"""Maximum characters."""

_OPEN = "---[start of server instructions]---"
_CLOSE = "---[end of server instructions]---"


def frame_instructions(said: Iterable[tuple[str, str]]) -> str:
    """The instructions of servers, by name, each in a frame that it cannot close, with hidden
    characters made visible; "" for none."""
    framed: list[str] = []
    left = MAX_ALL
    for server, text in said:
        told = exact(text.strip()[: MAX_ONE + 1]).replace(_CLOSE, "[end of server instructions]")
        if len(told) > MAX_ONE:
            told = told[:MAX_ONE] + "\n[… the rest is left out]"
        if not told:
            continue
        left -= len(told)
        if left < 0:
            framed.append(f"The instructions of the tool server '{server}' are left out: too long.")
            continue
        framed.append(
            f"The following are instructions provided by the tool server '{exact(server)}':\n"
            f"{_OPEN}\n{told}\n{_CLOSE}"
        )
    return "\n\n".join(framed)
