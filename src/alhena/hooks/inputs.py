"""What each event tells its hooks, beside what every hook is told. Plain JSON values, pure."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from alhena.values import Value


class McpContext(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The server of an MCP tool, without anything secret. `tool_name` is the server's own name."""

    server_name: str
    tool_name: str
    command: str | None = None
    args: tuple[str, ...] | None = None
    cwd: str | None = None
    url: str | None = None
    tcp: str | None = None


def before_tool(
    tool_name: str,
    tool_input: Mapping[str, Any],
    *,
    mcp_context: McpContext | None = None,
    original_request_name: str | None = None,
) -> dict[str, Any]:
    """A call is about to run. `original_request_name` is what the model called, where a tail call
    has taken its place."""
    fields: dict[str, Any] = {"tool_name": tool_name, "tool_input": dict(tool_input)}
    if mcp_context is not None:
        fields["mcp_context"] = msgspec.to_builtins(mcp_context)
    if original_request_name is not None:
        fields["original_request_name"] = original_request_name
    return fields


def after_tool(
    before: Mapping[str, Any], llm_content: Any, return_display: Any, error: Any = None
) -> dict[str, Any]:
    """A call has run. `before` is what BeforeTool was told, with the input it ran with; `error` is
    {message, type}, or None."""
    response = {"llmContent": llm_content, "returnDisplay": return_display, "error": error}
    return {**before, "tool_response": response}


def before_agent(prompt: str) -> dict[str, Any]:
    """A prompt was accepted."""
    return {"prompt": prompt}


def after_agent(prompt: str, prompt_response: str, *, stop_hook_active: bool) -> dict[str, Any]:
    """A prompt was answered. `stop_hook_active`: an AfterAgent hook has sent the agent on before,
    so that one which always does can see that it would be for ever."""
    return {
        "prompt": prompt,
        "prompt_response": prompt_response,
        "stop_hook_active": stop_hook_active,
    }


def notification(message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """A person is asked whether a call may run; `details` is the encoded confirmation."""
    return {
        "notification_type": "ToolPermission",
        "message": message,
        "details": dict(details),
    }


def session_start(source: Literal["startup", "resume", "clear"]) -> dict[str, Any]:
    """A session begins."""
    return {"source": source}


def session_end(
    reason: Literal["exit", "clear", "logout", "prompt_input_exit", "other"],
) -> dict[str, Any]:
    """A session ends."""
    return {"reason": reason}


def pre_compress(trigger: Literal["manual", "auto"]) -> dict[str, Any]:
    """The history is about to be replaced by a summary."""
    return {"trigger": trigger}


def before_model(llm_request: Mapping[str, Any]) -> dict[str, Any]:
    """A request is about to be sent; for BeforeToolSelection, too."""
    return {"llm_request": dict(llm_request)}


def after_model(llm_request: Mapping[str, Any], llm_response: Mapping[str, Any]) -> dict[str, Any]:
    """A chunk of the answer has come, or all of it."""
    return {"llm_request": dict(llm_request), "llm_response": dict(llm_response)}
