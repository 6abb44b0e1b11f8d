"""The tools that a command of the settings lists, in a session (TOOLS-07)."""

from typing import TYPE_CHECKING

from alhena.system.environment import child_environment
from alhena.tools.builtin.run_shell_command import ShellEnvironment
from alhena.tools.discovered.discovery import discover
from alhena.tools.discovered.listing import arguments
from alhena.tools.discovered.tool import CallCommand, DiscoveredTool
from alhena.tools.registry import Origin

if TYPE_CHECKING:
    from alhena.agent.workbench import Workbench, WorkbenchOptions
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox


def add_discovery(
    bench: "Workbench",
    options: "WorkbenchOptions",
    groups: "ProcessGroups | None",
    sandbox: "Sandbox | None",
) -> None:
    """Has the commands of the settings bring their tools before the first prompt. What keeps them
    from it is a warning of the workbench."""
    settings = options.settings
    listing_command = settings.tools.discovery_command or ""
    call_command = settings.tools.call_command or ""
    cwd = str(bench.workspace.cwd)
    redaction = settings.security.environment_variable_redaction

    def warn(problem: str) -> None:
        bench.warnings += (f"tools.discoveryCommand: {problem}.",)

    async def source() -> None:
        try:
            words = arguments(call_command)
        except ValueError as error:
            warn(f"its tools are left out, for tools.callCommand cannot be run: {error}")
            return
        env = child_environment(options.environ, redaction).variables
        listing = await discover(listing_command, cwd, env, groups, sandbox)
        for problem in listing.problems:
            warn(problem)
        call = CallCommand(
            text=call_command,
            words=words,
            cwd=cwd,
            environment=ShellEnvironment(options.environ, redaction, sandbox),
            groups=groups,
            outputs=bench.outputs,
            inactivity=settings.tools.shell.inactivity_timeout,
        )
        for listed in listing.tools:
            tool = DiscoveredTool(listed, listing_command, call)
            told = bench.registry.register(tool, origin=Origin.DISCOVERED)
            if told is not None:
                warn(told.removesuffix("."))

    bench.sources.add(source)
