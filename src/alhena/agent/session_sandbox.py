"""The sandbox of a session's commands."""

from typing import TYPE_CHECKING

from alhena.agent.workbench import WorkbenchOptions
from alhena.system.workspace import Workspace

if TYPE_CHECKING:
    from alhena.system.processes import ProcessGroups
    from alhena.system.sandbox.sandbox import Sandbox


def session_sandbox(
    options: WorkbenchOptions, workspace: Workspace, groups: "ProcessGroups"
) -> "tuple[Sandbox | None, str]":
    """What commands run in, closed behind `groups`, and what a person should know of it."""
    tools = options.settings.tools
    if not (options.sandbox or tools.sandbox or options.environ.get("GEMINI_SANDBOX")):
        return None, ""
    from alhena.system.sandbox.model import is_inside, wished

    wish = wished(tools, options.sandbox, options.environ)
    if wish is None:
        return None, ""
    if is_inside(options.environ):
        return None, "SANDBOX is set: commands run in what this process runs in, and no other."
    from alhena.system.sandbox.opening import Surroundings, open_sandbox

    roots = tuple(str(root) for root in workspace.roots)
    sandbox = open_sandbox(wish, Surroundings(roots, options.environ))
    groups.when_ended(sandbox.close)
    return sandbox, sandbox.note
