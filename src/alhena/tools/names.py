"""Declared and accepted names of tools.

Calls, settings and policies of other versions keep working; a call is answered under the name it
was made with.
"""

from collections.abc import Mapping, Sequence
from typing import Any

ALIASES: dict[str, str] = {
    "ReadFileTool": "read_file",
    "WriteFileTool": "write_file",
    "edit": "replace",
    "EditTool": "replace",
    "SmartEditTool": "smart_edit",
    "ls": "list_directory",
    "LSTool": "list_directory",
    "GlobTool": "glob",
    "grep": "search_file_content",
    "ripGrep": "search_file_content",
    "grep_search": "search_file_content",
    "GrepTool": "search_file_content",
    "RipGrepTool": "search_file_content",
    "ReadManyFilesTool": "read_many_files",
    "shell": "run_shell_command",
    "ShellTool": "run_shell_command",
    "WebFetchTool": "web_fetch",
    "web_search": "google_web_search",
    "WebSearchTool": "google_web_search",
    "memory": "save_memory",
    "MemoryTool": "save_memory",
    "WriteTodosTool": "write_todos",
    "GetInternalDocsTool": "get_internal_docs",
    "invoke_agent": "delegate_to_agent",
    "DelegateToAgentTool": "delegate_to_agent",
    "AskUserTool": "ask_user",
    "EnterPlanModeTool": "enter_plan_mode",
    "ExitPlanModeTool": "exit_plan_mode",
    "ActivateSkillTool": "activate_skill",
}
"""Accepted name -> declared name."""

READ_RESOURCE = "read_mcp_resource"
"""The built-in tool that reads from MCP servers: rules for servers apply to it too."""

DELEGATE = "delegate_to_agent"
"""The built-in tool that delegates a task to a subagent."""

BUILT_IN = frozenset(
    {
        *ALIASES.values(),
        *("complete_task", "list_background_processes", "list_mcp_resources"),
        *("read_background_output", READ_RESOURCE, "read_tool_output"),
    }
)
"""The declared names of all built-in tools, in every session or not."""

MAX_NAME_LENGTH = 63


def declared_name(name: str) -> str:
    """The declared name of the tool called `name`."""
    return ALIASES.get(name, name)


def all_names(declared: str) -> tuple[str, ...]:
    """All names of the tool declared as `declared`: that name first, then its aliases."""
    return (declared, *(alias for alias, target in ALIASES.items() if target == declared))


def called_names(
    names: Sequence[str], server: str | None, args: Mapping[str, Any]
) -> tuple[str, ...]:
    """The names under which rules match a call of the tool with these `names`: those and, for a
    subagent's task, the subagent's name."""
    agent = args.get("agent_name")
    if server is None and DELEGATE in names and isinstance(agent, str) and agent not in BUILT_IN:
        return (*names, agent)
    return tuple(names)


def qualified_names(server: str, name: str) -> tuple[str, str]:
    """The two accepted names of tool `name` of MCP server `server`."""
    return f"{server}__{name}", f"mcp_{server}_{name}"


def is_declarable(name: str) -> bool:
    """True when `name` may be declared: `[A-Za-z_][A-Za-z0-9_.-]{0,62}`."""
    if not name or len(name) > MAX_NAME_LENGTH or not name.isascii():
        return False
    rest = name.replace("_", "a").replace(".", "a").replace("-", "a")
    return rest.isalnum() and (name[0].isalpha() or name[0] == "_")
