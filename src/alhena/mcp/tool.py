"""A tool of a server as the registry holds it, and a call of it (MCP-04 to MCP-06)."""

from collections.abc import Callable
from typing import Any

import msgspec

from alhena.mcp.connection import ListedTool
from alhena.mcp.content import content_of, text_of
from alhena.mcp.errors import McpError
from alhena.mcp.gating import shown_to_models
from alhena.mcp.server import Server
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.confirmation import ConfirmationDetails, McpConfirmation
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    ToolErrorType,
    ToolInvocation,
    ToolResult,
)

MAX_SHOWN_ARGS = 2_000
MAX_TOLD_ERROR = 100_000
MAX_PROGRESS = 1_000
"""Lines of progress of one call that are shown."""

Changes = Callable[[Server, ListedTool], str]
"""What of a server's tool is not as it was when it was approved, as a diff; "" for nothing."""
Shown = Callable[[Server], tuple[str, ...]]
"""What a server is, and what else decides that, with nothing secret."""


def _bounded(output: Callable[[str], None]) -> Callable[[str], None]:
    """`output` for so many lines: a server may report without end."""
    left = MAX_PROGRESS

    def show(text: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            output(text if left else f"{text}… further progress is not shown\n")

    return show


class McpTool(DeclarativeTool):
    """A tool of `server`, declared under `name`. What it needs approval for, `changes` says, and
    `shown` what its server is."""

    kind = Kind.OTHER
    is_output_markdown = True
    can_update_output = True

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
        self._description = shown_to_models(listed)

    @property
    def description(self) -> str:
        """What its server says of it, with nothing hidden."""
        return self._description

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """A call."""
        return _Call(self, params, self._changes)


class _Call(BaseInvocation):
    def __init__(self, tool: McpTool, params: dict[str, Any], changes: Changes) -> None:
        super().__init__(params)
        self._tool = tool
        self._changes = changes

    def describe(self) -> str:
        """The call in one line."""
        told = msgspec.json.encode(self.params).decode("utf-8")
        return told if len(told) <= MAX_SHOWN_ARGS else told[:MAX_SHOWN_ARGS] + "…"

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """What to show a person: the call, what the server is, what it says of the tool, what of
        that is new since it was approved."""
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
        """Has the server do it."""
        tool = self._tool
        name = tool.listed.name
        try:
            result = await tool.server.call_tool(name, self.params, _bounded(context.update_output))
        except McpError as error:
            message = f"MCP tool '{name}' of the server '{tool.server.name}' failed: {error}"
            return ToolResult.failed(message, ToolErrorType.MCP_TOOL_ERROR)
        if result.get("isError") in (True, "true"):
            called = f"{tool.name}({self.describe()})"
            message = (
                f"MCP tool '{name}' reported tool error for function call: {called} "
                f"with response: {text_of(result)[:MAX_TOLD_ERROR]}"
            )
            return ToolResult.failed(message, ToolErrorType.MCP_TOOL_ERROR)
        return ToolResult(llm_content=content_of(name, result), display=text_of(result))
