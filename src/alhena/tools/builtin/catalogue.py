"""The built-in tools of a session; each is imported with its first call."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.config.environment import own_environment
from alhena.config.settings import Settings
from alhena.system.workspace import Workspace
from alhena.tools.base import LazyTool
from alhena.tools.contract import ModelAccess, Tool

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.system.web.fetch import GuardedFetcher
    from alhena.tools.output_store import OutputStore


class ModelTools(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of the tools that use a model or the web.

    `ask` answers a prompt with text; `open_fetcher` is called when the first page is fetched.
    """

    access: ModelAccess
    ask: Callable[[str], Awaitable[str]]
    open_fetcher: "Callable[[], GuardedFetcher]"


class ToolHost(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of the built-in tools. `groups` receives processes that commands leave running
    (None when nothing is run), `outputs` results that are too long for a model. Commands run in
    `sandbox` if there is one."""

    workspace: Workspace
    environ: Mapping[str, str]
    settings: Settings
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
        given = own_environment(self.environ)
        return given if self.sandbox is None else self.sandbox.trusted_environment(given)


def builtin_tools(host: ToolHost) -> tuple[Tool, ...]:
    """The tools in the order they are declared."""
    note = {} if host.sandbox is None else {"run_shell_command": host.sandbox.description}
    return tuple(
        LazyTool(name, partial(_make, name, host), note=note.get(name, "")) for name in _MAKE
    )


def _make(name: str, host: ToolHost) -> Tool:
    module = import_module(f"alhena.tools.builtin.{_MODULES.get(name, name)}")
    return _MAKE[name](module, host)


def _shell(module: Any, host: ToolHost) -> Tool:
    environ, settings = own_environment(host.environ), host.settings
    redaction = settings.security.environment_variable_redaction
    return module.RunShellCommand(
        host.workspace,
        groups=host.groups,
        environment=module.ShellEnvironment(environ, redaction, host.sandbox),
        limits=module.ShellLimits(inactivity=settings.tools.shell.inactivity_timeout),
        outputs=host.outputs,
    )


def _memory(module: Any, host: ToolHost) -> Tool:
    from alhena.config.home import config_home

    home = config_home(host.environ)
    return module.SaveMemory(home / host.settings.context.names_in(home)[0])


_MAKE: dict[str, Callable[[Any, ToolHost], Tool]] = {
    "list_directory": lambda m, h: m.ListDirectory(
        h.workspace, environ=h.own, most_characters=h.most
    ),
    "read_file": lambda m, h: m.ReadFile(h.workspace, most_characters=h.most),
    "read_many_files": lambda m, h: m.ReadManyFiles(h.workspace, environ=h.own),
    "search_file_content": lambda m, h: m.SearchFileContent(
        h.workspace, environ=h.own, most_characters=h.most
    ),
    "glob": lambda m, h: m.Glob(h.workspace, environ=h.own, most_characters=h.most),
    "replace": lambda m, h: m.Replace(h.workspace),
    "smart_edit": lambda m, h: m.SmartEdit(h.workspace, h.models.ask),
    "write_file": lambda m, h: m.WriteFile(h.workspace),
    "run_shell_command": _shell,
    "list_background_processes": lambda m, h: m.ListBackgroundProcesses(h.groups),
    "read_background_output": lambda m, h: m.ReadBackgroundOutput(h.groups),
    "read_tool_output": lambda m, h: m.ReadToolOutput(h.outputs),
    "web_fetch": lambda m, h: m.WebFetch(h.models.access, h.models.open_fetcher),
    "google_web_search": lambda m, h: m.GoogleWebSearch(h.models.access),
    "save_memory": _memory,
    "write_todos": lambda m, _host: m.WriteTodos(),
    "get_internal_docs": lambda m, _host: m.GetInternalDocs(),
}
"""Tool -> creates it, from its module and the host."""

_MODULES = {
    "glob": "list_directory",
    "replace": "edit_files",
    "smart_edit": "edit_files",
    "write_file": "edit_files",
    "list_background_processes": "background",
    "read_background_output": "background",
}
"""Tool -> its module, unless that has the tool's name."""
