"""The built-in tools of a session; each is imported with its first call."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from alhena.config.environment import own_environment
from alhena.config.settings import Settings
from alhena.system.workspace import Workspace
from alhena.tools.contract import ModelAccess, Tool
from alhena.tools.declared import LazyTool

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
    def own(self) -> Mapping[str, str]:
        """The environment of programs that alhena runs for itself, such as git."""
        given = own_environment(self.environ)
        return given if self.sandbox is None else self.sandbox.trusted(given)


def builtin_tools(host: ToolHost) -> tuple[Tool, ...]:
    """The tools in the order they are declared."""
    note = {} if host.sandbox is None else {"run_shell_command": host.sandbox.description}
    return tuple(
        LazyTool(name, partial(make, host), note=note.get(name, ""))
        for name, make in _MAKERS.items()
    )


def _list_directory(host: ToolHost) -> Tool:
    from alhena.tools.builtin.list_directory import ListDirectory

    return ListDirectory(host.workspace, environ=host.own, most_characters=host.outputs.threshold)


def _read_file(host: ToolHost) -> Tool:
    from alhena.tools.builtin.read_file import ReadFile

    return ReadFile(host.workspace, most_characters=host.outputs.threshold)


def _read_many_files(host: ToolHost) -> Tool:
    from alhena.tools.builtin.read_many_files import ReadManyFiles

    return ReadManyFiles(host.workspace, environ=host.own)


def _search_file_content(host: ToolHost) -> Tool:
    from alhena.tools.builtin.search_file_content import SearchFileContent

    most = host.outputs.threshold
    return SearchFileContent(host.workspace, environ=host.own, most_characters=most)


def _glob(host: ToolHost) -> Tool:
    from alhena.tools.builtin.glob import Glob

    return Glob(host.workspace, environ=host.own, most_characters=host.outputs.threshold)


def _replace(host: ToolHost) -> Tool:
    from alhena.tools.builtin.replace import Replace

    return Replace(host.workspace)


def _smart_edit(host: ToolHost) -> Tool:
    from alhena.tools.builtin.smart_edit import SmartEdit

    return SmartEdit(host.workspace, host.models.ask)


def _write_file(host: ToolHost) -> Tool:
    from alhena.tools.builtin.write_file import WriteFile

    return WriteFile(host.workspace)


def _run_shell_command(host: ToolHost) -> Tool:
    from alhena.tools.builtin import run_shell_command as shell

    environ, settings = own_environment(host.environ), host.settings
    redaction = settings.security.environment_variable_redaction
    return shell.RunShellCommand(
        host.workspace,
        groups=host.groups,
        environment=shell.ShellEnvironment(environ, redaction, host.sandbox),
        limits=shell.ShellLimits(inactivity=settings.tools.shell.inactivity_timeout),
        outputs=host.outputs,
    )


def _list_background_processes(host: ToolHost) -> Tool:
    from alhena.tools.builtin.list_background_processes import ListBackgroundProcesses

    return ListBackgroundProcesses(host.groups)


def _read_background_output(host: ToolHost) -> Tool:
    from alhena.tools.builtin.read_background_output import ReadBackgroundOutput

    return ReadBackgroundOutput(host.groups)


def _read_tool_output(host: ToolHost) -> Tool:
    from alhena.tools.builtin.read_tool_output import ReadToolOutput

    return ReadToolOutput(host.outputs)


def _web_fetch(host: ToolHost) -> Tool:
    from alhena.tools.builtin.web_fetch import WebFetch

    return WebFetch(host.models.access, host.models.open_fetcher)


def _google_web_search(host: ToolHost) -> Tool:
    from alhena.tools.builtin.google_web_search import GoogleWebSearch

    return GoogleWebSearch(host.models.access)


def _save_memory(host: ToolHost) -> Tool:
    from alhena.config.home import user_memory_path
    from alhena.tools.builtin.save_memory import SaveMemory

    return SaveMemory(user_memory_path(host.environ, host.settings.context.file_names[0]))


def _write_todos(host: ToolHost) -> Tool:
    from alhena.tools.builtin.write_todos import WriteTodos

    del host
    return WriteTodos()


def _get_internal_docs(host: ToolHost) -> Tool:
    from alhena.tools.builtin.get_internal_docs import GetInternalDocs

    del host
    return GetInternalDocs()


_MAKERS: dict[str, Callable[[ToolHost], Tool]] = {
    "list_directory": _list_directory,
    "read_file": _read_file,
    "read_many_files": _read_many_files,
    "search_file_content": _search_file_content,
    "glob": _glob,
    "replace": _replace,
    "smart_edit": _smart_edit,
    "write_file": _write_file,
    "run_shell_command": _run_shell_command,
    "list_background_processes": _list_background_processes,
    "read_background_output": _read_background_output,
    "read_tool_output": _read_tool_output,
    "web_fetch": _web_fetch,
    "google_web_search": _google_web_search,
    "save_memory": _save_memory,
    "write_todos": _write_todos,
    "get_internal_docs": _get_internal_docs,
}
