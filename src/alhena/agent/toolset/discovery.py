"""The tools that a command of the settings lists, in a session (TOOLS-07)."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from alhena.config.environment import own_environment
from alhena.system.environment import child_environment
from alhena.threads import in_daemon_thread
from alhena.tools.discovered import CallCommand, DiscoveredTool, arguments, discover
from alhena.tools.registry import ToolOrigin

if TYPE_CHECKING:
    from alhena.agent.toolset.toolset import Toolset

LISTING = "tools.discoveryCommand"
CALLING = "tools.callCommand"


def add_discovery(bench: "Toolset") -> None:
    """Has the commands of the settings bring their tools before the first prompt. What keeps them
    from it is a warning of the toolset. In a folder that is not trusted they are not run: they
    work in it, and may name a program of it."""
    spec, groups, sandbox = bench.spec, bench.host.groups, bench.host.sandbox
    settings = spec.place.settings
    listing_command = settings.tools.discovery_command or ""
    call_command = settings.tools.call_command or ""
    cwd = str(bench.workspace.cwd)
    redaction = settings.security.environment_variable_redaction

    def warn(problem: str) -> None:
        bench.warnings.append(f"tools.discoveryCommand: {problem}.")

    acceptance = spec.place.acceptance
    held = None if acceptance is None else acceptance.command
    if not bench.authority.surroundings.trusted:
        bench.warnings.append(f"tools.discoveryCommand is not run: {cwd} is not trusted.")
        return
    if acceptance is not None and any(each.key == CALLING for each in acceptance.pending):
        return  # nothing could be called, and that is said where the settings are read

    async def source() -> None:
        if objection := await in_daemon_thread(partial(_objection, call_command, held)):
            warn(objection)
            return
        environ = own_environment(spec.place.environ)
        env = child_environment(environ, redaction).variables
        listing = await discover(listing_command, cwd, env, groups, sandbox)
        for problem in listing.problems:
            warn(problem)
        call = CallCommand(
            text=call_command,
            words=arguments(call_command),
            cwd=cwd,
            environ=environ,
            redaction=redaction,
            sandbox=sandbox,
            groups=groups,
            outputs=bench.host.outputs,
            inactivity=settings.tools.shell.inactivity_timeout,
            why_held=None if held is None else partial(held, CALLING),
        )
        for listed in listing.tools:
            tool = DiscoveredTool(listed, listing_command, call)
            own = (listed.name,) if bench.registry.is_free(listed.name) else ()
            told = bench.registry.register(tool, origin=ToolOrigin.DISCOVERED, accepted=own)
            if told is not None:
                warn(told.removesuffix("."))

    bench.sources.add(source)


def _objection(call_command: str, held: Callable[[str], str] | None) -> str:
    """The reason not to run the discovery command; "" for none. Tools that could not be called are
    not listed. Reads files."""
    if not call_command:
        return "its tools are left out, for tools.callCommand is not set"
    try:
        arguments(call_command)
    except ValueError as error:
        return f"its tools are left out, for tools.callCommand cannot be run: {error}"
    if held is None:
        return ""
    if why := held(LISTING):
        return why
    why = held(CALLING)
    return f"its tools are left out, for tools.callCommand is {why}" if why else ""
