"""The built-in tools, made for a session."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from alhena.config.environment import own_environment
from alhena.config.home import user_memory_path
from alhena.config.settings import Settings
from alhena.system.workspace import Workspace
from alhena.tools.builtin.get_internal_docs import GetInternalDocs
from alhena.tools.builtin.glob import Glob
from alhena.tools.builtin.google_web_search import GoogleWebSearch
from alhena.tools.builtin.list_background_processes import ListBackgroundProcesses
from alhena.tools.builtin.list_directory import ListDirectory
from alhena.tools.builtin.read_background_output import ReadBackgroundOutput
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.read_many_files import ReadManyFiles
from alhena.tools.builtin.read_tool_output import ReadToolOutput
from alhena.tools.builtin.replace import Replace
from alhena.tools.builtin.run_shell_command import RunShellCommand, ShellEnvironment, ShellLimits
from alhena.tools.builtin.save_memory import SaveMemory
from alhena.tools.builtin.search_file_content import SearchFileContent
from alhena.tools.builtin.smart_edit import SmartEdit
from alhena.tools.builtin.web_fetch import WebFetch
from alhena.tools.builtin.write_file import WriteFile
from alhena.tools.builtin.write_todos import WriteTodos
from alhena.tools.contract import ModelAccess, Tool

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox
    from alhena.system.web.fetch import GuardedFetcher
    from alhena.tools.output_store import OutputStore


class ModelTools(msgspec.Struct, frozen=True, kw_only=True):
    """What tools that use a model or the web are given.

    `ask` answers a prompt with text; `open_fetcher` is called when the first page is fetched.
    """

    access: ModelAccess
    ask: Callable[[str], Awaitable[str]]
    open_fetcher: "Callable[[], GuardedFetcher]"


class ToolHost(msgspec.Struct, frozen=True, kw_only=True):
    """What the built-in tools work with. What commands leave running goes to `groups` (None where
    nothing will be run), results that are too long for a model to `outputs`. Commands run in
    `sandbox` where there is one."""

    workspace: Workspace
    environ: Mapping[str, str]
    settings: Settings
    outputs: "OutputStore"
    groups: "ProcessGroups | None"
    sandbox: "Sandbox | None" = None
    models: ModelTools


def builtin_tools(host: ToolHost) -> tuple[Tool, ...]:
    """The tools in the order they are declared."""
    workspace, models, settings = host.workspace, host.models, host.settings
    given = own_environment(host.environ)
    own = given if host.sandbox is None else host.sandbox.trusted(given)
    most = host.outputs.threshold
    redaction = settings.security.environment_variable_redaction
    shell = RunShellCommand(
        workspace,
        groups=host.groups,
        environment=ShellEnvironment(given, redaction, host.sandbox),
        limits=ShellLimits(inactivity=settings.tools.shell.inactivity_timeout),
        outputs=host.outputs,
    )
    return (
        ListDirectory(workspace, environ=own, most_characters=most),
        ReadFile(workspace, most_characters=most),
        ReadManyFiles(workspace, environ=own),
        SearchFileContent(workspace, environ=own, most_characters=most),
        Glob(workspace, environ=own, most_characters=most),
        Replace(workspace),
        SmartEdit(workspace, models.ask),
        WriteFile(workspace),
        shell,
        ListBackgroundProcesses(host.groups),
        ReadBackgroundOutput(host.groups),
        ReadToolOutput(host.outputs),
        WebFetch(models.access, models.open_fetcher),
        GoogleWebSearch(models.access),
        SaveMemory(user_memory_path(host.environ, settings.context.file_names[0])),
        WriteTodos(),
        GetInternalDocs(),
    )
