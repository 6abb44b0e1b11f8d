"""All built-in tools, made for a workspace."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from alhena.config.settings import ShellSettings
from alhena.system.workspace import Workspace
from alhena.tools.builtin.glob import Glob
from alhena.tools.builtin.list_directory import ListDirectory
from alhena.tools.builtin.read_file import ReadFile
from alhena.tools.builtin.replace import Replace
from alhena.tools.builtin.run_shell_command import (
    RunShellCommand,
    ShellEnvironment,
    ShellLimits,
)
from alhena.tools.builtin.search_file_content import SearchFileContent
from alhena.tools.builtin.write_file import WriteFile
from alhena.tools.contract import Tool

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups


def builtin_tools(
    workspace: Workspace,
    environ: Mapping[str, str],
    shell: ShellSettings,
    groups: "ProcessGroups | None" = None,
) -> tuple[Tool, ...]:
    """The tools in the order they are declared. What commands leave running goes to `groups`."""
    return (
        ListDirectory(workspace),
        ReadFile(workspace),
        SearchFileContent(workspace),
        Glob(workspace),
        Replace(workspace),
        WriteFile(workspace),
        RunShellCommand(
            workspace,
            groups=groups,
            environment=ShellEnvironment(environ),
            limits=ShellLimits(inactivity=shell.inactivity_timeout),
        ),
    )
