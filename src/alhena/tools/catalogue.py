"""The built-in tools: how a session creates each, with its first call, and their other names.

Every command that knows tools by name reads this table, so it imports nothing of the tools.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from alhena.config.settings import Settings
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.system.web.fetch import GuardedFetcher
    from alhena.system.workspace import Workspace
    from alhena.tools.contract import ModelAccess, Tool, ToolResult
    from alhena.tools.output_store import OutputStore


class ModelTools(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of the tools that use a model or the web.

    `ask` answers a prompt with text; `open_fetcher` is called when the first page is fetched.
    """

    access: "ModelAccess"
    ask: Callable[[str], Awaitable[str]]
    open_fetcher: "Callable[[], GuardedFetcher]"


class ToolHost(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of the built-in tools. `groups` receives processes that commands leave running
    (None when nothing is run), `outputs` results that are too long for a model. Commands run in
    `sandbox` if there is one."""

    workspace: "Workspace"
    environ: Mapping[str, str]
    settings: "Settings"
    outputs: "OutputStore"
    groups: "ProcessGroups | None"
    sandbox: "Sandbox | None" = None
    models: ModelTools

    @property
    def most(self) -> int:
        """Characters a result may have before it goes to `outputs`; 0 for any number."""
        return self.outputs.threshold

    @property
    def own(self) -> Mapping[str, str]:
        """The environment of programs that alhena runs for itself, such as git."""
        from alhena.config.environment import own_environment

        given = own_environment(self.environ)
        return given if self.sandbox is None else self.sandbox.trusted_environment(given)


class BuiltIn(msgspec.Struct, frozen=True):
    """A built-in tool: its module in `builtin`, its creation from that module and the host, and
    its other names. Without `create`, a session that has a use for the tool creates it itself."""

    module: str = ""
    create: "Callable[[Any, ToolHost], Tool] | None" = None
    aliases: tuple[str, ...] = ()


def builtin_tools(host: ToolHost) -> "tuple[Tool, ...]":
    """The tools in the order they are declared."""
    from alhena.tools.base import LazyTool

    note = {} if host.sandbox is None else {"run_shell_command": host.sandbox.description}
    return tuple(
        LazyTool(name, partial(_create, tool.module, tool.create, host), note=note.get(name, ""))
        for name, tool in CATALOGUE.items()
        if tool.create is not None
    )


def _create(module: str, create: "Callable[[Any, ToolHost], Tool]", host: ToolHost) -> "Tool":
    return create(import_module(f"alhena.tools.builtin.{module}"), host)


def _shell(module: Any, host: ToolHost) -> "Tool":
    from alhena.config.environment import own_environment

    environ, settings = own_environment(host.environ), host.settings
    redaction = settings.security.environment_variable_redaction
    return module.RunShellCommand(
        host.workspace,
        groups=host.groups,
        environment=module.ShellEnvironment(
            environ, redaction, host.sandbox, settings.tools.shell.variables
        ),
        limits=module.ShellLimits(inactivity=settings.tools.shell.inactivity_timeout),
        outputs=host.outputs,
        summarise=_summariser(host),
    )


def _summariser(host: ToolHost) -> "Callable[[ToolResult], Awaitable[ToolResult]] | None":
    """Makes the function that shortens results of commands, for `model.summarizeToolOutput`."""
    wanted = host.settings.model.summarize_tool_output
    budget = next((wanted[name] for name in _SHELL_NAMES if name in wanted), None)
    if budget is None:
        return None
    from alhena.tools.output_store import summarise_result

    return partial(summarise_result, ask=host.models.ask, tokens=budget.token_budget)


_SHELL_NAMES = ("run_shell_command", "shell", "ShellTool")


def _memory(module: Any, host: ToolHost) -> "Tool":
    from alhena.config.home import config_home

    home = config_home(host.environ)
    return module.SaveMemory(home / host.settings.context.names_in(home)[0])


CATALOGUE: dict[str, BuiltIn] = {
    "list_directory": BuiltIn(
        "list_directory",
        lambda m, h: m.ListDirectory(h.workspace, environ=h.own, most_characters=h.most),
        ("ls", "LSTool", "ReadFolder"),
    ),
    "read_file": BuiltIn(
        "read_file",
        lambda m, h: m.ReadFile(h.workspace, most_characters=h.most),
        ("ReadFileTool",),
    ),
    "read_many_files": BuiltIn(
        "read_many_files",
        lambda m, h: m.ReadManyFiles(h.workspace, environ=h.own),
        ("ReadManyFilesTool",),
    ),
    "search_file_content": BuiltIn(
        "search_file_content",
        lambda m, h: m.SearchFileContent(
            h.workspace,
            environ=h.own,
            most_characters=h.most,
            program=h.settings.tools.use_ripgrep,
        ),
        ("grep", "ripGrep", "grep_search", "GrepTool", "RipGrepTool", "SearchText"),
    ),
    "glob": BuiltIn(
        "list_directory",
        lambda m, h: m.Glob(h.workspace, environ=h.own, most_characters=h.most),
        ("GlobTool", "FindFiles"),
    ),
    "replace": BuiltIn(
        "edit_files", lambda m, h: m.Replace(h.workspace, h.models.ask), ("edit", "EditTool")
    ),
    "smart_edit": BuiltIn(
        "edit_files", lambda m, h: m.SmartEdit(h.workspace, h.models.ask), ("SmartEditTool",)
    ),
    "write_file": BuiltIn("edit_files", lambda m, h: m.WriteFile(h.workspace), ("WriteFileTool",)),
    "run_shell_command": BuiltIn("run_shell_command", _shell, ("shell", "ShellTool")),
    "list_background_processes": BuiltIn(
        "background", lambda m, h: m.ListBackgroundProcesses(h.groups)
    ),
    "read_background_output": BuiltIn("background", lambda m, h: m.ReadBackgroundOutput(h.groups)),
    "read_tool_output": BuiltIn("read_tool_output", lambda m, h: m.ReadToolOutput(h.outputs)),
    "web_fetch": BuiltIn(
        "web_fetch",
        lambda m, h: m.WebFetch(h.models.access, h.models.open_fetcher),
        ("WebFetchTool",),
    ),
    "google_web_search": BuiltIn(
        "google_web_search",
        lambda m, h: m.GoogleWebSearch(h.models.access),
        ("web_search", "WebSearchTool", "GoogleSearch"),
    ),
    "save_memory": BuiltIn("save_memory", _memory, ("memory", "MemoryTool")),
    "write_todos": BuiltIn("write_todos", lambda m, _host: m.WriteTodos(), ("WriteTodosTool",)),
    "get_internal_docs": BuiltIn(
        "get_internal_docs", lambda m, _host: m.GetInternalDocs(), ("GetInternalDocsTool",)
    ),
    "delegate_to_agent": BuiltIn(aliases=("invoke_agent", "DelegateToAgentTool")),
    "ask_user": BuiltIn(aliases=("AskUserTool",)),
    "enter_plan_mode": BuiltIn(aliases=("EnterPlanModeTool",)),
    "exit_plan_mode": BuiltIn(aliases=("ExitPlanModeTool",)),
    "activate_skill": BuiltIn(aliases=("ActivateSkillTool",)),
    "complete_task": BuiltIn(),
    "list_mcp_resources": BuiltIn(),
    "read_mcp_resource": BuiltIn(),
    "search_tools": BuiltIn(),
    "call_tool": BuiltIn(),
}
"""The tools by their declared names, in the order they are declared."""

SMALL_TOOLS = frozenset(
    {
        *("list_directory", "read_file", "search_file_content", "replace", "write_file"),
        "run_shell_command",
    }
)
"""The built-in tools of a session with the small prompt."""


_PLAIN_NAMES = {
    "read_file": "Read",
    "read_many_files": "Read",
    "read_tool_output": "Read",
    "read_mcp_resource": "Read",
    "list_directory": "List",
    "list_mcp_resources": "List",
    "glob": "Find",
    "search_file_content": "Search",
    "replace": "Edit",
    "smart_edit": "Edit",
    "write_file": "Write",
    "run_shell_command": "Shell",
    "list_background_processes": "Shell",
    "read_background_output": "Shell",
    "web_fetch": "Fetch",
    "google_web_search": "WebSearch",
    "save_memory": "Memory",
    "write_todos": "Tasks",
    "ask_user": "Ask",
    "enter_plan_mode": "Plan",
    "exit_plan_mode": "Plan",
    "activate_skill": "Skill",
    "delegate_to_agent": "Agent",
    "complete_task": "Report",
    "get_internal_docs": "Docs",
    "search_tools": "Find tools",
}


def plain_name(name: str, server: str | None = None) -> str:
    """The name of a tool for people, the same wherever its calls are shown: `Read`; of a server
    `SERVER/TOOL`."""
    if server:
        return f"{server}/{name.removeprefix(f'{server}__').removeprefix(f'mcp_{server}_')}"
    if name not in _PLAIN_NAMES:
        also = (known for known, each in CATALOGUE.items() if name in each.aliases)
        return _PLAIN_NAMES.get(next(also, name), name)
    return _PLAIN_NAMES[name]
